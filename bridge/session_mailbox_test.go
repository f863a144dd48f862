package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// gate is a handler that holds every command until the test lets it go.
type gate struct{ free map[string]chan struct{} }

func newGate(ids ...string) gate {
	g := gate{map[string]chan struct{}{}}
	for _, id := range ids {
		g.free[id] = make(chan struct{})
	}
	return g
}

func (g gate) run(ctx context.Context, call *Call) (op.Result, error) {
	ch := g.free[call.ID]
	if ch == nil {
		return op.NewResult(call.ID)
	}
	select {
	case <-ch:
		return op.NewResult(call.ID)
	case <-ctx.Done():
		return op.Result{}, ctx.Err()
	}
}

func (g gate) open(id string) { close(g.free[id]) }

func forTab(id int) string { return fmt.Sprintf(`{"target":{"by":"id","value":%d}}`, id) }

func TestMutationsOfOneTabRunInOrderAndReadsPass(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("a", "b", "c")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		for _, id := range []string{"a", "b", "c"} {
			p.send(cmd(id, "page.click", forTab(tab.ID)))
		}
		synctest.Wait()
		assert.DeepEqual(t, r.handler.order(), []string{"a"}) // single flight
		// Reads and waits of the same tab pass by, and so does another tab.
		other := r.browser.open("https://other.test/")
		wantOK(t, p.do(cmd("read", "page.snapshot", forTab(tab.ID))))
		wantOK(t, p.do(cmd("wait", "page.wait", forTab(tab.ID))))
		wantOK(t, p.do(cmd("beside", "page.click", forTab(other.ID))))
		assert.Assert(t, !p.answered("a"))
		for _, id := range []string{"a", "b", "c"} {
			g.open(id)
			wantOK(t, p.wait(id, 1))
		}
		assert.DeepEqual(t, r.handler.order(), []string{"a", "read", "wait", "beside", "b", "c"})
	})
}

func TestCommandsOfOneSessionEnterInOrder(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		// Sent without waiting: the new tab is there before the click looks for
		// it, and gone before the snapshot looks.
		p.send(cmd("1", "tab.new", `{}`))
		p.send(cmd("2", "page.click", `{}`))
		p.send(cmd("3", "tab.close", `{}`))
		p.send(cmd("4", "tab.close", `{}`))
		wantOK(t, p.wait("1", 1))
		wantOK(t, p.wait("2", 1))
		wantOK(t, p.wait("3", 1))
		wantError(t, p.wait("4", 1), op.Rejected, op.AutomationTargetRequired)
		assert.DeepEqual(t, r.handler.order(), []string{"1", "2", "3"})
		assert.Equal(t, len(r.browser.tabs), 0)
	})
}

func TestAtMost64CommandsOfABrowser(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("c0")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		// Each of its own session, so that only the browser's limit counts.
		for i := range maxAdmitted + 1 {
			c := cmd(fmt.Sprintf("c%d", i), "page.click", forTab(tab.ID))
			c.Session.Key = fmt.Sprintf("s%d", i)
			p.send(c)
			synctest.Wait()
		}
		f := wantError(t, p.wait("c64", 1), op.Rejected, op.ConnectorBusy)
		assert.Assert(t, f.Hint != "")
		g.open("c0")
		for i := range maxAdmitted {
			wantOK(t, p.wait(fmt.Sprintf("c%d", i), 1))
		}
		// There is room again.
		wantOK(t, p.do(cmd("later", "page.click", forTab(tab.ID))))
	})
}

func TestQueueOfOneSessionIsBounded(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.profiles.setLive(r.browser, false)
		p := r.dial()
		defer p.close()
		for i := range maxSessionQueue + 2 { // one has left the queue and waits for the browser
			p.send(cmd(fmt.Sprintf("c%d", i), "page.click", `{}`))
		}
		wantError(t, p.wait(fmt.Sprintf("c%d", maxSessionQueue+1), 1), op.Rejected, op.ConnectorBusy)
		r.profiles.setLive(r.browser, true)
		wantOK(t, p.wait("c0", 1))
		wantOK(t, p.wait(fmt.Sprintf("c%d", maxSessionQueue-1), 1))
	})
}

func TestCancel(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("runs", "waits")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		p.send(cmd("runs", "page.click", forTab(tab.ID)))
		p.send(cmd("waits", "page.click", forTab(tab.ID)))
		synctest.Wait()
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "waits"})
		wantError(t, p.wait("waits", 1), op.Rejected, op.Canceled)
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "runs"})
		wantError(t, p.wait("runs", 1), op.OutcomeUnknown, op.Canceled)
		assert.DeepEqual(t, r.handler.order(), []string{"runs"})
		// Nor does a cause that the transport wraps pass for an outcome: the
		// call that was cut short may have had its effect.
		r.handler.run = func(ctx context.Context, _ *Call) (op.Result, error) {
			<-ctx.Done()
			return op.Result{}, fmt.Errorf("Input.dispatchMouseEvent: %w: %w", context.Cause(ctx), op.ErrReplyLost)
		}
		p.send(cmd("wrapped", "page.click", forTab(tab.ID)))
		synctest.Wait()
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "wrapped"})
		wantError(t, p.wait("wrapped", 1), op.OutcomeUnknown, op.Canceled)
		r.handler.run = g.run
		// A read that is cut short had no effect.
		g.free["read"] = make(chan struct{})
		p.send(cmd("read", "page.snapshot", forTab(tab.ID)))
		synctest.Wait()
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "read"})
		wantError(t, p.wait("read", 1), op.Rejected, op.Canceled)
		// Another program's command is none of our business.
		g.free["mine"] = make(chan struct{})
		q := r.dial()
		defer q.close()
		p.send(cmd("mine", "page.snapshot", forTab(tab.ID)))
		synctest.Wait()
		q.send(wire.Cancel{Type: wire.TypeCancel, ID: "mine"})
		q.send(wire.Cancel{Type: wire.TypeCancel, ID: "unknown"})
		synctest.Wait()
		assert.Assert(t, !p.answered("mine"))
		g.open("mine")
		wantOK(t, p.wait("mine", 1))
	})
}

func TestAProgramThatGoesCancelsItsCommands(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("a", "b")
		r.handler.run = g.run
		tab := r.browser.open("https://example.test/")
		p := r.dial()
		p.send(cmd("a", "page.click", forTab(tab.ID)))
		p.send(cmd("b", "page.click", forTab(tab.ID)))
		synctest.Wait()
		p.close()
		synctest.Wait()
		q := r.dial()
		defer q.close()
		var out CommandOutcome
		time.Sleep(orphanGrace - time.Millisecond)
		assert.NilError(t, q.ask("outcome", OutcomeParams{"a"}, &out))
		assert.Equal(t, out.State, "executing")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.NilError(t, q.ask("outcome", OutcomeParams{"a"}, &out))
		assert.Equal(t, out.State, "done")
		assert.NilError(t, q.ask("outcome", OutcomeParams{"b"}, &out))
		assert.Equal(t, out.State, "unknown") // it never started
		assert.DeepEqual(t, r.handler.order(), []string{"a"})
	})
}

// TestAProgramThatComesBack for a command that it had begun gets its outcome,
// also when it comes after the end.
func TestAProgramThatComesBack(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("a", "b")
		r.handler.run = g.run
		one, two := r.browser.open("https://example.test/"), r.browser.open("https://example.test/")
		p := r.dial()
		a, b := cmd("a", "page.click", forTab(one.ID)), cmd("b", "page.click", forTab(two.ID))
		p.send(a)
		p.send(b)
		synctest.Wait()
		p.close()
		synctest.Wait()
		g.open("b")
		synctest.Wait()
		q := r.dial()
		defer q.close()
		q.send(a)
		time.Sleep(2 * orphanGrace)
		assert.Assert(t, !q.answered("a"))
		g.open("a")
		wantOK(t, q.wait("a", 1))
		wantOK(t, q.do(b))
		assert.Equal(t, len(r.handler.order()), 2)
	})
}

// TestIDsOfSteps are not for programs: their outcome is that of a list's step.
func TestIDsOfSteps(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		e := wantError(t, p.do(cmd("list/1", "page.click", `{}`)), op.Invalid, op.InvalidInput)
		assert.Assert(t, strings.Contains(e.Message, `"list/1"`), e.Message)
		assert.Equal(t, len(r.handler.order()), 0)
	})
}

func TestDeadlines(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("runs", "queued", "read", "short")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		start := time.Now()
		p.send(cmd("runs", "page.click", forTab(tab.ID)))
		synctest.Wait()
		time.Sleep(time.Second)
		short := cmd("queued", "page.click", forTab(tab.ID))
		short.DeadlineMs = 2000
		p.send(short)
		wantError(t, p.wait("queued", 1), op.Unavailable, op.CommandTimeout)
		assert.Equal(t, time.Since(start), 3*time.Second)
		wantError(t, p.wait("runs", 1), op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 30*time.Second) // the operation's own budget
		wantError(t, p.do(cmd("read", "page.snapshot", forTab(tab.ID))), op.Rejected, op.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 60*time.Second)
		// A caller cannot pass the budget.
		long := cmd("short", "page.click", forTab(tab.ID))
		long.DeadlineMs = 600_000
		p.send(long)
		wantError(t, p.wait("short", 1), op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 90*time.Second)
	})
}

func TestAHandlerThatDoesNotReturnHoldsItsLaneAndNotItsCaller(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			if call.ID == "deaf" {
				<-release
			}
			return op.NewResult(call.ID)
		}
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		start := time.Now()
		wantError(t, p.do(cmd("deaf", "page.click", forTab(tab.ID))), op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 30*time.Second+op.ResultDeliveryGrace)
		p.send(cmd("next", "page.click", forTab(tab.ID)))
		synctest.Wait()
		assert.DeepEqual(t, r.handler.order(), []string{"deaf"}) // never two at once
		close(release)
		wantOK(t, p.wait("next", 1))
		// Its late result changes nothing: what was told stays true.
		wantError(t, p.do(cmd("deaf", "page.click", forTab(tab.ID))), op.OutcomeUnknown, op.DeadlineExceeded)
	})
}

// TestTheSameIDThatJustRan: a command that waits for its turn while the same
// one runs to its end over another connection does not run, and tells what came
// of that one.
func TestTheSameIDThatJustRan(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		var h heldCommands
		r.handler.run = h.run
		tab := r.browser.open("https://mine.test/")
		p.send(cmd("before", "page.click", forTab(tab.ID)))
		synctest.Wait()
		c, other := cmd("x", "page.click", forTab(tab.ID)), by("b", cmd("y", "page.click", forTab(tab.ID)))
		p.send(c)
		p.send(other)
		synctest.Wait()
		for _, c := range []wire.Command{c, other} {
			e := journalEntry{ID: c.ID, Session: c.Session.Key, Operation: c.Operation, Digest: commandDigest(c), State: journalExecuting, StartedAt: time.Now()}
			if c.ID == "y" {
				e.Digest = "another"
			}
			assert.NilError(t, r.srv.store.begin(e))
			assert.NilError(t, r.srv.store.finish(c.ID, wire.Result{Type: wire.TypeResult, ID: c.ID, OK: true, Value: []byte(`"it was done"`)}))
		}
		close(h.hold("before"))
		res := p.wait("x", 1)
		wantOK(t, res)
		assert.Equal(t, string(res.Value), `"it was done"`)
		wantError(t, p.wait("y", 1), op.Invalid, op.InvalidInput)
		assert.Equal(t, h.begun(), "[before]")
	})
}

func TestTheSameIDRunsOnceAndAnswersTwice(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("x")
		r.handler.run = g.run
		p, q := r.dial(), r.dial()
		defer p.close()
		defer q.close()
		tab := r.browser.open("https://example.test/")
		c := cmd("x", "page.click", forTab(tab.ID))
		p.send(c)
		synctest.Wait()
		p.send(c)
		q.send(c)
		synctest.Wait()
		// Either of two callers may go; the other still waits.
		q.send(wire.Cancel{Type: wire.TypeCancel, ID: "x"})
		synctest.Wait()
		g.open("x")
		wantOK(t, p.wait("x", 1))
		wantOK(t, p.wait("x", 2))
		wantOK(t, q.wait("x", 1))
		// Over and told: the journal answers.
		q.send(c)
		wantOK(t, q.wait("x", 2))
		assert.DeepEqual(t, r.handler.order(), []string{"x"})
		other := cmd("x", "page.click", `{}`)
		p.send(other)
		wantError(t, p.wait("x", 3), op.Invalid, op.InvalidInput)
	})
}

// Invariant 5 of the design: rejected, unknown, and a read that is never
// unknown.
func TestWhatAHandlersErrorMeans(t *testing.T) {
	cases := []struct {
		name      string
		operation string
		err       error
		kind      op.Kind
		code      op.Code
	}{
		{"a rejection stays one", "page.click", op.Reject(op.ClickIntercepted, "covered"), op.Rejected, op.ClickIntercepted},
		{"an unknown outcome stays one", "page.click", op.Unknown(op.DebuggerDetached, "detached"), op.OutcomeUnknown, op.DebuggerDetached},
		{"a read is never unknown", "page.snapshot", op.Unknown(op.DebuggerDetached, "detached"), op.Rejected, op.DebuggerDetached},
		{"a surprise in a mutation", "page.click", errors.New("boom"), op.OutcomeUnknown, op.BrowserOperation},
		{"a surprise in a read", "page.snapshot", errors.New("boom"), op.Rejected, op.BrowserOperation},
		{"a wrapped rejection", "page.click", fmt.Errorf("while: %w", op.Reject(op.TabGone, "gone")), op.Rejected, op.TabGone},
	}
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		for i, c := range cases {
			r.handler.run = func(context.Context, *Call) (op.Result, error) { return op.Result{}, c.err }
			t.Log(c.name)
			wantError(t, p.do(cmd(fmt.Sprint(i), c.operation, `{}`)), c.kind, c.code)
		}
		r.handler.run = func(context.Context, *Call) (op.Result, error) { panic("a fault of ours") }
		wantError(t, p.do(cmd("panic", "page.click", `{}`)), op.OutcomeUnknown, op.BrowserOperation)
		r.handler.run = nil
		wantOK(t, p.do(cmd("after", "page.click", `{}`)))
		r.browser.attach = func(id int) error { return op.Reject(op.DebuggerBusy, "tab %d is held", id) }
		wantError(t, p.do(cmd("busy", "page.click", `{}`)), op.Rejected, op.DebuggerBusy)
		r.browser.attach = func(int) error { return errLostForTest }
		wantError(t, p.do(cmd("lost", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
	})
}

func TestAdmissionRefusals(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantError(t, p.do(cmd("1", "page.fly", `{}`)), op.Invalid, op.UnknownTool)
		wantError(t, p.do(cmd("2", "page.click", `{"bad":1}`)), op.Invalid, op.InvalidInput)
		c := cmd("3", "page.click", `{}`)
		c.Session.Key = " "
		wantError(t, p.do(c), op.Rejected, op.MissingSessionKey)
		c = cmd("4", "page.click", `{}`)
		c.Session.Pace = "slow"
		wantError(t, p.do(c), op.Invalid, op.InvalidInput)
		c = cmd("5", "page.click", `{}`)
		c.Session.Key = "a\nb"
		wantError(t, p.do(c), op.Invalid, op.InvalidInput)
		// A missing input is an empty one.
		wantOK(t, p.do(cmd("6", "page.click", ``)))
		wantOK(t, p.do(cmd("7", "page.click", `null`)))
		assert.Equal(t, len(r.handler.order()), 2)
	})
}

func TestProgressReachesTheCaller(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			call.Progress(3, 12, "tile")
			return op.NewResult(1)
		}
		p := r.dial()
		defer p.close()
		wantOK(t, p.do(cmd("a", "page.snapshot", `{}`)))
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.Equal(t, len(p.progress), 1)
		assert.DeepEqual(t, *p.progress[0], wire.Progress{Type: wire.TypeProgress, ID: "a", Done: 3, Total: 12, Note: "tile"})
	})
}

func TestAProgramThatDoesNotReadHoldsUpNobody(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		big := make([]byte, 1<<20)
		for i := range big {
			big[i] = 'x'
		}
		r.handler.run = func(context.Context, *Call) (op.Result, error) { return op.NewResult(string(big)) }
		ours, theirs := newPipe()
		r.srv.wg.Go(func() { r.srv.serveClient(theirs, func() {}) })
		assert.NilError(t, introduce(ours, r.secret))
		for i := range 8 { // more than the pipe holds
			assert.NilError(t, writeFrame(ours, cmd(fmt.Sprintf("deaf%d", i), "page.snapshot", `{}`)))
		}
		p := r.dial()
		defer p.close()
		wantOK(t, p.do(cmd("a", "page.click", `{}`)))
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		assert.Equal(t, len(r.srv.clientInfos()), 1) // the deaf one was cut off
	})
}

func TestLockWinsEveryRace(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("runs", "waits")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		pi := func(id, operation string) wire.Command {
			c := cmd(id, operation, `{}`)
			c.Session.Key = "session:abc"
			return c
		}
		f := wantError(t, p.do(pi("0", "page.click")), op.Rejected, op.SessionLocked)
		assert.Assert(t, f.Hint != "")
		wantOK(t, p.do(pi("status", "system.status"))) // it says why
		var a Authorization
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "session:abc", Mode: AuthorizedUntil, Minutes: 5}, &a))
		assert.Equal(t, a.Generation, 1)
		p.send(pi("runs", "page.click"))
		synctest.Wait()
		p.send(pi("waits", "page.click"))
		synctest.Wait()
		assert.NilError(t, p.ask("revoke", SessionParams{"session:abc"}, &a))
		wantError(t, p.wait("waits", 1), op.Rejected, op.SessionLocked)
		wantError(t, p.wait("runs", 1), op.OutcomeUnknown, op.SessionLocked)
		wantError(t, p.do(pi("1", "page.click")), op.Rejected, op.SessionLocked)
		// It is durable, and it expires.
		assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "session:abc", Mode: AuthorizedUntil, Minutes: 1}, nil))
		r.crash()
		r.start()
		p = r.dial()
		defer p.close()
		wantOK(t, p.do(pi("2", "page.click")))
		time.Sleep(time.Minute)
		wantError(t, p.do(pi("3", "page.click")), op.Rejected, op.SessionLocked)
		for _, bad := range []AuthorizeParams{{Session: "x", Mode: "maybe"}, {Session: "x", Mode: AuthorizedUntil}, {Session: "", Mode: AuthorizedIndefinite},
			{Session: "x", Mode: AuthorizedIndefinite, Minutes: 3}} {
			assert.Assert(t, p.ask("authorize", bad, nil) != nil)
		}
	})
}

func TestShutdownLetsExecutingCommandsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate("runs", "waits")
		r.handler.run = g.run
		p := r.dial()
		tab := r.browser.open("https://example.test/")
		p.send(cmd("runs", "page.click", forTab(tab.ID)))
		p.send(cmd("waits", "page.click", forTab(tab.ID)))
		synctest.Wait()
		assert.NilError(t, p.ask("shutdown", ShutdownParams{"test"}, nil))
		synctest.Wait()
		wantError(t, p.wait("waits", 1), op.Unavailable, op.BridgeStopped)
		wantError(t, p.do(cmd("new", "page.click", `{}`)), op.Unavailable, op.BridgeStopped)
		g.open("runs")
		wantOK(t, p.wait("runs", 1))
		<-p.gone
		r.close() // waits for the end that has begun
	})
}

func TestAnIdleOwnerAnswersBeforeItShutsDown(t *testing.T) {
	for range 50 { // the end must never overtake the answer
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.srv.store.db.NoSync = true
			p := r.dial()
			assert.NilError(t, p.ask("shutdown", nil, nil))
			<-p.gone
			r.close()
		})
	}
}

func TestCloseTellsEveryCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate("runs", "waits")
		r.handler.run = g.run
		p := r.dial()
		tab := r.browser.open("https://example.test/")
		p.send(cmd("runs", "page.click", forTab(tab.ID)))
		p.send(cmd("waits", "page.click", forTab(tab.ID)))
		synctest.Wait()
		r.close()
		wantError(t, p.wait("waits", 1), op.Unavailable, op.BridgeStopped)
		wantError(t, p.wait("runs", 1), op.OutcomeUnknown, op.BridgeStopped)
		<-p.gone
	})
}

func TestBrowserChoice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work, home := newFakeBrowser("id-work", "Work"), newFakeBrowser("id-home", "Home")
		r := newRig(t, work, home)
		defer r.close()
		p := r.dial()
		defer p.close()
		time.Sleep(time.Minute) // not a young owner
		f := wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.BrowserRequired)
		assert.Assert(t, f.Details["browsers"] != nil)
		on := func(id, browser string) wire.Command {
			c := cmd(id, "page.click", `{}`)
			c.Browser = browser
			return c
		}
		wantError(t, p.do(on("2", "Office")), op.Rejected, op.BrowserRequired)
		wantOK(t, p.do(on("3", "home")))
		assert.Equal(t, len(home.tabs), 1)
		assert.Equal(t, len(work.tabs), 0)
		// The session has a tab at home: it stays there, and goes nowhere else.
		wantOK(t, p.do(cmd("4", "page.click", `{}`)))
		wantError(t, p.do(on("5", "id-work")), op.Rejected, op.BrowserRequired)
		assert.Equal(t, len(work.tabs), 0)
		// With its browser away it waits a little and fails; it never falls
		// back to the other one.
		r.profiles.setLive(home, false)
		start := time.Now()
		wantError(t, p.do(cmd("6", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
		assert.Equal(t, time.Since(start), awaitReady)
		// Another session needs no name while one browser is live.
		c := cmd("7", "page.click", `{}`)
		c.Session.Key = "other"
		wantOK(t, p.do(c))
		assert.Equal(t, len(work.tabs), 1)
		r.profiles.setLive(home, true)
		var done Cleanup
		assert.NilError(t, p.ask("cleanup", SessionParams{"default"}, &done))
		assert.Equal(t, len(done.ClosedTabIDs), 1)
		assert.Equal(t, len(home.tabs), 0)
		wantOK(t, p.do(on("8", "Work")))
		assert.Equal(t, len(work.tabs), 2)
		// A session without a tab is where it was, too.
		assert.NilError(t, p.ask("cleanup", SessionParams{"default"}, &done))
		r.profiles.setLive(work, false)
		f = wantError(t, p.do(cmd("9", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
		assert.Equal(t, len(home.tabs), 0)
		assert.Assert(t, strings.Contains(f.Hint, "--browser: Home"), f.Hint)
		wantOK(t, p.do(on("10", "Home")))
		assert.Equal(t, len(home.tabs), 1)
	})
}

// TestNothingEntersWhileAProfileIsUnpaired: a command that comes while the
// tabs are being closed makes no tab that nobody closes.
func TestNothingEntersWhileAProfileIsUnpaired(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		assert.NilError(t, r.srv.store.SaveBinding(t.Context(), Binding{ConnectorID: r.browser.id, Label: "Work", Secret: wire.NewSecret()}))
		p, q := r.dial(), r.dial()
		defer p.close()
		defer q.close()
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		closing, goOn := make(chan struct{}), make(chan struct{})
		r.browser.mu.Lock()
		r.browser.fail = func(call string) (error, bool) {
			if call == "tabs.remove" {
				r.browser.mu.Unlock()
				close(closing)
				<-goOn
				r.browser.mu.Lock()
			}
			return nil, false
		}
		r.browser.mu.Unlock()
		unpaired := make(chan error, 1)
		go func() { unpaired <- p.ask("unpair", ConnectorParams{}, nil) }()
		<-closing
		late := cmd("2", "page.click", `{}`)
		late.Session.Key = "other"
		wantError(t, q.do(late), op.Unavailable, op.ConnectorNotBound)
		assert.ErrorContains(t, q.ask("unpair", ConnectorParams{}, nil), "is being unpaired already")
		close(goOn)
		assert.NilError(t, <-unpaired)
		assert.Equal(t, len(tabsOf(r.browser)), 0)
		assert.Equal(t, len(recordsOf(r.srv)), 0)
	})
}

func TestAYoungOwnerWaitsForItsBrowsers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work, home := newFakeBrowser("id-work", "Work"), newFakeBrowser("id-home", "Home")
		work.live, home.live = false, false
		r := newRig(t, work, home)
		defer r.close()
		p := r.dial()
		defer p.close()
		p.send(cmd("1", "page.click", `{}`))
		time.Sleep(time.Second)
		r.profiles.setLive(work, true)
		time.Sleep(time.Second)
		assert.Assert(t, !p.answered("1")) // the first is not the only one because it is first
		r.profiles.setLive(home, true)
		wantError(t, p.wait("1", 1), op.Rejected, op.BrowserRequired)
		// One that is named may take as long as a sleeping worker does.
		r.profiles.setLive(home, false)
		c := cmd("2", "page.click", `{}`)
		c.Browser = "Home"
		p.send(c)
		time.Sleep(25 * time.Second)
		r.profiles.setLive(home, true)
		wantOK(t, p.wait("2", 1))
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.Assert(t, slices.ContainsFunc(p.progress, func(f *wire.Progress) bool { return f.ID == "2" && f.Note != "" }))
	})
}

func TestNoBrowserPaired(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.profiles.list = nil
		p := r.dial()
		defer p.close()
		f := wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Unavailable, op.ConnectorNotBound)
		assert.Assert(t, f.Hint != "")
		res := p.do(cmd("2", "system.status", `{}`))
		wantOK(t, res)
		var st Status
		assert.NilError(t, json.Unmarshal(res.Value, &st))
		assert.Equal(t, st.Readiness, "unpaired")
		assert.Equal(t, len(st.Requirements), 3)
		assert.Assert(t, st.Requirements[0].Mend != "")
	})
}
