package cdpmodel

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

var leaseStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestLease walks through the stories of a debugger lease: each step is an
// event, the time that passed before it, and what must come of it.
func TestLease(t *testing.T) {
	type step struct {
		after  time.Duration
		ev     LeaseEvent
		action LeaseAction
		state  LeaseState
	}
	wanted := LeaseEvent{Kind: LeaseWanted}
	attached := LeaseEvent{Kind: LeaseAttached}
	detached := func(reason string) LeaseEvent { return LeaseEvent{Kind: LeaseDetached, Reason: reason} }
	spoiled := func(failure string) LeaseEvent { return LeaseEvent{Kind: LeaseSpoiled, Failure: failure} }
	pin := func(kind LeaseEventKind, name string) LeaseEvent { return LeaseEvent{Kind: kind, Pin: name} }
	tick, released, unseen := LeaseEvent{Kind: LeaseTick}, LeaseEvent{Kind: LeaseReleased}, LeaseEvent{Kind: LeaseUnseen}
	pause, repeat, idle := DefaultLeaseTimes.Pause, DefaultLeaseTimes.Repeat, DefaultLeaseTimes.Idle
	refused := func(r LeaseRefusal) LeaseEvent { return LeaseEvent{Kind: LeaseRefused, Refusal: r} }
	hold := []step{{0, wanted, LeaseAttach, LeaseAttaching}, {0, attached, LeaseUse, LeaseHeld}}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"attach on need", append(slices.Clone(hold), step{0, wanted, LeaseUse, LeaseHeld})},
		{"one attach at a time", []step{{0, wanted, LeaseAttach, LeaseAttaching}, {0, wanted, LeaseWait, LeaseAttaching}, {0, attached, LeaseUse, LeaseHeld}}},
		{"an attachment of our own is taken up", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedAttached), LeaseProbe, LeaseAttaching}, {0, attached, LeaseUse, LeaseHeld}}},
		{"another extension's is not, and is tried anew", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedAttached), LeaseProbe, LeaseAttaching}, {0, refused(RefusedForeign), LeaseRefuse, LeaseBusy},
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, attached, LeaseUse, LeaseHeld}}},
		{"a refused probe is the end of it", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedAttached), LeaseProbe, LeaseAttaching}, {0, refused(RefusedAttached), LeaseRefuse, LeaseBusy}}},
		{"a protected page", []step{{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedOther), LeaseRefuse, LeaseFree}, {0, wanted, LeaseAttach, LeaseAttaching}}},
		{"a closed tab", []step{{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedGone), LeaseRefuse, LeaseGone}, {0, wanted, LeaseRefuse, LeaseGone}}},
		{"Chrome detaches with the tab alive", append(slices.Clone(hold),
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{0, wanted, LeaseWait, LeaseLost},
			step{pause, wanted, LeaseAttach, LeaseAttaching},
			step{0, attached, LeaseUse, LeaseHeld},
			// At once again: now the pause is longer.
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{pause, wanted, LeaseWait, LeaseLost},
			step{repeat, wanted, LeaseAttach, LeaseAttaching})},
		{"refused while lost stays lost", append(slices.Clone(hold),
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{pause, wanted, LeaseAttach, LeaseAttaching},
			step{0, refused(RefusedOther), LeaseRefuse, LeaseLost},
			step{0, wanted, LeaseWait, LeaseLost})},
		{"the detach of the session before comes late", append(slices.Clone(hold),
			step{0, unseen, LeaseDoNothing, LeaseLeft},
			step{0, wanted, LeaseAttach, LeaseAttaching},
			step{0, detached("target_closed"), LeaseDoNothing, LeaseAttaching},
			step{0, attached, LeaseUse, LeaseHeld})},
		{"nobody knows what came of the attach", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, LeaseEvent{Kind: LeaseUnanswered}, LeaseDoNothing, LeaseLeft},
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, refused(RefusedAttached), LeaseProbe, LeaseAttaching}, {0, attached, LeaseUse, LeaseHeld}}},
		{"the worker ends", append(slices.Clone(hold),
			step{0, unseen, LeaseDoNothing, LeaseLeft},
			step{idle - 1, tick, LeaseDoNothing, LeaseLeft},
			step{1, tick, LeaseDetach, LeaseLeft},
			step{0, released, LeaseDoNothing, LeaseFree})},
		{"the user cancels", append(slices.Clone(hold),
			step{0, detached(UserCanceled), LeaseLockAll, LeaseRevoked},
			step{time.Hour, wanted, LeaseRefuse, LeaseRevoked},
			step{0, LeaseEvent{Kind: LeaseAuthorized}, LeaseDoNothing, LeaseFree},
			step{0, wanted, LeaseAttach, LeaseAttaching})},
		{"the user cancels while we attach", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, detached(UserCanceled), LeaseLockAll, LeaseRevoked},
			{0, attached, LeaseDetach, LeaseRevoked}, {0, released, LeaseDoNothing, LeaseRevoked}, {0, wanted, LeaseRefuse, LeaseRevoked}}},
		{"the user cancels another tab", []step{
			{0, LeaseEvent{Kind: LeaseCanceled}, LeaseDoNothing, LeaseRevoked}, {0, wanted, LeaseRefuse, LeaseRevoked},
			{0, refused(RefusedAttached), LeaseRefuse, LeaseRevoked}}},
		{"idle", append(slices.Clone(hold),
			step{idle - time.Second, tick, LeaseDoNothing, LeaseHeld},
			step{time.Second, tick, LeaseDetach, LeaseHeld},
			step{0, released, LeaseDoNothing, LeaseFree},
			step{idle, tick, LeaseDoNothing, LeaseFree})},
		{"a pin keeps it", append(slices.Clone(hold),
			step{0, pin(LeasePinned, "dialog"), LeaseDoNothing, LeaseHeld},
			step{0, pin(LeasePinned, "command"), LeaseDoNothing, LeaseHeld},
			step{2 * idle, tick, LeaseDoNothing, LeaseHeld},
			step{0, pin(LeaseUnpinned, "command"), LeaseDoNothing, LeaseHeld},
			step{2 * idle, tick, LeaseDoNothing, LeaseHeld},
			step{0, pin(LeaseUnpinned, "dialog"), LeaseDoNothing, LeaseHeld},
			step{0, tick, LeaseDoNothing, LeaseHeld},
			step{idle, tick, LeaseDetach, LeaseHeld})},
		{"a capture is still wanted after a detach", append(slices.Clone(hold),
			step{0, pin(LeasePinned, "capture"), LeaseDoNothing, LeaseHeld},
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{pause, wanted, LeaseAttach, LeaseAttaching},
			step{0, attached, LeaseUse, LeaseHeld},
			step{2 * idle, tick, LeaseDoNothing, LeaseHeld})},
		{"a reset that works", append(slices.Clone(hold),
			step{0, spoiled("the script stays"), LeaseDetach, LeaseQuarantined},
			step{0, released, LeaseDoNothing, LeaseFree},
			step{0, wanted, LeaseAttach, LeaseAttaching})},
		{"quarantine until a reset works", append(slices.Clone(hold),
			step{0, spoiled("the script stays"), LeaseDetach, LeaseQuarantined},
			step{0, LeaseEvent{Kind: LeaseResetFailed, Failure: "no reset"}, LeaseRefuse, LeaseQuarantined},
			step{0, unseen, LeaseDoNothing, LeaseQuarantined},
			step{0, wanted, LeaseDetach, LeaseQuarantined},
			step{0, LeaseEvent{Kind: LeaseResetFailed, Failure: "no reset"}, LeaseRefuse, LeaseQuarantined},
			step{idle, tick, LeaseDetach, LeaseQuarantined},
			step{0, attached, LeaseDetach, LeaseQuarantined},
			step{0, released, LeaseDoNothing, LeaseFree},
			step{0, wanted, LeaseAttach, LeaseAttaching})},
		{"Chrome's detach ends a quarantine", append(slices.Clone(hold),
			step{0, spoiled("the script stays"), LeaseDetach, LeaseQuarantined},
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost})},
		{"what is not attached cannot be spoiled", []step{{0, spoiled("late"), LeaseDoNothing, LeaseFree}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, now := NewLease(DefaultLeaseTimes), leaseStart
			for i, s := range tt.steps {
				now = now.Add(s.after)
				var a LeaseAction
				l, a = l.Apply(s.ev, now)
				assert.Equal(t, fmt.Sprint(a, " ", l.State), fmt.Sprint(s.action, " ", s.state), "step %d", i)
			}
		})
	}
}

// TestLeaseKeepsEveryFailure up to a bound, and counts the rest.
func TestLeaseKeepsEveryFailure(t *testing.T) {
	l := RestoredLease(DefaultLeaseTimes, []string{"0", "1"}, leaseStart)
	assert.Equal(t, l.State, LeaseQuarantined)
	older := l
	for i := 2; i < 40; i++ {
		l, _ = l.Apply(LeaseEvent{Kind: LeaseResetFailed, Failure: fmt.Sprint(i)}, leaseStart)
	}
	assert.Equal(t, len(l.Failures)+l.Omitted, 40)
	assert.DeepEqual(t, l.Failures, []string{"0", "1", "2", "3", "4", "5", "6", "7", "32", "33", "34", "35", "36", "37", "38", "39"})
	assert.DeepEqual(t, older.Failures, []string{"0", "1"})
	l, _ = l.Apply(LeaseEvent{Kind: LeaseReleased}, leaseStart)
	assert.Equal(t, len(l.Failures)+l.Omitted, 0)
	assert.Equal(t, RestoredLease(DefaultLeaseTimes, nil, leaseStart).State, LeaseLeft)
}

// chromeTab is Chrome's side of one tab, as far as a lease is about it.
type chromeTab struct {
	holder   string // "", "us" or "them"
	script   bool   // something of ours is registered in the session
	canceled bool   // the user has said so and not authorized since
	closed   bool
}

// leaseWorld plays Chrome, the user and the commands against one lease, and
// does what the lease says.
type leaseWorld struct {
	t     *rapid.T
	lease Lease
	now   time.Time
	tab   chromeTab

	pins     []string
	regained time.Time // of the last attach after a loss
	lost     bool
	lostWord bool // Chrome's detach was not told: its event went astray
}

func (w *leaseWorld) apply(ev LeaseEvent) LeaseAction {
	before := w.lease
	var a LeaseAction
	w.lease, a = w.lease.Apply(ev, w.now)
	if before.State == LeaseGone {
		assert.Equal(w.t, w.lease.State, LeaseGone)
	}
	return a
}

// want is a command that needs the debugger. With unanswered, what Chrome says
// to the attach never comes.
func (w *leaseWorld) want(unanswered bool) {
	for range 8 {
		switch a := w.apply(LeaseEvent{Kind: LeaseWanted}); a {
		case LeaseUse:
			assert.Assert(w.t, !w.tab.script, "a session is used that has something of ours left in it")
			assert.Assert(w.t, !w.tab.canceled, "the user canceled")
			// It may have ended without a word; then the command is told so.
			if w.tab.holder != "us" {
				assert.Assert(w.t, w.lostWord)
				w.lostWord = false
				w.apply(LeaseEvent{Kind: LeaseDetached, Reason: "target_closed"})
			}
			return
		case LeaseAttach:
			if w.lost {
				assert.Assert(w.t, w.regained.IsZero() || w.now.Sub(w.regained) >= DefaultLeaseTimes.Repeat, "attached again after %s", w.now.Sub(w.regained))
			}
			if w.attach(unanswered) {
				return
			}
		case LeaseWait:
			assert.Equal(w.t, w.lease.State, LeaseLost)
			w.now = w.lease.Until
		case LeaseDetach:
			assert.Equal(w.t, w.lease.State, LeaseQuarantined)
			if !w.detach(unanswered) {
				return
			}
		case LeaseRefuse:
			assert.Assert(w.t, w.tab.closed || w.tab.canceled, "refused in %s", w.lease.State)
			return
		default:
			w.t.Fatalf("wanted: %q in %s", a, w.lease.State)
		}
	}
	w.t.Fatalf("a command that waits for ever in %s", w.lease.State)
}

// attach does what Chrome does with an attach; true when the command is over.
func (w *leaseWorld) attach(unanswered bool) bool {
	was := w.tab.holder
	if was == "" && !w.tab.closed {
		w.tab.holder = "us"
	}
	if unanswered {
		w.apply(LeaseEvent{Kind: LeaseUnanswered})
		return true
	}
	w.lostWord = false // what is answered now is after it
	switch {
	case w.tab.closed:
		assert.Equal(w.t, w.apply(LeaseEvent{Kind: LeaseRefused, Refusal: RefusedGone}), LeaseRefuse)
		return true
	case was == "":
		w.attached()
	default:
		assert.Equal(w.t, w.apply(LeaseEvent{Kind: LeaseRefused, Refusal: RefusedAttached}), LeaseProbe)
		if was == "them" {
			assert.Equal(w.t, w.apply(LeaseEvent{Kind: LeaseRefused, Refusal: RefusedForeign}), LeaseRefuse)
			assert.Equal(w.t, w.lease.State, LeaseBusy)
			return true
		}
		w.attached()
	}
	return false
}

func (w *leaseWorld) attached() {
	if a := w.apply(LeaseEvent{Kind: LeaseAttached}); a != LeaseUse {
		w.t.Fatalf("attached: %q in %s", a, w.lease.State)
	}
	if w.lost {
		w.regained, w.lost = w.now, false
	}
}

// detach gives the debugger back; false when that failed.
func (w *leaseWorld) detach(fails bool) bool {
	if fails {
		if w.lease.State == LeaseQuarantined {
			n := len(w.lease.Failures) + w.lease.Omitted
			assert.Equal(w.t, w.apply(LeaseEvent{Kind: LeaseResetFailed, Failure: "failed"}), LeaseRefuse)
			assert.Equal(w.t, len(w.lease.Failures)+w.lease.Omitted, n+1)
		}
		return false
	}
	if w.tab.holder == "us" {
		w.tab.holder = ""
	}
	w.tab.script, w.lostWord = false, false
	w.apply(LeaseEvent{Kind: LeaseReleased})
	return true
}

// end is a detach by Chrome.
func (w *leaseWorld) end(reason string, told bool) {
	if w.tab.holder == "us" {
		w.tab.holder, w.tab.script = "", false
		if !told {
			w.lostWord = true
			return
		}
		w.lostWord = false
		held := w.lease.State == LeaseHeld || w.lease.State == LeaseLeft || w.lease.State == LeaseQuarantined
		a := w.apply(LeaseEvent{Kind: LeaseDetached, Reason: reason})
		if reason == UserCanceled {
			w.tab.canceled, w.lost = true, false // a pause means nothing to a user
			assert.Equal(w.t, a, LeaseLockAll)
		} else if held {
			w.lost = true
		}
	}
}

func checkLease(t *rapid.T) {
	w := &leaseWorld{t: t, lease: NewLease(DefaultLeaseTimes), now: leaseStart}
	pins := []string{"command", "capture", "dialog", "script"}
	chance := func(name string) bool { return rapid.Bool().Draw(t, name) }
	t.Repeat(map[string]func(*rapid.T){
		"a command":              func(*rapid.T) { w.want(false) },
		"a command without word": func(*rapid.T) { w.want(true) },
		"time": func(t *rapid.T) {
			d := rapid.SampledFrom([]time.Duration{time.Millisecond, DefaultLeaseTimes.Pause, DefaultLeaseTimes.Repeat, DefaultLeaseTimes.Idle}).Draw(t, "time")
			w.now = w.now.Add(d)
			before := w.lease
			if w.apply(LeaseEvent{Kind: LeaseTick}) == LeaseDetach {
				assert.Equal(t, len(w.pins), 0, "given back although something depends on it")
				assert.Assert(t, w.now.Sub(before.UsedAt) >= DefaultLeaseTimes.Idle)
				w.detach(chance("fails"))
			} else if before.MayBeAttached() && len(w.pins) == 0 {
				assert.Assert(t, w.now.Sub(before.UsedAt) < DefaultLeaseTimes.Idle, "never given back")
			}
		},
		"Chrome detaches": func(*rapid.T) { w.end("target_closed", true) },
		"Chrome detaches and nobody hears": func(*rapid.T) {
			w.end("target_closed", false)
			w.apply(LeaseEvent{Kind: LeaseUnseen})
		},
		"the worker ends": func(*rapid.T) { w.apply(LeaseEvent{Kind: LeaseUnseen}) },
		"the owner ends": func(*rapid.T) {
			// The next one has what was stored, and asks who is attached.
			failures := w.lease.Failures
			may := w.lease.MayBeAttached()
			if w.tab.closed || w.tab.canceled {
				return
			}
			w.lease, w.pins, w.lost, w.regained = NewLease(DefaultLeaseTimes), nil, false, time.Time{}
			if may {
				w.lease = RestoredLease(DefaultLeaseTimes, failures, w.now)
				if w.tab.holder == "" {
					w.apply(LeaseEvent{Kind: LeaseReleased})
				}
			}
		},
		"an undo fails": func(*rapid.T) {
			if w.lease.State == LeaseHeld && w.tab.holder == "us" {
				w.tab.script = true
				assert.Equal(t, w.apply(LeaseEvent{Kind: LeaseSpoiled, Failure: "the script stays"}), LeaseDetach)
				w.detach(chance("the reset fails"))
			}
		},
		"the user cancels": func(*rapid.T) {
			w.tab.canceled = w.tab.canceled || w.tab.holder == "us"
			w.end(UserCanceled, true)
		},
		"the user cancels another tab": func(*rapid.T) {
			if w.tab.holder != "them" && !w.tab.closed {
				w.tab, w.lost = chromeTab{canceled: true}, false
				w.apply(LeaseEvent{Kind: LeaseCanceled})
			}
		},
		"the user authorizes": func(*rapid.T) {
			w.tab.canceled = false
			w.apply(LeaseEvent{Kind: LeaseAuthorized})
		},
		"another extension attaches": func(*rapid.T) {
			if w.tab.holder == "" && !w.tab.closed {
				w.tab.holder = "them"
			}
		},
		"another extension lets go": func(*rapid.T) {
			if w.tab.holder == "them" {
				w.tab.holder = ""
			}
		},
		"pin": func(t *rapid.T) {
			if w.lease.State != LeaseGone {
				p := rapid.SampledFrom(pins).Draw(t, "pin")
				w.pins = append(w.pins, p)
				w.apply(LeaseEvent{Kind: LeasePinned, Pin: p})
			}
		},
		"unpin": func(*rapid.T) {
			if len(w.pins) > 0 {
				w.apply(LeaseEvent{Kind: LeaseUnpinned, Pin: w.pins[0]})
				w.pins = w.pins[1:]
			}
		},
		"the tab is closed": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
				w.tab, w.pins = chromeTab{closed: true}, nil
				w.apply(LeaseEvent{Kind: LeaseTabClosed})
			}
		},
		"": func(t *rapid.T) {
			// What Chrome has attached for us is never believed to be free.
			if w.tab.holder == "us" {
				assert.Assert(t, w.lease.MayBeAttached(), "attached by us, and the lease is %s", w.lease.State)
			}
			if w.tab.script {
				assert.Equal(t, w.lease.State, LeaseQuarantined)
				assert.Assert(t, len(w.lease.Failures) > 0)
			}
			if w.tab.canceled {
				assert.Assert(t, w.lease.State == LeaseRevoked || w.lease.State == LeaseGone, "canceled, and the lease is %s", w.lease.State)
			}
			assert.Equal(t, len(w.lease.Pins), len(w.pins))
		},
	})
}

// TestLeaseProperties plays any story of a tab's debugger.
func TestLeaseProperties(t *testing.T) { rapid.Check(t, checkLease) }

func FuzzLease(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkLease)) }
