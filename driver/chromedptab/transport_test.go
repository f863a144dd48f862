package chromedptab

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// scripted is a tab that answers each call with err or nothing.
type scripted struct {
	err error
	fn  func(op.Event)
}

func (s *scripted) Call(context.Context, string, any, any) error { return s.err }
func (*scripted) Subscribe(string) (<-chan jsonv2.Value, func()) { return nil, func() {} }
func (s *scripted) Listen(fn func(op.Event)) (stop func())       { s.fn = fn; return func() { s.fn = nil } }
func (*scripted) Key() op.TabKey                                 { return op.TabKey{TabID: 7, TargetID: "T"} }
func ask(t *testing.T, c *transport, m cdproto.Message) (a cdproto.Message) {
	t.Helper()
	assert.NilError(t, c.Write(t.Context(), &m))
	assert.NilError(t, c.Read(t.Context(), &a))
	assert.Equal(t, a.ID, m.ID)
	return a
}

func TestAnswers(t *testing.T) {
	tab := &scripted{}
	c := newTransport(t.Context(), tab)
	attach := func(id string) cdproto.Message {
		return ask(t, c, cdproto.Message{ID: 1, Method: "Target.attachToTarget", Params: jsonv2.Value(`{"targetId":"` + id + `"}`)})
	}
	assert.Equal(t, string(attach("T").Result), `{"sessionId":"tab"}`)
	assert.ErrorContains(t, attach("other").Error, "No target with given id found")
	assert.ErrorContains(t, ask(t, c, cdproto.Message{ID: 2, Method: "Browser.close"}).Error, "only one of its tabs is here")
	assert.ErrorContains(t, ask(t, c, cdproto.Message{ID: 3, SessionID: "gone", Method: "Page.enable"}).Error, "Session with given id not found")
	assert.Equal(t, string(ask(t, c, cdproto.Message{ID: 4, SessionID: session, Method: "Page.enable"}).Result), "{}")
	tab.err = fmt.Errorf("wrapped: %w", &op.ProtocolError{Method: "Page.navigate", Code: -32602, Message: "Cannot navigate"})
	got := ask(t, c, cdproto.Message{ID: 5, SessionID: session, Method: "Page.navigate"}).Error
	assert.DeepEqual(t, got, &cdproto.Error{Code: -32602, Message: "Cannot navigate"})
	tab.err = fmt.Errorf("the tab is gone: %w", op.ErrNotDelivered)
	assert.ErrorContains(t, ask(t, c, cdproto.Message{ID: 6, SessionID: session, Method: "Page.navigate"}).Error, "not delivered")

	// Events of other sessions are the owner's.
	tab.fn(op.Event{SessionID: "child", Method: "Page.loadEventFired"})
	tab.fn(op.Event{Method: "Page.loadEventFired", Params: []byte(`{"timestamp":1}`)})
	var m cdproto.Message
	assert.NilError(t, c.Read(t.Context(), &m))
	assert.Equal(t, fmt.Sprint(m.SessionID, m.Method, string(m.Params)), `tabPage.loadEventFired{"timestamp":1}`)

	// The end of the debugger session is told, and ends the connection.
	tab.fn(op.Event{Detached: "target_closed"})
	assert.NilError(t, c.Read(t.Context(), &m))
	assert.Equal(t, string(m.Method), "Target.detachedFromTarget")
	assert.ErrorContains(t, c.Read(t.Context(), &m), "the debugger of tab 7 was detached: target_closed")
	c.wait()
	assert.Assert(t, tab.fn == nil)
}

// TestBehind: who does not read loses the connection, and is told why.
func TestBehind(t *testing.T) {
	tab := &scripted{}
	c := newTransport(t.Context(), tab)
	for range maxQueue + 1 {
		tab.fn(op.Event{Method: "Network.dataReceived"})
	}
	var m cdproto.Message
	for range maxQueue {
		assert.NilError(t, c.Read(t.Context(), &m))
	}
	assert.ErrorIs(t, c.Read(t.Context(), &m), errBehind)
	c.wait()
}
