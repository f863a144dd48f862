package bridge

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

func storedAuthorization(t rigT, s *Server, key string) Authorization {
	t.Helper()
	snap, err := s.store.load()
	assert.NilError(t, err)
	for _, r := range snap.sessions {
		if r.Key == key {
			return r.Authorized
		}
	}
	return Authorization{}
}

// TestALockOvertakesAnAuthorization: the disk is busy when the session is
// authorized, and a lock comes before it is free. The lock counts at once, and
// afterwards in memory and on the disk.
func TestALockOvertakesAnAuthorization(t *testing.T) {
	r := newRig(t)
	defer r.close()
	_, oerr := r.srv.authorize("mcp:x", authorizationChange{mode: AuthorizedIndefinite})
	assert.Assert(t, oerr == nil)
	busy, err := r.srv.store.db.Begin(true)
	assert.NilError(t, err)
	type answer struct {
		a   Authorization
		err *op.Error
	}
	ask := func(c authorizationChange) <-chan answer {
		ch := make(chan answer, 1)
		go func() {
			a, err := r.srv.authorize("mcp:x", c)
			ch <- answer{a, err}
		}()
		return ch
	}
	until := time.Now().Add(time.Hour)
	one := 1
	allow := ask(authorizationChange{mode: AuthorizedUntil, until: until, ifGeneration: &one})
	lock := ask(authorizationChange{mode: Locked})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.srv.mu.Lock()
		now := r.srv.sessions["mcp:x"].record.Authorized
		r.srv.mu.Unlock()
		if now.Mode == Locked {
			break // although the disk has taken nothing yet
		}
		assert.Assert(t, time.Now().Before(end), "%+v", now)
	}
	assert.NilError(t, busy.Rollback())
	got := <-lock
	assert.Assert(t, got.err == nil, "%v", got.err)
	assert.Equal(t, got.a.Mode, Locked)
	if second := <-allow; second.err != nil { // it lost, whichever came to the disk first
		assert.Equal(t, second.err.Code, op.AuthorizationChanged)
	} else {
		t.Errorf("the authorization was granted: %+v", second.a)
	}
	assert.Equal(t, storedAuthorization(t, r.srv, "mcp:x"), got.a)
}

func TestAuthorizationIsComparedAndSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		var a Authorization
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "mcp:x", Mode: AuthorizedUntil, Minutes: 30}, &a))
		assert.Equal(t, a.Generation, 1)
		zero, one := 0, 1
		err := p.ask("authorize", AuthorizeParams{Session: "mcp:x", Mode: AuthorizedIndefinite, IfGeneration: &zero}, nil)
		assert.Assert(t, errors.Is(err, &op.Error{Code: op.AuthorizationChanged}), "%v", err)
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "mcp:x", Mode: AuthorizedUntil, Minutes: 60, IfGeneration: &one}, &a))
		assert.Equal(t, a.Generation, 2)
		wantOK(t, p.do(by("mcp:x", cmd("1", "page.click", `{}`))))
		// It ends at its time, also after a kill.
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		time.Sleep(59 * time.Minute)
		wantOK(t, p.do(by("mcp:x", cmd("2", "page.click", `{}`))))
		time.Sleep(2 * time.Minute)
		f := wantError(t, p.do(by("mcp:x", cmd("3", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		assert.Assert(t, f.Hint != "")
		assert.Equal(t, r.srv.sessionStatus(t.Context(), "mcp:x").Authorization, Locked)
	})
}

// TestAuthorizationProperties changes the authorization of sessions at random,
// several at the same moment, lets time pass and kills the owner. A model says
// what must hold: the state is that of the answered change with the highest
// generation; no two changes have the same generation; a refused change has no
// effect; a locked or expired session runs nothing; and the next owner knows
// all that was answered.
func TestAuthorizationProperties(t *testing.T) {
	properties(t, func(rt *rapid.T, r *rig) {
		p := r.dial()
		keys := []string{"cli", "mcp:x"}
		model := map[string]Authorization{}
		sent := 0
		var mu sync.Mutex
		var wrong []string // told at the end: the owner must be closed first
		fault := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			key := rapid.SampledFrom(keys).Draw(rt, "session")
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1, 2:
				var wg sync.WaitGroup
				var changes []authorizationChange
				seen := map[int]Authorization{}
				for range rapid.IntRange(1, 4).Draw(rt, "at once") {
					mode := rapid.SampledFrom([]AuthorizationMode{Locked, AuthorizedUntil, AuthorizedIndefinite}).Draw(rt, "mode")
					in := authorizationChange{mode: mode}
					if mode == AuthorizedUntil {
						in.until = time.Now().Add(time.Duration(rapid.IntRange(1, 90).Draw(rt, "minutes")) * time.Minute)
					}
					changes = append(changes, in)
				}
				for _, in := range changes {
					wg.Go(func() {
						a, err := r.srv.authorize(key, in)
						if err != nil {
							if err.Code != op.AuthorizationChanged || in.mode == Locked {
								fault("%s: %v", in.mode, err)
							}
							return
						}
						mu.Lock()
						_, twice := seen[a.Generation]
						seen[a.Generation] = a
						mu.Unlock()
						if twice {
							fault("two changes have generation %d", a.Generation)
						}
					})
				}
				wg.Wait()
				for g, a := range seen {
					if g > model[key].Generation {
						model[key] = a
					}
				}
			case 3:
				time.Sleep(time.Duration(rapid.IntRange(1, 60).Draw(rt, "pause")) * time.Minute)
			case 4:
				p.close()
				r.crash()
				r.start()
				r.srv.store.db.NoSync = true
				p = r.dial()
			case 5:
				sent++
				res := p.do(by(key, cmd(fmt.Sprintf("%03d", sent), "page.click", `{}`)))
				want := model[key].allows(key, time.Now())
				if res.OK != want || !res.OK && res.Error.Code != string(op.SessionLocked) {
					fault("%s with %+v: %+v %+v", key, model[key], res.OK, res.Error)
				}
			}
			synctest.Wait()
			for _, k := range keys {
				r.srv.mu.Lock()
				now := r.srv.sessionLocked(k).record.Authorized
				r.srv.mu.Unlock()
				want, disk := model[k], storedAuthorization(rt, r.srv, k)
				if now.Mode != want.Mode || !now.Until.Equal(want.Until) || now.Generation != want.Generation || disk.Mode != now.Mode || disk.Generation != now.Generation {
					fault("%s is %+v, on the disk %+v, wanted %+v", k, now, disk, want)
				}
			}
		}
		p.close()
		r.close()
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}
