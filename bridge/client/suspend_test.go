//go:build unix

package client

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// suspend stops the owner's process, and waits until it stands still: the
// signal alone leaves it time to answer.
func (w *world) suspend() {
	w.t.Helper()
	assert.NilError(w.t, w.owner.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(w.owner.Process.Pid, &status, syscall.WUNTRACED, nil)
	assert.NilError(w.t, err)
	assert.Assert(w.t, status.Stopped(), "%v", status)
}

// TestASuspendedOwner: when it goes on, all its timers are overdue at once.
// What ran may have had its effect, what waited past its deadline is not
// begun, what has time left runs, and the connections are as good as before.
func TestASuspendedOwner(t *testing.T) {
	w := newWorld(t)
	w.pair()
	c := w.dial()
	type answer struct {
		id  string
		err error
	}
	answers := make(chan answer, 3)
	began := make(chan struct{})
	send := func(id string, deadline time.Duration) {
		cmd := touch(id)
		cmd.DeadlineMs = int(deadline.Milliseconds())
		_, err := c.Command(context.Background(), cmd, func(_, _ int, note string) {
			if note == "touched" && id == "runs" {
				close(began)
			}
		})
		answers <- answer{id, err}
	}
	go send("runs", 3*time.Second)
	<-began
	var running []bridge.RunningCommand
	go send("waits", 3*time.Second)
	go send("patient", 25*time.Second)
	for len(running) < 3 { // both are in the queue
		assert.NilError(t, c.Request(t.Context(), "running", nil, &running))
	}
	w.suspend()
	time.Sleep(4 * time.Second) // for as long as the machine sleeps
	assert.NilError(t, w.owner.Process.Signal(syscall.SIGCONT))
	got := map[string]error{}
	for range 2 {
		a := <-answers
		got[a.id] = a.err
	}
	wantCode(t, got["runs"], op.OutcomeUnknown, op.DeadlineExceeded)
	wantCode(t, got["waits"], op.Unavailable, op.CommandTimeout)
	w.release()
	last := <-answers
	assert.NilError(t, last.err)
	assert.Equal(t, last.id, "patient")
	assert.DeepEqual(t, w.effects(), []string{"runs", "patient"})
	_, err := c.Command(t.Context(), touch("after"), nil)
	assert.NilError(t, err)
	assert.Equal(t, w.starts.Load(), int32(1))
}

// TestOwnerKilledBeforeItHeard: the owner dies with the command in its socket.
// The next one takes it, and the caller does not see it.
func TestOwnerKilledBeforeItHeard(t *testing.T) {
	w := newWorld(t)
	w.pair()
	w.release()
	c := w.dial()
	for n, operation := range []string{"tab.touch", "system.status"} {
		cn := c.conn
		w.suspend() // it reads nothing more
		res := make(chan error, 1)
		go func() {
			_, err := c.Command(context.Background(), wire.Command{ID: "1", Operation: operation, Session: wire.Session{Key: "default"}}, nil)
			res <- err
		}()
		for waits := 0; waits == 0; {
			cn.mu.Lock()
			waits = len(cn.waiters)
			cn.mu.Unlock()
		}
		assert.NilError(t, w.owner.Process.Kill()) // the start of the next one reaps it
		assert.NilError(t, <-res)
		assert.Equal(t, w.starts.Load(), int32(n+2))
	}
	assert.DeepEqual(t, w.effects(), []string{"1"})
}

// TestAStaleOwnerFile: what an owner that was killed has left behind, even with
// the number of a process that lives, keeps no other from starting, and that
// process is left alone.
func TestAStaleOwnerFile(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	assert.NilError(t, c.Close())
	w.kill()
	left, err := bridge.ReadOwnerFile(w.dir)
	assert.NilError(t, err, "a killed owner removes nothing")
	left.PID = os.Getpid()
	raw, err := json.Marshal(left)
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "owner.json"), raw, 0o600))
	next := w.dial()
	var info bridge.OwnerInfo
	assert.NilError(t, next.Request(t.Context(), "owner", nil, &info))
	assert.Check(t, info.PID != os.Getpid())
	assert.Equal(t, w.starts.Load(), int32(2))
	now, err := bridge.ReadOwnerFile(w.dir)
	assert.NilError(t, err)
	assert.Equal(t, now.PID, info.PID)
}
