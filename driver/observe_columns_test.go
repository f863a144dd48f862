package driver

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

func TestDecodeRows(t *testing.T) {
	meta := &walkMeta{Tags: []string{"div", "label", "input"}, Kinds: []int{0, 1, 1, 2051, 2, 6147}}
	columns := pack(2, 0, 3, 1, 7*2, 10*2, 2000*2, 30, 40, 0, 2, 4, 1, 1*2, 9*2-1, 1998*2-1, 3, 4, 0, 0)
	rows, rel, err := decodeRows(meta, columns, "Name\f tail", "type=text\b~v=a=b", "l,1,3;b,3,1,2;x;q,1,2")
	assert.NilError(t, err)
	assert.Equal(t, len(rows), 5)
	assert.Equal(t, rows[1].num(), 7)
	assert.Equal(t, rows[1].w, int32(30))
	assert.Equal(t, rows[1].end(), 3)
	assert.Equal(t, rows[2].text, "Name")
	assert.Equal(t, rows[2].parent(), 1)
	assert.Equal(t, rows[3].get("~v"), "a=b")
	assert.Equal(t, rows[3].get("typ"), "")
	assert.Equal(t, rows[3].num(), 8)
	assert.Equal(t, rows[3].x, int32(1))
	assert.Equal(t, rows[3].y, int32(2))
	assert.Equal(t, rows[3].h, int32(4))
	assert.Equal(t, rows[0].end(), 4)
	assert.Equal(t, rows[4].parent(), -1)
	assert.DeepEqual(t, rel.labels[3], []int{1})
	assert.DeepEqual(t, rel.labelledBy[3], []int{1, 2})
}

// pack writes numbers as js/walk.js does.
func pack(list ...int) string {
	var b []byte
	for _, n := range list {
		for more := true; more; {
			c := n & 31
			if n >>= 5; n > 0 {
				c += 32
			}
			if more, c = n > 0, c+35; c >= 92 {
				c++
			}
			b = append(b, byte(c))
		}
	}
	return string(b)
}

func TestPackedNumbers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOf(rapid.IntRange(0, 1<<31)).Draw(rt, "numbers")
		in := packed{s: pack(list...)}
		for _, n := range list {
			assert.Equal(t, in.next(), n)
		}
		assert.Assert(t, !in.more() && !in.bad)
	})
}

func TestDecodeRowsRefusesNonsense(t *testing.T) {
	for what, columns := range map[string]string{"kind": pack(9, 0), "tag": pack(3, 0), "depth": pack(2, 1), "an end too early": pack(2), "a number too long": "kkkkkkkkkkkkkk#", "other characters": "\\\"", "letters": "é#"} {
		_, _, err := decodeRows(&walkMeta{Tags: []string{"div"}, Kinds: []int{0, 1, 7, 1}}, columns, "", "", "")
		assert.Assert(t, err != nil, what)
	}
}

// Whatever a page's world returns, decoding neither panics nor makes rows that
// point outside themselves.
func FuzzDecodeRows(f *testing.F) {
	f.Add(pack(2, 0, 3, 1, 14, 20, 40, 30, 40, 0, 2, 4, 1, 2, 17, 36, 3, 4), "Name", "type=text", "l,1,0")
	f.Fuzz(func(t *testing.T, columns, texts, attrs, rels string) {
		rows, rel, err := decodeRows(&walkMeta{Tags: []string{"div", "button", "input"}, Kinds: []int{0, 1, 1, 2051, 2, 6147}}, columns, texts, attrs, rels)
		if err != nil {
			return
		}
		v := &view{rows: rows, rel: rel, sx: 1, sy: 1}
		sc := &scene{views: []*view{v}}
		v.cx1, v.cy1 = 100, 100
		named(sc.survey().actions)
		sc.blocks()
		for i, r := range rows {
			assert.Assert(t, r.parent() < i && r.end() > i && r.end() <= len(rows))
		}
	})
}

// outline makes a view from an indented outline of `tag key=value; key=value`
// and `"text"` lines.
func outline(t testing.TB, lines string) *view {
	t.Helper()
	v := &view{sx: 1, sy: 1, cx1: 1000, cy1: 1000, rel: relations{labels: map[int][]int{}, labelFor: map[int]int{}, labelledBy: map[int][]int{}, owns: map[int][]int{}}}
	var at []int // the row open at each depth
	for line := range strings.SplitSeq(strings.Trim(lines, "\n"), "\n") {
		text := strings.TrimLeft(line, "\t")
		depth := len(line) - len(text)
		at = at[:depth]
		r := row{inside: -1, number: int32(len(v.rows) + 1), flags: rowBox | rowView | rowCandidate, w: 50, h: 50}
		if depth > 0 {
			r.inside = int32(at[depth-1])
		}
		if quoted, ok := strings.CutPrefix(text, `"`); ok {
			r.text, r.number, r.flags = strings.TrimSuffix(quoted, `"`), 0, 0
		} else {
			tag, attrs, _ := strings.Cut(text, " ")
			r.tag = tag
			if attrs != "" {
				r.attrs = strings.ReplaceAll(attrs, "; ", "\b")
			}
			switch tag {
			case "span", "a", "b", "img", "input", "select", "button", "label", "i", "svg:svg":
				r.flags |= rowInline
			}
		}
		at = append(at, len(v.rows))
		v.rows = append(v.rows, r)
	}
	for i := len(v.rows) - 1; i >= 0; i-- {
		r := &v.rows[i]
		r.after = max(r.after, int32(i+1))
		if r.inside >= 0 {
			v.rows[r.inside].after = max(v.rows[r.inside].after, r.after)
		}
	}
	return v
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		what, page string
		row        int
		want       string
		link       func(v *view)
	}{
		{"content", "button\n\t\"Save\"\n\tspan\n\t\t\" all\"", 0, "Save all", nil},
		{"inline parts touch", "button\n\tspan\n\t\t\"Sa\"\n\tspan\n\t\t\"ve\"", 0, "Save", nil},
		{"blocks do not touch", "button\n\tdiv\n\t\t\"Save\"\n\tdiv\n\t\t\"all\"", 0, "Save all", nil},
		{"label before content", "button aria-label=Close\n\t\"x\"", 0, "Close", nil},
		{"blank label", "button aria-label= \n\t\"x\"", 0, "x", nil},
		{"hidden part", "button\n\t\"Save\"\n\tspan aria-hidden=true\n\t\t\"icon\"", 0, "Save", nil},
		{"picture", "a href=#\n\timg alt=Home", 0, "Home", nil},
		{"title at last", "button title=Help", 0, "Help", nil},
		{"relation", "input ~t=text; aria-label=no\nspan\n\t\"First\"\nspan\n\t\"Second\"", 0, "First Second", func(v *view) { v.rel.labelledBy[0] = []int{1, 3} }},
		{"label around the control", "label\n\t\"Flash \"\n\tinput ~t=text; ~v=7\n\t\" times\"", 2, "Flash times", func(v *view) { v.rel.labels[2] = []int{0} }},
		{"label with another control", "label\n\t\"Every \"\n\tinput ~t=text; ~v=7\n\t\" days\"\ninput ~t=checkbox", 4, "Every 7 days", func(v *view) { v.rel.labels[4] = []int{0} }},
		{"placeholder", "input ~t=text; placeholder=Mail", 0, "Mail", nil},
		{"submit", "input ~t=submit", 0, "Submit", nil},
		{"legend", "fieldset\n\tlegend\n\t\t\"Address\"", 0, "Address", nil},
		{"generic has none", "div\n\t\"text\"", 0, "", nil},
		{"generated content", "button\n\t\"Save\"", 0, "» Save", func(v *view) { v.rows[0].styled = &generated{before: "» "} }},
		{"capitals", "button\n\t\"Save\"", 0, "SAVE", func(v *view) { v.rows[0].styled = &generated{transform: 'u'} }},
		{"a circle of relations", "span\n\t\"a\"\nspan\n\t\"b\"", 0, "b", func(v *view) { v.rel.labelledBy[0] = []int{2}; v.rel.labelledBy[2] = []int{0} }},
	} {
		v := outline(t, c.page)
		if c.link != nil {
			c.link(v)
		}
		assert.Equal(t, v.name(c.row), c.want, c.what)
	}
}

func TestVerbs(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{"button", "click"}, {"a href=#x", "click"}, {"a", ""}, {"input ~t=text", "fill press"}, {"input ~t=file", "upload"}, {"textarea", "fill press"},
		{"input ~t=text; readonly=", "click press"}, {"select ~lb=0", "click press fill"}, {"div role=combobox", "click press"}, {"div role=textbox", "fill press"},
		{"div tabindex=0", "click"}, {"div tabindex=-1", ""}, {"div role=button; aria-disabled=true", ""}, {"div onclick=x", "click"}, {"div", ""},
	} {
		v := outline(t, c.page)
		assert.Equal(t, strings.Join(v.verbs(0), " "), c.want, c.page)
	}
}

// Whatever the tree, each action belongs to one region, and reading gives each
// text once.
func TestSurveyProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tags := []string{"div", "section aria-label=S", "ul", "li", "form", "nav", "button", "a href=#", "input ~t=text", "table", "tr", "td", "p", "span", "h2"}
		var b strings.Builder
		depth, most, texts := 0, 0, 0
		n := rapid.IntRange(1, 60).Draw(rt, "rows")
		for i := range n {
			if i > 0 {
				depth = rapid.IntRange(0, most).Draw(rt, "depth")
			}
			b.WriteString(strings.Repeat("\t", depth))
			if i > 0 && rapid.IntRange(0, 2).Draw(rt, "kind") == 0 {
				texts++
				b.WriteString("\"word" + itoa(texts) + "\"\n")
				most = depth // nothing stands in a text
				continue
			}
			tag := rapid.SampledFrom(tags).Draw(rt, "tag")
			b.WriteString(tag + "\n")
			if most = depth + 1; strings.HasPrefix(tag, "input") {
				most = depth // it has no children
			}
		}
		v := outline(t, b.String())
		sc := &scene{views: []*view{v}}
		sv := sc.survey()
		total := 0
		seen := map[*action]bool{}
		for _, r := range sv.regions {
			for _, a := range r.actions {
				assert.Assert(t, !seen[a] && a.region == r)
				seen[a] = true
				total++
			}
		}
		assert.Equal(t, total, len(sv.actions))
		blocks, left := sc.blocks()
		assert.Equal(t, left, 0)
		all := ""
		for _, bl := range blocks {
			all += " " + bl.text + " "
		}
		for k := 1; k <= texts; k++ {
			assert.Assert(t, strings.Contains(all, "word"+itoa(k)), "word%d of\n%s\nin %s", k, b.String(), all)
		}
	})
}

func TestGuard(t *testing.T) {
	for _, s := range []string{"- @el-1 x", "# a", "@el-1", "more: x", "| a", "blocks: 3"} {
		assert.Assert(t, strings.HasPrefix(guard(s), `\`), s)
	}
	assert.Equal(t, guard("plain - text"), "plain - text")
	assert.Equal(t, guard(""), "")
}

func TestOneLine(t *testing.T) {
	assert.Equal(t, oneLine("a\n\tb\u2028c"), "a b c")
	assert.Equal(t, oneLine("\u202eabc\x00d"), "abc d")
	assert.Equal(t, oneLine("👩‍👩‍👧 é"), "👩‍👩‍👧 é")
	assert.Equal(t, quoteName("say \"a\"\n", 10), `"say \"a\""`)
}

func TestSecret(t *testing.T) {
	for _, s := range []string{"Password", "API key", "api_key", "access-key", "One-time code", "CVV", "Card number", "cc-csc", "Social Security number", "Auth code", "2FA"} {
		assert.Assert(t, secret(s), s)
	}
	for _, s := range []string{"", "Name", "Town", "robot phone", "not possible", "Keyboard access"} {
		assert.Assert(t, !secret(s), s)
	}
}
