package driver

import (
	"context"
	"slices"
	"strings"

	"pi-chrome/driver/op"
)

// maxFound is how many elements one search describes at most.
const maxFound = 100

// FindBy describes elements by what a person perceives of them. All that is
// given must hold. Texts are compared with white space collapsed: without
// Exact as a part and without regard to case, with it as a whole.
type FindBy struct {
	Role        string `json:"role,omitzero" maxLength:"60" brief:"" jsonschema:"the role as snapshots show it, such as button, link, textbox, heading"`
	Name        string `json:"name,omitzero" maxLength:"500" brief:"" jsonschema:"the accessible name as snapshots show it"`
	Label       string `json:"label,omitzero" maxLength:"500" brief:"" jsonschema:"the text of the control's label"`
	Placeholder string `json:"placeholder,omitzero" maxLength:"500" brief:"" jsonschema:"the placeholder of a field"`
	Text        string `json:"text,omitzero" maxLength:"500" brief:"" jsonschema:"the text; the smallest element that has it, or the control around that"`
	TestID      string `json:"testId,omitzero" maxLength:"200" brief:"" jsonschema:"the data-testid, always as a whole"`
	Exact       bool   `json:"exact,omitzero" brief:"" jsonschema:"compare whole texts with their case; parts in any case without it"`
	Index       *int   `json:"index,omitempty" min:"0" max:"1000" brief:"which of several, from 0" jsonschema:"which of several in reading order, from 0; without it there must be only one"`
}

// IsZero reports whether nothing was asked for.
func (b FindBy) IsZero() bool {
	b.Exact, b.Index = false, nil
	return b == FindBy{}
}

// String names the search for a message: `role "button", name "Save"`.
func (b FindBy) String() string {
	var parts []string
	for _, p := range [][2]string{{"role", b.Role}, {"name", b.Name}, {"label", b.Label}, {"placeholder", b.Placeholder}, {"text", b.Text}, {"testId", b.TestID}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+quoteName(p[1], 80))
		}
	}
	return strings.Join(parts, ", ")
}

// FindQuery is a search of the whole page: through every frame and shadow
// root, in view or not.
type FindQuery struct {
	FindBy
	Query string // words; what fits them best comes first
}

// findAll returns the elements that fit the query, at most [maxFound] of them:
// in reading order, or the best first when words were given. Only what a
// person can see or use counts. Each node has its ref, and a ref that can be
// acted on is granted its verbs as a snapshot would grant them. Nothing found
// is no error. The page is only looked at.
func (t *Tab) findAll(ctx context.Context, q FindQuery) ([]node, error) {
	res, err := t.find(ctx, q, maxFound)
	if err != nil {
		return nil, err
	}
	nodes := make([]node, len(res.list))
	for i, f := range res.list {
		nodes[i] = f.node
	}
	return nodes, nil
}

// ElementBy is one element of an operation: by the ref of a snapshot, by a
// selector, or by what a person perceives of it.
type ElementBy struct {
	By     string `json:"by" enum:"uid|selector|find" brief:"uid: a ref; find: give role, name, label, placeholder, text or testId beside it" jsonschema:"uid: a ref of a snapshot; selector: CSS, with >>> through shadow roots and iframe >> into frames; find: role, name, label, placeholder, text, testId beside it"`
	Value  string `json:"value,omitzero" minLength:"1" maxLength:"2000" brief:"the ref or CSS selector" jsonschema:"the ref or the selector"`
	FindBy `brief:"-"`
}

// check refuses what the schema cannot: value goes with uid and selector, the
// other fields with find.
func (e ElementBy) check(tool, field string) error {
	switch {
	case e.By == "find" && e.Value != "":
		return op.Invalidf("%s: field %q goes with uid and selector; with find give role, name, label, placeholder, text or testId", tool, field+".value").WithDetail("field", field+".value")
	case e.By == "find" && e.FindBy.IsZero():
		return op.Invalidf("%s: field %q needs one of role, name, label, placeholder, text or testId with find", tool, field).WithDetail("field", field)
	case e.By != "find" && (!e.FindBy.IsZero() || e.Exact || e.Index != nil):
		return op.Invalidf("%s: field %q takes role, name and the like only with by find", tool, field).WithDetail("field", field)
	case e.By != "find" && e.Value == "":
		return op.Invalidf("%s: field %q is required", tool, field+".value").WithDetail("field", field+".value")
	}
	return nil
}

// elementBy finds the one element, which must have the verb; "" asks for none.
func (t *Tab) elementBy(ctx context.Context, e ElementBy, verb string) (node, error) {
	switch e.By {
	case "uid":
		return t.byRef(ctx, e.Value, verb)
	case "selector":
		return t.bySelector(ctx, e.Value)
	}
	return t.byPerception(ctx, e.FindBy, verb)
}

// byPerception returns the one element that fits, or the one at the index. It
// fails with invalid-action-target when nothing fits, when several do and no
// index was given (details candidates), or when the element does not take the
// verb. It has only looked at the page then.
func (t *Tab) byPerception(ctx context.Context, by FindBy, verb string) (node, error) {
	id := t.conn.Key().TabID
	limit := maxCandidates
	if by.Index != nil {
		limit = *by.Index + 1
	}
	res, err := t.find(ctx, FindQuery{FindBy: by}, limit)
	if err != nil {
		return node{}, err
	}
	fail := func(reason, format string, args ...any) *op.Error {
		return op.Reject(op.InvalidActionTarget, format+"; nothing was done", args...).
			WithDetail("find", by.String()).WithDetail("reason", reason).WithDetail("url", t.url())
	}
	at := 0
	switch {
	case len(res.list) == 0:
		return node{}, fail("no-match", "nothing on tab %d has %s", id, by).
			WithHint("take a snapshot with a query to see what there is, or wait for it")
	case by.Index != nil:
		if at = *by.Index; at >= len(res.list) {
			return node{}, fail("no-match", "index %d: only %s on tab %d with %s", at, plural(res.total, "element"), id, by).WithHint("count from 0")
		}
	case res.total > 1:
		var words []string
		var list []map[string]any
		for _, f := range res.list {
			if len(words) < 4 {
				words = append(words, f.node.String())
			}
			list = append(list, map[string]any{"ref": f.node.ref, "role": f.node.role, "name": cut(f.node.name, 80), "tag": f.node.tag, "verbs": orEmpty(f.verbs)})
		}
		return node{}, fail("ambiguous", "%d elements on tab %d have %s: %s", res.total, id, by, strings.Join(words, ", ")).
			WithHint("say more of it, give index, or use a ref").WithDetail("matches", res.total).WithDetail("candidates", list)
	}
	f := res.list[at]
	if verb != "" && !slices.Contains(f.verbs, verb) {
		why := "it takes " + strings.Join(f.verbs, ", ")
		switch {
		case f.state.Disabled:
			why = "it is disabled"
		case len(f.verbs) == 0:
			why = "it is no control"
		}
		return node{}, fail("no-verb", "%s on tab %d does not take %s: %s", f.node, id, verb, why).WithHint("take a snapshot and use a ref that shows [%s]", verb).WithDetail("ref", f.node.ref)
	}
	return f.node, nil
}

// found is one element that fits a search.
type found struct {
	spot
	node   node
	verbs  []string // nil for one that nothing can be done with
	state  ActionState
	region *region
	inView bool
	score  int // of the words
	order  int // in reading order
}

// findResult is what a search found.
type findResult struct {
	scene *scene
	list  []found
	total int // found, of which list has the first
}

// find searches the tab. A page that navigates meanwhile is searched once
// more.
func (t *Tab) find(ctx context.Context, q FindQuery, limit int) (findResult, error) {
	res, err := t.findOnce(ctx, q, limit)
	if isCode(err, op.DocumentChanged) && ctx.Err() == nil {
		res, err = t.findOnce(ctx, q, limit)
	}
	return res, err
}

func (t *Tab) findOnce(ctx context.Context, q FindQuery, limit int) (findResult, error) {
	done, err := t.lookTurn(ctx)
	if err != nil {
		return findResult{}, err
	}
	defer done()
	sc, err := t.gatherBoxed(ctx)
	if err != nil {
		return findResult{}, err
	}
	s := &search{q: q, sv: sc.survey(), acts: map[spot]*action{}}
	for _, a := range s.sv.actions {
		s.acts[a.spot] = a
	}
	if err := s.settle(ctx, t); err != nil {
		return findResult{}, err
	}
	list := s.matches()
	if len(list) == 0 && q.Name != "" {
		// A name may be put together from generated content too, which a walk
		// does not read.
		if err := s.generated(ctx, t); err != nil {
			return findResult{}, err
		}
		list = s.matches()
	}
	res := findResult{scene: sc, total: len(list)}
	list = list[:min(len(list), limit)]
	spots := make([]spot, len(list))
	for i, f := range list {
		spots[i] = f.spot
	}
	seen, err := t.describe(ctx, spots, false)
	if err != nil {
		return findResult{}, err
	}
	t.beginObservation(sc)
	for _, f := range list {
		role, name := s.roleName(f.spot)
		k := t.mention(seen, f.spot, role, name)
		if k == nil || !s.fits(f.spot) {
			res.total-- // it went away meanwhile, or its name says more than was known
			continue
		}
		t.mu.Lock()
		k.verbs = f.verbs
		f.node = nodeOf(*k, f.v.frame)
		t.mu.Unlock()
		f.state = f.v.state(f.row, role)
		f.state.Focused = s.sv.focused == f.spot
		if d := seen[f.spot]; d.state == detailCovered {
			f.state.Covered = d.blocker
		} else if d.state == detailClipped {
			f.state.Clipped = true
		}
		res.list = append(res.list, f)
	}
	t.mu.Lock()
	t.observed.trimLocked()
	t.mu.Unlock()
	return res, nil
}

// search is one search of one scene.
type search struct {
	q    FindQuery
	sv   *survey
	acts map[spot]*action
	told map[spot][2]string // role and name that Chrome itself told
}

// settle asks Chrome about custom elements, whose internals may give them a
// role and a name that the evidence does not show.
func (s *search) settle(ctx context.Context, t *Tab) error {
	if s.q.Role == "" && s.q.Name == "" && s.q.Query == "" {
		return nil
	}
	var ask []*action
	var spots []spot
	for _, a := range s.sv.actions {
		if len(ask) < maxUncertain && a.v.uncertain(a.row) {
			named([]*action{a})
			ask, spots = append(ask, a), append(spots, a.spot)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	seen, err := t.describe(ctx, spots, true)
	if err != nil {
		return err
	}
	t.settle(ctx, ask, seen)
	s.told = map[spot][2]string{}
	for _, a := range ask {
		s.told[a.spot] = [2]string{a.role, a.name}
	}
	return nil
}

// maxGenerated is how many elements are asked for their generated content.
const maxGenerated = 200

// generated reads the generated content of the actions that may be meant.
func (s *search) generated(ctx context.Context, t *Tab) error {
	q := s.q
	s.q.Name = ""
	defer func() { s.q = q }()
	var spots []spot
	for _, a := range s.sv.actions {
		if len(spots) < maxGenerated && s.fits(a.spot) {
			spots = append(spots, a.spot)
		}
	}
	_, err := t.describe(ctx, spots, false)
	return err
}

// roleName is what snapshots call the element.
func (s *search) roleName(at spot) (role, name string) {
	if told, ok := s.told[at]; ok {
		return told[0], told[1]
	}
	role = at.v.role(at.row)
	if s.acts[at] != nil {
		return role, oneLine(at.v.label(at.row))
	}
	return role, oneLine(at.v.name(at.row))
}

// matches are all that fit, in reading order or the best first.
func (s *search) matches() []found {
	var out []found
	words := queryWords(s.q.Query)
	blocks := map[spot]string{}
	if len(words) > 0 {
		list, _ := s.sv.blocks()
		for _, b := range list {
			if b.row >= 0 && b.text != "" && blocks[b.spot] == "" {
				blocks[b.spot] = b.text
			}
		}
	}
	var smallest map[spot]bool
	if s.q.Text != "" {
		smallest = s.smallest()
	}
	order := 0
	s.sv.each(func(v *view, i int) bool {
		order++
		at := spot{v, i}
		if smallest != nil && !smallest[at] || v.rows[i].tag == "" || !s.shown(at) || !s.fits(at) {
			return true
		}
		f := found{spot: at, order: order}
		if len(words) > 0 {
			role, name := s.roleName(at)
			r := &v.rows[i]
			switch {
			case s.acts[at] != nil:
				f.score = score(words, s.q.Query, role, name, r.get("type"), r.get("href"), r.get("placeholder"))
			case blocks[at] != "":
				f.score = score(words, s.q.Query, blocks[at])
			case !s.q.FindBy.IsZero():
				f.score = score(words, s.q.Query, role, name, v.text(i))
			}
			if f.score == 0 {
				return true
			}
		}
		if a := s.acts[at]; a != nil {
			f.verbs, f.region, f.inView = a.verbs, a.region, a.inView
		} else {
			f.inView = v.rows[i].has(rowView) && !v.hidden
		}
		out = append(out, f)
		return true
	})
	slices.SortStableFunc(out, func(a, b found) int { return b.score - a.score })
	return out
}

// shown reports whether a person can see the element, or use it unseen.
func (s *search) shown(at spot) bool {
	if s.acts[at] != nil {
		return true
	}
	r := &at.v.rows[at.row]
	if at.v.hidden || r.has(rowInvisible|rowHidden|rowRefOnly) {
		return false
	}
	return r.has(rowBox) || at.v.boxWithin(at.row)
}

// fits reports whether everything but text and words holds.
func (s *search) fits(at spot) bool {
	q, v, r := s.q, at.v, &at.v.rows[at.row]
	if q.TestID != "" && r.get("data-testid") != q.TestID {
		return false
	}
	if q.Placeholder != "" && !s.same(first(r, "placeholder", "aria-placeholder"), q.Placeholder) {
		return false
	}
	if q.Label != "" && !s.labelled(v, at.row) {
		return false
	}
	if q.Role == "" && q.Name == "" {
		return true
	}
	if q.Name != "" && q.Role == "" && v.role(at.row) == "none" {
		return false
	}
	role, name := s.roleName(at)
	if q.Role != "" && !strings.EqualFold(role, q.Role) && !(strings.EqualFold(q.Role, "img") && role == "image") {
		return false
	}
	return q.Name == "" || s.same(name, q.Name)
}

// same compares a text of the page with one that was asked for.
func (s *search) same(have, want string) bool {
	if s.q.Exact {
		return oneLine(have) == oneLine(want)
	}
	return have != "" && hasFold(oneLine(have), oneLine(want))
}

// labelled reports whether a label of the control says what was asked for.
func (s *search) labelled(v *view, i int) bool {
	if s.same(v.rows[i].get("aria-label"), s.q.Label) {
		return true
	}
	says := func(rows []int) bool {
		return slices.ContainsFunc(rows, func(l int) bool { return s.same(v.text(l), s.q.Label) })
	}
	return says(v.rel.labels[i]) || says(v.rel.labelledBy[i])
}

// smallest are the elements that have the text and of which no part has it
// alone. When nothing else was asked for, the control around such an element
// stands for it, since that is what can be acted on.
func (s *search) smallest() map[spot]bool {
	out := map[spot]bool{}
	want := strings.Fields(strings.ToLower(s.q.Text))
	if len(want) == 0 {
		return out
	}
	for _, v := range s.sv.views {
		hits := s.sum(v, want[0])
		inner := len(v.rows) // the first row after this one that has the text
		for i := len(v.rows) - 1; i >= 0; i-- {
			r := &v.rows[i]
			if r.tag == "" || r.has(rowRefOnly) || inner < r.end() || hits[r.end()] == hits[i] || !s.same(s.says(v, i), s.q.Text) {
				continue
			}
			inner = i
			out[s.stand(spot{v, i})] = true
		}
	}
	return out
}

// says is the text of a row; a button of the old kind has its text as a value.
func (s *search) says(v *view, i int) string {
	r := &v.rows[i]
	if r.tag == "input" {
		switch r.get("~t") {
		case "submit", "reset", "button":
			return v.name(i)
		}
		return ""
	}
	return v.text(i)
}

// stand is the control that an element with the text belongs to, or the
// element itself.
func (s *search) stand(at spot) spot {
	by := s.q.FindBy
	by.Text = ""
	if !by.IsZero() {
		// Something else is asked for too: the nearest that fits it.
		for p := at.row; p >= 0; p = at.v.rows[p].parent() {
			if on := (spot{at.v, p}); s.fits(on) && (!s.q.Exact || s.same(s.says(at.v, p), s.q.Text)) {
				return on
			}
		}
		return at
	}
	for p := at.row; p >= 0; p = at.v.rows[p].parent() {
		if a := s.acts[spot{at.v, p}]; a != nil {
			return a.spot
		}
	}
	return at
}

// sum counts, for each row, the rows before it that may bring the word into a
// text: most elements are passed over by it. A word that no single row has may
// be put together from several, so then every row counts.
func (s *search) sum(v *view, word string) []int {
	sum := make([]int, len(v.rows)+1)
	any := false
	for i := range v.rows {
		r := &v.rows[i]
		sum[i+1] = sum[i]
		if hasFold(r.text, word) || r.attrs != "" && hasFold(r.attrs, word) || hasFold(r.generated().before, word) || hasFold(r.generated().after, word) {
			sum[i+1]++
			any = true
		}
	}
	if !any {
		for i := range sum {
			sum[i] = i
		}
	}
	return sum
}
