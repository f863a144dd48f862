package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/fixtures"
)

// thorough reports whether the long form of a test was asked for:
// PI_CHROME_THOROUGH=1.
func thorough() bool { return os.Getenv("PI_CHROME_THOROUGH") != "" }

// patient gives frames as long as the main frame until the test ends, for tests
// of what is told of a page whose frames all answer.
func patient(t *testing.T) {
	bound, ms := childBound, childWalkMs
	childBound, childWalkMs = mainBound, mainWalkMs
	t.Cleanup(func() { childBound, childWalkMs = bound, ms })
}

// seeds are the random pages of this run: 200 of a thorough one, or those that
// PI_CHROME_SEEDS lists, such as "17,42".
func seeds(t *testing.T) []uint64 {
	var out []uint64
	if list := os.Getenv("PI_CHROME_SEEDS"); list != "" {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseUint(text, 10, 32)
			assert.NilError(t, err)
			out = append(out, n)
		}
		return out
	}
	n := uint64(15)
	if thorough() {
		n = 200
	}
	for seed := range n {
		out = append(out, seed+1)
	}
	return out
}

// offered is an action of a random page, as a snapshot or a frontier told it.
type offered struct {
	ActionOut
	times int
}

// offers follows every frontier of the page and returns the actions by name.
func offers(s *drivertest.Scenario, max int) map[string]*offered {
	s.T.Helper()
	out := map[string]*offered{}
	seen := map[string]bool{}
	queue := []string{""}
	total := -1
	for steps := 0; len(queue) > 0; steps++ {
		assert.Assert(s.T, steps < 500, "the frontiers do not end")
		in := map[string]any{"maxElements": max, "mode": "interactive"}
		if queue[0] != "" {
			in["ref"] = queue[0]
		}
		queue = queue[1:]
		raw, err := json.Marshal(in)
		assert.NilError(s.T, err)
		got, text := look(s, string(raw))
		assert.Assert(s.T, runes(text) <= snapshotChars, "%d characters", runes(text))
		if total < 0 {
			total = got.Summary.TotalInteractiveVisible
		}
		for _, a := range got.Actions {
			assert.Assert(s.T, !seen[a.ID], "%s %s %q was shown twice", a.ID, a.Role, a.Name)
			seen[a.ID] = true
			if o := out[a.Name]; o != nil {
				o.times++
				continue
			}
			out[a.Name] = &offered{a, 1}
		}
		for _, f := range got.Frontiers {
			if f.Projection == "actions" {
				queue = append(queue, f.ID)
			}
		}
	}
	assert.Equal(s.T, len(seen), total, "the frontiers lead to as many actions as the first snapshot counted")
	return out
}

// axDiffer is where we tell an action that Chrome's accessibility tree does
// not have.
type axDiffer struct {
	what *regexp.Regexp
	why  string
}

var axDiffers = []axDiffer{
	{regexp.MustCompile(`link "Area \d+" is not in Chrome's tree$`), "Chrome leaves the areas of an image map in a shadow root out of its tree; a person can click them"},
	{regexp.MustCompile(`button "Choose File" is not in Chrome's tree$`), "a file field that nobody sees takes files all the same, and pages hide it behind a button of their own"},
}

// On any page, every control that a person can use is told once, by the
// snapshot or by a frontier, with the role and the name that Chrome gives it,
// and acts when its ref is used; what nobody can use is not told. Several tabs
// are looked at side by side: as many as -parallel says.
func TestRandomPages(t *testing.T) {
	patient(t)
	var compared, used atomic.Int64
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seeds(t) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				c, u := randomPage(t, seed)
				compared.Add(int64(c))
				used.Add(int64(u))
			})
		}
	})
	t.Logf("%d actions compared with Chrome's tree, %d used", compared.Load(), used.Load())
}

// randomPage looks at the page of one seed. It returns how many actions were
// compared with Chrome's tree, and how many were used.
func randomPage(t *testing.T, seed uint64) (compared, used int) {
	page := fixtures.Random(seed)
	s := start(t, "")
	s.Goto(fmt.Sprintf("_/random?seed=%d", seed))
	found := offers(s, []int{7, 25, 80}[seed%3])
	for _, c := range page.Controls {
		o := found[c.Name]
		if o == nil {
			t.Errorf("%s %q is not reached", c.Kind, c.Name)
		} else if o.times > 1 {
			t.Errorf("%s %q is told %d times", c.Kind, c.Name, o.times)
		}
	}
	for _, name := range page.Never {
		if found[name] != nil {
			t.Errorf("%q is told as %s %v, and nobody can use it", name, found[name].Role, found[name].Verbs)
		}
	}
	compared, differ := agree(t, s, fmt.Sprint("seed ", seed))
	for _, d := range differ {
		if !slices.ContainsFunc(axDiffers, func(x axDiffer) bool { return x.what.MatchString(d) }) {
			t.Error(d)
		}
	}
	return compared, use(t, s, page.Controls, found)
}

// use acts on the controls, or on some of each kind where the run is short. It
// returns on how many.
func use(t *testing.T, s *drivertest.Scenario, controls []fixtures.RandomControl, found map[string]*offered) (n int) {
	t.Helper()
	used := map[string]int{}
	left := 1000
	if !thorough() {
		left = 10
	}
	for _, c := range controls {
		o := found[c.Name]
		if o == nil || c.Do == fixtures.RandomLook || left == 0 || !thorough() && used[c.Kind] > 0 {
			continue
		}
		used[c.Kind]++
		n++
		left--
		s.Eval("hits.length = 0")
		what := fmt.Sprintf("%s %s %q", o.ID, o.Role, o.Name)
		var res op.Result
		var err error
		switch c.Do {
		case fixtures.RandomCovered:
			_, err = s.Run("input.click", map[string]any{"ref": o.ID})
			e, ok := errors.AsType[*op.Error](err)
			if !ok || e.Code != op.ClickIntercepted || e.Kind != op.Rejected {
				t.Errorf("%s is covered, and a click gave %v", what, err)
			}
			assert.Equal(t, s.Eval("hits"), "[]", what)
			continue
		case fixtures.RandomClick:
			res, err = s.Run("input.click", map[string]any{"ref": o.ID})
			if err != nil {
				t.Errorf("clicking %s: %v", what, err)
				continue
			}
		case fixtures.RandomFill:
			res, err = s.Run("input.fill", map[string]any{"ref": o.ID, "text": c.Text})
			if err != nil {
				t.Errorf("filling %s: %v", what, err)
				continue
			}
		}
		if hits := hitsOf(t, s, c); len(hits) == 0 {
			t.Errorf("using %s did nothing to it: %s", what, res.Text)
		} else if c.Do == fixtures.RandomFill && hits[len(hits)-1] != c.Want {
			t.Errorf("filling %s made it %q, not %q", what, hits[len(hits)-1], c.Want)
		} else if c.Do == fixtures.RandomClick && len(hits) != 1 {
			t.Errorf("one click on %s was %d", what, len(hits))
		}
	}
	return n
}

// hitsOf waits for the control's hits, which come from other processes, and
// returns their values. No other control may have logged anything.
func hitsOf(t *testing.T, s *drivertest.Scenario, c fixtures.RandomControl) []string {
	t.Helper()
	raw := s.Eval(fmt.Sprintf(`new Promise((resolve) => {
		const end = performance.now() + 10000;
		const look = () => hits.some(([id, value]) => id === %q && (%q === "" || value === %q)) || performance.now() > end ? setTimeout(() => resolve(hits), 10) : setTimeout(look, 5);
		look();
	})`, c.ID, c.Want, c.Want))
	var hits [][2]string
	assert.NilError(t, json.Unmarshal([]byte(raw), &hits))
	var out []string
	for _, h := range hits {
		if h[0] == c.ID {
			out = append(out, h[1])
		} else {
			t.Errorf("using %q reached %s", c.Name, h[0])
		}
	}
	return out
}

// A long-lived tab costs no more after many snapshots than after a few.
func TestSnapshotsDoNotGrow(t *testing.T) {
	rounds, n := 25, 20_000
	if thorough() {
		rounds, n = 1000, 6000
	}
	s := start(t, fmt.Sprintf("_/huge?n=%d", n))
	d := New(nil)
	defer d.Close()
	look := func() {
		_, err := d.Run(t.Context(), "page.snapshot", &Call{ID: "x", Session: op.Session{Key: "x"}, Conn: recorded(s).Conn}, []byte(`{}`))
		assert.NilError(t, err)
	}
	for range 8 {
		look()
	}
	before := heap()
	began := time.Now()
	for range rounds {
		look()
	}
	after := heap()
	t.Logf("%d snapshots in %s, %d KiB then %d KiB", rounds, time.Since(began).Round(time.Millisecond), before>>10, after>>10)
	assert.Assert(t, after < before+2<<20, "%d snapshots grew the heap from %d to %d KiB", rounds, before>>10, after>>10)
}

// heap is how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What random pages found, in its smallest form: an element under a scroll bar
// was told as covered.
func TestUnderScrollBar(t *testing.T) {
	s := start(t, "regress/input-under-scrollbar.html")
	s.Call("input.fill", `{"selector":"#field","text":"filled"}`)
	assert.Equal(t, s.Eval("field.value"), `"filled"`)
	s.Call("input.click", map[string]any{"ref": refOf(s, "Under the bar of the frame")})
	// The frame's first line is under the header now.
	s.Eval("void (frame.contentWindow.scrollTo(0, 0), scrollTo(0, frame.offsetTop - 30))")
	s.Call("input.click", map[string]any{"ref": refOf(s, "Under the header")})
	assert.Equal(t, s.Eval("hits"), `["bar","header"]`)
}

// Likewise: a frame that sticks out of the frame around it, where the page
// itself cannot be scrolled to, was not revealed.
func TestFrameOverflowsLeft(t *testing.T) {
	s := start(t, "regress/input-frame-overflows-left.html")
	s.Call("input.click", map[string]any{"ref": refOf(s, "At the left")})
	assert.Equal(t, s.Eval("hits"), "1")
}

// Likewise: a frame with a border, in a frame, was held to be seen as far as the
// button in it, of which the border's width was missing.
func TestFrameHasBorder(t *testing.T) {
	patient(t)
	s := start(t, "regress/input-frame-border.html")
	s.Call("input.click", map[string]any{"ref": refOf(s, "Behind the border")})
	s.Call("input.click", map[string]any{"ref": refOf(s, "Behind a turned border")})
	assert.Equal(t, s.Eval("hits"), "[1,2]")
}

// Likewise (seed 77): a point loses its fraction on the way to the page, and
// met the scroll bar around the frame.
func TestFrameAtScrollBar(t *testing.T) {
	s := start(t, "regress/input-frame-at-scroll-bar.html")
	for _, top := range []string{"93.5", "94", "94.4", "95"} {
		s.Eval("hits.length = 0, frame.contentDocument.getElementById('button').style.top = '" + top + "px', box.scrollTo(0, 0)")
		s.Call("input.click", map[string]any{"ref": refOf(s, "Edge")})
		assert.Equal(t, s.Eval("hits"), `["button"]`, top)
	}
}

// Likewise: of a line of which little was to be seen the edge was pressed, and
// the press went beside it.
func TestEdgeOfLine(t *testing.T) {
	s := start(t, "regress/input-edge-of-line.html")
	for _, top := range []string{"97.2", "100.6", "101.4", "102.2"} {
		s.Eval("hits.length = 0, frame.contentDocument.getElementById('line').style.top = '" + top + "px', frame.contentWindow.scrollTo(0, 0)")
		s.Call("input.click", map[string]any{"ref": refOf(s, "Line")})
		assert.Equal(t, s.Eval("hits"), `["line"]`, top)
	}
	s.Eval("frame.contentDocument.documentElement.style.overflowX = 'hidden'")
	// Of a long one a corner is all that can be seen, and no point tried hits it.
	for _, top := range []string{"137", "138", "138.5", "139"} {
		s.Eval("hits.length = 0, Object.assign(frame.contentDocument.getElementById('line').style, { top: '" + top + "px', width: '560px', transform: 'rotate(4deg)' }), frame.contentWindow.scrollTo(0, 0)")
		s.Call("input.click", map[string]any{"ref": refOf(s, "Line")})
		assert.Equal(t, s.Eval("hits"), `["line"]`, top)
	}
}
