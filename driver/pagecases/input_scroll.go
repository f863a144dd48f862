package pagecases

import (
	"encoding/json"
	"math"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var scrollCases = []drivertest.Case{
	{Name: "input--scroll-distance", Page: "input/scroll.html", Do: scrollDistance},
	{Name: "input--scroll-within", Page: "input/scroll.html", Do: scrollWithin},
	{Name: "input--scroll-to", Page: "input/scroll.html", Do: scrollTo},
	{Name: "input--scroll-into-view", Page: "input/scroll.html", Do: scrollIntoView},
	{Name: "input--scroll-until", Page: "input/scroll-endless.html", Do: scrollUntil},
	{Name: "input--scroll-frames", Page: "frames/scrolled.html", Do: scrollFrames},
	{Name: "input--scroll-input", Page: "input/scroll.html", Do: scrollInput},
}

type scrolled struct {
	What string
	X, Y float64
}

type scrollOut struct {
	receipt
	DeltaX, DeltaY float64
	Steps          int
	What           string
	Moved          []scrolled
	Position, Max  struct{ X, Y float64 }
	Ends           []string
	Grew           bool
	Found          *bool
	Seen, Stopped  string
}

func scrollBy(s *drivertest.Scenario, input string) (scrollOut, op.Result) {
	s.T.Helper()
	var out scrollOut
	res := s.Value("input.scroll", input, &out)
	return out, res
}

// The page moves by what the wheel was turned, and the result says how far and
// where it stands.
func scrollDistance(s *drivertest.Scenario) {
	t := s.T
	out, res := scrollBy(s, `{"deltaY":400}`)
	assert.Equal(t, s.Eval("scrollY"), "400")
	assert.Equal(t, out.DeltaY, 400.0)
	assert.Equal(t, out.Steps, 3)
	assert.Equal(t, out.What, "page")
	assert.DeepEqual(t, out.Moved, []scrolled{{"page", 0, 400}})
	assert.DeepEqual(t, out.Ends, []string{})
	assert.Equal(t, out.Position.Y, 400.0)
	assert.Assert(t, changed(out.receipt, "scroll"))
	assert.Assert(t, strings.HasPrefix(res.Text, "scroll completed: scroll\npage moved 400 down\npage is between its ends (400 of "), res.Text)
	sum := 0.0
	for _, l := range logged(s) {
		f := strings.Fields(l)
		assert.Equal(t, strings.Join(f[:2], " "), "wheel true")
		var n float64
		assert.NilError(t, json.Unmarshal([]byte(f[3]), &n))
		sum += n
	}
	assert.Equal(t, sum, 400.0)
	out, res = scrollBy(s, `{"deltaY":-5000,"steps":5}`)
	assert.DeepEqual(t, out.Moved, []scrolled{{"page", 0, -400}})
	assert.DeepEqual(t, out.Ends, []string{"top"})
	assert.Equal(t, out.Steps, 5)
	assert.Assert(t, strings.Contains(res.Text, "page is at the top"), res.Text)
	_, res = scrollBy(s, `{"deltaY":-100}`)
	assert.Assert(t, strings.Contains(res.Text, "page did not move"), res.Text)
	out, res = scrollBy(s, `{}`)
	assert.Equal(t, out.Steps, 0)
	assert.Assert(t, strings.Contains(res.Text, "nothing was scrolled"), res.Text)
	out, _ = scrollBy(s, `{"deltaY":600,"pace":"human"}`)
	assert.Equal(t, out.Steps, 24)
	assert.Equal(t, s.Eval("scrollY"), "600")
}

// What is named is scrolled, or what it stands in, and nothing else.
func scrollWithin(s *drivertest.Scenario) {
	t := s.T
	out, _ := scrollBy(s, `{"within":{"by":"selector","value":"#list"},"deltaY":200}`)
	assert.DeepEqual(t, out.Moved, []scrolled{{`list "List"`, 0, 200}})
	assert.Equal(t, s.Eval("list.scrollTop+scrollY"), "200")
	out, _ = scrollBy(s, `{"within":{"by":"selector","value":"#lines"},"deltaY":100}`)
	assert.Equal(t, s.Eval("list.scrollTop+scrollY"), "300")
	// The outer list, not the one in it.
	scrollBy(s, `{"within":{"by":"selector","value":"#outer"},"deltaY":100}`)
	assert.Equal(t, s.Eval("[outer.scrollTop, inner.scrollTop]"), "[100,0]")
	scrollBy(s, `{"within":{"by":"selector","value":"#outer"},"to":"top"}`)
	scrollBy(s, `{"within":{"by":"selector","value":"#inner"},"deltaY":50}`)
	assert.Equal(t, s.Eval("[outer.scrollTop, inner.scrollTop]"), "[0,50]")
	out, _ = scrollBy(s, `{"within":{"by":"selector","value":"#wide"},"deltaX":300}`)
	assert.Equal(t, s.Eval("wide.scrollLeft"), "300")
	assert.Equal(t, out.Position.X, 300.0)
	out, _ = scrollBy(s, `{"within":{"by":"selector","value":"#wide"},"to":"right"}`)
	assert.DeepEqual(t, out.Ends, []string{"top", "bottom", "right"})
	// A box that takes the wheel for itself is told of, and so is one that
	// cannot be scrolled: then the page around it moves.
	var res op.Result
	out, res = scrollBy(s, `{"within":{"by":"selector","value":"#map"},"deltaY":120}`)
	_ = out
	assert.Assert(t, s.Eval("+zoom.textContent > 0") == "true" || s.Eval("scrollY > 0") == "true", res.Text)
	e := s.Fail("input.scroll", `{"within":{"by":"selector","value":"#none"},"deltaY":120}`, op.Rejected, op.InvalidActionTarget)
	assert.Assert(t, e.Hint != "")
}

func scrollTo(s *drivertest.Scenario) {
	t := s.T
	out, _ := scrollBy(s, `{"to":"bottom"}`)
	assert.DeepEqual(t, out.Ends, []string{"bottom"})
	assert.Equal(t, s.Eval("Math.round(scrollY + innerHeight) - document.documentElement.scrollHeight"), "0")
	assert.Assert(t, math.Abs(out.Position.Y-out.Max.Y) <= 1)
	out, _ = scrollBy(s, `{"to":"top"}`)
	assert.DeepEqual(t, out.Ends, []string{"top"})
	assert.Equal(t, s.Eval("scrollY"), "0")
	s.Goto("input/scroll-endless.html")
	out, _ = scrollBy(s, `{"to":"bottom"}`)
	assert.Equal(t, out.What, "main#main")
	assert.Assert(t, len(out.Moved) > 0)
}

func scrollIntoView(s *drivertest.Scenario) {
	t := s.T
	out, res := scrollBy(s, `{"intoView":{"by":"find","role":"link","name":"Far below"}}`)
	assert.Assert(t, *out.Found)
	assert.Assert(t, s.Eval("(r => r.top >= 0 && r.bottom <= innerHeight)(far.getBoundingClientRect())") == "true")
	assert.Equal(t, out.Moved[0].What, "page")
	assert.Assert(t, strings.Contains(res.Text, `in view: el-`), res.Text)
	out, _ = scrollBy(s, `{"intoView":{"by":"selector","value":"#far"}}`)
	assert.Assert(t, *out.Found)
	assert.Equal(t, len(out.Moved), 0)
	s.Eval(`far.hidden = true`)
	s.Fail("input.scroll", `{"intoView":{"by":"selector","value":"#far"}}`, op.Rejected, op.TargetInvisible)
}

// A list that loads while it is scrolled is followed until what is looked for
// is there; that it never comes is an observation.
func scrollUntil(s *drivertest.Scenario) {
	t := s.T
	out, _ := scrollBy(s, `{"untilText":"row 55"}`)
	assert.Assert(t, *out.Found, "%+v", out)
	assert.Assert(t, s.Eval(`(r => r.top >= 0 && r.bottom <= innerHeight)(document.getElementById("row-55").getBoundingClientRect())`) == "true")
	assert.Equal(t, s.Eval(`!document.getElementById("row-100")`), "true")
	out, _ = scrollBy(s, `{"untilVisible":"#row-90"}`)
	assert.Assert(t, *out.Found, "%+v", out)
	assert.Assert(t, s.Eval(`(r => r.top >= 0 && r.bottom <= innerHeight)(document.getElementById("row-90").getBoundingClientRect())`) == "true")
	out, res := scrollBy(s, `{"untilText":"Row 101"}`)
	assert.Assert(t, !*out.Found)
	assert.Equal(t, out.Stopped, "end")
	assert.DeepEqual(t, out.Ends, []string{"bottom"})
	assert.Assert(t, strings.Contains(res.Text, `"Row 101" is not there: the end was reached`), res.Text)
	out, _ = scrollBy(s, `{"untilText":"Row 1","deltaY":-2000}`)
	assert.Assert(t, *out.Found)
	s.Fail("input.scroll", `{"untilVisible":"##"}`, op.Rejected, op.ActionTargetNotFound)
}

func scrollFrames(s *drivertest.Scenario) {
	t := s.T
	out, _ := scrollBy(s, `{"within":{"by":"selector","value":"#frame >> body"},"deltaY":150}`)
	assert.DeepEqual(t, out.Moved, []scrolled{{"page", 0, 150}})
	out, _ = scrollBy(s, `{"intoView":{"by":"selector","value":"#frame >> #low"}}`)
	assert.Assert(t, *out.Found)
}

func scrollInput(s *drivertest.Scenario) {
	for _, in := range []string{`{"to":"middle"}`, `{"to":"top","untilText":"x"}`, `{"to":"top","deltaY":5}`, `{"deltaY":"5"}`, `{"deltaY":5,"steps":2}`, `{"deltaY":5,"steps":41}`, `{"untilText":""}`,
		`{"intoView":{"by":"uid","value":"x"}}`, `{"intoView":{"by":"selector","value":"#far"},"within":{"by":"selector","value":"#list"}}`, `{"deltaY":1e9}`} {
		s.Fail("input.scroll", in, op.Invalid, op.InvalidInput)
	}
	s.Fail("input.scroll", `{"within":{"by":"uid","value":"el-999"},"deltaY":5}`, op.Rejected, op.StaleActionRef)
	assert.Equal(s.T, s.Eval("scrollY"), "0")
	assert.Equal(s.T, s.Eval("lines"), "[]")
}
