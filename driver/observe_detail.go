package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"

	"pi-chrome/driver/op"
)

// maxUncertain is how many elements Chrome itself is asked about.
const maxUncertain = 10

// settleBound bounds that asking.
const settleBound = 400 * time.Millisecond

// lookTurn makes observations of a tab come one at a time: the second one of
// two walks would take the rows from under the first.
func (t *Tab) lookTurn(ctx context.Context) (done func(), err error) {
	return t.takeTurn(ctx, &t.observed.turn)
}

// takeTurn waits until the one token of a turn is free. Tab.mu guards the
// turn, which is nil until it is taken first.
func (t *Tab) takeTurn(ctx context.Context, of *chan struct{}) (done func(), err error) {
	t.mu.Lock()
	if *of == nil {
		*of = make(chan struct{}, 1)
	}
	turn := *of
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// detailOut is what js/detail.js returns.
type detailOut struct {
	Token  string              `json:"token"`
	Gone   bool                `json:"gone"`
	Shown  [][]json.RawMessage `json:"shown"` // num, x, y, width, height, state, blocker
	Styles [][]json.RawMessage `json:"styles"`
}

// What js/detail.js says of an element.
const (
	detailCovered  = 1
	detailClipped  = 2
	detailScrolled = 3
)

// described is one element that is about to be shown.
type described struct {
	spot
	num     int
	backend cdp.BackendNodeID
	box     rect
	state   int
	blocker string
	gone    bool
}

// describe is describeFor with all of them as actions, or none.
func (t *Tab) describe(ctx context.Context, spots []spot, light bool) (map[spot]*described, error) {
	actions := map[spot]bool{}
	for _, s := range spots {
		actions[s] = !light
	}
	return t.describeFor(ctx, spots, actions, func() {})
}

// describeFor asks for the identity and the exact box of a few elements, and for
// the cover of those that are actions and the generated content that their
// names need. Elements that are gone meanwhile come back as gone. While the
// page is asked, meanwhile runs: nothing of the scene changes until it is done.
func (t *Tab) describeFor(ctx context.Context, spots []spot, actions map[spot]bool, meanwhile func()) (map[spot]*described, error) {
	byView := map[*view][]int{}
	seen := map[spot]bool{}
	var views []*view
	for _, s := range spots {
		if seen[s] {
			continue
		}
		seen[s] = true
		if byView[s.v] == nil {
			views = append(views, s.v)
		}
		byView[s.v] = append(byView[s.v], s.row)
	}
	t.mu.Lock()
	ref := t.observed.nextRef + len(spots)
	t.mu.Unlock()
	answers := make([]*detailAnswer, len(views))
	fns := []func() error{func() error { meanwhile(); return nil }}
	for i, v := range views {
		fns = append(fns, func() error {
			top := v
			for top.parent != nil {
				top = top.parent
			}
			bound, _ := v.frame.bounds(&top.frame)
			dctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it did not answer within %s: %w", bound, context.DeadlineExceeded))
			defer cancel()
			answer, err := t.askDetail(dctx, v, byView[v], ref, actions)
			if err != nil && v.parent != nil && ctx.Err() == nil {
				// A frame that went away meanwhile takes only its own
				// elements with it.
				t.log.Debug("describing a frame's elements", "error", err)
				answer, err = nil, nil
			}
			answers[i] = answer
			return err
		})
	}
	if err := together(fns...); err != nil {
		if c, ok := errors.AsType[*op.Error](context.Cause(ctx)); ok {
			return nil, c
		}
		return nil, err
	}
	out := map[spot]*described{}
	for i, v := range views {
		found, err := v.describe(byView[v], answers[i])
		if err != nil && v.parent == nil {
			return nil, err
		}
		if err != nil {
			t.log.Debug("describing a frame's elements", "error", err)
			found = nil
		}
		for _, d := range found {
			out[d.spot] = d
		}
		for _, row := range byView[v] {
			if s := (spot{v, row}); out[s] == nil {
				out[s] = &described{spot: s, gone: true}
			}
		}
	}
	return out, nil
}

// detailAnswer is what js/detail.js returned.
type detailAnswer struct {
	detailOut
	nodes []*deepNode
}

func (t *Tab) askDetail(ctx context.Context, v *view, rows []int, ref int, actions map[spot]bool) (*detailAnswer, error) {
	var ranges []int
	add := func(i int) { ranges = append(ranges, i, v.rows[i].end()) }
	light := []int{} // what needs less
	for k, i := range rows {
		if !actions[spot{v, i}] {
			light = append(light, k)
			continue
		}
		add(i)
		for _, l := range v.rel.labels[i] {
			add(l)
		}
		for _, l := range v.rel.labelledBy[i] {
			add(l)
		}
	}
	texts, nodes, err := t.runNodesOnce(ctx, v.frame, "detail", v.meta.Walk, rows, orNone(ranges), ref, light)
	if err != nil {
		return nil, err
	}
	res := &detailAnswer{nodes: nodes}
	if len(texts) == 0 {
		return nil, fmt.Errorf("decoding the details: no answer")
	}
	if err := json.Unmarshal([]byte(texts[0]), &res.detailOut); err != nil {
		return nil, fmt.Errorf("decoding the details: %w", err)
	}
	if res.Gone || res.Token != v.meta.Token {
		return nil, op.Reject(op.DocumentChanged, "the page of tab %d changed while it was looked at", t.conn.Key().TabID).WithHint("take a snapshot again")
	}
	return res, nil
}

// describe takes in what was asked of the rows; without an answer they are gone.
func (v *view) describe(rows []int, res *detailAnswer) ([]*described, error) {
	if res == nil {
		return nil, nil
	}
	var found []*described
	nodes := res.nodes
	for k, one := range res.Shown {
		if k >= len(rows) || k >= len(nodes) {
			break
		}
		d := &described{spot: spot{v, rows[k]}}
		var f [5]float64
		if len(one) != 7 || nodes[k] == nil {
			d.gone = true
			found = append(found, d)
			continue
		}
		for j := range f {
			if err := json.Unmarshal(one[j], &f[j]); err != nil {
				return nil, fmt.Errorf("decoding the details: %w", err)
			}
		}
		d.num, d.backend, d.box = int(f[0]), nodes[k].Backend, v.toMain(f[1], f[2], f[3], f[4])
		if err := errors.Join(json.Unmarshal(one[5], &d.state), json.Unmarshal(one[6], &d.blocker)); err != nil {
			return nil, fmt.Errorf("decoding the details: %w", err)
		}
		v.rows[rows[k]].number = int32(d.num)
		found = append(found, d)
	}
	changed := false
	for _, one := range res.Styles {
		var i int
		var before, after, transform string
		if len(one) != 4 {
			continue
		}
		if err := errors.Join(json.Unmarshal(one[0], &i), json.Unmarshal(one[1], &before), json.Unmarshal(one[2], &after), json.Unmarshal(one[3], &transform)); err != nil {
			return nil, fmt.Errorf("decoding the details: %w", err)
		}
		if i < 0 || i >= len(v.rows) {
			continue
		}
		g := &generated{before: before, after: after}
		if transform != "" {
			g.transform = transform[0]
		}
		v.rows[i].styled = g
		changed = true
	}
	if changed {
		v.forgetNames()
	}
	return found, nil
}

func orNone(n []int) []int {
	if n == nil {
		return []int{}
	}
	return n
}

// settle asks Chrome itself for role, name and state of the few elements that
// the evidence leaves uncertain: custom elements, whose internals may say what
// no attribute does.
//
// In a hidden tab Chrome may wait for a frame that never comes, so the answers
// have little time.
func (t *Tab) settle(ctx context.Context, actions []*action, found map[spot]*described) {
	ctx, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	var fns []func() error
	states := make([]string, len(actions))
	for i, a := range actions {
		d := found[a.spot]
		if len(fns) >= maxUncertain || d == nil || d.gone || !a.v.uncertain(a.row) {
			continue
		}
		fns = append(fns, func() error {
			no := false
			res, err := call(ctx, a.v.frame.s, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{BackendNodeID: d.backend, FetchRelatives: &no})
			if err != nil {
				// What the evidence says stays.
				t.log.Debug("asking for a role and a name", "error", err)
				return nil
			}
			for _, n := range res.Nodes {
				if n.BackendDOMNodeID != d.backend || n.Ignored {
					continue
				}
				if role := axText(n.Role); role != "" && role != "generic" && role != "none" {
					a.role = role
				}
				if name := axText(n.Name); name != "" {
					a.name = oneLine(name)
				}
				states[i] = unsaidState(&a.v.rows[a.row], n.Properties)
			}
			return nil
		})
	}
	// None of them returns an error.
	_ = together(fns...)
	for i, a := range actions {
		if r := &a.v.rows[a.row]; states[i] != "" {
			r.attrs = strings.Trim(r.attrs+"\b"+states[i], "\b")
		}
	}
}

// axStates are the attributes that stand for a state of Chrome's tree.
var axStates = map[accessibility.PropertyName]string{"checked": "aria-checked", "pressed": "aria-pressed", "expanded": "aria-expanded", "selected": "aria-selected",
	"required": "aria-required", "disabled": "aria-disabled", "readonly": "aria-readonly", "invalid": "aria-invalid", "hasPopup": "aria-haspopup"}

// unsaidState is, as attributes of a row, the state that Chrome tells and the
// row's own attributes do not.
func unsaidState(r *row, list []*accessibility.Property) string {
	var out []string
	for _, p := range list {
		name := axStates[p.Name]
		if name == "" || p.Value == nil || r.hasAttr(name) {
			continue
		}
		value := axText(p.Value)
		if value == "" {
			value = string(p.Value.Value) // true or false
		}
		switch {
		case value == "true", value == "mixed", name == "aria-haspopup" && value != "false", name == "aria-expanded" && value == "false":
			out = append(out, name+"="+head(value, 10))
		}
	}
	return strings.Join(out, "\b")
}

func axText(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) != nil {
		return ""
	}
	return s
}

// uncertain reports whether the evidence may not tell role and name.
func (v *view) uncertain(i int) bool {
	r := &v.rows[i]
	if r.hasAttr("role") && r.hasAttr("aria-label") {
		return false
	}
	for p := 0; p < len(r.tag); p++ {
		if r.tag[p] == '-' {
			return true
		}
	}
	return false
}
