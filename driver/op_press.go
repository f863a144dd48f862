package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// Modifiers are keys held while another is pressed.
type Modifiers struct {
	Shift   bool `json:"shift,omitempty"`
	Control bool `json:"control,omitempty"`
	Alt     bool `json:"alt,omitempty"`
	Meta    bool `json:"meta,omitempty"`
}

func (m Modifiers) bits() int64 {
	var bits int64
	for _, b := range []struct {
		on  bool
		bit int64
	}{{m.Shift, modShift}, {m.Control, modControl}, {m.Alt, modAlt}, {m.Meta, modMeta}} {
		if b.on {
			bits |= b.bit
		}
	}
	return bits
}

func modifiersOf(bits int64) Modifiers {
	return Modifiers{Shift: bits&modShift != 0, Control: bits&modControl != 0, Alt: bits&modAlt != 0, Meta: bits&modMeta != 0}
}

// PressIn is the input of chrome_press: a key, and at most one of ref,
// selector and find.
type PressIn struct {
	Key             string    `json:"key" minLength:"1" maxLength:"100" brief:"such as a, Enter, F5 or Control+Shift+K" jsonschema:"a character, a name such as Enter, PageDown, F5 or Numpad1, or a chord such as Control+Shift+K"`
	Modifiers       Modifiers `json:"modifiers,omitzero" brief:"-" jsonschema:"modifiers to hold, as an alternative to a chord"`
	Ref             string    `json:"ref,omitzero" pattern:"^@?el-\\d+$" brief:"el-N to focus first; else keys go where the focus is" jsonschema:"the element that gets the focus first, by a ref shown with [press]; without it keys go where the focus is"`
	Selector        string    `json:"selector,omitzero" minLength:"1" brief:"" jsonschema:"the same, by CSS that matches exactly one"`
	Find            *FindBy   `json:"find,omitempty" brief:"" jsonschema:"the same, by what a person perceives of it"`
	Pace            string    `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human holds the key as a finger does; default is the session's"`
	IncludeSnapshot bool      `json:"includeSnapshot,omitzero" brief:"" jsonschema:"take a snapshot afterwards"`
	MaxElements     int       `json:"maxElements,omitzero" min:"1" max:"80" brief:"-" jsonschema:"of that snapshot; 80 when absent"`
	op.TabInput
}

// PressAction is what was pressed and what it did.
type PressAction struct {
	Input       string    `json:"input"` // chrome
	Key         string    `json:"key" jsonschema:"the key as pages see it"`
	Modifiers   Modifiers `json:"modifiers"`
	Chord       string    `json:"chord,omitempty" jsonschema:"key and modifiers in one, when there are modifiers"`
	ResolvedUID string    `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Receipt
}

// PressOut is the result of chrome_press.
type PressOut struct {
	Action       PressAction  `json:"action"`
	Verification Verification `json:"verification"`
}

// Text is contract §1.11's form, with the receipt.
func (o PressOut) Text() string { return o.Action.text("key") + o.Verification.text() }

var opPress = op.Define(op.Spec{
	Name: "input.key", Tool: "chrome_press", Profile: "core", Title: "Press",
	Summary: "Press a key or a chord such as Control+Shift+K.",
	Brief:   "Press a key or chord.",
	Doc: "Presses and releases a key of a US keyboard, with trusted events and the right key codes; modifiers go down and up as keys of their own. " +
		"With `ref`, `selector` or `find` that element gets the focus first; otherwise the key goes to what has the focus, in whichever frame. " +
		"Names are taken in any case (`enter`, `PgDn`, `ctrl+a`). A character that no key types (é, an emoji) is entered as text. Text of more than one character goes in with chrome_fill or chrome_type.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"key"},
	OneOf: [][]string{{"ref", "selector", "find", ""}},
	Examples: []op.Example{
		{Title: "Press Enter in a field", Input: json.RawMessage(`{"key":"Enter","selector":"#field"}`), Page: "input/keys.html"},
		{Title: "Press a chord", Input: json.RawMessage(`{"key":"Control+Shift+K"}`), Page: "input/keys.html"},
		{Title: "The same with modifiers apart", Input: json.RawMessage(`{"key":"K","modifiers":{"control":true,"shift":true}}`), Page: "input/keys.html"},
	},
	Errors: []op.Code{op.KeyUnknown, op.StaleActionRef, op.ActionVerbMismatch, op.InvalidActionTarget, op.ActionTargetNotFound,
		op.TargetInvisible, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, pressKey)

// scrollKeys are the keys, by code, that scroll where nothing else takes them.
var scrollKeys = map[string]bool{"Home": true, "End": true, "PageUp": true, "PageDown": true, "ArrowUp": true, "ArrowDown": true, "ArrowLeft": true, "ArrowRight": true, "Space": true}

// Check refuses what the schema cannot.
func (in PressIn) Check() error {
	if _, err := parseChord(in.Key, in.Modifiers.bits()); err != nil {
		return err
	}
	return checkFind("chrome_press", in.Find)
}

func pressKey(ctx context.Context, c *Call, in PressIn) (PressOut, error) {
	t := c.tab
	ch, err := parseChord(in.Key, in.Modifiers.bits())
	if err != nil {
		return PressOut{}, err
	}
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return PressOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return PressOut{}, err
	}
	defer w.stop()
	ref := ""
	if in.Ref != "" || in.Selector != "" || in.Find != nil {
		n, err := t.element(ctx, elementInput{in.Ref, in.Selector, in.Find}, verbPress)
		if err != nil {
			return PressOut{}, err
		}
		ref = n.ref
		if _, err := t.focusNode(ctx, c, w, n, false); err != nil {
			w.disarm(ctx)
			return PressOut{}, w.untouched(err)
		}
	} else if err := t.armFocused(ctx, w); err != nil {
		return PressOut{}, w.untouched(err)
	}
	k := &keyboard{t: t, c: c, w: w, p: p}
	if err := k.press(ctx, ch); err != nil {
		return PressOut{}, err
	}
	key := ch.def.key
	if ch.literal != "" {
		key = ch.literal
	} else if ch.modifiers&modShift != 0 && ch.def.shifted != "" {
		key = ch.def.shifted
	}
	out := PressOut{Action: PressAction{Input: "chrome", Key: key, Modifiers: modifiersOf(ch.modifiers), ResolvedUID: ref}}
	if ch.modifiers != 0 {
		out.Action.Chord = ch.name()
	}
	if scrollKeys[ch.def.code] {
		w.quiet = 4 // such a scroll starts outside the page and reaches it frames later
	}
	out.Action.Receipt = w.settle(ctx, in.IncludeSnapshot)
	out.Verification = t.verify(ctx, c, w, in.IncludeSnapshot, in.MaxElements)
	return out, nil
}

// keyable is what the page said of an element that is to get keys.
type keyable struct {
	State        string  `json:"state"`
	Reason       string  `json:"reason"`
	Tag          string  `json:"tag"`
	RequestedTag string  `json:"requestedTag"`
	Blocker      string  `json:"blocker"`
	Within       string  `json:"within"`
	X            float64 `json:"x"`
	Y            float64 `json:"y"`
}

// focusNode gives an element the focus for keys, and has its page watch. For
// typing the element stands for the control that takes its text, and the caret
// goes to the end of what it holds.
func (t *Tab) focusNode(ctx context.Context, c *Call, w *witness, n node, typing bool) (keyable, error) {
	look, done := w.guard(ctx)
	defer done()
	var can keyable
	object, err := t.resolve(look, n.frame, n.backend)
	if err != nil {
		return can, t.staleNode(n, err)
	}
	defer t.releaseTarget(ctx, n.frame)
	if err := t.inputFn(look, n.frame, object, "keyable", &can, typing); err != nil {
		return can, t.staleNode(n, err)
	}
	if can.State == "not-editable" {
		return can, t.unfillable(n, prepared{State: can.State, Reason: can.Reason, Tag: can.Tag}, "")
	}
	if err := t.refusal(n.String(), n.ref, can.State, can.Reason, can.Blocker, can.Within, point{can.X, can.Y}); err != nil {
		return can, err
	}
	if w.frames == nil { // a click before may have armed it
		if err := w.arm(look, n.frame); err != nil {
			return can, err
		}
	}
	caret := caretKeep
	if typing {
		caret = caretEnd
	}
	_, err = t.focus(ctx, c, w, n, caret)
	return can, err
}

// What becomes of the caret when a control gets the focus.
const (
	caretKeep = "keep"
	caretEnd  = "end" // behind all of its text
	caretAll  = "all" // all of its text is selected
)

// focus gives the control prepared last the focus. It fails when something
// else keeps or takes the focus: nothing was entered then.
func (t *Tab) focus(ctx context.Context, c *Call, w *witness, n node, caret string) (empty bool, err error) {
	var got struct {
		State     string `json:"state"`
		Other     string `json:"other"`
		Focusable bool   `json:"focusable"`
		Empty     bool   `json:"empty"`
	}
	c.begin()
	err = w.deliver(ctx, func(ctx context.Context) error { return t.inputFn(ctx, n.frame, "", "focus", &got, caret) })
	if err != nil {
		return false, t.focusFailed(c, w, n, err)
	}
	tab := t.conn.Key().TabID
	switch {
	case got.State == "ok":
		return got.Empty, nil
	case got.State == "stale":
		return false, t.refusal(n.String(), n.ref, "stale", "", "", "", point{})
	case !got.Focusable:
		return false, op.Reject(op.InvalidActionTarget, "%s on tab %d cannot take the focus; nothing was entered", n, tab).
			WithHint("click it instead, or name a control").WithDetail("reason", "not focusable").WithDetail("url", t.url())
	}
	holder := got.Other
	if holder == "" {
		holder = "something outside its frame"
	}
	return false, op.Reject(op.InvalidActionTarget, "%s on tab %d did not keep the focus: %s took it; nothing was entered", n, tab, holder).
		WithHint("close what takes the focus (a pop-up of the page or of a password manager), then try again").
		WithDetail("reason", "focus lost").WithDetail("holder", holder).WithDetail("url", t.url())
}

// focusFailed is the error of a focus that a dialog or navigation broke off.
func (t *Tab) focusFailed(c *Call, w *witness, n node, err error) error {
	w.mu.Lock()
	d := w.dialog
	w.mu.Unlock()
	if d != nil {
		return op.Unknown(op.DialogOpen, "giving %s on tab %d the focus opened %s: %q; nothing was entered", n, t.conn.Key().TabID, d.called(), cut(d.Message, 300)).
			WithHint("answer it with chrome_dialog, then look again").WithDetail("type", d.Type).WithDetail("message", d.Message)
	}
	return err
}

// armFocused has the page with the focus watch.
func (t *Tab) armFocused(ctx context.Context, w *witness) error {
	ctx, done := w.guard(ctx)
	defer done()
	var at struct {
		Frame bool `json:"frame"`
	}
	if err := t.inputFn(ctx, w.main, "", "focused", &at); err != nil {
		return err
	}
	if !at.Frame {
		return w.arm(ctx)
	}
	// Keys go into a frame: the innermost that has the focus tells of them.
	frames := t.allFrames(ctx)
	has := make([]bool, len(frames))
	fns := make([]func() error, len(frames))
	for i, f := range frames {
		fns[i] = func() error {
			var in struct {
				Frame bool `json:"frame"`
				Has   bool `json:"has"`
			}
			if err := t.inputFn(ctx, f, "", "focused", &in); err != nil {
				t.log.Debug("asking a frame for the focus", "frame", string(f.id), "error", err)
				return nil // a frame that is going does not have it
			}
			has[i] = in.Has && !in.Frame && f.id != w.main.id
			return nil
		}
	}
	if err := together(fns...); err != nil {
		return err
	}
	for i, f := range frames {
		if has[i] {
			return w.arm(ctx, f)
		}
	}
	return w.arm(ctx)
}
