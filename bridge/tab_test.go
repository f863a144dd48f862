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
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

// TestEventsComeBeforeTheReplyThatFollowsThem, whatever the listener takes.
func TestEventsComeBeforeTheReplyThatFollowsThem(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(func(ev op.Event) {
			time.Sleep(10 * time.Millisecond)
			heard.listen(ev)
		})
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			for i := range 5 {
				w.cdpEvent(1, fmt.Sprintf("Page.e%d", i), struct{}{})
			}
			w.event("debugger.onEvent", map[string]any{"tabId": 1, "sessionId": "S"}, "Page.child")
			return nil, nil
		})
		assert.NilError(t, evaluate(t.Context(), tab))
		heard.add("reply")
		assert.DeepEqual(t, heard.heard(), []string{"Page.e0", "Page.e1", "Page.e2", "Page.e3", "Page.e4", "Page.child", "reply"})
	})
}

// TestStreamOrder: any mix of events and replies of two tabs is handed out in
// the order in which the worker sent it, tab by tab.
func TestStreamOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 40).Draw(rt, "steps")
		conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
			w := p.worker().open()
			tabs := []*Tab{p.attachedTab(1), p.attachedTab(2)}
			var heard [2]recorder
			for i, tab := range tabs {
				tab.Listen(heard[i].listen)
			}
			p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
			var want [2][]string
			replies := 0
			for n, step := range steps {
				i := step % 2
				name := fmt.Sprintf("Page.s%d", n)
				want[i] = append(want[i], name)
				if step < 2 {
					w.cdpEvent(i+1, name, struct{}{})
					continue
				}
				replies++
				go func() {
					_ = tabs[i].conn.mustDo(t, tabs[i], name, &heard[i])
				}()
				synctest.Wait()
				w.mu.Lock()
				id := w.lastCall
				w.mu.Unlock()
				w.reply(id, nil, nil)
			}
			synctest.Wait()
			for i := range want {
				got := heard[i].heard()
				if !slices.Equal(got, want[i]) {
					rt.Fatalf("tab %d heard %v, not %v", i+1, got, want[i])
				}
			}
		})
	})
}

// mustDo makes a command whose reply is noted when its turn in the stream
// comes.
func (c *Connector) mustDo(t *testing.T, tab *Tab, name string, heard *recorder) error {
	args, err := commandArgs(tab.Key().TabID, "", name, nil)
	assert.Check(t, err)
	_, err = c.do(t.Context(), &call{name: "debugger.sendCommand", what: name, args: args, tab: tab, command: name,
		apply: func(json.RawMessage, error) { heard.add(name) }})
	return err
}

func TestSlowListenerDoesNotHoldUpOtherTabs(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		slow, fast := p.attachedTab(1), p.attachedTab(2)
		release := make(chan struct{})
		slow.Listen(func(op.Event) { <-release })
		w.cdpEvent(1, "Page.x", struct{}{})
		synctest.Wait()
		stuck := make(chan error, 1)
		go func() { stuck <- evaluate(t.Context(), slow) }()
		start := time.Now()
		assert.NilError(t, evaluate(t.Context(), fast))
		assert.Equal(t, time.Since(start), time.Duration(0))
		select {
		case err := <-stuck:
			t.Fatalf("the reply overtook the event: %v", err)
		default:
		}
		close(release)
		assert.NilError(t, <-stuck)
	})
}

// TestOverflowEndsTheSession: a listener that is too slow costs the tab its
// session, with a reason, and no reply is lost.
func TestOverflowEndsTheSession(t *testing.T) {
	for name, flood := range map[string]struct {
		count int
		size  int
	}{"events": {maxTabEvents + 10, 1}, "bytes": {70, 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
				w := p.worker().open()
				tab := p.attachedTab(1)
				var heard recorder
				release := make(chan struct{})
				first := true
				tab.Listen(func(ev op.Event) {
					if first {
						first = false
						<-release
					}
					heard.listen(ev)
				})
				w.cdpEvent(1, "Page.first", struct{}{})
				reply := make(chan error, 1)
				go func() { reply <- evaluate(t.Context(), tab) }()
				synctest.Wait()
				load := strings.Repeat("x", flood.size)
				for range flood.count {
					w.cdpEvent(1, "Page.flood", load)
				}
				synctest.Wait()
				err := evaluate(t.Context(), tab)
				assert.ErrorIs(t, err, op.ErrDetached)
				assert.ErrorContains(t, err, DetachedOverflow)
				close(release)
				assert.NilError(t, <-reply)
				synctest.Wait()
				assert.DeepEqual(t, heard.heard(), []string{"Page.first", "detached:event-overflow"})
				assert.Equal(t, p.count("debugger.detach"), 1, "the flood goes on in the browser")
				assert.NilError(t, tab.Attach(t.Context()))
				w.cdpEvent(1, "Page.after", struct{}{})
				synctest.Wait()
				got := heard.heard()
				assert.Equal(t, got[len(got)-1], "Page.after")
			})
		})
	}
}

func TestSubscribe(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		root, stopRoot := tab.Subscribe("Page.x")
		child, stopChild := tab.Child("S").Subscribe("Page.x")
		defer stopChild()
		w.cdpEvent(1, "Page.x", map[string]int{"n": 1})
		w.event("debugger.onEvent", map[string]any{"tabId": 1, "sessionId": "S"}, "Page.x", map[string]int{"n": 2})
		w.cdpEvent(1, "Page.y", struct{}{})
		assert.Equal(t, string(<-root), `{"n":1}`)
		assert.Equal(t, string(<-child), `{"n":2}`)
		stopRoot()
		stopRoot()
		_, open := <-root
		assert.Check(t, !open)
		w.cdpEvent(1, "Target.detachedFromTarget", map[string]string{"sessionId": "S"})
		_, open = <-child
		assert.Check(t, !open)
		last, stopLast := tab.Subscribe("Page.x")
		defer stopLast()
		w.cdpEvent(1, "Page.x", struct{}{})
		w.event("debugger.onDetach", debuggee{TabID: 1}, "target_closed")
		assert.Equal(t, string(<-last), `{}`)
		_, open = <-last
		assert.Check(t, !open)
	})
}

func TestSubscriberThatFallsBehindIsEnded(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		events, stop := tab.Subscribe("Page.x")
		defer stop()
		w.cdpEvent(1, "Page.x", struct{}{})
		synctest.Wait() // it waits for the reader now
		for range maxSubscribed + 10 {
			w.cdpEvent(1, "Page.x", struct{}{})
		}
		synctest.Wait()
		n := 0
		for range events {
			n++
		}
		assert.Equal(t, n, maxSubscribed+2) // one in hand, and the one that was too many
		assert.Check(t, tab.Attached())
	})
}

func TestStopListening(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var a, b recorder
		stop := tab.Listen(a.listen)
		tab.Listen(b.listen)
		w.cdpEvent(1, "Page.x", struct{}{})
		synctest.Wait()
		stop()
		stop()
		w.cdpEvent(1, "Page.y", struct{}{})
		synctest.Wait()
		assert.DeepEqual(t, a.heard(), []string{"Page.x"})
		assert.DeepEqual(t, b.heard(), []string{"Page.x", "Page.y"})
	})
}

// TestDetachEndsTheCallsOfTheSession at once, and a child's with the child.
func TestDetachEndsTheCallsOfTheSession(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		root, child := make(chan error, 1), make(chan error, 1)
		go func() { root <- evaluate(t.Context(), tab) }()
		go func() { child <- tab.Child("S").Call(t.Context(), "DOM.enable", nil, nil) }()
		synctest.Wait()
		w.cdpEvent(1, "Target.detachedFromTarget", map[string]string{"sessionId": "S"})
		err := <-child
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrReplyLost)
		select {
		case err := <-root:
			t.Fatalf("the tab's own call ended with the child: %v", err)
		default:
		}
		w.event("debugger.onDetach", debuggee{TabID: 1}, "target_closed")
		err = <-root
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrReplyLost)
		assert.ErrorContains(t, err, "target_closed")
	})
}

func TestAttachAgainAfterTargetClosed(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		detach := func() {
			p.mu.Lock()
			delete(p.attached, 1)
			p.mu.Unlock()
			w.event("debugger.onDetach", debuggee{TabID: 1}, "target_closed")
			synctest.Wait()
			assert.Check(t, !tab.Attached())
		}
		detach()
		start := time.Now()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, time.Since(start), 150*time.Millisecond)
		assert.Equal(t, tab.Attachment(), 2)
		detach()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, time.Since(start), 3150*time.Millisecond, "more than one attach within 3 s")
		detach()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := tab.Attach(ctx)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestUserCancelsTheDebugger(t *testing.T) {
	canceled := make(chan time.Time, 4)
	conversation(t, Hooks{Canceled: func(_ *Connector, at time.Time) { canceled <- at }}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab, other := p.attachedTab(1), p.attachedTab(2)
		p.mu.Lock()
		clear(p.attached)
		p.mu.Unlock()
		w.event("debugger.onDetach", debuggee{TabID: 1}, "canceled_by_user")
		w.event("debugger.onDetach", debuggee{TabID: 2}, "canceled_by_user")
		assert.Check(t, (<-canceled).Equal(time.Now())) // once for the profile, whichever tab tells it
		synctest.Wait()
		for _, x := range []*Tab{tab, other} {
			assert.ErrorIs(t, x.Attach(t.Context()), &op.Error{Code: op.DebuggerCanceled, Kind: op.Rejected})
		}
		assert.Equal(t, p.count("debugger.attach"), 2)
		p.connector().AllowDebugger()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, len(canceled), 0)
	})
}

func TestDebuggerOfAnotherExtension(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		p.mu.Lock()
		p.foreign[1] = true
		p.mu.Unlock()
		tab, err := p.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		err = tab.Attach(t.Context())
		assert.ErrorIs(t, err, &op.Error{Code: op.DebuggerBusy, Kind: op.Rejected})
		e, _ := errors.AsType[*op.Error](err)
		assert.Check(t, e.Hint != "" && strings.Contains(e.Message, "tab 1") && strings.Contains(e.Message, "no effect"))
		assert.Check(t, !tab.Attached())
		p.mu.Lock()
		p.foreign[1] = false
		p.mu.Unlock()
		assert.NilError(t, tab.Attach(t.Context()))
	})
}

// TestAttachmentOfAnEarlierOwnerIsTakenUp: Chrome says "already attached", and
// it is our own.
func TestAttachmentOfAnEarlierOwnerIsTakenUp(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		p.mu.Lock()
		p.attached[1] = true
		p.mu.Unlock()
		tab := p.attachedTab(1)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, p.count("Target.setAutoAttach"), 1)
	})
}

func TestRefusedAttach(t *testing.T) {
	for message, code := range map[string]op.Code{
		"Cannot access a chrome:// URL":                                  op.ProtectedTabURL,
		"Cannot attach to this target.":                                  op.ProtectedTabURL,
		"The extensions gallery cannot be scripted.":                     op.ProtectedTabURL,
		"Cannot access a chrome-extension:// URL of different extension": op.DebuggerBusy,
		"Host access is blocked by policy.":                              op.ProtectedTabURL,
		"No tab with given id 1.":                                        op.TabGone,
		"Something that Chrome will say in the future":                   op.BrowserOperation,
	} {
		conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
			p.worker().open()
			tab, err := p.connector().Tab(t.Context(), 1)
			assert.NilError(t, err)
			p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errors.New(message) })
			err = tab.Attach(t.Context())
			e, ok := errors.AsType[*op.Error](err)
			assert.Assert(t, ok, "%v", err)
			assert.Equal(t, e.Code, code, message)
			assert.Equal(t, e.Kind, op.Rejected)
			if strings.Contains(message, "policy") {
				assert.Check(t, strings.Contains(e.Message+e.Hint, "runtime_blocked_hosts"))
			}
		})
	}
}

func TestDetach(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		assert.NilError(t, tab.Detach(t.Context()))
		assert.NilError(t, tab.Detach(t.Context()))
		assert.Equal(t, p.count("debugger.detach"), 1)
		assert.DeepEqual(t, heard.heard(), []string{"detached:released"})
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrDetached)
		start := time.Now()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, time.Since(start), time.Duration(0))
		assert.Equal(t, tab.Attachment(), 2)
		assert.Equal(t, p.connector().Info().AttachedTabs, 1)

		// Chrome has detached in the meantime: that is what was wanted.
		p.mu.Lock()
		clear(p.attached)
		p.mu.Unlock()
		assert.NilError(t, tab.Detach(t.Context()))
		synctest.Wait()
		assert.Check(t, !tab.Attached())
	})
}

// TestOneAttachAtATime: many callers, one call.
func TestOneAttachAtATime(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		tab, err := p.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		done := make(chan error, 10)
		for range 10 {
			go func() { done <- tab.Attach(t.Context()) }()
		}
		for range 10 {
			assert.NilError(t, <-done)
		}
		assert.Equal(t, p.count("debugger.attach"), 1)
		assert.Equal(t, tab.Attachment(), 1)
	})
}

func TestClosedTab(t *testing.T) {
	removed := make(chan int, 1)
	conversation(t, Hooks{TabRemoved: func(_ *Connector, id int) { removed <- id }}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
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
		p.mu.Lock()
		delete(p.tabs, 1)
		p.mu.Unlock()
		w.event("tabs.onRemoved", 1, map[string]any{"windowId": 1})
		assert.ErrorIs(t, <-running, op.ErrReplyLost)
		assert.Equal(t, <-removed, 1)
		assert.DeepEqual(t, heard.heard(), []string{"detached:tab-closed"})
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrNotDelivered)
		assert.ErrorIs(t, tab.Attach(t.Context()), &op.Error{Code: op.TabGone})
		_, err := p.connector().Tab(t.Context(), 1)
		assert.ErrorIs(t, err, &op.Error{Code: op.TabGone})
		events, stop := tab.Subscribe("Page.x")
		defer stop()
		_, open := <-events
		assert.Check(t, !open)
	})
}

// TestDiscardedTab keeps its object under another id and target.
func TestDiscardedTab(t *testing.T) {
	type pair struct{ from, to int }
	var replaced chan pair
	conversation(t, Hooks{TabReplaced: func(_ *Connector, from, to int) { replaced <- pair{from, to} }}, func(t *testing.T, p *fakeProfile) {
		replaced = make(chan pair) // the hook ends when it is read
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		p.mu.Lock()
		delete(p.tabs, 1)
		clear(p.attached)
		p.tabs[8] = "target-8"
		p.mu.Unlock()
		w.event("tabs.onReplaced", 8, 1)
		w.event("debugger.onDetach", debuggee{TabID: 1}, "target_closed")
		synctest.Wait()
		assert.Equal(t, p.connector().MovedTo(1), 8) // before the hook has ended
		assert.Equal(t, <-replaced, pair{1, 8})
		synctest.Wait() // the hook and the tab's stream go side by side
		assert.DeepEqual(t, tab.Key(), op.TabKey{BrowserEpoch: "browser-1", TabID: 8, TargetID: "target-8"})
		assert.DeepEqual(t, heard.heard(), []string{"detached:target_closed"})
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, evaluate(t.Context(), tab))
		same, err := p.connector().Tab(t.Context(), 8)
		assert.NilError(t, err)
		assert.Check(t, same == tab)
		assert.Equal(t, p.connector().MovedTo(1), 1)
		_, err = p.connector().Tab(t.Context(), 1)
		assert.ErrorIs(t, err, &op.Error{Code: op.TabGone})
	})
}

// TestUnknownEventsAreNoErrors: of tabs that are not ours, or not understood.
func TestUnknownEventsAreNoErrors(t *testing.T) {
	var other []string
	conversation(t, Hooks{Other: func(_ *Connector, event string, args []json.RawMessage) {
		other = append(other, fmt.Sprintf("%s %s", event, args))
	}}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		w.cdpEvent(77, "Page.x", struct{}{})
		w.event("debugger.onEvent")
		w.event("debugger.onEvent", "x", 1)
		w.event("debugger.onDetach", debuggee{TabID: 78}, "target_closed")
		w.event("tabs.onReplaced", 5)
		w.event("tabs.onRemoved", "x")
		w.event("tabs.onUpdated", 1)
		w.event("popup.request", map[string]string{"kind": "hello"})
		assert.NilError(t, evaluate(t.Context(), tab))
		synctest.Wait()
		assert.DeepEqual(t, other, []string{`popup.request [{"kind":"hello"}]`})
	})
}

// TestSlowHooksAreBounded: too many events for a hook that hangs lead to a
// reset instead of a queue without end.
func TestSlowHooksAreBounded(t *testing.T) {
	release := make(chan struct{})
	resets := make(chan ResetReason, 4)
	blocked := false
	hooks := Hooks{
		TabRemoved: func(*Connector, int) {
			if !blocked {
				blocked = true
				<-release
			}
		},
		Reset: func(_ context.Context, _ *Connector, r ResetReason) { resets <- r },
	}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		release = make(chan struct{})
		w := p.worker().open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		w.event("tabs.onRemoved", 999, struct{}{})
		synctest.Wait()
		for i := range maxHookQueue + 5 {
			w.event("tabs.onRemoved", 1000+i, struct{}{})
		}
		synctest.Wait()
		assert.Check(t, p.connector().hooks.len() <= maxHookQueue)
		close(release)
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		assert.Equal(t, <-resets, ResetFirst)
		assert.Equal(t, <-resets, ResetGap)
	})
}

func TestTabWrappers(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		c := p.connector()
		assert.NilError(t, c.WaitLive(t.Context()))
		var got []string
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			p.mu.Lock()
			line := call
			for _, a := range args {
				line += " " + string(a)
			}
			got = append(got, line)
			p.mu.Unlock()
			tab := map[string]any{"id": 7, "windowId": 3, "url": "", "pendingUrl": "https://a.test/", "title": "A", "groupId": 5, "active": true}
			switch call {
			case "tabs.query":
				return []any{tab, map[string]any{"id": 8, "windowId": 3, "url": "https://b.test/"}}, nil
			case "tabs.get", "tabs.create", "tabs.update":
				return tab, nil
			case "tabs.group":
				return 5, nil
			case "tabGroups.query":
				return []any{map[string]any{"id": 5, "title": "G", "color": "blue", "collapsed": false, "windowId": 3}}, nil
			case "tabGroups.get", "tabGroups.update":
				return map[string]any{"id": 5, "title": "G", "color": "blue"}, nil
			case "windows.getAll":
				return []any{map[string]any{"id": 3, "focused": true, "type": "normal", "state": "minimized", "incognito": false}}, nil
			}
			return w.standard(call, args)
		})
		ctx := t.Context()
		tabs, err := c.Tabs(ctx)
		assert.NilError(t, err)
		assert.Equal(t, tabs[0].URL, "https://a.test/")
		assert.Equal(t, tabs[0].Group.Title, "G")
		assert.Equal(t, tabs[1].GroupID, -1)
		assert.Check(t, tabs[1].Group == nil)
		p.mu.Lock()
		got = nil
		p.mu.Unlock()
		_, err = c.CreateTab(ctx, CreateTab{WindowID: 3})
		assert.NilError(t, err)
		shown, err := c.ActivateTab(ctx, 7)
		assert.NilError(t, err)
		assert.Equal(t, shown.Group.Color, "blue")
		_, err = c.GroupTabs(ctx, -1, 3, 7, 8)
		assert.NilError(t, err)
		_, err = c.GroupTabs(ctx, 5, 3, 7)
		assert.NilError(t, err)
		no := false
		_, err = c.UpdateGroup(ctx, 5, GroupUpdate{Title: "T", Collapsed: &no})
		assert.NilError(t, err)
		assert.NilError(t, c.UngroupTabs(ctx, 7))
		assert.NilError(t, c.RemoveTabs(ctx, 7))
		assert.NilError(t, c.ReloadTab(ctx, 7, true))
		assert.NilError(t, c.GoBack(ctx, 7))
		windows, err := c.Windows(ctx)
		assert.NilError(t, err)
		assert.DeepEqual(t, windows, []Window{{3, true, false, "normal", "minimized"}})
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.DeepEqual(t, got, []string{
			`tabs.create {"active":false,"url":"about:blank","windowId":3}`,
			`tabs.update 7 {"active":true}`, `windows.update 3 {"focused":true}`, `tabGroups.get 5`,
			`tabs.group {"createProperties":{"windowId":3},"tabIds":[7,8]}`, `tabs.group {"groupId":5,"tabIds":[7]}`,
			`tabGroups.update 5 {"collapsed":false,"title":"T"}`, `tabs.ungroup [7]`, `tabs.remove [7]`,
			`tabs.reload 7 {"bypassCache":true}`, `tabs.goBack 7`, `windows.getAll {}`,
		})
	})
}

// TestDetachIsSeenInTheReply: Chrome fails the command first and tells of the
// detach a moment later; an Attach between the two must not believe that the
// tab is still attached.
func TestDetachIsSeenInTheReply(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) {
			p.mu.Lock()
			p.answer = nil
			delete(p.attached, 1)
			p.mu.Unlock()
			time.AfterFunc(time.Millisecond, func() { w.event("debugger.onDetach", debuggee{TabID: 1}, "target_closed") })
			return nil, errors.New("Detached while handling command.")
		})
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrDetached)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, tab.Attachment(), 2)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.DeepEqual(t, heard.heard(), []string{"detached:target_closed"})
		assert.Check(t, tab.Attached())
	})
}
