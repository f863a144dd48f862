package bridge

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestRefsOfASession: the refs are those of the session's only tab, or of the
// one that is named; never of another session's, and not of a locked one.
func TestRefsOfASession(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		refs := func(session string, tab int) []op.Ref {
			var list []op.Ref
			assert.NilError(t, p.ask("refs", RefsParams{session, tab}, &list))
			return list
		}
		assert.Equal(t, len(refs("default", 0)), 0, "no tab")
		wantOK(t, p.do(cmd("1", "page.snapshot", `{}`)))
		var st Status
		assert.NilError(t, p.ask("status", SessionParams{"default"}, &st))
		first := *st.Session.Targets[0].TabID
		want := []op.Ref{{Ref: "el-1", Role: "button", Name: fmt.Sprint(first), Verbs: []string{"click"}}}
		assert.DeepEqual(t, refs("", 0), want)
		assert.DeepEqual(t, refs("default", first), want)
		assert.Equal(t, len(refs("default", first+1000)), 0, "not its tab")
		assert.Equal(t, len(refs("other", first)), 0, "another session's tab")

		wantOK(t, p.do(cmd("2", "tab.new", `{}`)))
		assert.Equal(t, len(refs("default", 0)), 0, "two tabs: none is meant")
		assert.DeepEqual(t, refs("default", first), want)

		assert.NilError(t, p.ask("revoke", SessionParams{"default"}, nil))
		assert.Equal(t, len(refs("default", first)), 0, "locked")
		assert.Assert(t, p.ask("refs", map[string]int{"tab": 1}, nil) != nil, "an unknown parameter")
	})
}
