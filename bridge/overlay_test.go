package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// While another extension's frame is in the page Chrome refuses every command:
// it is sent again until the frame has gone, or until that has gone on for
// long enough, and then says why.
func TestOverlay(t *testing.T) {
	const refusal = "Cannot access a chrome-extension:// URL of different extension"
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		var gone time.Time // when the frame goes
		cover := func(d time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			gone = time.Now().Add(d)
			p.answer = func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
				if call == "debugger.sendCommand" && time.Now().Before(gone) {
					return nil, errors.New(refusal)
				}
				return w.standard(call, args)
			}
		}
		refused := func(ctx context.Context) time.Duration {
			t.Helper()
			began := time.Now()
			err := evaluate(ctx, tab)
			assert.ErrorIs(t, err, op.ErrCovered)
			assert.ErrorIs(t, err, op.ErrNotDelivered)
			return time.Since(began)
		}

		cover(time.Second)
		began := time.Now()
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, time.Since(began), time.Second)
		assert.Equal(t, len(p.connector().AttachRefusals()), 0)

		// The patience is one for all commands of the tab.
		cover(time.Minute)
		assert.Equal(t, refused(t.Context()), overlayPatience)
		assert.Equal(t, refused(t.Context()), time.Duration(0))
		refusals := p.connector().AttachRefusals()
		assert.Equal(t, len(refusals), 1)
		assert.Equal(t, refusals[0].Cause, CauseOtherExtension)
		assert.Equal(t, refusals[0].TabID, 1)
		time.Sleep(time.Minute)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, len(p.connector().AttachRefusals()), 0)

		// It begins anew with the next frame, and ends with the caller's time:
		// between two tries, since one that is sent in the moment of the end has
		// its reply lost.
		cover(time.Minute)
		limit := time.Second + overlayLook/2
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		assert.Equal(t, refused(ctx), limit)
	})
}
