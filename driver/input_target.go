package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// elementInput is the element of an input operation: by ref, by selector or by
// what a person perceives of it.
type elementInput struct {
	ref, selector string
	find          *FindBy
}

func (e elementInput) String() string {
	switch {
	case e.ref != "":
		return "ref " + cleanRef(e.ref)
	case e.find != nil:
		return e.find.String()
	}
	return fmt.Sprintf("selector %q", cut(e.selector, 200))
}

// element finds the element of a call. One that is given by ref must have been
// granted the verb; "" asks for no grant.
func (t *Tab) element(ctx context.Context, e elementInput, verb string) (node, error) {
	var n node
	var err error
	switch {
	case e.ref != "":
		return t.byRef(ctx, e.ref, verb)
	case e.find != nil:
		n, err = t.byFind(ctx, *e.find)
	default:
		n, err = t.bySelector(ctx, e.selector)
	}
	n.boxKnown = false // what was looked up just now says nothing of standing still
	return n, err
}

// fillByClick are the roles of controls that a snapshot grants a click and that
// fill can set all the same.
var fillByClick = []string{"checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio", "slider", "combobox"}

// elementToFill finds the control of a fill.
func (t *Tab) elementToFill(ctx context.Context, e elementInput) (node, error) {
	n, err := t.element(ctx, e, verbFill)
	if isCode(err, op.ActionVerbMismatch) {
		if other, err2 := t.byRef(ctx, e.ref, verbClick); err2 == nil && slices.Contains(fillByClick, other.role) {
			return other, nil
		}
	}
	return n, err
}

// checkFind refuses a search that asks for nothing.
func checkFind(tool string, find *FindBy) error {
	if find != nil && find.IsZero() {
		return op.Invalidf("%s: field %q needs one of role, name, label, placeholder, text or testId", tool, "find").WithDetail("field", "find")
	}
	return nil
}

// byFind returns the one visible element that fits; where nothing does, it
// names what comes nearest.
func (t *Tab) byFind(ctx context.Context, by FindBy) (node, error) {
	n, err := t.byPerception(ctx, by, "")
	e, ok := errors.AsType[*op.Error](err)
	if !ok || e.Details["reason"] != "no-match" || by.Index != nil {
		return n, err
	}
	near, found := t.nearest(ctx, by)
	if len(near) > 0 {
		var words []string
		for _, n := range near {
			words = append(words, n.String())
		}
		e.WithHint("nearest are %s; name one of them, take a snapshot, or wait for it", strings.Join(words, ", "))
		list := make([]map[string]any, len(near))
		for i, n := range near {
			list[i] = map[string]any{"ref": n.ref, "role": n.role, "name": cut(n.name, 80)}
		}
		e.WithDetail("nearest", list)
	}
	if found != nil {
		t.log.Debug("looking for what comes near", "error", found)
	}
	return n, e
}

// maxNear is how many elements that come near a search are named.
const maxNear = 6

// nearest are the elements whose names come nearest to what was looked for: of
// the same role where a role was given, else of any action.
func (t *Tab) nearest(ctx context.Context, by FindBy) ([]node, error) {
	want := ""
	for _, s := range []string{by.Name, by.Label, by.Text, by.Placeholder, by.TestID} {
		if want == "" {
			want = strings.ToLower(oneLine(s))
		}
	}
	if want == "" {
		want = by.Role
	}
	var all []node
	var err error
	if by.Role != "" && want != by.Role {
		all, err = t.findAll(ctx, FindQuery{FindBy: FindBy{Role: by.Role}})
	}
	if err == nil && len(all) == 0 {
		var list findResult
		list, err = t.find(ctx, FindQuery{FindBy: FindBy{Name: " "}}, maxFound)
		for _, f := range list.list {
			if len(f.verbs) > 0 {
				all = append(all, f.node)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	far := map[string]int{}
	distance := func(n node) int {
		name := strings.ToLower(cut(n.name, 60))
		if d, ok := far[name]; ok {
			return d
		}
		d := editDistance(cut(want, 40), name)
		if name != "" && (strings.Contains(want, name) || strings.Contains(name, want)) {
			d = 0
		}
		far[name] = d
		return d
	}
	slices.SortStableFunc(all, func(a, b node) int { return distance(a) - distance(b) })
	return all[:min(len(all), maxNear)], nil
}

// PointBy is where a pointer goes: an element as in [ElementBy], or a point of
// the viewport.
type PointBy struct {
	By     string   `json:"by" enum:"uid|selector|coordinate|find" brief:"uid: a ref; coordinate: x, y; find: role, name, label, placeholder, text or testId beside it" jsonschema:"uid: a ref of a snapshot; selector: CSS, with >>> through shadow roots and iframe >> into frames; coordinate: x and y; find: role, name, label, placeholder, text, testId beside it"`
	Value  string   `json:"value,omitzero" minLength:"1" maxLength:"2000" brief:"the ref or CSS selector" jsonschema:"the ref or the selector"`
	X      *float64 `json:"x,omitempty" brief:"" jsonschema:"of a point of the viewport in CSS pixels, from its left"`
	Y      *float64 `json:"y,omitempty" brief:"" jsonschema:"and from its top"`
	FindBy `brief:"-"`
}

var refPattern = regexp.MustCompile(`^@?el-\d+$`)

// element checks what the schema cannot and returns the element that is meant.
func (e ElementBy) element(tool, field string) (elementInput, error) {
	if err := e.check(tool, field); err != nil {
		return elementInput{}, err
	}
	switch e.By {
	case "uid":
		if !refPattern.MatchString(e.Value) {
			return elementInput{}, op.Invalidf("%s: field %q is %q; with by uid it is a ref such as el-3", tool, field+".value", cut(e.Value, 60)).WithDetail("field", field+".value")
		}
		return elementInput{ref: e.Value}, nil
	case "selector":
		return elementInput{selector: e.Value}, nil
	}
	by := e.FindBy
	return elementInput{find: &by}, nil
}

// goal is a [PointBy] that was checked: an element or a point.
type goal struct {
	element elementInput
	point   *point
}

// goal checks what the schema cannot.
func (p PointBy) goal(tool, field string) (goal, error) {
	if p.By != "coordinate" {
		if p.X != nil || p.Y != nil {
			return goal{}, op.Invalidf("%s: field %q takes x and y only with by coordinate", tool, field).WithDetail("field", field)
		}
		e, err := ElementBy{By: p.By, Value: p.Value, FindBy: p.FindBy}.element(tool, field)
		return goal{element: e}, err
	}
	if p.Value != "" || !p.FindBy.IsZero() || p.Exact || p.Index != nil {
		return goal{}, op.Invalidf("%s: field %q takes only x and y with by coordinate", tool, field).WithDetail("field", field)
	}
	if p.X == nil || p.Y == nil {
		return goal{}, op.Invalidf("%s: field %q needs x and y with by coordinate", tool, field).WithDetail("field", field)
	}
	return goal{point: &point{*p.X, *p.Y}}, nil
}

// aimTarget is a goal on the page: the element behind it, where it is one.
type aimTarget struct {
	goal
	node   node
	object runtime.RemoteObjectID
}

// goalOn looks the element of a goal up and hands it to its page. It touches
// nothing.
func (t *Tab) goalOn(ctx context.Context, w *witness, p goal) (aimTarget, error) {
	tg := aimTarget{goal: p, node: node{frame: w.main}}
	if p.point != nil {
		return tg, nil
	}
	n, err := t.element(ctx, p.element, "")
	if err != nil {
		return tg, err
	}
	tg.node = n
	tg.object, err = t.resolve(ctx, n.frame, n.backend)
	return tg, t.staleNode(n, err)
}

// aimAtTarget finds the point of the goal.
func (t *Tab) aimAtTarget(ctx context.Context, w *witness, tg aimTarget, p *pace, o aimOptions) (aimed, error) {
	if tg.point != nil {
		return t.aimAtPoint(ctx, w, *tg.point)
	}
	at, err := t.aimAtWith(ctx, tg.node, tg.object, p, o)
	return at, t.staleNode(tg.node, err)
}

// aimAtPoint takes a point of the viewport, whatever lies there.
func (t *Tab) aimAtPoint(ctx context.Context, w *witness, at point) (aimed, error) {
	tg := aimed{what: "the point", frame: w.main, at: at, ways: []point{at}}
	if math.IsNaN(at.x) || math.IsInf(at.x, 0) || math.IsNaN(at.y) || math.IsInf(at.y, 0) {
		return tg, op.Invalidf("x and y must be finite numbers")
	}
	var found struct {
		Tag  string   `json:"tag"`
		View viewport `json:"view"`
	}
	if err := t.inputFn(ctx, w.main, "", "at", &found, at.x, at.y); err != nil {
		return tg, err
	}
	if !found.View.has(at) {
		return tg, op.Reject(op.InvalidActionTarget, "the point (%g, %g) is outside the viewport of tab %d, which is %g by %g; nothing was pressed",
			at.x, at.y, t.conn.Key().TabID, found.View.Width, found.View.Height).WithHint("give a point inside the viewport").
			WithDetail("point", map[string]float64{"x": at.x, "y": at.y}).WithDetail("reason", "outside").WithDetail("url", t.url())
	}
	tg.aim.Tag, tg.aim.View = found.Tag, found.View
	return tg, nil
}

// rounded is a coordinate for a result.
func rounded(f float64) float64 { return math.Round(f*100) / 100 }
