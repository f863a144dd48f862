package pagecases

import (
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var selectCases = []drivertest.Case{
	{Name: "input--select-native", Page: "input/choose.html", Do: selectNative},
	{Name: "input--select-lists", Page: "input/choose.html", Do: selectLists},
	{Name: "input--select-popups", Page: "input/choose.html", Do: selectPopups},
	{Name: "input--select-refuses", Page: "input/choose.html", Do: selectRefuses},
}

type selectOut struct {
	Action struct {
		receipt
		Kind, Tag, RequestedTag, ResolvedUID string
		Selected                             []struct {
			Index        int
			Value, Label string
		}
		Matches, Open bool
	}
}

func choose(s *drivertest.Scenario, selector, how string, what any) selectOut {
	s.T.Helper()
	var out selectOut
	res := s.Value("input.select", map[string]any{"selector": selector, how: what}, &out)
	assert.Assert(s.T, out.Action.Matches, "%s %s %v: %s", selector, how, what, res.Text)
	return out
}

// A select is set with one input and one change, and none when it stands so.
func selectNative(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		how  string
		what any
		want string
	}{
		{"label", "Beta", "b"}, {"value", "a", "a"}, {"index", 3, "d"}, {"label", "  beta ", "b"}, {"labels", []string{"Alpha"}, "a"},
	} {
		s.Eval("lines.length = 0")
		out := choose(s, "#one", tt.how, tt.what)
		assert.Equal(t, out.Action.Kind, "select")
		assert.Equal(t, value(s, "one"), tt.want)
		assert.Equal(t, out.Action.Selected[0].Value, tt.want)
		assert.DeepEqual(t, logged(s), []string{"input one untrusted " + tt.want, "change one untrusted " + tt.want})
	}
	s.Eval("lines.length = 0")
	res := s.Call("input.select", `{"selector":"#one","value":"a"}`)
	assert.Assert(t, strings.Contains(res.Text, "chosen before"), res.Text)
	assert.Equal(t, s.Eval("lines"), "[]")
	for _, tt := range []struct {
		how  string
		what any
		want string
	}{
		{"values", []string{"a", "c"}, "a+c"}, {"labels", []string{"Beta"}, "b"}, {"indexes", []int{0, 1, 2}, "a+b+c"}, {"values", []string{}, ""}, {"label", "Gamma", "c"},
	} {
		s.Eval("lines.length = 0")
		choose(s, "#many", tt.how, tt.what)
		assert.DeepEqual(t, logged(s), []string{"input many untrusted " + tt.want, "change many untrusted " + tt.want})
	}
	a := agent{s}
	ref := a.find("combobox", "One")
	var out selectOut
	s.Value("input.select", map[string]any{"ref": ref.ID, "label": "Beta"}, &out)
	assert.Equal(t, out.Action.ResolvedUID, ref.ID)
	s.Value("input.select", map[string]any{"find": map[string]any{"label": "One"}, "label": "Delta", "includeSnapshot": true}, &out)
	assert.Equal(t, value(s, "one"), "d")
}

// Lists of the page's own are chosen from by clicks.
func selectLists(s *drivertest.Scenario) {
	t := s.T
	out := choose(s, "#list", "label", "Apple")
	assert.Equal(t, out.Action.Kind, "list")
	assert.DeepEqual(t, logged(s), []string{"chose list Apple"})
	choose(s, "#list", "value", "2")
	choose(s, "#list [role=option]:first-child", "index", 0)
	assert.Equal(t, s.Eval(`list.querySelector("[aria-selected=true]").textContent`), `"Apple"`)
	out = choose(s, "#several", "labels", []string{"Olives", "Onions"})
	assert.Equal(t, len(out.Action.Selected), 2)
	assert.Equal(t, s.Eval(`[...several.querySelectorAll("[aria-selected=true]")].map((o) => o.textContent).join()`), `"Olives,Onions"`)
	choose(s, "#several", "labels", []string{"Cheese"})
	out = choose(s, "#size", "label", "Large")
	assert.Equal(t, out.Action.Kind, "radios")
	assert.Equal(t, s.Eval(`size.querySelector(":checked").value`), `"l"`)
	choose(s, "#size", "value", "s")
}

// Lists that open: at once, late, filtered by typing, painted or loaded while
// they are scrolled.
func selectPopups(s *drivertest.Scenario) {
	t := s.T
	out := choose(s, "#color", "label", "Green")
	assert.Equal(t, out.Action.Kind, "popup")
	assert.Assert(t, !out.Action.Open)
	assert.Equal(t, textOf(s, "color-value"), "Green")
	assert.DeepEqual(t, logged(s), []string{"chose color Green"})
	var byName selectOut
	s.Value("input.select", `{"find":{"role":"combobox","name":"color"},"index":2}`, &byName)
	assert.Equal(t, textOf(s, "color-value"), "Blue")
	choose(s, "#city", "label", "Vienna")
	assert.Equal(t, value(s, "city"), "Vienna")
	choose(s, "#row", "label", "Row 150")
	assert.Equal(t, textOf(s, "row"), "Row: Row 150")
	choose(s, "#post", "label", "Post 35")
	assert.Equal(t, textOf(s, "post"), "Post: Post 35")
	choose(s, "#sort", "label", "Price")
	assert.Equal(t, textOf(s, "sort"), "Sort by: Price")
}

// What cannot be chosen is refused with what can.
func selectRefuses(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		in    string
		kind  op.Kind
		code  op.Code
		words string
	}{
		{`{"selector":"#one","label":"Omega"}`, op.Rejected, op.ValueRefused, `has no option "Omega"`},
		{`{"selector":"#one","label":"Gamma"}`, op.Rejected, op.ValueRefused, "disabled"},
		{`{"selector":"#one","index":9}`, op.Rejected, op.ValueRefused, "no option 9"},
		{`{"selector":"#one","values":["a","b"]}`, op.Rejected, op.ValueRefused, "takes one option"},
		{`{"selector":"#list","label":"Fig"}`, op.Rejected, op.ValueRefused, "disabled"},
		{`{"selector":"#list","label":"Plum"}`, op.Rejected, op.ValueRefused, "no option"},
		{`{"selector":"#color","label":"Pink"}`, op.OutcomeUnknown, op.ValueRefused, "its list was opened"},
		{`{"selector":"#text","label":"Pink"}`, op.Rejected, op.InvalidActionTarget, "nothing to choose from"},
		{`{"selector":"#none","label":"Pink"}`, op.Rejected, op.InvalidActionTarget, "nothing"},
		{`{"selector":"#one"}`, op.Invalid, op.InvalidInput, "one of"},
		{`{"selector":"#one","label":"a","value":"b"}`, op.Invalid, op.InvalidInput, "not"},
		{`{"label":"a"}`, op.Invalid, op.InvalidInput, "one of"},
		{`{"selector":"#one","index":-1}`, op.Invalid, op.InvalidInput, "index"},
	} {
		e := s.Fail("input.select", tt.in, tt.kind, tt.code)
		assert.Assert(t, strings.Contains(e.Message, tt.words), e.Message)
		if tt.code == op.ValueRefused && strings.Contains(tt.in, `"label"`) {
			assert.Assert(t, e.Details["allowed"] != nil || strings.Contains(e.Message, "disabled"), "%v", e.Details)
		}
	}
	assert.Equal(t, s.Eval("lines"), "[]")
}
