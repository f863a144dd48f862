package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
)

// requestCommand is a command that asks the owner for one thing.
func requestCommand(name, group, args, summary, doc string, maxArgs int, run func(a *app, ctx context.Context, c *client.Client, args []string) (output, error)) *command {
	return &command{
		name: name, group: group, args: args, summary: summary, doc: doc,
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, given []string) (output, error) {
				if len(given) > maxArgs {
					return output{}, usageError(name, "pi-chrome %s takes at most %d arguments, but got %q too", name, maxArgs, given[maxArgs])
				}
				ctx, cancel := a.bounded(ctx, 45*time.Second)
				defer cancel()
				c, err := a.dial(ctx)
				if err != nil {
					return output{}, err
				}
				defer c.Close()
				return run(a, ctx, c, given)
			}
		},
	}
}

// withOwner runs one command that asks the owner and takes no arguments.
func (a *app) withOwner(name string, run func(ctx context.Context, c *client.Client) (output, error)) runFunc {
	return func(ctx context.Context, args []string) (output, error) {
		if err := noArgs(name, args); err != nil {
			return output{}, err
		}
		ctx, cancel := a.bounded(ctx, 45*time.Second)
		defer cancel()
		c, err := a.dial(ctx)
		if err != nil {
			return output{}, err
		}
		defer c.Close()
		return run(ctx, c)
	}
}

func cleanupCommand() *command {
	return &command{
		name: "cleanup", group: groupOwner, args: "[--keep]", summary: "End the session (--session): close the tabs that it made, give back those that it claimed.",
		doc: "Claimed tabs are never closed. A tab of which the session said that it is to be kept (tab-release --at-end) is left open too.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			keep := set.Bool("keep", false, "leave all of its tabs to the user, ungrouped, instead of closing them")
			return a.withOwner("cleanup", func(ctx context.Context, c *client.Client) (output, error) {
				end := owner.Cleanup
				if *keep {
					end = owner.Leave
				}
				done, err := end(ctx, c, a.globals.session)
				if err != nil {
					return output{}, err
				}
				return output{value: done, text: fmt.Sprintf("session %s: %s", a.globals.session, cleanupText(done))}, nil
			})
		},
	}
}

func cleanupAllCommand() *command {
	return &command{
		name: "cleanup-all", group: groupOwner, args: "[--keep]", summary: "End every session as cleanup does; tabs of the user stay.",
		doc: "A session whose browser is not connected is left as it is and listed; the exit code is 5 then.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			keep := set.Bool("keep", false, "leave the tabs to the user, ungrouped, instead of closing them")
			return a.withOwner("cleanup-all", func(ctx context.Context, c *client.Client) (output, error) {
				done, err := owner.CleanupAll(ctx, c, *keep)
				if err != nil {
					return output{}, err
				}
				out := output{value: done, text: fmt.Sprintf("%s ended: %s", counted(done.ClearedSessionCount, "session"), cleanupText(done.Cleanup))}
				for _, left := range done.Left {
					out.text += fmt.Sprintf("\nsession %s is left as it is: %s", left.Session, left.Error.Message)
					out.code = exitUnavailable
				}
				return out, nil
			})
		},
	}
}

func cleanupText(done bridge.Cleanup) string {
	text := counted(len(done.ClosedTabIDs), "tab") + " closed"
	if n := len(done.ReleasedTabIDs); n > 0 {
		text += ", " + counted(n, "tab") + " left to the user"
	}
	if n := done.StaleOwnershipsCleared; n > 0 {
		text += ", " + counted(n, "record") + " of lost tabs cleared"
	}
	return text
}

func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func sessionsCommand() *command {
	return &command{
		name: "sessions", group: groupOwner, summary: "List the sessions: their tabs, whether they may use the browser, and their last command.",
		doc: "Tabs that a session left to the user are listed too, the last ten of each. With --json everything is told.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return a.withOwner("sessions", func(ctx context.Context, c *client.Client) (output, error) {
				list, err := owner.Sessions(ctx, c)
				if err != nil {
					return output{}, err
				}
				return output{value: list, text: sessionsText(list, time.Now())}, nil
			})
		},
	}
}

func sessionsText(list []bridge.SessionStatus, now time.Time) string {
	if len(list) == 0 {
		return "no session"
	}
	var b strings.Builder
	for _, st := range list {
		fmt.Fprintf(&b, "%s: %s", st.Key, st.Authorization)
		if !st.ExpiresAt.IsZero() {
			fmt.Fprintf(&b, " %s", st.ExpiresAt.Local().Format("2006-01-02 15:04:05"))
		}
		fmt.Fprintf(&b, ", %s", counted(len(st.Targets), "tab"))
		if n := st.Queued + st.Executing; n > 0 {
			fmt.Fprintf(&b, ", %s under way", counted(n, "command"))
		}
		if st.Policy != nil {
			b.WriteString(", within a policy")
		}
		b.WriteString("\n")
		switch {
		case st.Last != nil:
			fmt.Fprintf(&b, "  last: %s, %s, %s ago\n", st.Last.Operation, st.Last.Outcome, ago(now.Sub(st.Last.At)))
		case !st.LastUsedAt.IsZero():
			fmt.Fprintf(&b, "  last command %s ago\n", ago(now.Sub(st.LastUsedAt)))
		}
		for _, t := range st.Targets {
			marks := t.State
			if t.Claimed {
				marks = "claimed"
			}
			if t.Keep {
				marks += ", to be kept"
			}
			if !t.TakenAt.IsZero() {
				marks += ", the user has it"
			}
			fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("  tab %v (%s) %s %s", deref(t.TabID), marks, t.Title, t.URL), " "))
		}
		for _, t := range st.Released {
			fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("  left tab %d to the user (%s, %s ago) %s %s", t.TabID, t.Why, ago(now.Sub(t.At)), t.Title, t.URL), " "))
		}
	}
	return b.String()
}

// ago is a time span for people: its two largest parts at most.
func ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

func outcomeCommand() *command {
	return requestCommand("outcome", groupOwner, "ID", "Tell what became of a command, by its id.",
		"A command whose caller was cut off may have had its effect all the same; its error names the id. "+
			"The owner remembers the latest 1000 commands that may change something. A state of unknown means that the command never began, "+
			"or only read, or is older than that.", 1,
		func(_ *app, ctx context.Context, c *client.Client, args []string) (output, error) {
			if len(args) == 0 {
				return output{}, usageError("outcome", "pi-chrome outcome needs the id of a command")
			}
			out, err := owner.Outcome(ctx, c, args[0])
			if err != nil {
				return output{}, err
			}
			text, err := outcomeText(out)
			return output{value: out, text: text}, err
		})
}

// outcomeText is an outcome for people.
func outcomeText(out bridge.CommandOutcome) (string, error) {
	of := ""
	if out.Operation != "" {
		of = fmt.Sprintf(" (%s of session %s)", out.Operation, out.Session)
	}
	head := fmt.Sprintf("command %s%s: ", out.ID, of)
	switch out.State {
	case "unknown":
		return head + "not known; it never began, or only read, or is too long ago", nil
	case "queued", "executing":
		return head + out.State, nil
	}
	v, err := wire.DecodeForClient(out.Result)
	r, ok := v.(*wire.Result)
	if err != nil || !ok {
		return "", fmt.Errorf("the outcome of command %s cannot be read: %w", out.ID, err)
	}
	if r.OK {
		text := r.Text
		if text == "" {
			text = string(r.Value)
		}
		return strings.TrimRight(head+"done\n"+text, "\n"), nil
	}
	text := fmt.Sprintf("%s%s (%s): %s", head, r.Error.Kind, r.Error.Code, r.Error.Message)
	if r.Error.Hint != "" {
		text += "\n" + r.Error.Hint
	}
	return text, nil
}

func authorizeCommand() *command {
	return &command{
		name: "authorize", group: groupOwner, args: "[--policy FILE|--no-policy] [MINUTES|indefinite]", summary: "Let the session (--session) use the browser.",
		doc: "Sessions of other programs start locked. MINUTES is 1 to 10080, such as 30 or 30m; without it the session may use the browser until pi-chrome revoke. " +
			"A policy bounds what the session may do; docs/policy.md describes its file. It stays with the session until it is replaced or taken away.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			file := set.String("policy", "", "`file` with the session's policy, JSON; - for stdin")
			none := set.Bool("no-policy", false, "take the session's policy away")
			return func(ctx context.Context, args []string) (output, error) { return a.authorize(ctx, args, *file, *none) }
		},
	}
}

func (a *app) authorize(ctx context.Context, args []string, file string, none bool) (output, error) {
	limit := 0
	if len(args) > 1 {
		return output{}, usageError("authorize", "pi-chrome authorize takes at most 1 argument, but got %q too", args[1])
	}
	if len(args) == 1 && args[0] != "indefinite" {
		n, err := minutes(args[0])
		if err != nil {
			return output{}, usageError("authorize", "MINUTES is %q; allowed: 1 to 10080, or indefinite", args[0])
		}
		limit = n
	}
	policy, err := a.policyText(file, none)
	if err != nil {
		return output{}, err
	}
	ctx, cancel := a.bounded(ctx, 45*time.Second)
	defer cancel()
	c, err := a.dial(ctx)
	if err != nil {
		return output{}, err
	}
	defer c.Close()
	auth, err := owner.AuthorizeWith(ctx, c, a.globals.session, limit, policy)
	if err != nil {
		return output{}, err
	}
	text := fmt.Sprintf("session %s may use the browser", a.globals.session)
	if auth.Mode == bridge.AuthorizedUntil {
		text += " until " + auth.Until.Local().Format("15:04:05")
	}
	switch {
	case none:
		text += ", without a policy"
	case file != "":
		text += ", within the policy of " + file
	}
	return output{value: auth, text: text}, nil
}

// policyText is what the owner is told: nothing, the file's text, or null.
func (a *app) policyText(file string, none bool) ([]byte, error) {
	switch {
	case none && file != "":
		return nil, usageError("authorize", "give one of --policy and --no-policy")
	case none:
		return []byte("null"), nil
	case file == "":
		return nil, nil
	case file == "-":
		text, err := a.stdin()
		if err != nil {
			return nil, err
		}
		return policyOrError([]byte(text))
	}
	return a.policyFile("authorize", file)
}

// policyFile reads the policy that a command was given.
func (a *app) policyFile(command, file string) ([]byte, error) {
	raw, err := os.ReadFile(absolute(a.env.Dir, file))
	if err != nil {
		return nil, usageError(command, "the policy cannot be read: %s", err)
	}
	return policyOrError(raw)
}

// policyOrError checks the file here already: what is not JSON would not reach
// the owner. The tools' names are the owner's to check.
func policyOrError(raw []byte) ([]byte, error) {
	if _, err := bridge.ParsePolicy(raw, nil); err != nil {
		return nil, err
	}
	return raw, nil
}

func revokeCommand() *command {
	return requestCommand("revoke", groupOwner, "", "Lock the session (--session): what it has queued is withdrawn.", "", 0,
		func(a *app, ctx context.Context, c *client.Client, _ []string) (output, error) {
			auth, err := owner.Revoke(ctx, c, a.globals.session)
			if err != nil {
				return output{}, err
			}
			return output{value: auth, text: fmt.Sprintf("session %s is locked", a.globals.session)}, nil
		})
}

func unpairCommand() *command {
	return requestCommand("unpair", groupSetup, "[PROFILE]", "Give up a paired browser: its sessions' tabs are closed, then the pairing is cleared.",
		"PROFILE is the label or id of pi-chrome status; it may be left out when only one is paired.", 1,
		func(a *app, ctx context.Context, c *client.Client, args []string) (output, error) {
			return unpair(ctx, c, strings.Join(args, ""), false)
		})
}

// statusText is the text of `status`.
func statusText(st bridge.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Readiness)
	fmt.Fprintf(&b, "owner %s on port %d, process %d, since %s\n", st.Bridge.Version, st.Bridge.Port, st.Bridge.PID, st.Bridge.StartedAt.Local().Format("2006-01-02 15:04:05"))
	if len(st.Profiles) == 0 {
		b.WriteString("no browser is paired\n")
	}
	for _, p := range st.Profiles {
		state := "not connected"
		if p.Live {
			state = fmt.Sprintf("connected, %s %s, extension %s, %d of its tabs debugged", p.Browser.Family, p.Browser.Version, p.DisplayVersion, p.AttachedTabs)
		}
		fmt.Fprintf(&b, "browser %q (%s): %s\n", p.Label, p.ID, state)
		if p.Refused != nil {
			fmt.Fprintf(&b, "  refused: %s\n", p.Refused.Message)
		}
	}
	fmt.Fprintf(&b, "session %s: %s", st.Session.Key, st.Session.Authorization)
	if !st.Session.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, " %s", st.Session.ExpiresAt.Local().Format("15:04:05"))
	}
	fmt.Fprintf(&b, ", %s\n", counted(len(st.Session.Targets), "tab"))
	if w := st.Session.Web; w != nil {
		fmt.Fprintf(&b, "  attached to %q by the page at %s until %s\n", w.Label, w.Origin, w.ExpiresAt.Local().Format("2006-01-02 15:04"))
	}
	for _, t := range st.Session.Targets {
		raw := fmt.Sprintf("  tab %v %s %s", deref(t.TabID), t.Title, t.URL)
		b.WriteString(strings.TrimRight(raw, " ") + "\n")
	}
	for _, r := range st.Requirements {
		if !r.OK {
			fmt.Fprintf(&b, "to do: %s\n", r.Mend)
		}
	}
	return b.String()
}

func deref[T any](p *T) any {
	if p == nil {
		return "?"
	}
	return *p
}
