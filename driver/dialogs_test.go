package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// A policy is its session's alone, and holds on a tab while that session was
// the last to use it.
func TestDialogPolicyIsTheSessions(t *testing.T) {
	s := start(t, "input/dialogs.html")
	d := New(nil)
	defer d.Close()
	run := func(session, operation, input string) (op.Result, error) {
		return d.Run(t.Context(), operation, &Call{ID: "test", Session: op.Session{Key: session}, Conn: s.Conn}, json.RawMessage(input))
	}
	_, err := run("first", "page.dialog", `{"action":"policy","dialogs":"accept"}`)
	assert.NilError(t, err)
	_, err = run("first", "page.evaluate", `{"expression":"alert(1)"}`)
	assert.NilError(t, err)
	_, err = run("second", "page.evaluate", `{"expression":"alert(2)"}`)
	assert.Equal(t, op.AsError(err).Code, op.DialogOpen)
	_, err = run("second", "page.dialog", `{"action":"accept"}`)
	assert.NilError(t, err)
	_, err = run("first", "page.evaluate", `{"expression":"alert(3)"}`)
	assert.NilError(t, err)
}

// Of a dialog that was open before we attached Chrome tells nothing, and nothing
// can answer it but a person: every command says so, and none hangs.
func TestDialogBeforeTheAttach(t *testing.T) {
	s := start(t, "navigate/plain.html")
	s.Eval("void setTimeout(() => { window.said = confirm('Before?') }, 0)")
	// Without its events, that it is open shows by a page that answers nothing.
	for open := false; !open; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		open = s.Conn.Call(ctx, "Runtime.evaluate", map[string]any{"expression": "1"}, nil) != nil
		cancel()
	}
	for _, c := range [][2]string{{"page.snapshot", `{}`}, {"page.dialog", `{"action":"accept"}`}} {
		began := time.Now()
		e := s.Fail(c[0], c[1], op.Rejected, op.DialogOpen)
		assert.Assert(t, strings.Contains(e.Message, "before it was attached"), e.Message)
		assert.Assert(t, strings.Contains(e.Hint, "close the dialog in the browser"), e.Hint)
		assert.Assert(t, time.Since(began) < setupBound+5*time.Second)
	}
}

// Only so many sessions' policies are kept: the one that was set longest ago
// goes.
func TestDialogPoliciesAreBounded(t *testing.T) {
	var p policies
	for i := range maxPolicies + 3 {
		p.set(fmt.Sprint(i), DialogPolicy{Dialogs: acceptDialog})
		p.set("kept", DialogPolicy{Dialogs: dismissDialog})
	}
	assert.Equal(t, len(p.of), maxPolicies)
	assert.Equal(t, len(p.order), maxPolicies)
	assert.Equal(t, p.get("kept").Dialogs, dismissDialog)
	assert.Equal(t, p.get("0"), DialogPolicy{})
}

// An answer that cannot be sent leaves the dialog open, and the next command
// says so. One that was taken, and whose reply was lost, does not.
func TestDialogAnswerFails(t *testing.T) {
	for _, c := range []struct {
		cause error
		open  bool
	}{{op.ErrNotDelivered, true}, {op.ErrReplyLost, false}} {
		s := start(t, "input/dialogs.html")
		s.Call("page.dialog", `{"action":"policy","dialogs":"accept"}`)
		recorded(s).FailNth("Page.handleJavaScriptDialog", 1, c.cause)
		res, err := s.Run("input.click", `{"selector":"#confirm"}`)
		assert.NilError(t, err)
		recorded(s).Reset()
		var got struct{ Open bool }
		s.Value("page.dialog", `{"action":"inspect"}`, &got)
		assert.Equal(t, got.Open, c.open, "%v: %s", c.cause, res.Text)
		if got.Open {
			s.Call("page.dialog", `{"action":"accept"}`)
		}
		s.Call("page.snapshot", `{}`)
		assert.Equal(t, s.Eval(`document.getElementById("answer").textContent`), `"true"`)
	}
}
