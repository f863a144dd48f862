package owner

import (
	"context"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/driver/op"
)

// Status asks how the owner, the profiles and the session stand.
func Status(ctx context.Context, c *client.Client, session string) (bridge.Status, error) {
	return ask[bridge.Status](ctx, c, "status", bridge.SessionParams{Session: session})
}

// Facts asks for what a diagnosis needs.
func Facts(ctx context.Context, c *client.Client) (bridge.DoctorFacts, error) {
	return ask[bridge.DoctorFacts](ctx, c, "doctor", nil)
}

// Outcome asks what became of a command.
func Outcome(ctx context.Context, c *client.Client, id string) (bridge.CommandOutcome, error) {
	return ask[bridge.CommandOutcome](ctx, c, "outcome", bridge.OutcomeParams{ID: id})
}

// Refs asks for the refs that snapshots of a tab have shown; tab 0 is the
// session's only one.
func Refs(ctx context.Context, c *client.Client, session string, tab int) ([]op.Ref, error) {
	return ask[[]op.Ref](ctx, c, "refs", bridge.RefsParams{Session: session, TabID: tab})
}

// Shutdown asks the owner to end after the commands that run.
func Shutdown(ctx context.Context, c *client.Client, reason string) error {
	return c.Request(ctx, "shutdown", bridge.ShutdownParams{Reason: reason}, nil)
}

// Cleanup ends a session: its tabs are closed, or left to the user where it
// claimed them.
func Cleanup(ctx context.Context, c *client.Client, session string) (bridge.Cleanup, error) {
	return ask[bridge.Cleanup](ctx, c, "cleanup", bridge.CleanupParams{Session: session})
}

// Leave ends a session and leaves all of its tabs to the user.
func Leave(ctx context.Context, c *client.Client, session string) (bridge.Cleanup, error) {
	return ask[bridge.Cleanup](ctx, c, "cleanup", bridge.CleanupParams{Session: session, Keep: true})
}

// CleanupAll ends every session as Cleanup does.
func CleanupAll(ctx context.Context, c *client.Client, keep bool) (bridge.CleanupAll, error) {
	return ask[bridge.CleanupAll](ctx, c, "cleanup-all", bridge.CleanupAllParams{Keep: keep})
}

// Sessions lists the sessions that the owner knows.
func Sessions(ctx context.Context, c *client.Client) ([]bridge.SessionStatus, error) {
	return ask[[]bridge.SessionStatus](ctx, c, "sessions", nil)
}

// Running lists the commands that the owner has in hand.
func Running(ctx context.Context, c *client.Client) ([]bridge.RunningCommand, error) {
	return ask[[]bridge.RunningCommand](ctx, c, "running", nil)
}

// Authorize lets a session use the browser, for so many minutes or, with 0,
// until it is revoked.
func Authorize(ctx context.Context, c *client.Client, session string, minutes int) (bridge.Authorization, error) {
	p := bridge.AuthorizeParams{Session: session, Mode: bridge.AuthorizedIndefinite, Minutes: minutes}
	if minutes > 0 {
		p.Mode = bridge.AuthorizedUntil
	}
	return ask[bridge.Authorization](ctx, c, "authorize", p)
}

// AuthorizeWith is Authorize with a policy, the text of its file, or with
// "null" for none any more.
func AuthorizeWith(ctx context.Context, c *client.Client, session string, minutes int, policy []byte) (bridge.Authorization, error) {
	p := bridge.AuthorizeParams{Session: session, Mode: bridge.AuthorizedIndefinite, Minutes: minutes, Policy: policy}
	if minutes > 0 {
		p.Mode = bridge.AuthorizedUntil
	}
	return ask[bridge.Authorization](ctx, c, "authorize", p)
}

// Revoke locks a session.
func Revoke(ctx context.Context, c *client.Client, session string) (bridge.Authorization, error) {
	return ask[bridge.Authorization](ctx, c, "revoke", bridge.SessionParams{Session: session})
}

// Unpair gives a profile up; with forget without asking its browser.
func Unpair(ctx context.Context, c *client.Client, profile string, forget bool) (Profile, error) {
	method := "unpair"
	if forget {
		method = "forget"
	}
	return ask[Profile](ctx, c, method, bridge.ConnectorParams{Connector: profile})
}

// Claim attaches a session to the profile whose page made the offer.
func Claim(ctx context.Context, c *client.Client, session, offer string) (bridge.WebRoute, error) {
	return ask[bridge.WebRoute](ctx, c, "web.claim", bridge.ClaimParams{Session: session, Offer: offer})
}

// Detach ends what Claim made.
func Detach(ctx context.Context, c *client.Client, session string) (bridge.WebRoute, error) {
	return ask[bridge.WebRoute](ctx, c, "web.detach", bridge.SessionParams{Session: session})
}

// Profile names a paired profile.
type Profile struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// ReloadExtension has the extension of a profile start the release that lies
// in its folder.
func ReloadExtension(ctx context.Context, c *client.Client, profile string) (Profile, error) {
	return ask[Profile](ctx, c, "extension.reload", bridge.ConnectorParams{Connector: profile})
}

// StartPairing starts a pairing and returns its one-time token.
func StartPairing(ctx context.Context, c *client.Client, o bridge.PairingOptions) (bridge.PairingStatus, error) {
	return ask[bridge.PairingStatus](ctx, c, "pairing.start", o)
}

// PairingState asks how far the pairing is.
func PairingState(ctx context.Context, c *client.Client) (bridge.PairingStatus, error) {
	return ask[bridge.PairingStatus](ctx, c, "pairing.status", nil)
}

// WaitPairing waits until the pairing is over, or several profiles offered
// themselves.
func WaitPairing(ctx context.Context, c *client.Client) (bridge.PairingStatus, error) {
	return ask[bridge.PairingStatus](ctx, c, "pairing.wait", nil)
}

// PickPairing chooses one of several offered profiles.
func PickPairing(ctx context.Context, c *client.Client, label string) (bridge.PairingStatus, error) {
	return ask[bridge.PairingStatus](ctx, c, "pairing.pick", bridge.PickParams{Label: label})
}

// CancelPairing makes the token worthless.
func CancelPairing(ctx context.Context, c *client.Client) error {
	return c.Request(ctx, "pairing.cancel", nil, nil)
}

func ask[T any](ctx context.Context, c *client.Client, method string, params any) (T, error) {
	var out T
	err := c.Request(ctx, method, params, &out)
	return out, err
}
