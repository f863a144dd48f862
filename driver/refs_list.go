package driver

import (
	"maps"
	"slices"

	"pi-chrome/driver/op"
)

// Refs returns at most max elements to which the snapshots of a tab gave refs
// that can be acted on: those that were shown latest first, in the order of
// their refs. It asks the page nothing, so some may have gone by now. A tab
// that the driver does not know has none.
func (d *Driver) Refs(key op.TabKey, max int) []op.Ref {
	d.mu.Lock()
	t := d.tabs[key]
	d.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.SortedFunc(maps.Values(t.observed.byRef), func(a, b *known) int {
		if a.used != b.used {
			return b.used - a.used
		}
		return compareRefs(a.ref, b.ref)
	})
	var out []op.Ref
	for _, k := range all {
		if len(k.verbs) > 0 && len(out) < max {
			out = append(out, op.Ref{Ref: k.ref, Role: k.role, Name: cut(oneLine(k.name), 80), Verbs: slices.Clone(k.verbs)})
		}
	}
	return out
}
