package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// storedSessions are the sessions that the disk and the owner know; they must
// be the same.
func storedSessions(t *testing.T, r *rig) []string {
	t.Helper()
	snap, err := r.srv.store.load()
	assert.NilError(t, err)
	var disk, memory []string
	for _, rec := range snap.sessions {
		disk = append(disk, rec.Key)
	}
	r.srv.mu.Lock()
	for key := range r.srv.sessions {
		memory = append(memory, key)
	}
	r.srv.mu.Unlock()
	slices.Sort(disk)
	slices.Sort(memory)
	assert.DeepEqual(t, memory, disk)
	return disk
}

// TestQuietSessionsAreForgotten: after a month those that a new session would
// stand for; never one whose lock or policy would be lost.
func TestQuietSessionsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.close() }()
		p := r.dial()
		defer func() { p.close() }()
		keys := []string{"free", "locked", "mcp:deadbeef", "mcp:named", "mcp:open", "mcp:until", "policy", "session:expired", "session:locked", "tab"}
		for _, key := range keys {
			_, err := r.srv.authorize(key, authorizationChange{mode: AuthorizedIndefinite})
			assert.Assert(t, err == nil)
			wantOK(t, p.do(by(key, cmd("1-"+key, "tab.new", `{}`))))
			if key != "tab" {
				assert.NilError(t, p.ask("cleanup", CleanupParams{Session: key}, nil))
			}
		}
		for _, key := range []string{"locked", "mcp:deadbeef", "mcp:named", "session:locked"} {
			assert.NilError(t, p.ask("revoke", SessionParams{key}, nil))
		}
		for _, key := range []string{"mcp:until", "session:expired"} {
			assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: key, Mode: AuthorizedUntil, Minutes: 30}, nil))
		}
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "policy", Mode: AuthorizedIndefinite, Policy: json.RawMessage(`{"version":1,"readOnly":true}`)}, nil))
		look := func() {
			t.Helper()
			r.srv.noteUses()
			r.srv.releaseUnused(time.Now())
		}
		look()
		time.Sleep(quietMemory - time.Hour)
		wantOK(t, p.do(by("tab", cmd("2", "page.click", `{}`)))) // it is used
		look()
		assert.DeepEqual(t, storedSessions(t, r), keys)
		time.Sleep(2 * time.Hour)
		look()
		assert.DeepEqual(t, storedSessions(t, r), []string{"locked", "mcp:named", "mcp:open", "policy", "tab"})

		p.close()
		r.crash()
		r.start()
		p = r.dial()
		wantError(t, p.do(by("locked", cmd("3", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		wantError(t, p.do(by("session:expired", cmd("4", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		wantOK(t, p.do(by("mcp:open", cmd("5", "page.click", `{}`))))
	})
}

// TestAnAuthorizationOfASessionThatIsForgotten counts in memory and on the
// disk, or is refused, whichever of the two comes to the disk first.
func TestAnAuthorizationOfASessionThatIsForgotten(t *testing.T) {
	r := newRig(t)
	defer r.close()
	s := r.srv
	var kept []string
	for i := range 6 {
		key := fmt.Sprint("mcp:", i)
		s.mu.Lock()
		s.sessionLocked(key)
		s.mu.Unlock()
		busy, err := s.store.db.Begin(true)
		assert.NilError(t, err)
		var work sync.WaitGroup
		forget := func() { assert.Check(t, s.forgetSessions(time.Now().Add(2*sessionMemory))) }
		var refused *op.Error
		authorize := func() { _, refused = s.authorize(key, authorizationChange{mode: AuthorizedIndefinite}) }
		turns := []func(){forget, authorize}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		for _, fn := range turns {
			work.Go(fn)
			time.Sleep(10 * time.Millisecond) // it waits for the disk
		}
		assert.NilError(t, busy.Rollback())
		work.Wait()
		if refused == nil {
			kept = append(kept, key)
		} else {
			assert.Equal(t, refused.Code, op.AuthorizationChanged)
		}
		assert.DeepEqual(t, storedSessions(t, r), kept)
	}
	assert.Assert(t, len(kept) > 0)
}

// silentProfiles are browsers that are connected and do not answer.
type silentProfiles struct{ *fakeProfiles }

type silentProfile struct {
	profile
}

func (s silentProfiles) wait(ctx context.Context, id string) (profile, error) {
	p, err := s.fakeProfiles.wait(ctx, id)
	return silentProfile{profile: p}, err
}

func (silentProfile) TabInfo(ctx context.Context, _ int) (op.Tab, error) {
	<-ctx.Done()
	return op.Tab{}, ctx.Err()
}

// TestSessionsOfSilentBrowsers are listed within one deadline.
func TestSessionsOfSilentBrowsers(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		for _, key := range []string{"a", "b", "c"} {
			wantOK(t, p.do(by(key, cmd("1-"+key, "tab.new", `{}`))))
		}
		whole := r.srv.profiles
		r.srv.profiles = silentProfiles{r.profiles}
		start := time.Now()
		list := r.srv.sessionList(t.Context())
		r.srv.profiles = whole
		assert.Equal(t, time.Since(start), statusPatience)
		assert.Equal(t, len(list), 3)
		for i, key := range []string{"a", "b", "c"} {
			assert.Equal(t, list[i].Key, key)
			assert.Equal(t, len(list[i].Targets), 1)
		}
		assert.Assert(t, r.srv.sessionList(t.Context())[0].Targets[0].URL != "")
	})
}
