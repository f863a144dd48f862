package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/input"

	"pi-chrome/driver/op"
)

// releaseBound is how long letting go of a button or key may take when
// something else has already gone wrong.
const releaseBound = 2 * time.Second

// blockedBound is the same where a dialog is in the way: long enough for the
// release to be sent.
const blockedBound = 50 * time.Millisecond

// pointerButtons are the bits of MouseEvent.buttons.
var pointerButtons = map[string]int64{"left": 1, "right": 2, "middle": 4}

// moveTo moves the pointer along the pace's path to the point and returns when
// the page has taken in the last move.
func (t *Tab) moveTo(ctx context.Context, w *witness, to point, size float64, p *pace) error {
	t.mu.Lock()
	from := t.input.pointer
	t.mu.Unlock()
	for _, at := range p.path(from, to, size) {
		// A move is answered after the next frame, which is also the step of
		// the path.
		if err := w.deliver(ctx, func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.DispatchMouseEvent, input.DispatchMouseEventParams{
				Type: input.DispatchMouseEventTypeMouseMoved, X: at.x, Y: at.y})
			return err
		}); err != nil {
			return fmt.Errorf("moving the pointer: %w", err)
		}
	}
	t.mu.Lock()
	t.input.pointer = to
	t.mu.Unlock()
	return nil
}

// press presses and releases the button at the point, clicks times. It begins
// the call's effect. The button is let go of whatever happens; when the page
// opens a dialog or goes away meanwhile, that is no error: the witness tells.
func (t *Tab) press(ctx context.Context, c *Call, w *witness, at point, button string, clicks int, p *pace) error {
	for i := 1; i <= clicks; i++ {
		if i > 1 {
			if err := sleep(ctx, p.between()); err != nil {
				return err
			}
		}
		if err := t.pressOnce(ctx, c, w, at, button, i, p); err != nil {
			return err
		}
		if w.over() {
			return nil
		}
	}
	return nil
}

func (t *Tab) pressOnce(ctx context.Context, c *Call, w *witness, at point, button string, count int, p *pace) error {
	event := func(kind input.DispatchMouseEventType, buttons int64) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.DispatchMouseEvent, input.DispatchMouseEventParams{
				Type: kind, X: at.x, Y: at.y, Button: input.MouseButton(button), Buttons: buttons, ClickCount: int64(count)})
			return err
		}
	}
	down := event(input.DispatchMouseEventTypeMousePressed, pointerButtons[button])
	up := event(input.DispatchMouseEventTypeMouseReleased, 0)

	if count == 1 {
		if err := w.fence(c); err != nil {
			return err
		}
	}
	c.begin()
	w.inputAt()
	err := w.deliverPress(ctx, down)
	switch {
	case err == nil || errors.Is(err, errDialog):
	case w.gone(err):
		return nil
	case errors.Is(err, op.ErrNotDelivered) && count == 1:
		c.noEffect()
		return fmt.Errorf("pressing the button: %w", err)
	default:
		t.letGo(ctx, w, up)
		return fmt.Errorf("pressing the button: %w", cleared(err))
	}
	dialog := errors.Is(err, errDialog)
	// Once pressed, the button is released even for a caller who has left.
	held := sleep(ctx, p.hold())
	if dialog {
		t.letGo(ctx, w, up)
		return nil
	}
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callBound)
	defer cancel()
	if held == nil {
		rctx = ctx
	}
	w.inputAt()
	err = w.deliver(rctx, up)
	switch {
	case err == nil || errors.Is(err, errDialog) || w.gone(err):
		return held
	case errors.Is(err, op.ErrNotDelivered):
		// The page waits for the release; one that never arrived is safe to
		// send again.
		if err2 := t.letGo(ctx, w, up); err2 == nil {
			return held
		}
	default:
		t.letGo(ctx, w, up)
	}
	return fmt.Errorf("releasing the button: %w", cleared(err))
}

// letGo sends a release on its own bound, whatever became of the call.
func (t *Tab) letGo(ctx context.Context, w *witness, up func(context.Context) error) error {
	bound := releaseBound
	if w.over() {
		bound = blockedBound // no answer comes before the dialog is closed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	err := up(ctx)
	if err != nil {
		t.log.Debug("letting go", "error", err)
	}
	return err
}

// cause is the error of a call that failed, told as one after an effect where
// there may have been one.
func (c *Call) cause(err error) error {
	if c.effects.Load() {
		return cleared(err)
	}
	return err
}

// cleared is an error after something was already pressed: that a later event
// was not delivered must not pass for "had no effect". What else is known of it
// stays.
func cleared(err error) error {
	if errors.Is(err, op.ErrNotDelivered) {
		return lateError{err}
	}
	return err
}

// lateError is an error that is anything but op.ErrNotDelivered. It is not
// unwrapped: an *op.Error in it may say that nothing was done.
type lateError struct{ err error }

func (e lateError) Error() string { return e.err.Error() }

func (e lateError) Is(target error) bool {
	return target != op.ErrNotDelivered && errors.Is(e.err, target)
}
