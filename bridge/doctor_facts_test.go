package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestTheDoctorHearsWhatCannotBeWritten: while either refuses effects, and no
// longer.
func TestTheDoctorHearsWhatCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		log := filepath.Join(dir, auditName)
		assert.NilError(t, os.Mkdir(log, 0o700)) // nobody can write that, not even root
		r := newRigIn(t, dir)
		defer r.close()
		p := r.dial()
		defer p.close()
		facts := func() (f DoctorFacts) {
			t.Helper()
			assert.NilError(t, p.ask("doctor", nil, &f))
			return f
		}
		wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Unavailable, op.StateUnreadable)
		f := facts()
		assert.Assert(t, strings.Contains(f.Audit, log), f.Audit)
		assert.Equal(t, f.Journal, "")
		assert.NilError(t, os.Remove(log))
		time.Sleep(auditRetry)
		assert.Equal(t, facts().Audit, "")

		state := filepath.Join(dir, databaseFile)
		open := func(readOnly bool) {
			t.Helper()
			assert.NilError(t, r.srv.store.db.Close())
			db, err := bolt.Open(state, 0o600, &bolt.Options{Timeout: time.Second, ReadOnly: readOnly, FreelistType: bolt.FreelistMapType})
			assert.NilError(t, err)
			r.srv.store.db = db
		}
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		open(true)
		wantError(t, p.do(cmd("3", "page.click", `{}`)), op.Unavailable, op.StateUnreadable)
		f = facts()
		assert.Assert(t, strings.Contains(f.Journal, "read-only"), f.Journal)
		assert.Equal(t, f.Audit, "")
		open(false)
		assert.Equal(t, facts().Journal, "")
		wantOK(t, p.do(cmd("4", "page.click", `{}`)))
	})
}

// TestAskingTheDiskLeavesNothing: no record, and no number of the order, is
// there afterwards that was not before.
func TestAskingTheDiskLeavesNothing(t *testing.T) {
	st, _, err := openStore(t.TempDir(), time.Second)
	assert.NilError(t, err)
	defer st.Close()
	for _, id := range []string{"a", "b"} {
		assert.NilError(t, st.begin(journalEntry{ID: id, State: journalExecuting}))
		all := func() (n int, seq uint64) {
			assert.NilError(t, st.view(func(tx *bolt.Tx) error {
				n, seq = tx.Bucket(bucketJournal).Stats().KeyN+tx.Bucket(bucketOrder).Stats().KeyN, tx.Bucket(bucketOrder).Sequence()
				return nil
			}))
			return n, seq
		}
		n, seq := all()
		assert.NilError(t, st.writable())
		after, still := all()
		assert.Equal(t, after, n)
		assert.Equal(t, still, seq)
	}
}
