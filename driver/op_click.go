package driver

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// ClickIn is the input of chrome_click: exactly one of ref, selector, find, x and y.
type ClickIn struct {
	Ref             string   `json:"ref,omitzero" pattern:"^@?el-\\d+$" brief:"el-N shown with [click]" jsonschema:"the element, by a ref that the latest snapshot shows with [click]"`
	Selector        string   `json:"selector,omitzero" minLength:"1" brief:"CSS of one element; >>> into shadow roots, \"iframe >>\" into frames" jsonschema:"the element, by CSS that matches exactly one; >>> goes into shadow roots, \"iframe >>\" into frames"`
	Find            *FindBy  `json:"find,omitempty" brief:"the one element that fits" jsonschema:"the element, by what a person perceives of it; it must fit one visible element only, or give index"`
	X               *float64 `json:"x,omitempty" brief:"viewport point" jsonschema:"a point of the viewport in CSS pixels, from its left"`
	Y               *float64 `json:"y,omitempty" brief:"" jsonschema:"and from its top"`
	Button          string   `json:"button,omitzero" enum:"left|middle|right" brief:"" jsonschema:"left when absent"`
	Clicks          int      `json:"clicks,omitzero" min:"1" max:"3" brief:"2: double click" jsonschema:"2 for a double click; 1 when absent"`
	Pace            string   `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human moves and presses as a hand does; default is the session's"`
	IncludeSnapshot bool     `json:"includeSnapshot,omitzero" brief:"" jsonschema:"take a snapshot afterwards"`
	MaxElements     int      `json:"maxElements,omitzero" min:"1" max:"80" brief:"-" jsonschema:"of that snapshot; 80 when absent"`
	op.TabInput
}

// ClickAction is what was clicked and what it did.
type ClickAction struct {
	Input           string  `json:"input"` // chrome
	X               float64 `json:"x" jsonschema:"where in the viewport, in CSS pixels"`
	Y               float64 `json:"y"`
	Tag             string  `json:"tag" jsonschema:"local name of the control that was clicked"`
	RequestedTag    string  `json:"requestedTag,omitempty" jsonschema:"of the element that was asked for, when that is a part or the label of the control"`
	PromotedFromTag string  `json:"promotedFromTag,omitempty"`
	ResolvedUID     string  `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Button          string  `json:"button,omitempty" jsonschema:"when not left"`
	Clicks          int     `json:"clicks,omitempty" jsonschema:"when not 1"`
	Receipt
}

// ClickOut is the result of chrome_click.
type ClickOut struct {
	Action       ClickAction  `json:"action"`
	Verification Verification `json:"verification"`
}

// Text is contract §1.11's form, with the receipt.
func (o ClickOut) Text() string { return o.Action.text("click") + o.Verification.text() }

var opClick = op.Define(op.Spec{
	Name: "input.click", Tool: "chrome_click", Profile: "core", Title: "Click",
	Summary: "Click an element or a point of the page with the mouse.",
	Brief:   "Click an element (one of ref, selector, find) or a point (x, y). The receipt tells what changed.",
	Doc: "Moves the mouse there and clicks, with trusted events, in a hidden tab too. An element is scrolled into view when it is outside, waited for while it moves, " +
		"and hit-tested through shadow roots and frames: one that is gone, disabled, invisible or covered is refused before anything is pressed, and what covers it is named. " +
		"Nothing else is clicked in its stead. The receipt tells what changed once the page has come to rest: address, title, focus, scroll position, " +
		"values and states, a dialog, new tabs, downloads. A click that opens a dialog returns with it.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"ref"},
	OneOf: [][]string{{"ref", "selector", "find", "x+y"}},
	Examples: []op.Example{
		{Title: "Click a button", Input: json.RawMessage(`{"selector":"#button"}`), Page: "input/click-log.html"},
		{Title: "Double click and look", Input: json.RawMessage(`{"selector":"#button","clicks":2,"includeSnapshot":true}`), Page: "input/click-log.html"},
		{Title: "Click what is named so", Input: json.RawMessage(`{"find":{"role":"button","name":"click me"}}`), Page: "input/click-log.html"},
		{Title: "Click a point", Input: json.RawMessage(`{"x":40,"y":30}`), Page: "input/click-log.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.ActionVerbMismatch, op.InvalidActionTarget, op.ActionTargetNotFound, op.ClickIntercepted,
		op.TargetInvisible, op.TargetUnstable, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, click)

// Check refuses what the schema cannot.
func (in ClickIn) Check() error { return checkFind("chrome_click", in.Find) }

func click(ctx context.Context, c *Call, in ClickIn) (ClickOut, error) {
	t := c.tab
	if in.Button == "" {
		in.Button = "left"
	}
	in.Clicks = max(in.Clicks, 1)
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return ClickOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return ClickOut{}, err
	}
	defer w.stop()
	tg, err := t.clickTarget(ctx, c, w, in, p)
	defer t.releaseTarget(ctx, tg.frame)
	if err != nil {
		return ClickOut{}, w.untouched(err)
	}
	receipt := w.settle(ctx, in.IncludeSnapshot)
	out := ClickOut{Action: ClickAction{Input: "chrome", X: math.Round(tg.at.x*100) / 100, Y: math.Round(tg.at.y*100) / 100, Tag: tg.aim.Tag,
		RequestedTag: tg.aim.RequestedTag, PromotedFromTag: tg.aim.PromotedFromTag, ResolvedUID: tg.ref, Receipt: receipt}}
	if in.Button != "left" {
		out.Action.Button = in.Button
	}
	if in.Clicks != 1 {
		out.Action.Clicks = in.Clicks
	}
	out.Verification = t.verify(ctx, c, w, in.IncludeSnapshot, in.MaxElements)
	return out, nil
}

// clickTarget clicks what the call names.
func (t *Tab) clickTarget(ctx context.Context, c *Call, w *witness, in ClickIn, p *pace) (aimed, error) {
	if in.X != nil {
		return t.clickPoint(ctx, c, w, point{*in.X, *in.Y}, in, p)
	}
	n, err := t.element(ctx, elementInput{in.Ref, in.Selector, in.Find}, verbClick)
	if err != nil {
		return aimed{}, err
	}
	return t.clickNode(ctx, c, w, n, in, p)
}

// clickPoint clicks a point of the viewport, whatever lies there.
func (t *Tab) clickPoint(ctx context.Context, c *Call, w *witness, at point, in ClickIn, p *pace) (aimed, error) {
	look, done := w.guard(ctx)
	defer done()
	if err := t.moveTo(look, w, at, 20, p); err != nil {
		return aimed{frame: w.main}, err
	}
	tg, err := t.aimAtPoint(look, w, at)
	if err != nil {
		return tg, err
	}
	if err := w.arm(look); err != nil {
		return tg, err
	}
	if err := sleep(look, p.dwell()); err != nil {
		w.disarm(ctx)
		return tg, err
	}
	return tg, t.press(ctx, c, w, at, in.Button, in.Clicks, p)
}

// clickNode clicks an element: aim, move there, look once more, press.
func (t *Tab) clickNode(ctx context.Context, c *Call, w *witness, n node, in ClickIn, p *pace) (aimed, error) {
	look, done := w.guard(ctx)
	defer done()
	object, err := t.resolve(look, n.frame, n.backend)
	if err != nil {
		return aimed{}, t.staleNode(n, err)
	}
	return t.clickObject(ctx, c, w, n, object, in, p)
}

func (t *Tab) clickObject(ctx context.Context, c *Call, w *witness, n node, object runtime.RemoteObjectID, in ClickIn, p *pace) (aimed, error) {
	look, done := w.guard(ctx)
	defer done()
	for try := 0; ; try++ {
		tg, err := t.aimAt(look, n, object, p)
		if err != nil {
			return tg, t.staleNode(n, err)
		}
		if try == 0 && !tg.aim.Interactive && in.Button == "left" && in.Clicks == 1 && object != "" {
			if err := t.listens(look, tg); err != nil {
				return tg, err
			}
		}
		if err := t.moveTo(look, w, tg.at, tg.size, p); err != nil {
			return tg, err
		}
		if err := sleep(look, p.dwell()); err != nil {
			return tg, err
		}
		err = together(
			func() error { return t.check(look, tg) },
			func() error {
				if w.frames != nil {
					return nil // an earlier part of the call has armed it
				}
				return w.arm(look, n.frame)
			})
		if err == nil {
			return tg, t.press(ctx, c, w, tg.at, in.Button, in.Clicks, p)
		}
		w.disarm(ctx)
		if !errors.Is(err, errMoved) {
			return tg, t.staleNode(n, err)
		}
		if try == 2 {
			return tg, t.refusal(tg.what, tg.ref, "unstable", "", "", "", tg.at)
		}
		n.boxKnown = false // it moved: only standing still counts now
	}
}

// staleNode says "stale" where an element was not to be had any more.
func (t *Tab) staleNode(n node, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*op.Error](err); ok {
		return err
	}
	if isCode(err, op.DocumentChanged) || isCode(err, op.StaleActionRef) {
		e := t.refusal(n.String(), n.ref, "stale", "", "", "", point{})
		if s, ok := errors.AsType[*op.Error](e); ok {
			return s.WithCause(err)
		}
	}
	return err
}

// releaseTarget lets go of what aiming held in the page.
func (t *Tab) releaseTarget(ctx context.Context, f frameRef) {
	if t.openDialog() != nil || f.s == nil {
		return // it would wait for the dialog; the page frees it when it goes
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	t.releaseObjects(ctx, f.s)
}

// clickEvents are the events by which an element can react to a click.
var clickEvents = map[string]bool{"click": true, "mousedown": true, "mouseup": true, "pointerdown": true, "pointerup": true, "touchstart": true, "touchend": true, "dblclick": true, "auxclick": true}

// listens refuses an element that no click can have an effect on: neither a
// control nor a part of one, and nothing listens on it or above it.
func (t *Tab) listens(ctx context.Context, tg aimed) error {
	_, chain, err := t.runNodes(ctx, tg.frame, "input_chain", tg.object)
	if err != nil {
		return err
	}
	on := map[cdp.BackendNodeID]bool{}
	for _, n := range chain {
		if n != nil {
			on[n.Backend] = true
		}
	}
	world, err := t.world(ctx, tg.frame)
	if err != nil {
		return err
	}
	doc, err := t.pageDocument(ctx, tg.frame, world)
	if err != nil {
		return err
	}
	var nodes, window domdebugger.GetEventListenersResult
	err = together(func() (err error) {
		nodes, err = call(ctx, tg.frame.s, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: doc, Depth: new(int64(-1)), Pierce: new(true)})
		return err
	}, func() error {
		win, err := call(ctx, tg.frame.s, callFunctionOn, callParams{FunctionDeclaration: script("window"), ObjectID: doc, ObjectGroup: objectGroup, Silent: true})
		if err != nil || win.Result == nil || win.Result.ObjectID == "" {
			return err
		}
		window, err = call(ctx, tg.frame.s, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: win.Result.ObjectID})
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range nodes.Listeners {
		if clickEvents[l.Type] && on[l.BackendNodeID] {
			return nil
		}
	}
	for _, l := range window.Listeners {
		if clickEvents[l.Type] {
			return nil
		}
	}
	e := op.Reject(op.InvalidActionTarget, "%s on tab %d is not interactive: it is no control, no part of one, and nothing listens to clicks on it; nothing was pressed", tg.what, t.conn.Key().TabID).
		WithHint("name a control, or click the point by x and y").WithDetail("reason", "not-interactive").WithDetail("url", t.url())
	if tg.ref != "" {
		e.WithDetail("ref", tg.ref)
	}
	return e
}
