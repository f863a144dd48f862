package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
)

// maxThings is how many actions of a kind a receipt names.
const maxThings = 12

// appearedBound bounds the look for what appeared: the page is small then, so
// that only a busy machine or a stuck frame needs so long.
const appearedBound = time.Second

// Thing is an action that appeared or went.
type Thing struct {
	Ref   string   `json:"ref,omitempty" jsonschema:"usable at once where it appeared"`
	Role  string   `json:"role"`
	Name  string   `json:"name"`
	Verbs []string `json:"verbs,omitempty" jsonschema:"what can be done with it"`
}

// String is `@el-3 button "Save"`.
func (t Thing) String() string {
	s := t.Role
	if t.Name != "" {
		s += " " + quoteName(t.Name, 60)
	}
	if t.Ref != "" {
		s = "@" + t.Ref + " " + s
	}
	return s
}

func refMark(ref string) string {
	if ref == "" {
		return ""
	}
	return " @" + ref
}

// pageThing is one as its page tells it.
type pageThing struct {
	Num     int    `json:"num"` // its number in its document; 0 for one that no walk has met
	Role    string `json:"role"`
	Name    string `json:"name"`
	Control bool   `json:"control"`
}

// things are what a page told, without refs.
func things(list []pageThing) []Thing {
	out := make([]Thing, len(list))
	for i, p := range list {
		out[i] = Thing{Role: p.Role, Name: p.Name}
	}
	return out
}

// knownThings are the elements of a report that snapshots have shown.
type knownThings struct {
	byNum []map[int]known // of each report
}

// knownOf looks the numbers of the reports up.
func (w *witness) knownOf(reports []*pageReport) knownThings {
	k := knownThings{byNum: make([]map[int]known, len(reports))}
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, p := range reports {
		if p == nil {
			continue
		}
		k.byNum[i] = map[int]known{}
		look := func(num int) {
			if have := t.observed.byKey[nodeKey{w.frames[i].id, p.Token, num}]; num != 0 && have != nil {
				k.byNum[i][num] = *have
			}
		}
		look(p.FocusNum)
		for _, c := range p.Notes {
			look(c.Num)
		}
		for _, v := range p.Vanished {
			look(v.Num)
		}
	}
	return k
}

func (k knownThings) ref(report, num int) string { return k.byNum[report][num].ref }

// vanished are the actions that went: by the ref that a snapshot gave them, or
// as the page calls them.
func (k knownThings) vanished(report int, list []pageThing) []Thing {
	var out []Thing
	for _, p := range list {
		have, ok := k.byNum[report][p.Num]
		switch {
		case ok && len(have.verbs) > 0:
			out = append(out, Thing{Ref: have.ref, Role: have.role, Name: have.name})
		case p.Control && !ok:
			out = append(out, Thing{Role: p.Role, Name: p.Name})
		}
	}
	return out
}

// freshThings are the actions that appeared, with refs.
type freshThings struct {
	looked bool // list has what appeared; otherwise the pages' own words stand
	list   []Thing
	why    string // why there are no refs
}

// appeared looks at the page once more where something appeared, and gives the
// actions among it their refs. It never fails: what it cannot tell is left to
// the pages' own words.
func (w *witness) appeared(ctx context.Context, reports []*pageReport) freshThings {
	fresh, large := w.framesMoved(), false
	for _, p := range reports {
		if p != nil {
			fresh, large = fresh || p.Fresh > 0, large || p.Large
		}
	}
	if !fresh || w.over() || ctx.Err() != nil {
		return freshThings{}
	}
	if large {
		return freshThings{why: "the page is large, so that not all that appeared is told here: a snapshot gives what appeared its refs"}
	}
	ctx, done := w.guard(ctx)
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, appearedBound, errSlowLook)
	defer cancel()
	list, err := w.t.freshActions(ctx, w)
	if err != nil {
		w.t.log.Debug("looking for what appeared", "error", err)
		return freshThings{why: "the page was too busy to give what appeared its refs; a snapshot does"}
	}
	return freshThings{looked: true, list: list}
}

var errSlowLook = errors.New("the page was too busy")

// freshActions observes the tab and returns the actions that could not be seen
// when the watch began, with their refs and verbs granted.
func (t *Tab) freshActions(ctx context.Context, w *witness) ([]Thing, error) {
	done, err := t.lookTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	sc, err := t.gatherAround(ctx, w)
	if err != nil {
		return nil, err
	}
	sv := sc.survey()
	chosen, err := t.unseen(ctx, w, sv)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	rest := chosen[min(len(chosen), maxThings):]
	chosen = chosen[:len(chosen)-len(rest)]
	spots := make([]spot, len(chosen))
	for i, a := range chosen {
		spots[i] = a.spot
	}
	seen, err := t.describe(ctx, spots, false)
	if err != nil {
		return nil, err
	}
	named(chosen)
	t.settle(ctx, chosen, seen)
	t.mu.Lock()
	t.observed.count++
	// After a restart of ours the refs of before must not come again.
	t.observed.nextRef = max(t.observed.nextRef, sc.main().meta.Ref)
	t.mu.Unlock()
	var out []Thing
	for _, a := range chosen {
		if k := t.mention(seen, a.spot, a.role, a.name); k != nil {
			t.mu.Lock()
			k.verbs = a.verbs
			t.mu.Unlock()
			out = append(out, Thing{Ref: k.ref, Role: a.role, Name: head(a.name, maxNameShown), Verbs: a.verbs})
		}
	}
	for _, a := range rest { // counted only
		out = append(out, Thing{Role: a.role})
	}
	t.mu.Lock()
	t.observed.trimLocked()
	t.mu.Unlock()
	return out, nil
}

// gatherAround walks the frames in which something may have appeared: those
// that were watched, what they stand in, and those whose document is new. Any
// other frame costs nothing, however slow it is.
func (t *Tab) gatherAround(ctx context.Context, w *witness) (*scene, error) {
	all := t.allFrames(ctx)
	want := map[cdp.FrameID]bool{}
	for _, f := range all {
		watched := slices.ContainsFunc(w.frames, func(o frameRef) bool { return o.id == f.id })
		if !watched && w.had[f.id] == f.loader {
			continue
		}
		for at, ok := f, true; ok && !want[at.id]; at, ok = t.frameByID(at.parent) {
			want[at.id] = true
		}
	}
	frames := slices.DeleteFunc(all, func(f frameRef) bool { return !want[f.id] })
	if len(frames) == 0 {
		return nil, errSlowLook
	}
	frames = frames[:min(len(frames), lanes)]
	views, errs := make([]*view, len(frames)), make([]error, len(frames))
	var wg sync.WaitGroup
	defer wg.Wait()
	ears := t.hear(ctx, &wg, frames...)
	fns := []func() error{func() error { t.release(ctx, frames, lookGroup); return nil }}
	for i, f := range frames {
		fns = append(fns, func() error {
			views[i], errs[i] = t.look1(ctx, f, childWalkMs, false, ears)
			return nil // connect tells of a frame that did not answer
		})
	}
	if err := together(fns...); err != nil || errs[0] != nil {
		return nil, errors.Join(err, errs[0])
	}
	s := &scene{}
	s.connect(views, frames, errs)
	return s, nil
}

// unseen are the actions of the survey that are new, in reading order.
func (t *Tab) unseen(ctx context.Context, w *witness, sv *survey) ([]*action, error) {
	rows := map[*view][]int{}
	for _, a := range sv.actions {
		rows[a.v] = append(rows[a.v], a.row)
	}
	isNew := map[spot]bool{}
	for _, v := range sv.views {
		switch {
		case len(rows[v]) == 0:
		case slices.ContainsFunc(w.frames, func(f frameRef) bool { return f.id == v.frame.id && f.loader == v.frame.loader }):
			var res struct {
				Rows []int `json:"rows"`
			}
			if err := t.inputFn(ctx, v.frame, "", "fresh", &res, v.meta.Walk, rows[v]); err != nil {
				return nil, fmt.Errorf("asking what is new: %w", err)
			}
			for _, row := range res.Rows {
				isNew[spot{v, row}] = true
			}
		case w.had[v.frame.id] != v.frame.loader: // its document has come since
			for _, row := range rows[v] {
				isNew[spot{v, row}] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(sv.actions), func(a *action) bool { return !isNew[a.spot] }), nil
}

// hadFrames are the documents of the tab as it is.
func (t *Tab) hadFrames() map[cdp.FrameID]cdp.LoaderID {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := map[cdp.FrameID]cdp.LoaderID{}
	for id, f := range t.frames {
		had[id] = f.loader
	}
	return had
}
