package driver

import (
	"slices"
	"strings"
)

// spot is one row of one view.
type spot struct {
	v   *view
	row int
}

func (s spot) ok() bool { return s.v != nil }

// key is the element's identity; num 0 means that it has no number yet.
func (s spot) key() nodeKey {
	if s.row < 0 {
		return nodeKey{frame: s.v.frame.id, token: s.v.meta.Token}
	}
	return nodeKey{frame: s.v.frame.id, token: s.v.meta.Token, num: s.v.rows[s.row].num()}
}

// action is an element that something can be done with.
type action struct {
	spot
	order  int // in reading order
	role   string
	name   string
	verbs  []string
	region *region
	inView bool
	box    rect
	score  int // of a query

	known *known       // once it is shown
	state *ActionState // likewise
}

// minor reports whether the action is one cell of many that only the arrow keys
// reach: what stands by itself is shown before it.
func (a *action) minor() bool { return a.role == "gridcell" && !a.v.rows[a.row].has(rowFocusable) }

// region is a part of the page that actions are grouped by: a context of the
// contract.
type region struct {
	spot    // row -1 is the page itself
	role    string
	name    string
	up      *region
	actions []*action // in reading order
}

// strongRegions stand by themselves however little they hold.
var strongRegions = map[string]bool{"main": true, "navigation": true, "banner": true, "contentinfo": true, "complementary": true, "region": true,
	"search": true, "dialog": true, "alertdialog": true, "form": true, "Iframe": true, "tabpanel": true}

// weakRegions do when they hold at least weakLeast actions.
var weakRegions = map[string]bool{"menu": true, "menubar": true, "tablist": true, "toolbar": true, "tree": true, "grid": true, "treegrid": true,
	"table": true, "list": true, "listbox": true, "radiogroup": true, "feed": true, "article": true, "group": true, "DescriptionList": true, "figure": true}

const weakLeast = 4

// survey is what a scene offers.
type survey struct {
	*scene
	actions []*action // in reading order
	page    *region
	regions []*region // in reading order, the page first; those with actions only
	focused spot
	modal   spot
}

// each calls fn for every row of every frame in reading order: a frame's rows
// come right after its element. fn returns false to leave the row's subtree
// out.
func (s *scene) each(fn func(v *view, i int) bool) { s.main().each(fn) }

func (v *view) each(fn func(v *view, i int) bool) {
	for i := 0; i < len(v.rows); {
		if v.rows[i].has(rowRefOnly) {
			return // these stand at the end
		}
		if !fn(v, i) {
			i = v.rows[i].end()
			continue
		}
		if kid := v.kids[i]; kid != nil {
			kid.each(fn)
		}
		i++
	}
}

// survey finds the actions of a scene and groups them.
func (s *scene) survey() *survey {
	out := &survey{scene: s}
	m := s.main()
	out.page = &region{spot: spot{m, -1}, role: "page", name: m.meta.Title}
	regions := []*region{out.page}
	at := map[*view][]*region{} // by row: the region that the row begins
	open := func(v *view, i int, role string) {
		r := &region{spot: spot{v, i}, role: role}
		if at[v] == nil {
			at[v] = make([]*region, len(v.rows))
		}
		at[v][i] = r
		regions = append(regions, r)
	}
	around := func(v *view, i int) *region {
		for v != nil {
			if list := at[v]; list != nil {
				for p := v.rows[i].parent(); p >= 0; p = v.rows[p].parent() {
					if list[p] != nil {
						return list[p]
					}
				}
			}
			if v.parent == nil {
				break
			}
			if list := at[v.parent]; list != nil && list[v.at] != nil {
				return list[v.at]
			}
			v, i = v.parent, v.at
		}
		return out.page
	}
	s.each(func(v *view, i int) bool {
		r := &v.rows[i]
		if r.tag == "" || !r.has(rowCandidate) {
			return true
		}
		role := v.role(i)
		if (strongRegions[role] || weakRegions[role]) && (r.has(rowBox) && r.w > 20 && r.h > 20 || !r.has(rowBox) && v.boxWithin(i)) && !v.hidden && !r.has(rowInvisible) {
			up := around(v, i)
			open(v, i, role)
			at[v][i].up = up
		}
		if verbs := v.verbs(i); verbs != nil {
			a := &action{spot: spot{v, i}, order: len(out.actions), role: role, verbs: verbs}
			if r.has(rowHidden) && r.tag == "input" && r.get("~t") != "file" {
				a.box = v.box(v.visibleLabel(i))
			} else {
				a.box = v.box(i)
			}
			a.inView = v.inView(a.box) && r.has(rowView|rowHidden)
			a.region = around(v, i)
			a.region.actions = append(a.region.actions, a)
			out.actions = append(out.actions, a)
		}
		return true
	})
	// Weak regions with little in them give it to the region around them.
	for k := len(regions) - 1; k > 0; k-- {
		r := regions[k]
		if len(r.actions) == 0 || strongRegions[r.role] {
			continue
		}
		// A list that is all there is in a section goes by the section.
		alone := len(r.up.actions) == 0 && r.up.row >= 0 && strongRegions[r.up.role] && r.up.role != "main" && !others(regions, r)
		if len(r.actions) >= weakLeast && !alone {
			continue
		}
		for _, a := range r.actions {
			a.region = r.up
		}
		r.up.actions = append(r.up.actions, r.actions...)
		r.actions = nil
	}
	for _, r := range regions {
		if len(r.actions) == 0 && r != out.page {
			continue
		}
		slices.SortFunc(r.actions, func(a, b *action) int { return a.order - b.order })
		out.regions = append(out.regions, r)
	}
	for _, v := range s.views {
		if v.meta.Focus >= 0 && v.meta.Focus < len(v.rows) {
			if v.parent == nil || out.focused.v == v.parent && out.focused.row == v.at {
				out.focused = spot{v, v.meta.Focus}
			}
		}
	}
	if out.focused.v != nil {
		if r := &out.focused.v.rows[out.focused.row]; r.tag == "iframe" || r.tag == "frame" || r.num() == 0 {
			out.focused = spot{}
		}
	}
	out.modal = s.findModal()
	return out
}

// others reports whether a region beside r has the same region around it.
func others(regions []*region, r *region) bool {
	return slices.ContainsFunc(regions, func(o *region) bool { return o != r && o.up == r.up && len(o.actions) > 0 })
}

// findModal is the last dialog that holds the page up.
func (s *scene) findModal() (found spot) {
	native := false
	s.each(func(v *view, i int) bool {
		r := &v.rows[i]
		if r.tag == "" || !r.has(rowCandidate) || !r.has(rowBox) || r.has(rowInvisible) {
			return true
		}
		switch {
		case r.tag == "dialog" && r.hasAttr("~m") && !r.has(rowInert):
			found, native = spot{v, i}, true
		case !native && r.get("aria-modal") == "true" && (v.role(i) == "dialog" || v.role(i) == "alertdialog"):
			found = spot{v, i}
		}
		return true
	})
	return found
}

// named fills in the names of actions.
func named(actions []*action) {
	for _, a := range actions {
		if a.name == "" {
			a.name = oneLine(a.v.label(a.row))
		}
	}
}

// title is what a region is called: its accessible name, or its first heading.
func (r *region) title() string {
	if r.name != "" || r.row < 0 {
		return r.name
	}
	v := r.v
	r.name = oneLine(v.name(r.row))
	if r.name == "" {
		if kid := v.kids[r.row]; kid != nil {
			r.name = oneLine(kid.meta.Title)
			if r.name == "" {
				r.name = head(kid.meta.URL, 100)
			}
		}
	}
	for c := r.row + 1; r.name == "" && c < min(v.rows[r.row].end(), r.row+400); c++ {
		if v.rows[c].tag != "" && v.role(c) == "heading" {
			r.name = oneLine(v.text(c))
		}
	}
	if p := v.rows[r.row].parent(); r.name == "" && p >= 0 && weakRegions[r.role] {
		// A list or table is called by the heading above it.
		for c := p + 1; c < r.row; c = v.rows[c].end() {
			if v.rows[c].tag != "" && v.role(c) == "heading" {
				r.name = oneLine(v.text(c))
			}
		}
	}
	return r.name
}

// within reports whether the row stands in the subtree of the spot, through
// frames.
func (s spot) within(v *view, i int) bool {
	for v != nil {
		if v == s.v {
			return s.row < 0 || i >= s.row && i < v.rows[s.row].end()
		}
		v, i = v.parent, v.atOr()
	}
	return false
}

func (v *view) atOr() int {
	if v.parent == nil {
		return -1
	}
	return v.at
}

// find returns the row of an element, by its identity.
func (s *scene) find(key nodeKey) spot {
	for _, v := range s.views {
		if v.frame.id != key.frame || v.meta.Token != key.token {
			continue
		}
		if key.num == 0 {
			return spot{v, -1}
		}
		for i := range v.rows {
			if v.rows[i].num() == key.num {
				return spot{v, i}
			}
		}
	}
	return spot{}
}

// around is the text of the smallest thing around a row that reads as one
// unit, such as a table row or a list item.
func (v *view) around(i int) string {
	for p := v.rows[i].parent(); p >= 0; p = v.rows[p].parent() {
		switch v.rows[p].tag {
		case "tr", "li", "article", "dd", "dt", "label", "fieldset", "p":
			return v.text(p)
		}
		switch role := v.rows[p].get("role"); role {
		case "row", "listitem", "article", "group", "gridcell":
			return v.text(p)
		}
	}
	return ""
}

func hasFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
