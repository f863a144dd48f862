package driver

import (
	"context"
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// takenOverConn is a tab in which another navigation takes the place of ours
// after Chrome has taken it on and before its document comes.
type takenOverConn struct {
	Conn
	listener func(op.Event)
}

func (c *takenOverConn) Listen(fn func(op.Event)) func() {
	c.listener = fn
	return c.Conn.Listen(fn)
}

func (c *takenOverConn) Call(ctx context.Context, method string, params, result any) error {
	if method != "Page.navigate" {
		return c.Conn.Call(ctx, method, params, result)
	}
	frame := c.Conn.Key().TargetID
	event, err := json.Marshal(map[string]any{"frame": map[string]any{"id": frame, "loaderId": "THEIRS", "url": "https://other.test/", "urlFragment": ""}})
	if err != nil {
		return err
	}
	c.listener(op.Event{Method: "Page.frameNavigated", Params: event})
	return json.Unmarshal([]byte(`{"frameId":"`+frame+`","loaderId":"OURS"}`), result)
}

// TestNavigateTakenOver: a navigation whose place another took may still have
// reached its server.
func TestNavigateTakenOver(t *testing.T) {
	s := start(t, "navigate/plain.html")
	d := New(nil)
	defer d.Close()
	conn := &takenOverConn{Conn: recorded(s)}
	_, err := d.Run(t.Context(), "page.navigate", &Call{ID: "test", Session: op.Session{Key: "test"}, Conn: conn},
		json.RawMessage(`{"url":"`+s.Site.URL("navigate/plain.html")+`?again"}`))
	e := op.AsError(err)
	assert.Equal(t, e.Kind, op.OutcomeUnknown, e.Message)
	assert.Equal(t, e.Code, op.NavigationInterrupted, e.Message)
	assert.Assert(t, e.Hint != "")
}
