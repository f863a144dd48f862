package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestNothingTellsADeniedPage: where a session's own tab has drifted to, no
// answer to the session has the title or the address of; the user is told.
func TestNothingTellsADeniedPage(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		const secret, title = "s3cret", "Your account"
		r.handler.run = runTabs
		wantOK(t, p.do(cmd("new", "tab.new", `{}`)))
		own := recordsOf(r.srv)[0].TabID
		p.setPolicy(t, `{"version":1,"origins":{"deny":["https://bad.test"]}}`)
		r.browser.change(own, func(t *op.Tab) { t.URL, t.Title = "https://bad.test/?token="+secret, title })
		silent := func(what, told string) {
			t.Helper()
			assert.Check(t, !strings.Contains(told, secret) && !strings.Contains(told, title), "%s tells: %s", what, told)
		}
		n := 0
		ask := func(operation, input string) string {
			t.Helper()
			n++
			res := p.do(inForeground(cmd(fmt.Sprint(n), operation, input)))
			wantOK(t, res)
			return string(res.Value) + res.Text
		}
		told := ask("system.status", `{}`)
		silent("status", told)
		assert.Check(t, strings.Contains(told, "not allowed: origins.deny https://bad.test"), told)
		assert.Check(t, strings.Contains(told, fmt.Sprintf(`"tabId":%d`, own)), told)
		for _, operation := range []string{"tab.activate", "tab.group", "tab.ungroup"} {
			told := ask(operation, `{}`)
			silent(operation, told)
			assert.Check(t, strings.Contains(told, `"owned":true`), told)
		}
		r.handler.run = runClaims
		silent("release at the end", ask("tab.release", `{"atEnd":true}`))
		silent("a claim of what it has", ask("tab.claim", forTab(own)))
		silent("the list", ask("tab.list", `{}`))

		// With two tabs, the error lists them.
		wantOK(t, p.do(cmd("second", "tab.new", `{}`)))
		f := wantError(t, p.do(cmd("which", "page.click", `{}`)), op.Rejected, op.AmbiguousOwnedTarget)
		details, err := json.Marshal(f)
		assert.NilError(t, err)
		silent("an error", string(details))

		// A tab that was left on such a page.
		wantOK(t, p.do(cmd("left", "tab.release", forTab(own))))
		silent("status after the release", ask("system.status", `{}`))

		// The user sees what there is.
		var st Status
		assert.NilError(t, p.ask("status", SessionParams{"default"}, &st))
		assert.Equal(t, st.Session.Released[0].URL, "https://bad.test/?token="+secret)
	})
}
