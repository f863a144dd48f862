package pagecases

import (
	"encoding/json"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

func doSteps(s *drivertest.Scenario, steps ...any) (op.DoOut, op.Result) {
	s.T.Helper()
	var out op.DoOut
	res := s.Value("do", map[string]any{"steps": steps}, &out)
	return out, res
}

func stepOf(tool string, input map[string]any) map[string]any {
	if input == nil {
		return map[string]any{"tool": tool}
	}
	return map[string]any{"tool": tool, "input": input}
}

var doCases = []drivertest.Case{
	{Name: "do--a-form-in-one-command", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		s.Eval("addEventListener('click', (e) => { if (e.target.type === 'submit') window.sent = document.querySelector('form').email.value })")
		out, res := doSteps(s,
			stepOf("chrome_fill", map[string]any{"ref": refOf(s, `textbox "Email"`), "text": "a@b.test"}),
			stepOf("input.fill", map[string]any{"selector": "[name=street]", "text": "Main street"}),
			stepOf("click", map[string]any{"ref": refOf(s, `button "Save"`)}),
			stepOf("chrome_snapshot", map[string]any{"mode": "forms"}))
		assert.Equal(s.T, out.Done, 4)
		assert.Equal(s.T, out.Of, 4)
		assert.Equal(s.T, s.Eval("window.sent"), `"a@b.test"`)
		account, snapshot, _ := strings.Cut(res.Text, "\n\n")
		var told []string // each step's first line; the others are indented
		for _, l := range strings.Split(account, "\n") {
			if !strings.HasPrefix(l, " ") {
				told = append(told, l)
			}
		}
		assert.Equal(s.T, len(told), 5, account)
		for i, want := range []string{"Done: 4 of 4 steps", "1. chrome_fill: fill completed", "2. chrome_fill: fill completed", "3. chrome_click: click completed", "4. chrome_snapshot: # Chrome snapshot (forms)"} {
			assert.Assert(s.T, strings.HasPrefix(told[i], want), told[i])
		}
		assert.Assert(s.T, strings.Contains(account, "\n   value: as given\n"), account)
		assert.Assert(s.T, strings.HasPrefix(snapshot, "# Chrome snapshot (forms)"), snapshot)
		var snap struct{ Mode string }
		assert.NilError(s.T, json.Unmarshal(out.Steps[3].Value, &snap))
		assert.Equal(s.T, snap.Mode, "forms")
	}},
	{Name: "do--tells-what-a-field-made-of-its-value", Page: "input/controlled.html", Do: func(s *drivertest.Scenario) {
		_, res := doSteps(s,
			stepOf("chrome_fill", map[string]any{"selector": "#upper", "text": "abc"}),
			stepOf("chrome_evaluate", map[string]any{"expression": "'one\\ntwo'"}),
			stepOf("chrome_click", map[string]any{"selector": "#render"}))
		for _, want := range []string{"\n   value differs from what was given: the page holds \"ABC\"\n", "\n2. chrome_evaluate: one (", "\n   two\n3. chrome_click: click completed"} {
			assert.Assert(s.T, strings.Contains(res.Text, want), res.Text)
		}
	}},
	{Name: "do--stops", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		out, res := doSteps(s,
			stepOf("chrome_fill", map[string]any{"selector": "[name=street]", "text": "one"}),
			stepOf("chrome_click", map[string]any{"selector": "#nothing"}),
			stepOf("chrome_fill", map[string]any{"selector": "[name=street]", "text": "two"}))
		assert.Equal(s.T, out.Done, 1)
		assert.Equal(s.T, len(out.Steps), 2)
		assert.Equal(s.T, out.Steps[1].Error.Code, op.InvalidActionTarget)
		assert.Equal(s.T, s.Eval("document.querySelector('[name=street]').value"), `"one"`)
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Stopped at step 2 of 3\n1. chrome_fill"), res.Text)
		assert.Assert(s.T, strings.HasSuffix(res.Text, "\n3. not begun"), res.Text)
	}},
	{Name: "do--checks-all-first", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		fill := stepOf("chrome_fill", map[string]any{"selector": "[name=street]", "text": "one"})
		for _, tt := range []struct {
			bad  map[string]any
			code op.Code
			want string
		}{
			{stepOf("chrome_fly", nil), op.UnknownTool, "steps[1].tool"},
			{stepOf("chrome_do", map[string]any{"steps": []any{fill}}), op.InvalidInput, "a list of steps itself"},
			{stepOf("chrome_click", map[string]any{"reff": "el-1"}), op.InvalidInput, "step 2: chrome_click: unknown field"},
			{map[string]any{"tool": "chrome_click", "input": "el-1"}, op.InvalidInput, "steps[1].input"},
			{map[string]any{"tool": "chrome_click", "with": 1}, op.InvalidInput, "steps[1].with"},
			{map[string]any{}, op.InvalidInput, "steps[1].tool"},
		} {
			e := s.Fail("do", map[string]any{"steps": []any{fill, tt.bad}}, op.Invalid, tt.code)
			assert.Assert(s.T, strings.Contains(e.Message, tt.want), e.Message)
		}
		s.Fail("do", `{"steps":[]}`, op.Invalid, op.InvalidInput)
		many := make([]any, 21)
		for i := range many {
			many[i] = fill
		}
		s.Fail("do", map[string]any{"steps": many}, op.Invalid, op.InvalidInput)
		assert.Equal(s.T, s.Eval("document.querySelector('[name=street]').value"), `""`)
	}},
}
