package driver

import (
	"slices"

	"github.com/chromedp/cdproto/cdp"
)

// Bounds of a comparison with the session's last snapshot.
const (
	maxRemembered = 4000 // actions kept for it
	maxDiffTexts  = 4 * maxRemembered
	maxDiffList   = 12
)

// DiffOut is what changed since the session's last snapshot of the tab.
type DiffOut struct {
	First        bool        `json:"firstSnapshot,omitempty"`
	Changes      []Change    `json:"changes,omitempty"`
	Added        []LabelOut  `json:"added,omitempty"`
	Removed      []LabelOut  `json:"removed,omitempty"`
	Updated      []UpdateOut `json:"updated,omitempty"`
	AddedCount   int         `json:"addedCount,omitempty"`
	RemovedCount int         `json:"removedCount,omitempty"`
	UpdatedCount int         `json:"updatedCount,omitempty"`
	TextAdded    []string    `json:"textAdded,omitempty" jsonschema:"new pieces of text, at most 12"`
	TextCount    int         `json:"textAddedCount,omitempty"`
	Compared     int         `json:"compared,omitempty" jsonschema:"how many actions were compared, where not all could be"`

	ComparedTexts int `json:"comparedTexts,omitempty" jsonschema:"how many texts were compared, where not all could be"`
}

// Change is a change of the page as a whole.
type Change struct {
	Kind   string `json:"kind" enum:"url|title|focus|modal|textChanged"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// LabelOut is an action in a comparison.
type LabelOut struct {
	UID      string `json:"uid,omitempty"`
	Role     string `json:"role"`
	Label    string `json:"label"`
	Disabled bool   `json:"disabled,omitempty"`
	Value    string `json:"value,omitempty"`
	Checked  string `json:"checked,omitempty"`
	State    string `json:"state,omitempty" jsonschema:"the other states, as the text form prints them"`
	key      nodeKey
}

// UpdateOut is an action that is no longer as it was.
type UpdateOut struct {
	UID    string   `json:"uid,omitempty"`
	Before LabelOut `json:"before"`
	After  LabelOut `json:"after"`
}

// lastSnapshot is what a session saw last of the tab.
type lastSnapshot struct {
	count  int
	url    string
	title  string
	focus  string
	modal  string
	labels map[nodeKey]LabelOut
	total  int
	texts  map[fnv]bool // of the first maxDiffTexts
	read   int          // texts there were
	text   fnv          // of all of them
}

// labelOf is how an action is compared.
func labelOf(a *action) LabelOut {
	st := a.v.state(a.row, a.role)
	st.Focused = false
	l := LabelOut{Role: a.role, Label: head(a.name, maxNameShown), Disabled: st.Disabled, Value: st.Value, Checked: st.Checked, key: a.key()}
	if st.ValueRedacted {
		l.Value = "(" + plural(st.ValueLength, "character") + ")"
	}
	st.Checked, st.Value, st.ValueLength, st.ValueRedacted, st.Options, st.Choices = "", "", 0, false, 0, ""
	l.State = stateWords(st)
	return l
}

// compare finds what changed since the session's last snapshot, and remembers
// this one.
func (s *shot) compare() {
	m := s.sv.main()
	now := &lastSnapshot{url: m.meta.URL, title: m.meta.Title, labels: map[nodeKey]LabelOut{}, total: len(s.all), texts: map[fnv]bool{}, text: newFNV()}
	if f := s.sv.focused; f.ok() {
		now.focus = oneLine(f.v.role(f.row) + " " + f.v.label(f.row))
	}
	if d := s.sv.modal; d.ok() {
		now.modal = oneLine(d.v.role(d.row) + " " + (&region{spot: d, role: "dialog"}).title())
	}
	for _, a := range s.all[:min(len(s.all), maxRemembered)] {
		now.labels[a.key()] = labelOf(a)
	}
	var fresh []string
	session := ""
	if s.c != nil {
		session = s.c.Session.Key
	}
	t := s.t
	t.mu.Lock()
	before := t.observed.last[session]
	t.mu.Unlock()
	s.sv.each(func(v *view, i int) bool {
		r := &v.rows[i]
		if r.tag != "" {
			return !r.has(rowHidden)
		}
		text := oneLine(r.text)
		if text == "" || r.parent() >= 0 && v.rows[r.parent()].has(rowInvisible) {
			return true
		}
		now.text = now.text.add(text)
		if now.read++; now.read > maxDiffTexts {
			return true
		}
		h := newFNV().add(text)
		now.texts[h] = true
		if before != nil && !before.texts[h] {
			fresh = append(fresh, head(text, maxSnippet))
		}
		return true
	})
	t.mu.Lock()
	o := &t.observed
	o.count++
	now.count = o.count
	if o.last == nil {
		o.last = map[string]*lastSnapshot{}
	}
	o.last[session] = now
	t.mu.Unlock()
	s.changed = map[*action]bool{}
	if before == nil {
		s.diff = DiffOut{First: true}
		return
	}
	d := &s.diff
	for _, c := range []Change{{"url", before.url, now.url}, {"title", before.title, now.title}, {"focus", before.focus, now.focus}, {"modal", before.modal, now.modal}} {
		if c.Before != c.After {
			c.Before, c.After = head(oneLine(c.Before), maxSnippet), head(oneLine(c.After), maxSnippet)
			d.Changes = append(d.Changes, c)
		}
	}
	if before.text != now.text {
		d.Changes = append(d.Changes, Change{Kind: "textChanged"})
		d.TextCount = len(fresh)
		d.TextAdded = fresh[:min(len(fresh), maxDiffList)]
	}
	if max(before.total, now.total) > maxRemembered {
		d.Compared = maxRemembered
	}
	if max(before.read, now.read) > maxDiffTexts {
		d.ComparedTexts = maxDiffTexts
	}
	for _, a := range s.all[:min(len(s.all), maxRemembered)] {
		after := now.labels[a.key()]
		was, ok := before.labels[a.key()]
		switch {
		case !ok && before.total <= maxRemembered:
			s.changed[a] = true
			d.AddedCount++
			if len(d.Added) < maxDiffList {
				d.Added = append(d.Added, after)
			}
		case ok && !sameLabel(was, after):
			s.changed[a] = true
			d.UpdatedCount++
			if len(d.Updated) < maxDiffList {
				d.Updated = append(d.Updated, UpdateOut{Before: was, After: after})
			}
		}
	}
	var gone []LabelOut
	if now.total <= maxRemembered {
		unread := map[cdp.FrameID]bool{}
		read := s.sv.tokens()
		t.mu.Lock()
		for id := range t.frames {
			_, ok := read[id]
			unread[id] = !ok
		}
		t.mu.Unlock()
		for key, l := range before.labels {
			if _, ok := now.labels[key]; !ok && !unread[key.frame] {
				gone = append(gone, l)
			}
		}
	}
	slices.SortFunc(gone, func(a, b LabelOut) int {
		if a.key.frame != b.key.frame {
			return compareRefs(string(a.key.frame), string(b.key.frame))
		}
		return a.key.num - b.key.num
	})
	d.RemovedCount = len(gone)
	d.Removed = gone[:min(len(gone), maxDiffList)]
}

// sameLabel compares what a reader sees of an action.
func sameLabel(a, b LabelOut) bool {
	a.UID, b.UID = "", ""
	return a == b
}

// uids fills in the refs of the comparison, as far as they are known.
func (s *shot) uids() {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	set := func(l *LabelOut) {
		if k := t.observed.byKey[l.key]; k != nil {
			l.UID = k.ref
		}
	}
	d := &s.diff
	for i := range d.Added {
		set(&d.Added[i])
	}
	for i := range d.Removed {
		set(&d.Removed[i])
	}
	for i := range d.Updated {
		set(&d.Updated[i].Before)
		set(&d.Updated[i].After)
		d.Updated[i].UID = d.Updated[i].After.UID
	}
}
