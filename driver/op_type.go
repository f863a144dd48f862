package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of a text that is typed, in UTF-16 units: a hand needs about 0.15 s
// for each, and the call has at most 120 s.
const (
	maxTyped      = 10_000
	maxTypedHuman = 600
)

// TypeIn is the input of chrome_type.
type TypeIn struct {
	Text            string     `json:"text" maxLength:"10000" brief:"" jsonschema:"what is typed where the focus is; a new line presses Enter, a tab Tab"`
	Into            *ElementBy `json:"into,omitempty" brief:"focus this first; the caret goes to the end" jsonschema:"the element that gets the focus first; its text stays, the caret goes behind it"`
	PressEnter      bool       `json:"pressEnter,omitzero" brief:"" jsonschema:"press Enter afterwards"`
	Pace            string     `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human has the rhythm of a hand, for at most 600 characters; default is the session's"`
	IncludeSnapshot bool       `json:"includeSnapshot,omitzero" brief:"" jsonschema:"take a snapshot afterwards"`
	MaxElements     int        `json:"maxElements,omitzero" min:"1" max:"80" brief:"-" jsonschema:"of that snapshot; 80 when absent"`
	op.TabInput
}

// TypeAction is what was typed and what it did.
type TypeAction struct {
	Input        string `json:"input"`  // chrome
	Length       int    `json:"length"` // of the given text, in UTF-16 units
	Typed        int    `json:"typed" jsonschema:"how much of it was entered; less than length only when a dialog opened or the page went"`
	Tag          string `json:"tag,omitempty" jsonschema:"of the element that was given the focus"`
	RequestedTag string `json:"requestedTag,omitempty" jsonschema:"of the element that was asked for, when another takes its text"`
	ResolvedUID  string `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	PressedEnter bool   `json:"pressedEnter,omitempty"`
	Receipt
	notes []string
}

// TypeOut is the result of chrome_type.
type TypeOut struct {
	Action       TypeAction   `json:"action"`
	Verification Verification `json:"verification"`
}

// Text is contract §1.11's form, with the receipt.
func (o TypeOut) Text() string {
	return o.Action.text("type", o.Action.notes...) + o.Verification.text()
}

var opType = op.Define(op.Spec{
	Name: "input.type", Tool: "chrome_type", Profile: "interaction", Title: "Type",
	Summary: "Type text with real keys, one after the other.",
	Brief:   "Type with real keys, adding to what is there.",
	Doc: "Presses and releases the key of each character, with Shift where it needs it, so that pages that listen to keys (games, masked fields, suggestions) see them; " +
		"a character that no key of a US keyboard types (é, 漢, an emoji) is entered as text. It adds to what a field holds: chrome_fill replaces it, and is faster for long texts. " +
		"With `into` that element gets the focus first and the caret goes to the end; without it keys go to what has the focus, in whichever frame. " +
		"A dialog or a navigation ends the typing; `typed` says how far it came.",
	Effect: op.MayMutate, Deadline: op.TextInputDeadline, Tab: op.PageTab, Args: []string{"text"},
	Examples: []op.Example{
		{Title: "Type into a field", Input: json.RawMessage(`{"text":"a.b-c@d#","into":{"by":"selector","value":"#field"}}`), Page: "input/keys.html"},
		{Title: "Search", Input: json.RawMessage(`{"text":"lamps","into":{"by":"find","label":"Search"},"pressEnter":true}`), Page: "input/fill-kinds.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.NotEditable, op.ClickIntercepted, op.TargetInvisible,
		op.TargetUnstable, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, typeKeys)

// Check refuses what the schema cannot, whatever the pace.
func (in TypeIn) Check() error {
	if length := utf16Length(in.Text); length > maxTyped {
		return typedTooLong(length, maxTyped).WithHint("use chrome_fill for a long text")
	}
	if in.Into == nil {
		return nil
	}
	_, err := in.Into.element("chrome_type", "into")
	return err
}

func typedTooLong(length, limit int) *op.Error {
	return op.Invalidf("chrome_type: field %q has %d UTF-16 units; allowed: at most %d", "text", length, limit).WithDetail("field", "text")
}

func typeKeys(ctx context.Context, c *Call, in TypeIn) (TypeOut, error) {
	t := c.tab
	text := strings.ReplaceAll(strings.ReplaceAll(in.Text, "\r\n", "\n"), "\r", "\n")
	length := utf16Length(in.Text)
	p := t.paceOf(c, in.Pace)
	if p.human && length > maxTypedHuman {
		return TypeOut{}, typedTooLong(length, maxTypedHuman).WithHint("a hand takes too long for it: type it in parts, or with pace fast")
	}
	var into elementInput
	if in.Into != nil {
		var err error
		if into, err = in.Into.element("chrome_type", "into"); err != nil {
			return TypeOut{}, err
		}
	}
	if err := t.leaseFrames(ctx); err != nil {
		return TypeOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return TypeOut{}, err
	}
	defer w.stop()
	out := TypeOut{Action: TypeAction{Input: "chrome", Length: length}}
	if in.Into != nil {
		err = t.typeInto(ctx, c, w, into, p, &out.Action)
	} else {
		err = t.armFocused(ctx, w)
	}
	if err != nil {
		w.disarm(ctx)
		return TypeOut{}, w.untouched(err)
	}
	if in.Into == nil && !t.textHasFocus(ctx, w) {
		out.Action.notes = append(out.Action.notes, "no field has the focus: the keys went to the page")
	}
	k := &keyboard{t: t, c: c, w: w, p: p}
	out.Action.Typed, err = k.typeText(ctx, text, true)
	if err != nil {
		w.disarm(ctx)
		if !k.sent {
			return TypeOut{}, err
		}
		return TypeOut{}, fmt.Errorf("typing, after %d of %d characters: %w", out.Action.Typed, length, cleared(err))
	}
	if short := utf16Length(text) - out.Action.Typed; short > 0 {
		out.Action.notes = append(out.Action.notes, fmt.Sprintf("typed %d of %d characters: then the page went, or a dialog opened", out.Action.Typed, length))
	} else {
		out.Action.Typed = length
	}
	if in.PressEnter && !w.over() {
		if err := k.press(ctx, chord{def: namedKeys["enter"]}); err != nil {
			return TypeOut{}, err
		}
		out.Action.PressedEnter = true
	}
	out.Action.Receipt = w.settle(ctx, in.IncludeSnapshot)
	out.Verification = t.verify(ctx, c, w, in.IncludeSnapshot, in.MaxElements)
	return out, nil
}

// typeInto gives the element the focus: a hand clicks it.
func (t *Tab) typeInto(ctx context.Context, c *Call, w *witness, into elementInput, p *pace, a *TypeAction) error {
	n, err := t.element(ctx, into, "")
	if err != nil {
		return err
	}
	a.ResolvedUID = n.ref
	if p.human {
		tg, err := t.clickNode(ctx, c, w, n, ClickIn{Button: "left", Clicks: 1}, p)
		t.releaseTarget(ctx, tg.frame)
		if err != nil || w.over() {
			return err
		}
	}
	can, err := t.focusNode(ctx, c, w, n, true)
	a.Tag, a.RequestedTag = can.Tag, can.RequestedTag
	return err
}

// textHasFocus reports whether something that takes text has the focus, as far
// as it can be told.
func (t *Tab) textHasFocus(ctx context.Context, w *witness) bool {
	ctx, done := w.guard(ctx)
	defer done()
	for _, f := range w.frames {
		var at struct {
			Frame bool `json:"frame"`
			Text  bool `json:"text"`
		}
		if err := t.inputFn(ctx, f, "", "typable", &at); err != nil || at.Text || at.Frame && len(w.frames) == 1 {
			return true
		}
	}
	return false
}
