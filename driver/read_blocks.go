package driver

import (
	"slices"
	"strings"
)

// Kinds of blocks.
const (
	kindHeading   = "heading"
	kindParagraph = "paragraph"
	kindListItem  = "listItem"
	kindLink      = "link"
	kindRow       = "tableRow"
	kindCode      = "code"
	kindQuote     = "quote"
	kindField     = "field"
	kindTerm      = "term"
	kindCaption   = "caption"
	kindFrame     = "frame"
)

// maxPiece is where a long text is cut into several blocks, so that none has
// to be cut short.
const maxPiece = 1200

// maxBlocks bounds the blocks of one reading; more are counted.
const maxBlocks = 200_000

// content is one block of a page's text.
type content struct {
	spot
	kind      string
	text      string // one line; code keeps its lines
	level     int
	depth     int // of lists around a list item
	ordinal   int // of an ordered list's item
	continued bool
	links     []contentLink
	region    spot   // the landmark around it
	role      string // of a field
}

type contentLink struct {
	spot
	text string
	href string
}

// reader puts a scene's text together into blocks.
type reader struct {
	out   []*content
	left  int // blocks beyond maxBlocks
	cells int // of a row being read: nested blocks become text

	text   strings.Builder // of the block being put together
	gap    bool
	start  spot
	links  []contentLink
	linked int // characters of the text that are links
	kinds  []frameOf
}

// frameOf is an open element that says what its text is.
type frameOf struct {
	kind    string
	spot    spot
	level   int
	depth   int
	ordinal int
	used    bool // its first block is out
	region  spot
}

// blocks reads a scene: every text a person sees or hears, once, in order.
func (s *scene) blocks() ([]*content, int) {
	r := &reader{}
	r.kinds = []frameOf{{kind: kindParagraph, spot: spot{s.main(), -1}}}
	r.view(s.main())
	r.flush()
	return r.out, r.left
}

func (r *reader) view(v *view) {
	for i := 0; i < len(v.rows); i = v.rows[i].end() {
		if v.rows[i].has(rowRefOnly) {
			return
		}
		r.row(v, i)
	}
}

func (r *reader) children(v *view, i int) {
	for c := i + 1; c < v.rows[i].end(); c = v.rows[c].end() {
		r.row(v, c)
	}
}

// put adds text to the block being put together.
func (r *reader) put(v *view, i int, s string, space bool) {
	if s == "" {
		return
	}
	first := s[0] == ' ' || s[0] == '\n'
	s = collapse2(s)
	if s == "" || s == " " {
		r.gap = true
		return
	}
	if r.text.Len() == 0 {
		r.start = spot{v, i}
	} else if space || r.gap || first {
		r.text.WriteByte(' ')
	}
	trail := strings.HasSuffix(s, " ")
	r.text.WriteString(strings.TrimSpace(s))
	r.gap = trail
}

// collapse2 collapses white space but keeps one space at either end.
func collapse2(s string) string {
	t := collapse(s)
	if t == "" {
		return " "
	}
	if c := s[len(s)-1]; c == ' ' || c == '\n' || c == '\t' {
		t += " "
	}
	return t
}

// flush ends the block being put together.
func (r *reader) flush() {
	s := strings.TrimSpace(r.text.String())
	links, linked, start := r.links, r.linked, r.start
	r.text.Reset()
	r.links, r.linked, r.gap, r.start = nil, 0, false, spot{}
	if s == "" {
		return
	}
	k := &r.kinds[len(r.kinds)-1]
	at := k.spot
	if k.used || at.row < 0 || k.kind == kindParagraph {
		if start.ok() {
			at = elementOf(start)
		}
	}
	b := content{spot: at, kind: k.kind, level: k.level, depth: k.depth, ordinal: k.ordinal, links: links, region: k.region}
	if k.used && (k.kind == kindListItem || k.kind == kindHeading || k.kind == kindTerm) {
		b.kind, b.continued = kindParagraph, false
		if k.kind == kindListItem {
			b.kind, b.continued = kindListItem, true
		}
	}
	k.used = true
	if b.kind == kindParagraph && len(links) == 1 && linked >= len(s) {
		b.kind, b.spot = kindLink, links[0].spot
	}
	r.add(b, s)
}

// elementOf is the element that a text belongs to.
func elementOf(s spot) spot {
	for s.row >= 0 && s.v.rows[s.row].tag == "" {
		s.row = s.v.rows[s.row].parent()
	}
	return s
}

// add puts a block out, a long one in pieces.
func (r *reader) add(b content, s string) {
	for {
		if len(r.out) >= maxBlocks {
			r.left++
			return
		}
		piece := s
		if runes(s) > maxPiece {
			piece = head(s, maxPiece)
			if at := strings.LastIndexAny(piece, " \n"); at > len(piece)/2 {
				piece = piece[:at]
			}
		}
		one := b
		one.text = strings.TrimSpace(piece)
		if b.kind == kindCode {
			one.text = strings.Trim(piece, "\n")
		}
		s = s[len(piece):]
		if b.kind != kindCode {
			s = strings.TrimSpace(s)
		}
		r.out = append(r.out, &one)
		if s == "" {
			return
		}
		b.continued, b.links = true, nil
	}
}

// in reads a row's children as text of a kind.
func (r *reader) in(v *view, i int, f frameOf) {
	r.flush()
	f.spot = spot{v, i}
	if f.region == (spot{}) {
		f.region = r.kinds[len(r.kinds)-1].region
	}
	r.kinds = append(r.kinds, f)
	r.children(v, i)
	r.flush()
	r.kinds = r.kinds[:len(r.kinds)-1]
}

func (r *reader) row(v *view, i int) {
	e := &v.rows[i]
	if e.tag == "" {
		if p := e.parent(); p >= 0 && v.rows[p].has(rowInvisible) {
			return
		}
		r.put(v, i, e.text, e.has(rowSpace))
		return
	}
	if e.has(rowHidden | rowRefOnly) {
		return
	}
	if e.has(rowSpace) {
		r.gap = true
	}
	if kid := v.kids[i]; kid != nil {
		if kid.hidden {
			return
		}
		r.flush()
		if r.cells == 0 && len(kid.rows) > 2 {
			name := oneLine(kid.meta.Title)
			if name == "" {
				name = oneLine(v.name(i))
			}
			if name != "" {
				r.add(content{spot: spot{v, i}, kind: kindFrame, region: r.kinds[len(r.kinds)-1].region}, name)
			}
		}
		r.kinds = append(r.kinds, frameOf{kind: kindParagraph, spot: spot{kid, -1}, region: spot{v, i}})
		r.view(kid)
		r.flush()
		r.kinds = r.kinds[:len(r.kinds)-1]
		return
	}
	role := v.role(i)
	if r.cells > 0 {
		r.inCell(v, i, role)
		return
	}
	switch e.tag {
	case "br":
		r.gap = true
		if r.text.Len() > 0 && r.kinds[len(r.kinds)-1].kind != kindCode {
			r.text.WriteByte(' ')
		}
		return
	case "hr":
		r.flush()
		return
	case "pre", "listing":
		r.flush()
		r.add(content{spot: spot{v, i}, kind: kindCode, region: r.kinds[len(r.kinds)-1].region}, v.rawText(i))
		return
	case "label":
		if c, ok := v.rel.labelFor[i]; ok && v.isField(c) {
			// The label is told with its field.
			if c > i && c < e.end() {
				r.flush()
				r.field(v, c)
			}
			return
		}
	case "figcaption", "caption":
		r.in(v, i, frameOf{kind: kindCaption})
		return
	case "option":
		r.flush()
		r.add(content{spot: spot{v, i}, kind: kindField, region: r.kinds[len(r.kinds)-1].region}, mark(v, i)+oneLine(v.name(i)))
		return
	case "select":
		if e.get("~lb") == "1" {
			r.field(v, i)
			r.children(v, i)
			return
		}
	}
	if v.isField(i) {
		r.flush()
		r.field(v, i)
		return
	}
	switch role {
	case "heading":
		r.in(v, i, frameOf{kind: kindHeading, level: v.level(i)})
		return
	case "listitem":
		depth, ordinal := v.listPlace(i)
		r.in(v, i, frameOf{kind: kindListItem, depth: depth, ordinal: ordinal})
		return
	case "term":
		if e.tag == "dt" || e.tag != "dfn" {
			r.in(v, i, frameOf{kind: kindTerm})
			return
		}
	case "definition":
		r.in(v, i, frameOf{kind: kindListItem, depth: 1})
		return
	case "blockquote":
		r.in(v, i, frameOf{kind: kindQuote})
		return
	case "row":
		if v.tabular(i) {
			r.tableRow(v, i)
			return
		}
	case "link":
		r.link(v, i)
		return
	case "button":
		if !v.holdsBlocks(i) {
			if s := v.fieldText(i); s != "" {
				r.put(v, i, s, true)
				r.gap = true
			}
			return
		}
	case "image":
		if alt := oneLine(v.name(i)); alt != "" {
			r.put(v, i, "!["+alt+"]", true)
		}
		return
	case "main", "navigation", "banner", "contentinfo", "complementary", "region", "search", "dialog", "alertdialog", "form":
		block := frameOf{kind: kindParagraph, region: spot{v, i}}
		r.in(v, i, block)
		return
	}
	if !e.has(rowInline) {
		// A block of its own, of the kind around it.
		k := r.kinds[len(r.kinds)-1]
		if k.kind == kindHeading {
			r.gap = true
			r.children(v, i)
			r.gap = true
			return
		}
		r.flush()
		r.children(v, i)
		r.flush()
		return
	}
	if e.has(rowAtomic) {
		r.gap = true
	}
	r.children(v, i)
	if e.has(rowAtomic) {
		r.gap = true
	}
}

// inCell reads a row of a table's cell: everything becomes its text.
func (r *reader) inCell(v *view, i int, role string) {
	e := &v.rows[i]
	block := !e.has(rowInline)
	if block || e.tag == "br" {
		r.gap = true
	}
	switch {
	case e.tag == "label":
		if c, ok := v.rel.labelFor[i]; ok && v.isField(c) && c > i && c < e.end() {
			r.put(v, c, v.fieldText(c), true)
			return
		}
		r.children(v, i)
	case v.isField(i):
		r.put(v, i, v.fieldText(i), true)
	case role == "link":
		r.link(v, i)
	case role == "image":
		if alt := oneLine(v.name(i)); alt != "" {
			r.put(v, i, "!["+alt+"]", true)
		}
	default:
		r.children(v, i)
	}
	if block {
		r.gap = true
	}
}

// link reads a link as a part of the text around it.
func (r *reader) link(v *view, i int) {
	e := &v.rows[i]
	block := !e.has(rowInline) || v.holdsBlocks(i)
	if block && r.cells == 0 {
		r.flush()
	}
	before := r.text.Len()
	at := len(r.links)
	r.links = append(r.links, contentLink{spot: spot{v, i}, href: head(v.href(i), 600)})
	if block && r.cells == 0 {
		// A card: its blocks are read as such, and each knows the link.
		link := r.links[at]
		link.text = oneLine(v.name(i))
		r.links = nil
		n := len(r.out)
		r.children(v, i)
		r.flush()
		if len(r.out) == n {
			if link.text != "" {
				r.add(content{spot: link.spot, kind: kindLink, links: []contentLink{link}, region: r.kinds[len(r.kinds)-1].region}, link.text)
			}
		} else if b := r.out[n]; len(b.links) == 0 {
			b.links = []contentLink{link}
			if len(r.out) == n+1 && b.kind == kindParagraph {
				b.kind, b.spot = kindLink, link.spot
			}
		}
		return
	}
	r.children(v, i)
	text := ""
	if before <= r.text.Len() {
		text = strings.TrimSpace(r.text.String()[before:])
	}
	if text == "" {
		if text = oneLine(v.name(i)); text != "" {
			r.put(v, i, text, true)
		}
	}
	if text == "" || at >= len(r.links) {
		if at < len(r.links) {
			r.links = slices.Delete(r.links, at, at+1)
		}
		return
	}
	r.links[at].text = head(text, 300)
	r.linked += r.text.Len() - before
}

// holdsBlocks reports whether a row has block children.
func (v *view) holdsBlocks(i int) bool {
	r := &v.rows[i]
	for c := i + 1; c < min(r.end(), i+60); c++ {
		if v.rows[c].tag != "" && !v.rows[c].has(rowInline) && !strings.HasPrefix(v.rows[c].tag, "svg:") && v.rows[c].tag != "img" && v.rows[c].tag != "br" {
			return true
		}
	}
	return false
}

// rawText is the text of a row with its lines kept.
func (v *view) rawText(i int) string {
	var b strings.Builder
	for c := i + 1; c < v.rows[i].end(); c++ {
		r := &v.rows[c]
		switch {
		case r.tag == "br":
			b.WriteByte('\n')
		case r.tag != "" && r.has(rowHidden):
			c = r.end() - 1
		case r.tag == "":
			if p := r.parent(); p >= 0 && v.rows[p].has(rowInvisible) {
				continue
			}
			if r.has(rowSpace) && b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(r.text)
		}
	}
	return strings.TrimRight(strings.ReplaceAll(b.String(), "\r", ""), " \n\t")
}

// isField reports whether the row is a control that holds something.
func (v *view) isField(i int) bool {
	r := &v.rows[i]
	switch r.tag {
	case "input":
		switch r.get("~t") {
		case "submit", "button", "reset", "image":
			return true
		}
		return !r.has(rowHidden) || v.visibleLabel(i) >= 0
	case "textarea", "select", "meter", "progress":
		return true
	}
	switch v.role(i) {
	case "checkbox", "radio", "switch", "textbox", "searchbox", "spinbutton", "slider", "combobox":
		return r.hasAttr("role")
	}
	return false
}

// field reads a control as its name and what it holds.
func (r *reader) field(v *view, i int) {
	if w, ok := v.wholes[i]; ok {
		r.wholeField(v, i, w)
		return
	}
	role := v.role(i)
	text := v.fieldText(i)
	if text == "" {
		return
	}
	r.add(content{spot: spot{v, i}, kind: kindField, role: role, region: r.kinds[len(r.kinds)-1].region}, text)
}

func mark(v *view, i int) string {
	if v.rows[i].get("~c") == "1" {
		return "[x] "
	}
	return "[ ] "
}

// fieldText is a control on one line: `Email: ada@example.test`, `[x] Agreed`,
// `[Save]`, `Password: (9 characters, not shown)`.
func (v *view) fieldText(i int) string {
	s := v.enabledText(i)
	if s != "" && v.disabled(i) {
		s += " (disabled)"
	}
	return s
}

func (v *view) enabledText(i int) string {
	r := &v.rows[i]
	role := v.role(i)
	name := oneLine(v.name(i))
	if role == "button" {
		if r.tag == "input" && r.get("~t") == "file" {
			return name + ": " + r.get("~n") + " files"
		}
		if name == "" {
			return ""
		}
		return "[" + cut(name, maxNameShown) + "]"
	}
	value, length, redacted := v.holds(i)
	s := v.stateHolding(i, role, value, length, redacted)
	if s.Checked != "" {
		return map[string]string{"true": "[x] ", "mixed": "[-] "}[s.Checked] + map[bool]string{true: "[ ] "}[s.Checked == "false"] + name
	}
	switch {
	case redacted && length == 0:
		value = "(empty)"
	case redacted:
		value = "(" + plural(length, "character") + ", not shown)"
	default:
		value = oneLine(value)
		if n := runes(value); length > n+1 && n >= 300 {
			value += "… (" + plural(length, "character") + ")"
		}
		if value == "" {
			value = "(empty)"
		}
	}
	if name == "" {
		name = role
	}
	if r.tag == "select" && s.Options > 1 && r.get("~lb") != "1" {
		value += " (of " + s.Choices
		if s.Options > 12 {
			value += " | … " + itoa(s.Options-12) + " more"
		}
		value += ")"
	}
	return name + ": " + value
}

// listPlace is how deep in lists a list item stands, and its number in an
// ordered one.
func (v *view) listPlace(i int) (depth, ordinal int) {
	r := &v.rows[i]
	list := -1
	for p := r.parent(); p >= 0; p = v.rows[p].parent() {
		switch v.rows[p].tag {
		case "ul", "ol", "menu":
			if depth == 0 {
				list = p
			}
			depth++
		default:
			if v.rows[p].get("role") == "list" {
				if depth == 0 {
					list = p
				}
				depth++
			}
		}
	}
	if list >= 0 && v.rows[list].tag == "ol" {
		ordinal = 1
		if n := numberOr(v.rows[list].get("start"), 1); n > 0 {
			ordinal = n
		}
		for c := list + 1; c < i; c = v.rows[c].end() {
			if v.rows[c].tag == "li" {
				ordinal++
			}
		}
	}
	return max(depth, 1), ordinal
}

func numberOr(s string, other int) int {
	n := numbers{s: s}
	if s == "" {
		return other
	}
	got := n.next()
	if n.bad {
		return other
	}
	return got
}

// tabular reports whether a table row is read as one line: not where a cell
// holds what is a page of its own, as in tables for layout.
func (v *view) tabular(i int) bool {
	r := &v.rows[i]
	if r.end()-i > 800 {
		return false
	}
	size := 0
	for c := i + 1; c < r.end(); c++ {
		e := &v.rows[c]
		if e.tag == "" {
			size += len(e.text)
			continue
		}
		switch e.tag {
		case "table", "h1", "h2", "h3", "pre", "iframe", "form":
			return false
		}
	}
	return size <= 4*maxPiece
}

// tableRow reads the cells of a row as one block.
func (r *reader) tableRow(v *view, i int) {
	r.flush()
	r.kinds = append(r.kinds, frameOf{kind: kindRow, spot: spot{v, i}, region: r.kinds[len(r.kinds)-1].region})
	r.cells++
	var cells []string
	var links []contentLink
	heads, n := 0, 0
	var cell func(c int)
	cell = func(c int) {
		e := &v.rows[c]
		role := ""
		if e.tag != "" {
			role = v.role(c)
		}
		switch role {
		case "cell", "gridcell", "columnheader", "rowheader":
		case "generic", "none":
			if e.tag != "" && !e.has(rowHidden) {
				for k := c + 1; k < e.end(); k = v.rows[k].end() {
					cell(k)
				}
			}
			return
		default:
			if e.tag == "" && strings.TrimSpace(e.text) == "" || e.has(rowHidden) {
				return
			}
		}
		if e.tag != "" && e.has(rowHidden) {
			return
		}
		if e.tag == "" {
			r.row(v, c)
		} else {
			r.children(v, c)
		}
		s := strings.TrimSpace(r.text.String())
		links = append(links, r.links...)
		r.text.Reset()
		r.links, r.linked, r.gap = nil, 0, false
		s = strings.ReplaceAll(s, "|", "\\|")
		n++
		if role == "columnheader" || role == "rowheader" {
			heads++
			if s != "" {
				s = "**" + s + "**"
			}
		}
		cells = append(cells, s)
	}
	for c := i + 1; c < v.rows[i].end(); c = v.rows[c].end() {
		cell(c)
	}
	r.cells--
	k := r.kinds[len(r.kinds)-1]
	r.kinds = r.kinds[:len(r.kinds)-1]
	if strings.Trim(strings.Join(cells, ""), "* ") == "" {
		return
	}
	r.add(content{spot: spot{v, i}, kind: kindRow, links: links, region: k.region}, "| "+strings.Join(cells, " | ")+" |")
}
