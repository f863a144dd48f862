package driver

import (
	"fmt"
	"slices"
	"strings"
)

// stateWords is an action's state as the text form prints it: checked and
// focused first (contract §1.9), then what else applies.
func stateWords(s ActionState) string {
	var w []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			w = append(w, fmt.Sprintf(format, args...))
		}
	}
	add(s.Checked != "", "checked=%s", s.Checked)
	add(s.Focused, "focused")
	add(s.Pressed != nil, "pressed=%v", s.Pressed)
	if s.Selected != nil {
		add(true, "selected=%t", *s.Selected)
	}
	if s.Expanded != nil {
		add(true, "expanded=%t", *s.Expanded)
	}
	add(s.Required, "required")
	add(s.Invalid, "invalid")
	add(s.ReadOnly, "readonly")
	add(s.Disabled, "disabled")
	add(s.Current != "", "current=%s", s.Current)
	add(s.Level > 0, "level=%d", s.Level)
	add(s.ValueRedacted, "value=(%s, redacted)", plural(s.ValueLength, "character"))
	add(s.Value != "", "value=%s", quoteName(s.Value, 80))
	add(s.Options > 0, "options=%d", s.Options)
	add(s.Choices != "", "choices=%s", quoteName(s.Choices, 300))
	add(s.HasPopup != "", "popup=%s", s.HasPopup)
	add(s.Covered != "", "covered-by=%s", quoteName(s.Covered, 80))
	add(s.Clipped, "clipped")
	add(s.Hidden, "hidden")
	return strings.Join(w, " ")
}

// line is an action in the text form.
func (a *action) line() string {
	words := stateWords(*a.state)
	if words != "" {
		words += " "
	}
	return fmt.Sprintf("- @%s %s %s %s[%s]", a.known.ref, a.role, quoteName(a.name, maxNameShown), words, strings.Join(a.verbs, ", "))
}

// sheet is a text form with a budget.
type sheet struct {
	b    strings.Builder
	room int
}

// add writes a line if there is room for it, or always.
func (p *sheet) add(line string, always bool) bool {
	n := runes(line) + 1
	if !always && n > p.room {
		return false
	}
	p.room -= n
	p.b.WriteString(line)
	p.b.WriteByte('\n')
	return true
}

// render builds value and text within a number of characters.
func (s *shot) render(chosen []*action, chars int) {
	m := s.sv.main()
	o := SnapshotOut{Title: m.meta.Title, URL: m.meta.URL, Mode: s.in.Mode, Query: s.in.Query,
		Viewport: ViewportOut{m.meta.VW, m.meta.VH, m.meta.SX, m.meta.SY},
		Actions:  []ActionOut{}, Contexts: []ContextOut{}, Frontiers: []FrontierOut{}, Matches: []MatchOut{},
		Filter: FilterOut{Ref: s.in.Ref, Role: s.in.Role, ContainingText: s.in.ContainingText, NearUID: s.in.NearUID, MaxElements: s.max, MaxTextChars: s.cap},
		Diff:   s.diff, Frames: s.sv.unread}
	o.Focused, o.Modal = s.place(s.sv.focused), s.place(s.sv.modal)
	p := &sheet{room: chars}
	title := oneLine(o.Title)
	if title == "" {
		title = "(untitled)"
	}
	p.add(fmt.Sprintf("# Chrome snapshot (%s)", o.Mode), true)
	p.add(guard(head(title, 200)), true)
	p.add(head(o.URL, 400), true)

	// The end of the text is worked out first, since it must be there.
	var end []string
	if o.Focused != nil {
		end = append(end, fmt.Sprintf("focused: %s %s", o.Focused.UID, o.Focused.Label))
	}
	if o.Modal != nil {
		end = append(end, fmt.Sprintf("modal: %s %s", o.Modal.UID, o.Modal.Label))
	}
	for i, f := range o.Frames {
		if i == 6 {
			end = append(end, fmt.Sprintf("frames: %d more could not be read wholly", len(o.Frames)-i))
			break
		}
		end = append(end, fmt.Sprintf("frames: %s: %s", head(f.URL, 120), f.Reason))
	}
	for _, l := range end {
		p.room -= runes(l) + 1
	}
	if s.in.Query != "" {
		p.room -= matchCount // matchLines has it back
	}
	reserve := min(chars/4, 90*len(s.contextsToShow())+90*min(len(s.sv.regions), maxFrontierLines)+60)
	if s.in.Mode == "changes" {
		s.changeLines(p)
	}
	if s.in.Mode == "pageMap" || s.in.Mode == "full" {
		s.mapLines(p, &o, s.in.Mode == "pageMap")
	}

	// Actions: as many as fit beside what must follow.
	share := 0.9
	switch {
	case s.cont != nil:
	case s.in.Mode == "text":
		share = 0.3
	case s.in.Mode == "auto" && len(s.blocksToShow()) > 0, s.in.Mode == "full":
		share = 0.72
	}
	budget := int(float64(p.room-reserve) * share)
	shown := map[*action]bool{}
	var lines []string
	used := 14
	for _, a := range chosen {
		if a.known == nil {
			continue
		}
		l := a.line()
		if n := runes(l) + 1; used+n > budget && len(lines) > 0 {
			break
		} else {
			used += n
		}
		lines = append(lines, l)
		shown[a] = true
		o.Actions = append(o.Actions, ActionOut{Kind: "action", ID: a.known.ref, Role: a.role, Name: head(a.name, maxNameShown), State: *a.state, Verbs: a.verbs})
	}
	if len(lines) > 0 {
		p.add("\n## Actions", true)
		for _, l := range lines {
			p.add(l, true)
		}
	}
	s.contextLines(p, &o, shown)
	o.Frontiers = append(o.Frontiers, s.frontiers(shown)...)
	text, snippets := s.textWindow(p, &o, shown)
	if len(o.Frontiers) > 0 {
		p.add("\n## More context", true)
		for _, f := range o.Frontiers {
			p.add(f.line(), true)
		}
	}
	for _, l := range end {
		p.b.WriteString(l + "\n") // its room was taken above
	}
	if s.in.Mode == "forms" {
		s.formLines(p, &o)
	}
	s.matchLines(p, &o)
	if text != "" {
		p.b.WriteString(text)
	}
	o.Snippets = snippets
	if s.in.Mode == "forms" || s.in.Mode == "full" {
		s.elements(&o, chosen, shown)
	}
	s.summarize(&o, shown)
	s.out = o
	s.uids()
	s.out.Diff = s.diff
	s.out.text = fit(strings.TrimRight(p.b.String(), "\n"), max(chars, 1))
	s.price()
}

// price says what the text costs.
func (s *shot) price() {
	n := runes(s.out.text)
	s.out.Cost = CostOut{Characters: n, Bytes: len(s.out.text), EstimatedTokens: (n + 3) / 4}
}

func (s *shot) contextLines(p *sheet, o *SnapshotOut, shown map[*action]bool) {
	var lines []string
	refs := map[*region]string{}
	wanted := s.leftOut(nil)
	list := s.contextsToShow()
	for _, r := range list {
		if r != s.byName && wanted[r] == 0 && s.in.Mode != "changes" {
			continue
		}
		name := r.title()
		k := s.mention(r.spot, r.role, name)
		if k == nil {
			continue
		}
		refs[r] = k.ref
		c := ContextOut{Kind: "context", ID: k.ref, Role: r.role, Name: head(name, maxNameShown), Count: len(r.actions)}
		switch {
		case r == s.byName:
			c.Count = len(s.filter(r.actions))
		case s.in.Mode != "changes":
			c.Count = wanted[r]
		}
		for _, a := range r.actions {
			if shown[a] {
				c.Shown++
			}
		}
		for up := r.up; up != nil && c.Parent == ""; up = up.up {
			c.Parent = refs[up]
		}
		if s.in.Mode == "changes" && c.Shown == 0 {
			continue
		}
		l := fmt.Sprintf("- @%s %s %s actions=%d/%d", c.ID, c.Role, quoteName(c.Name, 100), c.Shown, c.Count)
		// What is shown wholly needs no line when room is short.
		if len(lines) >= 4 && c.Shown == c.Count && p.room < s.cap/3 {
			continue
		}
		lines = append(lines, l)
		o.Contexts = append(o.Contexts, c)
	}
	if len(lines) == 0 {
		return
	}
	room := p.room - 70*min(len(s.sv.regions), maxFrontierLines) - 90 // for the frontiers, and the line that counts
	size := 13
	kept := 0
	for _, l := range lines {
		if size += runes(l) + 1; size > room && kept > 0 {
			break
		}
		kept++
	}
	o.Contexts = o.Contexts[:kept]
	p.add("\n## Contexts", true)
	for _, l := range lines[:kept] {
		p.add(l, true)
	}
	if over := len(lines) - kept + s.contextsBeyond(list, wanted, shown); over > 0 {
		p.add(fmt.Sprintf("- … %s; the frontiers below lead to all actions", plural(over, "more context")), true)
	}
}

// contextsBeyond counts the contexts that the list, which is bounded, leaves
// out.
func (s *shot) contextsBeyond(list []*region, wanted map[*region]int, shown map[*action]bool) int {
	n := 0
	if s.byName != nil || s.cont != nil {
		return n
	}
	listed := map[*region]bool{}
	for _, r := range list {
		listed[r] = true
	}
	for _, r := range s.sv.regions {
		if r.row < 0 || listed[r] {
			continue
		}
		if s.in.Mode == "changes" && slices.ContainsFunc(r.actions, func(a *action) bool { return shown[a] }) || s.in.Mode != "changes" && wanted[r] > 0 {
			n++
		}
	}
	return n
}

// changeLines prints what changed since the session's last snapshot.
func (s *shot) changeLines(p *sheet) {
	s.uids()
	d := s.diff
	p.add("\n## Changed since last snapshot", true)
	// The lines that count what is left out come whatever the room: what does
	// not fit in the end is cut with a note.
	room := p.room*3/5 - min(changeCounts, p.room/5)
	add := func(format string, args ...any) bool {
		l := fmt.Sprintf(format, args...)
		if room -= runes(l) + 1; room <= 0 {
			return false
		}
		return p.add(l, true)
	}
	say := func(format string, args ...any) { p.add(fmt.Sprintf(format, args...), true) }
	switch {
	case d.First:
		say("- this is the first snapshot of this tab in this session")
		return
	case len(d.Changes)+d.AddedCount+d.RemovedCount+d.UpdatedCount == 0:
		say("- nothing")
	}
	more := func(left int, what string) {
		if left > 0 {
			say("- … %d more %s", left, what)
		}
	}
	left, moved := 0, false
	for _, c := range d.Changes {
		switch {
		case c.Kind == "textChanged":
			moved = d.TextCount == 0
		case !add("- %s: %s → %s", c.Kind, quoteName(c.Before, 160), quoteName(c.After, 160)):
			left++
		}
	}
	more(left, "changes of the page")
	left = d.AddedCount
	for _, l := range d.Added {
		if add("- added %s", l.words()) {
			left--
		}
	}
	more(left, "added")
	left = d.RemovedCount
	for _, l := range d.Removed {
		if add("- removed %s", l.words()) {
			left--
		}
	}
	more(left, "removed")
	left = d.UpdatedCount
	for _, u := range d.Updated {
		if add("- updated %s: %s", u.After.words(), u.changes()) {
			left--
		}
	}
	more(left, "updated")
	left = d.TextCount
	for _, text := range d.TextAdded {
		if add("- text %s", quoteName(text, maxSnippet)) {
			left--
		}
	}
	more(left, "new texts")
	switch {
	case moved && d.ComparedTexts > 0:
		say("- text changed beyond what was compared, or was removed or moved")
	case moved:
		say("- text was removed or moved")
	}
	if d.Compared > 0 {
		say("- only the first %d actions were compared", d.Compared)
	}
	if d.ComparedTexts > 0 {
		say("- only the first %d texts were compared", d.ComparedTexts)
	}
}

// changeCounts is what the lines cost that count changes left out.
const changeCounts = 160

func (l LabelOut) words() string {
	ref := ""
	if l.UID != "" {
		ref = l.UID + " "
	}
	return ref + l.Role + " " + quoteName(l.Label, 120)
}

// changes says what of an action is no longer as it was.
func (u UpdateOut) changes() string {
	var w []string
	b, a := u.Before, u.After
	add := func(name, before, after string) {
		if before != after {
			w = append(w, fmt.Sprintf("%s %s → %s", name, quoteName(before, 60), quoteName(after, 60)))
		}
	}
	add("role", b.Role, a.Role)
	add("name", b.Label, a.Label)
	add("value", b.Value, a.Value)
	add("checked", b.Checked, a.Checked)
	if a.Disabled != b.Disabled {
		add("disabled", fmt.Sprint(b.Disabled), fmt.Sprint(a.Disabled))
	}
	add("state", b.State, a.State)
	return strings.Join(w, ", ")
}

// mapLines prints landmarks and headings.
func (s *shot) mapLines(p *sheet, o *SnapshotOut, print bool) {
	places, more := s.mapOf()
	counts := map[spot]int{}
	for _, a := range s.all {
		for r := a.region; r != nil; r = r.up {
			counts[r.spot]++
		}
	}
	room := p.room / 2
	first := true
	for _, sp := range places {
		role := sp.v.role(sp.row)
		name := oneLine(sp.v.name(sp.row))
		if role != "heading" {
			name = (&region{spot: sp, role: role}).title()
		}
		k := s.mention(sp, role, name)
		if k == nil || role == "heading" && !k.boxed {
			continue
		}
		e := PageMapOut{UID: k.ref, Role: role, Label: head(name, maxMatchText), Actions: counts[sp], Level: sp.v.level(sp.row)}
		l := fmt.Sprintf("- @%s %s %s", e.UID, e.Role, quoteName(e.Label, maxMatchText))
		if e.Level > 0 {
			l += fmt.Sprintf(" level=%d", e.Level)
		}
		if e.Actions > 0 {
			l += fmt.Sprintf(" actions=%d", e.Actions)
		}
		if room -= runes(l) + 1; room < 0 {
			more.count(role)
			continue
		}
		o.PageMap = append(o.PageMap, e)
		if print {
			if first {
				p.add("\n## Page map", true)
				first = false
			}
			p.add(l, true)
		}
	}
	if left := more.String(); left != "" {
		hintMore(o, left+" of the page map")
		if print {
			p.add("- … "+left+"; expand a landmark with its ref, or read the outline with chrome_read", true)
		}
	}
}

// hintMore has the value say, too, what its lists leave out.
func hintMore(o *SnapshotOut, what string) {
	o.Summary.Hints = append(o.Summary.Hints, "Not listed: "+what+".")
}

// formLines prints the forms of the page with the refs of their fields.
func (s *shot) formLines(p *sheet, o *SnapshotOut) {
	refs := map[string]bool{}
	for _, a := range o.Actions {
		refs[a.ID] = true
	}
	places, more := s.mapOf()
	for _, sp := range places {
		k := s.mention(sp, "form", (&region{spot: sp, role: "form"}).title())
		if k == nil {
			continue
		}
		f := FormOut{UID: k.ref, Label: k.name, Fields: []string{}, Submits: []string{}}
		for _, a := range s.all {
			if a.known == nil || !refs[a.known.ref] || !sp.within(a.v, a.row) {
				continue
			}
			if a.role == "button" && a.verbs[0] == verbClick {
				f.Submits = append(f.Submits, a.known.ref)
			} else {
				f.Fields = append(f.Fields, a.known.ref)
			}
		}
		l := fmt.Sprintf("- @%s form %s fields: %s; submits: %s", f.UID, quoteName(f.Label, 100), orDash(f.Fields), orDash(f.Submits))
		if runes(l)+1+80 > p.room {
			more.forms++
			continue
		}
		if len(o.Forms) == 0 {
			p.add("\n## Forms", true)
		}
		o.Forms = append(o.Forms, f)
		p.add(l, true)
	}
	if more.forms > 0 {
		hintMore(o, more.String())
		p.add(fmt.Sprintf("- … %s; their fields are among the actions and frontiers", more), true)
	}
}

func orDash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, " ")
}

// matchLines prints what fits the query.
func (s *shot) matchLines(p *sheet, o *SnapshotOut) {
	if s.in.Query != "" {
		p.room += matchCount
	}
	list, more := s.matchesOf()
	list = slices.DeleteFunc(list, func(m match) bool { return s.mention(m.spot, m.role, m.label) == nil })
	for i, m := range list {
		what := m.role
		if what == "" {
			what = m.kind
		}
		one := MatchOut{UID: s.mention(m.spot, m.role, m.label).ref, Role: m.role, Kind: m.kind, Label: head(m.label, maxMatchText), Score: m.score}
		l := fmt.Sprintf("- %s %s %s", one.UID, what, one.Label)
		if i == 0 {
			l = "\n## Matches\n" + l
		}
		room := p.room
		if more > 0 || i < len(list)-1 {
			room -= matchCount
		}
		if runes(l)+1 > room {
			more += len(list) - i
			break
		}
		p.add(l, true)
		o.Matches = append(o.Matches, one)
	}
	if more > 0 {
		left := plural(more, "more match")
		if more > 1 {
			left = strings.TrimSuffix(left, "s") + "es"
		}
		hintMore(o, left)
		if len(o.Matches) == 0 {
			p.add("\n## Matches", true)
		}
		p.add("- … "+left+"; query with more words, or narrow with containingText", true)
	}
}

// matchCount is what the line costs that counts the matches left out.
const matchCount = 90

// textWindow prints the content that the mode shows and makes the frontiers
// that lead to the rest of it.
func (s *shot) textWindow(p *sheet, o *SnapshotOut, shown map[*action]bool) (string, []SnippetOut) {
	list := s.blocksToShow()
	if len(s.blocks) == 0 {
		return "", nil
	}
	switch s.in.Mode {
	case "auto", "text", "full":
	default:
		return "", nil
	}
	actions := len(o.Frontiers) // each takes a line below
	room := p.room - 100*actions - 220
	if s.in.Query != "" {
		room -= min(maxMatches*80, p.room/3)
	}
	if s.in.Mode == "full" {
		room = p.room / 2
	}
	var b strings.Builder
	var snippets []SnippetOut
	last := -1 // the last block shown, by its place among all
	size := 12
	at := 0 // the place of c; the list is in the order of the blocks
	for _, c := range list {
		for s.blocks[at] != c {
			at++
		}
		k := s.mentionBlock(c)
		if k == nil {
			continue
		}
		l := ""
		if s.in.Mode == "auto" {
			l = fmt.Sprintf("- %s %s\n", k.ref, cut(oneLine(c.text), maxSnippet-1))
		} else {
			l = s.blockText(c, k.ref)
		}
		if size += runes(l); size > room {
			break
		}
		b.WriteString(l)
		last = at
		if s.in.Mode == "auto" {
			snippets = append(snippets, SnippetOut{UID: k.ref, Kind: c.kind, Text: cut(oneLine(c.text), maxSnippet-1)})
		} else {
			o.Blocks = append(o.Blocks, s.t.blockOut(s.found, c, k.ref))
			if s.in.Mode == "full" {
				o.Content += c.text + "\n"
			}
		}
	}
	narrowed := s.in.ContainingText != "" || s.in.Query != "" && s.in.Mode != "text"
	if narrowed {
		if s.wantsMoreBlocks(len(snippets) + len(o.Blocks)) {
			o.TextTruncated = true
			// A read looks for one text. The words of a query are none, and
			// with both the blocks were chosen by the text alone.
			f := &frontier{projection: "content", name: "More matching content", view: "content", query: s.in.ContainingText}
			if s.in.ContainingText == "" {
				f.name = "Page content"
			}
			s.addContent(o, f)
		}
	} else {
		if s.in.Mode == "full" || s.in.Mode == "text" || s.in.Mode == "auto" {
			from := last + 1
			if last < 0 {
				from = s.firstInView()
			}
			rest := from
			for rest < len(s.blocks) && s.in.Mode == "auto" && s.plainAction(s.blocks[rest]) {
				rest++
			}
			if rest < len(s.blocks) {
				o.TextTruncated = true
				s.addContent(o, &frontier{projection: "content", name: "More page content", view: "content", offset: from})
			}
			if first := s.firstInView(); first > 0 {
				o.TextTruncated = true
				s.addContent(o, &frontier{projection: "content", name: "Page content above", view: "content", limit: first})
			}
		}
	}
	if b.Len() == 0 {
		return "", nil
	}
	p.room -= size
	if s.in.Mode == "auto" {
		return "\n## Text\n" + b.String(), snippets
	}
	text := b.String()
	if o.TextTruncated {
		text += "\n[content truncated]\n"
	}
	return text, snippets
}

// addContent keeps a frontier of the content.
func (s *shot) addContent(o *SnapshotOut, f *frontier) {
	if s.within.ok() {
		f.subject = s.within.key()
	}
	list := f.cutOut(s.blocks)
	if len(list) == 0 {
		return
	}
	f.print = printBlocks(list)
	out := s.t.addFrontier(f)
	out.Omitted = len(list)
	o.Frontiers = append(o.Frontiers, out)
}

func (s *shot) mentionBlock(c *content) *known {
	if c.row < 0 {
		return nil
	}
	return s.mention(c.spot, c.v.role(c.row), c.text)
}

// blockText is a block in the mode text.
func (s *shot) blockText(c *content, ref string) string {
	var b strings.Builder
	text := oneLine(c.text)
	switch c.kind {
	case kindHeading:
		if len(c.links) == 1 && c.links[0].text == text {
			text = "[" + text + "](" + c.links[0].href + ")"
		}
		fmt.Fprintf(&b, "\n%s %s %s\n", strings.Repeat("#", max(1, min(c.level, 6))), ref, text)
	case kindLink:
		fmt.Fprintf(&b, "\n%s [%s](%s)\n", ref, text, c.links[0].href)
		return b.String()
	case kindListItem:
		fmt.Fprintf(&b, "%s- %s %s\n", strings.Repeat("  ", max(0, c.depth-1)), ref, text)
	case kindCode:
		fmt.Fprintf(&b, "\n%s code\n%s\n", ref, indent(c.text))
	case kindRow:
		fmt.Fprintf(&b, "%s %s\n", ref, text)
	default:
		fmt.Fprintf(&b, "\n%s %s\n", ref, text)
	}
	for _, l := range c.links[:min(len(c.links), 8)] {
		if k := s.mention(l.spot, "link", l.text); k != nil {
			fmt.Fprintf(&b, "  link %s %s %s\n", k.ref, oneLine(l.text), head(l.href, 200))
		}
	}
	if n := len(c.links) - 8; n > 0 {
		fmt.Fprintf(&b, "  … %s more in %s\n", plural(n, "link"), ref)
	}
	return b.String()
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(s, "\n", "\n    ")
}

// elements says more of the shown actions.
func (s *shot) elements(o *SnapshotOut, chosen []*action, shown map[*action]bool) {
	for i, a := range chosen {
		if !shown[a] {
			continue
		}
		r := &a.v.rows[a.row]
		e := ElementOut{Index: i, UID: a.known.ref, Tag: r.tag, Role: a.role, Label: head(a.name, 180), Type: r.get("~t"), Href: head(a.v.href(a.row), 300), Rect: a.box,
			HasValue: a.state.Value != "" || a.state.ValueRedacted && a.state.ValueLength > 0}
		if id := r.get("id"); id != "" && !strings.ContainsAny(id, " .:#[]>\"'") {
			e.Selector = "#" + id
		} else if name := r.get("name"); name != "" {
			e.Selector = r.tag + "[name=" + quote(name) + "]"
		}
		o.Elements = append(o.Elements, e)
	}
}

// summarize counts the page.
func (s *shot) summarize(o *SnapshotOut, shown map[*action]bool) {
	o.Summary = SummaryOut{TotalInteractiveVisible: len(s.sv.actions), TotalInteractiveSampled: len(shown), Focused: o.Focused, Modal: o.Modal,
		Hints: append([]string{}, o.Summary.Hints...)}
	for _, a := range s.sv.actions {
		if a.inView {
			o.Summary.VisibleInteractiveCount++
		}
	}
	if s.in.Mode == "auto" || s.in.Mode == "full" {
		var b strings.Builder
		for _, c := range s.window() {
			if b.Len() > 600 {
				break
			}
			b.WriteString(oneLine(c.text) + " ")
		}
		o.Summary.VisibleText = strings.TrimSpace(head(b.String(), 500))
	}
	hint := func(ok bool, text string) {
		if ok {
			o.Summary.Hints = append(o.Summary.Hints, text)
		}
	}
	hint(o.Modal != nil, "A dialog is open: use it before the page behind it.")
	hint(len(o.Frames) > 0, "Some frames could not be read wholly; frames says which and why.")
	hint(s.sv.main().meta.Ready == "loading", "The page is still loading.")
	covered := 0
	for _, a := range o.Actions {
		if a.State.Covered != "" {
			covered++
		}
	}
	hint(covered > 0, plural(covered, "action")+" covered by something else; covered-by says by what.")
}
