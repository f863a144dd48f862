package driver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// clickTypes are the events that make an element clickable for those who
// listen for them.
var clickTypes = map[string]bool{"click": true, "dblclick": true, "mousedown": true, "mouseup": true, "pointerdown": true, "pointerup": true,
	"touchstart": true, "touchend": true}

// listeners returns every listener of the frame's document, in one call.
// Failing to do so costs the elements that only a listener makes clickable,
// so it is no error.
func (t *Tab) listeners(ctx context.Context, f frameRef) []*domdebugger.EventListener {
	world, err := t.world(ctx, f)
	if err != nil {
		return nil
	}
	ask := func() (domdebugger.GetEventListenersResult, error) {
		doc, err := t.pageDocument(ctx, f, world)
		if err != nil {
			return domdebugger.GetEventListenersResult{}, err
		}
		return call(ctx, f.s, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: doc, Depth: new(int64(-1)), Pierce: new(true)})
	}
	res, err := ask()
	if isLost(err) {
		t.forgetFunctions(f.id)
		res, err = ask()
	}
	if err != nil {
		t.log.Debug("reading listeners", "error", err)
		return nil
	}
	return res.Listeners
}

// hearing is what one frame's document listens for, together with the frames
// within it that its process runs.
type hearing struct {
	done chan struct{} // closed once list is there
	list []*domdebugger.EventListener
}

// hearings are those of the frames of one observation.
type hearings struct {
	of   map[cdp.FrameID]*hearing
	kids map[cdp.FrameID][]cdp.FrameID // in the same session
}

// hear asks every frame for its listeners. The goroutines that do so are in wg;
// none of them waits for another one's answer.
func (t *Tab) hear(ctx context.Context, wg *sync.WaitGroup, frames ...frameRef) *hearings {
	h := &hearings{of: map[cdp.FrameID]*hearing{}, kids: map[cdp.FrameID][]cdp.FrameID{}}
	session := map[cdp.FrameID]string{}
	for _, f := range frames {
		session[f.id] = f.session
	}
	lane := make(chan struct{}, lanes)
	for _, f := range frames {
		one := &hearing{done: make(chan struct{})}
		h.of[f.id] = one
		if s, ok := session[f.parent]; ok && s == f.session {
			h.kids[f.parent] = append(h.kids[f.parent], f.id)
		}
		wg.Go(func() {
			defer close(one.done)
			lane <- struct{}{}
			defer func() { <-lane }()
			bound, _ := f.bounds(&frames[0])
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			one.list = t.listeners(ctx, f)
		})
	}
	return h
}

// own returns the listeners of the frame's own document. Chrome tells those of
// the frames within it as well, whose elements must not be looked up from here:
// that would wrap them for this frame's world instead of theirs. They run in
// the same thread, so that waiting for them takes no longer than their turn.
func (h *hearings) own(ctx context.Context, id cdp.FrameID) []*domdebugger.EventListener {
	list := h.wait(ctx, id)
	foreign := map[cdp.BackendNodeID]bool{}
	for _, kid := range h.kids[id] {
		for _, l := range h.wait(ctx, kid) {
			foreign[l.BackendNodeID] = true
		}
	}
	if len(foreign) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(l *domdebugger.EventListener) bool { return foreign[l.BackendNodeID] })
}

func (h *hearings) wait(ctx context.Context, id cdp.FrameID) []*domdebugger.EventListener {
	one := h.of[id]
	if one == nil {
		return nil
	}
	select {
	case <-one.done:
		return one.list
	case <-ctx.Done():
		return nil
	}
}

// listen marks the rows of a view that listen for clicks. It reports whether
// the frame must be walked again, since a listener led to a closed shadow root.
func (t *Tab) listen(ctx context.Context, v *view, listeners []*domdebugger.EventListener) (again bool, err error) {
	v.listening, v.rooted, v.meta.Listenings = map[int]bool{}, false, 0
	wanted := map[cdp.BackendNodeID]bool{}
	var order []cdp.BackendNodeID
	for _, l := range listeners {
		if clickTypes[l.Type] && l.BackendNodeID != 0 && !wanted[l.BackendNodeID] {
			wanted[l.BackendNodeID] = true
			order = append(order, l.BackendNodeID)
		}
	}
	if len(order) == 0 {
		return false, nil
	}
	if n := t.unresolved(v, order); len(n) > maxResolve {
		if err := t.probe(ctx, v); err != nil {
			return false, err
		}
	}
	missing := t.unresolved(v, order)
	if over := len(missing) - maxResolve; over > 0 {
		v.meta.Listenings = over
		missing = missing[:maxResolve]
	}
	if len(missing) > 0 {
		if again, err = t.lookUp(ctx, v, missing); err != nil || again {
			return again, err
		}
	}
	rowOf := map[int]int{}
	for i := range v.rows {
		if n := v.rows[i].num(); n != 0 {
			rowOf[n] = i
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range order {
		num, ok := t.observed.backends[backendKey{v.frame.id, v.meta.Token, id}]
		if !ok {
			continue
		}
		if num == -1 {
			v.rooted = true
		} else if i, ok := rowOf[num]; ok {
			v.listening[i] = true
		}
	}
	return false, nil
}

// unresolved returns the ids whose element is not known yet.
func (t *Tab) unresolved(v *view, ids []cdp.BackendNodeID) []cdp.BackendNodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []cdp.BackendNodeID
	for _, id := range ids {
		if _, ok := t.observed.backends[backendKey{v.frame.id, v.meta.Token, id}]; !ok {
			out = append(out, id)
		}
	}
	return out
}

// remember keeps which element of the document a backend id is.
func (t *Tab) remember(v *view, id cdp.BackendNodeID, num int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.observed.backends == nil {
		t.observed.backends = map[backendKey]int{}
	}
	t.observed.backends[backendKey{v.frame.id, v.meta.Token, id}] = num
}

// probe asks many elements at once for their ids: on a page with thousands of
// listeners most stand on buttons and the like, and asking in bulk is several
// times cheaper than looking each listener up.
func (t *Tab) probe(ctx context.Context, v *view) error {
	known := map[int]bool{}
	t.mu.Lock()
	for k, num := range t.observed.backends {
		if k.frame == v.frame.id && k.token == v.meta.Token {
			known[num] = true
		}
	}
	t.mu.Unlock()
	var rows []int
	for i := range v.rows {
		if r := &v.rows[i]; r.has(rowCandidate) && r.has(rowBox) && !known[r.num()] && len(rows) < maxProbe {
			rows = append(rows, i)
		}
	}
	texts, nodes, err := t.runNodes(ctx, v.frame, "row_nodes", v.meta.Walk, rows)
	if err != nil || len(texts) == 0 {
		return err
	}
	var nums []int
	if err := json.Unmarshal([]byte(texts[0]), &nums); err != nil {
		return err
	}
	for i, n := range nodes {
		if n != nil && i < len(nums) {
			t.remember(v, n.Backend, nums[i])
		}
	}
	return nil
}

// lookUp finds the elements of listeners one by one, together.
func (t *Tab) lookUp(ctx context.Context, v *view, ids []cdp.BackendNodeID) (again bool, err error) {
	objects := make([]runtime.RemoteObjectID, len(ids))
	refused := make([]bool, len(ids))
	var wg sync.WaitGroup
	lane := make(chan struct{}, 64)
	for i, id := range ids {
		wg.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			// A node that is gone meanwhile, or of another frame, is no
			// element of this one.
			obj, err := t.nodeObject(ctx, v.frame, id)
			objects[i] = obj
			_, refused[i] = errors.AsType[*op.ProtocolError](err)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	args := []any{v.meta.Walk}
	var asked []cdp.BackendNodeID
	for i, obj := range objects {
		if obj == "" {
			if refused[i] {
				t.remember(v, ids[i], 0)
			}
			continue
		}
		args = append(args, obj)
		asked = append(asked, ids[i])
	}
	if len(asked) == 0 {
		return false, nil
	}
	var out struct {
		Rewalk bool    `json:"rewalk"`
		Nodes  [][]int `json:"nodes"`
	}
	if err := t.run(ctx, v.frame, "listeners", &out, args...); err != nil {
		return false, err
	}
	for i, n := range out.Nodes {
		if len(n) != 7 || i >= len(asked) {
			continue
		}
		if n[0] != 0 || !out.Rewalk {
			t.remember(v, asked[i], n[0])
		}
		if at := n[1]; at >= 0 && at < len(v.rows) {
			r := &v.rows[at]
			if !r.has(rowCandidate) {
				r.number, r.x, r.y, r.w, r.h = int32(n[0]), int32(n[2]), int32(n[3]), int32(n[4]), int32(n[5])
				r.flags |= rowCandidate | int32(n[6])
			}
		}
	}
	unseen := slices.ContainsFunc(out.Nodes, func(n []int) bool { return len(n) == 7 && n[0] > 0 && n[1] < 0 })
	return out.Rewalk && unseen, nil
}
