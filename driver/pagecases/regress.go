package pagecases

import (
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
)

// regressCases are faults that were met once, each in its smallest form.
var regressCases = []drivertest.Case{
	// The page's listeners, wrapped into an isolated world, crashed the
	// renderer of Chrome 156 after a few navigations.
	{Name: "regress--listeners-across-navigations", Do: func(s *drivertest.Scenario) {
		for range 25 {
			s.Goto("shop/product/borea-floor-lamp")
			s.Call("page.snapshot", `{"mode":"interactive"}`)
		}
		assert.Equal(s.T, s.Eval("1+1"), "2")
	}},
}
