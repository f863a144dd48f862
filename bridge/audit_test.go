package bridge

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func TestEveryCommandIsInTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantOK(t, p.do(cmd("1", "page.click", `{"text":"hunter2","ref":"el-3","url":"https://a.test/x?token=hunter2#y"}`)))
		r.handler.run = nil
		wantError(t, p.do(by("mcp:x", cmd("2", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "mcp:x", Mode: AuthorizedIndefinite}, nil))
		wantError(t, p.do(by("mcp:x", cmd("3", "tab.close", `{}`))), op.Rejected, op.AutomationTargetRequired)
		p.close()
		r.crash()
		r.start()
		r.close()
		var all []AuditEntry
		assert.NilError(t, ReadAudit(r.dir, func(e AuditEntry, line []byte) bool { all = append(all, e); return true }))
		var events []string
		for _, e := range all {
			events = append(events, e.Event+" "+e.Operation+" "+e.Outcome)
		}
		assert.DeepEqual(t, events, []string{"owner-started  ", "command page.click ok", "command page.click rejected/session-locked", "authorize  indefinite",
			"command tab.close rejected/automation-target-required", "owner-started  "})
		click := all[1]
		assert.DeepEqual(t, click.Input, map[string]any{"text": "(7 characters)", "ref": "el-3", "url": "https://a.test/x"})
		assert.Assert(t, click.TabID > 0 && click.Connector != "" && click.Session == "default" && click.Client[0] == "test")
		raw, err := os.ReadFile(filepath.Join(r.dir, auditName))
		assert.NilError(t, err)
		assert.Assert(t, !bytes.Contains(raw, []byte("hunter2")))
		rep, err := VerifyAudit(r.dir)
		assert.NilError(t, err)
		assert.Equal(t, rep.Problem, "")
		assert.Equal(t, rep.Entries, 6)
	})
}

// openAudit opens the log of a folder.
func openAudit(dir string) (*auditLog, error) {
	l := newAudit(dir)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.openLocked()
}

// TestAnAuditLogThatCannotBeWritten: the owner starts, reads, and begins nothing that
// may have an effect, until the log can be written; what is missing is told.
func TestAnAuditLogThatCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		// A folder in its place is what nobody can write, not even root.
		assert.NilError(t, os.Mkdir(filepath.Join(dir, auditName), 0o700))
		r := newRigIn(t, dir)
		defer r.close()
		p := r.dial()
		defer p.close()
		mine := r.browser.open("https://mine.test/")
		wantOK(t, p.do(cmd("1", "page.snapshot", forTab(mine.ID))))
		wantOK(t, p.do(cmd("2", "tab.list", `{}`)))
		wantOK(t, p.do(cmd("3", "system.status", `{}`)))
		for i, c := range []wire.Command{cmd("4", "page.click", forTab(mine.ID)), cmd("5", "page.click", `{}`), cmd("6", "page.snapshot", `{}`), cmd("7", "tab.new", `{}`)} {
			f := wantError(t, p.do(c), op.Unavailable, op.StateUnreadable)
			assert.Assert(t, strings.Contains(f.Message, "audit log in "+dir) && strings.Contains(f.Message, "Nothing was done"), "%d: %s", i, f.Message)
			assert.Assert(t, strings.Contains(f.Hint, "audit*.log"), f.Hint)
		}
		assert.DeepEqual(t, r.handler.order(), []string{"1", "2", "3"})
		assert.Equal(t, len(tabsOf(r.browser)), 1, "a tab was made: %v", tabsOf(r.browser))

		assert.NilError(t, os.Remove(filepath.Join(dir, auditName)))
		time.Sleep(auditRetry)
		wantOK(t, p.do(cmd("8", "page.click", `{}`)))
		synctest.Wait()
		var events []string
		assert.NilError(t, ReadAudit(dir, func(e AuditEntry, _ []byte) bool { events = append(events, e.Event+" "+e.ID); return true }))
		assert.DeepEqual(t, events, []string{"resumed ", "command 8"})
		rep, err := VerifyAudit(dir)
		assert.NilError(t, err)
		assert.Equal(t, rep.Problem, "")
	})
}

func TestTamperedAuditLog(t *testing.T) {
	make := func(t *testing.T) string {
		dir := t.TempDir()
		l, err := openAudit(dir)
		assert.NilError(t, err)
		for range 70 {
			assert.NilError(t, l.add(AuditEntry{Event: "command", Session: "default", Outcome: "ok"}))
		}
		assert.NilError(t, l.close())
		rep, err := VerifyAudit(dir)
		assert.NilError(t, err)
		assert.Equal(t, rep.Problem, "")
		assert.Equal(t, rep.Head.Seq, int64(70))
		return dir
	}
	for name, tamper := range map[string]func(lines []string) []string{
		"changed": func(l []string) []string { l[10] = strings.Replace(l[10], `"ok"`, `"no"`, 1); return l },
		"removed": func(l []string) []string { return append(l[:10:10], l[11:]...) },
		"moved":   func(l []string) []string { l[10], l[11] = l[11], l[10]; return l },
		"doubled": func(l []string) []string { return append(l[:11:11], l[10:]...) },
		"cut off": func(l []string) []string { return l[:50] },
		"junk":    func(l []string) []string { l[10] = "junk\n"; return l },
	} {
		t.Run(name, func(t *testing.T) {
			dir := make(t)
			path := filepath.Join(dir, auditName)
			raw, err := os.ReadFile(path)
			assert.NilError(t, err)
			lines := strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n")
			lines[len(lines)-1] += "\n"
			assert.NilError(t, os.WriteFile(path, []byte(strings.Join(tamper(lines), "")), 0o600))
			rep, err := VerifyAudit(dir)
			assert.NilError(t, err)
			assert.Assert(t, rep.Problem != "")
		})
	}
}

func TestAuditLogAfterACrashAndRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, auditName)
	l, err := openAudit(dir)
	assert.NilError(t, err)
	assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	_, err = l.file.WriteString(`{"seq":2,"half`) // a crash in the middle
	assert.NilError(t, err)
	l, err = openAudit(dir)
	assert.NilError(t, err)
	for range auditOlder + 3 {
		l.size = auditBytes // as if it were full
		assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	}
	assert.NilError(t, l.close())
	files, err := auditFiles(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(files), auditOlder+1)
	rep, err := VerifyAudit(dir)
	assert.NilError(t, err)
	assert.Equal(t, rep.Problem, "")
	assert.Assert(t, rep.First > 1)
	// A reader that has seen all of the older files reads the newest only.
	var seqs []int64
	assert.NilError(t, ReadAuditAfter(dir, rep.Head.Seq-1, func(e AuditEntry, _ []byte) bool { seqs = append(seqs, e.Seq); return true }))
	assert.DeepEqual(t, seqs, []int64{rep.Head.Seq})
	seqs = nil
	assert.NilError(t, ReadAuditAfter(dir, rep.Head.Seq-2, func(e AuditEntry, _ []byte) bool { seqs = append(seqs, e.Seq); return true }))
	assert.DeepEqual(t, seqs, []int64{rep.Head.Seq - 1, rep.Head.Seq})
	info, err := os.Stat(path)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
}
