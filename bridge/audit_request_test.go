package bridge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// auditOf is the log of a state folder; its chain must be whole.
func auditOf(t *testing.T, dir string) []AuditEntry {
	t.Helper()
	rep, err := VerifyAudit(dir)
	assert.NilError(t, err)
	assert.Equal(t, rep.Problem, "")
	var all []AuditEntry
	assert.NilError(t, ReadAudit(dir, func(e AuditEntry, _ []byte) bool { all = append(all, e); return true }))
	return all
}

// TestRequestsAreInTheAuditLog: whatever a request changed, and whoever asked;
// reading leaves no line.
func TestRequestsAreInTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		assert.NilError(t, r.srv.store.SaveBinding(t.Context(), Binding{ConnectorID: r.browser.id, Label: "Work", Secret: wire.NewSecret()}))
		p := r.dial()
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		tab := recordsOf(r.srv)[0].TabID
		for _, method := range []string{"status", "sessions", "doctor", "owner", "pairing.status"} {
			assert.NilError(t, p.ask(method, nil, nil))
		}
		assert.NilError(t, p.ask("cleanup", CleanupParams{Session: "default"}, nil))
		assert.NilError(t, p.ask("revoke", SessionParams{"default"}, nil))
		assert.Assert(t, p.ask("web.claim", ClaimParams{Session: "default", Offer: "nonsense"}, nil) != nil)
		assert.Assert(t, p.ask("authorize", AuthorizeParams{Session: "default", Mode: "for-ever"}, nil) != nil)

		one := stranger(t, r.srv.relay, "One")
		var s PairingStatus
		assert.NilError(t, p.ask("pairing.start", PairingOptions{}, &s))
		assert.Assert(t, one.pair(s.Token).refusal == nil)
		synctest.Wait()
		assert.NilError(t, p.ask("forget", ConnectorParams{"Work"}, nil))
		p.close()
		r.close()

		var lines []string
		for _, e := range auditOf(t, r.dir)[1:] {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %s|%s", e.Event, e.Operation, e.Session, e.Connector, e.Outcome, e.Note))
			if e.Event == "request" {
				assert.DeepEqual(t, e.Client, []string{"test"})
				assert.Assert(t, e.ID != "")
			}
		}
		assert.DeepEqual(t, lines, []string{
			"command page.click default " + r.browser.id + " ok|",
			fmt.Sprintf("request cleanup default  ok|closed 1 tab (%d), left no tab to the user, cleared 0 stale records", tab),
			"authorize  default  locked|",
			"request web.claim default  invalid/invalid-input|",
			"request authorize default  invalid/invalid-input|",
			"request pairing.start   ok|",
			"paired   " + one.id + " ok|",
			"request forget  Work ok|profile " + r.browser.id,
		})
		raw, err := os.ReadFile(filepath.Join(r.dir, auditName))
		assert.NilError(t, err)
		assert.Assert(t, !bytes.Contains(raw, []byte(s.Token)) && !bytes.Contains(raw, []byte(one.secret)))
	})
}

// TestRefusedCommandsAreInTheAuditLog: those that do not even enter, without
// what the caller made up.
func TestRefusedCommandsAreInTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantError(t, p.do(cmd("1", "page.click", `{"bad":"hunter2"}`)), op.Invalid, op.InvalidInput)
		wantError(t, p.do(cmd("2", "page.hunter2", `{}`)), op.Invalid, op.UnknownTool)
		wantError(t, p.do(cmd("3/1", "page.click", `{}`)), op.Invalid, op.InvalidInput)
		wantError(t, p.do(by("hunter2\n", cmd("4", "page.click", `{}`))), op.Invalid, op.InvalidInput)
		wantError(t, p.do(by("mcp:x", cmd("5", "page.click", `{"ref":"el-1","text":"hunter2"}`))), op.Rejected, op.SessionLocked)
		p.close()
		r.close()
		var lines []string
		for _, e := range auditOf(t, r.dir)[1:] {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %v", e.ID, e.Operation, e.Session, e.Outcome, e.Input))
			assert.DeepEqual(t, e.Client, []string{"test"})
		}
		assert.DeepEqual(t, lines, []string{
			"1 page.click default invalid/invalid-input map[]",
			"2 unknown default invalid/unknown-tool map[]",
			"3/1 page.click default invalid/invalid-input map[]",
			"4 page.click  invalid/invalid-input map[]",
			"5 page.click mcp:x rejected/session-locked map[ref:el-1 text:(7 characters)]",
		})
		raw, err := os.ReadFile(filepath.Join(r.dir, auditName))
		assert.NilError(t, err)
		assert.Assert(t, !bytes.Contains(raw, []byte("hunter2")))
	})
}

// TestRequestsThatChangePagesNeedTheLog: cleanup closes nothing while the log
// takes no entry; locking a session works all the same.
func TestRequestsThatChangePagesNeedTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		good := r.srv.audit.file
		broken, err := os.Open(filepath.Join(r.dir, auditName)) // for reading only
		assert.NilError(t, err)
		r.srv.audit.file = broken
		wantOK(t, p.do(cmd("2", "page.snapshot", `{}`))) // after it the owner knows
		assert.ErrorContains(t, p.ask("cleanup", CleanupParams{Session: "default"}, nil), "Nothing was done")
		assert.Equal(t, len(tabsOf(r.browser)), 1)
		assert.NilError(t, p.ask("revoke", SessionParams{"default"}, nil))
		r.srv.audit.file = good
		assert.NilError(t, broken.Close())
		assert.NilError(t, p.ask("cleanup", CleanupParams{Session: "default"}, nil))
		assert.Equal(t, len(tabsOf(r.browser)), 0)
		p.close()
		r.close()
	})
}
