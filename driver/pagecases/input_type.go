package pagecases

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var typeCases = []drivertest.Case{
	{Name: "input--type-keys", Page: "input/keys.html", Do: typeKeys},
	{Name: "input--type-characters", Page: "input/textarea.html", Do: typeCharacters},
	{Name: "input--type-into", Page: "input/fill-kinds.html", Do: typeInto},
	{Name: "input--type-input", Page: "input/keys.html", Do: typeInput},
	{Name: "input--type-frames", Page: "input/frames.html", Do: typeFrames},
	{Name: "input--type-stops", Page: "input/early-dialogs.html", Do: typeStops},
	{Name: "input--type-human", Page: "input/keys.html", Do: typeHuman},
	{Name: "input--type-long", Page: "input/long-fill.html", Do: typeLong},
}

type typeOut struct {
	Action struct {
		receipt
		Length, Typed     int
		Tag, RequestedTag string
		ResolvedUID       string
		PressedEnter      bool
	}
}

func typeText(s *drivertest.Scenario, input map[string]any) typeOut {
	s.T.Helper()
	var out typeOut
	s.Value("input.type", input, &out)
	return out
}

func selectorOf(selector string) map[string]any {
	return map[string]any{"by": "selector", "value": selector}
}

// Every character is a key of its own, trusted, with its right code, and none
// is doubled.
func typeKeys(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("field").value = ""`)
	out := typeText(s, map[string]any{"text": "a.B-c@d#é", "into": selectorOf("#field")})
	assert.Equal(t, value(s, "field"), "a.B-c@d#é")
	assert.Equal(t, out.Action.Typed, 9)
	assert.Equal(t, out.Action.Tag, "input")
	var codes []string
	for _, l := range logged(s) {
		if strings.HasPrefix(l, "keydown ") {
			assert.Assert(t, strings.Contains(l, " trusted ") && !strings.Contains(l, "keyCode=0 "), l)
			_, rest, _ := strings.Cut(l, "code=")
			code, _, _ := strings.Cut(rest, " ")
			codes = append(codes, code)
		}
	}
	assert.DeepEqual(t, codes, []string{"KeyA", "Period", "ShiftLeft", "KeyB", "Minus", "KeyC", "ShiftLeft", "Digit2", "KeyD", "ShiftLeft", "Digit3"})
	// Without into the keys go where the focus is, and add to what is there.
	out = typeText(s, map[string]any{"text": "!"})
	assert.Equal(t, value(s, "field"), "a.B-c@d#é!")
	assert.Assert(t, changed(out.Action.receipt, "value"), "%+v", out.Action)
}

// What no key types is entered as a person sees it: one character, one input.
func typeCharacters(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("area").value = ""; window.inputs = []; addEventListener("input", (e) => inputs.push(e.data), true)`)
	text := "e\u0301 👩‍👩‍👧‍👦 🇦🇹 👍🏽 漢字 नि 1️⃣\nx\ty"
	typeText(s, map[string]any{"text": text[:strings.Index(text, "\t")], "into": selectorOf("#area")})
	assert.Equal(t, value(s, "area"), "e\u0301 👩‍👩‍👧‍👦 🇦🇹 👍🏽 漢字 नि 1️⃣\nx")
	var inputs []any
	assert.NilError(t, json.Unmarshal([]byte(s.Eval("inputs")), &inputs))
	assert.DeepEqual(t, inputs, []any{"e\u0301", " ", "👩‍👩‍👧‍👦", " ", "🇦🇹", " ", "👍🏽", " ", "漢", "字", " ", "नि", " ", "1️⃣", nil, "x"})
	// A tab goes on to the next field, as the key does.
	s.Eval(`document.getElementById("area").insertAdjacentHTML("afterend", "<input id=next>")`)
	typeText(s, map[string]any{"text": "\tz"})
	assert.Equal(t, value(s, "next"), "z")
}

// Text is added behind what a field holds, whatever kind it is; Enter submits.
func typeInto(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct{ id, text, want string }{
		{"text", " and new", "old and new"}, {"email", "x", "old@example.comx"}, {"number", "23", "123"}, {"area", "!", "old\nlines!"},
		{"editable", "!", "old rich text!"}, {"search", "er", "older"},
	} {
		typeText(s, map[string]any{"text": tt.text, "into": selectorOf("#" + tt.id)})
		assert.Equal(t, value(s, tt.id), tt.want)
	}
	// A label stands for its field, and a secret stays one.
	s.Eval(`document.getElementById("log").id = "quiet"`) // the page itself would show it
	out := typeText(s, map[string]any{"text": "er", "into": map[string]any{"by": "find", "text": "Secret"}})
	assert.Equal(t, value(s, "password"), "older")
	raw, err := json.Marshal(out)
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(raw), "older"))
	s.Goto("input/submit.html")
	out = typeText(s, map[string]any{"text": "lamps", "into": selectorOf("#one input"), "pressEnter": true})
	assert.Assert(t, out.Action.PressedEnter)
	assert.Assert(t, len(out.Action.ObservedChanges) > 0)
}

func typeInput(s *drivertest.Scenario) {
	t := s.T
	for _, in := range []string{`{}`, `{"text":1}`, `{"text":"a","into":{"by":"uid"}}`, `{"text":"a","into":{"by":"uid","value":"button"}}`, `{"text":"a","into":{"by":"selector","value":""}}`,
		`{"text":"a","into":{"by":"find"}}`, `{"text":"a","into":{"by":"find","value":"x"}}`, `{"text":"a","into":{"by":"selector","value":"#field","role":"textbox"}}`,
		`{"text":"a","into":{"by":"name","value":"x"}}`, `{"text":"a","into":"#field"}`} {
		s.Fail("input.type", in, op.Invalid, op.InvalidInput)
	}
	s.Fail("input.type", map[string]any{"text": strings.Repeat("x", 10001)}, op.Invalid, op.InvalidInput)
	e := s.Fail("input.type", map[string]any{"text": strings.Repeat("x", 601), "pace": "human"}, op.Invalid, op.InvalidInput)
	assert.Assert(t, strings.Contains(e.Hint, "fast"), e.Hint)
	assert.Equal(t, s.Eval("lines"), "[]")
	res := s.Call("input.type", `{"text":"x"}`)
	assert.Assert(t, strings.Contains(res.Text, "no field has the focus"), res.Text)
	s.Goto("input/disabled.html")
	s.Fail("input.type", `{"text":"x","into":{"by":"selector","value":"#field"}}`, op.Rejected, op.InvalidActionTarget)
	s.Goto("input/fill-kinds.html")
	s.Eval(`document.getElementById("text").readOnly = true`)
	s.Fail("input.type", `{"text":"x","into":{"by":"selector","value":"#text"}}`, op.Rejected, op.NotEditable)
	assert.Equal(t, value(s, "text"), "old")
}

// Keys reach fields in frames of every process.
func typeFrames(s *drivertest.Scenario) {
	t := s.T
	for i, id := range []string{"same", "cross"} {
		s.Eval("lines.length = 0")
		typeText(s, map[string]any{"text": "Hi", "into": selectorOf("#" + id + " >> #field")})
		assert.DeepEqual(t, logged(s), []string{fmt.Sprintf("%d input H", i), fmt.Sprintf("%d input Hi", i)})
	}
}

// A dialog ends the typing, and how far it came is told.
func typeStops(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.body.insertAdjacentHTML("beforeend", "<input id=stopper>"); stopper.addEventListener("input", () => { if (stopper.value.length === 3) alert("Three"); })`)
	began := time.Now()
	out := typeText(s, map[string]any{"text": "abcdef", "into": selectorOf("#stopper"), "pressEnter": true})
	assert.Assert(t, time.Since(began) < 3*time.Second)
	assert.Equal(t, out.Action.Dialog.Message, "Three")
	assert.Equal(t, out.Action.Typed, 3)
	assert.Assert(t, !out.Action.PressedEnter)
	closeDialog(s)
	assert.Equal(t, value(s, "stopper"), "abc")
}

// A hand needs its time for each key, and clicks the field first.
func typeHuman(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("field").value = ""; window.times = []; addEventListener("keydown", (e) => times.push(Math.round(e.timeStamp)), true); window.clicks = 0; addEventListener("click", () => clicks++, true)`)
	typeText(s, map[string]any{"text": "hello you", "into": selectorOf("#field"), "pace": "human"})
	assert.Equal(t, value(s, "field"), "hello you")
	assert.Equal(t, s.Eval("clicks"), "1")
	var times []int
	assert.NilError(t, json.Unmarshal([]byte(s.Eval("times")), &times))
	different := map[int]bool{}
	for i := 1; i < len(times); i++ {
		gap := times[i] - times[i-1]
		assert.Assert(t, gap >= 40, "%v", times)
		different[gap] = true
	}
	assert.Assert(t, len(different) > 4, "%v", times)
}

// A long text is typed whole.
func typeLong(s *drivertest.Scenario) {
	t := s.T
	text := strings.Repeat("the quick brown fox jumps over the lazy dog. ", 20)
	out := typeText(s, map[string]any{"text": text, "into": selectorOf("#area")})
	assert.Equal(t, out.Action.Typed, len(text))
	assert.Equal(t, value(s, "area"), text)
}
