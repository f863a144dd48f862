package pagecases

import (
	"strings"

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
	// Halves of surrogate pairs in a page's texts are refused by a strict
	// JSON decoder, and cost the whole reply.
	{Name: "regress--lone-surrogates", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		s.Eval(`void (document.title = 'a\ud800b', document.body.insertAdjacentHTML('beforeend', '<button id=odd>x\udc00y</button>'), history.pushState(null, '', '#\ud83d'))`)
		res := s.Call("page.snapshot", `{"mode":"interactive"}`)
		assert.Assert(s.T, strings.Contains(res.Text, "x\uFFFDy"), res.Text)
		res = s.Call("page.evaluate", `{"expression":"document.title"}`)
		assert.Equal(s.T, res.Text, "a\uFFFDb")
		s.Call("input.click", `{"selector":"#odd"}`)
	}},
	// A row is told from another by what it says; what is typed into it is no
	// part of that.
	{Name: "regress--row-holds-editor", Page: "regress/input-row-holds-editor.html", Do: func(s *drivertest.Scenario) {
		a := &agent{s: s}
		s.Call("input.fill", map[string]any{"ref": a.find("textbox", "Note").ID, "text": "quite another text"})
		s.Call("input.click", map[string]any{"ref": a.find("button", "Go").ID})
		assert.Equal(s.T, s.Eval("window.went"), "1")
	}},
}
