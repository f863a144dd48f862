package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// TestJournalAfterAKill kills the owner while one command executes and
// another waits: the first is outcome-unknown for ever, the second was never
// begun and may be sent again.
//
// Invariant 4 of the design.
func TestJournalAfterAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate("runs", "waits")
		r.handler.run = g.run
		p := r.dial()
		tab := r.browser.open("https://example.test/")
		wantOK(t, p.do(cmd("done", "page.click", forTab(tab.ID))))
		p.send(cmd("runs", "page.click", forTab(tab.ID)))
		p.send(cmd("waits", "page.click", forTab(tab.ID)))
		p.send(cmd("read", "page.snapshot", forTab(tab.ID)))
		synctest.Wait()
		r.freeze()
		r.crash()
		r.start()
		defer r.close()
		ran := len(r.handler.order())
		p = r.dial()
		defer p.close()
		var out CommandOutcome
		assert.NilError(t, p.ask("outcome", OutcomeParams{"waits"}, &out))
		assert.Equal(t, out.State, "unknown")
		assert.NilError(t, p.ask("outcome", OutcomeParams{"runs"}, &out))
		assert.Equal(t, out.State, "done")
		f := wantError(t, p.do(cmd("runs", "page.click", forTab(tab.ID))), op.OutcomeUnknown, op.BridgeStopped)
		assert.Assert(t, strings.Contains(f.Message, fmt.Sprintf("tab %d", tab.ID)))
		wantOK(t, p.do(cmd("done", "page.click", forTab(tab.ID))))
		assert.Equal(t, len(r.handler.order()), ran) // nothing ran again
		g.open("waits")
		wantOK(t, p.do(cmd("waits", "page.click", forTab(tab.ID))))
	})
}

func TestJournalIsWrittenBeforeTheEffectAndBeforeTheAnswer(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			e, found, err := r.srv.store.entry(call.ID)
			assert.Check(t, err)
			assert.Check(t, found == (call.Operation == "page.click")) // reads are not journaled
			assert.Check(t, !found || e.State == journalExecuting)
			return op.NewResult("x")
		}
		wantOK(t, p.do(cmd("a", "page.click", `{}`)))
		e, found, err := r.srv.store.entry("a")
		assert.NilError(t, err)
		assert.Assert(t, found && e.State == journalDone && e.OK)
		assert.Equal(t, e.Session, "default")
		assert.Equal(t, e.ConnectorID, r.browser.id)
		wantOK(t, p.do(cmd("b", "page.snapshot", `{}`)))
		_, found, err = r.srv.store.entry("b")
		assert.NilError(t, err)
		assert.Assert(t, !found)
	})
}

// TestAnAnswerThatNoFrameCanHold tells a read as one without effect, and what
// may have had one as done.
func TestAnAnswerThatNoFrameCanHold(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.handler.run = func(context.Context, *Call) (op.Result, error) {
			return op.NewResult(strings.Repeat("x", wire.FrameBytes))
		}
		wantError(t, p.do(cmd("a", "page.snapshot", `{}`)), op.Rejected, op.ResultTooLarge)
		f := wantError(t, p.do(cmd("b", "page.click", `{}`)), op.OutcomeUnknown, op.ResultTooLarge)
		assert.Assert(t, strings.Contains(f.Message, "what it did was done"), f.Message)
	})
}

func TestALargeResultIsKeptAsDigest(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.handler.run = func(context.Context, *Call) (op.Result, error) {
			return op.NewResult(strings.Repeat("x", journalResult+1))
		}
		first := p.do(cmd("a", "page.click", `{}`))
		wantOK(t, first)
		assert.Assert(t, len(first.Value) > journalResult)
		p.send(cmd("a", "page.click", `{}`))
		f := wantError(t, p.wait("a", 2), op.OutcomeUnknown, op.ResultTooLarge)
		assert.Equal(t, len(f.Details["sha256"].(string)), 64)
		assert.Assert(t, f.Details["bytes"].(float64) > journalResult)
	})
}

func TestJournalRetention(t *testing.T) {
	st, _, err := openStore(t.TempDir(), time.Second)
	assert.NilError(t, err)
	defer st.Close()
	st.db.NoSync = true // 1,000 commits
	entry := func(i int) journalEntry {
		return journalEntry{ID: fmt.Sprint(i), Operation: "page.click", State: journalExecuting}
	}
	assert.NilError(t, st.begin(entry(0))) // executes all the time
	assert.Assert(t, errors.Is(st.begin(entry(0)), errKnownCommand))
	for i := 1; i <= journalEntries+50; i++ {
		assert.NilError(t, st.begin(entry(i)))
		assert.NilError(t, st.finish(fmt.Sprint(i), wire.Result{OK: true}))
	}
	known := func(i int) bool {
		_, found, err := st.entry(fmt.Sprint(i))
		assert.NilError(t, err)
		return found
	}
	assert.Assert(t, known(0))
	assert.Assert(t, !known(1) && !known(50))
	assert.Assert(t, known(52) && known(journalEntries+50))
	assert.NilError(t, st.view(func(tx *bolt.Tx) error {
		assert.Assert(t, tx.Bucket(bucketJournal).Stats().KeyN <= journalEntries+1)
		assert.Equal(t, tx.Bucket(bucketJournal).Stats().KeyN, tx.Bucket(bucketOrder).Stats().KeyN)
		return nil
	}))
}

// TestADiskThatTakesNothing refuses new effects, keeps reading, and still
// tells an outcome that it could not store.
func TestADiskThatTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			if call.ID == "last" {
				assert.Check(t, r.srv.store.db.Close())
			}
			return op.NewResult("x")
		}
		wantOK(t, p.do(cmd("last", "page.click", forTab(tab.ID))))
		f := wantError(t, p.do(cmd("next", "page.click", forTab(tab.ID))), op.Unavailable, op.StateUnreadable)
		assert.Assert(t, f.Hint != "")
		assert.DeepEqual(t, r.handler.order(), []string{"last"})
		r.close()
	})
}

// TestAnOutcomeThatTheDiskDidNotTake is told as unknown by whoever asks later:
// it was once told as neither done nor failed.
func TestAnOutcomeThatTheDiskDidNotTake(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		c := cmd("lost", "page.click", `{}`)
		assert.NilError(t, r.srv.store.begin(journalEntry{ID: c.ID, Operation: c.Operation, Digest: commandDigest(c), State: journalExecuting}))
		f := wantError(t, p.do(c), op.OutcomeUnknown, op.StateUnreadable)
		assert.Assert(t, f.Hint != "")
		known := p.outcome(c.ID)
		assert.Equal(t, known.State, "done")
		v, err := wire.DecodeForClient(known.Result)
		assert.NilError(t, err)
		wantError(t, v.(*wire.Result), op.OutcomeUnknown, op.StateUnreadable)
	})
}

func TestCommandDigest(t *testing.T) {
	a := cmd("1", "page.click", `{"a":1}`)
	b := a
	b.ID = "2"
	assert.Equal(t, commandDigest(a), commandDigest(b))
	b.Input = []byte(`{"a":2}`)
	assert.Assert(t, commandDigest(a) != commandDigest(b))
	// Parts do not run into each other.
	c, d := cmd("1", "ab", "c"), cmd("1", "a", "bc")
	assert.Assert(t, commandDigest(c) != commandDigest(d))
}

func TestStateOfADamagedFile(t *testing.T) {
	whole := func(t *testing.T) (string, []byte) {
		dir := t.TempDir()
		st, _, err := openStore(dir, time.Second)
		assert.NilError(t, err)
		for i := range 200 {
			assert.NilError(t, st.SaveBinding(t.Context(), Binding{ConnectorID: fmt.Sprint(i), Label: strings.Repeat("l", 100), Secret: wire.NewSecret()}))
		}
		assert.NilError(t, st.Close())
		b, err := os.ReadFile(filepath.Join(dir, databaseFile))
		assert.NilError(t, err)
		return dir, b
	}
	cases := map[string]func(b []byte) []byte{
		"text":           func([]byte) []byte { return []byte(strings.Repeat("not a database\n", 1000)) },
		"cut short":      func(b []byte) []byte { return b[:len(b)/2] },
		"cut to a page":  func(b []byte) []byte { return b[:4096] },
		"zeroed middle":  func(b []byte) []byte { clear(b[8192:]); return b },
		"garbage middle": func(b []byte) []byte { copy(b[8192:], strings.Repeat("\xa5", len(b)-8192)); return b },
		"one byte":       func([]byte) []byte { return []byte{1} },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			dir, b := whole(t)
			b = damage(b)
			assert.NilError(t, os.WriteFile(filepath.Join(dir, databaseFile), b, 0o600))
			_, _, err := openStore(dir, time.Second)
			e, ok := errors.AsType[*op.Error](err)
			assert.Assert(t, ok, "%v", err)
			assert.Equal(t, e.Code, op.StateUnreadable)
			assert.Equal(t, e.Kind, op.Unavailable)
			assert.Assert(t, e.Hint != "")
			after, err := os.ReadFile(filepath.Join(dir, databaseFile))
			assert.NilError(t, err)
			assert.Equal(t, len(after), len(b)) // nothing deleted
		})
	}
	t.Run("a record that is not ours", func(t *testing.T) {
		dir, _ := whole(t)
		st, _, err := openStore(dir, time.Second)
		assert.NilError(t, err)
		assert.NilError(t, st.update(func(tx *bolt.Tx) error { return tx.Bucket(bucketTargets).Put([]byte("x"), []byte("{")) }))
		assert.NilError(t, st.Close())
		_, _, err = openStore(dir, time.Second)
		assert.Assert(t, errors.Is(err, &op.Error{Code: op.StateUnreadable}), "%v", err)
	})
	t.Run("a newer version", func(t *testing.T) {
		dir, _ := whole(t)
		st, _, err := openStore(dir, time.Second)
		assert.NilError(t, err)
		assert.NilError(t, st.update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyVersion, []byte("99")) }))
		assert.NilError(t, st.Close())
		_, _, err = openStore(dir, time.Second)
		assert.ErrorContains(t, err, `version "99"`)
	})
	t.Run("in use", func(t *testing.T) {
		dir, _ := whole(t)
		st, _, err := openStore(dir, time.Second)
		assert.NilError(t, err)
		defer st.Close()
		assert.NilError(t, writeOwnerFile(dir, OwnerFile{PID: 4242, Port: 17318}))
		_, _, err = openStore(dir, 10*time.Millisecond)
		assert.ErrorContains(t, err, "process 4242, port 17318")
	})
}

// TestAnswersAreToldAgainAsTheyWere: what a caller is told later is, byte for
// byte, what was told first. The journal once wrote "&" in another way.
func TestAnswersAreToldAgainAsTheyWere(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = func(context.Context, *Call) (op.Result, error) {
			return op.Result{Value: json.RawMessage(`{"url":"https://example.test/?a=1&b=<2>"}`), Text: "a & b"}, nil
		}
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		c := cmd("click", "page.click", forTab(tab.ID))
		first := p.do(c)
		p.send(c)
		again := p.wait(c.ID, 2)
		assert.Equal(t, string(again.Value), string(first.Value))
		known, err := wire.DecodeForClient(p.outcome(c.ID).Result)
		assert.NilError(t, err)
		assert.Equal(t, string(known.(*wire.Result).Value), string(first.Value))
		assert.Equal(t, known.(*wire.Result).Text, first.Text)
	})
}
