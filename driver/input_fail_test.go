package driver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// Every call of every input operation fails once, in each way a call can. The
// error is typed and truthful, nothing stays pressed, and the next operation
// on the tab works.
func TestInputFailNth(t *testing.T) {
	for _, tt := range []struct{ name, operation, input string }{
		{"click", "input.click", `{"selector":"#button"}`},
		{"fill", "input.fill", `{"selector":"#field","text":"new"}`},
		{"chord", "input.key", `{"key":"Control+Shift+K","selector":"#field"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, "input/keys.html")
			s.Eval(`window.pressed = new Set(); window.buttons = 0; window.clicks = 0;
				addEventListener("keydown", (e) => pressed.add(e.code), true); addEventListener("keyup", (e) => pressed.delete(e.code), true);
				for (const type of ["mousedown", "mouseup", "mousemove"]) addEventListener(type, (e) => { buttons = e.buttons; }, true);
				addEventListener("click", () => clicks++, true)`)
			s.Call(tt.operation, tt.input) // what a first call of a tab sets up is there now
			recorded(s).Reset()
			s.Call(tt.operation, tt.input)
			n := len(recorded(s).Calls())
			assert.Assert(t, n > 5 && n < 40, "%d calls", n)
			for i := 1; i <= n; i++ {
				for _, cause := range []error{op.ErrNotDelivered, op.ErrReplyLost, &op.ProtocolError{Method: "any", Message: "made to fail"}} {
					s.Eval("clicks = 0")
					recorded(s).Reset()
					recorded(s).FailNth("", i, cause)
					_, err := s.Run(tt.operation, tt.input)
					calls := recorded(s).Calls()
					recorded(s).Reset()
					checkFailed(t, s, err, calls, fmt.Sprintf("call %d: %v", i, cause))
				}
			}
			s.Call(tt.operation, tt.input)
		})
	}
}

func checkFailed(t *testing.T, s *drivertest.Scenario, err error, calls []drivertest.Recorded, what string) {
	t.Helper()
	entered := false // an event of the press reached the page
	for _, c := range calls {
		input := strings.Contains(c.Params, "mousePressed") || c.Method == "Input.dispatchKeyEvent" || c.Method == "Input.insertText"
		entered = entered || input && !errors.Is(c.Err, op.ErrNotDelivered)
	}
	if err != nil {
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, "%s: %v", what, err)
		if entered {
			assert.Equal(t, e.Kind, op.OutcomeUnknown, "%s: %s", what, e.Message)
		}
		assert.Assert(t, e.Message != "" && e.Hint != "", what)
	}
	assert.Equal(t, s.Eval("[...pressed]"), "[]", what)
	// A lost reply of a press or release still was one click, never two.
	clicks := s.Eval("clicks")
	assert.Assert(t, clicks == "0" || clicks == "1", "%s: %s clicks", what, clicks)
	s.Call("input.key", `{"key":"Escape"}`)
	s.Call("input.click", `{"x":5,"y":5}`)
	assert.Equal(t, s.Eval("buttons"), "0", what)
}

// A caller who leaves in the middle of a press leaves nothing pressed.
func TestInputCanceled(t *testing.T) {
	s := start(t, "input/click-log.html")
	s.Eval(`window.buttons = -1; for (const type of ["mousedown", "mouseup"]) addEventListener(type, (e) => { buttons = e.buttons; }, true)`)
	d := New(nil)
	defer d.Close()
	for i, when := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		ctx, cancel := context.WithCancel(t.Context())
		recorded(s).Reset()
		recorded(s).BeforeNth("Input.dispatchMouseEvent", i+1, cancel)
		began := time.Now()
		_, err := d.Run(ctx, "input.click", &Call{ID: "x", Session: op.Session{Key: "x"}, Conn: s.Conn}, []byte(`{"selector":"#button"}`))
		cancel()
		assert.Assert(t, time.Since(began) < 3*time.Second)
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, "%s: %v", when, err)
		assert.Equal(t, e.Code, op.Canceled)
		buttons := s.Eval("buttons")
		assert.Assert(t, buttons == "0" || buttons == "-1" && i < 2, "%s: %s", when, buttons)
	}
}

// Another extension's frame over the page is named, and nothing is lost.
func TestInputOtherExtension(t *testing.T) {
	s := start(t, "input/keys.html")
	s.Call("input.fill", `{"selector":"#field","text":"kept"}`)
	recorded(s).FailNth("Input.dispatchKeyEvent", 1, fmt.Errorf("%w: %w", op.ErrNotDelivered, &op.ProtocolError{Method: "Input.dispatchKeyEvent",
		Message: "Cannot access a chrome-extension:// URL of different extension"}))
	e := s.Fail("input.key", `{"key":"x","selector":"#field"}`, op.Rejected, op.DebuggerBusy)
	assert.Assert(t, strings.Contains(e.Hint, "another extension"), e.Hint)
	s.Call("input.key", `{"key":"x","selector":"#field"}`)
	assert.Equal(t, s.Eval("field.value"), `"keptx"`)
}

// An element that stands where its snapshot saw it is pressed after one look.
func TestInputStandsStill(t *testing.T) {
	s := start(t, "input/click-log.html")
	ref := refOf(s, `button "Click me"`)
	s.Call("input.click", map[string]any{"ref": ref})
	recorded(s).Reset()
	s.Call("input.click", map[string]any{"ref": ref})
	var before []string
	for _, c := range recorded(s).Calls() {
		if strings.Contains(c.Params, "mouseReleased") {
			break
		}
		before = append(before, c.Method)
	}
	assert.Assert(t, len(before) <= 7, "%v", before)
}

// refOf takes a snapshot and returns the ref of the action whose line has the
// words.
func refOf(s *drivertest.Scenario, words string) string {
	s.T.Helper()
	text := s.Call("page.snapshot", `{"mode":"interactive"}`).Text
	for line := range strings.Lines(text) {
		if strings.Contains(line, words) {
			if ref := regexp.MustCompile(`@el-\d+`).FindString(line); ref != "" {
				return ref
			}
		}
	}
	s.T.Fatalf("no %q in %s", words, text)
	return ""
}
