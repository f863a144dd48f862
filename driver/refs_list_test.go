package driver

import (
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestRefsAreListed: what was shown latest comes first, what takes no verb is
// left out, and the list ends where it must.
func TestRefsAreListed(t *testing.T) {
	key := op.TabKey{BrowserEpoch: "e", TabID: 7, TargetID: "t"}
	tab := &Tab{}
	for _, k := range []known{
		{ref: "el-10", role: "button", name: "Ten", verbs: []string{"click"}, used: 2},
		{ref: "el-9", role: "textbox", name: "Nine\nlines", verbs: []string{"fill", "press"}, used: 2},
		{ref: "el-1", role: "link", name: "Old", verbs: []string{"click"}, used: 1},
		{ref: "el-2", role: "heading", name: "Only a heading", used: 2},
	} {
		k.key.num = len(tab.observed.byRef)
		if tab.observed.byRef == nil {
			tab.observed.byRef = map[string]*known{}
		}
		tab.observed.byRef[k.ref] = &k
	}
	d := &Driver{tabs: map[op.TabKey]*Tab{key: tab}}
	assert.DeepEqual(t, d.Refs(key, 10), []op.Ref{
		{Ref: "el-9", Role: "textbox", Name: "Nine lines", Verbs: []string{"fill", "press"}},
		{Ref: "el-10", Role: "button", Name: "Ten", Verbs: []string{"click"}},
		{Ref: "el-1", Role: "link", Name: "Old", Verbs: []string{"click"}},
	})
	assert.Equal(t, len(d.Refs(key, 2)), 2)
	assert.Equal(t, len(d.Refs(op.TabKey{TabID: 8}, 10)), 0)
}
