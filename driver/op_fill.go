package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// maxFill is how long a text may be, in UTF-16 units.
const maxFill = 100_000

// FillIn is the input of chrome_fill: the text, and one of ref, selector and find.
type FillIn struct {
	Ref             string  `json:"ref,omitzero" pattern:"^@?el-\\d+$" brief:"el-N shown with [fill], or a check box or radio with [click]" jsonschema:"the control, by a ref that the latest snapshot shows with [fill], or a check box or radio button with [click]"`
	Selector        string  `json:"selector,omitzero" minLength:"1" brief:"CSS of one element" jsonschema:"the control, by CSS that matches exactly one; >>> goes into shadow roots, \"iframe >>\" into frames"`
	Find            *FindBy `json:"find,omitempty" brief:"the one element that fits" jsonschema:"the control, by what a person perceives of it; it must fit one visible element only, or give index"`
	Text            string  `json:"text" maxLength:"100000" brief:"the whole value; of a choice its label, of a check box true or false, of a date YYYY-MM-DD" jsonschema:"the whole new value; of a choice its label or value, of a check box true or false, of a date YYYY-MM-DD"`
	Submit          bool    `json:"submit,omitzero" brief:"then press Enter" jsonschema:"press Enter afterwards"`
	Pace            string  `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human types key by key, a text of more than 400 characters at once as if pasted; default is the session's"`
	IncludeSnapshot bool    `json:"includeSnapshot,omitzero" brief:"" jsonschema:"take a snapshot afterwards"`
	MaxElements     int     `json:"maxElements,omitzero" min:"1" max:"80" brief:"-" jsonschema:"of that snapshot; 80 when absent"`
	op.TabInput
}

// FillAction is what was filled, what the page made of it and what else
// changed.
type FillAction struct {
	Input         string `json:"input"`  // chrome
	Length        int    `json:"length"` // of the given text, in UTF-16 units
	Tag           string `json:"tag"`
	Type          string `json:"type,omitempty" jsonschema:"of an input or select"`
	RequestedTag  string `json:"requestedTag,omitempty" jsonschema:"of the element that was asked for, when the control is another"`
	ResolvedUID   string `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Matches       bool   `json:"matches" jsonschema:"whether the control now holds what was asked"`
	Value         string `json:"value,omitempty" jsonschema:"what it holds, at most 500 characters; never of a secret"`
	ValueLength   int    `json:"valueLength" jsonschema:"in UTF-16 units"`
	ValueRedacted bool   `json:"valueRedacted,omitempty"`
	Invalid       string `json:"invalid,omitempty" jsonschema:"what the browser objects to in the value"`
	Submitted     bool   `json:"submitted,omitempty"`
	Unread        bool   `json:"unread,omitempty" jsonschema:"the control could not be read back: its page went, or a dialog is open"`
	Receipt
	notes []string
}

// FillOut is the result of chrome_fill.
type FillOut struct {
	Action       FillAction   `json:"action"`
	Verification Verification `json:"verification"`
}

// Text is contract §1.11's form, with the receipt.
func (o FillOut) Text() string {
	return o.Action.text("fill", o.Action.notes...) + o.Verification.text()
}

var opFill = op.Define(op.Spec{
	Name: "input.fill", Tool: "chrome_fill", Profile: "core", Title: "Fill",
	Summary: "Replace the whole value of a form control or editor.",
	Brief:   "Replace the whole value of a form control (one of ref, selector, find).",
	Doc: "Replaces all of the control's value: text fields and editors get real editing that frameworks hear; a choice is made by label or value; a check box or radio button is clicked when it has to change " +
		"(`true` or `false`); number, date (YYYY-MM-DD), time (HH:MM), month (YYYY-MM), week (YYYY-Www), datetime-local, color (#rrggbb) and range take their own format. " +
		"A value that the control cannot hold, a read-only, disabled or covered control is refused before anything is entered. The value is read back: `matches` says whether it is what was asked, " +
		"`value` what the page made of it. Values of secrets are never returned.",
	Effect: op.MayMutate, Deadline: op.TextInputDeadline, Tab: op.PageTab, Args: []string{"ref", "text"},
	OneOf: [][]string{{"ref", "selector", "find"}},
	Examples: []op.Example{
		{Title: "Fill a field", Input: json.RawMessage(`{"selector":"#text","text":"new text"}`), Page: "input/fill-kinds.html"},
		{Title: "Fill what is labeled so", Input: json.RawMessage(`{"find":{"label":"Email"},"text":"me@example.com"}`), Page: "input/fill-kinds.html"},
		{Title: "Choose an option", Input: json.RawMessage(`{"selector":"#select","text":"Beta"}`), Page: "input/fill-kinds.html"},
		{Title: "Search", Input: json.RawMessage(`{"selector":"#one input","text":"lamps","submit":true}`), Page: "input/submit.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.ActionVerbMismatch, op.InvalidActionTarget, op.ActionTargetNotFound, op.NotEditable, op.ValueRefused,
		op.ClickIntercepted, op.TargetInvisible, op.TargetUnstable, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, fill)

// prepared is what the page said of a control before it is filled.
type prepared struct {
	State        string   `json:"state"`
	Reason       string   `json:"reason"`
	Allowed      []string `json:"allowed"`
	Blocker      string   `json:"blocker"`
	Within       string   `json:"within"`
	X            float64  `json:"x"`
	Y            float64  `json:"y"`
	Tag          string   `json:"tag"`
	Type         string   `json:"type"`
	RequestedTag string   `json:"requestedTag"`
	Kind         string   `json:"kind"` // type, edit, set, select or check
	Secret       bool     `json:"secret"`
	Click        bool     `json:"click"` // a check must be clicked to become what is wanted
}

// Check refuses what the schema cannot.
func (in FillIn) Check() error {
	if length := utf16Length(in.Text); length > maxFill {
		return op.Invalidf("chrome_fill: field %q has %d UTF-16 units; allowed: at most %d", "text", length, maxFill).WithDetail("field", "text")
	}
	return checkFind("chrome_fill", in.Find)
}

func fill(ctx context.Context, c *Call, in FillIn) (FillOut, error) {
	t := c.tab
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return FillOut{}, err
	}
	n, err := t.elementToFill(ctx, elementInput{in.Ref, in.Selector, in.Find})
	if err != nil {
		return FillOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return FillOut{}, err
	}
	defer w.stop()
	look, done := w.guard(ctx)
	defer done()
	object, err := t.resolve(look, n.frame, n.backend)
	if err != nil {
		return FillOut{}, w.untouched(t.staleNode(n, err))
	}
	defer t.releaseTarget(ctx, n.frame)
	var pre prepared
	if err := t.inputFn(look, n.frame, object, "prepare", &pre, in.Text); err != nil {
		return FillOut{}, w.untouched(t.staleNode(n, err))
	}
	if err := t.unfillable(n, pre, in.Text); err != nil {
		return FillOut{}, err
	}
	out := FillOut{Action: FillAction{Input: "chrome", Length: utf16Length(in.Text), Tag: pre.Tag, Type: pre.Type, RequestedTag: pre.RequestedTag, ResolvedUID: n.ref}}
	if err := t.enter(ctx, c, w, n, pre, in.Text, p); err != nil {
		w.disarm(ctx)
		return FillOut{}, w.untouched(err)
	}
	before := t.readBack(ctx, w, n, in.Text, &out.Action)
	if in.Submit && before == nil && !w.over() {
		k := &keyboard{t: t, c: c, w: w, p: p, sent: true}
		if pre.Kind == "check" || pre.Kind == "set" || pre.Kind == "select" {
			if _, err := t.focus(ctx, c, w, n, caretKeep); err != nil {
				return FillOut{}, err
			}
		}
		if err := k.press(ctx, chord{def: namedKeys["enter"]}); err != nil {
			return FillOut{}, err
		}
		out.Action.Submitted = true
	}
	out.Action.Receipt = w.settle(ctx, in.IncludeSnapshot)
	if !in.Submit {
		// What stands when the page has come to rest counts, not what stood
		// right after the input.
		_ = t.readBack(ctx, w, n, in.Text, &out.Action)
	}
	out.Action.tell()
	out.Verification = t.verify(ctx, c, w, in.IncludeSnapshot, in.MaxElements)
	return out, nil
}

// unfillable is the error of a control that was not prepared.
func (t *Tab) unfillable(n node, pre prepared, text string) error {
	tab := t.conn.Key().TabID
	var e *op.Error
	switch pre.State {
	case "not-editable":
		e = op.Reject(op.NotEditable, "%s on tab %d cannot be filled: %s; nothing was entered", n, tab, pre.Reason).
			WithHint("name a form control or an editor; a snapshot shows them with [fill]").WithDetail("reason", pre.Reason).WithDetail("tag", pre.Tag)
	case "refused":
		shown := cut(text, 60)
		if pre.Secret {
			shown = "the given text"
		}
		e = op.Reject(op.ValueRefused, "%s on tab %d does not take %q: %s; nothing was entered", n, tab, shown, pre.Reason)
		if len(pre.Allowed) > 0 {
			e.WithHint("give one of: %s", cut(strings.Join(pre.Allowed, ", "), 600)).WithDetail("allowed", pre.Allowed)
		} else {
			e.WithHint("give a value in that form")
		}
		if !pre.Secret {
			e.WithDetail("wanted", cut(text, 500))
		}
	default:
		return t.refusal(n.String(), n.ref, pre.State, pre.Reason, pre.Blocker, pre.Within, point{pre.X, pre.Y})
	}
	if n.ref != "" {
		e.WithDetail("ref", n.ref)
	}
	return e.WithDetail("url", t.url())
}

// enter puts the text into the prepared control.
func (t *Tab) enter(ctx context.Context, c *Call, w *witness, n node, pre prepared, text string, p *pace) error {
	if pre.Kind == "check" {
		if !pre.Click {
			return w.arm(ctx, n.frame)
		}
		n.boxKnown = false
		_, err := t.clickObject(ctx, c, w, n, runtime.RemoteObjectID(""), ClickIn{Button: "left", Clicks: 1}, p)
		return err
	}
	if p.human && (pre.Kind == "type" || pre.Kind == "edit") {
		n.boxKnown = false
		if _, err := t.clickObject(ctx, c, w, n, runtime.RemoteObjectID(""), ClickIn{Button: "left", Clicks: 1}, p); err != nil {
			return err
		}
	} else if err := w.arm(ctx, n.frame); err != nil {
		return err
	}
	if pre.Kind == "set" || pre.Kind == "select" {
		var res struct {
			State string `json:"state"`
		}
		c.begin()
		w.inputAt()
		err := w.deliver(ctx, func(ctx context.Context) error { return t.inputFn(ctx, n.frame, "", "set", &res, text) })
		if err == nil && res.State == "stale" {
			return t.refusal(n.String(), n.ref, "stale", "", "", "", point{})
		}
		if err != nil && w.over() {
			return nil // its event handlers opened a dialog or left the page
		}
		return err
	}
	empty, err := t.focus(ctx, c, w, n, caretAll)
	if err != nil {
		return err
	}
	k := &keyboard{t: t, c: c, w: w, p: p, sent: true}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	switch {
	case text == "" && empty:
		return nil
	case text == "":
		return k.press(ctx, chord{def: namedKeys["delete"]})
	case p.human && len([]rune(text)) <= humanTyping:
		_, err := k.typeText(ctx, text, pre.Tag == "textarea")
		return err
	}
	return k.insert(ctx, text)
}

// readBack reads the control and compares it with what was wanted. It returns
// an error only for itself: an unread control is told in the receipt.
func (t *Tab) readBack(ctx context.Context, w *witness, n node, text string, a *FillAction) error {
	var got struct {
		Gone    bool   `json:"gone"`
		Same    bool   `json:"same"`
		Value   string `json:"value"`
		Cut     bool   `json:"cut"`
		Length  int    `json:"length"`
		Secret  bool   `json:"secret"`
		Invalid string `json:"invalid"`
	}
	err := errDialog
	if !w.over() {
		err = w.deliver(ctx, func(ctx context.Context) error { return t.inputFn(ctx, n.frame, "", "read", &got, text) })
	}
	if err != nil || got.Gone {
		a.Unread = true
		return err
	}
	a.Unread = false
	a.Matches, a.Value, a.ValueLength, a.ValueRedacted, a.Invalid = got.Same, got.Value, got.Length, got.Secret, got.Invalid
	return nil
}

// tell adds to the receipt what the control holds.
func (a *FillAction) tell() {
	switch {
	case a.Unread && !a.Submitted:
		a.notes = append(a.notes, "the control could not be read back: it is gone, or a dialog is open")
	case a.Unread:
	case a.Matches && a.ValueRedacted:
		a.notes = append(a.notes, fmt.Sprintf("value: as given (%d characters, not shown)", a.ValueLength))
	case a.Matches:
		a.notes = append(a.notes, "value: as given")
	case a.ValueRedacted:
		a.notes = append(a.notes, fmt.Sprintf("value differs from what was given: it has %d characters, %d were given (not shown)", a.ValueLength, a.Length))
	default:
		a.notes = append(a.notes, fmt.Sprintf("value differs from what was given: the page holds %q", cut(a.Value, 200)))
	}
	if a.Invalid != "" {
		a.notes = append(a.notes, "invalid: "+a.Invalid)
	}
	a.withoutOwnValue()
}
