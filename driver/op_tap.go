package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/input"

	"pi-chrome/driver/op"
)

// TapIn is the input of chrome_tap.
type TapIn struct {
	At    PointBy  `json:"at" brief:"" jsonschema:"where the finger touches"`
	To    *PointBy `json:"to,omitempty" brief:"swipe to here" jsonschema:"makes it a swipe, to here"`
	Steps int      `json:"steps,omitzero" min:"1" max:"40" brief:"-" jsonschema:"moves of a swipe; 10 when absent"`
	Pace  string   `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human holds and moves as a finger does; default is the session's"`
	op.TabInput
}

// TapOut is where the finger was and what that did.
type TapOut struct {
	Input       string   `json:"input"` // chrome
	X           float64  `json:"x" jsonschema:"where in the viewport, in CSS pixels"`
	Y           float64  `json:"y"`
	Tag         string   `json:"tag" jsonschema:"local name of the element that was touched"`
	ResolvedUID string   `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	To          *PointXY `json:"to,omitempty" jsonschema:"the end of a swipe"`
	Steps       int      `json:"steps,omitempty" jsonschema:"moves of a swipe"`
	Receipt
}

// PointXY is a point of the viewport in CSS pixels.
type PointXY struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Text is contract §1.11's form, with the receipt.
func (o TapOut) Text() string { return o.Receipt.text("tap") }

var opTap = op.Define(op.Spec{
	Name: "input.tap", Tool: "chrome_tap", Profile: "interaction", Title: "Tap",
	Summary: "Touch an element or a point with a finger, or swipe.",
	Brief:   "Touch, or swipe.",
	Doc: "Touches and lets go, with trusted touch events; Chrome makes the mouse events and the click of a tap from them, as on a phone. With `to` the finger moves there first: a swipe, which scrolls where the page does not take it. " +
		"The target is found, scrolled into view and hit-tested as for a click, and refused as there.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "Tap a button", Input: json.RawMessage(`{"at":{"by":"selector","value":"#button"}}`), Page: "input/touch.html"},
		{Title: "Swipe left", Input: json.RawMessage(`{"at":{"by":"coordinate","x":300,"y":200},"to":{"by":"coordinate","x":60,"y":200}}`), Page: "input/touch.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.ClickIntercepted, op.TargetInvisible, op.TargetUnstable,
		op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, tap)

const swipeSteps = 10

// Check refuses what the schema cannot.
func (in TapIn) Check() error {
	if _, err := in.At.goal("chrome_tap", "at"); err != nil {
		return err
	}
	if in.To == nil && in.Steps != 0 {
		return op.Invalidf("chrome_tap: field %q goes with to", "steps").WithDetail("field", "steps")
	}
	if in.To == nil {
		return nil
	}
	_, err := in.To.goal("chrome_tap", "to")
	return err
}

func tap(ctx context.Context, c *Call, in TapIn) (TapOut, error) {
	t := c.tab
	at, err := in.At.goal("chrome_tap", "at")
	if err != nil {
		return TapOut{}, err
	}
	var to *goal
	if in.To != nil {
		g, err := in.To.goal("chrome_tap", "to")
		if err != nil {
			return TapOut{}, err
		}
		to = &g
	}
	if in.Steps == 0 {
		in.Steps = swipeSteps
	}
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return TapOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return TapOut{}, err
	}
	defer w.stop()
	tg, end, err := t.touchGoal(ctx, c, w, at, to, in.Steps, p)
	defer t.releaseTarget(ctx, tg.frame)
	if err != nil {
		w.disarm(ctx)
		return TapOut{}, w.untouched(c.cause(err))
	}
	out := TapOut{Input: "chrome", X: rounded(tg.at.x), Y: rounded(tg.at.y), Tag: tg.aim.Tag, ResolvedUID: tg.ref}
	if to != nil {
		out.To, out.Steps = &PointXY{rounded(end.x), rounded(end.y)}, in.Steps
		w.quiet = 6 // a swipe goes on by itself for a while
	} else if w.click = tg.frame.id; w.click == "" {
		w.quiet = 3 // at a point, no frame is known to be clicked
	}
	out.Receipt = w.settle(ctx, false)
	return out, nil
}

// touchGoal touches the goal, and swipes to the other where there is one.
func (t *Tab) touchGoal(ctx context.Context, c *Call, w *witness, at goal, to *goal, steps int, p *pace) (tg aimed, end point, err error) {
	look, done := w.guard(ctx)
	defer done()
	on, err := t.goalOn(look, w, at)
	if err != nil {
		return tg, end, err
	}
	var onto aimTarget
	if to != nil {
		if onto, err = t.goalOn(look, w, *to); err != nil {
			return tg, end, err
		}
		defer t.releaseTarget(ctx, onto.node.frame)
	}
	for try := 0; ; try++ {
		if tg, err = t.aimAtTarget(look, w, on, p, aimOptions{}); err != nil {
			return tg, end, err
		}
		end = tg.at
		if to != nil {
			far, err := t.aimAtTarget(look, w, onto, p, aimOptions{DisabledOk: true, AnyHit: true, FileOk: true})
			if err != nil {
				return tg, end, err
			}
			end = far.at
		}
		err = w.arm(look, on.node.frame)
		if err == nil && at.point == nil {
			err = t.check(look, tg) // also after the other was scrolled into view
		}
		switch {
		case err == nil:
			return tg, end, t.touch(ctx, c, w, tg.at, end, steps, p)
		case !isMoved(err):
			return tg, end, t.staleNode(on.node, err)
		case try == 2:
			return tg, end, t.refusal(tg.what, tg.ref, "unstable", "", "", "", tg.at)
		}
		on.node.boxKnown = false
	}
}

// isMoved reports whether a check found the element elsewhere.
func isMoved(err error) bool { return errors.Is(err, errMoved) }

// touch touches at a point, moves to the other where it is another, and lets
// go, whatever happens. It begins the call's effect.
func (t *Tab) touch(ctx context.Context, c *Call, w *witness, from, to point, steps int, p *pace) error {
	event := func(kind input.DispatchTouchEventType, at ...point) func(context.Context) error {
		points := []*input.TouchPoint{}
		for _, a := range at {
			points = append(points, &input.TouchPoint{X: a.x, Y: a.y})
		}
		return func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
			return err
		}
	}
	lift := event(input.DispatchTouchEventTypeTouchCancel)
	if err := w.fence(c); err != nil {
		return err
	}
	c.begin()
	w.inputAt()
	err := w.deliverPress(ctx, event(input.DispatchTouchEventTypeTouchStart, from))
	switch {
	case err == nil:
	case errors.Is(err, errDialog):
		t.letGo(ctx, w, lift)
		return nil
	case w.gone(err):
		return nil
	case errors.Is(err, op.ErrNotDelivered):
		c.noEffect()
		return fmt.Errorf("touching: %w", err)
	default:
		t.letGo(ctx, w, lift)
		return fmt.Errorf("touching: %w", cleared(err))
	}
	if from != to {
		for _, at := range swipePath(from, to, steps, p) {
			err := sleep(ctx, at.pause)
			if err == nil {
				err = w.deliver(ctx, event(input.DispatchTouchEventTypeTouchMove, at.point))
			}
			switch {
			case err == nil:
				continue
			case w.gone(err):
				return nil
			}
			t.letGo(ctx, w, lift)
			if errors.Is(err, errDialog) {
				return nil
			}
			return fmt.Errorf("moving the finger: %w", cleared(err))
		}
	} else if err := sleep(ctx, p.hold()); err != nil {
		t.letGo(ctx, w, lift)
		return err
	}
	w.inputAt()
	err = w.deliver(ctx, event(input.DispatchTouchEventTypeTouchEnd))
	switch {
	case err == nil, errors.Is(err, errDialog), w.gone(err):
		return nil
	}
	t.letGo(ctx, w, lift)
	return fmt.Errorf("lifting the finger: %w", cleared(err))
}

// fingerStep is one move of a finger, after a pause.
type fingerStep struct {
	point
	pause time.Duration
}

// swipePath is the way of a finger: even steps when fast, and when human those
// of a finger, which starts quickly and is lifted while it moves.
func swipePath(from, to point, steps int, p *pace) []fingerStep {
	list := make([]fingerStep, steps)
	for i := range list {
		s := float64(i+1) / float64(steps)
		at := fingerStep{}
		if p.human {
			s = 1 - (1-s)*(1-s)
			at.pause = p.normal(14*time.Millisecond, 3*time.Millisecond, 6*time.Millisecond, 24*time.Millisecond)
		}
		at.point = point{from.x + (to.x-from.x)*s, from.y + (to.y-from.y)*s}
		list[i] = at
	}
	return list
}
