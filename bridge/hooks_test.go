package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"
)

// TestMessagesOfPagesDoNotWait: while hooks are held up, what pages send and
// what tells of no tab cannot pile up, and drives out no event of a tab.
func TestMessagesOfPagesDoNotWait(t *testing.T) {
	release := make(chan struct{})
	var resets, removed, messages, others atomic.Int64
	hooks := Hooks{
		Reset: func(ctx context.Context, _ *Connector, _ ResetReason) {
			resets.Add(1)
			<-release
		},
		TabRemoved: func(*Connector, int) { removed.Add(1) },
		Other: func(_ *Connector, event string, _ []json.RawMessage) {
			if event == pageMessage {
				messages.Add(1)
			} else {
				others.Add(1)
			}
		},
	}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		release = make(chan struct{})
		w := p.worker().open()
		synctest.Wait()
		big := strings.Repeat("x", 1<<10)
		for range maxHookQueue + 5 {
			w.event(pageMessage, big, map[string]any{"origin": "http://localhost:1", "frameId": 0})
		}
		for range 3 * maxSpare {
			w.event("downloads.onChanged", struct{}{})
		}
		for i := range 7 {
			w.event("tabs.onRemoved", 1000+i, struct{}{})
		}
		synctest.Wait()
		assert.Check(t, messages.Load() == maxHookQueue+5, "%d were told at once", messages.Load())
		assert.Check(t, p.connector().hooks.len() == maxSpare+7, "%d wait", p.connector().hooks.len())
		close(release)
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		synctest.Wait()
		assert.Equal(t, removed.Load(), int64(7))
		assert.Equal(t, others.Load(), int64(maxSpare))
		assert.Equal(t, resets.Load(), int64(1))
		w.event("downloads.onChanged", struct{}{}) // there is room again
		synctest.Wait()
		assert.Equal(t, others.Load(), int64(maxSpare+1))
	})
}
