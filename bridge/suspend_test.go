package bridge

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// slept is a moment as a machine knows it that has slept since: the wall clock
// went on, and the monotonic one stood still.
func slept(t time.Time, d time.Duration) time.Time {
	later := t.Add(d)
	type clocks struct { // as package time keeps them
		wall uint64
		mono int64
		loc  *time.Location
	}
	(*clocks)(unsafe.Pointer(&later)).mono = (*clocks)(unsafe.Pointer(&t)).mono
	return later
}

func TestSleptMovesOneClock(t *testing.T) {
	now := time.Now()
	later := slept(now, time.Hour)
	assert.Equal(t, later.Sub(now), time.Duration(0))
	assert.Equal(t, later.Round(0).Sub(now.Round(0)), time.Hour)
	assert.Equal(t, wire.Elapsed(now, later), time.Hour)
	// Nor is anything younger for a clock that was set back.
	assert.Equal(t, wire.Elapsed(now, slept(now.Add(time.Minute), -time.Hour)), time.Minute)
}

// TestAuthorizationOfASleepingMachine ends while it sleeps.
func TestAuthorizationOfASleepingMachine(t *testing.T) {
	r := newRig(t)
	defer r.close()
	a, oerr := r.srv.authorize("mcp:x", authorizationChange{mode: AuthorizedUntil, until: time.Now().Add(time.Hour)})
	assert.Assert(t, oerr == nil)
	assert.Check(t, a.allows("mcp:x", slept(time.Now(), 59*time.Minute)))
	assert.Check(t, !a.allows("mcp:x", slept(time.Now(), time.Hour)))
}

// TestNonceOfASleepingMachine: who wakes up has to say hello again.
func TestNonceOfASleepingMachine(t *testing.T) {
	var n wire.Nonces
	now := time.Now()
	nonce := n.Issue(now)
	assert.ErrorIs(t, n.Consume(nonce, slept(now, time.Minute)), wire.ErrNonceExpired)
	nonce = n.Issue(now)
	assert.NilError(t, n.Consume(nonce, slept(now, wire.NonceTTL)))
}

// TestPairingTokenOfASleepingMachine is not good for longer than it says.
func TestPairingTokenOfASleepingMachine(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		s, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		a := p.relay.Pairing().latest
		// What an hour of sleep does: the timer of the token knows nothing of it.
		a.set(func(s *PairingStatus) { s.ExpiresAt = s.ExpiresAt.Add(-time.Hour) })
		assert.Equal(t, one.pair(s.Token).refusal.Code, wire.RefuseTokenOld)
		assert.Equal(t, p.relay.Pairing().Status().State, PairingExpired)
	})
}

// TestSessionOfASleepingMachine is released after a day, as its user counts.
func TestSessionOfASleepingMachine(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.dial()
	defer p.close()
	wantOK(t, p.do(cmd("1", "tab.new", `{}`)))
	for running := true; running; { // its command is answered before it is over
		r.srv.mu.Lock()
		running = r.srv.sessions["default"].running
		r.srv.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	r.srv.releaseUnused(slept(time.Now(), sessionMemory-time.Minute))
	assert.Equal(t, len(recordsOf(r.srv)), 1)
	r.srv.releaseUnused(slept(time.Now(), sessionMemory+time.Minute))
	assert.Equal(t, len(recordsOf(r.srv)), 0)
	assert.Equal(t, len(tabsOf(r.browser)), 1) // kept, and the user's now
}

// TestAClockThatIsSetBack costs no connection: whether the extension answered
// is no matter of the wall clock.
func TestAClockThatIsSetBack(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		conn := p.connector().conn
		for range 6 {
			time.Sleep(wire.PingInterval / 2)
			synctest.Wait()
			conn.lastRead.Store(time.Now().Add(-time.Hour).UnixNano())
		}
		select {
		case <-w.served:
			t.Fatal("the connection was given up")
		default:
		}
	})
}

// TestStateThatAnotherOwnerHolds: an owner that takes over waits for the one
// before it to let go of the state, and says who does not.
func TestStateThatAnotherOwnerHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		old, _, err := openStore(dir, time.Second)
		assert.NilError(t, err)
		assert.NilError(t, writeOwnerFile(dir, OwnerFile{PID: 4711, Port: 17318, Version: "1.0.0", StartedAt: time.Now()}))
		start := time.Now()
		_, _, err = openStore(dir, stateLockWait)
		assert.ErrorContains(t, err, "in use by another owner (process 4711, port 17318)")
		assert.Check(t, time.Since(start) >= stateLockWait)

		time.AfterFunc(2*time.Second, func() { assert.Check(t, old.Close()) })
		next, _, err := openStore(dir, stateLockWait)
		assert.NilError(t, err)
		assert.NilError(t, next.Close())

		// What names an owner that is gone holds up nobody.
		start = time.Now()
		next, _, err = openStore(dir, stateLockWait)
		assert.NilError(t, err)
		assert.NilError(t, next.Close())
		assert.Equal(t, time.Since(start), time.Duration(0))
	})
}
