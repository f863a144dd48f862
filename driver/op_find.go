package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of chrome_find.
const (
	defaultFound = 20
	foundText    = 160
)

// FindIn is the input of chrome_find.
type FindIn struct {
	Query       string `json:"query,omitzero" maxLength:"500" brief:"words; best match first" jsonschema:"words to look for in controls and texts; what fits best comes first"`
	Role        string `json:"role,omitzero" maxLength:"60" brief:"" jsonschema:"only this role, as snapshots show it, such as button, link, textbox, heading"`
	Name        string `json:"name,omitzero" maxLength:"500" brief:"" jsonschema:"a part of the accessible name"`
	Text        string `json:"text,omitzero" maxLength:"500" brief:"" jsonschema:"a part of the text: the smallest element that has it, or the control around that"`
	Label       string `json:"label,omitzero" maxLength:"500" brief:"" jsonschema:"a part of a control's label"`
	Placeholder string `json:"placeholder,omitzero" maxLength:"500" brief:"" jsonschema:"a part of a field's placeholder"`
	TestID      string `json:"testId,omitzero" maxLength:"200" brief:"" jsonschema:"the data-testid, as a whole"`
	Exact       bool   `json:"exact,omitzero" brief:"whole texts with case; else parts" jsonschema:"compare whole texts with their case; parts in any case without it"`
	Limit       int    `json:"limit,omitzero" min:"1" max:"80" brief:"default 20" jsonschema:"matches at most; 20 when absent"`
	op.TabInput
}

// FindMatch is one element that fits.
type FindMatch struct {
	UID        string      `json:"uid"`
	Tag        string      `json:"tag"`
	Role       string      `json:"role"`
	Name       string      `json:"name"`
	Text       string      `json:"text,omitempty" jsonschema:"what it says, at most 160 characters, where that is not its name"`
	State      ActionState `json:"state"`
	Verbs      []string    `json:"verbs" jsonschema:"what can be done with it by its uid"`
	InViewport bool        `json:"inViewport"`
	Rect       rect        `json:"rect"`
	Context    string      `json:"context,omitempty" jsonschema:"the part of the page that it stands in"`
	Frame      string      `json:"frame,omitempty" jsonschema:"address of its frame, where that is not the page itself"`
	Score      int         `json:"score,omitempty" jsonschema:"how well it fits the words"`
}

// FindOut is the result of chrome_find.
type FindOut struct {
	Title   string      `json:"title"`
	URL     string      `json:"url"`
	Asked   string      `json:"asked"`
	Total   int         `json:"total" jsonschema:"how many fit"`
	Shown   int         `json:"shown" jsonschema:"how many of them are returned"`
	Matches []FindMatch `json:"matches"`
	Frames  []FrameNote `json:"frames,omitempty" jsonschema:"frames that could not be read, or not wholly"`
	Cost    CostOut     `json:"cost"`

	text string
}

// Text is one line a match, as in a snapshot.
func (o FindOut) Text() string { return o.text }

var opFind = op.Define(op.Spec{
	Name: "page.find", Tool: "chrome_find", Profile: "page", Title: "Find",
	Summary: "Find elements by role, name, text, label, placeholder, test id or words, in every frame.",
	Brief:   "Find elements, in every frame; all that is given must fit. Cheaper than a snapshot.",
	Doc: "Searches the whole page, in view or not, through frames and shadow roots, and changes nothing. All that is given must hold; `query` ranks by words. " +
		"Each match has its `uid`, and one that can be acted on the verbs for it, as in a snapshot: use it with chrome_click, chrome_fill and the like. " +
		"Only what a person can see or use is found. `total` counts all that fit. It is cheaper than a snapshot when you know what you want.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"query"},
	Examples: []op.Example{
		{Title: "Find a button by its name", Page: "find/form.html", Input: json.RawMessage(`{"role":"button","name":"Save"}`)},
		{Title: "Find a field by its label", Page: "find/form.html", Input: json.RawMessage(`{"label":"Email"}`)},
		{Title: "Find what fits some words", Page: "find/form.html", Input: json.RawMessage(`{"query":"delivery address","limit":5}`)},
	},
	Errors: []op.Code{op.InvalidInput, op.DocumentChanged, op.DialogOpen},
}, find)

// sought is what the input asks for.
func (in FindIn) sought() FindQuery {
	return FindQuery{Query: strings.TrimSpace(in.Query),
		FindBy: FindBy{Role: in.Role, Name: in.Name, Label: in.Label, Placeholder: in.Placeholder, Text: in.Text, TestID: in.TestID, Exact: in.Exact}}
}

// Check refuses a search that asks for nothing.
func (in FindIn) Check() error {
	if q := in.sought(); len(queryWords(q.Query)) == 0 && q.FindBy.IsZero() {
		return op.Invalidf("chrome_find: one of query, role, name, text, label, placeholder or testId is required")
	}
	return nil
}

func find(ctx context.Context, c *Call, in FindIn) (FindOut, error) {
	q := in.sought()
	limit := defaultFound
	if in.Limit > 0 {
		limit = in.Limit
	}
	res, err := c.tab.find(ctx, q, limit)
	if err != nil {
		return FindOut{}, err
	}
	m := res.scene.main()
	out := FindOut{Title: m.meta.Title, URL: m.meta.URL, Asked: q.String(), Total: res.total, Shown: len(res.list), Matches: []FindMatch{}, Frames: res.scene.unread}
	p := &sheet{room: snapshotChars}
	p.add("# Chrome find", true)
	p.add(oneLine(m.meta.Title), true)
	p.add(m.meta.URL, true)
	p.add(fmt.Sprintf("%s with %s", plural(res.total, "element"), q), true)
	if len(res.list) > 0 {
		p.add("", true)
	}
	printed := 0
	for _, f := range res.list {
		match := f.match()
		out.Matches = append(out.Matches, match)
		if printed == len(out.Matches)-1 && p.add(match.line(), false) {
			printed++
		}
	}
	if left := res.total - printed; left > 0 {
		p.add(fmt.Sprintf("\n%s more: give a higher limit, or ask for less", itoa(left)), true)
	}
	for _, n := range res.scene.unread {
		p.add(fmt.Sprintf("frame not searched: %s (%s)", head(n.URL, 200), n.Reason), false)
	}
	out.text = strings.TrimRight(p.b.String(), "\n")
	n := runes(out.text)
	out.Cost = CostOut{Characters: n, Bytes: len(out.text), EstimatedTokens: (n + 3) / 4}
	return out, nil
}

// String names the search for a message.
func (q FindQuery) String() string {
	by := q.FindBy.String()
	if q.Query == "" {
		return by
	}
	if by != "" {
		by = ", " + by
	}
	return "words " + quoteName(q.Query, 80) + by
}

func (f found) match() FindMatch {
	m := FindMatch{UID: f.node.ref, Tag: f.node.tag, Role: f.node.role, Name: f.node.name, State: f.state, Verbs: orEmpty(f.verbs),
		InViewport: f.inView, Rect: f.node.box, Score: f.score}
	m.State.Choices = ""
	if text := oneLine(f.v.text(f.row)); text != "" && !strings.Contains(f.node.name, text) && f.state.Value == "" && !f.state.ValueRedacted {
		m.Text = head(text, foundText)
	}
	if f.region != nil && f.region.row >= 0 {
		m.Context = head(f.region.role+" "+quoteName(f.region.title(), 80), foundText)
	}
	if f.v.parent != nil {
		m.Frame = head(f.v.meta.URL, 300)
	}
	return m
}

// line is a match in the text form.
func (m FindMatch) line() string {
	line := fmt.Sprintf("- @%s %s %s", m.UID, m.Role, quoteName(m.Name, maxNameShown))
	if words := stateWords(m.State); words != "" {
		line += " " + words
	}
	if len(m.Verbs) > 0 {
		line += " [" + strings.Join(m.Verbs, ", ") + "]"
	}
	if m.Text != "" {
		line += ": " + guard(m.Text)
	}
	if m.Context != "" {
		line += " in " + m.Context
	}
	if m.Frame != "" {
		line += " (frame " + m.Frame + ")"
	}
	return line
}
