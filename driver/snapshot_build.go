package driver

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"

	"pi-chrome/driver/op"
)

// mention gives an element its ref and keeps what the snapshot shows of it. It
// returns nil for one that is gone.
func (s *shot) mention(sp spot, role, name string) *known {
	return s.t.mention(s.found, sp, role, name)
}

func (t *Tab) mention(found map[spot]*described, sp spot, role, name string) *known {
	d := found[sp]
	if d == nil || d.gone || d.num == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.observed.knowLocked(nodeKey{sp.v.frame.id, sp.v.meta.Token, d.num})
	k.backend, k.role, k.name, k.tag = d.backend, role, head(name, maxNameShown), sp.v.rows[sp.row].tag
	k.box, k.boxed = d.box, d.box.W > 0 && d.box.H > 0
	return k
}

// begin prepares the registry for what is about to be shown.
func (t *Tab) beginObservation(s *scene) {
	live := s.tokens()
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.frames {
		if _, ok := live[id]; !ok {
			live[id] = ""
		}
	}
	o := &t.observed
	o.count++
	// After a restart of ours the refs of before must not come again.
	o.nextRef = max(o.nextRef, s.main().meta.Ref)
	o.forgetDocumentsLocked(live)
}

// tokens has the token of each document that was read, by frame.
func (s *scene) tokens() map[cdp.FrameID]string {
	m := map[cdp.FrameID]string{}
	for _, v := range s.views {
		m[v.frame.id] = v.meta.Token
	}
	return m
}

// build chooses within the budget, gives refs, grants verbs and writes the
// text form.
func (s *shot) build(chosen []*action) {
	s.t.beginObservation(s.sv.scene)
	gone := func(a *action) bool { d := s.found[a.spot]; return d != nil && d.gone }
	chosen = slices.DeleteFunc(slices.Clone(chosen), gone)
	s.pick = slices.DeleteFunc(slices.Clone(s.pick), gone)
	s.all = slices.DeleteFunc(slices.Clone(s.all), gone)
	for _, a := range chosen {
		a.known = s.mention(a.spot, a.role, a.name)
		a.state = new(a.v.state(a.row, a.role))
		a.state.Focused = s.sv.focused == a.spot
		if s.in.Mode != "forms" && s.in.Mode != "full" {
			a.state.Choices = ""
		}
		if d := s.found[a.spot]; d != nil {
			switch d.state {
			case detailCovered:
				a.state.Covered = d.blocker
			case detailClipped:
				a.state.Clipped = true
			}
			a.box = d.box
		}
	}
	if s.in.Mode != "full" {
		s.render(chosen, s.cap)
		s.grant()
		return
	}
	// The text is the value itself here: fewer actions and less text until it
	// fits.
	budget := s.cap
	for range 8 {
		s.render(chosen, budget)
		raw, err := json.Marshal(s.out)
		if err != nil || runes(string(raw)) <= s.cap || len(chosen) <= 1 && budget < 200 {
			break
		}
		over := float64(s.cap) / float64(runes(string(raw)))
		budget = int(float64(budget) * min(over, 0.85))
		chosen = chosen[:max(1, min(len(chosen), int(float64(len(chosen))*min(over, 0.9))))]
	}
	s.out.text = ""
	if raw, err := op.NewResult(s.out); err == nil {
		s.out.text = fit(string(raw.Value), s.cap)
	}
	s.price()
	s.grant()
}

// fit cuts a text to a number of characters and says how many it left out.
func fit(text string, chars int) string {
	n := runes(text)
	if n <= chars {
		return text
	}
	note := "\n\n[truncated " + plural(n-chars, "character") + "]"
	if keep := chars - runes(note); keep > 0 {
		return head(text, keep) + note
	}
	return head(text, chars)
}

// grant makes the shown actions executable, and takes the verbs from what is
// no action any more. A ref that was shown before and still is one keeps its
// own.
func (s *shot) grant() {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	live := map[nodeKey]bool{}
	for _, a := range s.all {
		if key := a.key(); t.observed.byKey[key] != nil {
			live[key] = true
		}
	}
	read := s.sv.tokens()
	for key, k := range t.observed.byKey {
		if len(k.verbs) > 0 && !live[key] && read[key.frame] == key.token {
			k.verbs = nil
		}
	}
	for _, a := range s.out.Actions {
		if k := t.observed.byRef[a.ID]; k != nil {
			k.verbs = a.Verbs
		}
	}
	t.observed.trimLocked()
}

// place names an element in passing.
func (s *shot) place(sp spot) *Place {
	if !sp.ok() || sp.row < 0 {
		return nil
	}
	role := sp.v.role(sp.row)
	name := oneLine(sp.v.label(sp.row))
	if role == "dialog" || role == "alertdialog" {
		name = (&region{spot: sp, role: role}).title()
	}
	k := s.mention(sp, role, name)
	if k == nil {
		return nil
	}
	return &Place{UID: k.ref, Tag: k.tag, Role: role, Label: head(name, maxMatchText)}
}

// found snippets, matches and landmarks, worked out once.

// blocksToShow are the blocks that the mode may show, in order.
func (s *shot) blocksToShow() []*content {
	if s.cont != nil {
		return nil
	}
	switch s.in.Mode {
	case "auto", "text", "full":
	default:
		return nil
	}
	var out []*content
	size := 0
	wants := s.wantsBlock()
	for _, b := range s.window() {
		if !wants(b) {
			continue
		}
		switch s.in.Mode {
		case "auto":
			if len(out) >= maxSnippets {
				return out
			}
			size += min(runes(b.text), maxSnippet) + 12
		case "text", "full":
			size += runes(b.text) + 12
		}
		if size > s.cap {
			return out
		}
		out = append(out, b)
	}
	return out
}

// wantsBlock says of a block whether the mode shows it where there is room.
func (s *shot) wantsBlock() func(*content) bool {
	words := queryWords(s.in.Query)
	return func(b *content) bool {
		switch {
		case s.in.ContainingText != "":
			return hasFold(b.text, s.in.ContainingText)
		case len(words) > 0 && s.in.Mode != "text" && score(words, s.in.Query, b.text) == 0:
			return false
		}
		return s.in.Mode != "auto" || !s.plainAction(b)
	}
}

// wantsMoreBlocks reports whether more than n blocks are wanted.
func (s *shot) wantsMoreBlocks(n int) bool {
	wants := s.wantsBlock()
	for _, b := range s.window() {
		if wants(b) {
			if n--; n < 0 {
				return true
			}
		}
	}
	return false
}

// plainAction reports whether a block says no more than the actions do.
func (s *shot) plainAction(b *content) bool {
	switch b.kind {
	case kindLink, kindField, kindFrame:
		return true
	}
	if s.byView == nil {
		s.byView = map[*view][]*action{}
		for _, a := range s.sv.actions {
			s.byView[a.v] = append(s.byView[a.v], a)
		}
	}
	acts := s.byView[b.v]
	if i, ok := slices.BinarySearchFunc(acts, b.row, func(a *action, row int) int { return a.row - row }); ok && strings.Contains(acts[i].name, oneLine(b.text)) {
		return true
	}
	rest := b.text
	for _, l := range b.links {
		rest = strings.Replace(rest, l.text, "", 1)
	}
	for {
		open := strings.IndexByte(rest, '[')
		if open < 0 {
			break
		}
		end := strings.IndexByte(rest[open:], ']')
		if end < 0 {
			break
		}
		rest = rest[:open] + rest[open+end+1:]
	}
	return strings.Trim(rest, " \n|·•/,>»") == ""
}

// window are the blocks from the first that can be seen, or from the top.
func (s *shot) window() []*content {
	first := s.firstInView()
	return s.blocks[first:]
}

func (s *shot) firstInView() int {
	if s.in.ContainingText != "" || s.in.Query != "" || s.in.Mode != "auto" || s.sv.main().meta.SY == 0 {
		return 0
	}
	for i, b := range s.blocks {
		if b.row >= 0 && b.v.rows[b.row].has(rowView) && b.v.parent == nil {
			return i
		}
	}
	return 0
}

// maxPlaces bounds a map: landmarks come while it holds fewer places.
const maxPlaces = 80

// match is something that fits the query.
type match struct {
	spot
	kind, role, label string
	score             int
}

// matchesFound are what fits the query best.
func (s *shot) matchesFound() []match {
	list, _ := s.matchesOf()
	return list
}

// matchesOf are what fits the query best, and how many more there are.
func (s *shot) matchesOf() (list []match, more int) {
	words := queryWords(s.in.Query)
	if len(words) == 0 {
		return nil, 0
	}
	var out []match
	seen := map[spot]bool{}
	for _, a := range s.pick {
		if a.score > 0 {
			seen[a.spot] = true
			out = append(out, match{a.spot, "action", a.role, a.name, a.score})
		}
	}
	for _, b := range s.blocks {
		if n := score(words, s.in.Query, b.text); n > 0 && b.row >= 0 && !seen[b.spot] {
			seen[b.spot] = true
			out = append(out, match{b.spot, b.kind, "", excerpt(b.text, words, maxMatchText), n})
		}
	}
	slices.SortStableFunc(out, func(a, b match) int { return b.score - a.score })
	n := min(len(out), maxMatches)
	return out[:n], len(out) - n
}

// excerpt is the part of a text around the first word that was looked for.
func excerpt(text string, words []string, max int) string {
	if runes(text) <= max {
		return text
	}
	low := strings.ToLower(text)
	at := len(low)
	for _, w := range words {
		if i := strings.Index(low, w); i >= 0 && len(w) > 2 {
			at = min(at, i)
		}
	}
	if at >= len(text) || at < max/2 || len(low) != len(text) {
		return cut(text, max-1)
	}
	from := at - max/3
	if sp := strings.IndexByte(text[from:], ' '); sp >= 0 && sp < max/3 {
		from += sp + 1
	}
	for from < len(text) && text[from]&0xc0 == 0x80 {
		from++
	}
	return "…" + cut(text[from:], max-2)
}

// mapPlaces are the landmarks and headings of the mode pageMap, and the forms
// of the mode forms.
func (s *shot) mapPlaces() []spot {
	out, _ := s.mapOf()
	return out
}

// mapMore counts the places that a map leaves out.
type mapMore struct{ headings, landmarks, forms int }

// String tells them: "3 more landmarks, 12 more headings".
func (m mapMore) String() string {
	var w []string
	for _, c := range []struct {
		n    int
		what string
	}{{m.landmarks, "more landmark"}, {m.headings, "more heading"}, {m.forms, "more form"}} {
		if c.n > 0 {
			w = append(w, plural(c.n, c.what))
		}
	}
	return strings.Join(w, ", ")
}

// count takes a place in that has no room.
func (m *mapMore) count(role string) {
	if role == "heading" {
		m.headings++
	} else {
		m.landmarks++
	}
}

// mapOf are mapPlaces, and how many there are beyond their bounds.
func (s *shot) mapOf() (out []spot, more mapMore) {
	headings := 0
	if s.in.Mode != "pageMap" && s.in.Mode != "forms" && s.in.Mode != "full" {
		return nil, more
	}
	s.sv.each(func(v *view, i int) bool {
		r := &v.rows[i]
		if r.tag == "" || r.has(rowInvisible) || v.hidden {
			return true
		}
		// The boxes of headings are not known yet.
		role := v.role(i)
		if role != "heading" && (!r.has(rowCandidate) || !r.has(rowBox)) {
			return true
		}
		if s.within.ok() && !s.within.within(v, i) {
			return true
		}
		switch {
		case s.in.Mode == "forms" && role == "form":
			if len(out) < maxForms {
				out = append(out, spot{v, i})
			} else {
				more.forms++
			}
		case s.in.Mode != "forms" && role == "heading":
			if headings++; headings <= maxHeadings {
				out = append(out, spot{v, i})
			} else {
				more.headings++
			}
		case s.in.Mode != "forms" && strongRegions[role]:
			if len(out) < maxPlaces {
				out = append(out, spot{v, i})
			} else {
				more.landmarks++
			}
		}
		return true
	})
	return out, more
}
