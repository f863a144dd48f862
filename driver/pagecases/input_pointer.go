package pagecases

import (
	"strconv"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var pointerCases = []drivertest.Case{
	{Name: "input--hover", Page: "input/hover-menu.html", Do: hovers},
	{Name: "input--hover-refuses", Page: "input/overlay.html", Do: hoverRefuses},
	{Name: "input--hover-frames", Page: "input/frames.html", Do: hoverFrames},
	{Name: "input--tap", Page: "input/touch.html", Do: taps},
	{Name: "input--tap-swipe", Page: "input/touch.html", Do: swipes},
	{Name: "input--tap-frames", Page: "input/frames.html", Do: tapFrames},
	{Name: "input--tap-refuses", Page: "input/overlay.html", Do: tapRefuses},
	{Name: "input--map-shapes", Page: "input/map-shapes.html", Do: mapShapes},
	{Name: "input--transforms", Page: "snapshot/transforms.html", Do: func(s *drivertest.Scenario) {
		a := &agent{s: s}
		for _, c := range [][2]string{{"button", "Turned"}, {"button", "Mirrored"}, {"button", "In depth"}, {"link", "Half"},
			{"switch", "Both"}, {"button", "Upside down"}, {"button", "Its own layer"}} {
			s.Eval("window.hit = ''")
			s.Call("input.click", map[string]any{"ref": a.find(c[0], c[1]).ID})
			assert.Equal(s.T, s.Eval("window.hit"), strconv.Quote(c[1]))
		}
		s.Call("input.fill", map[string]any{"ref": a.find("textbox", "Enlarged").ID, "text": "filled"})
		s.Call("input.fill", map[string]any{"ref": a.find("combobox", "Shrunk").ID, "text": "Two"})
		assert.Equal(s.T, s.Eval("[document.querySelector('input').value, document.querySelector('select').value]"), `["filled","Two"]`)
	}},
	// The words of the button are slotted into its closed root.
	{Name: "input--closed-slot", Page: "snapshot/internals.html", Do: func(s *drivertest.Scenario) {
		s.Eval("window.hits = 0, document.querySelector('x-wrap').addEventListener('click', (e) => { e.preventDefault(); hits++ })")
		a := &agent{s: s}
		s.Call("input.click", map[string]any{"ref": a.find("button", "Wrapped").ID})
		assert.Equal(s.T, s.Eval("hits"), "1")
	}},
	{Name: "input--drag-html5", Page: "input/drag-html5.html", Do: dragsHTML5},
	{Name: "input--drag-mouse", Page: "input/drag-mouse.html", Do: dragsMouse},
	{Name: "input--drag-frames", Do: dragFrames},
	{Name: "input--drag-refuses", Page: "input/drag-html5.html", Do: dragRefuses},
	{Name: "input--drag-dialog", Page: "input/drag-mouse.html", Do: dragDialog},
}

type pointOut struct {
	receipt
	Input, Tag, ResolvedUID string
	X, Y                    float64
	To                      struct{ X, Y float64 }
	Steps                   int
}

func at(s *drivertest.Scenario, operation, selector string) pointOut {
	s.T.Helper()
	var out pointOut
	s.Value(operation, map[string]any{"at": selectorOf(selector)}, &out)
	return out
}

func names(list []thing) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}

// Hovering shows what the pointer opens, with refs, presses nothing, and the
// pointer stays where it is.
func hovers(s *drivertest.Scenario) {
	t := s.T
	out := at(s, "input.hover", "#products")
	assert.Equal(t, out.Input, "chrome")
	assert.Equal(t, out.Tag, "a")
	assert.DeepEqual(t, names(out.Appeared), []string{"Lamps", "Chairs"})
	// The menu is still open for a click on what is in it.
	s.Call("input.click", map[string]any{"ref": out.Appeared[1].Ref})
	assert.Equal(t, s.Eval("location.hash"), `"#chairs"`)
	s.Eval("lines.length = 0")
	out = at(s, "input.hover", "#account")
	assert.DeepEqual(t, names(out.Appeared), []string{"Sign out"})
	out = at(s, "input.hover", "#off")
	assert.DeepEqual(t, out.Text, []string(nil))
	assert.Equal(t, s.Eval("tip.hidden"), "false")
	assert.Assert(t, changed(out.receipt, "page"))
	at(s, "input.hover", "#plain")
	assert.DeepEqual(t, logged(s), []string{"pointerover plain trusted ", "mouseover plain trusted ", "mouseenter plain trusted ", "mousemove plain trusted "})
	var point pointOut
	s.Value("input.hover", `{"at":{"by":"coordinate","x":30,"y":20},"pace":"human"}`, &point)
	assert.DeepEqual(t, names(point.Appeared), []string{"Lamps", "Chairs"})
	s.Value("input.hover", `{"at":{"by":"find","role":"button","name":"Account"}}`, &point)
	assert.Assert(t, point.ResolvedUID != "")
}

func hoverRefuses(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		at   string
		kind op.Kind
		code op.Code
	}{
		{`{"by":"selector","value":"#covered"}`, op.Rejected, op.ClickIntercepted},
		{`{"by":"selector","value":"#none"}`, op.Rejected, op.InvalidActionTarget},
		{`{"by":"selector","value":"##"}`, op.Rejected, op.ActionTargetNotFound},
		{`{"by":"uid","value":"el-999"}`, op.Rejected, op.StaleActionRef},
		{`{"by":"coordinate","x":-5,"y":10}`, op.Rejected, op.InvalidActionTarget},
		{`{"by":"coordinate","x":5}`, op.Invalid, op.InvalidInput},
		{`{"by":"coordinate","x":5,"y":5,"value":"a"}`, op.Invalid, op.InvalidInput},
		{`{"by":"selector","value":"#covered","x":1}`, op.Invalid, op.InvalidInput},
		{`{"by":"find"}`, op.Invalid, op.InvalidInput},
		{`{"by":"there"}`, op.Invalid, op.InvalidInput},
	} {
		e := s.Fail("input.hover", `{"at":`+tt.at+`}`, tt.kind, tt.code)
		assert.Assert(t, e.Message != "")
	}
	s.Fail("input.hover", `{}`, op.Invalid, op.InvalidInput)
}

func hoverFrames(s *drivertest.Scenario) {
	for _, id := range []string{"same", "cross"} {
		out := at(s, "input.hover", "#"+id+" >> #button")
		assert.Equal(s.T, out.Tag, "button")
	}
}

// A tap is one touch and one click, all trusted.
func taps(s *drivertest.Scenario) {
	t := s.T
	for i, pace := range []string{"fast", "human"} {
		s.Eval("lines.length = 0")
		s.Call("input.tap", map[string]any{"at": selectorOf("#button"), "pace": pace})
		assert.Equal(t, textOf(s, "count"), []string{"1", "2"}[i])
		var kinds []string
		for _, l := range logged(s) {
			assert.Assert(t, strings.Contains(l, " trusted "), l)
			kinds = append(kinds, strings.Fields(l)[0])
		}
		assert.DeepEqual(t, kinds, []string{"pointerdown", "touchstart", "pointerup", "touchend", "mousedown", "mouseup", "click"})
		assert.Equal(t, s.Eval("fingers"), "0")
	}
	began := time.Now()
	out := at(s, "input.tap", "#alert")
	assert.Equal(t, out.Dialog.Message, "Touched")
	assert.Assert(t, time.Since(began) < 2*time.Second)
	closeDialog(s)
	assert.Equal(t, s.Eval("1 + 1"), "2")
}

// A swipe moves the finger, and scrolls where nothing takes it.
func swipes(s *drivertest.Scenario) {
	t := s.T
	var out pointOut
	s.Value("input.tap", `{"at":{"by":"selector","value":"#pad"},"to":{"by":"coordinate","x":60,"y":120}}`, &out)
	assert.Equal(t, textOf(s, "swipe"), "-130 in several moves")
	assert.Equal(t, out.To.X, 60.0)
	assert.Equal(t, out.Steps, 10)
	s.Value("input.tap", `{"at":{"by":"coordinate","x":200,"y":400},"to":{"by":"coordinate","x":200,"y":250},"steps":5,"pace":"human"}`, &out)
	assert.Assert(t, changed(out.receipt, "scroll"), "%+v", out)
	assert.Assert(t, s.Eval("scrollY > 50") == "true")
	assert.Equal(t, s.Eval("fingers"), "0")
	s.Fail("input.tap", `{"at":{"by":"selector","value":"#pad"},"steps":5}`, op.Invalid, op.InvalidInput)
	s.Fail("input.tap", `{"at":{"by":"selector","value":"#pad"},"to":{"by":"coordinate","x":1,"y":1},"steps":41}`, op.Invalid, op.InvalidInput)
}

func tapFrames(s *drivertest.Scenario) {
	for i, id := range []string{"same", "cross"} {
		s.Eval("lines.length = 0")
		at(s, "input.tap", "#"+id+" >> #button")
		waitFor(s, "expression", "lines.length > 0", 5000) // Chrome makes the click, in its own time
		assert.DeepEqual(s.T, logged(s), []string{[]string{"0", "1"}[i] + " click button true"})
	}
}

func tapRefuses(s *drivertest.Scenario) {
	s.Fail("input.tap", `{"at":{"by":"selector","value":"#covered"}}`, op.Rejected, op.ClickIntercepted)
	s.Goto("input/disabled.html")
	s.Fail("input.tap", `{"at":{"by":"selector","value":"#disabled"}}`, op.Rejected, op.InvalidActionTarget)
}

type dragOut struct {
	receipt
	From, To               struct{ X, Y float64 }
	FromTag, ToTag, Method string
	Dropped                bool
	DropEffect             string
	Steps                  int
}

func drag(s *drivertest.Scenario, from, to string) dragOut {
	s.T.Helper()
	var out dragOut
	s.Value("input.drag", map[string]any{"from": selectorOf(from), "to": selectorOf(to)}, &out)
	return out
}

// A drag and drop of the page's own carries its data, and says whether it was
// taken.
func dragsHTML5(s *drivertest.Scenario) {
	t := s.T
	out := drag(s, "#card", "#done")
	assert.Equal(t, out.Method, "html5")
	assert.Assert(t, out.Dropped)
	assert.Equal(t, out.DropEffect, "move")
	assert.Equal(t, out.Steps, 20)
	assert.Equal(t, s.Eval("card.parentNode.id"), `"done"`)
	lines := logged(s)
	assert.Equal(t, lines[0], "dragstart true")
	assert.DeepEqual(t, lines[len(lines)-2:], []string{"drop done true card 1", "dragend true move"})
	// A column that takes nothing leaves the card where it was.
	out = drag(s, "#card", "#closed")
	assert.Equal(t, out.Method, "html5")
	assert.Assert(t, !out.Dropped)
	assert.Equal(t, out.DropEffect, "none")
	assert.Equal(t, s.Eval("card.parentNode.id"), `"done"`)
	// One that is out of view is scrolled to while the card is held.
	out = drag(s, "#card", "#archive")
	assert.Assert(t, out.Dropped, "%+v", out)
	assert.Equal(t, s.Eval("card.parentNode.id"), `"archive"`)
	s.Value("input.drag", map[string]any{"from": map[string]any{"by": "find", "role": "button", "name": "report"}, "to": map[string]any{"by": "find", "role": "region", "name": "To do"}, "pace": "human"}, &out)
	assert.Assert(t, out.Dropped, "%+v", out)
	assert.Equal(t, s.Eval("card.parentNode.id"), `"todo"`)
	// Nothing stays pressed, and a click is a click again.
	clickOn(s, "#done")
	assert.Equal(t, s.Eval("buttons"), "0")
}

// A drag by mouse events ends where it was asked to, in as many moves.
func dragsMouse(s *drivertest.Scenario) {
	t := s.T
	out := drag(s, "#box", "#hole")
	assert.Equal(t, out.Method, "mouse")
	assert.Assert(t, out.Dropped)
	assert.Equal(t, textOf(s, "told"), "in the hole")
	moves := 0
	for _, l := range logged(s) {
		assert.Assert(t, strings.Contains(l, " true "), l)
		if strings.HasPrefix(l, "mousemove ") {
			moves++
		}
	}
	assert.Assert(t, moves >= 20, "%d moves", moves)
	// A thumb that captures the pointer.
	s.Value("input.drag", `{"from":{"by":"selector","value":"#thumb"},"to":{"by":"coordinate","x":230,"y":170},"steps":5}`, &out)
	assert.Equal(t, s.Eval("thumb.style.left"), `"200px"`)
	assert.Equal(t, out.Steps, 5)
	// A list that makes room while something is over it.
	drag(s, "#a", "#c")
	assert.Equal(t, s.Eval(`[...list.children].map((n) => n.id).join("")`), `"bcad"`)
	s.Value("input.drag", `{"from":{"by":"selector","value":"#d"},"to":{"by":"selector","value":"#b"},"pace":"human"}`, &out)
	assert.Equal(t, s.Eval(`[...list.children].map((n) => n.id).join("")`), `"dbca"`)
	assert.Equal(t, s.Eval("buttons"), "0")
}

// Drags within a frame of another process, and out of a frame.
func dragFrames(s *drivertest.Scenario) {
	t := s.T
	s.Goto("input/drag-frames.html")
	for _, id := range []string{"same", "cross"} {
		out := drag(s, "#"+id+" >> #card", "#"+id+" >> #done")
		assert.Equal(t, out.Method, "html5", id)
		assert.Assert(t, out.Dropped, "%s: %+v", id, out)
	}
	out := drag(s, "#mouse >> #box", "#mouse >> #hole")
	assert.Equal(t, out.Method, "mouse")
	assert.Assert(t, out.Dropped, "%+v", out)
}

// What cannot be dragged or dropped on is refused before anything is pressed.
func dragRefuses(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`for (const type of ["mousedown", "dragstart"]) addEventListener(type, () => log("began"), true)`)
	for _, tt := range []struct {
		in   string
		kind op.Kind
		code op.Code
	}{
		{`{"from":{"by":"selector","value":"#card"},"to":{"by":"selector","value":"#none"}}`, op.Rejected, op.InvalidActionTarget},
		{`{"from":{"by":"selector","value":"#none"},"to":{"by":"selector","value":"#card"}}`, op.Rejected, op.InvalidActionTarget},
		{`{"from":{"by":"selector","value":"#card"},"to":{"by":"coordinate","x":10,"y":99999}}`, op.Rejected, op.InvalidActionTarget},
		{`{"from":{"by":"selector","value":"#card"},"to":{"by":"uid","value":"el-999"}}`, op.Rejected, op.StaleActionRef},
		{`{"from":{"by":"selector","value":"#card"}}`, op.Invalid, op.InvalidInput},
		{`{"from":{"by":"selector","value":"#card"},"to":{"by":"coordinate","x":10,"y":9},"steps":41}`, op.Invalid, op.InvalidInput},
		{`{"from":{"by":"selector","value":"#card"},"to":{"by":"coordinate","x":10,"y":9},"steps":0}`, op.Invalid, op.InvalidInput},
	} {
		s.Fail("input.drag", tt.in, tt.kind, tt.code)
	}
	s.Eval(`document.body.insertAdjacentHTML("beforeend", '<div id="veil" style="position: fixed; inset: 0"></div>')`)
	s.Fail("input.drag", `{"from":{"by":"selector","value":"#card"},"to":{"by":"selector","value":"#done"}}`, op.Rejected, op.ClickIntercepted)
	assert.Equal(t, s.Eval("lines"), "[]")
}

// A dialog in the middle of a drag: told, and no button stays pressed.
func dragDialog(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`addEventListener("mousemove", (e) => { if (e.buttons) alert("Dragging"); }, {once: false, capture: true, signal: (window.ac = new AbortController()).signal})`)
	began := time.Now()
	out := drag(s, "#box", "#hole")
	assert.Equal(t, out.Dialog.Message, "Dragging")
	assert.Assert(t, time.Since(began) < 2*time.Second)
	s.Fail("input.click", `{"selector":"#box"}`, op.Rejected, op.DialogOpen)
	closeDialog(s)
	for i := 0; i < 3; i++ { // what was under way may ask again
		if _, err := s.Run("input.key", `{"key":"Shift"}`); err == nil {
			break
		}
		closeDialog(s)
	}
	s.Eval(`ac.abort()`)
	clickOn(s, "#thumb")
	assert.Equal(t, s.Eval("buttons"), "0")
}

// Each area of an image map is pressed where it is, and one that lies over
// another is the one that is pressed.
func mapShapes(s *drivertest.Scenario) {
	t := s.T
	a := &agent{s: s}
	assert.Assert(t, !strings.Contains(s.Call("page.snapshot", `{"mode":"interactive"}`).Text, "Unused"))
	for _, name := range []string{"Circle", "Bent", "Small", "Large", "Corner", "Everything else", "Zoomed", "Shrunk", "Turned", "Mirrored"} {
		s.Eval("window.hit = ''")
		s.Call("input.click", map[string]any{"ref": a.find("link", name).ID})
		assert.Equal(t, s.Eval("window.hit"), strconv.Quote(name))
	}
}
