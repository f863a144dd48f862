package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"pi-chrome/driver/op"
)

// Bounds of a snapshot.
const (
	defaultActions   = 80
	snapshotChars    = 8000 // of the text form, unless asked otherwise
	maxNameShown     = 240
	maxSnippets      = 40
	maxSnippet       = 240
	maxMatches       = 16
	maxMatchText     = 160
	maxContextLines  = 24
	maxFrontierLines = 12
	maxHeadings      = 30
	maxForms         = 12
)

// SnapshotOptions are the fields of chrome_snapshot but the tab.
type SnapshotOptions struct {
	Ref            string `json:"ref,omitzero" pattern:"^@?(?:el|frontier)-\\d+$" brief:"expand a context, el-N or frontier-N" jsonschema:"expand this: a context or any element by its el-N, or go on where a frontier-N stopped"`
	Mode           string `json:"mode,omitzero" enum:"auto|interactive|forms|pageMap|text|changes|full" brief:"default auto" jsonschema:"auto (default): actions and text; interactive: actions only; forms: form controls; pageMap: landmarks and headings; text: the content in order; changes: what changed since this session's last snapshot; full: everything, as JSON"`
	Query          string `json:"query,omitzero" maxLength:"500" brief:"words: best match first" jsonschema:"words to look for: what fits best comes first and is listed as a match"`
	MaxElements    int    `json:"maxElements,omitzero" min:"1" max:"80" brief:"default and most 80" jsonschema:"actions at most; 80 when absent"`
	MaxTextChars   int    `json:"maxTextChars,omitzero" min:"1" max:"100000" brief:"default 8000" jsonschema:"characters of the text form at most; 8000 when absent, never over 30000"`
	ContainingText string `json:"containingText,omitzero" maxLength:"500" brief:"" jsonschema:"only what contains this text, or stands in a row or item that does"`
	Role           string `json:"role,omitzero" maxLength:"60" brief:"" jsonschema:"only actions of this role, such as button"`
	NearUID        string `json:"nearUid,omitzero" pattern:"^@?el-\\d+$" brief:"nearest to this el-N first" jsonschema:"nearest to this element first"`
}

// ActionOut is one thing that can be done.
type ActionOut struct {
	Kind  string      `json:"kind"`
	ID    string      `json:"id"`
	Role  string      `json:"role"`
	Name  string      `json:"name"`
	State ActionState `json:"state"`
	Verbs []string    `json:"verbs"`
}

// ContextOut is a part of the page with actions in it.
type ContextOut struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Role   string `json:"role"`
	Name   string `json:"name"`
	Count  int    `json:"actionCount"`
	Shown  int    `json:"shownActionCount"`
	Parent string `json:"parent,omitempty" jsonschema:"the context around it"`
}

// FrontierOut is where something was left out, and the ref that goes on there.
type FrontierOut struct {
	Kind       string `json:"kind"`
	Projection string `json:"projection" enum:"actions|content"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	Omitted    int    `json:"omittedCount"`
}

// Place names an element in passing.
type Place struct {
	UID   string `json:"uid"`
	Tag   string `json:"tag,omitempty"`
	Role  string `json:"role"`
	Label string `json:"label"`
}

// ViewportOut is what the tab shows of the page, in CSS pixels.
type ViewportOut struct {
	Width   int `json:"width"`
	Height  int `json:"height"`
	ScrollX int `json:"scrollX"`
	ScrollY int `json:"scrollY"`
}

// SummaryOut counts the page.
type SummaryOut struct {
	VisibleText             string   `json:"visibleText" jsonschema:"the first 500 characters of the content"`
	VisibleInteractiveCount int      `json:"visibleInteractiveCount" jsonschema:"actions in the viewport"`
	TotalInteractiveSampled int      `json:"totalInteractiveSampled" jsonschema:"actions shown"`
	TotalInteractiveVisible int      `json:"totalInteractiveVisible" jsonschema:"actions in the whole document"`
	Focused                 *Place   `json:"focused,omitempty"`
	Modal                   *Place   `json:"modal,omitempty"`
	Hints                   []string `json:"hints"`
}

// SnippetOut is a piece of text with the ref of its element.
type SnippetOut struct {
	UID  string `json:"uid"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// MatchOut is something that fits the query.
type MatchOut struct {
	UID   string `json:"uid"`
	Role  string `json:"role,omitempty"`
	Kind  string `json:"kind"`
	Label string `json:"label"`
	Score int    `json:"score"`
}

// ElementOut says more of an action, in the modes forms and full.
type ElementOut struct {
	Index    int    `json:"index"`
	UID      string `json:"uid"`
	Tag      string `json:"tag"`
	Role     string `json:"role"`
	Label    string `json:"label"`
	Selector string `json:"selector,omitempty"`
	Type     string `json:"type,omitempty"`
	Href     string `json:"href,omitempty"`
	HasValue bool   `json:"hasValue,omitempty"`
	Context  *Place `json:"context,omitempty"`
	Rect     rect   `json:"rect"`
}

// FormOut is a form with its fields, by ref.
type FormOut struct {
	UID     string   `json:"uid"`
	Label   string   `json:"label"`
	Fields  []string `json:"fields"`
	Submits []string `json:"submits"`
}

// PageMapOut is a landmark or a heading.
type PageMapOut struct {
	UID     string `json:"uid"`
	Role    string `json:"role"`
	Label   string `json:"label"`
	Level   int    `json:"level,omitempty"`
	Actions int    `json:"actions,omitempty"`
}

// FilterOut repeats what the snapshot was narrowed to.
type FilterOut struct {
	Ref            string `json:"ref,omitempty"`
	Role           string `json:"role,omitempty"`
	ContainingText string `json:"containingText,omitempty"`
	NearUID        string `json:"nearUid,omitempty"`
	MaxElements    int    `json:"maxElements"`
	MaxTextChars   int    `json:"maxTextChars"`
}

// CostOut is what the text form costs its reader.
type CostOut struct {
	Characters      int `json:"characters"`
	Bytes           int `json:"bytes"`
	EstimatedTokens int `json:"estimatedTokens"`
}

// SnapshotOut is the result of chrome_snapshot.
type SnapshotOut struct {
	Title     string        `json:"title"`
	URL       string        `json:"url"`
	Mode      string        `json:"mode"`
	Query     string        `json:"query,omitempty"`
	Viewport  ViewportOut   `json:"viewport"`
	Summary   SummaryOut    `json:"summary"`
	Actions   []ActionOut   `json:"actions"`
	Contexts  []ContextOut  `json:"contexts"`
	Frontiers []FrontierOut `json:"frontiers"`
	Focused   *Place        `json:"focused,omitempty"`
	Modal     *Place        `json:"modal,omitempty"`

	Content       string       `json:"text,omitempty" jsonschema:"the content's text, in mode full"`
	TextTruncated bool         `json:"textTruncated" jsonschema:"whether text was left out; a frontier says how much and goes on"`
	Snippets      []SnippetOut `json:"textSnippets,omitempty"`
	Blocks        []BlockOut   `json:"contentBlocks,omitempty"`
	Elements      []ElementOut `json:"elements,omitempty"`
	Forms         []FormOut    `json:"forms,omitempty"`
	PageMap       []PageMapOut `json:"pageMap,omitempty"`

	Matches []MatchOut  `json:"matches"`
	Filter  FilterOut   `json:"filter"`
	Diff    DiffOut     `json:"diff"`
	Frames  []FrameNote `json:"frames,omitempty" jsonschema:"frames that could not be read, or not wholly"`
	Cost    CostOut     `json:"cost"`

	text string
}

// Text is the form of contract §1.9.
//
// In mode full it is the value itself.
func (o SnapshotOut) Text() string { return o.text }

// shot is a snapshot in the making.
type shot struct {
	t       *Tab
	c       *Call
	in      SnapshotOptions
	sv      *survey
	cap     int // characters of the text form
	max     int // actions
	all     []*action
	pick    []*action // the actions to choose from, ranked
	within  spot      // what was expanded
	cont    *frontier // what is continued
	byName  *region   // the group that an expansion shows
	found   map[spot]*described
	blocks  []*content
	diff    DiffOut
	changed map[*action]bool
	byView  map[*view][]*action // in the order of their rows
	out     SnapshotOut
}

// snapshot observes the tab. It changes nothing in the page. A page that
// navigates meanwhile is looked at once more.
func (t *Tab) snapshot(ctx context.Context, c *Call, in SnapshotOptions) (SnapshotOut, error) {
	out, err := t.snapshotOnce(ctx, c, in)
	if isCode(err, op.DocumentChanged) && ctx.Err() == nil {
		out, err = t.snapshotOnce(ctx, c, in)
	}
	return out, err
}

func (t *Tab) snapshotOnce(ctx context.Context, c *Call, in SnapshotOptions) (SnapshotOut, error) {
	done, err := t.lookTurn(ctx)
	if err != nil {
		return SnapshotOut{}, err
	}
	defer done()
	s := &shot{t: t, c: c, in: in, cap: snapshotChars, max: defaultActions}
	if s.in.Mode == "" {
		s.in.Mode = "auto"
	}
	s.in.Ref, s.in.NearUID = cleanRef(in.Ref), cleanRef(in.NearUID)
	if in.MaxTextChars > 0 {
		s.cap = min(in.MaxTextChars, op.MaxText)
	}
	if in.MaxElements > 0 {
		s.max = min(in.MaxElements, defaultActions)
	}
	if err := s.checkRef(); err != nil {
		return SnapshotOut{}, err
	}
	sc, err := t.gather(ctx)
	if err != nil {
		return SnapshotOut{}, err
	}
	s.sv = sc.survey()
	s.all = s.sv.actions
	named(s.all)
	if err := s.narrow(); err != nil {
		return SnapshotOut{}, err
	}
	compare := sync.OnceFunc(s.compare)
	if s.in.Mode == "changes" {
		compare() // it says what there is to choose from
	}
	s.rank()
	s.readText()
	chosen := s.choose()
	if err := s.detail(ctx, chosen, compare); err != nil {
		return SnapshotOut{}, err
	}
	s.build(chosen)
	return s.out, nil
}

// checkRef refuses a ref that nothing has shown, before the page is looked at.
func (s *shot) checkRef() error {
	t, ref := s.t, s.in.Ref
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.in.NearUID != "" && t.observed.byRef[s.in.NearUID] == nil {
		return s.gone(s.in.NearUID, "no snapshot of this tab has shown it, or its page has gone")
	}
	switch {
	case ref == "":
		return nil
	case strings.HasPrefix(ref, "frontier-"):
		f := t.observed.frontiers[ref]
		if f == nil {
			return s.gone(ref, "no snapshot of this tab has shown it, or it is too old")
		}
		if f.projection != "actions" {
			return s.gone(ref, "it goes on with the page's content").WithHint("expand it with chrome_read")
		}
		s.cont = f
	case t.observed.byRef[ref] == nil:
		return s.gone(ref, "no snapshot of this tab has shown it, or its page has gone")
	}
	return nil
}

func (s *shot) gone(ref, why string) *op.Error {
	return op.Reject(op.StaleObservationRef, "ref %s on tab %d cannot be expanded: %s", ref, s.t.conn.Key().TabID, why).
		WithHint("take a snapshot without ref, and use its refs").WithDetail("ref", ref)
}

// narrow works out which actions there are to choose from.
func (s *shot) narrow() error {
	t := s.t
	list := s.all
	switch {
	case s.cont != nil:
		// The frontier keeps the filter it was made under.
		o := s.cont.opts
		s.in.Role, s.in.ContainingText = o.Role, o.ContainingText
		rest, err := s.continued()
		if err != nil {
			return err
		}
		s.pick = rest
		return nil
	case s.in.Ref != "":
		t.mu.Lock()
		var key nodeKey
		if k := t.observed.byRef[s.in.Ref]; k != nil {
			key = k.key
		}
		t.mu.Unlock()
		s.within = s.sv.find(key)
		if !s.within.ok() {
			return s.gone(s.in.Ref, "its element has gone from the page")
		}
		list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool { return !s.within.within(a.v, a.row) })
		s.byName = &region{spot: s.within, role: "region", name: "Expanded context", actions: list}
	}
	s.pick = s.filter(list)
	return nil
}

// filter leaves the actions that role and text ask for.
func (s *shot) filter(list []*action) []*action {
	if s.in.Role == "" && s.in.ContainingText == "" {
		return list
	}
	around := map[spot]string{}
	return slices.DeleteFunc(slices.Clone(list), func(a *action) bool {
		if s.in.Role != "" && !strings.EqualFold(a.role, s.in.Role) && !(strings.EqualFold(s.in.Role, "img") && a.role == "image") {
			return true
		}
		if s.in.ContainingText == "" || hasFold(a.name, s.in.ContainingText) {
			return false
		}
		text, ok := around[a.spot]
		if !ok {
			text = a.v.around(a.row)
			around[a.spot] = text
		}
		return !hasFold(text, s.in.ContainingText)
	})
}

// rank puts the actions in the order in which they are worth showing.
func (s *shot) rank() {
	if s.cont != nil || s.within.ok() && s.in.Query == "" {
		return // in reading order
	}
	s.pick = slices.Clone(s.pick)
	if s.in.NearUID != "" {
		s.t.mu.Lock()
		var key nodeKey
		if k := s.t.observed.byRef[s.in.NearUID]; k != nil {
			key = k.key
		}
		s.t.mu.Unlock()
		if at := s.sv.find(key); at.ok() && at.row >= 0 {
			c := at.v.box(at.row)
			far := func(a *action) float64 {
				dx, dy := a.box.X+a.box.W/2-c.X-c.W/2, a.box.Y+a.box.H/2-c.Y-c.H/2
				return dx*dx + dy*dy
			}
			slices.SortStableFunc(s.pick, func(a, b *action) int { return sign(far(a) - far(b)) })
			return
		}
	}
	words := queryWords(s.in.Query)
	if len(words) > 0 {
		for _, a := range s.pick {
			a.score = score(words, s.in.Query, a.role, a.name, a.v.rows[a.row].get("type"), a.v.rows[a.row].get("href"))
		}
	}
	modal := s.sv.modal
	slices.SortStableFunc(s.pick, func(a, b *action) int {
		switch {
		case a.score != b.score:
			return b.score - a.score
		case modal.ok() && modal.within(a.v, a.row) != modal.within(b.v, b.row):
			if modal.within(a.v, a.row) {
				return -1
			}
			return 1
		case a.minor() != b.minor():
			if b.minor() {
				return -1
			}
			return 1
		case a.inView != b.inView:
			if a.inView {
				return -1
			}
			return 1
		}
		return a.order - b.order
	})
}

func sign(f float64) int {
	switch {
	case f < 0:
		return -1
	case f > 0:
		return 1
	}
	return 0
}

// queryWords are the words of a query, in lower case.
func queryWords(q string) []string {
	return strings.FieldsFunc(strings.ToLower(q), func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127)
	})
}

// score says how well texts fit a query: contract §1.9's points.
func score(words []string, query string, texts ...string) int {
	all := strings.ToLower(strings.Join(texts, " "))
	n := 0
	for _, w := range words {
		if strings.Contains(all, w) {
			if len(w) <= 2 {
				n++
			} else {
				n += 3
			}
		}
	}
	if q := strings.ToLower(strings.TrimSpace(query)); n > 0 && len(words) > 1 && strings.Contains(all, q) {
		n += 8
	}
	return n
}

// readText reads the content where the mode shows some.
func (s *shot) readText() {
	switch s.in.Mode {
	case "interactive", "forms", "changes", "pageMap":
		if s.in.Query == "" {
			return
		}
	}
	if s.cont != nil {
		return
	}
	s.blocks, _ = s.sv.blocks()
	if s.within.ok() {
		s.blocks = slices.DeleteFunc(s.blocks, func(b *content) bool { return !s.within.within(b.v, max(b.row, 0)) })
	}
}

// formRoles are the roles of the mode forms.
var formRoles = []string{"textbox", "searchbox", "checkbox", "radio", "switch", "combobox", "listbox", "spinbutton", "slider", "button", "option",
	"Date", "DateTime", "InputTime", "ColorWell"}

// choose takes the first of the ranked actions, as many as may be shown.
func (s *shot) choose() []*action {
	list := s.pick
	max := s.max
	switch s.in.Mode {
	case "forms":
		list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool { return !slices.Contains(formRoles, a.role) })
	case "pageMap":
		max = min(max, 20)
	case "text":
		max = min(max, 20)
	case "changes":
		if !s.diff.First {
			list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool { return !s.changed[a] })
		}
	}
	if s.cont != nil {
		max = s.max
		list = s.pick
	}
	return list[:min(len(list), max)]
}

// detail asks for what is needed of the elements that may be shown. What is
// given as meanwhile runs while the page works.
func (s *shot) detail(ctx context.Context, chosen []*action, meanwhile func()) error {
	var spots []spot
	actions := map[spot]bool{}
	for _, a := range chosen {
		spots = append(spots, a.spot)
		actions[a.spot] = true
	}
	for _, r := range s.contextsToShow() {
		if r.row >= 0 {
			spots = append(spots, r.spot)
		}
	}
	for _, b := range s.blocksToShow() {
		if b.row >= 0 {
			spots = append(spots, b.spot)
			for _, l := range b.links[:min(len(b.links), 8)] {
				spots = append(spots, l.spot)
			}
		}
	}
	for _, m := range s.matchesFound() {
		if m.row >= 0 {
			spots = append(spots, m.spot)
		}
	}
	spots = append(spots, s.mapPlaces()...)
	for _, p := range []spot{s.sv.focused, s.sv.modal} {
		if p.ok() && p.row >= 0 {
			spots = append(spots, p)
		}
	}
	if len(spots) == 0 {
		meanwhile()
		s.found = map[spot]*described{}
		return nil
	}
	var err error
	if s.found, err = s.t.describeFor(ctx, spots, actions, meanwhile); err != nil {
		return err
	}
	for _, a := range chosen {
		a.name = oneLine(a.v.label(a.row)) // generated content is known now
	}
	s.t.settle(ctx, chosen, s.found)
	return nil
}

// contextsToShow are the regions with actions, those with something to show
// or to expand first.
func (s *shot) contextsToShow() []*region {
	if s.cont != nil {
		return nil
	}
	if s.byName != nil {
		return []*region{s.byName}
	}
	var out []*region
	for _, r := range s.sv.regions {
		if r.row >= 0 && len(r.actions) > 0 {
			out = append(out, r)
		}
	}
	if len(out) > maxContextLines {
		slices.SortStableFunc(out, func(a, b *region) int { return len(b.actions) - len(a.actions) })
		out = out[:maxContextLines]
		slices.SortFunc(out, func(a, b *region) int { return s.regionOrder(a) - s.regionOrder(b) })
	}
	return out
}

func (s *shot) regionOrder(r *region) int { return slices.Index(s.sv.regions, r) }

func (o FrontierOut) line() string {
	tool := "chrome_snapshot"
	if o.Projection == "content" {
		tool = "chrome_read"
	}
	return fmt.Sprintf("- @%s %s omitted=%d [expand with %s]", o.ID, quoteName(o.Name, maxNameShown), o.Omitted, tool)
}
