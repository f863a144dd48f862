package pagecases

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
)

var receiptCases = []drivertest.Case{
	{Name: "input--appears", Page: "input/appears.html", Do: appears},
	{Name: "input--appears-many", Page: "input/appears.html", Do: appearsMany},
	{Name: "input--vanishes", Page: "input/appears.html", Do: vanishes},
	{Name: "input--receipt-refs", Page: "input/effects.html", Do: receiptRefs},
	{Name: "input--receipt-components", Page: "input/components.html", Do: receiptComponents},
	{Name: "input--receipt-frames", Page: "frames/target.html", Do: receiptFrames},
	{Name: "input--receipt-many", Page: "input/select-all.html", Do: receiptMany},
}

// thing is an action that a receipt names.
type thing struct {
	Ref, Role, Name string
	Verbs           []string
}

// What appears is named with a ref that works at once, however it appeared.
func appears(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		id    string
		wants []string // role and name of each
	}{
		{"delete", []string{`button "Yes, delete"`, `button "Keep it"`}},
		{"toggle", []string{`link "One"`, `link "Two"`}},
		{"add", []string{`textbox "Amount"`, `button "Remove the row"`}},
		{"card", []string{`generic "A card to open"`}},
		{"shadow", []string{`button "In the shadow"`}},
		{"frame", []string{`button "In the frame"`}},
	} {
		out := clickOn(s, "#"+tt.id)
		var got []string
		for _, a := range out.Action.Appeared {
			assert.Assert(t, a.Ref != "" && len(a.Verbs) > 0, "%+v", a)
			got = append(got, fmt.Sprintf("%s %q", a.Role, a.Name))
		}
		assert.DeepEqual(t, got, tt.wants)
		assert.Assert(t, changed(out.Action.receipt, "page"))
		last := out.Action.Appeared[len(out.Action.Appeared)-1]
		var done clickOut
		s.Value("input.click", map[string]any{"ref": last.Ref}, &done)
		assert.Equal(t, done.Action.ResolvedUID, last.Ref)
		if tt.id == "delete" {
			assert.DeepEqual(t, out.Action.Opened, []string{"Delete the file?"})
			// It is the dialog that went, with what was in it.
			var gone []string
			for _, v := range done.Action.Vanished {
				gone = append(gone, v.Ref+" "+v.Name)
			}
			assert.DeepEqual(t, gone, []string{out.Action.Appeared[0].Ref + " Yes, delete", last.Ref + " Keep it"})
		}
		if tt.id == "card" {
			assert.Equal(t, s.Eval("document.title"), `"card opened"`)
		}
	}
	// The refs of other frames stay good.
	inside := agent{s}.find("button", "In the frame")
	res := s.Call("input.click", `{"selector":"#add"}`)
	assert.Assert(t, strings.Contains(res.Text, "appeared: @el-"), res.Text)
	s.Call("input.click", map[string]any{"ref": inside.ID})
}

// A receipt is bounded, and a large page costs no long look.
func appearsMany(s *drivertest.Scenario) {
	t := s.T
	var out clickOut
	res := s.Value("input.click", `{"selector":"#many"}`, &out)
	assert.Equal(t, len(out.Action.Appeared), 12)
	assert.Equal(t, out.Action.More, 18)
	assert.Assert(t, utf8.RuneCountInString(res.Text) <= 1000, "%d", utf8.RuneCountInString(res.Text))
	assert.Assert(t, strings.Contains(res.Text, `appeared: @el-`), res.Text)
	var large clickOut
	res = s.Value("input.click", `{"selector":"#large"}`, &large)
	assert.Equal(t, large.Action.Appeared[0].Role, `button`)
	assert.Equal(t, large.Action.Appeared[0].Name, `First of many`)
	assert.Assert(t, strings.Contains(res.Text, "a snapshot gives what appeared its refs"), res.Text)
	var added clickOut
	s.Value("input.click", `{"selector":"#add"}`, &added)
	assert.Assert(t, added.Action.Unlisted != "" && added.Action.Appeared[0].Ref == "", "%+v", added.Action)
	// What a class shows is not found there, and that is told.
	var shown clickOut
	res = s.Value("input.click", `{"selector":"#toggle"}`, &shown)
	assert.Equal(t, len(shown.Action.Appeared), 0)
	assert.Assert(t, shown.Action.Unlisted != "" && strings.Contains(res.Text, shown.Action.Unlisted), res.Text)
}

// What goes is named by the ref that it had.
func vanishes(s *drivertest.Scenario) {
	t := s.T
	clickOn(s, "#add")
	a := agent{s}
	amount, remove := a.find("textbox", "Amount"), a.find("button", "Remove the row")
	var out clickOut
	s.Value("input.click", map[string]any{"ref": remove.ID}, &out)
	var gone []string
	for _, v := range out.Action.Vanished {
		gone = append(gone, v.Ref)
	}
	assert.DeepEqual(t, gone, []string{amount.ID, remove.ID})
}

// The receipt names what it tells of by the refs of the last snapshot.
func receiptRefs(s *drivertest.Scenario) {
	t := s.T
	a := agent{s}
	field, box, set := a.find("textbox", "Field"), a.find("checkbox", "Box"), a.find("button", "Set the value")
	var out clickOut
	res := s.Value("input.click", map[string]any{"ref": set.ID}, &out)
	assert.Equal(t, out.Action.FocusRef, set.ID)
	assert.Equal(t, out.Action.Changes[0].Ref, field.ID)
	assert.Assert(t, strings.Contains(res.Text, `value of text "Field" @`+field.ID+`: (none) → set`), res.Text)
	s.Value("input.click", map[string]any{"ref": a.find("button", "Check the box").ID}, &out)
	assert.Equal(t, out.Action.Changes[0].Ref, box.ID)
	// A check box by ref takes true and false although it is granted a click.
	var filled fillOut
	s.Value("input.fill", map[string]any{"ref": box.ID, "text": "false"}, &filled)
	assert.Assert(t, filled.Action.Matches)
	assert.Equal(t, s.Eval("box.checked"), "false")
	e := s.Fail("input.fill", map[string]any{"ref": set.ID, "text": "true"}, "rejected", "action-verb-mismatch")
	assert.Assert(t, strings.Contains(e.Message, "click"), e.Message)
}

// What a press changes in another component is told, and waited for.
func receiptComponents(s *drivertest.Scenario) {
	t := s.T
	for id, text := range map[string]string{"one": "One article", "count": "Counted to the end"} {
		out := clickOn(s, "x-buttons >>> #"+id)
		assert.Equal(t, out.Action.Outcome, observed)
		assert.Assert(t, changed(out.Action.receipt, "page"))
		assert.DeepEqual(t, out.Action.Text, []string{text})
	}
	out := clickOn(s, "x-buttons >>> #gift")
	assert.Equal(t, len(out.Action.Changes), 1)
	assert.Equal(t, out.Action.Changes[0].Of+" "+out.Action.Changes[0].After, `checkbox "Gift" true`)
}

// A document that comes to a frame of the page is an effect.
func receiptFrames(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct{ id, to string }{{"same", "/read/table.html"}, {"cross", "/frames/controls.html"}, {"same", "/read/table.html"}} {
		var out clickOut
		res := s.Value("input.click", map[string]any{"selector": "#" + tt.id}, &out)
		assert.Equal(t, len(out.Action.Frames), 1, res.Text)
		f := out.Action.Frames[0]
		assert.Assert(t, strings.HasSuffix(f.URL, tt.to) && !out.Action.URLChanged, res.Text)
		if f.Pending { // a busy machine
			assert.Assert(t, changed(out.Action.receipt, "navigation-pending") && strings.Contains(res.Text, "\nframe: navigating to http"), res.Text)
		} else {
			assert.Assert(t, changed(out.Action.receipt, "page") && strings.Contains(res.Text, "\nframe: http"), res.Text)
		}
		s.Call("page.wait", `{"condition":{"by":"networkIdle"}}`)
	}
	out := clickOn(s, "#nothing")
	assert.Assert(t, !changed(out.Action.receipt, "page") && len(out.Action.Frames) == 0, "%+v", out.Action)
	out = clickOn(s, "#slow")
	assert.Assert(t, changed(out.Action.receipt, "navigation-pending") && len(out.Action.Frames) == 1 && out.Action.Frames[0].Pending, "%+v", out.Action)
	s.Goto("frames/target.html")
	out = clickOn(s, "#download")
	assert.Assert(t, len(out.Action.Frames) == 0, "%+v", out.Action)
	assert.DeepEqual(t, out.Action.Downloads, []string{"report.csv"})
	out = clickOn(s, "#fragment")
	assert.Assert(t, len(out.Action.Frames) == 0, "%+v", out.Action)
	// So it is after a link in the frame itself.
	s.Eval(`frames[0].document.body.innerHTML = '<a href="/read/table.html">In the frame</a>'`)
	out = clickOn(s, "iframe >> a")
	assert.Assert(t, changed(out.Action.receipt, "page") && len(out.Action.Frames) == 1, "%+v", out.Action)
}

// States beyond those that a receipt lists are counted.
func receiptMany(s *drivertest.Scenario) {
	t := s.T
	for _, id := range []string{"all", "aria"} {
		var out clickOut
		res := s.Value("input.click", map[string]any{"selector": "#" + id}, &out)
		assert.Equal(t, len(out.Action.Changes), 12)
		assert.Equal(t, out.Action.MoreChanges, 38)
		assert.Assert(t, strings.Contains(res.Text, "38 more states changed"), res.Text)
	}
}
