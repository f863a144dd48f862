package driver

import (
	"context"
	"time"
)

// heldWindow is how an input operation keeps its presses from moving the
// user's focus: Chrome raises the window that shows the tab, and the window is
// put back at once.
type heldWindow struct {
	looked  bool
	putBack func(context.Context) (string, error) // nil where a press moves nothing
	did     string                                // for the receipt
}

// putBackBound is how long putting a window back may take.
const putBackBound = 2 * time.Second

// deliverPress is deliver for an event that presses a button or puts down a
// finger. How the windows stood is read before the first of them.
func (w *witness) deliverPress(ctx context.Context, send func(context.Context) error) error {
	h := &w.window
	if holder, ok := w.t.conn.(WindowHolder); ok && !h.looked {
		var err error
		if h.putBack, err = holder.HoldWindow(ctx); err != nil {
			// The press is what was asked for; it may fail by itself.
			w.t.log.Debug("reading the windows before a press", "error", err)
		}
		h.looked = true
	}
	err := w.deliver(ctx, send)
	if h.putBack == nil {
		return err
	}
	// Also for a caller that has gone, and when the press failed: it may have
	// arrived.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackBound)
	defer cancel()
	did, e := h.putBack(ctx)
	if e != nil {
		did = "Chrome raised it for the press, and it could not be put back: " + e.Error()
	}
	h.did = did
	return err
}
