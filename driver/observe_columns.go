package driver

import (
	"fmt"
	"strconv"
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
	attrs  string // "key=value" separated by U+0002; "~key" is the control's state
	parent int    // -1 for none
	end    int    // the first row after its subtree
	flags  int
	num    int // the element's number in its document; 0 for none
	x, y   int // of a candidate, in the frame's viewport
	w, h   int

	before, after string // what ::before and ::after say
	transform     byte   // u, l or c: text-transform of its texts
}

func (r *row) has(flag int) bool { return r.flags&flag != 0 }

// attr returns an attribute of the row and whether it is there.
func (r *row) attr(key string) (string, bool) {
	rest := r.attrs
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "\x02")
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
	rows := make([]row, 0, strings.Count(columns, ",")/4+1)
	rel := relations{labels: map[int][]int{}, labelFor: map[int]int{}, labelledBy: map[int][]int{}, owns: map[int][]int{}}
	in := numbers{s: columns}
	for in.more() {
		n := in.next()
		if n < 0 {
			n = -n - 1
			var text string
			text, texts, _ = strings.Cut(texts, "\x01")
			r := row{text: text, parent: len(rows) - n/2}
			if n/2 == 0 {
				r.parent = -1
			}
			if n%2 == 1 {
				r.flags = rowSpace
			}
			rows = append(rows, r)
			continue
		}
		delta, flags := in.next(), in.next()
		if n >= len(meta.Tags) {
			return nil, rel, fmt.Errorf("decoding a walk: tag %d of %d", n, len(meta.Tags))
		}
		r := row{tag: meta.Tags[n], parent: len(rows) - delta, flags: flags}
		if delta == 0 {
			r.parent = -1
		}
		if flags&rowCandidate != 0 {
			r.num, r.x, r.y, r.w, r.h = in.next(), in.next(), in.next(), in.next(), in.next()
		}
		rows = append(rows, r)
	}
	if in.bad {
		return nil, rel, fmt.Errorf("decoding a walk: the columns are no numbers")
	}
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		if r.parent >= i || r.parent < -1 {
			return nil, rel, fmt.Errorf("decoding a walk: row %d has the parent %d", i, r.parent)
		}
		r.end = max(r.end, i+1)
		if r.parent >= 0 {
			rows[r.parent].end = max(rows[r.parent].end, r.end)
		}
	}
	for one := range strings.SplitSeq(attrs, "\x01") {
		at, list, ok := strings.Cut(one, "\x03")
		if i, err := strconv.Atoi(at); ok && err == nil && i >= 0 && i < len(rows) {
			rows[i].attrs = list
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
