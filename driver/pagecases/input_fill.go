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

var fillCases = []drivertest.Case{
	{Name: "input--fill-kinds", Page: "input/fill-kinds.html", Do: fillKinds},
	{Name: "input--fill-secret", Page: "input/fill-kinds.html", Do: fillSecret},
	{Name: "input--fill-input", Page: "input/fill-kinds.html", Do: fillInput},
	{Name: "input--fill-refuses", Do: fillRefuses},
	{Name: "input--fill-floating-label", Page: "input/covered-fields.html", Do: fillFloatingLabel},
	{Name: "input--fill-textarea", Page: "input/textarea.html", Do: fillTextarea},
	{Name: "input--fill-editors", Page: "input/contenteditable.html", Do: fillEditors},
	{Name: "input--fill-controlled", Page: "input/controlled.html", Do: fillControlled},
	{Name: "input--fill-limits", Page: "input/limits.html", Do: fillLimits},
	{Name: "input--fill-checks", Page: "input/checkbox-radio.html", Do: fillChecks},
	{Name: "input--fill-submit", Page: "input/submit.html", Do: fillSubmit},
	{Name: "input--fill-frames", Page: "input/frames.html", Do: fillFrames},
	{Name: "input--fill-shadow", Page: "input/shadow.html", Do: fillShadow},
	{Name: "input--fill-long", Page: "input/long-fill.html", Do: fillLong},
	{Name: "input--fill-dialogs", Page: "input/early-dialogs.html", Do: fillDialogs},
	{Name: "input--fill-human", Page: "input/keys.html", Do: fillHuman},
}

func fillIn(s *drivertest.Scenario, selector, text string) fillOut {
	s.T.Helper()
	var out fillOut
	s.Value("input.fill", map[string]any{"selector": selector, "text": text}, &out)
	return out
}

// value is what the page's field holds.
func value(s *drivertest.Scenario, id string) string {
	s.T.Helper()
	var v string
	assert.NilError(s.T, json.Unmarshal([]byte(s.Eval(fmt.Sprintf("(e => e.isContentEditable ? e.innerText : e.value)(document.getElementById(%q))", id))), &v))
	return v
}

// Every kind of control takes its whole value, with trusted events where
// something is typed, and reads back as asked.
func fillKinds(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		id, text, want string
		events         []string // of that field
	}{
		{"text", "new text", "", []string{"input text trusted new text"}},
		{"text", "", "", []string{"input text trusted "}},
		{"email", "a@b.c", "", []string{"input email trusted a@b.c"}},
		{"url", "http://x.y", "", []string{"input url trusted http://x.y"}},
		{"tel", "+43 1", "", []string{"input tel trusted +43 1"}},
		{"search", "lamps", "", []string{"input search trusted lamps"}},
		{"password", "hunter2", "", []string{"input password trusted hunter2"}},
		{"number", "-12.5", "", []string{"input number trusted -12.5"}},
		{"date", "2020-02-29", "", []string{"input date untrusted 2020-02-29", "change date untrusted 2020-02-29"}},
		{"time", "13:14", "", []string{"input time untrusted 13:14", "change time untrusted 13:14"}},
		{"datetime", "2020-02-03 04:05", "2020-02-03T04:05", []string{"input datetime untrusted 2020-02-03T04:05", "change datetime untrusted 2020-02-03T04:05"}},
		{"month", "2020-02", "", []string{"input month untrusted 2020-02", "change month untrusted 2020-02"}},
		{"week", "2020-W07", "", []string{"input week untrusted 2020-W07", "change week untrusted 2020-W07"}},
		{"color", "#Ff0000", "#ff0000", []string{"input color untrusted #ff0000", "change color untrusted #ff0000"}},
		{"range", "75", "", []string{"input range untrusted 75", "change range untrusted 75"}},
		{"select", "Beta", "b", []string{"input select untrusted b", "change select untrusted b"}},
		{"select", "a", "a", []string{"input select untrusted a", "change select untrusted a"}},
		{"area", "one\r\ntwo\n\nfour", "one\ntwo\n\nfour", nil},
		{"editable", "plain text", "", nil},
		{"editable", "", "\n", nil},
	} {
		s.Eval("lines.length = 0")
		out := fillIn(s, "#"+tt.id, tt.text)
		assert.Assert(t, out.Action.Matches, "%+v", out.Action)
		want := tt.want
		if want == "" {
			want = tt.text
		}
		assert.Equal(t, value(s, tt.id), want)
		var own []string
		for _, l := range logged(s) {
			if strings.Fields(l)[1] == tt.id {
				own = append(own, l)
			}
		}
		if tt.events != nil {
			assert.DeepEqual(t, own, tt.events)
		}
	}
}

// A secret's value is in no result.
func fillSecret(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("log").id = "quiet"`) // the page itself would show it
	res := s.Call("input.fill", `{"selector":"#password","text":"correct horse"}`)
	assert.Assert(t, !strings.Contains(string(res.Value)+res.Text, "horse"), "%s", res.Value)
	var out fillOut
	assert.NilError(t, json.Unmarshal(res.Value, &out))
	assert.Assert(t, out.Action.ValueRedacted && out.Action.Matches)
	assert.Equal(t, out.Action.ValueLength, 13)
}

// What a control cannot hold is refused with what it takes, and nothing is
// entered.
func fillRefuses(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		page, id, text string
		code           op.Code
		words          string
	}{
		{"input/fill-kinds.html", "number", "abc", op.ValueRefused, "a number"},
		{"input/fill-kinds.html", "date", "3/2/2020", op.ValueRefused, "YYYY-MM-DD"},
		{"input/fill-kinds.html", "date", "2021-02-29", op.ValueRefused, "YYYY-MM-DD"},
		{"input/fill-kinds.html", "time", "25:00", op.ValueRefused, "HH:MM"},
		{"input/fill-kinds.html", "week", "2020-07", op.ValueRefused, "YYYY-Www"},
		{"input/fill-kinds.html", "color", "red", op.ValueRefused, "#rrggbb"},
		{"input/fill-kinds.html", "range", "101", op.ValueRefused, "from 0 to 100"},
		{"input/fill-kinds.html", "range", "", op.ValueRefused, "a number"},
		{"input/fill-kinds.html", "select", "Gamma", op.ValueRefused, "no option"},
		{"input/fill-kinds.html", "log", "x", op.NotEditable, "not a form control"},
		{"input/select.html", "country", "Atlantis", op.ValueRefused, "disabled"},
		{"input/checkbox-radio.html", "box", "maybe", op.ValueRefused, "on or off"},
		{"input/checkbox-radio.html", "small", "false", op.ValueRefused, "another of its group"},
		{"input/disabled.html", "readonly", "x", op.NotEditable, "read-only"},
		{"input/disabled.html", "field", "x", op.InvalidActionTarget, "disabled"},
		{"input/covered-fields.html", "under", "x", op.ClickIntercepted, "div#panel"},
		{"input/focus-thief.html#steal", "wanted", "x", op.InvalidActionTarget, "Thief"},
	} {
		s.Goto(tt.page)
		e := s.Fail("input.fill", map[string]any{"selector": "#" + tt.id, "text": tt.text}, op.Rejected, tt.code)
		assert.Assert(t, strings.Contains(e.Message, tt.words), e.Message)
		assert.Assert(t, e.Hint != "")
		if tt.code == op.ValueRefused {
			assert.Equal(t, e.Details["wanted"], tt.text)
		}
		if strings.HasPrefix(tt.page, "input/focus-thief") {
			assert.Equal(t, value(s, "thief")+value(s, "wanted"), "")
		} else if tt.id != "log" && strings.HasPrefix(tt.page, "input/fill-kinds") {
			assert.Equal(t, s.Eval("lines"), "[]")
		}
	}
}

func fillInput(s *drivertest.Scenario) {
	t := s.T
	for _, in := range []string{`{"selector":"#text"}`, `{"text":"x"}`, `{"selector":"#text","ref":"el-1","text":"x"}`, `{"selector":"#text","text":5}`} {
		s.Fail("input.fill", in, op.Invalid, op.InvalidInput)
	}
	s.Fail("input.fill", map[string]any{"selector": "#text", "text": strings.Repeat("😀", 50_001)}, op.Invalid, op.InvalidInput)
	assert.Equal(t, value(s, "text"), "old")
}

// A field under its own floating label or placeholder is filled.
func fillFloatingLabel(s *drivertest.Scenario) {
	t := s.T
	fillIn(s, "#floating", "me")
	assert.Equal(t, value(s, "floating"), "me")
}

// All lines of a textarea are replaced.
func fillTextarea(s *drivertest.Scenario) {
	t := s.T
	fillIn(s, "#area", "Only this")
	assert.Equal(t, value(s, "area"), "Only this")
	fillIn(s, "#area", "Two\nlines")
	assert.Equal(t, value(s, "area"), "Two\nlines")
}

func fillEditors(s *drivertest.Scenario) {
	t := s.T
	text := "line one\nline two\n\nline four"
	for _, sel := range []string{"#plain", "#rich", "[aria-label='With an island']"} {
		s.Eval("lines.length = 0")
		out := fillIn(s, sel, text)
		assert.Assert(t, out.Action.Matches, "%s: %q", sel, out.Action.Value)
		for _, l := range logged(s) {
			assert.Assert(t, strings.Contains(l, " trusted "), l)
		}
		assert.Assert(t, strings.HasPrefix(logged(s)[0], "beforeinput"))
	}
	assert.Equal(t, s.Eval("document.querySelectorAll('#rich li, #rich b').length"), "0")
	// A part of an editor stands for the editor.
	fillIn(s, "#rich p:first-child", "again")
	assert.Equal(t, strings.TrimSpace(value(s, "rich")), "again")
}

// A field that a framework controls keeps the text through its renders, and
// what the page makes of a text is told.
func fillControlled(s *drivertest.Scenario) {
	t := s.T
	assert.Assert(t, fillIn(s, "#name", "Ada").Action.Matches)
	assert.Assert(t, fillIn(s, "#bio", "Two\nlines").Action.Matches)
	out := fillIn(s, "#upper", "Ada")
	assert.Assert(t, !out.Action.Matches)
	assert.Equal(t, out.Action.Value, "ADA")
	clickOn(s, "#render")
	assert.Equal(t, s.Eval("[state.name, state.upper, state.bio]"), `["Ada","ADA","Two\nlines"]`)
	assert.Equal(t, value(s, "name"), "Ada")
}

func fillLimits(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct{ id, want string }{{"max", "abc 1"}, {"digits", "12"}, {"capitals", "ABC 12 DEF"}, {"refuses", "kept"}, {"emptied", ""}} {
		res := s.Call("input.fill", map[string]any{"selector": "#" + tt.id, "text": "abc 12 def"})
		var out fillOut
		assert.NilError(t, json.Unmarshal(res.Value, &out))
		assert.Assert(t, !out.Action.Matches)
		assert.Equal(t, out.Action.Value, tt.want)
		assert.Assert(t, strings.Contains(res.Text, fmt.Sprintf("value differs from what was given: the page holds %q", tt.want)), res.Text)
	}
}

func fillChecks(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		id, text string
		matches  bool
		clicked  bool
	}{
		{"box", "true", true, true}, {"box", "on", true, false}, {"box", "false", true, true}, {"stubborn", "true", false, true},
		{"large", "true", true, true}, {"large", "true", true, false}, {"aria", "yes", true, true}, {"aria", "no", true, true},
	} {
		s.Eval("window.downs = 0; onmousedown = () => downs++")
		out := fillIn(s, "#"+tt.id, tt.text)
		assert.Equal(t, out.Action.Matches, tt.matches, "%s %s", tt.id, tt.text)
		assert.Equal(t, s.Eval("downs") == "1", tt.clicked)
	}
	assert.DeepEqual(t, logged(s), []string{"change box trusted true", "change box trusted false", "change large trusted true"})
	s.Goto("input/label-click.html")
	assert.Assert(t, fillIn(s, "#radio", "true").Action.Matches)
	assert.Assert(t, fillIn(s, "#label", "true").Action.Matches)
	assert.Equal(t, textOf(s, "changes"), "2")
}

func fillSubmit(s *drivertest.Scenario) {
	t := s.T
	for _, sel := range []string{"#one input", "#two input", "#three textarea", "#none"} {
		var out fillOut
		s.Value("input.fill", map[string]any{"selector": sel, "text": "v", "submit": true}, &out)
		assert.Assert(t, out.Action.Submitted)
	}
	assert.DeepEqual(t, logged(s), []string{"submit one q=v", "submit two only=v"})
}

func fillFrames(s *drivertest.Scenario) {
	t := s.T
	for i, id := range []string{"same", "cross", "scaled", "below"} {
		s.Eval("lines.length = 0")
		out := fillIn(s, "#"+id+" >> #field", "in "+id)
		assert.Assert(t, out.Action.Matches)
		assert.DeepEqual(t, logged(s), []string{fmt.Sprintf("%d input in %s", i, id)})
	}
	// The focus comes back from a frame of another process.
	s.Eval(`document.body.insertAdjacentHTML("afterbegin", "<input id=mine>")`)
	assert.Assert(t, fillIn(s, "#mine", "here").Action.Matches)
	s.Goto("input/focus-thief.html#frame")
	assert.Assert(t, fillIn(s, "#wanted", "here").Action.Matches)
	s.Goto("input/turned-frame.html")
	assert.Assert(t, fillIn(s, "#nest >> iframe >> #field", "deep").Action.Matches)
}

func fillShadow(s *drivertest.Scenario) {
	t := s.T
	for _, mode := range []string{"open", "closed"} {
		assert.Assert(t, fillIn(s, "#"+mode+" >>> .name", "text").Action.Matches)
		assert.Equal(t, textOf(s, "hit"), mode+" text")
	}
}

// 20,000 characters go in at once, with few events.
func fillLong(s *drivertest.Scenario) {
	t := s.T
	text := strings.Repeat("0123456789", 2000)
	out := fillIn(s, "#area", text)
	assert.Assert(t, out.Action.Matches)
	assert.Equal(t, out.Action.ValueLength, 20_000)
	assert.Equal(t, len(out.Action.Value), 500)
	assert.Equal(t, textOf(s, "events"), "1")
}

func fillDialogs(s *drivertest.Scenario) {
	t := s.T
	began := time.Now()
	e := s.Fail("input.fill", `{"selector":"#focus","text":"x"}`, op.OutcomeUnknown, op.DialogOpen)
	assert.Assert(t, strings.Contains(e.Message, "nothing was entered"))
	closeDialog(s)
	out := fillIn(s, "#input", "x")
	assert.Equal(t, out.Action.Dialog.Message, "input")
	assert.Assert(t, out.Action.Unread)
	assert.Assert(t, time.Since(began) < 3*time.Second)
	closeDialog(s)
	assert.Equal(t, value(s, "input"), "x")
}

// A person's pace types key by key.
func fillHuman(s *drivertest.Scenario) {
	t := s.T
	began := time.Now()
	var out fillOut
	s.Value("input.fill", `{"selector":"#field","text":"Hi é.","pace":"human"}`, &out)
	assert.Assert(t, out.Action.Matches)
	assert.Assert(t, time.Since(began) > 300*time.Millisecond)
	downs := 0
	for _, l := range logged(s) {
		if strings.HasPrefix(l, "keydown field trusted") {
			downs++
		}
	}
	assert.Equal(t, downs, 5) // Shift, H, i, space, full stop; é is no key
}
