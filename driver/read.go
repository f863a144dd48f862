package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of a read.
const (
	readChars     = 12_000
	maxReadBlocks = 1000
	maxBlockLinks = 8
)

// ReadOptions are the fields of chrome_read but the tab.
type ReadOptions struct {
	Ref      string `json:"ref,omitzero" pattern:"^@?(?:el|frontier)-\\d+$" brief:"only el-N, or go on at frontier-N" jsonschema:"read only this element (el-N), of a field all that it holds, or go on where a frontier-N stopped"`
	View     string `json:"view,omitzero" enum:"content|outline" brief:"" jsonschema:"content (default) or only the headings"`
	Query    string `json:"query,omitzero" maxLength:"500" brief:"only what has this text" jsonschema:"only what contains this text"`
	MaxChars int    `json:"maxChars,omitzero" min:"1" max:"24000" brief:"default 12000" jsonschema:"characters at most; 12000 when absent"`
}

// BlockOut is one piece of the content.
type BlockOut struct {
	Kind      string       `json:"kind" enum:"heading|paragraph|listItem|link|tableRow|code|quote|field|term|caption|frame"`
	UID       string       `json:"uid" jsonschema:"the element's ref; empty when it has gone meanwhile"`
	Text      string       `json:"text"`
	Level     int          `json:"level,omitempty" jsonschema:"of a heading"`
	Depth     int          `json:"depth,omitempty" jsonschema:"how deep a list item stands in lists"`
	Number    int          `json:"number,omitempty" jsonschema:"of an item of an ordered list"`
	Continued bool         `json:"continued,omitempty" jsonschema:"it goes on with the block before it"`
	Context   *Place       `json:"context,omitempty" jsonschema:"the landmark around it"`
	Links     []LinkOut    `json:"links"`
	State     *ActionState `json:"state,omitempty" jsonschema:"of a field"`
}

// LinkOut is a link of a block.
type LinkOut struct {
	UID  string `json:"uid"`
	Text string `json:"text"`
	Href string `json:"href"`
}

// CoverageOut says how much of the content was returned.
type CoverageOut struct {
	ReturnedBlocks     int  `json:"returnedBlocks"`
	TotalBlocks        int  `json:"totalBlocks"`
	ReturnedCharacters int  `json:"returnedCharacters"`
	Truncated          bool `json:"truncated"`
}

// ReadOut is the result of chrome_read.
type ReadOut struct {
	Title     string        `json:"title"`
	URL       string        `json:"url"`
	View      string        `json:"view"`
	Query     string        `json:"query,omitempty"`
	Blocks    []BlockOut    `json:"blocks"`
	Frontiers []FrontierOut `json:"frontiers"`
	Coverage  CoverageOut   `json:"coverage"`
	Frames    []FrameNote   `json:"frames,omitempty" jsonschema:"frames that could not be read, or not wholly"`
	Cost      CostOut       `json:"cost"`

	text string
}

// Text is the form of contract §1.10.
func (o ReadOut) Text() string { return o.text }

// read reads the content of the tab. It changes nothing in the page. A page
// that navigates meanwhile is read once more.
func (t *Tab) read(ctx context.Context, in ReadOptions) (ReadOut, error) {
	out, err := t.readOnce(ctx, in)
	if isCode(err, op.DocumentChanged) && ctx.Err() == nil {
		out, err = t.readOnce(ctx, in)
	}
	return out, err
}

func (t *Tab) readOnce(ctx context.Context, in ReadOptions) (ReadOut, error) {
	done, err := t.lookTurn(ctx)
	if err != nil {
		return ReadOut{}, err
	}
	defer done()
	f := &frontier{projection: "content", name: "More page content", view: in.View, query: in.Query, chars: readChars}
	if f.view == "" {
		f.view = "content"
	}
	ref := cleanRef(in.Ref)
	stale := func(why string) error {
		return op.Reject(op.StaleContentRef, "ref %s on tab %d cannot be read on: %s", ref, t.conn.Key().TabID, why).
			WithHint("read the page again without ref").WithDetail("ref", ref)
	}
	t.mu.Lock()
	past := t.observed.frontiers[ref]
	k := t.observed.byRef[ref]
	if k != nil {
		f.subject = k.key
	}
	t.mu.Unlock()
	switch {
	case strings.HasPrefix(ref, "frontier-") && past == nil:
		return ReadOut{}, stale("nothing on this tab has shown it, or it is too old")
	case past != nil && past.projection != "content":
		return ReadOut{}, stale("it goes on with actions: expand it with chrome_snapshot")
	case past != nil:
		next := *past
		next.id = ""
		f = &next
	case ref != "" && k == nil:
		return ReadOut{}, stale("no snapshot or read of this tab has shown it, or its page has gone")
	}
	if f.chars = readChars; in.MaxChars > 0 {
		f.chars = in.MaxChars
	}
	sc, err := t.gather(ctx)
	if err != nil {
		return ReadOut{}, err
	}
	at := spot{}
	if f.subject != (nodeKey{}) {
		if at = sc.find(f.subject); !at.ok() {
			return ReadOut{}, stale("its element has gone from the page")
		}
		if err := t.whole(ctx, sc, at); err != nil {
			return ReadOut{}, err
		}
	}
	all, left := sc.blocks()
	if at.ok() {
		all = slices.DeleteFunc(all, func(b *content) bool { return !at.within(b.v, max(b.row, 0)) })
	}
	total := len(f.matching(all))
	list := f.cutOut(all)
	if past != nil && printBlocks(list) != past.print {
		return ReadOut{}, stale("the content that it left out has changed")
	}
	return t.readOut(ctx, sc, f, list, total, left)
}

// matching are the blocks that view and query ask for.
func (f *frontier) matching(all []*content) []*content {
	var out []*content
	for _, b := range all {
		if f.view == "outline" && b.kind != kindHeading {
			continue
		}
		if f.query != "" && !hasFold(b.text, f.query) && !slices.ContainsFunc(b.links, func(l contentLink) bool { return hasFold(l.text, f.query) || hasFold(l.href, f.query) }) {
			continue
		}
		out = append(out, b)
	}
	return out
}

// cutOut are the blocks that a content frontier stands for.
func (f *frontier) cutOut(all []*content) []*content {
	list := f.matching(all)
	list = list[min(f.offset, len(list)):]
	if f.limit > 0 {
		list = list[:min(f.limit, len(list))]
	}
	return list
}

// printBlocks tells two readings apart.
func printBlocks(list []*content) fnv {
	h := newFNV()
	for _, b := range list {
		h = h.add(b.kind, b.text)
	}
	return h
}

func (t *Tab) readOut(ctx context.Context, sc *scene, f *frontier, list []*content, total, left int) (ReadOut, error) {
	m := sc.main()
	o := ReadOut{Title: m.meta.Title, URL: m.meta.URL, View: f.view, Query: f.query, Blocks: []BlockOut{}, Frontiers: []FrontierOut{}, Frames: sc.unread}
	title := oneLine(o.Title)
	if title == "" {
		title = "(untitled)"
	}
	top := fmt.Sprintf("# Chrome read (%s)\n%s\n%s\n", f.view, guard(head(title, 200)), head(o.URL, 400))
	var notes strings.Builder
	for i, n := range o.Frames {
		if i == 6 {
			fmt.Fprintf(&notes, "frames: %d more could not be read wholly\n", len(o.Frames)-i)
			break
		}
		fmt.Fprintf(&notes, "frames: %s: %s\n", head(n.URL, 120), n.Reason)
	}
	if left > 0 {
		fmt.Fprintf(&notes, "%s beyond the first %d were not read\n", plural(left, "block"), maxBlocks)
	}
	// Room for the lines that say how much there is and where to go on.
	room := f.chars - runes(top) - runes(notes.String()) - 150
	var texts []string
	kept, chars := 0, 0
	prev := ""
	for _, b := range list {
		s := readText(b, prev, max(room, 40))
		if n := runes(s); kept > 0 && (n > room || kept >= maxReadBlocks) {
			break
		} else {
			room -= n
		}
		texts = append(texts, s)
		chars += runes(b.text)
		prev = b.kind
		kept++
	}
	shown := list[:kept]
	var spots []spot
	for _, b := range shown {
		if b.row >= 0 {
			spots = append(spots, b.spot)
		}
		if b.region.ok() && b.region.row >= 0 {
			spots = append(spots, b.region)
		}
		for _, l := range b.links[:min(len(b.links), maxBlockLinks)] {
			spots = append(spots, l.spot)
		}
	}
	found := map[spot]*described{}
	if len(spots) > 0 {
		var err error
		if found, err = t.describe(ctx, spots, true); err != nil {
			return ReadOut{}, err
		}
	}
	t.beginObservation(sc)
	for _, b := range shown {
		uid := ""
		if b.row >= 0 {
			if k := t.mention(found, b.spot, b.v.role(b.row), b.text); k != nil {
				uid = k.ref
			}
		}
		o.Blocks = append(o.Blocks, t.blockOut(found, b, uid))
	}
	o.Coverage = CoverageOut{ReturnedBlocks: kept, TotalBlocks: total, ReturnedCharacters: chars, Truncated: kept < len(list)}
	var b strings.Builder
	b.WriteString(top)
	fmt.Fprintf(&b, "blocks: %d/%d, characters: %d\n", kept, total, chars)
	for _, s := range texts {
		b.WriteString(s)
	}
	if rest := list[kept:]; len(rest) > 0 {
		next := *f
		next.offset += kept
		if f.limit > 0 {
			next.limit = f.limit - kept
		}
		next.print = printBlocks(rest)
		next.name = "More page content"
		if f.view == "outline" {
			next.name = "More outline"
		}
		fo := t.addFrontier(&next)
		fo.Omitted = len(rest)
		o.Frontiers = append(o.Frontiers, fo)
		fmt.Fprintf(&b, "\nmore: @%s omitted=%d [expand with chrome_read]\n", fo.ID, fo.Omitted)
	}
	b.WriteString(notes.String())
	t.mu.Lock()
	t.observed.trimLocked()
	t.mu.Unlock()
	o.text = fit(strings.TrimRight(b.String(), "\n"), max(f.chars, 1))
	n := runes(o.text)
	o.Cost = CostOut{Characters: n, Bytes: len(o.text), EstimatedTokens: (n + 3) / 4}
	return o, nil
}

// blockOut is a block as programs get it.
func (t *Tab) blockOut(found map[spot]*described, b *content, uid string) BlockOut {
	o := BlockOut{Kind: b.kind, UID: uid, Text: b.text, Level: b.level, Depth: b.depth, Number: b.ordinal, Continued: b.continued, Links: []LinkOut{}}
	if b.role != "" {
		o.State = new(b.v.state(b.row, b.role))
	}
	if b.region.ok() && b.region.row >= 0 {
		role, name := b.region.v.role(b.region.row), (&region{spot: b.region}).title()
		if k := t.mention(found, b.region, role, name); k != nil {
			o.Context = &Place{UID: k.ref, Role: role, Label: head(name, maxMatchText)}
		}
	}
	for _, l := range b.links[:min(len(b.links), maxBlockLinks)] {
		if k := t.mention(found, l.spot, "link", l.text); k != nil {
			o.Links = append(o.Links, LinkOut{UID: k.ref, Text: l.text, Href: l.href})
		}
	}
	return o
}

// readText is a block in the text form; prev is the kind of the one before.
func readText(b *content, prev string, room int) string {
	var s strings.Builder
	text := guard(oneLine(b.text))
	gap := func(kind string) {
		if prev != kind {
			s.WriteByte('\n')
		}
	}
	switch b.kind {
	case kindHeading:
		fmt.Fprintf(&s, "\n%s %s\n", strings.Repeat("#", max(1, min(b.level, 6))), oneLine(b.text))
	case kindListItem:
		gap(kindListItem)
		mark := "- "
		if b.ordinal > 0 {
			mark = itoa(b.ordinal) + ". "
		}
		if b.continued {
			mark = strings.Repeat(" ", len(mark))
		}
		fmt.Fprintf(&s, "%s%s%s\n", strings.Repeat("  ", max(0, b.depth-1)), mark, oneLine(b.text))
	case kindRow:
		gap(kindRow)
		s.WriteString(oneLine(b.text) + "\n")
	case kindCode:
		fmt.Fprintf(&s, "\n%s\n", indent(b.text))
	case kindQuote:
		fmt.Fprintf(&s, "\n> %s\n", oneLine(b.text))
	case kindField:
		gap(kindField)
		s.WriteString(text + "\n")
	case kindTerm:
		fmt.Fprintf(&s, "\n%s\n", text)
	case kindFrame:
		fmt.Fprintf(&s, "\nframe: %s\n", oneLine(b.text))
	default:
		fmt.Fprintf(&s, "\n%s\n", text)
	}
	for i, l := range b.links {
		if i == maxBlockLinks {
			fmt.Fprintf(&s, "  … %s more\n", plural(len(b.links)-i, "link"))
			break
		}
		fmt.Fprintf(&s, "  link %s %s\n", oneLine(l.text), head(l.href, 300))
	}
	if runes(s.String()) > room {
		// Only the first block of a call can be longer than all the room:
		// its links go first, then it is cut with a count.
		return fit(s.String(), room) + "\n"
	}
	return s.String()
}
