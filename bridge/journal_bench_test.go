package bridge

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// BenchmarkDurableCommand is what the journal adds to a command that may
// mutate: durable before the effect, durable before the answer.
func BenchmarkDurableCommand(b *testing.B) {
	st, _, err := openStore(b.TempDir(), time.Second)
	assert.NilError(b, err)
	defer st.Close()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint(i)
		assert.NilError(b, st.begin(journalEntry{ID: id, Operation: "input.click", Session: "default", State: journalExecuting, StartedAt: time.Now()}))
		assert.NilError(b, st.finish(id, wire.Result{OK: true, Value: []byte(`{"action":{"clicked":"button"}}`)}))
	}
}
