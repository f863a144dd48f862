package pagecases

import (
	"fmt"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var pressCases = []drivertest.Case{
	{Name: "input--press-events", Page: "input/keys.html", Do: pressEvents},
	{Name: "input--press-effects", Page: "input/key-effects.html", Do: pressEffects},
	{Name: "input--press-input", Page: "input/keys.html", Do: pressInput},
	{Name: "input--press-frames", Page: "input/frames.html", Do: pressFrames},
	{Name: "input--press-dialog", Page: "input/early-dialogs.html", Do: pressDialog},
}

func pressOn(s *drivertest.Scenario, key string) pressOut {
	s.T.Helper()
	var out pressOut
	s.Value("input.key", map[string]any{"key": key}, &out)
	return out
}

// Keys arrive as a keyboard sends them.
func pressEvents(s *drivertest.Scenario) {
	t := s.T
	s.Call("input.key", `{"key":"Escape","selector":"#field"}`)
	down := func(key, code string, keyCode, location int, modifiers string) string {
		return fmt.Sprintf("keydown field trusted key=%q code=%s keyCode=%d location=%d modifiers=%s repeat=false", key, code, keyCode, location, modifiers)
	}
	for _, tt := range []struct {
		key  string
		want []string // the keydown events
	}{
		{"Home", []string{down("Home", "Home", 36, 0, "none")}},
		{"End", []string{down("End", "End", 35, 0, "none")}},
		{"PageUp", []string{down("PageUp", "PageUp", 33, 0, "none")}},
		{"PageDown", []string{down("PageDown", "PageDown", 34, 0, "none")}},
		{"Insert", []string{down("Insert", "Insert", 45, 0, "none")}},
		{"Delete", []string{down("Delete", "Delete", 46, 0, "none")}},
		{"F2", []string{down("F2", "F2", 113, 0, "none")}},
		{"F24", []string{down("F24", "F24", 135, 0, "none")}},
		{".", []string{down(".", "Period", 190, 0, "none")}},
		{"-", []string{down("-", "Minus", 189, 0, "none")}},
		{"a", []string{down("a", "KeyA", 65, 0, "none")}},
		{"@", []string{down("Shift", "ShiftLeft", 16, 1, "shiftKey"), down("@", "Digit2", 50, 0, "shiftKey")}},
		{"#", []string{down("Shift", "ShiftLeft", 16, 1, "shiftKey"), down("#", "Digit3", 51, 0, "shiftKey")}},
		{"Numpad5", []string{down("5", "Numpad5", 101, 3, "none")}},
		{"NumpadAdd", []string{down("+", "NumpadAdd", 107, 3, "none")}},
		{"ControlRight", []string{down("Control", "ControlRight", 17, 2, "ctrlKey")}},
		{"Control+Shift+K", []string{down("Control", "ControlLeft", 17, 1, "ctrlKey"), down("Shift", "ShiftLeft", 16, 1, "ctrlKey+shiftKey"), down("K", "KeyK", 75, 0, "ctrlKey+shiftKey")}},
		{"Alt+x", []string{down("Alt", "AltLeft", 18, 1, "altKey"), down("x", "KeyX", 88, 0, "altKey")}},
	} {
		s.Eval("lines.length = 0")
		pressOn(s, tt.key)
		var downs []string
		ups := 0
		for _, l := range logged(s) {
			switch {
			case strings.HasPrefix(l, "keydown "):
				downs = append(downs, l)
			case strings.HasPrefix(l, "keyup "):
				ups++
			}
			assert.Assert(t, !strings.Contains(l, "keyCode=0 "), l)
		}
		assert.DeepEqual(t, downs, tt.want)
		assert.Equal(t, ups, len(downs))
	}
	assert.Equal(t, textOf(s, "shortcut"), "Control+Shift+K")
	s.Eval(`document.getElementById("field").value = ""`)
	for _, key := range []string{"a", ".", "b", "-", "c", "@", "d", "#", "é", "😀", "Z", "Space", "1"} {
		pressOn(s, key)
	}
	assert.Equal(t, value(s, "field"), "a.b-c@d#é😀Z 1")
}

// Keys do what they do in a browser.
func pressEffects(s *drivertest.Scenario) {
	t := s.T
	out := pressOn(s, "Tab")
	assert.Equal(t, out.Action.Focus, `text "First"`)
	pressOn(s, "Control+A")
	assert.Equal(t, s.Eval("getSelection().toString()"), `"hello world"`)
	pressOn(s, "x")
	assert.Equal(t, value(s, "first"), "x")
	pressOn(s, "Control+Z")
	assert.Equal(t, value(s, "first"), "hello world")
	pressOn(s, "Enter")
	assert.Equal(t, textOf(s, "submits"), "1")
	s.Call("input.key", `{"key":"Space","selector":"#box"}`)
	assert.Equal(t, s.Eval("box.checked"), "true")
	s.Call("input.key", `{"key":"Down","selector":"#r1"}`)
	assert.Equal(t, s.Eval("r2.checked"), "true")
	s.Call("input.key", `{"key":"ArrowDown","selector":"#select"}`)
	assert.Equal(t, s.Eval("select.value"), `"B"`)
	clickOn(s, "#open")
	out = pressOn(s, "Escape")
	assert.Equal(t, s.Eval("dialog.open"), "false")
	assert.Assert(t, changed(out.Action.receipt, "open"))
	s.Value("input.key", `{"key":"End","modifiers":{"control":true},"selector":"#r1"}`, &out)
	assert.Assert(t, changed(out.Action.receipt, "scroll"))
	assert.Equal(t, out.Action.Chord, "Control+End")
}

func pressInput(s *drivertest.Scenario) {
	t := s.T
	for _, in := range []string{`{}`, `{"key":""}`, `{"key":"Control+"}`, `{"key":"a+b"}`, `{"key":"a","ref":"el-1","selector":"#field"}`, `{"key":"a","modifiers":{"hyper":true}}`, `{"key":"a","modifiers":{"shift":1}}`} {
		s.Fail("input.key", in, op.Invalid, op.InvalidInput)
	}
	e := s.Fail("input.key", `{"key":"PageDwn"}`, op.Invalid, op.KeyUnknown)
	assert.Assert(t, strings.Contains(e.Message, "PageDown"), e.Message)
	e = s.Fail("input.key", `{"key":"a","selector":"#shortcut"}`, op.Rejected, op.InvalidActionTarget)
	assert.Assert(t, strings.Contains(e.Message, "cannot take the focus"), e.Message)
	assert.Equal(t, s.Eval("lines"), "[]")
	s.Goto("input/disabled.html")
	s.Fail("input.key", `{"key":"a","selector":"#field"}`, op.Rejected, op.InvalidActionTarget)
	assert.Equal(t, s.Eval("lines"), "[]")
}

// Keys go where the focus is, in whichever process, and with a target there.
func pressFrames(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.body.insertAdjacentHTML("afterbegin", "<input id=mine>")`)
	for i, id := range []string{"same", "cross"} {
		s.Eval("lines.length = 0")
		s.Call("input.key", map[string]any{"key": "x", "selector": "#" + id + " >> #field"})
		out := pressOn(s, "y")
		assert.Assert(t, changed(out.Action.receipt, "value"), "%+v", out.Action)
		assert.DeepEqual(t, logged(s), []string{fmt.Sprintf("%d input x", i), fmt.Sprintf("%d input xy", i)})
	}
	s.Call("input.key", `{"key":"z","selector":"#mine"}`)
	assert.Equal(t, value(s, "mine"), "z")
}

// A dialog in the middle of a chord: told, and nothing stays pressed.
func pressDialog(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("key").focus()`)
	began := time.Now()
	out := pressOn(s, "Control+Shift+K")
	assert.Equal(t, out.Action.Dialog.Message, "keydown")
	assert.Assert(t, time.Since(began) < 2*time.Second)
	closeDialog(s)
	clickOn(s, "#plain")
	for _, l := range logged(s) {
		assert.Assert(t, strings.HasSuffix(l, "modifiers=false"), l)
	}
}
