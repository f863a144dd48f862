package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// inputState is what input operations keep of a tab between calls.
type inputState struct {
	pointer point // where the pointer was left, in the viewport of the main frame
	seeded  uint64
}

// stillLimit is how long a moving element is waited for.
const stillLimit = 2 * time.Second

// inputParts are the page functions of input.js, in the order in which they
// are put into a world.
var inputParts = []string{"input_geometry", "input_receipt", "input_control"}

// inputExtras are the files of page functions that only some operations need,
// by function.
var inputExtras = map[string]string{
	"dragWatch": "input_drag", "dragSeen": "input_drag", "dragStop": "input_drag",
	"scroller": "input_scroll", "scrollFrom": "input_scroll", "scrolled": "input_scroll", "scrollStop": "input_scroll", "growth": "input_scroll", "findText": "input_scroll",
	"uploadTarget": "input_upload", "uploadInput": "input_upload", "uploadWatch": "input_upload", "uploadStop": "input_upload", "uploaded": "input_upload",
	"uploadPart": "input_upload", "uploadSet": "input_upload", "uploadDrop": "input_upload", "dropWatch": "input_upload", "dropSeen": "input_upload",
	"choice": "input_choose", "chooseNative": "input_choose", "awaitOptions": "input_choose", "optionFor": "input_choose", "optionToDrop": "input_choose",
	"chooserAgain": "input_choose", "chosen": "input_choose",
}

// inputVersion changes with the page functions: a world outlives the driver
// that made it.
var inputVersion = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range inputParts {
		h.Write([]byte(script(name)))
	}
	for _, function := range slices.Sorted(maps.Keys(inputExtras)) {
		h.Write([]byte(script(inputExtras[function])))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// inputFn calls one function of the page's input functions in the frame, on
// the object or on none, and puts them there first where they are missing.
func (t *Tab) inputFn(ctx context.Context, f frameRef, object runtime.RemoteObjectID, name string, out any, args ...any) error {
	if args == nil {
		args = []any{}
	}
	// One argument holds all: the protocol leaves out one that is empty.
	request := map[string]any{"version": inputVersion(), "name": name, "args": args}
	for range 3 {
		var res struct {
			Missing string          `json:"missing"` // all or part
			Value   json.RawMessage `json:"value"`
		}
		var err error
		if object != "" {
			err = t.runOn(ctx, f.s, object, "input", &res, request)
		} else {
			err = t.runOnce(ctx, f, "input", &res, request)
		}
		if err != nil {
			return err
		}
		if res.Missing == "" {
			if out == nil || len(res.Value) == 0 {
				return nil
			}
			if err := json.Unmarshal(res.Value, out); err != nil {
				return fmt.Errorf("decoding the result of %s: %w", name, err)
			}
			return nil
		}
		// Where a file did not arrive, functions of the others are missing, too.
		parts := inputParts
		if extra := inputExtras[name]; res.Missing == "part" && extra != "" {
			parts = []string{extra}
		}
		for _, part := range parts {
			if err := t.runOnce(ctx, f, part, nil, inputVersion()); err != nil {
				return fmt.Errorf("installing the input functions: %w", err)
			}
		}
	}
	return fmt.Errorf("installing the input functions: they do not stay")
}

// affine maps x, y to a point: x' = a*x + c*y + e, y' = b*x + d*y + f.
type affine struct{ a, b, c, d, e, f float64 }

func (m affine) apply(p point) point {
	return point{m.a*p.x + m.c*p.y + m.e, m.b*p.x + m.d*p.y + m.f}
}

// inverse returns the way back; ok is false for a map onto a line.
func (m affine) inverse() (affine, bool) {
	det := m.a*m.d - m.b*m.c
	if math.Abs(det) < 1e-9 {
		return affine{}, false
	}
	return affine{a: m.d / det, b: -m.b / det, c: -m.c / det, d: m.a / det,
		e: (m.c*m.f - m.d*m.e) / det, f: (m.b*m.e - m.a*m.f) / det}, true
}

// after returns the map that applies n first and then m.
func (m affine) after(n affine) affine {
	return affine{a: m.a*n.a + m.c*n.b, b: m.b*n.a + m.d*n.b, c: m.a*n.c + m.c*n.d, d: m.b*n.c + m.d*n.d,
		e: m.a*n.e + m.c*n.f + m.e, f: m.b*n.e + m.d*n.f + m.f}
}

// viewport is a frame's own: its size, and how far a pinch has moved it.
type viewport struct {
	Width   float64 `json:"width"`
	Height  float64 `json:"height"`
	OffsetX float64 `json:"offsetX"`
	OffsetY float64 `json:"offsetY"`
}

func (v viewport) has(p point) bool { return p.x >= 0 && p.y >= 0 && p.x < v.Width && p.y < v.Height }

// frameHop is one step from a frame out to the frame that holds it.
type frameHop struct {
	inner  frameRef
	outer  frameRef
	owner  runtime.RemoteObjectID // the element in outer that holds inner
	view   viewport               // of outer
	size   viewport               // of inner
	toward affine                 // from inner's viewport to outer's
}

// hops are the steps from a frame to the main frame, the innermost first.
func (t *Tab) hops(ctx context.Context, f frameRef) ([]frameHop, error) {
	var path []frameRef // f first, the main frame last
	for at := f; ; {
		path = append(path, at)
		if at.parent == "" {
			break
		}
		up, ok := t.frameByID(at.parent)
		if !ok || len(path) > 64 {
			return nil, op.Reject(op.DocumentChanged, "a frame of tab %d is gone; nothing was done", t.conn.Key().TabID).WithHint("take a snapshot")
		}
		at = up
	}
	if len(path) == 1 {
		return nil, nil
	}
	views := make([]viewport, len(path))
	owners := make([]runtime.RemoteObjectID, len(path)-1)
	quads := make([]affine, len(path)-1) // to the viewport of the root of outer's process
	var fns []func() error
	for i, at := range path {
		fns = append(fns, func() error { return t.inputFn(ctx, at, "", "view", &views[i]) })
	}
	boxes := make([]dom.Quad, len(path)-1)
	for i := range owners {
		inner, outer := path[i], path[i+1]
		fns = append(fns, func() error {
			res, err := call(ctx, outer.s, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: inner.id})
			if err != nil {
				return err
			}
			return together(
				func() (err error) { owners[i], err = t.resolve(ctx, outer, res.BackendNodeID); return err },
				func() error {
					box, err := call(ctx, outer.s, dom.GetBoxModel, dom.GetBoxModelParams{BackendNodeID: res.BackendNodeID})
					if err == nil && box.Model != nil {
						boxes[i] = box.Model.Content
					}
					return err
				})
		})
	}
	if err := together(fns...); err != nil {
		return nil, fmt.Errorf("finding where a frame lies: %w", err)
	}
	for i, q := range boxes {
		if len(q) < 8 || views[i].Width == 0 || views[i].Height == 0 {
			return nil, invisible(t, "its frame is not shown")
		}
		w, h := views[i].Width, views[i].Height
		quads[i] = affine{a: (q[2] - q[0]) / w, b: (q[3] - q[1]) / w, c: (q[6] - q[0]) / h, d: (q[7] - q[1]) / h, e: q[0], f: q[1]}
	}
	list := make([]frameHop, len(owners))
	for i := range list {
		m := quads[i]
		// Boxes are told in the viewport of the outermost frame of the same
		// process; what is wanted is the one of the next frame out.
		if i+1 < len(quads) && path[i+1].session == path[i+2].session {
			back, ok := quads[i+1].inverse()
			if !ok {
				return nil, invisible(t, "its frame is not shown")
			}
			m = back.after(m)
		}
		list[i] = frameHop{inner: path[i], outer: path[i+1], owner: owners[i], view: views[i+1], size: views[i], toward: m}
	}
	return list, nil
}

// ways are the points that p of the innermost frame has in each frame out to
// the main one; p itself is first.
func ways(p point, hops []frameHop) []point {
	list := []point{p}
	for _, h := range hops {
		p = h.toward.apply(p)
		list = append(list, p)
	}
	return list
}

// aim is what the page said of a target.
type aim struct {
	State           string   `json:"state"`
	Reason          string   `json:"reason"`
	X               float64  `json:"x"`
	Y               float64  `json:"y"`
	Box             rect     `json:"box"`
	Scrolled        bool     `json:"scrolled"`
	View            viewport `json:"view"`
	Tag             string   `json:"tag"`
	RequestedTag    string   `json:"requestedTag"`
	PromotedFromTag string   `json:"promotedFromTag"`
	Interactive     bool     `json:"interactive"`
	Blocker         string   `json:"blocker"`
	Within          string   `json:"within"`
}

// aimed is an element with the point to press.
type aimed struct {
	what   string // for messages
	ref    string
	frame  frameRef
	object runtime.RemoteObjectID // "" for a point
	hops   []frameHop
	ways   []point // the point in each frame, the element's own first
	at     point   // for Input.dispatchMouseEvent
	size   float64 // the smaller side of its box
	aim    aim
}

// aimOptions say what an aim lets pass.
type aimOptions struct {
	DisabledOk bool // also what is disabled: nothing is pressed on it
	AnyHit     bool // also what is covered
	FileOk     bool // also what opens the system's file dialog
}

// aimAt is aimAtWith for a press.
func (t *Tab) aimAt(ctx context.Context, n node, object runtime.RemoteObjectID, p *pace) (aimed, error) {
	return t.aimAtWith(ctx, n, object, p, aimOptions{})
}

// aimAtWith finds the point at which a press meets the element: attached, enabled,
// visible, still, scrolled into view in every frame around it, not covered.
// With control it aims at the control that was prepared last. It presses
// nothing.
func (t *Tab) aimAtWith(ctx context.Context, n node, object runtime.RemoteObjectID, p *pace, o aimOptions) (aimed, error) {
	tg := aimed{what: n.String(), ref: n.ref, frame: n.frame, object: object}
	options := map[string]any{"limit": stillLimit.Milliseconds(), "disabledOk": o.DisabledOk, "anyHit": o.AnyHit, "fileOk": o.FileOk}
	if p.human {
		u, v := p.spread()
		options["spread"] = map[string]float64{"u": u, "v": v}
	}
	var expected *rect
	if n.boxKnown {
		box := n.box
		expected = &box
	}
	// Each frame around it may have to be scrolled once.
	for try := 0; try < 3+len(tg.hops); try++ {
		hops, err := t.hops(ctx, n.frame)
		if err != nil {
			return tg, err
		}
		if len(hops) > 0 {
			moved, err := t.showFrames(ctx, hops)
			if err != nil {
				return tg, err
			}
			if moved {
				if hops, err = t.hops(ctx, n.frame); err != nil {
					return tg, err
				}
			}
			expected = intoFrame(n, hops, moved)
		}
		if err := t.inputFn(ctx, n.frame, object, "aim", &tg.aim, expected, options); err != nil {
			return tg, err
		}
		if err := t.refusal(tg.what, tg.ref, tg.aim.State, tg.aim.Reason, tg.aim.Blocker, tg.aim.Within, point{tg.aim.X, tg.aim.Y}); err != nil {
			return tg, err
		}
		if len(hops) > 0 && tg.aim.Scrolled {
			if hops, err = t.hops(ctx, n.frame); err != nil {
				return tg, err
			}
		}
		tg.hops, tg.ways = hops, ways(point{tg.aim.X, tg.aim.Y}, hops)
		tg.size = min(tg.aim.Box.W, tg.aim.Box.H)
		// From within: what the inner frame does not show may lie where the
		// outer one cannot be scrolled to.
		out := 0
		for out < len(hops) && hops[out].view.has(tg.ways[out+1]) {
			out++
		}
		if out == len(hops) {
			tg.at = tg.ways[len(tg.ways)-1]
			view := tg.aim.View
			if len(hops) > 0 {
				view = hops[len(hops)-1].view
			}
			tg.at.x, tg.at.y = tg.at.x-view.OffsetX, tg.at.y-view.OffsetY
			return tg, nil
		}
		h := hops[out]
		if err := t.reveal(ctx, h, tg.ways[out].x/h.size.Width, tg.ways[out].y/h.size.Height); err != nil {
			return tg, err
		}
		expected = nil
	}
	return tg, invisible(t, "it cannot be scrolled into view")
}

// intoFrame is the box of a snapshot in the viewport of the element's own
// frame, where that can be told.
func intoFrame(n node, hops []frameHop, moved bool) *rect {
	if !n.boxKnown || moved {
		return nil
	}
	a, b := point{n.box.X, n.box.Y}, point{n.box.X + n.box.W, n.box.Y + n.box.H}
	for i := len(hops) - 1; i >= 0; i-- {
		back, ok := hops[i].toward.inverse()
		if !ok {
			return nil
		}
		a, b = back.apply(a), back.apply(b)
	}
	return &rect{X: a.x, Y: a.y, W: b.x - a.x, H: b.y - a.y}
}

// showFrames scrolls frames into view of which nothing is seen: Chrome lets no
// animation frame come in them.
func (t *Tab) showFrames(ctx context.Context, hops []frameHop) (moved bool, err error) {
	for i := len(hops) - 1; i >= 0; i-- {
		h := hops[i]
		a, b := h.toward.apply(point{0, 0}), h.toward.apply(point{h.size.Width, h.size.Height})
		if max(a.x, b.x) > 0 && max(a.y, b.y) > 0 && min(a.x, b.x) < h.view.Width && min(a.y, b.y) < h.view.Height {
			continue
		}
		if err := t.reveal(ctx, h, 0.5, 0.5); err != nil {
			return moved, err
		}
		moved = true
	}
	return moved, nil
}

// reveal scrolls the part of a frame at that share of its size into view.
func (t *Tab) reveal(ctx context.Context, h frameHop, u, v float64) error {
	var res struct {
		State string `json:"state"`
	}
	if err := t.inputFn(ctx, h.outer, h.owner, "reveal", &res, u, v); err != nil {
		return err
	}
	if res.State != "ok" {
		return invisible(t, "its frame cannot be scrolled into view")
	}
	return nil
}

// check is the last look before the press: in the element's own frame, and in
// each frame around it that the point meets the frame.
func (t *Tab) check(ctx context.Context, tg aimed) error {
	type answer struct {
		State   string `json:"state"`
		Blocker string `json:"blocker"`
		Within  string `json:"within"`
	}
	answers := make([]answer, len(tg.hops)+1)
	fns := []func() error{func() error {
		return t.inputFn(ctx, tg.frame, "", "check", &answers[0], tg.ways[0].x, tg.ways[0].y, tg.aim.Box)
	}}
	for i, h := range tg.hops {
		fns = append(fns, func() error {
			return t.inputFn(ctx, h.outer, h.owner, "over", &answers[i+1], tg.ways[i+1].x, tg.ways[i+1].y)
		})
	}
	if err := together(fns...); err != nil {
		return err
	}
	for i, a := range answers {
		if a.State == "moved" {
			return errMoved
		}
		if err := t.refusal(tg.what, tg.ref, a.State, "", a.Blocker, a.Within, tg.ways[i]); err != nil {
			return err
		}
	}
	return nil
}

// errMoved says that the element moved between aim and check: aim again.
var errMoved = fmt.Errorf("the element moved")

// refusal is the error of a target in that state, nil for "ok". Nothing was
// pressed.
func (t *Tab) refusal(what, ref, state, reason, blocker, within string, at point) error {
	tab := t.conn.Key().TabID
	var e *op.Error
	switch state {
	case "ok":
		return nil
	case "stale":
		if ref != "" {
			return t.staleRef(ref, "its element has gone from the page")
		}
		e = op.Reject(op.StaleActionRef, "%s on tab %d has gone from the page; nothing was done", what, tab).WithHint("take a snapshot and use its refs")
	case "disabled", "inert":
		e = op.Reject(op.InvalidActionTarget, "%s on tab %d is %s; nothing was done", what, tab, state).
			WithHint("do first what enables it, then take a snapshot").WithDetail("reason", state)
	case "file":
		e = op.Reject(op.InvalidActionTarget, "%s on tab %d opens the system's file dialog, which nobody here can answer; nothing was pressed", what, tab).
			WithHint("give it files with chrome_upload").WithDetail("reason", "file-dialog")
	case "invisible":
		e = invisible(t, reason)
		e.Message = fmt.Sprintf("%s on tab %d is not visible: %s; nothing was pressed", what, tab, reason)
	case "unstable":
		e = op.Reject(op.TargetUnstable, "%s on tab %d did not stand still for %s; nothing was pressed", what, tab, stillLimit).
			WithHint("wait until its animation has ended, or stop it")
	case "covered":
		by := blocker
		if within != "" {
			by += " in " + within
		}
		e = op.Reject(op.ClickIntercepted, "%s on tab %d is covered by %s at (%.0f, %.0f); nothing was pressed", what, tab, by, at.x, at.y).
			WithHint("close or scroll away what covers it, then take a snapshot").
			WithDetail("point", map[string]float64{"x": math.Round(at.x), "y": math.Round(at.y)}).WithDetail("blocker", blocker)
		if within != "" {
			e.WithDetail("within", within)
		}
	default:
		e = op.Reject(op.InvalidActionTarget, "%s on tab %d: %s; nothing was done", what, tab, strings.TrimSpace(state+" "+reason))
	}
	if ref != "" {
		e.WithDetail("ref", ref)
	}
	return e.WithDetail("url", t.url())
}

func invisible(t *Tab, reason string) *op.Error {
	return op.Reject(op.TargetInvisible, "the element on tab %d is not visible: %s; nothing was pressed", t.conn.Key().TabID, reason).
		WithHint("open what hides it, then take a snapshot").WithDetail("reason", reason)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// paceOf is the pace of a call: its own, else its session's.
func (t *Tab) paceOf(c *Call, own string) *pace {
	if own == "" {
		own = c.Session.Pace
	}
	t.mu.Lock()
	t.input.seeded++
	seed := t.input.seeded
	t.mu.Unlock()
	return newPace(own == "human", seed^uint64(t.conn.Key().TabID)<<32)
}
