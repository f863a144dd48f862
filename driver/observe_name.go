package driver

import (
	"slices"
	"strings"
	"unicode"
)

// namer memoises the accessible names of a view's rows.
type namer struct {
	names map[int]string
}

// fromContent are the roles that are named by what they contain.
var fromContent = map[string]bool{"button": true, "cell": true, "checkbox": true, "columnheader": true, "DisclosureTriangle": true, "DisclosureTriangleGrouped": true, "gridcell": true,
	"heading": true, "link": true, "menuitem": true, "menuitemcheckbox": true, "menuitemradio": true, "option": true, "radio": true,
	"row": true, "rowheader": true, "switch": true, "tab": true, "tooltip": true, "treeitem": true, "doc-backlink": true, "doc-biblioref": true,
	"doc-glossref": true, "doc-noteref": true, "comment": true}

// maxName bounds an accessible name, in bytes.
const maxName = 6000

// maxNameRows bounds how many rows one name may be put together from; Chrome
// stops after about as many.
const maxNameRows = 400

// name is the accessible name of a row, by accname 1.2 and HTML-AAM as Chrome
// does it, with white space collapsed.
func (v *view) name(i int) string {
	if s, ok := v.naming.names[i]; ok {
		return s
	}
	n := naming{v: v, root: i}
	s := collapse(n.compute(i, false, false))
	if v.naming.names == nil {
		v.naming.names = map[int]string{}
	}
	v.naming.names[i] = s
	return s
}

// forgetNames makes the names be put together anew, when more is known.
func (v *view) forgetNames() { v.naming.names = nil }

func collapse(s string) string {
	s = strings.ReplaceAll(s, "\u200b", "")
	if s == "" {
		return ""
	}
	plain, space := true, false
	for i := range len(s) {
		c := s[i]
		if c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == 0xc2 || (c == ' ' && space) {
			plain = false
			break
		}
		space = c == ' '
	}
	if plain {
		return strings.Trim(s, " ")
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == 0xa0 || unicode.IsSpace(r) }), " ")
}

// rowSet is a set of rows, of which there are few as a rule.
type rowSet struct {
	few  []int
	many map[int]bool
}

func (s *rowSet) has(i int) bool { return s.many[i] || slices.Contains(s.few, i) }

func (s *rowSet) add(i int) {
	if len(s.few) < 16 {
		s.few = append(s.few, i)
		return
	}
	if s.many == nil {
		s.many = map[int]bool{}
	}
	s.many[i] = true
}

// naming is one computation of a name.
type naming struct {
	v       *view
	root    int
	visited rowSet
	rows    int
	refs    bool // within a labelledby or label traversal
}

// compute is the name of one row. child: it is part of another's name. direct:
// it was named directly by a relation, so that being hidden does not matter.
func (n *naming) compute(i int, child, direct bool) string {
	v := n.v
	r := &v.rows[i]
	if n.visited.has(i) || n.rows > maxNameRows {
		return ""
	}
	if r.tag == "" {
		n.rows++
		return transformed(v, i)
	}
	if child && !direct && n.hidden(i) {
		return ""
	}
	n.rows++
	n.visited.add(i)
	if !n.refs {
		if ids := v.rel.labelledBy[i]; len(ids) > 0 {
			if s := n.joined(ids); s != "" {
				return s
			}
		}
	}
	role := v.role(i)
	if child && i != n.root {
		// A control within a label gives what it holds.
		switch role {
		case "textbox", "searchbox", "Date", "DateTime", "InputTime", "spinbutton", "slider":
			if r.tag != "button" {
				if s, ok := r.attr("aria-valuetext"); ok {
					return s
				}
				if s, ok := r.attr("aria-valuenow"); ok && r.tag != "input" {
					return s
				}
				if r.tag == "input" || r.tag == "textarea" {
					// One that holds nothing goes by its own name.
					if s := r.get("~v"); s != "" || r.hasAttr("~x") {
						return s
					}
				}
			}
		case "combobox", "listbox":
			if r.tag == "select" || r.tag == "input" {
				return r.get("~v")
			}
			if role == "listbox" {
				return n.chosen(i)
			}
		}
	}
	if s := r.get("aria-label"); strings.TrimSpace(s) != "" {
		return s
	}
	if role == "none" && child {
		return n.content(i)
	}
	if s, ok := n.native(i, role, child); ok && s != "" {
		return s
	} else if ok && role == "image" && !child {
		return r.get("title")
	}
	if fromContent[role] && !(role == "row" && !child && r.tag == "tr") || child || direct {
		if s := n.content(i); strings.TrimSpace(s) != "" {
			return s
		}
	}
	if s := r.get("title"); strings.TrimSpace(s) != "" && role != "none" && !(child && role == "generic") {
		return s
	}
	if s := r.get("aria-placeholder"); s != "" && role == "textbox" {
		return s
	}
	return ""
}

// hidden reports whether a row has no part in another's name.
func (n *naming) hidden(i int) bool {
	r := &n.v.rows[i]
	if r.get("aria-hidden") == "true" {
		return true
	}
	if r.has(rowRefOnly) {
		return false
	}
	return r.has(rowHidden)
}

// native is the name that the row's own kind gives it. ok is false where the
// kind has no such name.
func (n *naming) native(i int, role string, child bool) (string, bool) {
	v := n.v
	r := &v.rows[i]
	switch r.tag {
	case "input":
		switch r.get("~t") {
		case "submit", "reset", "button":
			if s := n.labels(i); s != "" {
				return s, true
			}
			if s := r.get("~v"); strings.TrimSpace(s) != "" {
				return s, true
			}
			if s := r.get("title"); s != "" {
				return s, true
			}
			switch r.get("~t") {
			case "submit":
				return "Submit", true
			case "reset":
				return "Reset", true
			}
			return "", true
		case "image":
			if s := n.labels(i); s != "" {
				return s, true
			}
			for _, k := range []string{"alt", "~v", "title"} {
				if s := r.get(k); strings.TrimSpace(s) != "" {
					return s, true
				}
			}
			return "Submit", true
		}
		if s := n.labels(i); s != "" {
			return s, true
		}
		if r.get("~t") == "file" {
			if s := r.get("title"); s != "" {
				return s, true
			}
			if r.hasAttr("multiple") {
				return "Choose Files", true
			}
			return "Choose File", true
		}
		return first(r, "title", "placeholder", "aria-placeholder"), true
	case "textarea":
		if s := n.labels(i); s != "" {
			return s, true
		}
		return first(r, "title", "placeholder", "aria-placeholder"), true
	case "select", "meter", "progress", "output":
		if s := n.labels(i); s != "" {
			return s, true
		}
		if r.tag == "output" {
			return "", false
		}
		return r.get("title"), true
	case "button":
		if s := n.labels(i); s != "" {
			return s, true
		}
		return "", false
	case "img", "area":
		if s, ok := r.attr("alt"); ok {
			return s, true
		}
		return "", r.tag == "img"
	case "fieldset":
		return n.firstChild(i, "legend"), true
	case "figure":
		return n.firstChild(i, "figcaption"), true
	case "table":
		if s := n.firstChild(i, "caption"); s != "" {
			return s, true
		}
		return first(r, "title", "summary"), true
	case "optgroup":
		return r.get("label"), true
	case "option":
		if s := r.get("label"); s != "" {
			return s, true
		}
		return "", false
	case "iframe", "frame":
		return r.get("title"), true
	case "svg:svg", "svg:g", "svg:a":
		if s := n.firstChild(i, "svg:title"); s != "" {
			return s, true
		}
		return "", false
	}
	if strings.Contains(r.tag, "-") && len(v.rel.labels[i]) > 0 {
		return n.labels(i), true
	}
	return "", false
}

func first(r *row, keys ...string) string {
	for _, k := range keys {
		if s := r.get(k); strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// labels is the joined text of a control's labels.
func (n *naming) labels(i int) string {
	if n.refs {
		return ""
	}
	var shown []int
	for _, l := range n.v.rel.labels[i] {
		if !n.v.rows[l].has(rowRefOnly | rowHidden) {
			shown = append(shown, l)
		}
	}
	return n.joined(shown)
}

// joined is the text of rows that a relation names, in order.
func (n *naming) joined(ids []int) string {
	var parts []string
	for _, id := range ids {
		sub := naming{v: n.v, root: n.root, rows: n.rows, refs: true}
		if id != n.root {
			sub.visited.add(n.root)
		}
		s := collapse(sub.compute(id, id != n.root, true))
		n.rows = sub.rows
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

func (n *naming) firstChild(i int, tag string) string {
	rows := n.v.rows
	for c := i + 1; c < rows[i].end(); c = rows[c].end() {
		if rows[c].tag == tag && !n.hidden(c) {
			return n.content(c)
		}
	}
	return ""
}

// chosen is the text of an ARIA list box's selected options.
func (n *naming) chosen(i int) string {
	var parts []string
	rows := n.v.rows
	for c := i + 1; c < rows[i].end(); c++ {
		if rows[c].get("aria-selected") == "true" {
			parts = append(parts, collapse(n.content(c)))
		}
	}
	return strings.Join(parts, " ")
}

// content is the text of a row's children, with its generated content.
func (n *naming) content(i int) string {
	v := n.v
	var b strings.Builder
	gap := false // a space is due before the next text
	put := func(s string, before, after bool) {
		if s == "" {
			gap = gap || before || after
			return
		}
		if b.Len() > 0 && (gap || before) && !endsInSpace(&b) && s[0] != ' ' {
			b.WriteByte(' ')
		}
		b.WriteString(s)
		gap = after
	}
	if s := v.rows[i].generated().before; s != "" {
		put(s, false, false)
	}
	one := func(c int) {
		r := &v.rows[c]
		if b.Len() > maxName || r.has(rowInvisible) && r.tag != "" && !v.anyVisible(c) {
			return
		}
		// What is a box of its own, or is named by an attribute, stands apart.
		block := r.tag != "" && (!r.has(rowInline) || r.has(rowAtomic) || strings.TrimSpace(first(r, "aria-label", "alt")) != "" || len(v.rel.labelledBy[c]) > 0)
		s := ""
		switch {
		case r.tag == "br", r.tag == "wbr":
			block = true
		case r.tag == "svg:title", r.tag == "svg:desc", r.tag == "rt", r.tag == "rp":
			return
		case r.tag != "" && v.role(i) == "treeitem" && v.role(c) == "group":
			return
		default:
			s = n.compute(c, true, false)
		}
		put(s, block || r.has(rowSpace), block)
	}
	for c := i + 1; c < v.rows[i].end(); c = v.rows[c].end() {
		one(c)
	}
	for _, c := range v.rel.owns[i] {
		if !n.visited.has(c) {
			gap = true
			one(c)
		}
	}
	if s := v.rows[i].generated().after; s != "" {
		put(s, false, false)
	}
	return b.String()
}

// anyVisible reports whether an invisible row has a visible element in it.
func (v *view) anyVisible(i int) bool {
	for c := i + 1; c < v.rows[i].end(); c++ {
		if r := &v.rows[c]; r.tag != "" && !r.has(rowInvisible) {
			return true
		}
	}
	return false
}

func endsInSpace(b *strings.Builder) bool {
	s := b.String()
	return strings.HasSuffix(s, " ")
}

// transformed is a text as text-transform shows it.
func transformed(v *view, i int) string {
	r := &v.rows[i]
	if p := r.parent(); p >= 0 {
		if v.rows[p].has(rowInvisible) {
			return ""
		}
		switch v.rows[p].generated().transform {
		case 'u':
			return strings.ToUpper(r.text)
		case 'l':
			return strings.ToLower(r.text)
		case 'c':
			return capitalize(r.text)
		}
	}
	return r.text
}

func capitalize(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		letter := unicode.IsLetter(r) || unicode.IsNumber(r) || r == '\'' || r == '’'
		defer func() { start = !letter }()
		if letter && start {
			return unicode.ToTitle(r)
		}
		return r
	}, s)
}

// label is what a person would call the row: its accessible name, or its text
// where its role has none.
func (v *view) label(i int) string {
	if s := v.name(i); s != "" {
		return s
	}
	if v.editableRoot(i) {
		return ""
	}
	if !slices.Contains([]string{"generic", "none", "paragraph", "listitem", "Canvas", "image", "article", "group", "LabelText", "list", "cell", "row"}, v.role(i)) {
		return ""
	}
	return v.text(i)
}

// text is everything a row says, with white space collapsed.
func (v *view) text(i int) string {
	n := naming{v: v, root: i}
	return collapse(n.content(i))
}
