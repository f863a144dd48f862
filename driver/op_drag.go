package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"

	"pi-chrome/driver/op"
)

// DragIn is the input of chrome_drag.
type DragIn struct {
	From  PointBy `json:"from" brief:"" jsonschema:"where the button is pressed"`
	To    PointBy `json:"to" brief:"" jsonschema:"where it is released"`
	Steps int     `json:"steps,omitzero" min:"1" max:"40" brief:"-" jsonschema:"moves between the two; 20 when absent"`
	Pace  string  `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human moves as a hand does; default is the session's"`
	op.TabInput
}

// Ways in which a page takes a drag.
const (
	dragMouse = "mouse"
	dragHTML5 = "html5"
)

// DragOut is what was dragged where and what that did.
type DragOut struct {
	Input   string  `json:"input"` // chrome
	From    PointXY `json:"from"`
	To      PointXY `json:"to"`
	Steps   int     `json:"steps"`
	FromTag string  `json:"fromTag,omitempty" jsonschema:"local name of the element at from"`
	ToTag   string  `json:"toTag,omitempty" jsonschema:"and at to"`
	FromUID string  `json:"fromUid,omitempty" jsonschema:"the ref"`
	ToUID   string  `json:"toUid,omitempty" jsonschema:"the ref"`
	Method  string  `json:"method" enum:"mouse|html5" jsonschema:"what the page used: mouse events, or drag and drop with a DataTransfer"`
	Dropped bool    `json:"dropped" jsonschema:"whether the drop arrived at the target: for html5 that the page took it, for mouse that the button was released over it"`
	Effect  string  `json:"dropEffect,omitempty" jsonschema:"of html5: none, copy, link or move"`
	Receipt
	notes []string
}

// Text is contract §1.11's form, with the receipt.
func (o DragOut) Text() string { return o.Receipt.text("drag", o.notes...) }

var opDrag = op.Define(op.Spec{
	Name: "input.drag", Tool: "chrome_drag", Profile: "interaction", Title: "Drag",
	Summary: "Drag one element or point onto another with the mouse.",
	Brief:   "Drag from one element or point to another.",
	Doc: "Presses the button at `from`, moves to `to` and releases it there, with trusted events. Where the page makes a drag and drop of its own of it (`draggable`, a selection, a link), " +
		"it is carried out with that DataTransfer: dragenter, dragover, drop and dragend; `method` says which it was, `dropped` whether the target took it. " +
		"Both ends are found, scrolled into view and hit-tested before anything is pressed; a target that cannot be in view together with the start is scrolled to while the button is down. The button is released whatever happens.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "Move a card", Input: json.RawMessage(`{"from":{"by":"selector","value":"#card"},"to":{"by":"selector","value":"#done"}}`), Page: "input/drag-html5.html"},
		{Title: "Move a slider's thumb", Input: json.RawMessage(`{"from":{"by":"selector","value":"#box"},"to":{"by":"coordinate","x":300,"y":120},"steps":10}`), Page: "input/drag-mouse.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.ClickIntercepted, op.TargetInvisible, op.TargetUnstable,
		op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, drag)

const dragSteps = 20

// dragWait bounds how long Chrome may take to hand over a drag that the page
// has begun.
const dragWait = time.Second

// dragSeen is what the page's watch tells of a drag.
type dragSeen struct {
	Missed   bool   `json:"missed"`
	Started  bool   `json:"started"`  // an HTML5 drag began
	Accepted bool   `json:"accepted"` // the last dragover was taken
	Dropped  bool   `json:"dropped"`
	Ended    bool   `json:"ended"`
	Effect   string `json:"effect"`
	Released bool   `json:"released"`
	OnTarget bool   `json:"onTarget"` // the drop or release was over the target
}

// dragRun is one drag.
type dragRun struct {
	t        *Tab
	c        *Call
	w        *witness
	p        *pace
	steps    int
	from, to aimTarget
	start    aimed
	end      aimed
	began    chan *input.DragData // what Chrome hands over
	data     *input.DragData      // of the HTML5 drag under way
	entered  bool
	pressed  bool
	handing  bool // Chrome hands drags over, or may
	at       point
}

// Check refuses what the schema cannot.
func (in DragIn) Check() error {
	if _, err := in.From.goal("chrome_drag", "from"); err != nil {
		return err
	}
	_, err := in.To.goal("chrome_drag", "to")
	return err
}

func drag(ctx context.Context, c *Call, in DragIn) (DragOut, error) {
	t := c.tab
	from, err := in.From.goal("chrome_drag", "from")
	if err != nil {
		return DragOut{}, err
	}
	to, err := in.To.goal("chrome_drag", "to")
	if err != nil {
		return DragOut{}, err
	}
	if in.Steps == 0 {
		in.Steps = dragSteps
	}
	p := t.paceOf(c, in.Pace)
	if err := t.leaseFrames(ctx); err != nil {
		return DragOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return DragOut{}, err
	}
	defer w.stop()
	d := &dragRun{t: t, c: c, w: w, p: p, steps: in.Steps, began: make(chan *input.DragData, 1)}
	defer t.watch(d.event)()
	if err := d.prepare(ctx, from, to); err != nil {
		d.giveUp(ctx)
		return DragOut{}, w.untouched(err)
	}
	defer d.releaseObjects(ctx)
	err = d.run(ctx)
	if err != nil {
		w.disarm(ctx)
		return DragOut{}, c.cause(err)
	}
	seen := d.seen(ctx)
	out := DragOut{Input: "chrome", From: PointXY{rounded(d.start.at.x), rounded(d.start.at.y)}, To: PointXY{rounded(d.end.at.x), rounded(d.end.at.y)}, Steps: in.Steps,
		FromTag: d.start.aim.Tag, ToTag: d.end.aim.Tag, FromUID: d.start.ref, ToUID: d.end.ref, Method: dragMouse, Dropped: seen.Released && seen.OnTarget}
	if d.data != nil {
		out.Method, out.Dropped, out.Effect = dragHTML5, seen.Dropped && seen.OnTarget, seen.Effect
	}
	out.Receipt = w.settle(ctx, false)
	how := "with mouse events"
	if out.Method == dragHTML5 {
		how = "by the page's own drag and drop"
	}
	switch {
	case out.Dropped:
		out.notes = append(out.notes, "dropped on the target, "+how)
	case out.Method == dragHTML5:
		out.notes = append(out.notes, "the target did not take the drop ("+how+")")
	case !w.over():
		out.notes = append(out.notes, "released, "+how+"; the target did not see it")
	}
	return out, nil
}

// event takes in the drag that Chrome hands over.
func (d *dragRun) event(ev op.Event) {
	if ev.Method != input.DragIntercepted.Method {
		return
	}
	if e, ok := decode[input.EventDragIntercepted](ev); ok && e.Data != nil {
		select {
		case d.began <- e.Data:
		default:
		}
	}
}

// prepare finds both ends, has their pages watch and turns the handing over of
// drags on. Nothing is pressed.
func (d *dragRun) prepare(ctx context.Context, from, to goal) error {
	t := d.t
	look, done := d.w.guard(ctx)
	defer done()
	var err error
	if d.from, err = t.goalOn(look, d.w, from); err != nil {
		return err
	}
	if d.to, err = t.goalOn(look, d.w, to); err != nil {
		return err
	}
	// The end is looked at first: the start must be in view when it is pressed.
	if d.end, err = t.aimAtTarget(look, d.w, d.to, d.p, aimOptions{DisabledOk: true, FileOk: true}); err != nil {
		return err
	}
	for try := 0; ; try++ {
		if d.start, err = t.aimAtTarget(look, d.w, d.from, d.p, aimOptions{DisabledOk: true, FileOk: true}); err != nil {
			return err
		}
		if err := t.moveTo(look, d.w, d.start.at, d.start.size, d.p); err != nil {
			return err
		}
		if from.point != nil {
			break
		}
		err = t.check(look, d.start)
		if err == nil {
			break
		}
		if !isMoved(err) {
			return t.staleNode(d.from.node, err)
		}
		if try == 2 {
			return t.refusal(d.start.what, d.start.ref, "unstable", "", "", "", d.start.at)
		}
		d.from.node.boxKnown = false
	}
	if err := d.w.arm(look, d.from.node.frame, d.to.node.frame); err != nil {
		return err
	}
	if err := t.inputFn(look, d.to.node.frame, d.to.object, "dragWatch", nil); err != nil {
		return t.staleNode(d.to.node, err)
	}
	if d.from.node.frame.id != d.to.node.frame.id {
		if err := t.inputFn(look, d.from.node.frame, "", "dragWatch", nil); err != nil {
			return t.staleNode(d.from.node, err)
		}
	}
	d.handing = true
	if err := d.intercept(look, true); err != nil {
		return fmt.Errorf("preparing for a drag: %w", err)
	}
	return sleep(look, d.p.dwell())
}

// intercept turns the handing over of drags on or off: without it Chrome would
// start a drag of the system, which nobody here can steer. Frames in another
// process are told too.
func (d *dragRun) intercept(ctx context.Context, on bool) error {
	sessions := map[string]frameRef{"": d.w.main, d.from.node.frame.session: d.from.node.frame, d.to.node.frame.session: d.to.node.frame}
	var fns []func() error
	for _, f := range sessions {
		fns = append(fns, func() error {
			_, err := call(ctx, f.s, input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: on})
			return err
		})
	}
	return together(fns...)
}

// giveUp undoes what prepare and run left on.
func (d *dragRun) giveUp(ctx context.Context) {
	d.letGo(ctx)
	d.releaseObjects(ctx)
	d.w.disarm(ctx)
}

// letGo releases the button, ends a drag under way and lets the page have its
// drags back, each on its own bound.
func (d *dragRun) letGo(ctx context.Context) {
	t := d.t
	if d.pressed {
		if d.data == nil {
			// A drag that the page has begun is still to be handed over: it
			// would go on as one of the system when nobody takes it.
			var seen dragSeen
			_ = t.letGo(ctx, d.w, func(ctx context.Context) error { return t.inputFn(ctx, d.from.node.frame, "", "dragSeen", &seen) })
			if seen.Started && !seen.Ended {
				d.handed(dragWait)
			}
		}
		if d.data != nil {
			_ = t.letGo(ctx, d.w, d.dragEvent(input.DispatchDragEventTypeDragCancel, d.at))
		}
		// Nor may Chrome keep the release to itself for a drag that it still
		// knows of.
		_ = t.letGo(ctx, d.w, func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.CancelDragging, cdp.Empty{})
			return err
		})
		_ = t.letGo(ctx, d.w, d.mouse(input.DispatchMouseEventTypeMouseReleased, d.at))
		d.pressed = false
	}
	if !d.handing {
		return
	}
	d.handing = false
	off := func(ctx context.Context) error { return d.intercept(ctx, false) }
	if t.letGo(ctx, d.w, off) != nil && !d.w.over() {
		_ = t.letGo(ctx, d.w, off) // a user's own drag would go nowhere
	}
}

// releaseObjects ends the pages' watch and lets go of what aiming held.
func (d *dragRun) releaseObjects(ctx context.Context) {
	if d.w.over() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	for i, f := range []frameRef{d.from.node.frame, d.to.node.frame} {
		if f.s == nil || i == 1 && f.id == d.from.node.frame.id {
			continue
		}
		if err := d.t.inputFn(ctx, f, "", "dragStop", nil); err != nil {
			d.t.log.Debug("ending a page's watch", "error", err)
		}
		d.t.releaseTarget(ctx, f)
	}
}

func (d *dragRun) mouse(kind input.DispatchMouseEventType, at point) func(context.Context) error {
	params := input.DispatchMouseEventParams{Type: kind, X: at.x, Y: at.y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1}
	if kind == input.DispatchMouseEventTypeMouseReleased {
		params.Buttons = 0
	}
	if kind == input.DispatchMouseEventTypeMouseMoved {
		params.ClickCount = 0
	}
	return func(ctx context.Context) error {
		_, err := call(ctx, d.t.conn, input.DispatchMouseEvent, params)
		return err
	}
}

func (d *dragRun) dragEvent(kind input.DispatchDragEventType, at point) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, d.t.conn, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at.x, Y: at.y, Data: d.data})
		return err
	}
}

// run presses, moves and releases. When the page opens a dialog or goes away
// meanwhile, that is no error: the witness tells.
func (d *dragRun) run(ctx context.Context) error {
	if err := d.w.fence(d.c); err != nil {
		return err
	}
	defer d.letGo(ctx)
	d.at = d.start.at
	d.c.begin()
	d.w.inputAt()
	d.pressed = true
	err := d.w.deliverPress(ctx, d.mouse(input.DispatchMouseEventTypeMousePressed, d.at))
	switch {
	case err == nil:
	case errors.Is(err, op.ErrNotDelivered):
		d.c.noEffect()
		d.pressed = false
		return fmt.Errorf("pressing the button: %w", err)
	default:
		return d.fault("pressing the button", err)
	}
	if err := sleep(ctx, d.p.hold()); err != nil {
		return err
	}
	if err := d.approach(ctx); err != nil {
		return d.fault("finding the target", err)
	}
	for _, at := range d.path() {
		if err := d.move(ctx, at); err != nil {
			return d.fault("moving", err)
		}
		if d.w.over() {
			return nil
		}
	}
	if err := d.arrive(ctx); err != nil || d.w.over() {
		return d.fault("moving", err)
	}
	if err := sleep(ctx, d.p.dwell()); err != nil {
		return err
	}
	d.w.inputAt()
	if d.data != nil {
		// Chrome ends the drag itself: no button is down any more.
		if err := d.w.deliver(ctx, d.dragEvent(input.DispatchDragEventTypeDrop, d.at)); err != nil {
			return d.fault("dropping", err)
		}
		d.pressed = false
		return nil
	}
	if err := d.w.deliver(ctx, d.mouse(input.DispatchMouseEventTypeMouseReleased, d.at)); err != nil {
		return d.fault("releasing the button", err)
	}
	d.pressed = false
	return nil
}

// fault is the error of an event that failed: none when a dialog opened or the
// page went, which the receipt tells.
func (d *dragRun) fault(what string, err error) error {
	if err == nil || d.w.ended(err) {
		return nil
	}
	if e, ok := errors.AsType[*op.Error](err); ok {
		return op.Unknown(e.Code, "chrome_drag on tab %d pressed the button and let it go again at its start: %s", d.t.conn.Key().TabID, e.Message).
			WithHint("take a snapshot and look before trying again").WithCause(err)
	}
	return fmt.Errorf("%s: %w", what, cleared(err))
}

// approach makes the drag begin with a short move, and finds where the target
// is now: a page may make room for what is dragged, and a target out of view
// is scrolled to.
func (d *dragRun) approach(ctx context.Context) error {
	first := toward(d.start.at, d.end.at, 6)
	for _, at := range []point{toward(d.start.at, d.end.at, 3), first} {
		if err := d.move(ctx, at); err != nil || d.w.over() {
			return err
		}
	}
	if d.to.point != nil {
		return nil
	}
	look, done := d.w.guard(ctx)
	defer done()
	// What is dragged may lie over the target now.
	d.to.node.boxKnown = false
	end, err := d.t.aimAtTarget(look, d.w, d.to, d.p, aimOptions{DisabledOk: true, FileOk: true, AnyHit: true})
	if errors.Is(err, errDialog) {
		return err
	}
	if e, ok := errors.AsType[*op.Error](err); ok && e.Code != op.TargetUnstable {
		return err
	}
	if err == nil {
		d.end = end
	}
	return nil
}

// toward is the point that far from one on the way to another.
func toward(from, to point, by float64) point {
	dist := math.Hypot(to.x-from.x, to.y-from.y)
	if dist <= by {
		return to
	}
	return point{from.x + (to.x-from.x)/dist*by, from.y + (to.y-from.y)/dist*by}
}

// path is the way to the target: even steps, or that of a hand.
func (d *dragRun) path() []point {
	if d.p.human {
		return d.p.path(d.at, d.end.at, d.end.size)
	}
	list := make([]point, d.steps)
	for i := range list {
		s := float64(i+1) / float64(d.steps)
		list[i] = point{d.at.x + (d.end.at.x-d.at.x)*s, d.at.y + (d.end.at.y-d.at.y)*s}
	}
	return list
}

// move moves the pressed pointer, or what is dragged, to the point.
func (d *dragRun) move(ctx context.Context, at point) error {
	d.at = at
	d.w.inputAt()
	if d.data == nil {
		d.handed(0)
	}
	if d.data == nil {
		err := d.w.deliver(ctx, d.mouse(input.DispatchMouseEventTypeMouseMoved, at))
		d.t.mu.Lock()
		d.t.input.pointer = at
		d.t.mu.Unlock()
		return err
	}
	if !d.entered {
		if err := d.w.deliver(ctx, d.dragEvent(input.DispatchDragEventTypeDragEnter, at)); err != nil {
			return err
		}
		d.entered = true
	}
	if d.p.human {
		if err := sleep(ctx, frameStep); err != nil {
			return err
		}
	}
	return d.w.deliver(ctx, d.dragEvent(input.DispatchDragEventTypeDragOver, at))
}

// handed takes the drag that Chrome hands over, waiting that long for it.
func (d *dragRun) handed(wait time.Duration) {
	if wait == 0 {
		select {
		case d.data = <-d.began:
		default:
		}
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case d.data = <-d.began:
	case <-d.w.blocked:
	case <-timer.C:
	}
}

// arrive makes sure that a drag of the page's own is known by now, and gives
// the page a frame to take the last move in.
func (d *dragRun) arrive(ctx context.Context) error {
	if d.data == nil {
		look, done := d.w.guard(ctx)
		defer done()
		var seen dragSeen
		if err := d.t.inputFn(look, d.from.node.frame, "", "dragSeen", &seen); err != nil {
			return err
		}
		if seen.Started && !seen.Ended {
			d.handed(dragWait)
		}
		if d.data == nil {
			return nil
		}
	}
	for range 2 { // what is dragged over may move when it sees it come
		if err := d.move(ctx, d.end.at); err != nil || d.w.over() {
			return err
		}
		look, done := d.w.guard(ctx)
		err := d.t.inputFn(look, d.to.node.frame, "", "frame", nil)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// seen is what the pages saw of the end of the drag.
func (d *dragRun) seen(ctx context.Context) dragSeen {
	var all dragSeen
	if d.w.over() {
		return all
	}
	look, done := d.w.guard(ctx)
	defer done()
	for i, f := range []frameRef{d.to.node.frame, d.from.node.frame} {
		if i == 1 && f.id == d.to.node.frame.id {
			break
		}
		var one dragSeen
		if err := d.t.inputFn(look, f, "", "dragSeen", &one); err != nil {
			d.t.log.Debug("reading a page's watch", "error", err)
			continue
		}
		if i == 0 {
			all.OnTarget, all.Dropped = one.OnTarget, one.Dropped
		}
		all.Released = all.Released || one.Released
		if one.Ended {
			all.Ended, all.Effect = true, one.Effect
		}
	}
	return all
}
