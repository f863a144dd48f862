package pagecases

import (
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var inputFindCases = []drivertest.Case{
	{Name: "input--find-click", Page: "input/choose.html", Do: findClick},
	{Name: "input--find-fill", Page: "input/fill-kinds.html", Do: findFill},
	{Name: "input--find-fails", Page: "input/ambiguous.html", Do: findFails},
	{Name: "input--find-frames", Page: "input/frames.html", Do: findFrames},
}

func findClick(s *drivertest.Scenario) {
	t := s.T
	var out clickOut
	s.Value("input.click", `{"find":{"role":"radio","name":"large"}}`, &out)
	assert.Equal(t, s.Eval("size.querySelector(':checked').value"), `"l"`)
	assert.Assert(t, out.Action.ResolvedUID != "")
	s.Call("input.click", `{"find":{"text":"Small"}}`)
	assert.Equal(t, s.Eval("size.querySelector(':checked').value"), `"s"`)
	s.Call("input.key", `{"key":"ArrowDown","find":{"role":"combobox","name":"One","exact":true}}`)
	assert.Equal(t, value(s, "one"), "b")
}

func findFill(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct{ find, id string }{
		{`{"label":"Email"}`, "email"}, {`{"role":"textbox","name":"Phone"}`, "tel"}, {`{"text":"Search"}`, "search"}, {`{"role":"textbox","index":0}`, "text"},
	} {
		s.Call("input.fill", `{"find":`+tt.find+`,"text":"new"}`)
		assert.Equal(t, value(s, tt.id), "new")
		assert.Equal(t, s.Eval("document.activeElement.id"), `"`+tt.id+`"`)
	}
}

// Several that fit, or none, fail closed with what there is, by ref.
func findFails(s *drivertest.Scenario) {
	t := s.T
	e := s.Fail("input.click", `{"find":{"role":"button"}}`, op.Rejected, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "ambiguous")
	assert.Assert(t, strings.Contains(e.Message, "el-"), e.Message)
	s.Goto("input/appears.html")
	e = s.Fail("input.click", `{"find":{"role":"button","name":"Delet the file"}}`, op.Rejected, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "no-match")
	assert.Assert(t, strings.Contains(e.Hint, `button "Delete"`), e.Hint)
	e = s.Fail("input.fill", `{"find":{"label":"Menue"},"text":"x"}`, op.Rejected, op.InvalidActionTarget)
	assert.Assert(t, strings.Contains(e.Hint, `button "Menu"`), e.Hint)
	for _, operation := range []string{"input.click", "input.fill", "input.key"} {
		s.Fail(operation, `{"find":{},"text":"x","key":"x"}`, op.Invalid, op.InvalidInput)
	}
	s.Fail("input.click", `{"find":{"exact":true}}`, op.Invalid, op.InvalidInput)
	s.Fail("input.click", `{"find":{"name":"x"},"selector":"a"}`, op.Invalid, op.InvalidInput)
	s.Fail("input.click", `{"find":{"colour":"red"}}`, op.Invalid, op.InvalidInput)
}

func findFrames(s *drivertest.Scenario) {
	t := s.T
	e := s.Fail("input.click", `{"find":{"role":"button","name":"Button"}}`, op.Rejected, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "ambiguous")
	s.Eval("lines.length = 0")
	s.Call("input.click", `{"find":{"role":"button","name":"Button","index":1}}`)
	assert.Equal(t, len(logged(s)), 1)
}
