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

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// memLeases is a LeaseStore in memory.
type memLeases struct {
	mu  sync.Mutex
	all map[string]LeaseRecord
}

func (m *memLeases) Leases(context.Context) ([]LeaseRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []LeaseRecord
	for _, r := range m.all {
		all = append(all, r)
	}
	return all, nil
}

func (m *memLeases) SaveLease(_ context.Context, r LeaseRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]LeaseRecord{}
	}
	m.all[r.TargetID] = r
	return nil
}

func (m *memLeases) RemoveLease(_ context.Context, _, targetID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, targetID)
	return nil
}

// targets are those with a record.
func (m *memLeases) targets() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for id := range m.all {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// owners is a profile that has one owner after the other, with the same state.
type owners struct {
	t      *testing.T
	relay  *Relay
	store  *memBindings
	leases *memLeases
	p      *fakeProfile
}

// ownership runs a conversation whose owner may be replaced.
func ownership(t *testing.T, test func(t *testing.T, o *owners)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &owners{t: t, store: &memBindings{}, leases: &memLeases{}}
		o.start(Hooks{})
		o.p = newProfile(t, o.relay)
		o.p.worker().open()
		test(t, o)
		assert.NilError(t, o.relay.Close())
	})
}

func (o *owners) start(hooks Hooks) {
	r, err := NewRelay(RelayOptions{ExtensionID: pinnedExtension, Bindings: o.store, Leases: o.leases, Hooks: hooks})
	assert.NilError(o.t, err)
	o.relay = r
	if o.p != nil {
		o.p.relay = r
	}
}

// replace ends the owner without a word to the browser and starts the next.
func (o *owners) replace() *fakeWorker {
	o.p.mu.Lock()
	o.p.calls = nil
	o.p.mu.Unlock()
	assert.NilError(o.t, o.relay.Close())
	o.start(Hooks{})
	w := o.p.worker().open()
	synctest.Wait()
	return w
}

func (o *owners) tab(id int) *Tab {
	o.t.Helper()
	tab, err := o.p.connector().Tab(o.t.Context(), id)
	assert.NilError(o.t, err)
	return tab
}

const idle = 5 * time.Minute

// TestIdleDetach: after five minutes without a command the debugger is given
// back, and the next command attaches again.
func TestIdleDetach(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		assert.DeepEqual(t, o.leases.targets(), []string{"target-1"})
		time.Sleep(idle - 20*time.Second)
		assert.NilError(t, tab.Attach(t.Context())) // a command
		time.Sleep(idle - 20*time.Second)
		assert.Check(t, tab.Attached(), "given back after a command")
		time.Sleep(40 * time.Second)
		assert.Check(t, !tab.Attached())
		assert.Check(t, !p.isAttached(1), "Chrome has it attached still")
		assert.DeepEqual(t, heard.heard(), []string{"detached:released"})
		assert.DeepEqual(t, o.leases.targets(), []string{})
		start := time.Now()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, time.Since(start), time.Duration(0))
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, tab.Attachment(), 2)
	})
}

// TestPinnedTabIsNotGivenBack: a capture, a dialog, a script or a command that
// runs keeps it.
func TestPinnedTabIsNotGivenBack(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		tab := o.p.attachedTab(1)
		capture, dialog := tab.Pin("network capture"), tab.Pin("dialog")
		time.Sleep(2 * idle)
		assert.DeepEqual(t, o.p.connector().Info().Leases[0].Pins, []string{"network capture", "dialog"})
		capture()
		capture()
		time.Sleep(2 * idle)
		assert.Check(t, tab.Attached())
		dialog()
		time.Sleep(idle - 20*time.Second)
		assert.Check(t, tab.Attached(), "the time without use begins when the last of them ends")
		time.Sleep(40 * time.Second)
		assert.Check(t, !tab.Attached())
	})
}

// TestIdleDetachWhileOffline is not tried: it would only wait for the browser.
func TestIdleDetachWhileOffline(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		o.p.attachedTab(1)
		w := o.p.worker().open()
		w.kill()
		time.Sleep(2 * idle)
		assert.Equal(t, o.p.count("debugger.detach"), 0)
		o.p.worker().open()
		time.Sleep(time.Minute)
		assert.Equal(t, o.p.count("debugger.detach"), 1)
		assert.Check(t, !o.p.isAttached(1))
	})
}

// TestOwnerEndsWhileAttached: the next owner knows of it, lets go of what waits
// in the tab, takes it up for a command, or gives it back when none comes.
func TestOwnerEndsWhileAttached(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		p.attachedTab(1)
		p.attachedTab(2)
		assert.DeepEqual(t, o.leases.targets(), []string{"target-1", "target-2"})

		p.mu.Lock()
		delete(p.attached, 2) // meanwhile the user closed the banner of tab 2
		p.mu.Unlock()
		o.replace()
		info := p.connector().Info()
		assert.Equal(t, len(info.Leases), 1, "%+v", info.Leases)
		assert.Equal(t, info.Leases[0].State, "left")
		assert.Equal(t, p.count("Target.setAutoAttach"), 1, "a paused frame waits for ever")
		assert.DeepEqual(t, o.leases.targets(), []string{"target-1"})
		tab := o.tab(1)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, evaluate(t.Context(), tab))

		o.replace()
		time.Sleep(idle + time.Minute)
		assert.Equal(t, p.count("debugger.detach"), 1)
		assert.Check(t, !p.isAttached(1))
		assert.DeepEqual(t, o.leases.targets(), []string{})

		// Another start of the browser, or another tab under the number.
		p.attachedTab(1)
		p.mu.Lock()
		p.epoch, p.attached[1], p.foreign[1] = "browser-2", false, true
		p.mu.Unlock()
		o.replace()
		assert.Equal(t, len(p.connector().Info().Leases), 0)
		assert.DeepEqual(t, o.leases.targets(), []string{})
	})
}

// TestLongSilence: a worker that had no owner for a minute has let its tabs go.
// The command after it does not fail on that.
func TestLongSilence(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		w := p.worker().open()
		tab, other := p.attachedTab(1), p.attachedTab(2)
		w.drop()
		time.Sleep(workerPatience - time.Second)
		w.open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		assert.Check(t, tab.Attached(), "a short silence costs nothing")
		w.drop()
		time.Sleep(workerPatience + 10*time.Second)
		p.mu.Lock()
		delete(p.attached, 1)
		p.mu.Unlock()
		w.open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		for _, x := range []*Tab{tab, other} {
			assert.NilError(t, x.Attach(t.Context()))
			assert.NilError(t, evaluate(t.Context(), x))
		}
		assert.Equal(t, p.count("debugger.attach"), 4, "one was let go, the other taken up")
	})
}

// spoil resets a tab whose detach does not answer.
func spoil(t *testing.T, p *fakeProfile, tab *Tab, cause string) error {
	t.Helper()
	p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
		if call == "debugger.detach" {
			return nil, errNoAnswer
		}
		return w.standard(call, args)
	})
	return tab.ResetSession(t.Context(), errors.New(cause))
}

// play makes the profile's worker answer by fn from now on.
func (p *fakeProfile) play(fn func(w *fakeWorker, call string, args []json.RawMessage) (any, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = fn
}

func (p *fakeProfile) behave() { p.play(nil) }

// isAttached says whether Chrome has our debugger on the tab.
func (p *fakeProfile) isAttached(id int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attached[id]
}

// TestQuarantine: what could not be undone and could not be reset is used by no
// command until a reset works, also not by those of a later owner.
func TestQuarantine(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		quarantined := &op.Error{Code: op.DebuggerQuarantined, Kind: op.Rejected}
		tab := p.attachedTab(1)
		err := spoil(t, p, tab, "the script stays")
		assert.ErrorIs(t, err, quarantined)
		for _, part := range []string{"tab 1", "the script stays", "detaching the debugger", "no answer within"} {
			assert.ErrorContains(t, err, part)
		}
		assert.ErrorIs(t, evaluate(t.Context(), tab), op.ErrNotDelivered)
		err = tab.Attach(t.Context())
		assert.ErrorIs(t, err, quarantined)
		assert.ErrorContains(t, err, "the script stays")
		assert.Equal(t, p.count("Runtime.evaluate"), 0)
		assert.Equal(t, p.count("debugger.attach"), 1)
		synctest.Wait()

		o.replace()
		tab = o.tab(1)
		info := p.connector().Info().Leases
		assert.Equal(t, info[0].State, "quarantined")
		assert.Equal(t, len(info[0].Failures), 3)
		assert.ErrorIs(t, tab.Attach(t.Context()), quarantined)
		p.behave()
		assert.NilError(t, tab.Attach(t.Context()))
		calls := slices.DeleteFunc(p.executed(), func(c string) bool { return !strings.HasPrefix(c, "debugger.") || c == "debugger.getTargets" })
		assert.DeepEqual(t, calls, []string{"debugger.detach", "debugger.detach", "debugger.attach"})
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, len(p.connector().Info().Leases[0].Failures), 0)
	})
}

// TestQuarantineHealsByItself: the reset is tried again although no command
// comes.
func TestQuarantineHealsByItself(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		tab := o.p.attachedTab(1)
		assert.ErrorContains(t, spoil(t, o.p, tab, "x"), "quarantined")
		time.Sleep(idle + time.Minute)
		assert.Equal(t, o.p.count("debugger.detach"), 2)
		o.p.behave()
		time.Sleep(idle + time.Minute)
		assert.Equal(t, o.p.count("debugger.detach"), 3)
		assert.Equal(t, tab.leaseState(), cdpmodel.LeaseFree)
	})
}

// TestResetThatWorks leaves nothing behind, and the listeners hear that the
// session has ended.
func TestResetThatWorks(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		tab := o.p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		assert.NilError(t, tab.ResetSession(t.Context(), errors.New("x")))
		synctest.Wait()
		assert.DeepEqual(t, heard.heard(), []string{"detached:released"})
		assert.NilError(t, tab.Attach(t.Context()))
		// What the owner has lost sight of may have something left in it too.
		tab.interrupt()
		assert.NilError(t, tab.ResetSession(t.Context(), errors.New("x")))
		assert.Equal(t, o.p.count("debugger.detach"), 2)
		assert.NilError(t, tab.ResetSession(t.Context(), errors.New("x")))
		assert.Equal(t, o.p.count("debugger.detach"), 2)
	})
}

// TestCancelOutlivesTheOwner: another owner attaches no tab either before the
// user has authorized, not even one that it had not known.
func TestCancelOutlivesTheOwner(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		p.attachedTab(1)
		w := o.replace()
		tab := p.attachedTab(1)
		p.mu.Lock()
		clear(p.attached)
		p.mu.Unlock()
		w.event("debugger.onDetach", debuggee{TabID: 1}, "canceled_by_user")
		synctest.Wait()
		canceled := &op.Error{Code: op.DebuggerCanceled, Kind: op.Rejected}
		assert.ErrorIs(t, tab.Attach(t.Context()), canceled)
		o.replace()
		assert.Check(t, p.connector().Info().Canceled)
		for id := range p.tabs {
			assert.ErrorIs(t, o.tab(id).Attach(t.Context()), canceled)
		}
		assert.Equal(t, p.count("debugger.attach"), 0)
		p.connector().AllowDebugger()
		assert.NilError(t, o.tab(2).Attach(t.Context()))
		synctest.Wait()
		o.replace()
		assert.Check(t, !p.connector().Info().Canceled)
		assert.NilError(t, o.tab(1).Attach(t.Context()))
	})
}

// TestCancelThatNobodyHeard: a Cancel at a time without an owner holds for the
// next one, once: what the user allows after it stands, however often it is told.
func TestCancelThatNobodyHeard(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		p.attachedTab(1)
		time.Sleep(time.Second)
		p.canceledAt = time.Now().UnixMilli()
		p.mu.Lock()
		clear(p.attached)
		p.mu.Unlock()
		time.Sleep(time.Second)
		w := o.replace()
		canceled := &op.Error{Code: op.DebuggerCanceled, Kind: op.Rejected}
		assert.ErrorIs(t, o.tab(1).Attach(t.Context()), canceled)
		assert.Equal(t, p.count("debugger.attach"), 0)
		p.connector().AllowDebugger()
		assert.NilError(t, o.tab(1).Attach(t.Context()))
		w.drop()
		p.worker().open()
		assert.NilError(t, o.tab(1).Attach(t.Context()))
		synctest.Wait()
		o.replace()
		assert.NilError(t, o.tab(2).Attach(t.Context()))
		time.Sleep(time.Second)
		p.canceledAt = time.Now().UnixMilli()
		o.replace()
		assert.ErrorIs(t, o.tab(2).Attach(t.Context()), canceled)
	})
}

// TestOneCancelIsToldOnce: its time, which is the browser's, tells one that is
// told again from the next, whatever the clocks show.
func TestOneCancelIsToldOnce(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		canceled := &op.Error{Code: op.DebuggerCanceled, Kind: op.Rejected}
		cancel := func(w *fakeWorker, at time.Time) {
			p.canceledAt = at.UnixMilli()
			for _, id := range []int{1, 2} {
				p.mu.Lock()
				delete(p.attached, id)
				p.mu.Unlock()
				w.event("debugger.onDetach", debuggee{TabID: id}, "canceled_by_user", at.UnixMilli()-int64(2-id))
			}
			synctest.Wait()
		}
		allowed := func() {
			t.Helper()
			for _, id := range []int{1, 2} {
				assert.NilError(t, o.tab(id).Attach(t.Context()))
			}
			synctest.Wait()
		}
		w := o.replace()
		allowed()
		ahead := time.Now().Add(time.Hour) // by a clock that is set back afterwards
		cancel(w, ahead)
		assert.ErrorIs(t, o.tab(1).Attach(t.Context()), canceled)
		p.connector().AllowDebugger()
		allowed()
		w.drop()
		w.open() // the same worker and the next one, and the next owner
		allowed()
		w.drop()
		p.worker().open()
		allowed()
		w = o.replace()
		allowed()
		cancel(w, ahead) // kept, and sent again
		allowed()
		cancel(w, time.Now())
		assert.ErrorIs(t, o.tab(2).Attach(t.Context()), canceled)
	})
}

// TestCancelOfAnUnknownTab: the tab that tells of it may be one that an owner
// before has attached.
func TestCancelOfAnUnknownTab(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		o.replace().event("debugger.onDetach", debuggee{TabID: 1}, "canceled_by_user")
		synctest.Wait()
		assert.ErrorIs(t, o.tab(1).Attach(t.Context()), &op.Error{Code: op.DebuggerCanceled})
	})
}

// TestCancelWhileAttaching: the attach that came after it is given back.
func TestCancelWhileAttaching(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		tab := o.tab(1)
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			v, err := w.standard(call, args)
			if call == "debugger.attach" {
				w.event("debugger.onDetach", debuggee{TabID: 1}, "canceled_by_user")
			}
			return v, err
		})
		assert.ErrorIs(t, tab.Attach(t.Context()), &op.Error{Code: op.DebuggerCanceled})
		synctest.Wait()
		assert.Check(t, !p.isAttached(1))
	})
}

// TestWordlessAttach: an attach whose answer never came may have worked.
func TestWordlessAttach(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		p := o.p
		tab := o.tab(1)
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			if call == "debugger.attach" {
				_, _ = w.standard(call, args)
				return nil, errNoAnswer
			}
			return w.standard(call, args)
		})
		assert.ErrorIs(t, tab.Attach(t.Context()), op.ErrReplyLost)
		assert.Equal(t, tab.leaseState(), cdpmodel.LeaseLeft)
		assert.DeepEqual(t, o.leases.targets(), []string{"target-1"})
		p.behave()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, evaluate(t.Context(), tab))
	})
}

// TestLeaseStory: whatever happens to worker, owner, tab and user, the owner
// never believes a tab to be free that it has attached, a command never uses a
// session that was spoiled, and what is not used is given back in the end.
func TestLeaseStory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ownership(t, func(t *testing.T, o *owners) { leaseStory(rt, o) })
	})
}

func leaseStory(t *rapid.T, o *owners) {
	p, w := o.p, o.p.worker().open()
	spoiled := map[int]bool{} // something is left in the session that Chrome has
	hang := map[string]bool{}
	p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
		p.mu.Lock()
		hangs := hang[call]
		p.mu.Unlock()
		var d debuggee
		if len(args) > 0 {
			_ = json.Unmarshal(args[0], &d)
		}
		v, err := w.standard(call, args)
		p.mu.Lock()
		defer p.mu.Unlock()
		if commandName(call, args) == "Runtime.evaluate" && err == nil && spoiled[d.TabID] {
			t.Errorf("a command used the spoiled session of tab %d", d.TabID)
		}
		if call == "debugger.detach" && err == nil {
			delete(spoiled, d.TabID)
		}
		if hangs {
			return nil, errNoAnswer
		}
		return v, err
	})
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 25).Draw(t, "steps")
	for n, step := range steps {
		id := rapid.IntRange(1, 2).Draw(t, fmt.Sprint("tab ", n))
		tab, err := p.connector().Tab(short(), id)
		assert.NilError(t, err)
		switch step {
		case 0, 1, 2:
			if tab.Attach(short()) == nil {
				_ = evaluate(short(), tab)
			}
		case 3:
			p.mu.Lock()
			was := p.attached[id]
			delete(p.attached, id)
			delete(spoiled, id)
			p.mu.Unlock()
			if was {
				w.event("debugger.onDetach", debuggee{TabID: id}, "target_closed")
			}
		case 4:
			w.kill()
			w = p.worker().open()
		case 5:
			w = o.replace()
		case 6:
			if tab.Attached() {
				p.mu.Lock()
				spoiled[id] = p.attached[id]
				p.mu.Unlock()
				_ = tab.ResetSession(short(), errors.New("spoiled"))
			}
		case 7:
			p.mu.Lock()
			name := rapid.SampledFrom([]string{"debugger.attach", "debugger.detach"}).Draw(t, fmt.Sprint("hang ", n))
			hang[name] = !hang[name]
			p.mu.Unlock()
		case 8:
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, idle}).Draw(t, fmt.Sprint("sleep ", n)))
		case 9:
			p.mu.Lock()
			if !p.attached[id] {
				p.foreign[id] = !p.foreign[id]
			}
			p.mu.Unlock()
		}
		synctest.Wait()
		p.mu.Lock()
		attached := map[string]bool{}
		for id := range p.attached {
			attached[p.tabs[id]] = true
		}
		p.mu.Unlock()
		believed := o.leases.targets()
		for target := range attached {
			assert.Assert(t, slices.Contains(believed, target), "step %d: %s is attached, and stored are %v", n, target, believed)
		}
	}
	p.mu.Lock()
	clear(hang)
	p.mu.Unlock()
	time.Sleep(2*idle + time.Minute)
	synctest.Wait()
	p.mu.Lock()
	left := len(p.attached)
	p.mu.Unlock()
	assert.Equal(t, left, 0, "never given back")
	assert.Equal(t, strings.Join(o.leases.targets(), " "), "")
}

func commandName(call string, args []json.RawMessage) string {
	if call == "debugger.sendCommand" {
		return strings.Trim(string(args[1]), `"`)
	}
	return call
}
