package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// overlayPatience bounds how long commands wait for another extension's frame
// to leave a page, from the first that Chrome refused for it; overlayLook is
// between two tries.
const (
	overlayPatience = 3 * time.Second
	overlayLook     = 100 * time.Millisecond
)

// isCovered reports whether Chrome refused a call because of another extension's frame
// in the page.
func isCovered(err error) bool {
	p, ok := errors.AsType[*op.ProtocolError](err)
	return ok && strings.Contains(strings.ToLower(p.Message), "different extension")
}

// callDebugger makes a call of the tab's debugger, and again while Chrome refuses it
// because of another extension's frame in the page, as password managers show
// one under a field. Chrome refuses before the call has reached anybody, so
// that it is never carried out twice.
func (t *Tab) callDebugger(ctx context.Context, next func() *call) (json.RawMessage, error) {
	var refusal error
	for {
		raw, err := t.conn.do(ctx, next())
		switch {
		case isCovered(err):
			refusal = err
		case refusal != nil && ctx.Err() != nil && errors.Is(err, op.ErrNotDelivered):
			return nil, t.covered(refusal)
		default:
			if !errors.Is(err, op.ErrNotDelivered) {
				t.uncovered()
			}
			return raw, err
		}
		if !t.awaitUncovered(ctx) {
			return nil, t.covered(refusal)
		}
	}
}

// awaitUncovered waits before the next try; false when that has been done for
// long enough.
func (t *Tab) awaitUncovered(ctx context.Context) bool {
	t.mu.Lock()
	if t.coveredSince.IsZero() {
		t.coveredSince = time.Now()
	}
	patience := time.Until(t.coveredSince.Add(overlayPatience))
	t.mu.Unlock()
	if patience <= 0 {
		return false
	}
	timer := time.NewTimer(min(patience, overlayLook))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// covered is the error of a command that Chrome refused, which doctor tells of
// too.
func (t *Tab) covered(cause error) error {
	id := t.Key().TabID
	t.conn.noteRefusal(id, CauseOtherExtension, op.Reject(op.DebuggerBusy, "tab %d: %s", id, op.ErrCovered))
	return fmt.Errorf("%w: %w: %w", op.ErrCovered, op.ErrNotDelivered, cause)
}

// uncovered notes that a command got through.
func (t *Tab) uncovered() {
	t.mu.Lock()
	was := !t.coveredSince.IsZero()
	t.coveredSince = time.Time{}
	id := t.key.TabID
	t.mu.Unlock()
	if was {
		t.conn.forgetRefusals(id)
	}
}
