package bridge

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// auditLines rewrites the log of a folder line by line.
func auditLines(t *testing.T, dir string, change func(lines []string) []string) {
	t.Helper()
	path := filepath.Join(dir, auditName)
	raw, err := os.ReadFile(path)
	assert.NilError(t, err)
	lines := strings.SplitAfter(string(raw), "\n")
	assert.NilError(t, os.WriteFile(path, []byte(strings.Join(change(lines[:len(lines)-1]), "")), 0o600))
}

// logged is one life of an owner that writes n entries.
func logged(t *testing.T, dir string, n int) {
	t.Helper()
	l := newAudit(dir)
	for range n {
		assert.NilError(t, l.add(AuditEntry{Event: "command", Session: "default", Outcome: "ok"}))
	}
	assert.NilError(t, l.close())
}

// wantProblem is what verify says of the folder; "" for a log that is whole.
func wantProblem(t *testing.T, dir string, parts ...string) AuditReport {
	t.Helper()
	rep, err := VerifyAudit(dir)
	assert.NilError(t, err)
	if len(parts) == 0 {
		assert.Equal(t, rep.Problem, "")
	}
	for _, part := range parts {
		assert.Assert(t, strings.Contains(rep.Problem, part), "%q in %q", part, rep.Problem)
	}
	return rep
}

// cutEntries are the entries that tell of a loss.
func cutEntries(t *testing.T, dir string) (cuts []AuditEntry) {
	t.Helper()
	assert.NilError(t, ReadAudit(dir, func(e AuditEntry, _ []byte) bool {
		if e.Event == auditCut {
			cuts = append(cuts, e)
		}
		return true
	}))
	return cuts
}

// TestACutLogStaysCut: the next owners go on behind the entries that are
// missing, tell of them once, and the log is not whole ever after.
func TestACutLogStaysCut(t *testing.T) {
	dir := t.TempDir()
	logged(t, dir, 70)
	auditLines(t, dir, func(l []string) []string { return l[:20] })
	wantProblem(t, dir, "entry 70")
	logged(t, dir, 1)
	const lost = "entries 21 to 70 are missing: the log was cut off"
	rep := wantProblem(t, dir, lost, "entry 71")
	assert.Equal(t, rep.Entries, 22)
	assert.Equal(t, rep.Head.Seq, int64(72))
	logged(t, dir, 100)
	wantProblem(t, dir, lost)
	cuts := cutEntries(t, dir)
	assert.Equal(t, len(cuts), 1)
	assert.Assert(t, cuts[0].Seq == 71 && cuts[0].Lost.From == 21 && cuts[0].Lost.Seq == 70 && strings.Contains(cuts[0].Note, lost), "%+v", cuts[0])

	// An export is the same lines.
	out := t.TempDir()
	var export bytes.Buffer
	assert.NilError(t, ReadAudit(dir, func(e AuditEntry, _ []byte) bool { return json.NewEncoder(&export).Encode(e) == nil }))
	assert.NilError(t, os.WriteFile(filepath.Join(out, auditName), export.Bytes(), 0o600))
	wantProblem(t, out, lost)

	// What is done to it later is told, too, and so is another cut.
	auditLines(t, dir, func(l []string) []string { l[5] = strings.Replace(l[5], `"ok"`, `"no"`, 1); return l })
	wantProblem(t, dir, "entry 6 was changed", lost)
	auditLines(t, dir, func(l []string) []string { return l[:30] })
	logged(t, dir, 1)
	wantProblem(t, dir, "entry 6 was changed", lost, "and 1 cut after it")
}

// TestWhatIsNoCut: a crash leaves a head that is behind the log, also where the
// file was set aside since.
func TestWhatIsNoCut(t *testing.T) {
	dir := t.TempDir()
	l := newAudit(dir)
	for range 40 {
		assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	}
	_, err := l.file.WriteString(`{"seq":41,"half`)
	assert.NilError(t, err)
	assert.NilError(t, l.file.Close())
	logged(t, dir, 1)
	wantProblem(t, dir)

	l = newAudit(dir)
	assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	for range 3 {
		l.size = auditBytes
		assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	}
	assert.NilError(t, l.add(AuditEntry{Event: "command"}))
	assert.NilError(t, l.file.Close())
	logged(t, dir, 1)
	rep := wantProblem(t, dir)
	assert.Equal(t, rep.Head.Seq, int64(48)) // 40, what was torn, 1, then 5, 1
	assert.Equal(t, len(cutEntries(t, dir)), 0)

	// A log of before there was a head.
	assert.NilError(t, os.Remove(filepath.Join(dir, auditHead)))
	logged(t, dir, 1)
	wantProblem(t, dir)
}

// TestEveryKindOfCut is told for good, once, however often an owner starts.
func TestEveryKindOfCut(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(t *testing.T, dir string)
		want string
		seq  int64 // of the entry about it
	}{
		"in the middle of a line": {func(t *testing.T, dir string) {
			auditLines(t, dir, func(l []string) []string { return append(l[:19:19], l[19][:40]) })
		}, "entries 20 to 70 are missing", 71},
		"in the last line": {func(t *testing.T, dir string) {
			auditLines(t, dir, func(l []string) []string { return append(l[:69:69], l[69][:40]) })
		}, "entry 70 is missing", 71},
		"emptied": {func(t *testing.T, dir string) {
			auditLines(t, dir, func([]string) []string { return nil })
		}, "entries 1 to 70 are missing", 71},
		"removed": {func(t *testing.T, dir string) {
			assert.NilError(t, os.Remove(filepath.Join(dir, auditName)))
		}, "entries 1 to 70 are missing", 71},
		"replaced by a longer one": {func(t *testing.T, dir string) {
			other := t.TempDir()
			logged(t, other, 80)
			raw, err := os.ReadFile(filepath.Join(other, auditName))
			assert.NilError(t, err)
			assert.NilError(t, os.WriteFile(filepath.Join(dir, auditName), bytes.ReplaceAll(raw, []byte("default"), []byte("another")), 0o600))
		}, "entry 70, which was the end once, is not there: the log was replaced", 81},
		"behind a file that was set aside": {func(t *testing.T, dir string) {
			l := newAudit(dir)
			assert.NilError(t, l.add(AuditEntry{Event: "command"}))
			l.size = auditBytes
			assert.NilError(t, l.add(AuditEntry{Event: "command"}))
			assert.NilError(t, l.add(AuditEntry{Event: "command"}))
			assert.NilError(t, l.close())
			auditLines(t, dir, func([]string) []string { return nil })
		}, "entries 72 to 73 are missing", 74},
		"a head that is none": {func(t *testing.T, dir string) {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, auditHead), []byte("{"), 0o600))
		}, "audit.head was damaged", 71},
		"a head beyond all numbers": {func(t *testing.T, dir string) {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, auditHead), []byte(`{"seq":9223372036854775807,"hash":"x"}`), 0o600))
		}, "audit.head was damaged", 71},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logged(t, dir, 70)
			tt.do(t, dir)
			logged(t, dir, 1)
			logged(t, dir, 40)
			wantProblem(t, dir, tt.want)
			cuts := cutEntries(t, dir)
			assert.Equal(t, len(cuts), 1)
			assert.Equal(t, cuts[0].Seq, tt.seq)
		})
	}
}

// TestACutIsToldOnceWithoutAHead: the owner dies, or the head cannot be
// written, after the entry about a cut.
func TestACutIsToldOnceWithoutAHead(t *testing.T) {
	for name, head := range map[string]string{"cut": "", "damaged": "{"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logged(t, dir, 70)
			path := filepath.Join(dir, auditHead)
			if head != "" {
				assert.NilError(t, os.WriteFile(path, []byte(head), 0o600))
			}
			old, err := os.ReadFile(path)
			assert.NilError(t, err)
			if head == "" {
				auditLines(t, dir, func(l []string) []string { return l[:20] })
			}
			for range 3 {
				l, err := openAudit(dir)
				assert.NilError(t, err)
				assert.NilError(t, l.file.Close())
				assert.NilError(t, os.WriteFile(path, old, 0o600))
			}
			assert.Equal(t, len(cutEntries(t, dir)), 1)
		})
	}
}
