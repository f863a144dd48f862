package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// The lists that a walk finds in a long page come in parts: Chrome takes several
// times as long for a message of a megabyte as for ten of a tenth, and what is
// told while the walk goes on costs nothing at all.
const (
	walkLists   = 4       // columns, texts, attributes, relations
	maxTold     = 2 << 20 // characters told by one walk; the rest is fetched, so that no queue grows long
	partLanes   = 4       // parts fetched at a time
	tellBinding = "__piChromeTell"
)

// toldWalk is what a walk that is under way has told.
type toldWalk struct {
	id    string
	of    string // the document and its walk: one that is made again begins anew
	lists [walkLists][]string
}

// hearWalk makes room for what a walk of the frame tells, until done is called.
// Where the frame's world cannot tell, the id is "", and all is fetched.
func (t *Tab) hearWalk(ctx context.Context, f frameRef) (w *toldWalk, done func()) {
	if err := t.bindTell(ctx, f); err != nil {
		t.log.Debug("binding what tells a long walk", "error", err)
		return &toldWalk{}, func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.walks++
	w = &toldWalk{id: strconv.Itoa(t.walks)}
	if t.told == nil {
		t.told = map[string]*toldWalk{}
	}
	t.told[w.id] = w
	return w, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.told, w.id)
	}
}

// bindTell gives the frame's world the binding. Chrome gives it to the worlds
// that are there, not to those that come.
func (t *Tab) bindTell(ctx context.Context, f frameRef) error {
	world, err := t.world(ctx, f)
	if err != nil {
		return err
	}
	t.mu.Lock()
	cur := t.frames[f.id]
	has := cur != nil && cur.telling == world
	t.mu.Unlock()
	if has {
		return nil
	}
	if _, err := call(ctx, f.s, runtime.AddBinding, runtime.AddBindingParams{Name: tellBinding, ExecutionContextName: worldName}); err != nil {
		return err
	}
	t.mu.Lock()
	if cur := t.frames[f.id]; cur != nil && cur.world == world {
		cur.telling = world
	}
	t.mu.Unlock()
	return nil
}

// toldLocked takes in a part of a walk. The binding is there in our worlds
// only, so nobody else calls it.
func (t *Tab) toldLocked(ev op.Event) {
	e, ok := decode[runtime.EventBindingCalled](ev)
	if !ok || e.Name != tellBinding {
		return
	}
	head, part, _ := strings.Cut(e.Payload, "\n")
	words := strings.Fields(head) // id, token, walk, list
	if len(words) != 4 {
		return
	}
	w := t.told[words[0]]
	list, err := strconv.Atoi(words[3])
	if w == nil || err != nil || list < 0 || list >= walkLists {
		return
	}
	if of := words[1] + " " + words[2]; w.of != of {
		w.of, w.lists = of, [walkLists][]string{}
	}
	w.lists[list] = append(w.lists[list], part)
}

// walkParts joins what a long walk told and what it keeps, which it fetches,
// several parts at a time: while one is on its way the next can be packed.
func (t *Tab) walkParts(ctx context.Context, f frameRef, meta *walkMeta, told *toldWalk) ([]string, error) {
	if len(meta.Parts) != walkLists || len(meta.Kept) != walkLists {
		return nil, fmt.Errorf("decoding a walk: %d lists", len(meta.Parts))
	}
	t.mu.Lock()
	parts := told.lists
	if told.of != fmt.Sprintf("%s %d", meta.Token, meta.Walk) {
		parts = [walkLists][]string{}
	}
	t.mu.Unlock()
	var fetch []func() error
	lane := make(chan struct{}, partLanes)
	for k := range parts {
		if len(parts[k])+meta.Kept[k] != meta.Parts[k] {
			return nil, fmt.Errorf("decoding a walk: %d parts of list %d were told, %d are kept, of %d", len(parts[k]), k, meta.Kept[k], meta.Parts[k])
		}
		heard := len(parts[k])
		parts[k] = append(parts[k], make([]string, meta.Kept[k])...)
		for i := range meta.Kept[k] {
			at, into := len(fetch), &parts[k][heard+i]
			fetch = append(fetch, func() error {
				lane <- struct{}{}
				defer func() { <-lane }()
				var part *string
				if err := t.runOnce(ctx, f, "walk_part", &part, meta.Walk, at); err != nil {
					return err
				}
				if part == nil {
					return op.Reject(op.DocumentChanged, "too many observations of this page came between").WithHint("send it again")
				}
				*into = *part
				return nil
			})
		}
	}
	if err := together(fetch...); err != nil {
		return nil, err
	}
	lists := make([]string, walkLists)
	for k := range parts {
		separator := "\f"
		if k == 0 {
			separator = "" // the columns have none
		}
		lists[k] = strings.Join(parts[k], separator)
	}
	return lists, nil
}
