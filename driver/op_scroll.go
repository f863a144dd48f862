package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// ScrollIn is the input of chrome_scroll: a distance, or one of the goals to,
// intoView, untilText and untilVisible.
type ScrollIn struct {
	Within       *ElementBy `json:"within,omitempty" brief:"what scrolls; default the page" jsonschema:"what is scrolled; without it the page, or the part of it that scrolls in its stead"`
	DeltaY       float64    `json:"deltaY,omitzero" min:"-1000000" max:"1000000" brief:"px, down positive" jsonschema:"CSS pixels, down when positive; with untilText or untilVisible how far at a time"`
	DeltaX       float64    `json:"deltaX,omitzero" min:"-1000000" max:"1000000" brief:"" jsonschema:"CSS pixels, to the right when positive"`
	Steps        int        `json:"steps,omitzero" min:"3" max:"40" brief:"-" jsonschema:"wheel events for a distance; when absent 3, and 24 at the human pace"`
	To           string     `json:"to,omitzero" enum:"top|bottom|left|right" brief:"" jsonschema:"scroll to this end; as long as the page adds to it, at most 20 times"`
	IntoView     *ElementBy `json:"intoView,omitempty" brief:"until this is in view" jsonschema:"scroll until this element is in view"`
	UntilText    string     `json:"untilText,omitzero" minLength:"1" maxLength:"500" brief:"until this text is in view" jsonschema:"scroll until this text is there and in view; in any case"`
	UntilVisible string     `json:"untilVisible,omitzero" minLength:"1" maxLength:"2000" brief:"until this selector is visible" jsonschema:"scroll until this selector matches something visible, and bring it into view"`
	Pace         string     `json:"pace,omitzero" enum:"fast|human" brief:"" jsonschema:"human turns the wheel as a hand does; default is the session's"`
	op.TabInput
}

// Scrolled is one thing that moved.
type Scrolled struct {
	What string `json:"what" jsonschema:"page, or the element"`
	X    int    `json:"x" jsonschema:"CSS pixels to the right"`
	Y    int    `json:"y" jsonschema:"CSS pixels down"`
}

// ScrollOut is what moved and where it is now.
type ScrollOut struct {
	Input    string     `json:"input"` // chrome
	DeltaX   float64    `json:"deltaX" jsonschema:"what the wheel was turned by"`
	DeltaY   float64    `json:"deltaY"`
	Steps    int        `json:"steps" jsonschema:"wheel events"`
	What     string     `json:"what" jsonschema:"what was scrolled: page, or the element"`
	Moved    []Scrolled `json:"moved" jsonschema:"what moved and how far; something around it may have moved instead"`
	Position PointXY    `json:"position" jsonschema:"from its top and left"`
	Max      PointXY    `json:"max" jsonschema:"how far it can go now"`
	Ends     []string   `json:"ends" jsonschema:"of top, bottom, left and right, those where it stands"`
	Grew     bool       `json:"grew,omitempty" jsonschema:"it became larger meanwhile"`
	Found    *bool      `json:"found,omitempty" jsonschema:"of untilText, untilVisible and intoView: whether it is there and in view"`
	Seen     string     `json:"seen,omitempty" jsonschema:"what was found"`
	Stopped  string     `json:"stopped,omitempty" enum:"end|limit|blocked" jsonschema:"why the search ended without it"`
	Receipt
	notes []string
}

// Text is contract §1.11's form, with the receipt.
func (o ScrollOut) Text() string { return o.Receipt.text("scroll", o.notes...) }

var opScroll = op.Define(op.Spec{
	Name: "input.scroll", Tool: "chrome_scroll", Profile: "interaction", Title: "Scroll",
	Summary: "Scroll the page or an element: by a distance, to an end, to an element, or until a text appears.",
	Brief:   "Scroll by a distance, to an end, to an element, or until a text appears.",
	Doc: "Turns the mouse wheel, with trusted events, over what is to be scrolled. `to` goes to an end; `untilText` and `untilVisible` go on, also through lists that load while they are scrolled, until it is there, the end is reached or a bound is met: " +
		"not found is an observation, not an error. `intoView` brings an element into view, in whichever frame. The result says what moved and how far, and at which end it stands.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	OneOf: [][]string{{"to", "intoView", "untilText", "untilVisible", ""}},
	Examples: []op.Example{
		{Title: "Scroll down", Input: json.RawMessage(`{"deltaY":400}`), Page: "input/scroll.html"},
		{Title: "Scroll a list to its end", Input: json.RawMessage(`{"within":{"by":"selector","value":"#list"},"to":"bottom"}`), Page: "input/scroll.html"},
		{Title: "Scroll until a text appears", Input: json.RawMessage(`{"untilText":"Row 60"}`), Page: "input/scroll-endless.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.InvalidActionTarget, op.ActionTargetNotFound, op.ClickIntercepted, op.TargetInvisible, op.TargetUnstable,
		op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, scroll)

// Bounds of a scroll.
const (
	scrollSteps      = 3
	scrollStepsHuman = 24
	scrollRest       = 1500 * time.Millisecond // until what was scrolled stands still
	scrollRounds     = 20                      // to an end that moves away
	searchRounds     = 60                      // of a search
	searchLimit      = 20 * time.Second
	growthLimit      = 1200 * time.Millisecond // for more to load at the end
)

// scroller is what the page says of what is scrolled.
type scroller struct {
	State    string     `json:"state"`
	Reason   string     `json:"reason"`
	Blocker  string     `json:"blocker"`
	Missed   bool       `json:"missed"`
	X        float64    `json:"x"` // where the wheel reaches it
	Y        float64    `json:"y"`
	What     string     `json:"what"`
	Position PointXY    `json:"position"`
	Max      PointXY    `json:"max"`
	View     PointXY    `json:"view"` // how much of it is seen
	Ends     []string   `json:"ends"`
	Grew     bool       `json:"grew"`
	Moved    []Scrolled `json:"moved"`
	Wheels   int        `json:"wheels"`
	Taken    int        `json:"prevented"` // wheel events that the page took for itself
}

// scrollRun is one scroll.
type scrollRun struct {
	t      *Tab
	c      *Call
	w      *witness
	p      *pace
	in     ScrollIn
	frame  frameRef
	node   node // within, or the zero node
	at     point
	now    scroller
	out    ScrollOut
	object runtime.RemoteObjectID
}

func scroll(ctx context.Context, c *Call, in ScrollIn) (ScrollOut, error) {
	t := c.tab
	within, into, err := scrollInput(in)
	if err != nil {
		return ScrollOut{}, err
	}
	p := t.paceOf(c, in.Pace)
	if in.Steps == 0 {
		in.Steps = scrollSteps
		if p.human {
			in.Steps = scrollStepsHuman
		}
	}
	if err := t.leaseFrames(ctx); err != nil {
		return ScrollOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return ScrollOut{}, err
	}
	defer w.stop()
	s := &scrollRun{t: t, c: c, w: w, p: p, in: in, frame: w.main, out: ScrollOut{Input: "chrome", Moved: []Scrolled{}, Ends: []string{}}}
	defer s.end(ctx)
	if into != nil {
		err = s.intoView(ctx, *into)
	} else {
		err = s.start(ctx, within)
		if err == nil {
			err = s.run(ctx)
		}
	}
	if err != nil && !w.ended(err) {
		w.disarm(ctx)
		return ScrollOut{}, c.cause(err)
	}
	if errors.Is(err, errDialog) && !c.effects.Load() {
		return ScrollOut{}, w.untouched(err)
	}
	s.out.Receipt = w.settle(ctx, false)
	s.tell()
	return s.out, nil
}

// Check refuses what the schema cannot.
func (in ScrollIn) Check() error {
	_, _, err := scrollInput(in)
	return err
}

// scrollInput checks what the schema cannot.
func scrollInput(in ScrollIn) (within elementInput, into *elementInput, err error) {
	if in.Within != nil {
		if within, err = in.Within.element("chrome_scroll", "within"); err != nil {
			return within, nil, err
		}
	}
	if in.IntoView != nil {
		e, err := in.IntoView.element("chrome_scroll", "intoView")
		if err != nil {
			return within, nil, err
		}
		if in.Within != nil {
			return within, nil, op.Invalidf("chrome_scroll: field %q needs no within: everything around the element is scrolled", "intoView").WithDetail("field", "within")
		}
		into = &e
	}
	if (in.To != "" || in.IntoView != nil) && (in.DeltaX != 0 || in.DeltaY != 0) {
		return within, nil, op.Invalidf("chrome_scroll: give deltaX and deltaY, or a goal, not both").WithDetail("field", "deltaY")
	}
	return within, into, nil
}

// axes are the directions that the call scrolls in.
func (s *scrollRun) axes() []string {
	switch {
	case s.in.To == "left" || s.in.To == "right", s.in.DeltaX != 0 && s.in.DeltaY == 0:
		return []string{"x"}
	case s.in.DeltaX != 0:
		return []string{"y", "x"}
	}
	return []string{"y"}
}

// start finds what is scrolled, has the pages watch and moves the pointer there.
func (s *scrollRun) start(ctx context.Context, within elementInput) error {
	t := s.t
	look, done := s.w.guard(ctx)
	defer done()
	if within != (elementInput{}) {
		n, err := t.element(look, within, "")
		if err != nil {
			return err
		}
		s.node, s.frame = n, n.frame
		if s.object, err = t.resolve(look, n.frame, n.backend); err != nil {
			return t.staleNode(n, err)
		}
	}
	hops, err := t.hops(look, s.frame)
	if err != nil {
		return err
	}
	if len(hops) > 0 {
		if moved, err := t.showFrames(look, hops); err != nil {
			return err
		} else if moved {
			if hops, err = t.hops(look, s.frame); err != nil {
				return err
			}
		}
	}
	if err := t.inputFn(look, s.frame, s.object, "scroller", &s.now, s.axes()); err != nil {
		return t.staleNode(s.node, err)
	}
	what := "the page"
	if s.object != "" {
		what = s.node.String()
	}
	if err := t.refusal(what, s.node.ref, s.now.State, s.now.Reason, s.now.Blocker, "", point{s.now.X, s.now.Y}); err != nil {
		return err
	}
	list := ways(point{s.now.X, s.now.Y}, hops)
	s.at = list[len(list)-1]
	for i := len(hops) - 1; i >= 0; i-- {
		if !hops[i].view.has(list[i+1]) {
			return t.refusal(what, s.node.ref, "invisible", "its frame is not in view", "", "", s.at)
		}
	}
	return s.w.arm(look, s.frame)
}

// run scrolls as the call asks.
func (s *scrollRun) run(ctx context.Context) error {
	switch {
	case s.in.To != "":
		return s.toEnd(ctx)
	case s.in.UntilText != "" || s.in.UntilVisible != "":
		return s.search(ctx)
	case s.in.DeltaX == 0 && s.in.DeltaY == 0:
		s.out.notes = append(s.out.notes, "nothing was scrolled: deltaX and deltaY are 0")
		return s.rest(ctx)
	}
	if err := s.turn(ctx, s.in.DeltaX, s.in.DeltaY, s.in.Steps); err != nil {
		return err
	}
	return s.rest(ctx)
}

// wheelEvent is Input.dispatchMouseEvent of a wheel: the generated type leaves
// out a delta of 0, and Chrome wants both.
var wheelEvent = cdp.Command[wheelParams, cdp.Empty]{Method: "Input.dispatchMouseEvent"}

type wheelParams struct {
	Type   string  `json:"type"` // mouseWheel
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	DeltaX float64 `json:"deltaX"`
	DeltaY float64 `json:"deltaY"`
}

// turn turns the wheel by a distance, in so many events.
func (s *scrollRun) turn(ctx context.Context, dx, dy float64, steps int) error {
	if s.at != s.pointer() {
		s.c.begin()
		if err := s.t.moveTo(ctx, s.w, s.at, 40, s.p); err != nil {
			if errors.Is(err, op.ErrNotDelivered) && !s.p.human && s.out.Steps == 0 {
				s.c.noEffect()
			}
			return err
		}
	}
	doneX, doneY := 0.0, 0.0
	for i, share := range wheelShares(steps, s.p) {
		// What was turned so far is rounded, so that the whole is exact.
		x, y := math.Round(dx*share)-doneX, math.Round(dy*share)-doneY
		if i == steps-1 {
			x, y = dx-doneX, dy-doneY
		}
		doneX, doneY = doneX+x, doneY+y
		if i == 0 {
			if err := s.w.fence(s.c); err != nil {
				return err
			}
		}
		s.c.begin()
		s.w.inputAt()
		err := s.w.deliver(ctx, func(ctx context.Context) error {
			_, err := call(ctx, s.t.conn, wheelEvent, wheelParams{Type: "mouseWheel", X: s.at.x, Y: s.at.y, DeltaX: x, DeltaY: y})
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, op.ErrNotDelivered) && s.out.Steps == 0:
			s.c.noEffect()
			return fmt.Errorf("turning the wheel: %w", err)
		case errors.Is(err, errDialog), s.w.gone(err):
			return err
		default:
			return fmt.Errorf("turning the wheel: %w", cleared(err))
		}
		s.out.Steps++
		s.out.DeltaX, s.out.DeltaY = s.out.DeltaX+x, s.out.DeltaY+y
		if s.p.human {
			if err := sleep(ctx, s.p.normal(frameStep, 3*time.Millisecond, 8*time.Millisecond, 30*time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scrollRun) pointer() point {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.input.pointer
}

// wheelShares are how much of a distance is turned after each event: even when
// fast; a hand's wheel runs out, as one of a touch pad does.
func wheelShares(steps int, p *pace) []float64 {
	list := make([]float64, steps)
	for i := range list {
		f := float64(i+1) / float64(steps)
		if p.human {
			f = 1 - math.Pow(1-f, 2.4)
			if i == steps-1 {
				f = 1
			}
		}
		list[i] = f
	}
	return list
}

// rest waits until what was scrolled stands still and reads where it is.
func (s *scrollRun) rest(ctx context.Context) error {
	look, done := s.w.guard(ctx)
	defer done()
	var now scroller
	if err := s.t.inputFn(look, s.frame, "", "scrolled", &now, scrollRest.Milliseconds(), 2); err != nil {
		return err
	}
	if !now.Missed {
		s.now = now
	}
	return nil
}

// toEnd scrolls to an end, and on while it moves away.
func (s *scrollRun) toEnd(ctx context.Context) error {
	for round := range scrollRounds {
		before := s.now.Position
		dx, dy := 0.0, 0.0
		switch s.in.To {
		case "top":
			dy = -before.Y
		case "bottom":
			dy = s.now.Max.Y - before.Y
		case "left":
			dx = -before.X
		case "right":
			dx = s.now.Max.X - before.X
		}
		if math.Abs(dx) < 1 && math.Abs(dy) < 1 {
			if round == 0 {
				return s.rest(ctx)
			}
			return nil
		}
		// A little more: what the position is rounded to must not leave a gap.
		if err := s.turn(ctx, dx+math.Copysign(2, dx)*sign01(dx), dy+math.Copysign(2, dy)*sign01(dy), s.in.Steps); err != nil {
			return err
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
		if s.now.Position == before {
			return nil // it does not follow the wheel
		}
	}
	s.out.Stopped = "limit"
	return nil
}

func sign01(f float64) float64 {
	if f == 0 {
		return 0
	}
	return 1
}

// search scrolls until a text or an element is there.
func (s *scrollRun) search(ctx context.Context) error {
	found := false
	s.out.Found = &found
	end := time.Now().Add(searchLimit)
	dx, dy := s.in.DeltaX, s.in.DeltaY
	for round := 0; ; round++ {
		var err error
		if found, err = s.look(ctx); err != nil {
			return err
		}
		if found {
			if err := s.rest(ctx); err != nil {
				return err
			}
			// A wheel that was still running out may have moved it on: now
			// that nothing moves it is brought into view once more.
			if found, err = s.look(ctx); err != nil {
				return err
			}
			return s.rest(ctx)
		}
		if round >= searchRounds || time.Now().After(end) {
			s.out.Stopped = "limit"
			return s.rest(ctx)
		}
		stepX, stepY := dx, dy
		if dx == 0 && dy == 0 {
			stepY = max(100, math.Floor(s.now.View.Y*0.8))
		}
		before, size := s.now.Position, s.now.Max
		if err := s.turn(ctx, stepX, stepY, min(s.in.Steps, 3)); err != nil {
			return err
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
		if s.now.Position != before || s.now.Max != size {
			continue
		}
		if s.now.Taken > 0 {
			// The page answers the wheel itself: go on as long as it may.
			continue
		}
		more, err := s.growth(ctx)
		if err != nil {
			return err
		}
		if !more {
			if found, err = s.look(ctx); err != nil {
				return err
			}
			if !found {
				s.out.Stopped = "end"
			}
			return s.rest(ctx)
		}
	}
}

// growth waits for more to load where the end is reached.
func (s *scrollRun) growth(ctx context.Context) (bool, error) {
	look, done := s.w.guard(ctx)
	defer done()
	var res struct {
		Grew bool `json:"grew"`
	}
	err := s.t.inputFn(look, s.frame, "", "growth", &res, growthLimit.Milliseconds())
	return res.Grew, err
}

// look reports whether what is looked for is there, and brings it into view.
func (s *scrollRun) look(ctx context.Context) (bool, error) {
	look, done := s.w.guard(ctx)
	defer done()
	t := s.t
	if s.in.UntilText != "" {
		var res struct {
			Found  bool   `json:"found"`
			InView bool   `json:"inView"`
			Seen   string `json:"seen"`
		}
		s.c.begin() // it may scroll
		if err := t.inputFn(look, s.frame, "", "findText", &res, s.in.UntilText, s.object == ""); err != nil {
			return false, err
		}
		if res.Found {
			s.out.Seen = res.Seen
		}
		return res.Found && res.InView, nil
	}
	m, err := t.match(look, s.in.UntilVisible)
	if isCode(err, op.ActionTargetNotFound) {
		return false, err
	}
	if e, ok := errors.AsType[*op.Error](err); ok && e.Code == op.InvalidActionTarget {
		return false, nil // a frame on the way is not there yet
	}
	if err != nil || m.found.Visible == 0 || len(m.nodes) == 0 || m.nodes[0] == nil {
		return false, err
	}
	n := node{frame: m.frame, backend: m.nodes[0].Backend, tag: m.found.Items[0].Tag, name: m.found.Items[0].Label}
	err = s.bring(look, n)
	if isCode(err, op.TargetInvisible) || isCode(err, op.StaleActionRef) {
		return false, nil
	}
	return err == nil, err
}

// bring scrolls an element into view, in whichever frame it is.
func (s *scrollRun) bring(ctx context.Context, n node) error {
	t := s.t
	object, err := t.resolve(ctx, n.frame, n.backend)
	if err != nil {
		return t.staleNode(n, err)
	}
	defer t.releaseTarget(ctx, n.frame)
	s.c.begin()
	n.boxKnown = false
	if _, err := t.aimAtWith(ctx, n, object, newPace(false, 1), aimOptions{DisabledOk: true, AnyHit: true, FileOk: true}); err != nil {
		return t.staleNode(n, err)
	}
	s.out.Seen = n.String()
	return nil
}

// intoView brings an element into view.
func (s *scrollRun) intoView(ctx context.Context, e elementInput) error {
	look, done := s.w.guard(ctx)
	defer done()
	n, err := s.t.element(look, e, "")
	if err != nil {
		return err
	}
	s.node, s.frame = n, n.frame
	object, err := s.t.resolve(look, n.frame, n.backend)
	if err != nil {
		return s.t.staleNode(n, err)
	}
	if err := s.t.inputFn(look, s.frame, object, "scrollFrom", &s.now); err != nil {
		return s.t.staleNode(n, err)
	}
	if err := s.t.refusal(n.String(), n.ref, s.now.State, "", "", "", point{}); err != nil {
		return err
	}
	if err := s.w.arm(look, s.frame); err != nil {
		return err
	}
	found := false
	s.out.Found = &found
	if err := s.bring(look, n); err != nil {
		return err
	}
	found = true
	return s.rest(ctx)
}

// end has the page forget the scroll.
func (s *scrollRun) end(ctx context.Context) {
	if s.w.over() || s.frame.s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	if err := s.t.inputFn(ctx, s.frame, "", "scrollStop", nil); err != nil {
		s.t.log.Debug("ending a scroll", "error", err)
	}
	if s.object != "" {
		s.t.releaseTarget(ctx, s.frame)
	}
}

// tell fills in the result and the lines for a reader.
func (s *scrollRun) tell() {
	o, now := &s.out, s.now
	o.What, o.Position, o.Max, o.Grew = now.What, now.Position, now.Max, now.Grew
	if len(now.Ends) > 0 {
		o.Ends = now.Ends
	}
	if len(now.Moved) > 0 {
		o.Moved = now.Moved
	}
	add := func(format string, args ...any) { o.notes = append(o.notes, fmt.Sprintf(format, args...)) }
	if o.Found != nil {
		what := s.in.UntilText
		if what == "" {
			what = s.in.UntilVisible
		}
		switch {
		case *o.Found && s.in.IntoView != nil:
			add("in view: %s", o.Seen)
		case *o.Found:
			add("found and in view: %s", quoteName(o.Seen, 120))
		case o.Stopped == "end":
			add("%s is not there: the end was reached", quoteName(what, 80))
		default:
			add("%s was not found in %d turns of the wheel", quoteName(what, 80), o.Steps)
		}
	}
	for _, m := range o.Moved {
		var by []string
		if m.Y != 0 {
			by = append(by, distance(m.Y, "down", "up"))
		}
		if m.X != 0 {
			by = append(by, distance(m.X, "right", "left"))
		}
		add("%s moved %s", m.What, strings.Join(by, ", "))
	}
	if len(o.Moved) == 0 && o.Steps > 0 {
		if now.Taken > 0 {
			add("%s did not move: the page took the wheel itself", o.What)
		} else {
			add("%s did not move", o.What)
		}
	}
	at := "between its ends"
	if len(o.Ends) > 0 {
		at = "at the " + strings.Join(o.Ends, ", ")
	}
	add("%s is %s (%.0f of %.0f down)", o.What, at, o.Position.Y, o.Max.Y)
	if o.Grew {
		add("it became larger meanwhile")
	}
}

func distance(n int, plus, minus string) string {
	if n < 0 {
		return fmt.Sprintf("%d %s", -n, minus)
	}
	return fmt.Sprintf("%d %s", n, plus)
}
