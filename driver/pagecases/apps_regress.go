package pagecases

import (
	"slices"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
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
}
