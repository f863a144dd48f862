package bridge

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// lockedOut is the refusal of a session that is locked.
var lockedOut = &op.Error{Code: op.SessionLocked}

// automatically asks as pi-chrome mcp --authorize does.
func automatically(p *program, session string) error {
	return p.ask("authorize", AuthorizeParams{Session: session, Mode: AuthorizedUntil, Minutes: 30, Automatic: true}, nil)
}

// TestAnAutomaticAuthorizationUndoesNoStop: a program that starts again after a
// press of Stop unlocks neither itself nor anybody else, under its old name or
// a new one, also with the next owner.
func TestAnAutomaticAuthorizationUndoesNoStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		assert.NilError(t, automatically(p, "mcp:work"))
		wantOK(t, p.do(by("mcp:work", cmd("1", "page.click", `{}`))))
		assert.Assert(t, r.srv.stopAll(r.browser.id) == nil)
		refused := func() {
			t.Helper()
			before := len(r.srv.sessions)
			for _, session := range []string{"mcp:work", "mcp:new"} {
				err := automatically(p, session)
				assert.ErrorIs(t, err, lockedOut, session)
				e := op.AsError(err)
				assert.Assert(t, strings.Contains(e.Hint, "pi-chrome authorize --session "+session), e.Hint)
				assert.Equal(t, e.Details["stopped"], true)
			}
			assert.Assert(t, !r.srv.stopped.IsZero())
			assert.Equal(t, len(r.srv.sessions), before, "a refusal is remembered")
		}
		refused()
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		refused()

		// A person lifts the stop, and with it no other session's lock.
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "b", Mode: AuthorizedIndefinite}, nil))
		assert.ErrorIs(t, automatically(p, "mcp:work"), lockedOut)
		assert.NilError(t, automatically(p, "mcp:new"))
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "mcp:work", Mode: AuthorizedIndefinite}, nil))
		wantOK(t, p.do(by("mcp:work", cmd("2", "page.click", `{}`))))
	})
}

// TestAnAutomaticAuthorizationUndoesNoRevoke: nor the lock of one session. That
// its time is up is no lock.
func TestAnAutomaticAuthorizationUndoesNoRevoke(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		assert.NilError(t, automatically(p, "mcp:work"))
		time.Sleep(31 * time.Minute)
		wantError(t, p.do(by("mcp:work", cmd("1", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		assert.NilError(t, automatically(p, "mcp:work"))
		assert.NilError(t, p.ask("revoke", SessionParams{"mcp:work"}, nil))
		assert.ErrorIs(t, automatically(p, "mcp:work"), lockedOut)
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		assert.ErrorIs(t, automatically(p, "mcp:work"), lockedOut)
		assert.NilError(t, automatically(p, "mcp:other"))
		wantError(t, p.do(by("mcp:work", cmd("2", "page.click", `{}`))), op.Rejected, op.SessionLocked)
	})
}

// TestWhoseCancelAnAuthorizationLifts: a person's lifts that of the browser
// where the session works, or of those where it can begin; an automatic one, and
// one that was refused, lift none.
func TestWhoseCancelAnAuthorizationLifts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRelayRig(t)
		defer r.close()
		p := r.dial()
		defer p.close()
		work, home, away := newProfile(t, r.srv.relay), newProfile(t, r.srv.relay), newProfile(t, r.srv.relay)
		for _, b := range []*fakeProfile{work, home, away} {
			w := b.worker().open()
			b.attachedTab(1)
			w.event("debugger.onDetach", debuggee{TabID: 1}, "canceled_by_user")
			synctest.Wait()
			if b == away {
				w.drop()
				synctest.Wait()
			}
		}
		canceled := func(want ...*fakeProfile) {
			t.Helper()
			synctest.Wait()
			for _, b := range []*fakeProfile{work, home, away} {
				assert.Equal(t, b.connector().Info().Canceled, slices.Contains(want, b), b.label)
			}
		}
		canceled(work, home, away)
		person := AuthorizeParams{Session: "mcp:at-home", Mode: AuthorizedIndefinite}
		assert.NilError(t, r.srv.store.save(r.srv.sessionRecordFor("mcp:at-home", home.id), nil, nil))

		assert.NilError(t, automatically(p, "mcp:at-home"))
		assert.NilError(t, automatically(p, "mcp:nowhere"))
		canceled(work, home, away)
		zero := 0
		stale := person
		stale.IfGeneration = &zero
		assert.Assert(t, errors.Is(p.ask("authorize", stale, nil), &op.Error{Code: op.AuthorizationChanged}))
		canceled(work, home, away)
		assert.NilError(t, p.ask("authorize", person, nil))
		canceled(work, away)
		person.Session = "mcp:nowhere"
		assert.NilError(t, p.ask("authorize", person, nil))
		canceled(away) // which no command of that session goes to by itself
		person.Session = "mcp:away"
		assert.NilError(t, r.srv.store.save(r.srv.sessionRecordFor("mcp:away", away.id), nil, nil))
		assert.NilError(t, p.ask("authorize", person, nil))
		canceled()
	})
}

// TestACancelToldLate: an owner that hears of a Cancel from before it lived
// locks the sessions that work in that browser, but for those that a person has
// authorized since; then the debugger is allowed, too.
func TestACancelToldLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRelayRig(t)
		defer r.close()
		p := r.dial()
		defer p.close()
		b := newProfile(t, r.srv.relay)
		other := newProfile(t, r.srv.relay)
		other.worker().open()
		b.canceledAt = time.Now().UnixMilli()
		time.Sleep(time.Second)
		sessions := []string{"mcp:before", "mcp:since", "mcp:locked"}
		for _, key := range sessions {
			assert.NilError(t, r.srv.store.save(r.srv.sessionRecordFor(key, b.id), nil, nil))
		}
		assert.NilError(t, automatically(p, "mcp:before"))
		for _, key := range sessions[1:] {
			assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: key, Mode: AuthorizedIndefinite}, nil))
		}
		assert.NilError(t, p.ask("revoke", SessionParams{"mcp:locked"}, nil))
		stands := func(unlocked ...string) {
			t.Helper()
			synctest.Wait()
			for _, key := range sessions {
				r.srv.mu.Lock()
				mode := r.srv.modeLocked(key, time.Now())
				r.srv.mu.Unlock()
				assert.Equal(t, mode != Locked, slices.Contains(unlocked, key), key)
			}
		}
		stands("mcp:before", "mcp:since")
		w := b.worker().open()
		stands("mcp:since")
		assert.Check(t, !b.connector().Info().Canceled)
		w.drop()
		assert.NilError(t, p.ask("revoke", SessionParams{"mcp:since"}, nil))
		b.canceledAt = time.Now().UnixMilli()
		time.Sleep(time.Second)
		// One that works nowhere yet may begin in this browser, too.
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "mcp:nowhere", Mode: AuthorizedIndefinite}, nil))
		w = b.worker().open()
		stands()
		assert.Check(t, !b.connector().Info().Canceled)
		assert.NilError(t, p.ask("revoke", SessionParams{"mcp:nowhere"}, nil))

		w.drop()
		b.canceledAt = time.Now().Add(time.Second).UnixMilli()
		time.Sleep(2 * time.Second)
		b.worker().open()
		stands()
		assert.Check(t, b.connector().Info().Canceled)
	})
}

// newRelayRig is a rig whose browsers are those of its relay.
func newRelayRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), handler: &fakeHandler{}}
	var err error
	r.secret, err = ensureCredential(r.dir)
	assert.NilError(t, err)
	r.start()
	return r
}
