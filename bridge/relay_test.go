package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// conversation runs a test on the fake clock with a relay and one paired
// profile, and checks that closing the relay ends every goroutine: synctest
// fails when one is left.
func conversation(t *testing.T, hooks Hooks, test func(t *testing.T, p *fakeProfile)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, _ := newRelayFor(t, hooks)
		defer func() { assert.NilError(t, r.Close()) }()
		test(t, newProfile(t, r))
	})
}

// evaluate is any command that has an effect.
func evaluate(ctx context.Context, tab *Tab) error {
	return tab.Call(ctx, "Runtime.evaluate", map[string]any{"expression": "1+1"}, nil)
}

func TestCallAndReply(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		assert.Equal(t, w.ready.Generation, 1)
		tab := p.attachedTab(1)
		assert.DeepEqual(t, tab.Key(), op.TabKey{BrowserEpoch: "browser-1", TabID: 1, TargetID: "target-1"})
		assert.Equal(t, tab.Attachment(), 1)
		var res struct {
			Method  string `json:"method"`
			Session string `json:"session"`
		}
		assert.NilError(t, tab.Call(t.Context(), "Page.enable", nil, &res))
		assert.Equal(t, res.Method, "Page.enable")
		assert.NilError(t, tab.Child("S").Call(t.Context(), "DOM.enable", struct{}{}, &res))
		assert.Equal(t, res.Session, "S")
		again, err := p.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		assert.Check(t, again == tab)
		_, err = p.connector().Tab(t.Context(), 99)
		assert.ErrorIs(t, err, &op.Error{Code: op.TabGone})
	})
}

func TestCallsArePipelinedAndAnsweredByID(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		w.mu.Lock()
		w.received = make(chan *wire.CallFrame, 100)
		w.mu.Unlock()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				var res int
				assert.Check(t, tab.Call(t.Context(), "Runtime.evaluate", map[string]int{"n": i}, &res))
				assert.Check(t, res == i)
			})
		}
		var all []*wire.CallFrame
		for range 100 {
			all = append(all, <-w.received)
		}
		slices.Reverse(all)
		for _, f := range all {
			var params struct{ N int }
			assert.NilError(t, json.Unmarshal(f.Args[2], &params))
			w.reply(f.ID, params.N, nil)
		}
		wg.Wait()
	})
}

func TestErrorsOfChrome(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		reply := ""
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errors.New(reply) })
		reply = `{"code":-32000,"message":"Cannot navigate to invalid URL"}`
		err := tab.Call(t.Context(), "Page.navigate", struct{}{}, nil)
		pe, ok := errors.AsType[*op.ProtocolError](err)
		assert.Assert(t, ok, "%v", err)
		assert.DeepEqual(t, *pe, op.ProtocolError{Method: "Page.navigate", Code: -32000, Message: "Cannot navigate to invalid URL"})
		reply = "Detached while handling command."
		err = evaluate(t.Context(), tab)
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrReplyLost)
		reply = "Debugger is not attached to the tab with id: 1."
		err = evaluate(t.Context(), tab)
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		reply = "No tab with id: 1."
		_, err = tab.Info(t.Context())
		assert.ErrorIs(t, err, &op.Error{Code: op.TabGone})
		_, err = p.connector().Chrome(t.Context(), "tabs.duplicate", 1)
		assert.ErrorContains(t, err, "not a call of the contract")
		assert.ErrorIs(t, err, op.ErrNotDelivered)
	})
}

// TestHiccupCostsNothing: the socket is lost while a click runs; the same
// worker comes back and its answer arrives.
func TestHiccupCostsNothing(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		release := make(chan struct{})
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			<-release
			return w.standard(call, args)
		})
		done := make(chan error, 1)
		go func() { done <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		w.drop()
		w.cdpEvent(1, "Page.loadEventFired", struct{}{})
		close(release)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("answered without a socket: %v", err)
		default:
		}
		time.Sleep(2 * time.Second)
		w.open()
		assert.Equal(t, w.ready.Generation, 2)
		assert.NilError(t, <-done)
		assert.Equal(t, p.count("Runtime.evaluate"), 1)
		assert.DeepEqual(t, heard.heard(), []string{"Page.loadEventFired"})
		assert.Equal(t, tab.Attachment(), 1)
		assert.Check(t, tab.Attached())
	})
}

// TestCallThatNeverArrivedIsSentAgain: the frame was handed to a socket that
// broke before the worker read it.
func TestCallThatNeverArrivedIsSentAgain(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		// The worker's end stops reading, as when the socket is already dead.
		w.mu.Lock()
		w.online = false
		w.mu.Unlock()
		done := make(chan error, 2)
		go func() { done <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		go func() { done <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		assert.Equal(t, p.count("Runtime.evaluate"), 0)
		w.drop()
		w.open()
		assert.NilError(t, <-done)
		assert.NilError(t, <-done)
		assert.Equal(t, p.count("Runtime.evaluate"), 2)
	})
}

// TestCallsWaitForTheConnector: calls made while it is away are sent when it
// is back.
func TestCallsWaitForTheConnector(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		w.drop()
		done := make(chan error, 1)
		go func() { done <- evaluate(t.Context(), tab) }()
		time.Sleep(7 * time.Second)
		w.open()
		assert.NilError(t, <-done)
		assert.Equal(t, p.count("Runtime.evaluate"), 1)
	})
}

func TestCallsGiveUpWithoutConnector(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		written := make(chan error, 1)
		go func() { written <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		w.drop()
		start := time.Now()
		err := evaluate(t.Context(), tab)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.ErrorContains(t, err, "Runtime.evaluate on tab 1")
		assert.ErrorContains(t, err, "not connected")
		assert.ErrorIs(t, err, op.ErrOffline)
		assert.Equal(t, time.Since(start), 8*time.Second)
		err = <-written
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.ErrorIs(t, err, op.ErrOffline)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = p.connector().WaitLive(ctx)
		assert.ErrorIs(t, err, &op.Error{Code: op.ConnectorOffline, Kind: op.Unavailable})
		w.open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		assert.Equal(t, p.count("Runtime.evaluate"), 1, "a call that was given up was sent")
	})
}

// TestDeadWorkerLosesItsCalls: what was written to it may have happened and is
// never sent again; what was not is sent to the next worker.
func TestDeadWorkerLosesItsCalls(t *testing.T) {
	resets := make(chan ResetReason, 4)
	hooks := Hooks{Reset: func(ctx context.Context, c *Connector, reason ResetReason) { resets <- reason }}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		written := make(chan error, 1)
		go func() { written <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		w.kill()
		unwritten := make(chan error, 1)
		go func() { unwritten <- tab.Call(t.Context(), "Page.enable", nil, nil) }()
		synctest.Wait()
		p.behave()
		p.worker().open()
		err := <-written
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.ErrorContains(t, err, "worker ended")
		assert.NilError(t, <-unwritten)
		assert.Equal(t, p.count("Runtime.evaluate"), 1)
		assert.DeepEqual(t, heard.heard(), []string{"detached:connection-lost"})

		// The debugger of the tab outlived the worker: it is taken up.
		err = evaluate(t.Context(), tab)
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, tab.Attachment(), 2)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, <-resets, ResetFirst)
		assert.Equal(t, <-resets, ResetWorker)
	})
}

// TestGap: dropped events end the debugger sessions as far as we know, and
// commands wait until everything was read again.
func TestGap(t *testing.T) {
	var p0 *fakeProfile
	var during []string
	hooks := Hooks{Reset: func(ctx context.Context, c *Connector, reason ResetReason) {
		if reason != ResetGap {
			return
		}
		time.Sleep(time.Second)
		_, err := c.Targets(ctx)
		assert.Check(t, err)
		during = p0.executed()
	}}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		p0 = p
		w := p.worker()
		w.maxKept = 5
		w.open()
		tab := p.attachedTab(1)
		other := p.attachedTab(2)
		var heard recorder
		tab.Listen(heard.listen)
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			if call == "debugger.sendCommand" {
				return nil, errNoAnswer
			}
			return w.standard(call, args)
		})
		running := make(chan error, 1)
		go func() { running <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		w.drop()
		p.mu.Lock()
		delete(p.tabs, 2) // closed, and its event is among those dropped
		p.mu.Unlock()
		for i := range 20 {
			w.cdpEvent(1, fmt.Sprintf("Page.e%d", i), struct{}{})
		}
		p.mu.Lock()
		p.answer = nil
		p.mu.Unlock()
		w.open()
		err := <-running
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, evaluate(t.Context(), tab))
		// While the hook slept for a second, Attach had to wait.
		assert.DeepEqual(t, during[len(during)-3:], []string{"Runtime.evaluate", "debugger.getTargets", "debugger.getTargets"})
		got := heard.heard()
		assert.Equal(t, got[0], "detached:connection-lost")
		assert.DeepEqual(t, got[1:], []string{"Page.e15", "Page.e16", "Page.e17", "Page.e18", "Page.e19"})
		assert.ErrorIs(t, other.Attach(t.Context()), &op.Error{Code: op.TabGone})
	})
}

func TestNewBrowserEndsTheTabs(t *testing.T) {
	resets := make(chan ResetReason, 4)
	conversation(t, Hooks{Reset: func(_ context.Context, _ *Connector, r ResetReason) { resets <- r }}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		written := make(chan error, 1)
		go func() { written <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		p.behave()
		w.kill()
		p.epoch = "browser-2"
		p.mu.Lock()
		clear(p.attached)
		p.mu.Unlock()
		p.worker().open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		err := <-written
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.ErrorContains(t, err, "the browser was started again before it answered")
		assert.ErrorIs(t, tab.Attach(t.Context()), &op.Error{Code: op.TabGone})
		fresh := p.attachedTab(1)
		assert.Check(t, fresh != tab)
		assert.Equal(t, fresh.Key().BrowserEpoch, "browser-2")
		assert.Equal(t, <-resets, ResetFirst)
		assert.Equal(t, <-resets, ResetBrowser)
		assert.DeepEqual(t, heard.heard(), []string{"detached:tab-closed"})
	})
}

// TestCanceledCallerReturnsAtOnce and its context never closes the socket.
func TestCanceledCallerReturnsAtOnce(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			if call == "debugger.sendCommand" {
				time.Sleep(time.Second)
			}
			return w.standard(call, args)
		})
		why := errors.New("the user had enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- evaluate(ctx, tab) }()
		synctest.Wait()
		cancel(why)
		err := <-done
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.Equal(t, time.Since(start), time.Duration(0))
		err = evaluate(ctx, tab)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Check(t, w.ready.Generation == 1 && p.connector().Info().Generation == 1)
		assert.Equal(t, p.connector().Info().PendingCalls, 0)
	})
}

func TestEveryCallIsBounded(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		start := time.Now()
		err := tab.Call(t.Context(), "DOM.enable", nil, nil)
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.ErrorContains(t, err, "no answer within 30s")
		assert.Equal(t, time.Since(start), 30*time.Second)
		start = time.Now()
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrReplyLost)
		assert.Equal(t, time.Since(start), 120*time.Second)
		assert.Equal(t, p.connector().Info().PendingCalls, 0)
	})
}

func TestTooManyAndTooLargeCalls(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		err := tab.Call(t.Context(), "Runtime.evaluate", map[string]string{"expression": strings.Repeat("x", wire.FrameBytes)}, nil)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.ErrorContains(t, err, "larger than 20 MB")
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxCalls {
			wg.Go(func() { _ = evaluate(ctx, tab) })
		}
		synctest.Wait()
		err = evaluate(t.Context(), tab)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.ErrorContains(t, err, "calls wait for an answer already")
		cancel()
		wg.Wait()
	})
}

// TestPingKeepsTheWorkerAlive: a data frame every 20 s, and a worker that does
// not answer is let go of.
func TestPingKeepsTheWorkerAlive(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		time.Sleep(5 * time.Minute)
		assert.Check(t, p.connector().Live())
		w.mu.Lock()
		w.pongs = false
		w.mu.Unlock()
		start := time.Now()
		<-w.served
		assert.Check(t, time.Since(start) <= 32*time.Second, "%s", time.Since(start))
		assert.Check(t, !p.connector().Live())
	})
}

func TestAcks(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		p.attachedTab(1)
		for range 64 {
			w.cdpEvent(1, "Page.x", struct{}{})
		}
		synctest.Wait()
		w.mu.Lock()
		acked := w.acked
		w.mu.Unlock()
		assert.Check(t, acked >= 64, "%d", acked)
		w.cdpEvent(1, "Page.large", strings.Repeat("x", 1<<20))
		synctest.Wait()
		w.mu.Lock()
		assert.Equal(t, w.acked, w.seq)
		w.mu.Unlock()
		time.Sleep(21 * time.Second)
		w.mu.Lock()
		assert.Equal(t, len(w.kept), 0)
		w.mu.Unlock()
	})
}

// TestFramesThatWereProcessedAreNotProcessedAgain although the worker sends
// all that was not acknowledged.
func TestFramesThatWereProcessedAreNotProcessedAgain(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		w.cdpEvent(1, "Page.a", struct{}{})
		w.cdpEvent(1, "Page.b", struct{}{})
		synctest.Wait()
		w.drop()
		w.mu.Lock()
		kept := len(w.kept)
		w.mu.Unlock()
		assert.Check(t, kept >= 2)
		w.open()
		w.cdpEvent(1, "Page.c", struct{}{})
		synctest.Wait()
		assert.DeepEqual(t, heard.heard(), []string{"Page.a", "Page.b", "Page.c"})
	})
}

func TestMalformedFrameEndsTheConnection(t *testing.T) {
	for _, frame := range []string{`{"seq":1,"id":1}`, `not JSON`, `{"seq":1,"event":"tabs.onMoved","args":[]}`, `{"type":"hello"}`} {
		conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
			w := p.worker().open()
			assert.NilError(t, w.sock.Write(t.Context(), []byte(frame)))
			<-w.served
			assert.Check(t, !p.connector().Live())
		})
	}
}

func TestOversizedFrameEndsTheConnection(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		assert.NilError(t, w.sock.Write(t.Context(), make([]byte, wire.FrameBytes+1)))
		<-w.served
		w = p.worker()
		w.tamper = func(h *wire.Hello) { h.Label = strings.Repeat("x", wire.HandshakeBytes) }
		w.open()
		assert.Check(t, w.ready == nil)
		<-w.served
	})
}

func TestCloseFailsCallsAndEndsEverything(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		events, _ := tab.Subscribe("Page.x")
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		written := make(chan error, 1)
		go func() { written <- evaluate(t.Context(), tab) }()
		synctest.Wait()
		assert.NilError(t, p.relay.Close())
		assert.ErrorIs(t, <-written, op.ErrReplyLost)
		_, open := <-events
		assert.Check(t, !open)
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrNotDelivered)
		<-w.served
		assert.Equal(t, string(p.worker().open().refusal.Code), "http-503")
		_, err := p.relay.Pairing().Start(PairingOptions{})
		assert.ErrorIs(t, err, &op.Error{Code: op.BridgeStopped})
	})
}

func TestForget(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		c := p.connector()
		assert.NilError(t, p.relay.bindings.RemoveBinding(t.Context(), p.id))
		p.relay.Forget(p.id)
		<-w.served
		assert.ErrorIs(t, c.WaitLive(t.Context()), &op.Error{Code: op.ConnectorNotBound})
		_, err := c.Chrome(t.Context(), "tabs.query", struct{}{})
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.Equal(t, p.worker().open().refusal.Code, wire.RefuseUnknown)
		assert.Equal(t, len(p.relay.Connectors()), 0)
	})
}

// TestNothingIsDoneTwice: whatever happens to sockets and workers, a command
// is executed at most once, exactly once when it succeeded, and not at all when
// its error says that it was not delivered.
func TestNothingIsDoneTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"call", "call", "slow call", "lose unread", "lose", "kill", "open", "wait"}), 1, 30).Draw(rt, "steps")
		conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
			w := p.worker().open()
			tab := p.attachedTab(1)
			p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
				if call == "debugger.sendCommand" && strings.Contains(string(args[1]), "Slow") {
					time.Sleep(3 * time.Second)
				}
				return w.standard(call, args)
			})
			online := true
			lose := func() {
				if online {
					w.drop()
				}
				online = false
			}
			var names []string
			var errs []chan error
			for i, step := range steps {
				switch step {
				case "call", "slow call":
					name := fmt.Sprintf("Page.n%d", i)
					if step == "slow call" {
						name = fmt.Sprintf("Slow.n%d", i)
					}
					ch := make(chan error, 1)
					names, errs = append(names, name), append(errs, ch)
					go func() {
						err := tab.Attach(t.Context())
						if err == nil {
							err = tab.Call(t.Context(), name, nil, nil)
						}
						ch <- err
					}()
				case "lose unread":
					if online {
						w.mu.Lock()
						w.online = false // what is sent from now on is not read
						w.mu.Unlock()
						time.Sleep(time.Second)
					}
					lose()
				case "lose":
					synctest.Wait()
					lose()
				case "kill":
					lose()
					w.mu.Lock()
					w.kept = nil
					w.mu.Unlock()
					w = p.worker()
				case "open":
					if !online {
						w.open()
						online = w.ready != nil
					}
				case "wait":
					time.Sleep(2 * time.Second)
				}
			}
			if !online {
				w.open()
			}
			if w.refusal != nil {
				rt.Fatalf("refused: %v", w.refusal)
			}
			defer time.Sleep(5 * time.Second) // for answers that nobody waits for
			for i, ch := range errs {
				err := <-ch
				n := p.count(names[i])
				switch {
				case n > 1:
					rt.Fatalf("%s was executed %d times", names[i], n)
				case err == nil && n != 1:
					rt.Fatalf("%s succeeded and was executed %d times", names[i], n)
				case err != nil && errors.Is(err, op.ErrNotDelivered) && n != 0:
					rt.Fatalf("%s was executed although %v", names[i], err)
				case err != nil && !errors.Is(err, op.ErrNotDelivered) && !errors.Is(err, op.ErrReplyLost):
					rt.Fatalf("%s: %v", names[i], err)
				}
			}
		})
	})
}

// TestSlowWorker: a worker that reads nothing holds up nobody for longer than
// one write may take.
func TestSlowWorker(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		w.mu.Lock()
		w.received = make(chan *wire.CallFrame)
		w.mu.Unlock()
		const calls = 1000
		errs := make(chan error, calls)
		for range calls {
			go func() { errs <- evaluate(t.Context(), tab) }()
		}
		start := time.Now()
		<-w.served
		assert.Equal(t, time.Since(start), 15*time.Second)
		written := 0
		for range calls {
			err := <-errs
			switch {
			case errors.Is(err, op.ErrReplyLost):
				written++
			default:
				assert.ErrorIs(t, err, op.ErrNotDelivered)
			}
		}
		assert.Equal(t, time.Since(start), 23*time.Second)
		assert.Check(t, written > 0 && written < calls, "%d were written", written)
		w.mu.Lock()
		w.online = false
		w.mu.Unlock()
		<-w.received // let the worker's goroutine go
	})
}
