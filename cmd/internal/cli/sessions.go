package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
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

func cleanupCommand() *command {
	return requestCommand("cleanup", groupOwner, "", "Close the tabs that the session (--session) owns.", "", 0,
		func(a *app, ctx context.Context, c *client.Client, _ []string) (output, error) {
			done, err := owner.Cleanup(ctx, c, a.globals.session)
			if err != nil {
				return output{}, err
			}
			return output{value: done, text: fmt.Sprintf("session %s: %d tabs closed", a.globals.session, len(done.ClosedTabIDs))}, nil
		})
}

func authorizeCommand() *command {
	return requestCommand("authorize", groupOwner, "[MINUTES|indefinite]", "Let the session (--session) use the browser.",
		"Sessions of other programs start locked. MINUTES is 1 to 10080, such as 30 or 30m; without it the session may use the browser until pi-chrome revoke.", 1,
		func(a *app, ctx context.Context, c *client.Client, args []string) (output, error) {
			limit := 0
			if len(args) == 1 && args[0] != "indefinite" {
				n, err := minutes(args[0])
				if err != nil {
					return output{}, usageError("authorize", "MINUTES is %q; allowed: 1 to 10080, or indefinite", args[0])
				}
				limit = n
			}
			auth, err := owner.Authorize(ctx, c, a.globals.session, limit)
			if err != nil {
				return output{}, err
			}
			text := fmt.Sprintf("session %s may use the browser", a.globals.session)
			if auth.Mode == bridge.AuthorizedUntil {
				text += " until " + auth.Until.Local().Format("15:04:05")
			}
			return output{value: auth, text: text}, nil
		})
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
	fmt.Fprintf(&b, ", %d tabs\n", len(st.Session.Targets))
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
