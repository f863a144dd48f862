package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// pairingLifetime is how long a token lives; the owner decides it.
const pairingLifetime = 120 * time.Second

// onboarding is one run of `onboard`.
type onboarding struct {
	a        *app
	folder   install.Folder
	token    bool
	pick     string
	profiles int
	another  bool
	life     time.Duration // of the token
}

func onboardCommand() *command {
	return &command{
		name: "onboard", group: groupSetup, args: "[--token] [--pick LABEL] [--profiles N] [--another] [--for TIME]",
		summary: "Install the extension, start the owner and pair a browser profile.",
		doc: "Writes the extension's folder where it is missing or old, starts an owner, and puts a one-time token into the folder: the extension that is loaded from it finds the token and is paired. " +
			"Load the folder once: chrome://extensions, Developer mode, Load unpacked. " +
			"When several profiles answer, none is paired: choose one with --pick, or confirm that N are wanted with --profiles. " +
			"With --token nothing is written: the token is shown, and typed into the popup of the wanted profile. A token is good for one profile, and for 2 minutes or the shorter time of --for.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			o := &onboarding{a: a}
			set.BoolVar(&o.token, "token", false, "show a token to type into the extension's popup")
			set.StringVar(&o.pick, "pick", "", "pair the profile with this `label` or id")
			set.IntVar(&o.profiles, "profiles", 1, "pair this `many` profiles at once [1 to 16]")
			set.BoolVar(&o.another, "another", false, "pair another profile although one is connected")
			set.DurationVar(&o.life, "for", pairingLifetime, "how long the token is good, a `time` from 1s to 2m")
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("onboard", args); err != nil {
					return output{}, err
				}
				if o.profiles < 1 || o.profiles > 16 {
					return output{}, usageError("onboard", "profiles is %d; allowed: 1 to 16", o.profiles).WithDetail("field", "profiles")
				}
				if o.life < time.Second || o.life > pairingLifetime {
					return output{}, usageError("onboard", "--for is %s; allowed: 1s to %s", o.life, pairingLifetime).WithDetail("field", "for")
				}
				if o.token && (o.pick != "" || o.profiles > 1) {
					return output{}, usageError("onboard", "--token pairs the profile in which it is typed; it goes with neither --pick nor --profiles")
				}
				return o.run(ctx)
			}
		},
	}
}

// shortTime is a whole number of seconds, or of minutes, in words.
func shortTime(d time.Duration) string {
	if d%time.Minute == 0 {
		return counted(int(d/time.Minute), "minute")
	}
	return counted(int(d.Seconds()), "second")
}

// say tells the person what to do; it goes to stderr, since stdout is the
// result's.
func (o *onboarding) say(format string, args ...any) {
	o.a.clearBar()
	fmt.Fprintf(o.a.env.Stderr, format+"\n", args...)
}

func (o *onboarding) run(ctx context.Context) (output, error) {
	o.folder = install.Default(o.a.globals.stateDir)
	if o.a.globals.portNumber == 0 {
		return output{}, usageError("onboard", "port is 0; the extension needs a port of its owner: 1 to 65535")
	}
	before, err := o.folder.Info()
	if err != nil {
		return output{}, err
	}
	o.folder.Progress = o.a.progress
	report, err := o.folder.Write(o.a.globals.portNumber)
	if err != nil {
		return output{}, err
	}
	if report.Written > 0 {
		o.say("extension %s written to %s", report.Version, report.Dir)
	}
	c, err := o.a.dial(ctx)
	if err != nil {
		return output{}, err
	}
	defer c.Close()
	st, err := owner.Status(ctx, c, o.a.globals.session)
	if err != nil {
		return output{}, err
	}
	if live := liveLabels(st); len(live) > 0 && !o.another && !o.token && o.pick == "" && o.profiles == 1 {
		return output{value: map[string]any{"paired": []any{}, "live": live},
			text: fmt.Sprintf("%s is paired and connected already; pi-chrome onboard --another pairs one more", strings.Join(live, ", "))}, nil
	}
	if !before.Installed || len(st.Profiles) == 0 {
		o.explain()
	}
	ctx, cancel := o.a.bounded(ctx, pairingLifetime+5*time.Second)
	defer cancel()
	done, err := o.pair(ctx, c)
	if err != nil {
		return output{}, err
	}
	return o.finish(ctx, c, done)
}

func liveLabels(st bridge.Status) []string {
	var labels []string
	for _, p := range st.Profiles {
		if p.Live {
			labels = append(labels, p.Label)
		}
	}
	return labels
}

// explain tells how an unpacked extension is loaded, and what will be seen.
func (o *onboarding) explain() {
	o.say(`
In the browser profile that pi-chrome may work in:
  1. open chrome://extensions
  2. switch on "Developer mode" (top right)
  3. click "Load unpacked" and choose the folder
       %s

While pi-chrome works in a tab the browser shows a banner, "pi-chrome started
debugging this browser". That is expected: closing it ends the work and locks
the sessions until pi-chrome authorize.
`, o.folder.Dir)
}

// pair starts a pairing and waits for its end. The token is worthless and out
// of the folder when it returns, however it does.
func (o *onboarding) pair(ctx context.Context, c *client.Client) (bridge.PairingStatus, error) {
	st, err := owner.StartPairing(ctx, c, bridge.PairingOptions{Folder: !o.token, Profiles: o.profiles, Pick: o.pick, Seconds: int(o.life.Seconds())})
	if err != nil {
		return st, err
	}
	token := st.Token
	if o.token {
		o.say("type this token into the pi-chrome popup of the wanted profile within %s:\n\n    %s\n", shortTime(o.life), grouped(token))
	} else {
		if err := o.folder.SetToken(o.a.globals.portNumber, token); err != nil {
			return st, errors.Join(err, o.cancel(c))
		}
		o.a.note("waiting for the extension…")
	}
	st, err = o.wait(ctx, c)
	if !o.token {
		err = errors.Join(err, o.folder.ClearToken())
	}
	if err != nil {
		return st, errors.Join(err, o.cancel(c))
	}
	return st, nil
}

// cancel makes the token worthless; the caller's context may have ended.
func (o *onboarding) cancel(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return owner.CancelPairing(ctx, c)
}

func (o *onboarding) wait(ctx context.Context, c *client.Client) (bridge.PairingStatus, error) {
	st, err := owner.WaitPairing(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			return st, o.nobody(c, "no extension was paired before the time was over")
		}
		return st, err
	}
	if st.State == bridge.PairingAmbiguous {
		label, err := o.ask(st.Offers)
		if err != nil {
			return st, err
		}
		if _, err := owner.PickPairing(ctx, c, label); err != nil {
			return st, err
		}
		if st, err = owner.WaitPairing(ctx, c); err != nil {
			return st, err
		}
	}
	switch st.State {
	case bridge.PairingDone:
		return st, nil
	case bridge.PairingExpired:
		return st, o.nobody(c, "the token expired: no extension was paired within "+shortTime(o.life))
	case bridge.PairingCanceled:
		return st, op.Reject(op.PairingUnavailable, "the pairing was canceled: another one was started").WithHint("let only one pi-chrome onboard run at a time")
	}
	return st, op.Reject(op.PairingUnavailable, "the pairing ended as %q", st.State)
}

// picked says that the profile that was picked did not answer, others did.
func (o *onboarding) picked(offers []bridge.PairingOffer) error {
	var labels []string
	for _, f := range offers {
		labels = append(labels, f.Label)
	}
	return op.NotAvailable(op.PairingUnavailable, "no profile %q answered; there answered: %s. None was paired", o.pick, strings.Join(labels, ", ")).
		WithHint("open the wanted profile, or pick one of those; a profile's popup shows its name and can change it").WithDetail("offers", offers)
}

// nobody says why no extension may have come, from what the owner refused.
func (o *onboarding) nobody(c *client.Client, what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if st, err := owner.PairingState(ctx, c); err == nil && o.pick != "" && len(st.Offers) > 0 {
		return o.picked(st.Offers)
	}
	e := op.NotAvailable(op.PairingUnavailable, "%s", what).
		WithHint("load the folder %s in chrome://extensions (Developer mode, Load unpacked), check that the extension is on, then run pi-chrome onboard again", o.folder.Dir)
	if o.token {
		e.WithHint("run pi-chrome onboard --token again and type the new token into the popup of the extension")
	}
	facts, err := owner.Facts(ctx, c)
	if err != nil || len(facts.Refusals) == 0 || time.Since(facts.Refusals[0].At) > pairingLifetime+10*time.Second {
		return e
	}
	r := facts.Refusals[0]
	e.Message += "; the last one was refused: " + r.Message
	return e.WithDetail("refusal", r)
}

// ask lets the person at the terminal choose one of several profiles.
func (o *onboarding) ask(offers []bridge.PairingOffer) (string, error) {
	var labels []string
	for _, f := range offers {
		labels = append(labels, f.Label)
	}
	several := op.Reject(op.PairingUnavailable, "%d profiles answered and none was paired: %s", len(offers), strings.Join(labels, ", ")).
		WithHint("pi-chrome onboard --pick LABEL pairs one of them; --profiles %d pairs them all", len(offers)).WithDetail("offers", offers)
	if o.pick != "" {
		several.WithHint("pick one by its id: %s", ids(offers, o.pick))
	}
	if !o.a.stdinTerminal() || !o.a.env.StderrTerminal || o.a.globals.json {
		return "", several
	}
	o.say("%d profiles answered:", len(offers))
	for i, f := range offers {
		o.say("  %d  %s (%s %s, extension %s)", i+1, f.Label, f.Browser.Family, f.Browser.Version, f.DisplayVersion)
	}
	fmt.Fprint(o.a.env.Stderr, "pair which one? ")
	line, err := bufio.NewReader(io.LimitReader(o.a.env.Stdin, 256)).ReadString('\n')
	answer := strings.TrimSpace(line)
	if err != nil && answer == "" {
		return "", several
	}
	for i, f := range offers {
		if answer == fmt.Sprint(i+1) || answer == f.Label {
			return f.ConnectorID, nil
		}
	}
	return "", several
}

// ids lists the offers with the label.
func ids(offers []bridge.PairingOffer, label string) string {
	var parts []string
	for _, f := range offers {
		if strings.EqualFold(f.Label, label) {
			parts = append(parts, f.ConnectorID)
		}
	}
	return strings.Join(parts, ", ")
}

// finish waits until the paired profile is connected.
func (o *onboarding) finish(ctx context.Context, c *client.Client, done bridge.PairingStatus) (output, error) {
	var labels []string
	for _, p := range done.Paired {
		labels = append(labels, p.Label)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := owner.Status(ctx, c, o.a.globals.session)
		if err != nil && ctx.Err() == nil {
			return output{}, err
		}
		missing := err != nil || slices.ContainsFunc(done.Paired, func(p bridge.PairingOffer) bool {
			return !slices.ContainsFunc(st.Profiles, func(s bridge.ProfileStatus) bool { return s.ID == p.ConnectorID && s.Live })
		})
		if !missing {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return output{}, op.NotAvailable(op.ConnectorOffline, "%s is paired but has not connected", strings.Join(labels, ", ")).WithHint("its popup says why; pi-chrome doctor looks at everything")
		}
	}
	return output{value: map[string]any{"paired": done.Paired}, text: fmt.Sprintf("%s is paired and connected; try: pi-chrome navigate https://example.org && pi-chrome snapshot", strings.Join(labels, ", "))}, nil
}

// grouped writes a token in groups of four, as it is easier to type.
func grouped(token string) string {
	var parts []string
	for chunk := range slices.Chunk([]rune(token), 4) {
		parts = append(parts, string(chunk))
	}
	return strings.Join(parts, " ")
}
