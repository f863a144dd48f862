package driver

import (
	"context"
	"encoding/json"
	"errors"

	"pi-chrome/driver/op"
)

// HoverIn is the input of chrome_hover.
type HoverIn struct {
	At   PointBy `json:"at" brief:"" jsonschema:"where the pointer goes"`
	Pace string  `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human moves as a hand does; default is the session's"`
	op.TabInput
}

// HoverOut is where the pointer is and what that did.
type HoverOut struct {
	Input       string  `json:"input"` // chrome
	X           float64 `json:"x" jsonschema:"where in the viewport, in CSS pixels"`
	Y           float64 `json:"y"`
	Tag         string  `json:"tag" jsonschema:"local name of the element there"`
	ResolvedUID string  `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Receipt
}

// Text is contract §1.11's form, with the receipt.
func (o HoverOut) Text() string { return o.Receipt.text("hover") }

var opHover = op.Define(op.Spec{
	Name: "input.hover", Tool: "chrome_hover", Profile: "interaction", Title: "Hover",
	Summary: "Move the mouse over an element or a point, without a click.",
	Brief:   "Move the mouse over an element or point.",
	Doc: "Moves the pointer there with trusted events and leaves it there, so that menus and tooltips that open under the pointer stay open for the next call. " +
		"The element is scrolled into view, waited for while it moves and hit-tested; one that is disabled can be hovered, one that is covered is refused. " +
		"The receipt tells what appeared, with refs.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "Open a menu under the pointer", Input: json.RawMessage(`{"at":{"by":"selector","value":"#products"}}`), Page: "input/hover-menu.html"},
		{Title: "Hover a point", Input: json.RawMessage(`{"at":{"by":"coordinate","x":20,"y":20}}`), Page: "input/hover-menu.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.ClickIntercepted, op.TargetInvisible, op.TargetUnstable,
		op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, hover)

// Check refuses what the schema cannot.
func (in HoverIn) Check() error {
	_, err := in.At.goal("chrome_hover", "at")
	return err
}

func hover(ctx context.Context, c *Call, in HoverIn) (HoverOut, error) {
	t := c.tab
	at, err := in.At.goal("chrome_hover", "at")
	if err != nil {
		return HoverOut{}, err
	}
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return HoverOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return HoverOut{}, err
	}
	defer w.stop()
	w.quiet = 3 // a style that follows the pointer comes a frame after the move
	tg, err := t.hoverGoal(ctx, c, w, at, p)
	defer t.releaseTarget(ctx, tg.frame)
	if err != nil {
		w.disarm(ctx)
		return HoverOut{}, w.untouched(c.cause(err))
	}
	return HoverOut{Input: "chrome", X: rounded(tg.at.x), Y: rounded(tg.at.y), Tag: tg.aim.Tag, ResolvedUID: tg.ref, Receipt: w.settle(ctx, false)}, nil
}

// hoverGoal moves the pointer to the goal. A dialog that the move opened is no
// error: the receipt tells of it.
func (t *Tab) hoverGoal(ctx context.Context, c *Call, w *witness, at goal, p *pace) (aimed, error) {
	look, done := w.guard(ctx)
	defer done()
	on, err := t.goalOn(look, w, at)
	if err != nil {
		return aimed{}, err
	}
	for try := 0; ; try++ {
		tg, err := t.aimAtTarget(look, w, on, p, aimOptions{DisabledOk: true, FileOk: true})
		if err != nil {
			return tg, err
		}
		if err := w.arm(look, on.node.frame); err != nil {
			return tg, t.staleNode(on.node, err)
		}
		c.begin()
		w.inputAt()
		if err := t.moveTo(ctx, w, tg.at, tg.size, p); err != nil {
			if w.over() {
				return tg, nil
			}
			if errors.Is(err, op.ErrNotDelivered) && !p.human && try == 0 {
				c.noEffect()
			}
			return tg, err
		}
		if at.point != nil || w.over() {
			return tg, nil
		}
		// It may have moved while the pointer was on its way. What covers it
		// now may be what it opened.
		err = t.check(look, tg)
		switch {
		case isMoved(err) && try < 2:
			on.node.boxKnown = false
			continue
		case isMoved(err):
			return tg, t.refusal(tg.what, tg.ref, "unstable", "", "", "", tg.at)
		}
		return tg, nil
	}
}
