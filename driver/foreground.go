package driver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// inFront reports whether the call shows its tab: its field background, else
// the session's setting, says so. A call cannot take the focus where its
// session may not.
func (c *Call) inFront(o op.Operation[*Call], input json.RawMessage) (bool, error) {
	if c.passesBy(o) {
		return false, nil
	}
	var in struct {
		Background *bool `json:"background"`
	}
	if json.Unmarshal(input, &in) != nil || in.Background == nil {
		return c.Session.Foreground, nil // what is wrong with the input, its validation says
	}
	return !*in.Background, c.mayShow(in.Background)
}

// passesBy reports whether the operation runs beside others: it answers what
// they wait for, and moves nothing.
func (c *Call) passesBy(o op.Operation[*Call]) bool {
	d, err := o.Descriptor()
	return err != nil || d.PassesBy
}

// mayShow refuses to show a tab where the session works in the background.
func (c *Call) mayShow(background *bool) error {
	if background == nil || *background || c.Session.Foreground {
		return nil
	}
	return op.Reject(op.BackgroundMode, "session %q works in the background: background must not be false; nothing was done", c.Session.Key).
		WithHint("go on without background: every tool works on a hidden tab; only the user can let the session take the focus (--foreground on a command line, /chrome background off in Pi)").
		WithDetail("session", c.Session.Key)
}

// show brings the tab to the front of its window, and gives that the focus.
func (t *Tab) show(ctx context.Context) error {
	if _, err := call(ctx, t.conn, page.BringToFront, cdp.Empty{}); err != nil {
		return fmt.Errorf("showing the tab: %w", err)
	}
	return nil
}
