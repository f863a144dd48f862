package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// silentConn is a tab that cannot be read: the call for it was never delivered,
// as when the caller has left or the browser's socket is lost.
type silentConn struct{ Conn }

func (silentConn) Info(context.Context) (op.Tab, error) {
	return op.Tab{}, fmt.Errorf("tabs.get: %w: %w", context.Canceled, op.ErrNotDelivered)
}

// TestLandedIsNotUndone: a navigation that was done and whose tab cannot be
// read afterwards may have had an effect. It was once told as one that changed
// nothing.
func TestLandedIsNotUndone(t *testing.T) {
	s := start(t, "navigate/plain.html")
	d := New(nil)
	defer d.Close()
	conn := silentConn{recorded(s)}
	for _, run := range [][2]string{
		{"page.navigate", `{"url":"` + s.Site.URL("navigate/plain.html") + `?again"}`},
		{"page.history", `{"action":"reload"}`},
	} {
		_, err := d.Run(t.Context(), run[0], &Call{ID: "test", Session: op.Session{Key: "test"}, Conn: conn}, json.RawMessage(run[1]))
		e := op.AsError(err)
		assert.Equal(t, e.Kind, op.OutcomeUnknown, "%s: %s", run[0], e.Message)
	}
}
