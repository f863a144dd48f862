package driver

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// A tab that is lost after its page was asked for: the browser's word that it
// has no such tab says nothing of what was done before. The page has counted
// the visit.
func TestTabLostAfterTheEffect(t *testing.T) {
	s := start(t, "navigate/plain.html")
	for operation, input := range map[string]map[string]any{
		"page.navigate": {"url": s.Site.URL("navigate/plain.html?again")},
		"page.history":  {"action": "reload"},
	} {
		for _, lose := range []*op.Error{
			op.Reject(op.TabGone, "tab 7 does not exist any more"), op.NotAvailable(op.ConnectorOffline, "no browser is connected; nothing was done"),
		} {
			recorded(s).FailNth("Info", 1, lose)
			e := s.Fail(operation, input, op.OutcomeUnknown, lose.Code)
			assert.Assert(t, strings.Contains(e.Message, "under way") && strings.Contains(e.Hint, "list the tabs"), "%s: %s (%s)", operation, e.Message, e.Hint)
			assert.Assert(t, !strings.Contains(e.Message, "nothing was done"), e.Message)
		}
	}
}
