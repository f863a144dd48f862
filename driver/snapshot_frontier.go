package driver

import (
	"fmt"
	"slices"

	"pi-chrome/driver/op"
)

// frontier remembers where a snapshot or a read stopped.
type frontier struct {
	id         string
	projection string // "actions" or "content"
	name       string
	print      fnv // of everything left out

	// Actions: those of one region, of all regions but some, or of a subtree,
	// without the ones in shown, from offset on.
	region  nodeKey
	others  map[nodeKey]bool // the regions that have a frontier of their own
	subtree bool
	shown   map[nodeKey]bool
	offset  int
	opts    SnapshotOptions

	// Content.
	view, query string
	limit       int // blocks after offset at most; 0 for no limit
	subject     nodeKey
	chars       int
}

// addFrontier keeps a frontier and names it.
func (t *Tab) addFrontier(f *frontier) FrontierOut {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &t.observed
	if o.frontiers == nil {
		o.frontiers = map[string]*frontier{}
	}
	o.nextFrontier++
	f.id = fmt.Sprintf("frontier-%d", o.nextFrontier)
	o.frontiers[f.id] = f
	return FrontierOut{Kind: "frontier", Projection: f.projection, ID: f.id, Name: f.name}
}

// fingerprint tells two lists of actions apart by what a reader would choose
// them by. State is left out: a tick in a box moves nothing.
func fingerprint(list []*action) fnv {
	h := newFNV()
	for _, a := range list {
		h = h.add(itoa(a.v.rows[a.row].num()), string(a.v.frame.id), a.v.meta.Token, a.role, a.name)
		h = h.add(a.verbs...)
	}
	return h
}

// remaining are the actions that a frontier stands for, in reading order.
func (s *shot) remaining(f *frontier) []*action {
	var list []*action
	switch {
	case f.subtree:
		root := s.sv.find(f.region)
		if !root.ok() {
			return nil
		}
		for _, a := range s.all {
			if root.within(a.v, a.row) {
				list = append(list, a)
			}
		}
	default:
		for _, a := range s.all {
			key := a.region.key()
			if f.others != nil && !f.others[key] || f.others == nil && key == f.region {
				list = append(list, a)
			}
		}
	}
	list = s.filter(list)
	if f.opts.Mode == "forms" {
		list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool { return !slices.Contains(formRoles, a.role) })
	}
	list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool { return f.shown[a.key()] })
	if f.offset >= len(list) {
		return nil
	}
	return list[f.offset:]
}

// continued are the actions of the frontier that the call continues. It is
// stale when they are not what they were.
func (s *shot) continued() ([]*action, error) {
	f := s.cont
	if f.others == nil && !s.sv.find(f.region).ok() {
		return nil, s.gone(f.id, "its context has gone from the page")
	}
	rest := s.remaining(f)
	if fingerprint(rest) != f.print {
		return nil, op.Reject(op.StaleObservationFrontier, "%s on tab %d is stale: the actions that it left out have changed", f.id, s.t.conn.Key().TabID).
			WithHint("take a snapshot, and use its frontiers").WithDetail("ref", f.id).WithDetail("url", s.t.url())
	}
	return rest, nil
}

// frontiers makes the refs that lead to every action that is not shown: one
// for each region, and one for the rest where there are too many of them.
func (s *shot) frontiers(shown map[*action]bool) []FrontierOut {
	if s.cont != nil {
		return s.goOn(shown)
	}
	keys := func(list []*action) map[nodeKey]bool {
		m := map[nodeKey]bool{}
		for _, a := range list {
			if shown[a] {
				m[a.key()] = true
			}
		}
		return m
	}
	opts := SnapshotOptions{Role: s.in.Role, ContainingText: s.in.ContainingText}
	if s.in.Mode == "forms" {
		opts.Mode = s.in.Mode
	}
	emit := func(f *frontier) FrontierOut {
		f.projection, f.opts = "actions", opts
		rest := s.remaining(f)
		f.print = fingerprint(rest)
		o := s.t.addFrontier(f)
		o.Omitted = len(rest)
		return o
	}
	if s.byName != nil {
		f := &frontier{name: "Expanded context", region: s.within.key(), subtree: true, shown: keys(s.byName.actions)}
		f.opts = opts
		if len(s.remaining(f)) == 0 {
			return nil
		}
		return []FrontierOut{emit(f)}
	}
	hidden := s.leftOut(shown)
	var regions []*region
	for _, r := range s.sv.regions {
		if hidden[r] > 0 {
			regions = append(regions, r)
		}
	}
	var rest []*region
	if len(regions) > maxFrontierLines {
		byCount := slices.Clone(regions)
		slices.SortStableFunc(byCount, func(a, b *region) int { return hidden[b] - hidden[a] })
		rest = byCount[maxFrontierLines-1:]
	}
	var out []FrontierOut
	own := map[nodeKey]bool{}
	for _, r := range regions {
		if slices.Contains(rest, r) {
			continue
		}
		own[r.key()] = true
		name := r.title()
		if name == "" {
			name = r.role
		}
		out = append(out, emit(&frontier{name: name, region: r.key(), shown: keys(r.actions)}))
	}
	if len(rest) > 0 {
		all := map[nodeKey]bool{}
		for _, r := range rest {
			for k := range keys(r.actions) {
				all[k] = true
			}
		}
		// Regions of which nothing is left out count as others, too.
		for _, r := range s.sv.regions {
			if !slices.Contains(rest, r) {
				own[r.key()] = true
			}
		}
		out = append(out, emit(&frontier{name: plural(len(rest), "other context"), others: own, shown: all}))
	}
	return out
}

// leftOut counts the actions of the wanted kind that are not shown, by region.
func (s *shot) leftOut(shown map[*action]bool) map[*region]int {
	out := map[*region]int{}
	for _, a := range s.pick {
		if s.in.Mode == "changes" && !s.diff.First && !s.changed[a] {
			continue
		}
		if !shown[a] && (s.in.Mode != "forms" || slices.Contains(formRoles, a.role)) {
			out[a.region]++
		}
	}
	return out
}

// goOn is the frontier after a continuation.
func (s *shot) goOn(shown map[*action]bool) []FrontierOut {
	n := 0
	for _, a := range s.pick {
		if shown[a] {
			n++
		}
	}
	if n >= len(s.pick) {
		return nil
	}
	f := *s.cont
	f.offset += n
	rest := s.pick[n:]
	f.print = fingerprint(rest)
	o := s.t.addFrontier(&f)
	o.Omitted = len(rest)
	return []FrontierOut{o}
}
