package driver

import (
	"fmt"
	"strings"
)

// Flags of an element's row, as js/walk.js sets them.
const (
	rowBox       = 1 << iota // it has a box of some size
	rowView                  // its box touches the frame's viewport
	rowInline                // it stands in a line
	rowContents              // display: contents
	rowPointer               // the cursor over it is a pointer
	rowHidden                // not rendered
	rowInvisible             // visibility hidden or collapse
	rowNoEvents              // pointer-events: none
	rowInert                 // inert, or behind a modal dialog
	rowDisabled              // :disabled
	rowEditable              // contenteditable, itself or inherited
	rowCandidate             // it has a number and a rectangle
	rowAttrs                 // it has attributes
	rowSpace                 // white space stands before it
	rowTop                   // in the top layer
	rowFocusable             // a person can focus it
	rowAtomic                // in a line as a box of its own, such as an inline block
	rowRefOnly               // not rendered; here because a relation names it
	rowPre                   // white space is kept
	rowFlexItem              // an item of a flex box or grid
	rowClosed                // it hosts a closed shadow root
	_
	rowClipped // before the beginning of the page, where nothing scrolls to
)

// row is one element or text of a frame, in the order of the flat tree.
type row struct {
	tag    string // "" for a text; "svg:…" and "math:…" outside HTML
	text   string // of a text
	attrs  string // "key=value" separated by backspaces; "~key" is the control's state
	flags  int32
	inside int32 // the row around it; -1 for none
	after  int32 // the first row after its subtree
	number int32 // the element's in its document; 0 for none
	x, y   int32 // of a candidate, in the frame's viewport
	w, h   int32

	styled *generated // nil for nothing
}

// generated is what the style of a row adds to its text.
type generated struct {
	before, after string // what ::before and ::after say
	transform     byte   // u, l or c: text-transform of its texts
}

func (r *row) generated() generated {
	if r.styled == nil {
		return generated{}
	}
	return *r.styled
}

// There may be hundreds of thousands of rows, so that their numbers are short.
func (r *row) parent() int { return int(r.inside) }
func (r *row) end() int    { return int(r.after) }
func (r *row) num() int    { return int(r.number) }

func (r *row) has(flag int32) bool { return r.flags&flag != 0 }

// attr returns an attribute of the row and whether it is there.
func (r *row) attr(key string) (string, bool) {
	rest := r.attrs
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "\b")
		if len(one) > len(key) && one[len(key)] == '=' && one[:len(key)] == key {
			return one[len(key)+1:], true
		}
	}
	return "", false
}

func (r *row) get(key string) string {
	v, _ := r.attr(key)
	return v
}

func (r *row) hasAttr(key string) bool {
	_, ok := r.attr(key)
	return ok
}

// frameBox is the content box of a frame element, in its document's viewport.
type frameBox struct {
	Row int     `json:"row"`
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
	SX  float64 `json:"sx"`
	SY  float64 `json:"sy"`
	W   float64 `json:"w"`
	H   float64 `json:"h"`
}

// walkMeta is what js/walk.js says of the document.
type walkMeta struct {
	Parts      []int      `json:"parts"` // of each list, where they are not in the answer
	Kept       []int      `json:"kept"`  // how many of them must be fetched
	Token      string     `json:"token"`
	Walk       int        `json:"walk"`
	URL        string     `json:"url"`
	Title      string     `json:"title"`
	Ref        int        `json:"ref"` // the highest ref ever given in this document
	Ready      string     `json:"ready"`
	VW         int        `json:"vw"`
	VH         int        `json:"vh"`
	SX         int        `json:"sx"`
	SY         int        `json:"sy"`
	DW         int        `json:"dw"`
	DH         int        `json:"dh"`
	Tags       []string   `json:"tags"`
	Kinds      []int      `json:"kinds"` // pairs of a tag and the flags of an element
	Focus      int        `json:"focus"`
	Focused    bool       `json:"focused"`
	Left       int        `json:"left"`      // elements that the walk did not reach
	Truncated  string     `json:"truncated"` // "rows" or "time" then
	TextsCut   int        `json:"textsCut"`  // characters left out of texts
	HostsLeft  int        `json:"hostsLeft"` // possible closed shadow roots not asked about
	Ms         int        `json:"ms"`
	Frames     []frameBox `json:"frames"`
	LostRows   int        `json:"-"`
	Listenings int        `json:"-"` // listeners whose element was not looked up
}

// relations are what a document says of its elements, by row.
type relations struct {
	labels     map[int][]int // of a control: the rows of its labels, in order
	labelFor   map[int]int   // of a label: its control
	labelledBy map[int][]int
	owns       map[int][]int
}

// decodeRows reads the columns of js/walk.js.
func decodeRows(meta *walkMeta, columns, texts, attrs, rels string) ([]row, relations, error) {
	rel := relations{labels: map[int][]int{}, labelFor: map[int]int{}, labelledBy: map[int][]int{}, owns: map[int][]int{}}
	rows := make([]row, 0, countRows(meta, columns))
	in := packed{s: columns}
	var path []int // the open row of each depth
	num, x, y := 0, 0, 0
	for in.more() {
		kind, depth := in.next(), in.next()
		if depth > len(path) {
			return nil, rel, fmt.Errorf("decoding a walk: row %d has the depth %d in %d", len(rows), depth, len(path))
		}
		r := row{inside: -1}
		if depth > 0 {
			r.inside = int32(path[depth-1])
		}
		path = append(path[:depth], len(rows))
		if kind < 2 {
			r.text, texts, _ = strings.Cut(texts, "\f")
			if kind == 1 {
				r.flags = rowSpace
			}
			rows = append(rows, r)
			continue
		}
		at := 2 * (kind - 2)
		if at+1 >= len(meta.Kinds) {
			return nil, rel, fmt.Errorf("decoding a walk: kind %d of %d", kind, len(meta.Kinds)/2)
		}
		tag := meta.Kinds[at]
		if tag < 0 || tag >= len(meta.Tags) {
			return nil, rel, fmt.Errorf("decoding a walk: tag %d of %d", tag, len(meta.Tags))
		}
		r.tag, r.flags = meta.Tags[tag], int32(meta.Kinds[at+1])
		if r.flags&rowCandidate != 0 {
			num, x, y = num+in.signed(), x+in.signed(), y+in.signed()
			r.number, r.x, r.y, r.w, r.h = int32(num), int32(x), int32(y), int32(in.next()), int32(in.next())
		}
		if r.flags&rowAttrs != 0 {
			r.attrs, attrs, _ = strings.Cut(attrs, "\f")
		}
		rows = append(rows, r)
	}
	if in.bad {
		return nil, rel, fmt.Errorf("decoding a walk: the columns are no numbers")
	}
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		r.after = max(r.after, int32(i+1))
		if r.inside >= 0 {
			around := &rows[r.inside]
			around.after = max(around.after, r.after)
		}
	}
	for one := range strings.SplitSeq(rels, ";") {
		kind, list, ok := strings.Cut(one, ",")
		if !ok {
			continue
		}
		var to []int
		ids := numbers{s: list}
		for ids.more() {
			if n := ids.next(); n >= 0 && n < len(rows) {
				to = append(to, n)
			}
		}
		if len(to) < 2 || ids.bad {
			continue
		}
		from := to[0]
		switch kind {
		case "l":
			rel.labels[to[1]] = append(rel.labels[to[1]], from)
			rel.labelFor[from] = to[1]
		case "b":
			rel.labelledBy[from] = to[1:]
		case "o":
			rel.owns[from] = to[1:]
		}
	}
	return rows, rel, nil
}

// countRows counts the rows of the columns, for room that is neither too little
// nor too much.
func countRows(meta *walkMeta, columns string) int {
	in := packed{s: columns}
	n := 0
	for ; in.more(); n++ {
		kind := in.next()
		in.next()
		if at := 2*(kind-2) + 1; kind >= 2 && at < len(meta.Kinds) && meta.Kinds[at]&rowCandidate != 0 {
			for range 5 {
				in.next()
			}
		}
	}
	return n
}

// packed reads the whole numbers of js/walk.js's columns.
type packed struct {
	s   string
	bad bool
}

func (p *packed) more() bool { return p.s != "" && !p.bad }

func (p *packed) next() int {
	n := 0
	for i := range min(len(p.s), 7) {
		c := int(p.s[i])
		if c > 92 {
			c--
		}
		if c -= 35; c < 0 || c > 63 || p.s[i] == 92 {
			break
		}
		n |= c & 31 << (5 * i)
		if c < 32 {
			p.s = p.s[i+1:]
			return n
		}
	}
	p.bad = true
	return 0
}

// signed is a number that may be less than zero.
func (p *packed) signed() int {
	n := p.next()
	if n&1 == 1 {
		return -(n + 1) / 2
	}
	return n / 2
}

// numbers reads whole numbers separated by commas.
type numbers struct {
	s   string
	bad bool
}

func (n *numbers) more() bool { return n.s != "" && !n.bad }

func (n *numbers) next() int {
	i, neg := 0, false
	if i < len(n.s) && n.s[i] == '-' {
		neg, i = true, 1
	}
	v, start := 0, i
	for i < len(n.s) && n.s[i] != ',' {
		d := n.s[i] - '0'
		if d > 9 || i-start > 15 {
			n.bad = true
			return 0
		}
		v = v*10 + int(d)
		i++
	}
	if i == start {
		n.bad = true
		return 0
	}
	if i < len(n.s) {
		i++
	}
	n.s = n.s[i:]
	if neg {
		return -v
	}
	return v
}

// href is where a link leads, in full. js/walk.js tells it only where it cannot
// be put together from the attribute.
func (v *view) href(i int) string {
	r := &v.rows[i]
	if s := r.get("~u"); s != "" {
		return s
	}
	s := first(r, "href", "xlink:href")
	page, _, _ := strings.Cut(v.meta.URL, "#")
	switch {
	case r.tag != "a" && r.tag != "area":
		return s
	case strings.HasPrefix(s, "#"):
		return page + s
	case strings.HasPrefix(s, "/"):
		scheme, rest, _ := strings.Cut(page, "://")
		host, _, _ := strings.Cut(rest, "/")
		host, _, _ = strings.Cut(host, "?")
		return scheme + "://" + host + s
	}
	return s
}
