package pagecases

import (
	"fmt"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type foundMatch struct {
	UID, Tag, Role, Name, Text, Context, Frame string
	Verbs                                      []string
	InViewport                                 bool
	State                                      map[string]any
	Score                                      int
}

type foundOut struct {
	Total, Shown int
	Matches      []foundMatch
	Frames       []any
	Cost         struct{ Characters int }
}

func (o foundOut) names() []string {
	list := []string{}
	for _, m := range o.Matches {
		name := m.Role + " " + m.Name
		if m.Name == "" {
			name = m.Role + ": " + m.Text
		}
		list = append(list, name)
	}
	return list
}

func findOf(s *drivertest.Scenario, input string) foundOut {
	s.T.Helper()
	var out foundOut
	s.Value("page.find", input, &out)
	return out
}

var findCases = []drivertest.Case{
	{Name: "find--by-each-means", Page: "find/form.html", Do: findByEachMeans},
	{Name: "find--refs-work", Page: "find/form.html", Do: findRefsWork},
	{Name: "find--limit-and-counts", Page: "find/form.html", Do: findLimit},
	{Name: "find--bad-input", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		for _, in := range []string{`{}`, `{"exact":true}`, `{"query":" "}`, `{"role":"button","limit":0}`, `{"name":5}`, `{"index":1,"role":"button"}`} {
			s.Fail("page.find", in, op.Invalid, op.InvalidInput)
		}
		assert.Equal(s.T, findOf(s, `{"role":"no such"}`).Total, 0)
		assert.Equal(s.T, findOf(s, `{"text":"<b>.*"}`).Total, 0)
	}},
	{Name: "find--shop-by-words", Page: "frames/nested.html", Do: func(s *drivertest.Scenario) {
		out := findOf(s, `{"role":"button"}`)
		assert.Assert(s.T, out.Total > 0, out)
		last := out.Matches[len(out.Matches)-1]
		assert.Assert(s.T, last.Frame != "", "%+v", last)
		s.Call("input.click", map[string]any{"ref": last.UID})
	}},
}

func findByEachMeans(s *drivertest.Scenario) {
	for _, tt := range []struct {
		input string
		want  []string
	}{
		{`{"role":"button","name":"save"}`, []string{"button Save", "button Save as draft", "button Save in shadow", "button Save in closed", "button Save in frame", "button Save across", "button Save below"}},
		{`{"role":"BUTTON","name":"Save","exact":true}`, []string{"button Save"}},
		{`{"role":"button","name":"delete"}`, []string{"button Delete"}},
		{`{"role":"button","name":"hidden"}`, []string{}},
		{`{"role":"button","name":"unseen"}`, []string{}},
		{`{"role":"link","name":"details now"}`, []string{"link Details now"}},
		{`{"role":"heading"}`, []string{"heading Orders"}},
		{`{"label":"email"}`, []string{"textbox Email", "textbox Inner email"}},
		{`{"label":"Email","exact":true}`, []string{"textbox Email"}},
		{`{"label":"city"}`, []string{"textbox City"}},
		{`{"label":"gift"}`, []string{"checkbox It is a gift"}},
		{`{"label":"postal"}`, []string{"textbox Postal code"}},
		{`{"placeholder":"example.test"}`, []string{"textbox Email"}},
		{`{"testId":"street"}`, []string{"textbox Street"}},
		{`{"testId":"stre"}`, []string{}},
		{`{"testId":"closed-save"}`, []string{"button Save in closed"}},
		{`{"text":"start again"}`, []string{"button Start again"}},
		{`{"text":"as"}`, []string{"button Save as draft"}},
		{`{"text":"order number 42"}`, []string{"generic Order number 42"}},
		{`{"text":"saved just now"}`, []string{"paragraph: SAVED JUST NOW"}},
		{`{"text":"second row"}`, []string{"listitem: Second row Edit"}},
		{`{"text":"Text across"}`, []string{"paragraph: Text across"}},
		{`{"role":"listitem","text":"first row"}`, []string{"listitem: First row Edit"}},
		{`{"role":"button","text":"row"}`, []string{}},
		{`{"query":"delivery address","role":"form"}`, []string{"form Delivery address"}},
	} {
		assert.DeepEqual(s.T, findOf(s, tt.input).names(), tt.want)
	}
	// Words rank, and the best comes first.
	out := findOf(s, `{"query":"postal code"}`)
	assert.Equal(s.T, out.Matches[0].Name, "Postal code")
	assert.Assert(s.T, out.Matches[0].Score > 8)
	out = findOf(s, `{"query":"goes to the delivery address"}`)
	assert.Assert(s.T, strings.Contains(out.Matches[0].Text, "Order 42 goes"), "%+v", out.Matches[0])
	// A secret is found, and its value is not told.
	res := s.Call("page.find", `{"name":"secret pin"}`)
	assert.Assert(s.T, strings.Contains(res.Text, "redacted"), res.Text)
	assert.Assert(s.T, !strings.Contains(string(res.Value)+res.Text, "hunter2"), res.Text)
	// State, place and cover stand beside a match.
	out = findOf(s, `{"name":"covered"}`)
	assert.Equal(s.T, out.Matches[0].State["covered"], "div")
	out = findOf(s, `{"role":"textbox","name":"Email","exact":true}`)
	assert.Equal(s.T, out.Matches[0].Context, `form "Delivery address"`)
	assert.DeepEqual(s.T, out.Matches[0].Verbs, []string{"fill", "press"})
	out = findOf(s, `{"name":"Delete"}`)
	assert.Equal(s.T, out.Matches[0].State["disabled"], true)
	assert.DeepEqual(s.T, out.Matches[0].Verbs, []string{})
	out = findOf(s, `{"name":"Save below"}`)
	assert.Assert(s.T, !out.Matches[0].InViewport)
}

// What was found can be acted on at once, and what a snapshot granted before
// stays granted.
func findRefsWork(s *drivertest.Scenario) {
	draft := refOf(s, `button "Save as draft"`)
	var ref string
	for _, name := range []string{"Save in closed", "Save across", "Save below"} {
		out := findOf(s, fmt.Sprintf(`{"role":"button","name":%q}`, name))
		assert.Equal(s.T, out.Total, 1)
		ref = out.Matches[0].UID
		s.Call("input.click", map[string]any{"ref": ref})
	}
	s.Call("input.click", map[string]any{"ref": draft})
	field := findOf(s, `{"label":"Inner email"}`).Matches[0].UID
	s.Call("input.fill", map[string]any{"ref": field, "text": "x"})
	s.Fail("input.fill", map[string]any{"ref": ref, "text": "x"}, op.Rejected, op.ActionVerbMismatch)
	// The same element keeps its ref.
	assert.Equal(s.T, findOf(s, `{"name":"Save below"}`).Matches[0].UID, ref)
	heading := findOf(s, `{"role":"heading"}`).Matches[0].UID
	s.Fail("input.click", map[string]any{"ref": heading}, op.Rejected, op.ActionVerbMismatch)
	assert.Assert(s.T, strings.Contains(s.Call("page.read", map[string]any{"ref": heading}).Text, "Orders"))
}

func findLimit(s *drivertest.Scenario) {
	var out foundOut
	res := s.Value("page.find", `{"role":"button","name":"save","limit":2}`, &out)
	assert.Equal(s.T, out.Total, 7)
	assert.Equal(s.T, out.Shown, 2)
	assert.Assert(s.T, strings.Contains(res.Text, "7 elements with role \"button\", name \"save\""), res.Text)
	assert.Assert(s.T, strings.HasSuffix(res.Text, "\n\n5 more: give a higher limit, or ask for less"), res.Text)
	s.Goto("_/huge?n=3000")
	res = s.Value("page.find", `{"query":"row","limit":80}`, &out)
	assert.Assert(s.T, out.Total > 80 && out.Shown == 80, "%d of %d", out.Shown, out.Total)
	assert.Assert(s.T, len([]rune(res.Text)) <= 8100, "%d characters", len([]rune(res.Text)))
	assert.Equal(s.T, out.Cost.Characters, len([]rune(res.Text)))
}
