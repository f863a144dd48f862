package driver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"

	"pi-chrome/driver/op"
)

// Verbs that a snapshot may grant to a ref.
const (
	verbClick  = "click"
	verbFill   = "fill"
	verbPress  = "press"
	verbUpload = "upload"
)

// rect is a box in CSS pixels.
type rect struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"width"`
	H float64 `json:"height"`
}

// node is one element, found by a ref or a selector.
type node struct {
	frame    frameRef          // whose document it is in
	backend  cdp.BackendNodeID // for t.resolve
	ref      string            // "el-3", or "" for one that no snapshot has shown
	role     string            // as the snapshot told it; "" when unknown
	name     string            // likewise; what it says now where that is something else
	was      string            // the name in the snapshot then, otherwise ""
	tag      string            // lower case local name; "" when unknown
	box      rect              // in the viewport of the main frame, as of the snapshot
	boxKnown bool
}

// String names the node for a person: `el-3 button "Save"`.
func (n node) String() string {
	var parts []string
	if n.ref != "" {
		parts = append(parts, n.ref)
	}
	switch {
	case n.role != "":
		parts = append(parts, n.role)
	case n.tag != "":
		parts = append(parts, "<"+n.tag+">")
	}
	if n.name != "" {
		parts = append(parts, quoteName(n.name, 80))
	}
	if n.was != "" {
		parts = append(parts, "(it was "+quoteName(n.was, 80)+")")
	}
	if len(parts) == 0 {
		return fmt.Sprintf("node %d", n.backend)
	}
	return strings.Join(parts, " ")
}

// nodeKey is one element of one document: the frame, the token that the
// document's isolated world made for itself, and the element's number there.
type nodeKey struct {
	frame cdp.FrameID
	token string
	num   int
}

// known is what snapshots have shown of one element.
type known struct {
	key     nodeKey
	ref     string
	backend cdp.BackendNodeID // 0 until it was asked for
	role    string
	name    string
	tag     string
	box     rect
	boxed   bool
	verbs   []string // of the latest snapshot that showed it; nil for none
	used    int      // the observation that showed it last
}

// Bounds of what a tab remembers.
const (
	maxKnown     = 8192
	maxFrontiers = 512
	maxLast      = 64 // sessions whose last snapshot is kept for a diff
)

// observations is what the snapshots and reads of a tab have shown: refs,
// granted verbs, frontiers. Refs count up for as long as the tab is driven and
// are never given to a second element, so that a ref from before a navigation
// cannot hit an element of after.
type observations struct {
	count        int // observations so far
	nextRef      int
	nextFrontier int
	byKey        map[nodeKey]*known
	byRef        map[string]*known
	frontiers    map[string]*frontier
	last         map[string]*lastSnapshot // by session key
	backends     map[backendKey]int       // number in the document by backend id
	functions    map[cdp.FrameID]*kept    // what the page keeps for us
	renamed      *StateChange             // the target of the input that runs, see byRef
	handed       bool                     // nodes were handed to the page and must be released
	turn         chan struct{}            // holds one token while the tab is looked at
}

type backendKey struct {
	frame   cdp.FrameID
	token   string
	backend cdp.BackendNodeID
}

// knowLocked returns what is known of the element, making a ref where there is
// none.
func (o *observations) knowLocked(key nodeKey) *known {
	if k := o.byKey[key]; k != nil {
		k.used = o.count
		return k
	}
	if o.byKey == nil {
		o.byKey, o.byRef = map[nodeKey]*known{}, map[string]*known{}
	}
	o.nextRef++
	k := &known{key: key, ref: fmt.Sprintf("el-%d", o.nextRef), used: o.count}
	o.byKey[key], o.byRef[k.ref] = k, k
	return k
}

// trimLocked keeps the registry within its bounds: the refs that were shown
// longest ago go first, and a ref that is gone is stale, never someone else's.
func (o *observations) trimLocked() {
	if over := len(o.byKey) - maxKnown; over > 0 {
		all := slices.SortedFunc(maps.Values(o.byKey), func(a, b *known) int {
			if a.used != b.used {
				return a.used - b.used
			}
			return compareRefs(a.ref, b.ref)
		})
		for _, k := range all[:over] {
			delete(o.byKey, k.key)
			delete(o.byRef, k.ref)
		}
	}
	for len(o.frontiers) > maxFrontiers {
		oldest := ""
		for id := range o.frontiers {
			if oldest == "" || compareRefs(id, oldest) < 0 {
				oldest = id
			}
		}
		delete(o.frontiers, oldest)
	}
	for len(o.last) > maxLast {
		oldest := ""
		for id, l := range o.last {
			if oldest == "" || l.count < o.last[oldest].count {
				oldest = id
			}
		}
		delete(o.last, oldest)
	}
	if len(o.backends) > 8*maxKnown {
		o.backends = nil
	}
}

// forgetDocumentsLocked drops what belongs to documents that are gone: live
// has the token of each frame's present document, or "" for a frame that is
// there and could not be read just now.
func (o *observations) forgetDocumentsLocked(live map[cdp.FrameID]string) {
	gone := func(frame cdp.FrameID, token string) bool {
		now, ok := live[frame]
		return !ok || now != "" && now != token
	}
	for key, k := range o.byKey {
		if gone(key.frame, key.token) {
			delete(o.byKey, key)
			delete(o.byRef, k.ref)
		}
	}
	for id := range o.functions {
		if _, ok := live[id]; !ok {
			delete(o.functions, id)
		}
	}
	for key := range o.backends {
		if gone(key.frame, key.token) {
			delete(o.backends, key)
		}
	}
}

// compareRefs orders "el-9" before "el-10".
func compareRefs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// cleanRef takes off the "@" that a ref is shown with.
func cleanRef(ref string) string { return strings.TrimPrefix(strings.TrimSpace(ref), "@") }

// byRef returns the element of a ref that the latest snapshot granted the
// verb. The verb "" asks for no grant. It fails with stale-action-ref when the
// element or its document is gone, and with action-verb-mismatch; neither has
// touched the page.
func (t *Tab) byRef(ctx context.Context, ref, verb string) (node, error) {
	ref = cleanRef(ref)
	t.mu.Lock()
	k := t.observed.byRef[ref]
	var have known
	if k != nil {
		have = *k
	}
	t.mu.Unlock()
	if k == nil {
		return node{}, t.staleRef(ref, "no snapshot of this tab has shown it, or its page has gone")
	}
	f, ok := t.frameByID(have.key.frame)
	if !ok {
		return node{}, t.staleRef(ref, "its frame has gone")
	}
	var found struct {
		Found   bool   `json:"found"`
		Renamed bool   `json:"renamed"`
		Other   bool   `json:"other"`
		Was     string `json:"was"`
		Is      string `json:"is"`
	}
	if err := t.run(ctx, f, "node_alive", &found, have.key.token, have.key.num); err != nil {
		return node{}, fmt.Errorf("looking for %s: %w", ref, err)
	}
	if !found.Found {
		return node{}, t.staleRef(ref, "its element has gone from the page")
	}
	if f, ok = t.frameByID(have.key.frame); !ok {
		return node{}, t.staleRef(ref, "its frame has gone")
	}
	if verb != "" && !slices.Contains(have.verbs, verb) {
		e := op.Reject(op.ActionVerbMismatch, "%s on tab %d does not take %s: %s; nothing was done", nodeOf(have, f), t.conn.Key().TabID, verb, verbList(have.verbs)).
			WithHint("use a ref that the latest snapshot shows with [%s]", verb)
		return node{}, e.WithDetail("ref", ref).WithDetail("verb", verb).WithDetail("verbs", orEmpty(have.verbs)).WithDetail("url", f.url)
	}
	if have.backend == 0 {
		return node{}, t.staleRef(ref, "its element has gone from the page")
	}
	if found.Other && verb != "" {
		e := t.staleRef(ref, fmt.Sprintf("its element shows another item of the list now: it said %s and says %s", quoteName(found.Was, 80), quoteName(found.Is, 80)))
		return node{}, e.WithDetail("was", found.Was).WithDetail("is", found.Is)
	}
	n := nodeOf(have, f)
	if found.Renamed && !found.Other {
		// A button that says what it does next, such as Play and Pause.
		n.was, n.name = n.name, head(oneLine(found.Is), maxNameShown)
		t.mu.Lock()
		t.observed.renamed = &StateChange{What: "name", Of: n.role, Ref: n.ref, Before: cut(n.was, 80), After: cut(n.name, 80), Self: true}
		t.mu.Unlock()
	}
	return n, nil
}

// renamedTarget is what the receipt of an input says of a target that is
// called something else than in the snapshot; it is told once.
func (t *Tab) renamedTarget() []StateChange {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.observed.renamed
	t.observed.renamed = nil
	if c == nil {
		return nil
	}
	return []StateChange{*c}
}

func nodeOf(k known, f frameRef) node {
	return node{frame: f, backend: k.backend, ref: k.ref, role: k.role, name: k.name, tag: k.tag, box: k.box, boxKnown: k.boxed}
}

func verbList(verbs []string) string {
	if len(verbs) == 0 {
		return "the latest snapshot granted it nothing"
	}
	return "the latest snapshot granted it " + strings.Join(verbs, ", ")
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// staleRef is the error of a ref whose element is gone.
func (t *Tab) staleRef(ref, why string) *op.Error {
	return op.Reject(op.StaleActionRef, "ref %s on tab %d is stale: %s; nothing was done", ref, t.conn.Key().TabID, why).
		WithHint("take a snapshot and use its refs").WithDetail("ref", ref).WithDetail("url", t.url())
}

// url is the address of the main frame, as far as known.
func (t *Tab) url() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.frames[t.main]; f != nil {
		return f.url
	}
	return ""
}

// quoteName shows an accessible name on one line: quoted, white space
// collapsed, cut to max characters.
func quoteName(s string, max int) string {
	return quote(cut(oneLine(s), max))
}
