package cli

import (
	"context"
	"fmt"

	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
)

func attachCommand() *command {
	return requestCommand("attach", groupSetup, "OFFER", "Attach the session (--session) to the browser whose page made the offer.",
		"A page at http://localhost:30141 or http://127.0.0.1:30141 offers the profile that shows it: it makes up 64 random hex digits, sends "+
			`{"type":"pi-chrome/offer","version":1,"offer":"…"} to the extension, and gives the digits to whoever runs this. `+
			"An offer is good once, for two minutes. The session then works in that profile only, for 12 hours; afterwards its commands fail, and go to no other profile, "+
			"until it is attached again or detached. pi-chrome serve --web-origin allows other pages of this machine.", 1,
		func(a *app, ctx context.Context, c *client.Client, args []string) (output, error) {
			if len(args) == 0 {
				return output{}, usageError("attach", "give the offer that the page made")
			}
			r, err := owner.Claim(ctx, c, a.globals.session, args[0])
			if err != nil {
				return output{}, err
			}
			return output{value: r, text: fmt.Sprintf("session %s is attached to %q by the page at %s until %s", r.Session, r.Label, r.Origin, r.ExpiresAt.Local().Format("2006-01-02 15:04"))}, nil
		})
}

func detachCommand() *command {
	return requestCommand("detach", groupSetup, "", "End what attach did for the session (--session); its tabs stay.", "", 0,
		func(a *app, ctx context.Context, c *client.Client, _ []string) (output, error) {
			r, err := owner.Detach(ctx, c, a.globals.session)
			if err != nil {
				return output{}, err
			}
			return output{value: r, text: fmt.Sprintf("session %s is not attached to %q any more", r.Session, r.Label)}, nil
		})
}
