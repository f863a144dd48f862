package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

func forgetCommand() *command {
	return &command{
		name: "forget", group: groupSetup, args: "[--yes] [PROFILE]", summary: "Clear a pairing without its browser, as when that is gone for good.",
		doc: "PROFILE is the label or id of pi-chrome status; it may be left out when only one is paired. It asks first, unless --yes is given. " +
			"Exactly the profile that was asked about is forgotten. Its browser is not told, and tabs that its sessions own stay open: unpair cleans up on both sides.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			yes := set.Bool("yes", false, "do not ask: tabs that its sessions own are left open")
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) > 1 {
					return output{}, usageError("forget", "pi-chrome forget takes one profile, but got %q too", args[1])
				}
				asks := a.stdinTerminal() && a.env.StderrTerminal && !a.globals.json
				if !*yes && !asks {
					return output{}, usageError("forget", "nothing was forgotten: a pairing that is cleared here still stands in the browser").
						WithHint("pi-chrome unpair cleans up on both sides; if the browser is gone, repeat with --yes")
				}
				dctx, cancel := a.bounded(ctx, 45*time.Second)
				defer cancel()
				c, err := a.dial(dctx)
				if err != nil {
					return output{}, err
				}
				defer c.Close()
				p, err := a.expected(dctx, c, strings.Join(args, ""))
				if err != nil {
					return output{}, err
				}
				if !*yes {
					sure, err := a.sure(ctx, p)
					if err != nil || !sure {
						return output{text: "nothing was forgotten"}, err
					}
					// The person may have taken longer than the command has.
					var again context.CancelFunc
					dctx, again = a.bounded(ctx, 45*time.Second)
					defer again()
				}
				// By its id: another profile may be called so by now.
				return unpair(dctx, c, p.ID, true)
			}
		},
	}
}

// expected is the one paired profile with the name, or the only one.
func (a *app) expected(ctx context.Context, c *client.Client, name string) (bridge.ProfileStatus, error) {
	st, err := owner.Status(ctx, c, a.globals.session)
	if err != nil {
		return bridge.ProfileStatus{}, err
	}
	var hits []bridge.ProfileStatus
	var all []string
	for _, p := range st.Profiles {
		all = append(all, fmt.Sprintf("%s (%s)", p.Label, p.ID))
		if name == "" || p.ID == name || strings.EqualFold(p.Label, name) {
			hits = append(hits, p)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(all) == 0:
		return bridge.ProfileStatus{}, op.NotAvailable(op.ConnectorNotBound, "no browser profile is paired")
	case len(hits) == 0:
		return bridge.ProfileStatus{}, op.Reject(op.BrowserRequired, "no paired browser is called %q; nothing was forgotten", name).WithHint("name one of: %s", strings.Join(all, ", "))
	}
	return bridge.ProfileStatus{}, op.Reject(op.BrowserRequired, "%d paired browsers could be meant; nothing was forgotten", len(hits)).WithHint("give the id of one of: %s", strings.Join(all, ", "))
}

// sure asks the person at the terminal.
func (a *app) sure(ctx context.Context, p bridge.ProfileStatus) (bool, error) {
	state := "not connected"
	if p.Live {
		state = "connected: pi-chrome unpair would clean up on both sides"
	}
	fmt.Fprintf(a.env.Stderr, "forget %q (%s; %s; left open: %s)? [y/N] ", p.Label, p.ID, state, counted(p.OwnedTabs, "tab"))
	answer := make(chan string, 1)
	// Ends with the process when nobody answers: a read of a terminal has no
	// other end.
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(a.env.Stdin, 64)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		return false, op.Reject(op.Canceled, "interrupted; nothing was forgotten")
	}
}

func unpair(ctx context.Context, c *client.Client, profile string, forget bool) (output, error) {
	p, err := owner.Unpair(ctx, c, profile, forget)
	if err != nil {
		return output{}, err
	}
	word := "unpaired"
	if forget {
		word = "forgotten"
	}
	return output{value: p, text: fmt.Sprintf("%s (%s) is %s", p.Label, p.ID, word)}, nil
}
