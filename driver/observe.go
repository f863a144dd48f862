package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// Bounds of one observation.
const (
	mainBound  = 20 * time.Second // for the main frame
	maxRows    = 600_000          // elements and texts of a frame
	mainWalkMs = 10_000           // after which a walk stops and says what it left
	maxText    = 100_000          // characters of one text
	maxTexts   = 4_000_000        // characters of all texts of a frame
	maxHosts   = 200              // possible closed shadow roots asked about, a round
	maxRounds  = 4                // of closed shadow roots within closed shadow roots
	maxViews   = 200              // frames
	maxResolve = 300              // listening elements looked up one by one, a frame
	maxProbe   = 1500             // elements asked for their ids to find listeners among them
	lanes      = 16               // frames observed at a time
)

// For any other frame than the main one: a bad one must not hold up the rest.
// They are variables for tests of what is told, which must not depend on how
// busy the machine is.
var (
	childBound  = 1200 * time.Millisecond
	childWalkMs = 700
)

// For a frame that runs in the main frame's thread: it answers in its turn,
// after all others of the page, and cannot be busy by itself.
const (
	turnBound  = 5 * time.Second
	turnWalkMs = 3000
)

// bounds are how long the frame may take to answer, and how many milliseconds
// its walk, in a page with this main frame.
func (f *frameRef) bounds(main *frameRef) (time.Duration, int) {
	switch {
	case f.id == main.id:
		return mainBound, mainWalkMs
	case f.session == main.session:
		return max(turnBound, childBound), max(turnWalkMs, childWalkMs)
	}
	return childBound, childWalkMs
}

// view is one frame as it was observed.
type view struct {
	frame  frameRef
	meta   walkMeta
	rows   []row
	rel    relations
	parent *view
	at     int           // the frame element's row in the parent
	kids   map[int]*view // by the row of their frame element

	// From its viewport to the main frame's: x*sx + dx.
	dx, dy, sx, sy float64
	hidden         bool // the frame element cannot be seen
	inert          bool
	cx0, cy0       float64 // the part of the main viewport that it can show
	cx1, cy1       float64

	listening map[int]bool // rows with a listener for clicks
	rooted    bool         // the document or its body listens for clicks
	owners    map[cdp.FrameID]int
	roles     []string           // memo of role
	wholes    map[int]wholeField // of rows that a reader asked all of
	naming    namer
}

// FrameNote names a frame that could not be read, or not wholly.
type FrameNote struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// scene is the tab as it was observed: every frame, in reading order.
type scene struct {
	views  []*view // the main frame first, a parent before its children
	unread []FrameNote
}

func (s *scene) main() *view { return s.views[0] }

// gather walks every frame of the tab. A child frame that cannot be read is
// named in unread; the main frame's failure is the call's.
func (t *Tab) gather(ctx context.Context) (*scene, error) { return t.gatherWith(ctx, false) }

// gatherBoxed is gather for those who ask where any element is: it has the box
// of every row, which costs a third more.
func (t *Tab) gatherBoxed(ctx context.Context) (*scene, error) { return t.gatherWith(ctx, true) }

func (t *Tab) gatherWith(ctx context.Context, boxes bool) (*scene, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A dialog stops the page's scripts, so nothing would answer any more.
	stop := t.watch(func(op.Event) {
		if d := t.openDialog(); d != nil {
			cancel(dialogError(t, d))
		}
	})
	defer stop()
	if d := t.openDialog(); d != nil {
		return nil, dialogError(t, d)
	}
	frames := t.allFrames(ctx)
	if len(frames) == 0 {
		_, err := t.mainFrame()
		if err == nil {
			err = op.Reject(op.DocumentChanged, "the page of tab %d is being replaced", t.conn.Key().TabID).WithHint("take a snapshot again")
		}
		return nil, err
	}
	s := &scene{}
	if over := len(frames) - maxViews; over > 0 {
		s.unread = append(s.unread, FrameNote{Reason: fmt.Sprintf("%d more frames: at most %d are read", over, maxViews)})
		frames = frames[:maxViews]
	}
	views, errs := make([]*view, len(frames)), make([]error, len(frames))
	var wg sync.WaitGroup
	ears := t.hear(ctx, &wg, frames...)
	lane := make(chan struct{}, lanes)
	for i, f := range frames {
		wg.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			bound, ms := f.bounds(&frames[0])
			fctx, done := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it did not answer within %s: %w", bound, context.DeadlineExceeded))
			defer done()
			views[i], errs[i] = t.look1(fctx, f, ms, boxes, ears)
			if errs[i] != nil && fctx.Err() != nil {
				errs[i] = context.Cause(fctx)
			}
		})
	}
	wg.Go(func() { t.release(ctx, frames, lookGroup) })
	wg.Wait()
	t.mu.Lock()
	handed := t.observed.handed
	t.observed.handed = false
	t.mu.Unlock()
	if handed {
		t.release(ctx, frames, nodeGroup)
	}
	if e, ok := errors.AsType[*op.Error](context.Cause(ctx)); ok && errs[0] != nil {
		return nil, e
	}
	if errs[0] != nil {
		return nil, fmt.Errorf("reading the page: %w", errs[0])
	}
	s.connect(views, frames, errs)
	return s, nil
}

// connect puts each frame under its frame element.
func (s *scene) connect(views []*view, frames []frameRef, errs []error) {
	byID := map[cdp.FrameID]*view{}
	for i, v := range views {
		if errs[i] == nil && v != nil {
			byID[frames[i].id] = v
		}
	}
	m := views[0]
	m.sx, m.sy = 1, 1
	m.cx1, m.cy1 = float64(m.meta.VW), float64(m.meta.VH)
	placed := map[cdp.FrameID]bool{frames[0].id: true}
	for i, f := range frames {
		if i == 0 {
			continue
		}
		p := byID[f.parent]
		v := views[i]
		if errs[i] != nil || v == nil {
			if p == nil || frameShown(p, f.id) {
				s.unread = append(s.unread, FrameNote{URL: f.url, Reason: frameReason(errs[i])})
			}
			continue
		}
		if p == nil || !placed[f.parent] {
			s.unread = append(s.unread, FrameNote{URL: f.url, Reason: "the frame around it could not be read"})
			continue
		}
		row, ok := p.owners[f.id]
		if !ok {
			// It stands in a part that is not rendered, or came after the
			// walk of its parent.
			continue
		}
		placed[f.id] = true
		v.parent, v.at = p, row
		if p.kids == nil {
			p.kids = map[int]*view{}
		}
		p.kids[row] = v
		v.place()
	}
	failed := map[cdp.FrameID]bool{}
	for i, f := range frames {
		failed[f.id] = errs[i] != nil
	}
	var add func(v *view)
	add = func(v *view) {
		for _, id := range slices.Sorted(maps.Keys(v.owners)) {
			// A frame in another process that has not even been announced.
			if r := &v.rows[v.owners[id]]; !placed[id] && !failed[id] && r.has(rowBox) {
				s.unread = append(s.unread, FrameNote{URL: r.get("src"), Reason: "it has not answered yet"})
			}
		}
		s.views = append(s.views, v)
		for _, row := range slices.Sorted(maps.Keys(v.kids)) {
			add(v.kids[row])
		}
	}
	add(m)
	for _, v := range s.views {
		if v.meta.Left > 0 {
			why := fmt.Sprintf("at most %d elements and texts of a frame are read", maxRows)
			if v.meta.Truncated == "time" {
				why = "the page was too slow"
			}
			s.unread = append(s.unread, FrameNote{URL: v.meta.URL, Reason: fmt.Sprintf("%d elements were left out: %s", v.meta.Left, why)})
		}
		if v.meta.TextsCut > 0 {
			s.unread = append(s.unread, v.textsNote())
		}
		if v.meta.HostsLeft > 0 {
			s.unread = append(s.unread, FrameNote{URL: v.meta.URL, Reason: fmt.Sprintf("%d boxes were not searched for closed shadow roots; the next snapshot goes on", v.meta.HostsLeft)})
		}
		if v.meta.Listenings > 0 {
			s.unread = append(s.unread, FrameNote{URL: v.meta.URL, Reason: fmt.Sprintf("%d listening elements were not looked up; the next snapshot goes on", v.meta.Listenings)})
		}
	}
}

// frameShown reports whether the frame's element is rendered in its parent.
func frameShown(p *view, id cdp.FrameID) bool {
	row, ok := p.owners[id]
	return ok && p.rows[row].has(rowBox)
}

func frameReason(err error) string {
	if err == nil {
		return "it has no document"
	}
	if isCode(err, op.DocumentChanged) {
		return "it navigated meanwhile"
	}
	return cut(plain(err), 200)
}

// place works out where the frame lies in the main frame's viewport.
func (v *view) place() {
	p := v.parent
	r := p.rows[v.at]
	v.hidden = p.hidden || !r.has(rowBox) || r.has(rowInvisible)
	v.inert = p.inert || r.has(rowInert)
	v.sx, v.sy = p.sx, p.sy
	for _, b := range p.meta.Frames {
		if b.Row == v.at {
			v.dx, v.dy = p.dx+b.X*p.sx, p.dy+b.Y*p.sy
			v.sx, v.sy = p.sx*b.SX, p.sy*b.SY
			v.cx0, v.cy0 = max(p.cx0, v.dx), max(p.cy0, v.dy)
			v.cx1, v.cy1 = min(p.cx1, v.dx+b.W*v.sx), min(p.cy1, v.dy+b.H*v.sy)
		}
	}
}

// box is a row's rectangle in the main frame's viewport.
func (v *view) box(i int) rect {
	r := &v.rows[i]
	return v.toMain(float64(r.x), float64(r.y), float64(r.w), float64(r.h))
}

func (v *view) toMain(x, y, w, h float64) rect {
	return rect{X: round1(v.dx + x*v.sx), Y: round1(v.dy + y*v.sy), W: round1(w * v.sx), H: round1(h * v.sy)}
}

func round1(f float64) float64 {
	if f < 0 {
		return float64(int(f*100-0.5)) / 100
	}
	return float64(int(f*100+0.5)) / 100
}

// inView reports whether the box touches what the main viewport shows of the
// frame.
func (v *view) inView(b rect) bool {
	return b.X+b.W > v.cx0 && b.X < v.cx1 && b.Y+b.H > v.cy0 && b.Y < v.cy1
}

// deepNode is an element that a page function returned.
type deepNode struct {
	Backend cdp.BackendNodeID `json:"backendNodeId"`
	FrameID cdp.FrameID       `json:"frameId"`
	Shadow  *struct {
		Value struct {
			Backend cdp.BackendNodeID `json:"backendNodeId"`
			Mode    string            `json:"mode"`
		} `json:"value"`
	} `json:"shadowRoot"`
}

// deepValue is a text or anything else as JSON. The texts may be long, so they
// are not copied more than once.
type deepValue struct {
	text string
	raw  json.RawMessage
}

func (v *deepValue) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &v.text)
	}
	v.raw = bytes.Clone(b)
	return nil
}

var deepOptions = &runtime.SerializationOptions{Serialization: runtime.SerializationOptionsSerializationDeep, MaxDepth: new(int64(1)),
	AdditionalParameters: jsonv2.Value(`{"maxNodeDepth":0,"includeShadowTree":"all"}`)}

// runNodes calls a page function that returns an array of some texts and then
// elements; the elements come with their backend ids. A nil element is one
// that the function gave as null. Like run it makes the call once more when
// the document has changed.
func (t *Tab) runNodes(ctx context.Context, f frameRef, name string, args ...any) ([]string, []*deepNode, error) {
	texts, nodes, err := t.runNodesOnce(ctx, f, name, args...)
	if isCode(err, op.DocumentChanged) {
		t.dropWorld(f)
		if now, ok := t.frameByID(f.id); ok {
			return t.runNodesOnce(ctx, now, name, args...)
		}
	}
	return texts, nodes, err
}

func (t *Tab) runNodesOnce(ctx context.Context, f frameRef, name string, args ...any) ([]string, []*deepNode, error) {
	world, err := t.world(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	list, err := arguments(args)
	if err != nil {
		return nil, nil, err
	}
	res, err := t.apply(ctx, f, world, name, list)
	if isLost(err) {
		// The function went with its session; it is sent anew.
		t.forgetFunctions(f.id)
		res, err = t.apply(ctx, f, world, name, list)
	}
	if err != nil {
		return nil, nil, err
	}
	if res.ExceptionDetails != nil {
		return nil, nil, &pageError{text: name + ": " + exceptionText(res.ExceptionDetails)}
	}
	if res.Result == nil || res.Result.DeepSerializedValue == nil {
		return nil, nil, fmt.Errorf("%s returned nothing", name)
	}
	var items []struct {
		Type  string    `json:"type"`
		Value deepValue `json:"value"`
	}
	if err := json.Unmarshal(res.Result.DeepSerializedValue.Value, &items); err != nil {
		return nil, nil, fmt.Errorf("decoding the result of %s: %w", name, err)
	}
	var texts []string
	var nodes []*deepNode
	for _, it := range items {
		switch it.Type {
		case "string":
			texts = append(texts, it.Value.text)
		case "node":
			n := &deepNode{}
			if err := json.Unmarshal(it.Value.raw, n); err != nil {
				return nil, nil, fmt.Errorf("decoding an element of %s: %w", name, err)
			}
			nodes = append(nodes, n)
		default:
			nodes = append(nodes, nil)
		}
	}
	return texts, nodes, nil
}

// look1 observes one frame.
func (t *Tab) look1(ctx context.Context, f frameRef, ms int, boxes bool, ears *hearings) (*view, error) {
	var v *view
	var listeners []*domdebugger.EventListener
	var roots []any
	err := together(
		func() (err error) { v, roots, err = t.walk(ctx, f, ms, boxes, nil); return err },
		func() error { listeners = ears.own(ctx, f.id); return nil },
	)
	if err != nil {
		return nil, err
	}
	for range maxRounds {
		again, err := t.listen(ctx, v, listeners)
		if err != nil {
			return nil, err
		}
		if len(roots) == 0 && !again {
			break
		}
		// A closed shadow root came to light: the walk can go through it now.
		if v, roots, err = t.walk(ctx, f, ms, boxes, roots); err != nil {
			return nil, err
		}
	}
	if _, err := t.listen(ctx, v, listeners); err != nil {
		return nil, err
	}
	return v, nil
}

// walk runs the walker and returns, beside the view, the closed shadow roots
// that it could not see.
func (t *Tab) walk(ctx context.Context, f frameRef, ms int, boxes bool, roots []any) (*view, []any, error) {
	told, done := t.hearWalk(ctx, f)
	defer done()
	args := append([]any{map[string]any{"rows": maxRows, "ms": ms, "text": maxText, "chars": maxTexts, "hosts": maxHosts, "boxes": boxes, "tell": told.id, "told": maxTold}}, roots...)
	texts, nodes, err := t.runNodes(ctx, f, "walk", args...)
	if err != nil {
		return nil, nil, err
	}
	if len(texts) == 0 {
		return nil, nil, errors.New("decoding a walk: it is empty")
	}
	v := &view{frame: f, owners: map[cdp.FrameID]int{}, sx: 1, sy: 1}
	if now, ok := t.frameByID(f.id); ok {
		v.frame = now
	}
	if err := json.Unmarshal([]byte(texts[0]), &v.meta); err != nil {
		return nil, nil, fmt.Errorf("decoding a walk: %w", err)
	}
	lists := texts[1:]
	if v.meta.Parts != nil {
		if lists, err = t.walkParts(ctx, v.frame, &v.meta, told); err != nil {
			return nil, nil, err
		}
	}
	if len(lists) != 4 {
		return nil, nil, fmt.Errorf("decoding a walk: %d lists", len(lists))
	}
	if v.rows, v.rel, err = decodeRows(&v.meta, lists[0], lists[1], lists[2], lists[3]); err != nil {
		return nil, nil, err
	}
	var found []any
	for i, n := range nodes {
		if n == nil {
			continue
		}
		if i < len(v.meta.Frames) {
			if at := v.meta.Frames[i].Row; n.FrameID != "" && at >= 0 && at < len(v.rows) {
				v.owners[n.FrameID] = at
			}
			continue
		}
		if n.Shadow == nil || n.Shadow.Value.Mode != "closed" || n.Shadow.Value.Backend == 0 {
			continue
		}
		id, err := t.nodeObject(ctx, f, n.Shadow.Value.Backend)
		if err != nil {
			t.log.Debug("reaching a closed shadow root", "error", err)
			continue
		}
		found = append(found, id)
	}
	return v, found, nil
}
