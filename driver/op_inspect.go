package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/domdebugger"

	"pi-chrome/driver/op"
)

// Bounds of an inspection (contract §1.11).
const (
	maxAncestors  = 6
	maxNearText   = 24
	maxNearAction = 30
	maxFormFields = 30
	maxFormAction = 12
	maxListeners  = 40
)

// inspectBound is how long Chrome may take to tell role and name, or
// listeners; in a hidden tab it may never do.
const inspectBound = time.Second

// InspectIn is the input of chrome_inspect.
type InspectIn struct {
	Element        ElementBy `json:"element" brief:"" jsonschema:"the element"`
	ScrollIntoView bool      `json:"scrollIntoView,omitzero" brief:"" jsonschema:"scroll it into view first; without it nothing in the page changes"`
	op.TabInput
}

// EffectOf says that only scrolling has an effect.
func (in InspectIn) EffectOf() op.Effect {
	if in.ScrollIntoView {
		return op.MayMutate
	}
	return op.ReadOnly
}

// InspectTarget is the element itself.
type InspectTarget struct {
	Index          int            `json:"index" jsonschema:"which action of the page it is, in reading order; -1 for none"`
	UID            string         `json:"uid" jsonschema:"its ref; empty for an element that is not rendered"`
	Tag            string         `json:"tag"`
	Role           string         `json:"role" jsonschema:"as Chrome's accessibility tree has it"`
	Label          string         `json:"label" jsonschema:"its accessible name"`
	Description    string         `json:"description,omitempty" jsonschema:"its accessible description"`
	Ignored        bool           `json:"ignored,omitempty" jsonschema:"the accessibility tree leaves it out"`
	Selector       string         `json:"selector,omitempty" jsonschema:"CSS that finds it and nothing else in its frame; >>> leads into a shadow root"`
	Href           string         `json:"href,omitempty"`
	Type           string         `json:"type,omitempty"`
	Text           string         `json:"text,omitempty" jsonschema:"what it says, at most 500 characters"`
	HasValue       bool           `json:"hasValue,omitempty"`
	Checked        any            `json:"checked,omitempty"`
	Disabled       bool           `json:"disabled"`
	Inert          bool           `json:"inert"`
	PointerEvents  string         `json:"pointerEvents"`
	Rendered       bool           `json:"rendered" jsonschema:"whether it is drawn and not hidden"`
	InViewport     bool           `json:"inViewport"`
	Occluded       *Occluder      `json:"occluded,omitempty" jsonschema:"what lies over its middle"`
	Context        *Place         `json:"context,omitempty" jsonschema:"the part of the page that it stands in"`
	Frame          string         `json:"frame,omitempty" jsonschema:"address of its frame, where that is not the page itself"`
	Rect           rect           `json:"rect" jsonschema:"its box in the viewport of the page"`
	Box            rect           `json:"box" jsonschema:"its box in the viewport of its own frame"`
	State          ActionState    `json:"state"`
	Verbs          []string       `json:"verbs"`
	Styles         map[string]any `json:"styles" jsonschema:"computed styles that matter; those that say nothing are left out"`
	Attributes     [][2]string    `json:"attributes" jsonschema:"at most 40, values at most 200 characters"`
	AttributesLeft int            `json:"attributesLeft,omitempty"`
	Listeners      []ListenerOut  `json:"listeners" jsonschema:"listeners on the element itself"`
	ListenersLeft  int            `json:"listenersLeft,omitempty"`
}

// Occluder is what lies over an element.
type Occluder struct {
	Tag       string `json:"tag"`
	ID        string `json:"id,omitempty"`
	ClassName string `json:"className,omitempty"`
}

// ListenerOut is one kind of listener.
type ListenerOut struct {
	Type    string `json:"type"`
	Count   int    `json:"count"`
	Capture bool   `json:"capture,omitempty"`
	Passive bool   `json:"passive,omitempty"`
	Once    bool   `json:"once,omitempty"`
}

// InspectAncestor is an element around the target.
type InspectAncestor struct {
	UID      string `json:"uid"`
	Tag      string `json:"tag"`
	Role     string `json:"role"`
	Label    string `json:"label"`
	Selector string `json:"selector,omitempty"`
}

// NearText is a text near the target.
type NearText struct {
	UID  string `json:"uid"`
	Text string `json:"text"`
}

// InspectForm is the form that the target belongs to.
type InspectForm struct {
	UID     string      `json:"uid"`
	Label   string      `json:"label"`
	Fields  []ActionOut `json:"fields"`
	Actions []ActionOut `json:"actions"`
	Left    int         `json:"left,omitempty" jsonschema:"fields and actions that are not listed"`
}

// ClickSuggestion is what to click when the target is meant.
type ClickSuggestion struct {
	UID string  `json:"uid"`
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
}

// InspectOut is the result of chrome_inspect.
type InspectOut struct {
	Title           string            `json:"title"`
	URL             string            `json:"url"`
	Target          InspectTarget     `json:"target"`
	Ancestors       []InspectAncestor `json:"ancestors"`
	NearbyText      []NearText        `json:"nearbyText"`
	NearbyActions   []ActionOut       `json:"nearbyActions"`
	FormContext     *InspectForm      `json:"formContext,omitempty"`
	ClickSuggestion *ClickSuggestion  `json:"clickSuggestion,omitempty"`
}

var opInspect = op.Define(op.Spec{
	Name: "page.inspect", Tool: "chrome_inspect", Profile: "page", Title: "Inspect",
	Summary: "Look closely at one element: role, name, state, box, styles, attributes, listeners, surroundings.",
	Brief:   "Look closely at one element: state, box, styles, attributes, listeners, surroundings.",
	Doc: "Tells all about one element, given by a ref, a selector or what a person perceives of it: its role and name as Chrome's accessibility tree has them, state, boxes, the computed styles that matter, " +
		"attributes, listeners, what covers it; and around it the ancestors, texts, actions and the form, each with a ref that can be used. " +
		"Values of secrets are not told. It changes nothing, unless `scrollIntoView` is given. An element that is not rendered can be inspected by selector.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"element"},
	Examples: []op.Example{
		{Title: "Inspect an element by its ref", Page: "find/form.html", Input: json.RawMessage(`{"element":{"by":"uid","value":"{{ref:button \"Save\"}}"}}`)},
		{Title: "Inspect a field by its label", Page: "find/form.html", Input: json.RawMessage(`{"element":{"by":"find","label":"Email","exact":true},"scrollIntoView":true}`)},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.DocumentChanged, op.DialogOpen},
}, inspect)

func inspect(ctx context.Context, c *Call, in InspectIn) (InspectOut, error) {
	if err := in.Element.check("chrome_inspect", "element"); err != nil {
		return InspectOut{}, err
	}
	t := c.tab
	n, err := t.elementBy(ctx, in.Element, "")
	if err != nil {
		return InspectOut{}, err
	}
	if in.ScrollIntoView {
		c.begin()
		if _, err := call(ctx, n.frame.s, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: n.backend}); err != nil {
			if _, ok := errors.AsType[*op.ProtocolError](err); !ok {
				return InspectOut{}, fmt.Errorf("scrolling %s into view: %w", n, err)
			}
			c.noEffect() // it has no box to scroll to
		}
	}
	done, err := t.lookTurn(ctx)
	if err != nil {
		return InspectOut{}, err
	}
	defer done()
	sc, err := t.gatherBoxed(ctx)
	if err != nil {
		return InspectOut{}, err
	}
	i := &inspection{t: t, n: n, sv: sc.survey(), acts: map[spot]*action{}}
	return i.run(ctx)
}

// pageFacts is what js/inspect.js tells.
type pageFacts struct {
	Gone           bool           `json:"gone"`
	Row            int            `json:"row"`
	Rendered       bool           `json:"rendered"`
	Parents        []int          `json:"parents"`
	Tag            string         `json:"tag"`
	ID             string         `json:"id"`
	Type           string         `json:"type"`
	Attributes     [][2]string    `json:"attributes"`
	AttributesLeft int            `json:"attributesLeft"`
	Styles         map[string]any `json:"styles"`
	Box            rect           `json:"box"`
	Selector       string         `json:"selector"`
	Disabled       bool           `json:"disabled"`
}

// inspection is one inspection in the making.
type inspection struct {
	t    *Tab
	n    node
	sv   *survey
	acts map[spot]*action

	v     *view
	at    spot // the target; row -1 when it is not rendered
	from  int  // the row to look around from; -1 for the page
	facts pageFacts
	ax    *accessibility.Node
	heard []*domdebugger.EventListener
	seen  map[spot]*described
}

func (i *inspection) run(ctx context.Context) (InspectOut, error) {
	for _, a := range i.sv.actions {
		i.acts[a.spot] = a
	}
	named(i.sv.actions)
	for _, v := range i.sv.views {
		if v.frame.id == i.n.frame.id {
			i.v = v
		}
	}
	if i.v == nil {
		return InspectOut{}, i.t.staleRef(i.n.String(), "its frame has gone or cannot be read")
	}
	if err := i.ask(ctx); err != nil {
		return InspectOut{}, err
	}
	m := i.sv.main()
	out := InspectOut{Title: m.meta.Title, URL: m.meta.URL}
	around := i.around()
	near, form, formSpot := i.near(), []*action(nil), spot{}
	if formSpot = i.form(); formSpot.ok() {
		form = i.within(formSpot)
	}
	texts := i.texts()
	spots := slices.Clone(around)
	if i.at.row >= 0 {
		spots = append(spots, i.at)
	}
	for _, list := range [][]*action{near, form} {
		for _, a := range list {
			spots = append(spots, a.spot)
		}
	}
	for _, b := range texts {
		spots = append(spots, b.spot)
	}
	suggested := i.suggest()
	for _, s := range []spot{formSpot, i.region()} {
		if s.ok() && s.row >= 0 {
			spots = append(spots, s)
		}
	}
	if suggested != nil {
		spots = append(spots, suggested.spot)
	}
	var err error
	if i.seen, err = i.t.describe(ctx, spots, false); err != nil {
		return out, err
	}
	i.t.beginObservation(i.sv.scene)
	out.Target = i.target()
	out.Ancestors = []InspectAncestor{}
	for _, s := range around {
		role, name := s.v.role(s.row), oneLine(s.v.label(s.row))
		if k := i.mention(s, role, name); k != nil {
			out.Ancestors = append(out.Ancestors, InspectAncestor{UID: k.ref, Tag: k.tag, Role: role, Label: head(name, 120), Selector: simpleSelector(s)})
		}
	}
	out.NearbyText = []NearText{}
	for _, b := range texts {
		if k := i.mention(b.spot, b.v.role(b.row), head(b.text, maxNameShown)); k != nil {
			out.NearbyText = append(out.NearbyText, NearText{UID: k.ref, Text: cut(oneLine(b.text), 200)})
		}
	}
	out.NearbyActions = i.actions(near, maxNearAction)
	if formSpot.ok() {
		out.FormContext = i.formOut(formSpot, form)
	}
	if suggested != nil {
		if list := i.actions([]*action{suggested}, 1); len(list) == 1 {
			b := i.seen[suggested.spot].box
			out.ClickSuggestion = &ClickSuggestion{UID: list[0].ID, X: round1(b.X + b.W/2), Y: round1(b.Y + b.H/2)}
		}
	}
	i.t.mu.Lock()
	i.t.observed.trimLocked()
	i.t.mu.Unlock()
	return out, nil
}

// ask asks the page and Chrome about the element, together.
func (i *inspection) ask(ctx context.Context) error {
	f := i.v.frame
	defer i.t.releaseObjects(ctx, f.s)
	err := together(
		func() error {
			object, err := i.t.resolve(ctx, f, i.n.backend)
			if err == nil {
				err = i.t.runOnce(ctx, f, "inspect", &i.facts, i.v.meta.Walk, object)
			}
			return err
		},
		func() error {
			ctx, cancel := context.WithTimeout(ctx, inspectBound)
			defer cancel()
			no := false
			res, err := call(ctx, f.s, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{BackendNodeID: i.n.backend, FetchRelatives: &no})
			if err != nil {
				i.t.log.Debug("asking for a role and a name", "error", err)
				return nil // what the evidence says stays
			}
			for _, n := range res.Nodes {
				if n.BackendDOMNodeID == i.n.backend {
					i.ax = n
				}
			}
			return nil
		},
		func() error {
			ctx, cancel := context.WithTimeout(ctx, inspectBound)
			defer cancel()
			// In the page's own world, as pageDocument says.
			obj, err := call(ctx, f.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: i.n.backend, ObjectGroup: objectGroup})
			if err != nil || obj.Object == nil {
				return nil // the page's own answer tells whether it is gone
			}
			res, err := call(ctx, f.s, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: obj.Object.ObjectID})
			if err != nil {
				i.t.log.Debug("reading an element's listeners", "error", err)
				return nil
			}
			i.heard = res.Listeners
			return nil
		})
	if isCode(err, op.StaleActionRef) || err == nil && i.facts.Gone {
		return i.t.staleRef(i.n.String(), "its element has gone from the page")
	}
	if err != nil {
		return fmt.Errorf("inspecting %s: %w", i.n, err)
	}
	i.at, i.from = spot{i.v, i.facts.Row}, i.facts.Row
	if i.at.row >= len(i.v.rows) {
		i.at.row, i.from = -1, -1
	}
	if i.at.row < 0 && len(i.facts.Parents) > 0 && i.facts.Parents[0] < len(i.v.rows) {
		i.from = i.facts.Parents[0]
	}
	return nil
}

// around are the elements around the target, through frames, the nearest
// first.
func (i *inspection) around() []spot {
	var out []spot
	v, row := i.v, i.from
	if i.at.row >= 0 {
		v, row = up(v, row)
	}
	for v != nil && len(out) < maxAncestors {
		if row < 0 {
			v, row = v.parent, v.atOr()
			continue
		}
		if v.rows[row].tag != "" {
			out = append(out, spot{v, row})
		}
		v, row = up(v, row)
	}
	return out
}

// up is the row around a row, through frames.
func up(v *view, row int) (*view, int) {
	if row < 0 {
		return v.parent, v.atOr()
	}
	if p := v.rows[row].parent(); p >= 0 {
		return v, p
	}
	return v.parent, v.atOr()
}

// region is the part of the page that the target stands in.
func (i *inspection) region() spot {
	if a := i.acts[i.at]; a != nil {
		return a.region.spot
	}
	v, row := i.v, i.from
	for v != nil {
		if row >= 0 && row != i.at.row && strongRegions[v.role(row)] {
			return spot{v, row}
		}
		v, row = up(v, row)
	}
	return spot{}
}

func (i *inspection) boxOf() rect {
	if i.at.row >= 0 && i.v.rows[i.at.row].has(rowCandidate) {
		return i.v.box(i.at.row)
	}
	return i.v.toMain(i.facts.Box.X, i.facts.Box.Y, i.facts.Box.W, i.facts.Box.H)
}

// near are the actions nearest to the target, in reading order.
func (i *inspection) near() []*action {
	c := i.boxOf()
	far := func(a *action) float64 {
		dx, dy := a.box.X+a.box.W/2-c.X-c.W/2, a.box.Y+a.box.H/2-c.Y-c.H/2
		return dx*dx + dy*dy
	}
	list := slices.DeleteFunc(slices.Clone(i.sv.actions), func(a *action) bool { return a.spot == i.at })
	slices.SortStableFunc(list, func(a, b *action) int { return sign(far(a) - far(b)) })
	list = list[:min(len(list), maxNearAction)]
	slices.SortFunc(list, func(a, b *action) int { return a.order - b.order })
	return list
}

// form is the form around the target, or the set of fields where there is no
// form.
func (i *inspection) form() spot {
	v, row := i.v, i.from
	for row >= 0 {
		if v.rows[row].tag == "form" || v.role(row) == "form" || v.role(row) == "search" {
			return spot{v, row}
		}
		row = v.rows[row].parent()
	}
	return spot{}
}

func (i *inspection) within(s spot) []*action {
	var list []*action
	for _, a := range i.sv.actions {
		if s.within(a.v, a.row) && len(list) < maxFormFields+maxFormAction+100 {
			list = append(list, a)
		}
	}
	return list
}

func (i *inspection) formOut(at spot, list []*action) *InspectForm {
	name := (&region{spot: at, role: at.v.role(at.row)}).title()
	k := i.mention(at, at.v.role(at.row), name)
	if k == nil {
		return nil
	}
	f := &InspectForm{UID: k.ref, Label: head(name, maxMatchText), Fields: []ActionOut{}, Actions: []ActionOut{}}
	for _, a := range list {
		into, max := &f.Fields, maxFormFields
		if r := &a.v.rows[a.row]; r.tag != "input" && r.tag != "select" && r.tag != "textarea" && !slices.Contains(a.verbs, verbFill) ||
			slices.Contains([]string{"submit", "reset", "button", "image"}, r.get("~t")) {
			into, max = &f.Actions, maxFormAction
		}
		if len(*into) >= max {
			f.Left++
			continue
		}
		*into = append(*into, i.actions([]*action{a}, 1)...)
	}
	return f
}

// texts are the pieces of content nearest to the target, in order.
func (i *inspection) texts() []*content {
	blocks, _ := i.sv.blocks()
	order := map[spot]int{}
	n, here := 0, -1
	i.sv.each(func(v *view, row int) bool {
		if v == i.v && row == i.from {
			here = n
		}
		order[spot{v, row}] = n
		n++
		return true
	})
	var list []*content
	for _, b := range blocks {
		if b.row >= 0 && b.text != "" && !(b.v == i.at.v && b.row == i.at.row) {
			list = append(list, b)
		}
	}
	far := func(b *content) int {
		d := order[b.spot] - here
		return max(d, -d)
	}
	slices.SortStableFunc(list, func(a, b *content) int { return far(a) - far(b) })
	list = list[:min(len(list), maxNearText)]
	slices.SortStableFunc(list, func(a, b *content) int { return order[a.spot] - order[b.spot] })
	return list
}

// suggest is what to click when the target is meant: itself, the nearest
// action around it, or the only one in it.
func (i *inspection) suggest() *action {
	v, row := i.v, i.from
	for v != nil {
		if a := i.acts[spot{v, row}]; row >= 0 && a != nil && slices.Contains(a.verbs, verbClick) {
			return a
		}
		v, row = up(v, row)
	}
	if i.at.row < 0 {
		return nil
	}
	var only *action
	for _, a := range i.sv.actions {
		if slices.Contains(a.verbs, verbClick) && i.at.within(a.v, a.row) {
			if only != nil {
				return nil
			}
			only = a
		}
	}
	return only
}

// mention gives an element its ref.
func (i *inspection) mention(s spot, role, name string) *known {
	return i.t.mention(i.seen, s, role, name)
}

// actions are shown and granted their verbs, as a snapshot does.
func (i *inspection) actions(list []*action, max int) []ActionOut {
	out := []ActionOut{}
	for _, a := range list[:min(len(list), max)] {
		a.name = oneLine(a.v.label(a.row))
		k := i.mention(a.spot, a.role, a.name)
		if k == nil {
			continue
		}
		i.t.mu.Lock()
		k.verbs = a.verbs
		i.t.mu.Unlock()
		st := i.state(a.spot, a.role)
		out = append(out, ActionOut{Kind: "action", ID: k.ref, Role: a.role, Name: head(a.name, maxNameShown), State: st, Verbs: a.verbs})
	}
	return out
}

func (i *inspection) state(s spot, role string) ActionState {
	st := s.v.state(s.row, role)
	st.Focused, st.Choices = i.sv.focused == s, ""
	if d := i.seen[s]; d != nil {
		switch d.state {
		case detailCovered:
			st.Covered = d.blocker
		case detailClipped:
			st.Clipped = true
		}
	}
	return st
}

// target is the element itself.
func (i *inspection) target() InspectTarget {
	f := &i.facts
	out := InspectTarget{Index: -1, UID: i.n.ref, Tag: f.Tag, Selector: f.Selector, Type: f.Type, Disabled: f.Disabled, Rendered: f.Rendered, PointerEvents: "auto",
		Rect: i.v.toMain(f.Box.X, f.Box.Y, f.Box.W, f.Box.H), Box: rect{X: round1(f.Box.X), Y: round1(f.Box.Y), W: round1(f.Box.W), H: round1(f.Box.H)}, Verbs: []string{}, Styles: f.Styles, Attributes: f.Attributes, AttributesLeft: f.AttributesLeft,
		Listeners: []ListenerOut{}}
	if p, ok := f.Styles["pointer-events"].(string); ok {
		out.PointerEvents = p
	}
	if out.Attributes == nil {
		out.Attributes = [][2]string{}
	}
	if i.v.parent != nil {
		out.Frame = head(i.v.meta.URL, 300)
	}
	if i.at.row >= 0 {
		i.rendered(&out)
	}
	if n := i.ax; n != nil {
		out.Ignored = n.Ignored
		if role := axText(n.Role); role != "" && !n.Ignored {
			out.Role, out.Label = role, head(oneLine(axText(n.Name)), maxNameShown)
		}
		out.Description = head(oneLine(axText(n.Description)), maxNameShown)
	}
	i.listeners(&out)
	if s := i.region(); s.ok() && s.row >= 0 {
		role := s.v.role(s.row)
		name := (&region{spot: s, role: role}).title()
		if k := i.mention(s, role, name); k != nil {
			out.Context = &Place{UID: k.ref, Tag: k.tag, Role: role, Label: head(name, maxMatchText)}
		}
	}
	return out
}

// rendered fills in what the walk says of the target.
func (i *inspection) rendered(out *InspectTarget) {
	v, row := i.v, i.at.row
	r := &v.rows[row]
	role := v.role(row)
	out.Role, out.Label = role, head(oneLine(v.label(row)), maxNameShown)
	out.Href, out.Inert, out.Disabled = head(v.href(row), 300), r.has(rowInert) || v.inert, v.disabled(row)
	if t := r.get("~t"); t != "" {
		out.Type = t
	}
	out.State = i.state(i.at, role)
	out.Checked, out.HasValue = out.State.CheckedValue, out.State.Value != "" || out.State.ValueRedacted && out.State.ValueLength > 0
	if !out.State.ValueRedacted {
		out.Text = head(oneLine(v.text(row)), 500)
	}
	out.InViewport = r.has(rowView) && !v.hidden && v.inView(out.Rect)
	if a := i.acts[i.at]; a != nil {
		out.Index, out.Verbs = a.order, a.verbs
	}
	if b := out.State.Covered; b != "" {
		out.Occluded = occluder(b)
	}
	if k := i.mention(i.at, role, out.Label); k != nil {
		out.UID = k.ref
		i.t.mu.Lock()
		k.verbs = nil
		if len(out.Verbs) > 0 {
			k.verbs = out.Verbs
		}
		i.t.mu.Unlock()
	}
}

// occluder reads "div#overlay" or "div.a.b" as js/detail.js writes it.
func occluder(s string) *Occluder {
	if tag, id, ok := strings.Cut(s, "#"); ok {
		return &Occluder{Tag: tag, ID: id}
	}
	tag, classes, _ := strings.Cut(s, ".")
	return &Occluder{Tag: tag, ClassName: strings.ReplaceAll(classes, ".", " ")}
}

// listeners counts the target's listeners by kind.
func (i *inspection) listeners(out *InspectTarget) {
	for _, l := range i.heard {
		if l.BackendNodeID != 0 && l.BackendNodeID != i.n.backend {
			continue
		}
		one := ListenerOut{Type: head(l.Type, 60), Capture: l.UseCapture, Passive: l.Passive, Once: l.Once}
		at := slices.IndexFunc(out.Listeners, func(o ListenerOut) bool { o.Count = 0; return o == one })
		switch {
		case at >= 0:
			out.Listeners[at].Count++
		case len(out.Listeners) < maxListeners:
			one.Count = 1
			out.Listeners = append(out.Listeners, one)
		default:
			out.ListenersLeft++
		}
	}
	slices.SortStableFunc(out.Listeners, func(a, b ListenerOut) int { return strings.Compare(a.Type, b.Type) })
}

// simpleSelector names an element by its id, where it has a plain one.
func simpleSelector(s spot) string {
	r := &s.v.rows[s.row]
	if id := r.get("id"); id != "" && !strings.ContainsAny(id, " .:#[]>\"'") {
		return "#" + id
	}
	return ""
}
