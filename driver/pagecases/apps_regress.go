package pagecases

import (
	"slices"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// appFaultCases hold what the four applications brought to light, each in its
// smallest form.
var appFaultCases = []drivertest.Case{
	{Name: "regress--frames-focus-untouched", Page: "regress/frames-focus-untouched.html", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.await("Inside a frame.")
		a.fill("textbox", "Frame field", "first of all")
		first := a.find("textbox", "Frame field")
		assert.Equal(s.T, first.State.Value, "first of all")
		a.click("button", "One more frame")
		// The frames are alike: the new one has come when there are two.
		for looks := 0; ; looks++ {
			assert.Assert(s.T, looks < 100, "the second frame does not come")
			_, actions := a.all()
			i := slices.IndexFunc(actions, func(action seen) bool { return action.Role == "textbox" && action.ID != first.ID })
			if i >= 0 {
				s.Call("input.fill", map[string]any{"ref": actions[i].ID, "text": "then this"})
				break
			}
		}
		a.reads("then this")
	}},
	{Name: "regress--snapshot-vanishing", Page: "regress/snapshot-vanishing.html", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		for i := range 40 {
			var shown look
			s.Value("page.snapshot", `{}`, &shown)
			stays := slices.ContainsFunc(shown.Actions, func(action seen) bool { return action.Name == "Stays" })
			assert.Assert(s.T, stays, "look %d", i)
		}
		a.click("button", "Stays")
	}},
	{Name: "regress--snapshot-cell-holds-field", Page: "regress/snapshot-cell-holds-field.html", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.find("gridcell", "Kiel")
		a.find("gridcell", "Sent")
		a.find("textbox", "City")
	}},
	{Name: "regress--input-recycled-row", Page: "regress/input-recycled-row.html", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		first := a.find("button", "Delete row 1")
		a.click("button", "Next")
		e := s.Fail("input.click", map[string]any{"ref": first.ID}, op.Rejected, op.StaleActionRef)
		assert.Equal(s.T, e.Details["was"], "Delete row 1")
		assert.Equal(s.T, e.Details["is"], "Delete row 3")
		assert.Equal(s.T, s.Eval("lines"), "[]")
		a.click("button", "Delete row 3")
		// A toggle keeps its ref, and the receipt says what it is called now.
		s.Eval(`void (document.getElementById("next").textContent = "More")`)
		more := a.find("button", "More")
		s.Eval(`void (document.getElementById("next").textContent = "Rest")`)
		res := s.Call("input.click", map[string]any{"ref": more.ID})
		assert.Assert(s.T, strings.Contains(res.Text, `name of button @`+more.ID+`: More → Rest`), res.Text)
	}},
	{Name: "regress--snapshot-grid-roving-cells", Page: "regress/snapshot-grid-roving-cells.html", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		for _, in := range []string{`{"role":"gridcell"}`, `{"query":"Norway"}`, `{"containingText":"Bergen"}`} {
			var shown look
			s.Value("page.snapshot", in, &shown)
			assert.Assert(s.T, slices.ContainsFunc(shown.Actions, func(action seen) bool { return action.Role == "gridcell" && action.Name == "Norway" }), in)
		}
		a.click("gridcell", "Norway")
		assert.Equal(s.T, s.Eval(`lines.map(String).join(" ").includes("Norway")`), "true")
	}},
}
