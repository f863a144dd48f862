package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// SelectIn is the input of chrome_select: what to choose with, and what to
// choose.
type SelectIn struct {
	Ref             string   `json:"ref,omitzero" pattern:"^@?el-\\d+$" brief:"el-N of the control" jsonschema:"the select, listbox, combobox or button with a list, by a ref that a snapshot shows"`
	Selector        string   `json:"selector,omitzero" minLength:"1" brief:"" jsonschema:"the same, by CSS that matches exactly one; >>> goes into shadow roots, \"iframe >>\" into frames"`
	Find            *FindBy  `json:"find,omitempty" brief:"the one control that fits" jsonschema:"the same, by what a person perceives of it"`
	Label           *string  `json:"label,omitempty" maxLength:"1000" brief:"option by text" jsonschema:"the option's text"`
	Value           *string  `json:"value,omitempty" maxLength:"1000" brief:"" jsonschema:"the option's value"`
	Index           *int     `json:"index,omitempty" min:"0" max:"100000" brief:"from 0" jsonschema:"the option's place, from 0"`
	Labels          []string `json:"labels,omitempty" minItems:"0" maxItems:"100" brief:"of several: exactly these" jsonschema:"of several: exactly these are chosen, by text"`
	Values          []string `json:"values,omitempty" minItems:"0" maxItems:"100" brief:"" jsonschema:"the same, by value"`
	Indexes         []int    `json:"indexes,omitempty" minItems:"0" maxItems:"100" brief:"" jsonschema:"the same, by place"`
	Pace            string   `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human moves and presses as a hand does; default is the session's"`
	IncludeSnapshot bool     `json:"includeSnapshot,omitzero" brief:"" jsonschema:"take a snapshot afterwards"`
	MaxElements     int      `json:"maxElements,omitzero" min:"1" max:"80" brief:"-" jsonschema:"of that snapshot; 80 when absent"`
	op.TabInput
}

// Chosen is one option that is chosen.
type Chosen struct {
	Index int    `json:"index" jsonschema:"its place; -1 where the list is closed and only its text is shown"`
	Value string `json:"value"`
	Label string `json:"label"`
}

// SelectAction is what was chosen and what it did.
type SelectAction struct {
	Input        string   `json:"input"` // chrome
	Kind         string   `json:"kind" enum:"select|list|popup|radios" jsonschema:"a select of the browser, or of the page: a listbox, a list that opens, radio buttons"`
	Tag          string   `json:"tag"`
	RequestedTag string   `json:"requestedTag,omitempty" jsonschema:"of the element that was asked for, when another is chosen with"`
	ResolvedUID  string   `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Selected     []Chosen `json:"selected" jsonschema:"what is chosen now, at most 50"`
	Matches      bool     `json:"matches" jsonschema:"whether that is what was asked"`
	Unread       bool     `json:"unread,omitempty" jsonschema:"it could not be read back: its page went, or a dialog is open"`
	Open         bool     `json:"open,omitempty" jsonschema:"its list is still open"`
	Receipt
	notes []string
}

// SelectOut is the result of chrome_select.
type SelectOut struct {
	Action       SelectAction `json:"action"`
	Verification Verification `json:"verification"`
}

// Text is contract §1.11's form, with the receipt.
func (o SelectOut) Text() string {
	return o.Action.text("select", o.Action.notes...) + o.Verification.text()
}

var opSelect = op.Define(op.Spec{
	Name: "input.select", Tool: "chrome_select", Profile: "interaction", Title: "Select",
	Summary: "Choose options of a select, listbox, combobox or radio group.",
	Brief:   "Choose options of a select, listbox, combobox or radio group (one of ref, selector, find).",
	Doc: "Chooses by `label`, `value` or `index`; `labels`, `values` and `indexes` choose exactly those of a list that takes several. " +
		"A select of the browser is set with one `input` and one `change`. A list of the page's own (role listbox, combobox, menu, radiogroup) is opened with a click, its option is found, also in a list that loads while it is scrolled or filtered, and clicked. " +
		"What is chosen then is read back: `matches` says whether it is what was asked. An option that is not there or is disabled is refused with those that are.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"ref", "label"},
	OneOf: [][]string{{"ref", "selector", "find"}, {"label", "value", "index", "labels", "values", "indexes"}},
	Examples: []op.Example{
		{Title: "Choose by label", Input: json.RawMessage(`{"selector":"#one","label":"Beta"}`), Page: "input/choose.html"},
		{Title: "Choose several", Input: json.RawMessage(`{"selector":"#many","values":["a","c"]}`), Page: "input/choose.html"},
		{Title: "Choose from a list that opens", Input: json.RawMessage(`{"find":{"role":"combobox","name":"Color"},"label":"Green"}`), Page: "input/choose.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.ValueRefused, op.ClickIntercepted, op.TargetInvisible,
		op.TargetUnstable, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, selectOption)

// Bounds of the wait for a list to open or to find an option in it; a list that
// is filtered by typing may show nothing before.
const (
	optionsLimit  = 2500 * time.Millisecond
	filteredLimit = 400 * time.Millisecond
)

// listLimit bounds the search of an option in a list that loads while it is
// scrolled; a list without an end is given up then.
const listLimit = 15 * time.Second

// choice is what the page said of what is chosen with.
type choice struct {
	State        string `json:"state"`
	Reason       string `json:"reason"`
	Kind         string `json:"kind"`
	Tag          string `json:"tag"`
	RequestedTag string `json:"requestedTag"`
	Called       string `json:"called"`
	Multiple     bool   `json:"multiple"`
	Editable     bool   `json:"editable"`
	Open         bool   `json:"open"`
}

// optionState is what the page said of a wanted option.
type optionState struct {
	State   string   `json:"state"`
	Wanted  string   `json:"wanted"`
	Label   string   `json:"label"`
	Allowed []string `json:"allowed"`
	Count   int      `json:"count"`
	Changed bool     `json:"changed"`
}

// selectRun is one choice.
type selectRun struct {
	t      *Tab
	c      *Call
	w      *witness
	p      *pace
	node   node
	choice choice
	by     string // label, value or index
	wanted []any
	labels []string // of the options that were clicked
	out    SelectOut
}

// wants are the options that the call asks for.
func (in SelectIn) wants() (by string, wanted []any, several bool) {
	switch {
	case in.Label != nil:
		return "label", []any{*in.Label}, false
	case in.Value != nil:
		return "value", []any{*in.Value}, false
	case in.Index != nil:
		return "index", []any{*in.Index}, false
	case in.Labels != nil:
		return "label", anyOf(in.Labels), true
	case in.Values != nil:
		return "value", anyOf(in.Values), true
	}
	return "index", anyOf(in.Indexes), true
}

func anyOf[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// Check refuses what the schema cannot.
func (in SelectIn) Check() error { return checkFind("chrome_select", in.Find) }

func selectOption(ctx context.Context, c *Call, in SelectIn) (SelectOut, error) {
	t := c.tab
	by, wanted, several := in.wants()
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return SelectOut{}, err
	}
	n, err := t.element(ctx, elementInput{in.Ref, in.Selector, in.Find}, "")
	if err != nil {
		return SelectOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return SelectOut{}, err
	}
	defer w.stop()
	s := &selectRun{t: t, c: c, w: w, p: p, node: n, by: by, wanted: wanted}
	defer t.releaseTarget(ctx, n.frame)
	if err := s.prepare(ctx, several); err != nil {
		return SelectOut{}, w.untouched(err)
	}
	s.out.Action = SelectAction{Input: "chrome", Kind: s.choice.Kind, Tag: s.choice.Tag, RequestedTag: s.choice.RequestedTag, ResolvedUID: n.ref, Selected: []Chosen{}}
	if s.choice.Kind == "select" {
		err = s.native(ctx)
	} else {
		err = s.list(ctx)
		if e, ok := errors.AsType[*op.Error](err); ok && e.Kind == op.Rejected && c.effects.Load() {
			e.Kind = op.OutcomeUnknown
			e.Message = strings.TrimSuffix(e.Message, "; nothing was chosen") + "; its list was opened before"
		}
	}
	if err != nil && !w.ended(err) {
		w.disarm(ctx)
		return SelectOut{}, c.cause(err)
	}
	if errors.Is(err, errDialog) && !c.effects.Load() {
		return SelectOut{}, w.untouched(err)
	}
	s.out.Action.Receipt = w.settle(ctx, in.IncludeSnapshot)
	s.read(ctx)
	s.out.Verification = t.verify(ctx, c, w, in.IncludeSnapshot, in.MaxElements)
	return s.out, nil
}

// prepare finds how the choice is made. Nothing is touched.
func (s *selectRun) prepare(ctx context.Context, several bool) error {
	t := s.t
	look, done := s.w.guard(ctx)
	defer done()
	object, err := t.resolve(look, s.node.frame, s.node.backend)
	if err != nil {
		return t.staleNode(s.node, err)
	}
	if err := t.inputFn(look, s.node.frame, object, "choice", &s.choice); err != nil {
		return t.staleNode(s.node, err)
	}
	ch := s.choice
	if ch.State == "no-choice" {
		return op.Reject(op.InvalidActionTarget, "%s on tab %d is nothing to choose from; nothing was done", s.node, t.conn.Key().TabID).
			WithHint("name a select, or an element with the role listbox, combobox or radiogroup; click other lists").WithDetail("reason", "no-choice").WithDetail("url", t.url())
	}
	if err := t.refusal(s.node.String(), s.node.ref, ch.State, ch.Reason, "", "", point{}); err != nil {
		return err
	}
	if several && !ch.Multiple && len(s.wanted) != 1 && ch.Kind == "select" {
		return op.Reject(op.ValueRefused, "%s on tab %d takes one option; %d were given; nothing was chosen", s.node, t.conn.Key().TabID, len(s.wanted)).
			WithHint("give one option").WithDetail("wanted", s.wanted)
	}
	if len(s.wanted) == 0 && ch.Kind == "radios" {
		return op.Reject(op.ValueRefused, "%s on tab %d holds radio buttons, of which one stays chosen; nothing was done", s.node, t.conn.Key().TabID).WithHint("give one option")
	}
	return s.w.arm(look, s.node.frame)
}

// native chooses the options of a select.
func (s *selectRun) native(ctx context.Context) error {
	t := s.t
	var state optionState
	look, done := s.w.guard(ctx)
	err := t.inputFn(look, s.node.frame, "", "chooseNative", &state, s.by, s.wanted, true)
	done()
	if err != nil {
		return err
	}
	if e := s.refused(state); e != nil {
		return e
	}
	if !state.Changed {
		s.out.Action.notes = append(s.out.Action.notes, "it was chosen before: the page was told of no change")
		return nil
	}
	s.c.begin()
	s.w.inputAt()
	err = s.w.deliver(ctx, func(ctx context.Context) error {
		return t.inputFn(ctx, s.node.frame, "", "chooseNative", &state, s.by, s.wanted, false)
	})
	switch {
	case err == nil:
		if e := s.refused(state); e != nil {
			return e
		}
		return nil
	case s.w.over():
		return nil // its event handlers opened a dialog or left the page
	}
	return err
}

// refused is the error of a wanted option that is not to be had.
func (s *selectRun) refused(state optionState) *op.Error {
	why := ""
	switch state.State {
	case "ok":
		return nil
	case "none":
		why = "has no option"
	case "unsearched":
		e := op.Reject(op.ValueRefused, "the list of %s on tab %d was searched as far as its option %d, has no %q there and goes on; nothing was chosen",
			s.node, s.t.conn.Key().TabID, state.Count, cut(state.Wanted, 100))
		return e.WithHint("type in its search field or narrow its list, then choose; or scroll the list and click the option").
			WithDetail("reason", "list-not-ended").WithDetail("searched", state.Count).WithDetail("wanted", cut(state.Wanted, 500)).WithDetail("url", s.t.url())
	case "option-disabled", "disabled", "inert":
		why = "has disabled the option"
	default:
		e, _ := errors.AsType[*op.Error](s.t.refusal(s.node.String(), s.node.ref, state.State, "", "", "", point{}))
		return e
	}
	e := op.Reject(op.ValueRefused, "%s on tab %d %s %q; nothing was chosen", s.node, s.t.conn.Key().TabID, why, cut(state.Wanted, 100))
	if s.by == "index" {
		e.Message = fmt.Sprintf("%s on tab %d %s %s; it has %d; nothing was chosen", s.node, s.t.conn.Key().TabID, why, state.Wanted, state.Count)
	}
	if len(state.Allowed) > 0 {
		e.WithHint("choose one of: %s", cut(strings.Join(state.Allowed, ", "), 600)).WithDetail("allowed", state.Allowed)
	} else {
		e.WithHint("take a snapshot and look what it offers")
	}
	return e.WithDetail("wanted", cut(state.Wanted, 500)).WithDetail("url", s.t.url())
}

// list opens a list of the page's own and clicks what is wanted.
func (s *selectRun) list(ctx context.Context) error {
	if !s.choice.Open {
		if err := s.open(ctx); err != nil || s.w.over() {
			return err
		}
	}
	for i, want := range s.wanted {
		if i > 0 && s.choice.Kind == "popup" {
			// A list that closes with each choice is opened again.
			n, err := s.options(ctx, 200*time.Millisecond)
			if err != nil {
				return err
			}
			if n == 0 {
				if err := s.open(ctx); err != nil || s.w.over() {
					return err
				}
			}
		}
		if err := s.option(ctx, want); err != nil || s.w.over() {
			return err
		}
	}
	if s.choice.Multiple {
		return s.dropOthers(ctx)
	}
	return nil
}

// click clicks what the page has made ready.
func (s *selectRun) click(ctx context.Context) error {
	n := s.node
	n.boxKnown = false
	_, err := s.t.clickObject(ctx, s.c, s.w, n, runtime.RemoteObjectID(""), ClickIn{Button: "left", Clicks: 1}, s.p)
	return err
}

// open clicks the chooser and waits for its list.
func (s *selectRun) open(ctx context.Context) error {
	look, done := s.w.guard(ctx)
	var again struct {
		State string `json:"state"`
	}
	err := s.t.inputFn(look, s.node.frame, "", "chooserAgain", &again)
	done()
	if err != nil {
		return err
	}
	if err := s.t.refusal(s.node.String(), s.node.ref, again.State, "", "", "", point{}); err != nil {
		return err
	}
	if err := s.click(ctx); err != nil || s.w.over() {
		return err
	}
	limit := optionsLimit
	if s.choice.Editable {
		limit = filteredLimit
	}
	n, err := s.options(ctx, limit)
	if err != nil || n > 0 || s.choice.Editable {
		return err
	}
	return op.Unknown(op.InvalidActionTarget, "%s on tab %d was clicked and showed no list of options; nothing was chosen", s.node, s.t.conn.Key().TabID).
		WithHint("take a snapshot and click the option").WithDetail("reason", "no-list").WithDetail("url", s.t.url())
}

func (s *selectRun) options(ctx context.Context, limit time.Duration) (int, error) {
	look, done := s.w.guard(ctx)
	defer done()
	var res struct {
		Count int `json:"count"`
	}
	err := s.t.inputFn(look, s.node.frame, "", "awaitOptions", &res, limit.Milliseconds())
	return res.Count, err
}

// option finds one option and clicks it. Where it is not there and the list
// can be filtered, its text is typed.
func (s *selectRun) option(ctx context.Context, want any) error {
	state, err := s.find(ctx, want)
	if err != nil {
		return err
	}
	text, isText := want.(string)
	if (state.State == "none" || state.State == "unsearched") && s.choice.Editable && isText && s.by == "label" {
		k := &keyboard{t: s.t, c: s.c, w: s.w, p: s.p, sent: true}
		if _, err := k.typeText(ctx, text, false); err != nil || s.w.over() {
			return err
		}
		if _, err := s.options(ctx, optionsLimit); err != nil {
			return err
		}
		filtered, err := s.find(ctx, want)
		if err != nil {
			return err
		}
		if filtered.State != "none" || len(state.Allowed) == 0 {
			state = filtered
		}
	}
	state.Wanted = fmt.Sprint(want)
	if e := s.refused(state); e != nil {
		return e
	}
	s.labels = append(s.labels, state.Label)
	if s.choice.Multiple && state.Changed { // chosen before: a click would take it back
		return nil
	}
	for try := 0; ; try++ {
		err := s.click(ctx)
		if try == 2 || !isCode(err, op.StaleActionRef) || s.w.over() {
			return err
		}
		// A list that is painted while it is scrolled made another element of it.
		if state, err := s.find(ctx, want); err != nil || state.State != "ok" {
			return err
		}
	}
}

func (s *selectRun) find(ctx context.Context, want any) (optionState, error) {
	look, done := s.w.guard(ctx)
	defer done()
	var res struct {
		optionState
		Chosen bool `json:"chosen"`
	}
	limit := listLimit
	if at, ok := ctx.Deadline(); ok {
		limit = max(0, min(limit, time.Until(at)*3/4)) // what is left has to tell what was seen
	}
	err := s.t.inputFn(look, s.node.frame, "", "optionFor", &res, s.by, want, limit.Milliseconds())
	res.Changed = res.Chosen
	return res.optionState, err
}

// dropOthers takes back what is chosen and not wanted.
func (s *selectRun) dropOthers(ctx context.Context) error {
	for range 100 {
		var state optionState
		look, done := s.w.guard(ctx)
		err := s.t.inputFn(look, s.node.frame, "", "optionToDrop", &state, s.by, s.wanted)
		done()
		if err != nil || state.State != "ok" {
			return err
		}
		before := state.Label
		if err := s.click(ctx); err != nil || s.w.over() {
			return err
		}
		look, done = s.w.guard(ctx)
		err = s.t.inputFn(look, s.node.frame, "", "frame", nil)
		if err == nil {
			err = s.t.inputFn(look, s.node.frame, "", "optionToDrop", &state, s.by, s.wanted)
		}
		done()
		if err != nil || state.State != "ok" || state.Label == before {
			return err // a click does not take it back; what is chosen is told
		}
	}
	return nil
}

// read reads back what is chosen.
func (s *selectRun) read(ctx context.Context) {
	a := &s.out.Action
	var got struct {
		Gone     bool     `json:"gone"`
		Same     bool     `json:"same"`
		Open     bool     `json:"open"`
		Selected []Chosen `json:"selected"`
	}
	err := errDialog
	if !s.w.over() {
		err = s.w.deliver(ctx, func(ctx context.Context) error {
			return s.t.inputFn(ctx, s.node.frame, "", "chosen", &got, s.by, s.wanted, orNoText(s.labels))
		})
	}
	if err != nil || got.Gone {
		a.Unread = true
		a.notes = append(a.notes, "what is chosen could not be read back: it is gone, or a dialog is open")
		return
	}
	a.Matches, a.Open = got.Same, got.Open
	if len(got.Selected) > 0 {
		a.Selected = got.Selected
	}
	var names []string
	for _, o := range a.Selected {
		names = append(names, quoteName(o.Label, 60))
	}
	now := strings.Join(names, ", ")
	if now == "" {
		now = "nothing"
	}
	if a.Matches {
		a.notes = append(a.notes, "chosen: "+cut(now, 300))
	} else {
		a.notes = append(a.notes, "what is chosen differs from what was asked: the page holds "+cut(now, 300))
	}
	if a.Open {
		a.notes = append(a.notes, "its list is still open")
	}
	a.withoutOwnValue()
}

func orNoText(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
