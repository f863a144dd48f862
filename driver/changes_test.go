package driver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// changing is a page of controls that a test mutates, and what it must hold.
type changing struct {
	r     *rand.Rand
	next  int
	items []*changingItem
}

type changingItem struct {
	id                        int
	name                      string
	check, checked            bool // a check box, and its state
	disabled, hidden, removed bool
	ref                       string
}

// offered reports whether a snapshot lists the item.
func (i *changingItem) offered() bool { return !i.disabled && !i.hidden && !i.removed }

// changingPage has three places for controls: the page, a closed shadow root
// and a frame.
const changingPage = `document.open(); document.write("<!DOCTYPE html><title>Changing</title><body><div id=a></div><div id=b></div><iframe id=c title=Frame width=700 height=900></iframe>"); document.close();
	globalThis.places = [a, b.attachShadow({mode: "closed"}), c.contentDocument.body];
	globalThis.items = new Map();
	globalThis.made = (id, place, name, check, before) => {
		const doc = places[place].ownerDocument, el = doc.createElement(check ? "input" : "button");
		if (check) { el.type = "checkbox"; el.setAttribute("aria-label", name); } else el.textContent = name;
		const rows = places[place].children;
		places[place].insertBefore(el, rows[before % (rows.length + 1)] || null);
		items.set(id, el);
	}; void 0`

// add makes an item and returns the script that makes it in the page.
func (c *changing) add() string {
	c.next++
	i := &changingItem{id: c.next, name: fmt.Sprintf("Item %d", c.next), check: c.r.IntN(3) == 0}
	c.items = append(c.items, i)
	return fmt.Sprintf("made(%d, %d, %q, %v, %d);", i.id, c.r.IntN(3), i.name, i.check, c.r.IntN(9))
}

// mutate changes something and returns the script that does so in the page.
func (c *changing) mutate() string {
	live := slices.DeleteFunc(slices.Clone(c.items), func(i *changingItem) bool { return i.removed })
	if len(live) < 3 {
		return c.add()
	}
	i := live[c.r.IntN(len(live))]
	el := fmt.Sprintf("items.get(%d)", i.id)
	switch c.r.IntN(8) {
	case 0:
		return c.add()
	case 1:
		i.removed = true
		return el + ".remove();"
	case 2: // another element in its place is another control
		i.removed = true
		c.next++
		j := *i
		j.id, j.ref, j.removed = c.next, "", false
		c.items = append(c.items, &j)
		return fmt.Sprintf("{const old = %s, el = old.cloneNode(true); el.checked = old.checked; old.replaceWith(el); items.set(%d, el);}", el, j.id)
	case 3:
		c.next++
		i.name = fmt.Sprintf("Item %d", c.next)
		if i.check {
			return fmt.Sprintf("%s.setAttribute('aria-label', %q);", el, i.name)
		}
		return fmt.Sprintf("%s.textContent = %q;", el, i.name)
	case 4:
		i.disabled = !i.disabled
		return fmt.Sprintf("%s.disabled = %v;", el, i.disabled)
	case 5:
		i.hidden = !i.hidden
		return fmt.Sprintf("%s.hidden = %v;", el, i.hidden)
	case 6:
		if !i.check {
			return ""
		}
		i.checked = !i.checked
		return fmt.Sprintf("%s.checked = %v;", el, i.checked)
	}
	// Moved within its place, it is the same control.
	return fmt.Sprintf("%s.parentNode.append(%s);", el, el)
}

// What the mode changes tells after any mutations is exactly what was added,
// removed and updated; what survives keeps its ref, and the refs of what was
// removed are stale.
func TestChangesAreExact(t *testing.T) {
	seeds := uint64(6)
	if thorough() {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := start(t, "snapshot/empty.html")
			s.Eval(changingPage)
			c := &changing{r: rand.New(rand.NewPCG(seed, 11))}
			for range 12 {
				s.Eval(c.add())
			}
			before := map[string]string{} // offered items by ref: what a reader knows of them
			for round := range 8 {
				var script strings.Builder
				if round > 0 {
					for range 1 + c.r.IntN(8) {
						script.WriteString(c.mutate())
					}
					s.Eval("(() => {" + script.String() + "})()")
				}
				what := fmt.Sprintf("seed %d, round %d: %s", seed, round, script.String())
				diff, _ := look(s, `{"mode":"changes"}`)
				all, _ := look(s, `{"mode":"interactive"}`)
				now := map[string]string{}
				byName := map[string]ActionOut{}
				for _, a := range all.Actions {
					now[a.ID] = fmt.Sprint(a.Role, " ", a.Name, " ", a.State.CheckedValue)
					byName[a.Name] = a
				}
				var offered int
				for _, i := range c.items {
					if !i.offered() {
						continue
					}
					offered++
					a, ok := byName[i.name]
					assert.Assert(t, ok, "%s: %q is not told", what, i.name)
					if i.ref != "" {
						assert.Equal(t, a.ID, i.ref, "%s: the ref of %q", what, i.name)
					}
					i.ref = a.ID
					if i.check {
						assert.Equal(t, a.State.CheckedValue, any(i.checked), "%s: %q", what, i.name)
					}
				}
				assert.Equal(t, len(all.Actions), offered, what)
				if round == 0 {
					assert.Assert(t, diff.Diff.First)
				} else {
					checkDiff(t, what, diff.Diff, before, now)
				}
				before = now
			}
			for _, i := range c.items {
				if i.removed && i.ref != "" {
					e := s.Fail("input.click", map[string]any{"ref": i.ref}, op.Rejected, op.StaleActionRef)
					assert.Assert(t, e.Hint != "")
				}
			}
		})
	}
}

// checkDiff compares what was told with what changed between two lists.
func checkDiff(t *testing.T, what string, d DiffOut, before, now map[string]string) {
	t.Helper()
	var added, removed, updated []string
	for ref, is := range now {
		if was, ok := before[ref]; !ok {
			added = append(added, ref)
		} else if was != is {
			updated = append(updated, ref)
		}
	}
	for ref := range before {
		if _, ok := now[ref]; !ok {
			removed = append(removed, ref)
		}
	}
	refs := func(list []LabelOut) []string {
		var out []string
		for _, l := range list {
			out = append(out, l.UID)
		}
		return out
	}
	var gotUpdated []string
	for _, u := range d.Updated {
		gotUpdated = append(gotUpdated, u.UID)
	}
	for _, c := range []struct {
		kind      string
		got, want []string
		count     int
	}{{"added", refs(d.Added), added, d.AddedCount}, {"removed", refs(d.Removed), removed, d.RemovedCount}, {"updated", gotUpdated, updated, d.UpdatedCount}} {
		slices.Sort(c.got)
		slices.Sort(c.want)
		assert.Equal(t, c.count, len(c.want), "%s: count of %s: %v, not %v", what, c.kind, c.got, c.want)
		assert.DeepEqual(t, c.got, c.want[:min(len(c.want), len(c.got))])
		assert.Assert(t, len(c.got) == min(len(c.want), maxDiffList), "%s: %s", what, c.kind)
	}
}
