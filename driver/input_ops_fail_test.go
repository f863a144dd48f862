package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// inputFailCase is an input operation that is made to fail at each of its calls.
type inputFailCase struct {
	name, page, operation, input string
	again                        string // puts the page back before each run
	most                         int    // calls that it makes at most
}

func inputFailCases(t *testing.T) []inputFailCase {
	note := filepath.Join(t.TempDir(), "note.txt")
	assert.NilError(t, os.WriteFile(note, []byte("hello"), 0o600))
	return []inputFailCase{
		{"type", "input/keys.html", "input.type", `{"text":"aB","into":{"by":"selector","value":"#field"},"pressEnter":true}`, "", 30},
		{"hover", "input/hover-menu.html", "input.hover", `{"at":{"by":"selector","value":"#account"}}`, "", 40},
		{"tap", "input/touch.html", "input.tap", `{"at":{"by":"selector","value":"#button"}}`, "", 30},
		{"swipe", "input/touch.html", "input.tap", `{"at":{"by":"selector","value":"#pad"},"to":{"by":"coordinate","x":50,"y":100},"steps":2}`, "", 40},
		{"drag-mouse", "input/drag-mouse.html", "input.drag", `{"from":{"by":"selector","value":"#box"},"to":{"by":"selector","value":"#hole"},"steps":1}`, `box.style.left = box.style.top = "20px"; scrollTo(0, 0)`, 45},
		{"drag-html5", "input/drag-html5.html", "input.drag", `{"from":{"by":"selector","value":"#card"},"to":{"by":"selector","value":"#done"},"steps":1}`, `todo.append(card); scrollTo(0, 0)`, 50},
		{"scroll", "input/scroll.html", "input.scroll", `{"within":{"by":"selector","value":"#list"},"deltaY":100}`, `list.scrollTop = 0; scrollTo(0, 0)`, 30},
		{"scroll-into-view", "input/scroll.html", "input.scroll", `{"intoView":{"by":"selector","value":"#far"}}`, `scrollTo(0, 0)`, 30},
		{"upload", "input/upload.html", "input.upload", fmt.Sprintf(`{"selector":"#one","paths":[%q]}`, note), `document.getElementById("one").value = ""`, 30},
		{"upload-chooser", "input/upload.html", "input.upload", fmt.Sprintf(`{"selector":"#attach","paths":[%q]}`, note), `attached.value = ""`, 45},
		{"upload-drop", "input/upload.html", "input.upload", fmt.Sprintf(`{"selector":"#zone","paths":[%q]}`, note), "", 40},
		{"select", "input/choose.html", "input.select", `{"selector":"#one","label":"Beta"}`, `one.value = "a"`, 30},
		{"select-list", "input/choose.html", "input.select", `{"selector":"#list","label":"Apple"}`, `list.children[0].ariaSelected = "false"; scrollTo(0, 0)`, 40},
		{"find", "input/click-log.html", "input.click", `{"find":{"role":"button","name":"Click me"}}`, "", 40},
	}
}

// Every call of every input operation fails once, in each way a call can. The
// error is typed and truthful, nothing stays pressed, touched or handed over,
// and the next operation on the tab works. A short run takes one way a call.
func TestInputOperationsFailNth(t *testing.T) {
	for _, tt := range inputFailCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, tt.page)
			s.Eval(`window.keysDown = new Set(); window.mouse = 0; window.touches = 0;
				addEventListener("keydown", (e) => keysDown.add(e.code), true); addEventListener("keyup", (e) => keysDown.delete(e.code), true);
				for (const type of ["mousedown", "mouseup", "mousemove"]) addEventListener(type, (e) => { mouse = e.buttons; }, true);
				for (const type of ["touchstart", "touchend", "touchcancel"]) addEventListener(type, (e) => { touches = e.touches.length; }, {capture: true, passive: true})`)
			run := func() (op.Result, error) {
				s.Eval(tt.again + "; 1")
				recorded(s).Reset()
				return s.Run(tt.operation, tt.input)
			}
			for range 2 { // what a first call of a tab sets up is there then
				_, err := run()
				assert.NilError(t, err)
			}
			n := len(recorded(s).Calls())
			assert.Assert(t, n > 3 && n <= tt.most, "%d calls", n)
			for i := 1; i <= n; i++ {
				for k, cause := range []error{op.ErrNotDelivered, op.ErrReplyLost, &op.ProtocolError{Method: "any", Message: "made to fail"}} {
					if !thorough() && (i+k)%3 != 0 {
						continue
					}
					s.Eval(tt.again + "; 1")
					recorded(s).Reset()
					recorded(s).FailNth("", i, cause)
					_, err := s.Run(tt.operation, tt.input)
					calls := recorded(s).Calls()
					recorded(s).Reset()
					what := fmt.Sprintf("call %d, %s: %v", i, calls[min(i, len(calls))-1].Method, cause)
					for _, c := range calls {
						what += fmt.Sprintf("\n%s %.120s %v", c.Method, c.Params, c.Err)
					}
					checkOperationFailed(t, s, err, calls, what)
				}
			}
			_, err := run()
			assert.NilError(t, err)
		})
	}
}

// entering are calls that put something into the page.
func entering(c drivertest.Recorded) bool {
	switch c.Method {
	case "Input.dispatchKeyEvent", "Input.insertText", "Input.dispatchTouchEvent", "DOM.setFileInputFiles":
		return true
	case "Input.dispatchMouseEvent":
		return strings.Contains(c.Params, "mousePressed") || strings.Contains(c.Params, "mouseWheel")
	case "Input.dispatchDragEvent":
		return strings.Contains(c.Params, `"drop"`)
	}
	return false
}

func checkOperationFailed(t *testing.T, s *drivertest.Scenario, err error, calls []drivertest.Recorded, what string) {
	t.Helper()
	entered := false
	handed := map[string]bool{} // sessions whose drags or choosers are handed over
	for _, c := range calls {
		entered = entered || entering(c) && !errors.Is(c.Err, op.ErrNotDelivered)
		if (c.Method == "Input.setInterceptDrags" || c.Method == "Page.setInterceptFileChooserDialog") && !errors.Is(c.Err, op.ErrNotDelivered) {
			handed[c.Session+c.Method] = strings.Contains(c.Params, "true")
		}
	}
	for session, on := range handed {
		assert.Assert(t, !on, "%s: %s is still on", what, session)
	}
	if err != nil {
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, "%s: %v", what, err)
		if entered {
			assert.Equal(t, e.Kind, op.OutcomeUnknown, "%s: %s", what, e.Message)
		}
		assert.Assert(t, e.Message != "" && e.Hint != "", "%s: %s", what, e.Message)
	}
	// The page hears of a finger that is taken away a frame later.
	left := s.Eval(`new Promise((done) => {
		const end = performance.now() + 1000;
		const look = () => keysDown.size + touches === 0 || performance.now() > end ? done([keysDown.size, touches]) : requestAnimationFrame(look);
		look();
	})`)
	assert.Equal(t, left, "[0,0]", what)
	s.Call("input.key", `{"key":"Escape"}`)
	s.Call("input.click", `{"x":2,"y":2}`)
	assert.Equal(t, s.Eval("mouse"), "0", what)
}
