package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// changedCase is an operation on an element that was shown, in a page or a
// frame whose next load looks the same: what goes by places or names alone
// takes the new document for the old.
type changedCase struct {
	operation string
	failCase
	// sends are the calls that have the effect. A page that comes between the
	// driver's last look and one of them gets it: Chrome takes no condition.
	sends []string
	// focuses says that scripts of the operation have an effect before: they
	// give a field the focus, or select what is in it.
	focuses bool
	// frame is the frame whose document is replaced, "" for the tab's own.
	frame string
}

var changedCases = []changedCase{
	{"input.click", failCase{page: "input/click-log.html", input: `{"ref":"{{ref:button "Click me"}}"}`}, []string{"Input.dispatchMouseEvent"}, false, ""},
	{"input.tap", failCase{page: "input/click-log.html", input: `{"at":{"by":"uid","value":"{{ref:button "Click me"}}"}}`}, []string{"Input.dispatchTouchEvent", "Input.synthesizeTapGesture"}, false, ""},
	{"input.hover", failCase{page: "input/click-log.html", input: `{"at":{"by":"uid","value":"{{ref:button "Click me"}}"}}`}, []string{"Input.dispatchMouseEvent"}, false, ""},
	{"input.fill", failCase{page: "input/keys.html", input: `{"ref":"{{ref:textbox "Field"}}","text":"new"}`}, []string{"Input.insertText", "Input.dispatchKeyEvent"}, true, ""},
	{"input.type", failCase{page: "input/keys.html", input: `{"into":{"by":"uid","value":"{{ref:textbox "Field"}}"},"text":"new"}`}, []string{"Input.insertText", "Input.dispatchKeyEvent"}, true, ""},
	{"input.key", failCase{page: "input/keys.html", input: `{"ref":"{{ref:textbox "Field"}}","key":"x"}`}, []string{"Input.dispatchKeyEvent"}, true, ""},
	{"page.inspect", failCase{page: "input/keys.html", input: `{"element":{"by":"uid","value":"{{ref:textbox "Field"}}"}}`}, nil, false, ""},
	{"input.click", failCase{page: "frames/replaced.html", input: `{"ref":"{{ref:button "Press Same"}}"}`}, []string{"Input.dispatchMouseEvent"}, false, "Same"},
	{"input.click", failCase{page: "frames/replaced.html", input: `{"ref":"{{ref:button "Press Cross"}}"}`}, []string{"Input.dispatchMouseEvent"}, false, "Cross"},
	{"input.key", failCase{page: "frames/replaced.html", input: `{"ref":"{{ref:textbox "Field Cross"}}","key":"x"}`}, []string{"Input.dispatchKeyEvent"}, true, "Cross"},
}

// TestDocumentChangesUnderneath lets another document come before each call of
// an operation. It is told, with an effect that is known not to have been or
// one that is unknown; and nothing is done to the document that came.
func TestDocumentChangesUnderneath(t *testing.T) {
	for _, c := range changedCases {
		t.Run(c.operation+c.frame, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.page)
			o, ok := New(nil).Operation(c.operation)
			assert.Assert(t, ok)
			f := &failer{t, s, New(nil), o, c.failCase}
			defer func() { f.d.Close() }()
			input := f.ready()
			rec := recorded(s)
			rec.Reset()
			_, err := f.run(t.Context(), c.operation, input)
			assert.NilError(t, err)
			n := len(rec.Calls())
			told := map[string]int{}
			from := 1
			if c.frame != "" && !thorough() {
				// Of the same way with frames in it, what comes shortly before
				// the input.
				from = max(1, slices.IndexFunc(rec.Calls(), func(r drivertest.Recorded) bool { return slices.Contains(c.sends, r.Method) })-6)
			}
			for i := from; i <= n; i++ {
				told[f.change(i, c)]++
			}
			t.Logf("%d calls: %v", n, told)
		})
	}
}

// change replaces the document before the n-th call and returns how the
// operation ended.
func (f *failer) change(n int, changed changedCase) string {
	t, rec := f.t, recorded(f.s)
	input := f.ready()
	rec.Reset()
	rec.BeforeNth("", n, func() {
		if changed.frame != "" {
			drivertest.Eval(t, rec.Conn, fmt.Sprintf("replace(%q)", changed.frame))
			return
		}
		drivertest.Goto(t, rec.Conn, f.s.Site.URL(f.c.page)+"?another")
		drivertest.Eval(t, rec.Conn, watchEffects+`; document.addEventListener("mousedown", () => effects.push("mousedown"), true)`)
	})
	res, err := f.run(t.Context(), f.o.Name(), input)
	calls := rec.Calls()
	rec.Reset()
	if len(calls) < n {
		return "over before"
	}
	what := fmt.Sprintf("%s, before call %d (%s): %v", f.o.Tool(), n, calls[n-1].Method, err)
	// What was sent with the document still there, and what after it had gone.
	sent := func(calls []drivertest.Recorded) bool {
		return slices.ContainsFunc(calls, func(c drivertest.Recorded) bool { return slices.Contains(changed.sends, c.Method) })
	}
	look := "effects.join()"
	if changed.frame != "" {
		look = fmt.Sprintf("seen(%q)", changed.frame)
	}
	effects := drivertest.Eval(t, rec.Conn, look)
	if !slices.Contains(changed.sends, calls[n-1].Method) {
		assert.Check(t, effects == `""`, "%s\nand the other document saw %s", what, effects)
	}
	if err == nil {
		// It was done, or the receipt tells that the page went.
		if !sent(calls[:n-1]) && !slices.Contains(changed.sends, calls[n-1].Method) {
			assert.Check(t, changed.frame == "" && strings.Contains(string(res.Value), "?another"), "%s\nand it is told as done: %s", what, res.Text)
		}
		return "done"
	}
	e, ok := errors.AsType[*op.Error](err)
	if !assert.Check(t, ok, what) {
		return "?"
	}
	assert.Check(t, slices.Contains([]op.Code{op.DocumentChanged, op.StaleActionRef}, e.Code), what)
	assert.Check(t, e.Hint != "", what)
	if !sent(calls[:n]) && !changed.focuses {
		assert.Check(t, e.Kind == op.Rejected, what)
	}
	return string(e.Kind) + "/" + string(e.Code)
}
