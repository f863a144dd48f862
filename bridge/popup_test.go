package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// heldUntilCanceled is a handler that holds the commands of a session until
// they are canceled.
func heldUntilCanceled(session string) func(context.Context, *Call) (op.Result, error) {
	return func(ctx context.Context, call *Call) (op.Result, error) {
		if call.Session.Key != session {
			return op.NewResult("done")
		}
		<-ctx.Done()
		if call.ID == "1" {
			return op.Result{}, op.Unknown(op.Canceled, "the click may have been done: it was canceled") // as the driver says it
		}
		return op.Result{}, context.Cause(ctx)
	}
}

// TestStopRevokesEverything: what runs, what waits, what comes next, in every
// session, known or new, and after a kill of the owner. One authorization gives
// one session back, and no other that was revoked.
func TestStopRevokesEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		_, oerr := r.srv.authorize("mcp:x", authorizationChange{mode: AuthorizedIndefinite})
		assert.Assert(t, oerr == nil)
		wantOK(t, p.do(by("b", cmd("0", "page.click", `{}`))))
		r.handler.run = heldUntilCanceled("a")
		p.send(by("a", cmd("1", "page.click", `{}`)))
		p.send(by("a", cmd("1b", "page.wait", `{}`))) // passes by
		p.send(by("a", cmd("2", "page.click", `{}`)))
		synctest.Wait()
		assert.DeepEqual(t, slices.Sorted(slices.Values(r.handler.order())), []string{"0", "1", "1b"})

		assert.Assert(t, r.srv.stopAll(r.browser.id) == nil)
		f := wantError(t, p.wait("1", 1), op.OutcomeUnknown, op.SessionLocked) // it may have clicked
		assert.Equal(t, f.Message, `the user has stopped every session, and with them "a": the click may have been done: it was canceled`)
		assert.Assert(t, strings.Contains(f.Hint, "chrome_snapshot"), f.Hint)
		f = wantError(t, p.wait("1b", 1), op.OutcomeUnknown, op.SessionLocked)
		assert.Assert(t, strings.Contains(f.Message, "may have had its effect") && !strings.Contains(f.Message, "nothing was done"), f.Message)
		f = wantError(t, p.wait("2", 1), op.Rejected, op.SessionLocked)
		assert.Assert(t, strings.Contains(f.Message, "the user has stopped every session"), f.Message)
		assert.Equal(t, f.Details["stopped"], true)
		refused := func(id, session string) {
			t.Helper()
			wantError(t, p.do(by(session, cmd(id, "page.click", `{}`))), op.Rejected, op.SessionLocked)
			wantError(t, p.do(by(session, cmd(id+"r", "page.snapshot", `{}`))), op.Rejected, op.SessionLocked)
		}
		for i, session := range []string{"a", "b", "mcp:x", "never seen"} {
			refused(fmt.Sprintf("3%d", i), session)
		}
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		for i, session := range []string{"a", "b", "mcp:x", "never seen", "nor this"} {
			refused(fmt.Sprintf("4%d", i), session)
		}
		assert.Equal(t, r.srv.sessionStatus(t.Context(), "nobody").Authorization, Locked)

		r.handler.run = nil
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "b", Mode: AuthorizedIndefinite}, nil))
		wantOK(t, p.do(by("b", cmd("5", "page.click", `{}`))))
		wantOK(t, p.do(by("never seen", cmd("6", "page.click", `{}`)))) // the command line's own again
		refused("7", "a")
		refused("8", "mcp:x")
		assert.Assert(t, r.srv.stopped.IsZero())
		p.close()
		r.crash()
		r.start()
		p = r.dial()
		assert.Assert(t, r.srv.stopped.IsZero())
		refused("9", "a")
	})
}

// TestStopOvertakesAuthorizations: the disk is busy when sessions are
// authorized, and the stop comes before it is free. It wins in memory and on the
// disk.
func TestStopOvertakesAuthorizations(t *testing.T) {
	r := newRig(t)
	defer r.close()
	keys := []string{"mcp:x", "mcp:y", "z"}
	for _, key := range keys {
		_, oerr := r.srv.authorize(key, authorizationChange{mode: AuthorizedIndefinite})
		assert.Assert(t, oerr == nil)
	}
	busy, err := r.srv.store.db.Begin(true)
	assert.NilError(t, err)
	granted := make(chan *op.Error, len(keys))
	for _, key := range keys {
		go func() {
			_, err := r.srv.authorize(key, authorizationChange{mode: AuthorizedIndefinite})
			granted <- err
		}()
	}
	stopped := make(chan *op.Error, 1)
	go func() { stopped <- r.srv.stopAll(r.browser.id) }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.srv.mu.Lock()
		locked := !slices.ContainsFunc(keys, func(key string) bool { return r.srv.modeLocked(key, time.Now()) != Locked })
		r.srv.mu.Unlock()
		if locked {
			break // although the disk has taken nothing yet
		}
		assert.Assert(t, time.Now().Before(end))
	}
	assert.NilError(t, busy.Rollback())
	assert.Assert(t, <-stopped == nil)
	after := 0
	for range keys {
		// One that was asked for only after the stop is the user's word.
		if err := <-granted; err == nil {
			after++
		} else {
			assert.Equal(t, err.Code, op.AuthorizationChanged)
		}
	}
	r.srv.mu.Lock()
	open := 0
	for _, key := range keys {
		if r.srv.modeLocked(key, time.Now()) != Locked {
			open++
		}
	}
	r.srv.mu.Unlock()
	assert.Equal(t, open, after)
	for _, key := range keys {
		assert.Equal(t, storedAuthorization(t, r.srv, key), r.srv.sessions[key].record.Authorized)
	}
}

// TestATakenTab: from the moment on in which the user takes a tab over nothing
// of its session reaches it, until they hand it back. The session keeps it.
func TestATakenTab(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantOK(t, p.do(by("a", cmd("0", "page.click", `{}`))))
		tab := r.browser.tabs[len(r.browser.tabs)-1].ID
		r.handler.run = heldUntilCanceled("a")
		p.send(by("a", cmd("1", "page.click", `{}`)))
		p.send(by("a", cmd("2", "page.click", `{}`)))
		synctest.Wait()
		assert.Assert(t, r.srv.takeTab(t.Context(), r.browser.id, tab) == nil)
		wantError(t, p.wait("1", 1), op.OutcomeUnknown, op.TabHeld)
		held := func(res *wire.Result) {
			t.Helper()
			f := wantError(t, res, op.Rejected, op.TabHeld)
			assert.Equal(t, f.Details["holder"], "user")
			assert.Equal(t, f.Details["session"], "a")
			assert.Assert(t, strings.Contains(f.Message, "the user has taken tab"), f.Message)
		}
		held(p.wait("2", 1))
		assert.DeepEqual(t, r.browser.detached, []int{tab})
		r.handler.run = nil
		own := fmt.Sprintf(`{"target":{"by":"id","value":"%d"}}`, tab)
		refused := func(id string) {
			t.Helper()
			held(p.do(by("a", cmd(id, "page.click", `{}`))))
			held(p.do(by("a", cmd(id+"s", "page.snapshot", `{}`)))) // they may be typing a password
			held(p.do(by("a", cmd(id+"t", "page.click", own))))
			held(p.do(by("a", cmd(id+"c", "tab.close", own))))
			held(p.do(by("b", cmd(id+"b", "page.snapshot", own))))
		}
		refused("3")
		wantOK(t, p.do(by("a", cmd("4", "tab.new", `{}`)))) // it works elsewhere
		assert.Assert(t, r.srv.takeTab(t.Context(), r.browser.id, tab) == nil)
		assert.Equal(t, r.srv.takeTab(t.Context(), "another profile", tab).Code, op.TabNotFound)
		assert.Equal(t, r.srv.takeTab(t.Context(), r.browser.id, 9999).Code, op.TabNotFound)
		assert.Equal(t, r.srv.giveTab("another profile", tab).Code, op.TabNotFound)
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		held(p.do(by("a", cmd("5", "page.click", own))))
		assert.Assert(t, r.srv.giveTab(r.browser.id, tab) == nil)
		assert.Assert(t, r.srv.giveTab(r.browser.id, tab) == nil) // pressed twice
		wantOK(t, p.do(by("a", cmd("6", "page.click", own))))

		// What the user has at the end of the session stays theirs.
		assert.Assert(t, r.srv.takeTab(t.Context(), r.browser.id, tab) == nil)
		done, oerr := r.srv.cleanup(t.Context(), "a", false)
		assert.Assert(t, oerr == nil, "%v", oerr)
		assert.DeepEqual(t, done.ReleasedTabIDs, []int{tab})
		assert.Equal(t, len(done.ClosedTabIDs), 1)
	})
}

// TestATakeIsNotOverwritten: who read the record before the user took the tab
// writes it afterwards.
func TestATakeIsNotOverwritten(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(by("a", cmd("0", "page.click", `{}`))))
		before := r.srv.sessionRecords("a", r.browser.id)[0]
		assert.Assert(t, r.srv.takeTab(t.Context(), r.browser.id, before.TabID) == nil)
		before.Keep = true
		assert.NilError(t, r.srv.put(nil, before))
		now := r.srv.sessionRecords("a", r.browser.id)[0]
		assert.Assert(t, now.Keep && !now.TakenAt.IsZero(), "%+v", now)
		snap, err := r.srv.store.load()
		assert.NilError(t, err)
		assert.Assert(t, snap.targets[0].Keep && snap.targets[0].TakenAt.Equal(now.TakenAt), "%+v", snap.targets[0])
	})
}

// popupEnd is the popup's end of a socket, after its handshake.
type popupEnd struct {
	t *testing.T
	w *fakeWorker
	n uint64
}

// openPopup shakes hands as the popup of a profile; refusal is set where that
// is refused.
func openPopup(t *testing.T, p *fakeProfile, change func(*fakeWorker)) (end *popupEnd, refusal *wire.Refused) {
	t.Helper()
	w := p.worker()
	w.quiet = true
	if change != nil {
		change(w)
	}
	w.openScope(wire.ScopePopup, p.secret)
	return &popupEnd{t: t, w: w}, w.refusal
}

func (e *popupEnd) send(do string, tab int) {
	e.n++
	e.w.write(wire.PopupAsk{Type: wire.TypeAsk, ID: e.n, Do: do, TabID: tab})
}

// answer reads one frame: an answer, or nil with the refusal that came.
func (e *popupEnd) answer() (*wire.PopupAnswer, string) {
	raw, err := e.w.sock.Read(context.Background())
	if err != nil {
		return nil, "closed"
	}
	var a wire.PopupAnswer
	if json.Unmarshal(raw, &a) == nil && a.Type == wire.TypeAnswer {
		return &a, ""
	}
	var r wire.Refused
	assert.NilError(e.t, json.Unmarshal(raw, &r))
	return nil, string(r.Code)
}

func TestPopupSocket(t *testing.T) {
	release := make(chan struct{})
	var asked []wire.PopupAsk
	hooks := Hooks{Popup: func(ctx context.Context, c *Connector, ask wire.PopupAsk) (*wire.Projection, *op.Error) {
		switch ask.Do {
		case wire.PopupStatus:
			select {
			case <-release:
			case <-ctx.Done():
			}
		case wire.PopupGive:
			return nil, noSessionsTab(ask.TabID)
		default:
			asked = append(asked, ask)
		}
		return &wire.Projection{Kind: wire.ProjectionKind, Connector: &wire.ProjectedConnector{ID: c.ID()}}, nil
	}}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		release, asked = make(chan struct{}), nil
		w := p.worker().open() // the worker's socket stays what it is
		wrong := func(change func(*fakeWorker)) string {
			t.Helper()
			end, refusal := openPopup(t, p, change)
			assert.Assert(t, refusal != nil)
			<-end.w.served
			return string(refusal.Code)
		}
		assert.Equal(t, wrong(func(w *fakeWorker) { w.proof = func(string) string { return wire.NewSecret() } }), "bad-proof")
		assert.Equal(t, wrong(func(w *fakeWorker) {
			w.tamper = func(h *wire.Hello) { h.ConnectorID = "99999999-2222-4333-8444-555555555555" }
		}), "unknown-connector")
		assert.Equal(t, wrong(func(w *fakeWorker) { w.tamper = func(h *wire.Hello) { h.BrowserEpoch = "a copy" } }), "duplicate-connector")
		assert.Equal(t, wrong(func(w *fakeWorker) {
			w.tamper = func(h *wire.Hello) { h.Fingerprint = wire.NewSecret() }
		}), "fingerprint-mismatch")
		// The proof of a connector is none of a popup.
		assert.Equal(t, wrong(func(w *fakeWorker) {
			w.retell = func(h wire.Hello, c *wire.Challenge) string {
				proof, err := wire.SocketProof(wire.ScopeConnector, p.secret, h.Identity(), c.BridgeEpoch, c.RequestNonce, h.Fingerprint)
				assert.NilError(t, err)
				return proof
			}
		}), "bad-proof")
		assert.Equal(t, len(asked), 0)

		end, refusal := openPopup(t, p, nil)
		assert.Assert(t, refusal == nil, "%v", refusal)
		for range 3 {
			end.send(wire.PopupStatus, 0) // the browser is slow to tell its tabs
		}
		end.send(wire.PopupStop, 0)
		a, _ := end.answer()
		assert.Equal(t, a.ID, uint64(4), "the stop waits for no status")
		assert.Equal(t, a.Status.Connector.ID, p.id)
		end.send(wire.PopupGive, 7)
		a, _ = end.answer()
		assert.Equal(t, a.Error.Code, string(op.TabNotFound))
		end.send(wire.PopupStatus, 0)
		synctest.Wait()
		end.send(wire.PopupStop, 0)
		a, _ = end.answer()
		assert.Equal(t, a.Error.Code, string(op.ConnectorBusy))
		close(release)
		for range 4 {
			a, _ = end.answer()
			assert.Assert(t, a.Status != nil, "%+v", a)
		}
		assert.DeepEqual(t, asked, []wire.PopupAsk{{Type: "ask", ID: 4, Do: "stop"}})
		assert.NilError(t, evaluate(t.Context(), p.attachedTab(1)))
		assert.Assert(t, w.refusal == nil)

		// A frame that is none ends the socket; so does silence.
		end.w.write(map[string]any{"type": "ask", "id": 9, "do": "everything"})
		_, code := end.answer()
		assert.Equal(t, code, "malformed")
		<-end.w.served
		end, _ = openPopup(t, p, nil)
		begun := time.Now()
		<-end.w.served
		assert.Equal(t, time.Since(begun), popupSilence)

		// A pairing that was made anew, or is over, ends its popups.
		end, _ = openPopup(t, p, nil)
		b, _, err := p.relay.bindings.Binding(t.Context(), p.id)
		assert.NilError(t, err)
		old := b.Secret
		b.Secret = wire.NewSecret()
		assert.NilError(t, p.relay.bindings.SaveBinding(t.Context(), b))
		end.send(wire.PopupStop, 0)
		_, code = end.answer()
		assert.Equal(t, code, "unknown-connector")
		b.Secret = old
		assert.NilError(t, p.relay.bindings.SaveBinding(t.Context(), b))
		end, _ = openPopup(t, p, nil)
		p.relay.Forget(p.id)
		end.send(wire.PopupStop, 0)
		_, code = end.answer()
		assert.Equal(t, code, "unknown-connector")
		assert.Equal(t, len(asked), 1)
		<-end.w.served
	})
}

// TestATakeWinsItsRace: the user takes the tab over in the moment between the
// look at who has it and the start of the command, which no list of commands of
// that tab knows yet.
func TestATakeWinsItsRace(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(by("a", cmd("0", "page.click", `{}`))))
		tab := r.srv.sessionRecords("a", r.browser.id)[0].TabID
		taken := make(chan *op.Error, 1)
		begun := false
		r.browser.mu.Lock()
		r.browser.fail = func(call string) (error, bool) {
			if call != "tab" || begun {
				return nil, false
			}
			begun = true // the command has read the record, and looks at its tab
			go func() { taken <- r.srv.takeTab(context.Background(), r.browser.id, tab) }()
			for now := false; !now; runtime.Gosched() {
				r.srv.mu.Lock()
				now = !r.srv.ownedLocked(r.browser.id, tab).TakenAt.IsZero()
				r.srv.mu.Unlock()
			}
			return nil, false
		}
		r.browser.mu.Unlock()
		wantError(t, p.do(by("a", cmd("1", "page.click", `{}`))), op.Rejected, op.TabHeld)
		assert.Assert(t, <-taken == nil)
		assert.DeepEqual(t, r.handler.order(), []string{"0"})
	})
}
