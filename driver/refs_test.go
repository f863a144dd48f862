package driver

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

func TestParseSelector(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []hop
		bad  string
	}{
		{in: "#a .b > c", want: []hop{{"#a .b > c"}}},
		{in: "x-app >>> button", want: []hop{{"x-app", "button"}}},
		{in: "iframe >> #a", want: []hop{{"iframe"}, {"#a"}}},
		{in: "a >>> iframe.x >> b >>> c", want: []hop{{"a", "iframe.x"}, {"b", "c"}}},
		{in: `a[title=">> b"]`, want: []hop{{`a[title=">> b"]`}}},
		{in: `:is(a >> b)`, want: []hop{{`:is(a >> b)`}}},
		{in: `.a\>\>b`, want: []hop{{`.a\>\>b`}}},
		{in: ">> a", bad: "empty"},
		{in: "a >>", bad: "empty"},
		{in: " ", bad: "empty"},
	} {
		got, err := parseSelector(c.in)
		if c.bad != "" {
			assert.ErrorContains(t, err, c.bad, c.in)
			continue
		}
		assert.NilError(t, err, c.in)
		assert.DeepEqual(t, got, c.want)
	}
}

func FuzzParseSelector(f *testing.F) {
	f.Add("a >>> b >> c")
	f.Add(`[a=">"] >> \`)
	f.Fuzz(func(t *testing.T, s string) {
		hops, err := parseSelector(s)
		if err != nil {
			return
		}
		for _, h := range hops {
			assert.Assert(t, len(h) > 0)
			for _, css := range h {
				assert.Assert(t, strings.TrimSpace(css) != "")
			}
		}
	})
}

// refTab is a scenario's tab with what an operation would need.
func refTab(t testing.TB, page string) (*drivertest.Scenario, *Tab) {
	t.Helper()
	s := start(t, page)
	return s, testTab(t, s)
}

func rejected(t testing.TB, err error, code op.Code) *op.Error {
	t.Helper()
	e, ok := err.(*op.Error)
	assert.Assert(t, ok, "%v", err)
	assert.Equal(t, e.Code, code, e.Message)
	assert.Equal(t, e.Kind, op.Rejected)
	assert.Assert(t, e.Hint != "")
	assert.Assert(t, strings.Contains(e.Message, "nothing was done"), e.Message)
	return e
}

func TestBySelector(t *testing.T) {
	_, tab := refTab(t, "snapshot/shadow-nested.html")
	ctx := t.Context()
	n, err := tab.bySelector(ctx, "sealed-box >>> button:not(sealed-box *)")
	e := rejected(t, err, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "ambiguous")
	_, err = tab.bySelector(ctx, "outer-box >>> middle-box >>> innermost-box >>> button")
	assert.NilError(t, err)
	n, err = tab.bySelector(ctx, "div >>> button")
	assert.NilError(t, err)
	assert.Equal(t, n.name, "Declared closed button")
	assert.Assert(t, n.boxKnown && n.box.W > 0)
	_, err = tab.bySelector(ctx, "#nothing")
	e = rejected(t, err, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "no-match")
	_, err = tab.bySelector(ctx, "div[")
	rejected(t, err, op.ActionTargetNotFound)
	_, err = tab.bySelector(ctx, "a >>")
	rejected(t, err, op.ActionTargetNotFound)
	_, err = tab.bySelector(ctx, "output >> a")
	e = rejected(t, err, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "no-frame")
}

func TestBySelectorIntoFrames(t *testing.T) {
	_, tab := refTab(t, "frames/nested.html")
	n, err := tab.bySelector(t.Context(), "iframe >> iframe >> button:first-of-type")
	if err != nil {
		e := rejected(t, err, op.InvalidActionTarget)
		assert.Equal(t, e.Details["reason"], "ambiguous")
		n, err = tab.bySelector(t.Context(), "iframe >> iframe >> input")
		assert.NilError(t, err)
	}
	assert.Assert(t, n.frame.parent != "" && n.backend != 0)
}

// Invariant 6 of the design: a ref is a capability.
func TestByRef(t *testing.T) {
	s, tab := refTab(t, "snapshot/labels.html")
	ctx := t.Context()
	out, err := tab.snapshot(ctx, &Call{Session: op.Session{Key: "refs"}}, SnapshotOptions{})
	assert.NilError(t, err)
	button := ""
	for _, a := range out.Actions {
		if a.Name == "Close" {
			button = a.ID
		}
	}
	n, err := tab.byRef(ctx, "@"+button, verbClick)
	assert.NilError(t, err)
	assert.Equal(t, n.String(), button+` button "Close"`)
	assert.Assert(t, n.backend != 0 && n.boxKnown && n.box.W > 0)
	_, err = tab.byRef(ctx, button, verbFill)
	e := rejected(t, err, op.ActionVerbMismatch)
	assert.DeepEqual(t, e.Details["verbs"], []string{"click"})
	_, err = tab.byRef(ctx, "el-4711", verbClick)
	rejected(t, err, op.StaleActionRef)

	// By selector it is the same element with the same ref.
	same, err := tab.bySelector(ctx, "button[aria-label=Close]")
	assert.NilError(t, err)
	assert.Equal(t, same.ref, button)
	assert.Equal(t, same.backend, n.backend)

	s.Eval(`document.querySelector("button[aria-label=Close]").remove()`)
	_, err = tab.byRef(ctx, button, verbClick)
	rejected(t, err, op.StaleActionRef)

	s.Goto("snapshot/states.html")
	_, err = tab.byRef(ctx, out.Actions[0].ID, verbFill)
	rejected(t, err, op.StaleActionRef)
}

// A ref that the latest snapshot shows as no action any more has lost its
// verbs.
func TestGrantIsTakenBack(t *testing.T) {
	s, tab := refTab(t, "snapshot/labels.html")
	call := &Call{Session: op.Session{Key: "refs"}}
	out, err := tab.snapshot(t.Context(), call, SnapshotOptions{})
	assert.NilError(t, err)
	var id string
	for _, a := range out.Actions {
		if a.Name == "Close" {
			id = a.ID
		}
	}
	s.Eval(`document.querySelector("button[aria-label=Close]").disabled = true`)
	_, err = tab.snapshot(t.Context(), call, SnapshotOptions{})
	assert.NilError(t, err)
	_, err = tab.byRef(t.Context(), id, verbClick)
	rejected(t, err, op.ActionVerbMismatch)
}

func TestRegistryIsBounded(t *testing.T) {
	var o observations
	for i := range maxKnown + 500 {
		o.count = i
		o.knowLocked(nodeKey{frame: "f", token: "t", num: i + 1})
	}
	for i := range maxFrontiers + 50 {
		if o.frontiers == nil {
			o.frontiers = map[string]*frontier{}
		}
		id := "frontier-" + itoa(i+1)
		o.frontiers[id] = &frontier{id: id}
	}
	o.trimLocked()
	assert.Equal(t, len(o.byKey), maxKnown)
	assert.Equal(t, len(o.byRef), maxKnown)
	assert.Assert(t, o.byRef["el-1"] == nil && o.byRef["el-8692"] != nil)
	assert.Equal(t, len(o.frontiers), maxFrontiers)
	assert.Assert(t, o.frontiers["frontier-1"] == nil && o.frontiers["frontier-562"] != nil)
	// A ref is never given twice.
	k := o.knowLocked(nodeKey{frame: "f", token: "t", num: 1})
	assert.Equal(t, k.ref, "el-8693")
	o.forgetDocumentsLocked(map[cdp.FrameID]string{"f": "other"})
	assert.Equal(t, len(o.byKey), 0)
}
