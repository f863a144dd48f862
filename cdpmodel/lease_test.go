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
			step{LeasePause, wanted, LeaseAttach, LeaseAttaching},
			step{0, attached, LeaseUse, LeaseHeld},
			// At once again: now the pause is longer.
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{LeasePause, wanted, LeaseWait, LeaseLost},
			step{LeaseRepeat, wanted, LeaseAttach, LeaseAttaching})},
		{"refused while lost stays lost", append(slices.Clone(hold),
			step{0, detached("target_closed"), LeaseDoNothing, LeaseLost},
			step{LeasePause, wanted, LeaseAttach, LeaseAttaching},
			step{0, refused(RefusedOther), LeaseRefuse, LeaseLost},
			step{0, wanted, LeaseWait, LeaseLost})},
		{"the user cancels", append(slices.Clone(hold),
			step{0, detached("canceled_by_user"), LeaseLockAll, LeaseRevoked},
			step{time.Hour, wanted, LeaseRefuse, LeaseRevoked},
			step{0, LeaseEvent{Kind: LeaseAuthorized}, LeaseDoNothing, LeaseFree},
			step{0, wanted, LeaseAttach, LeaseAttaching})},
		{"the user cancels while we attach", []step{
			{0, wanted, LeaseAttach, LeaseAttaching}, {0, detached("canceled_by_user"), LeaseLockAll, LeaseRevoked}, {0, attached, LeaseDetach, LeaseRevoked}}},
		{"idle", append(slices.Clone(hold),
			step{LeaseIdle - time.Second, LeaseEvent{Kind: LeaseTick}, LeaseDoNothing, LeaseHeld},
			step{time.Second, LeaseEvent{Kind: LeaseTick}, LeaseDetach, LeaseHeld},
			step{0, LeaseEvent{Kind: LeaseReleased}, LeaseDoNothing, LeaseFree})},
		{"a pin keeps it", append(slices.Clone(hold),
			step{0, LeaseEvent{Kind: LeasePinned}, LeaseDoNothing, LeaseHeld},
			step{2 * LeaseIdle, LeaseEvent{Kind: LeaseTick}, LeaseDoNothing, LeaseHeld},
			step{0, LeaseEvent{Kind: LeaseUnpinned}, LeaseDoNothing, LeaseHeld},
			step{0, LeaseEvent{Kind: LeaseTick}, LeaseDetach, LeaseHeld})},
		{"quarantine", append(slices.Clone(hold),
			step{0, LeaseEvent{Kind: LeaseUndoFailed, Failure: "no reset"}, LeaseDetach, LeaseQuarantined},
			step{0, detached("target_closed"), LeaseDoNothing, LeaseQuarantined},
			step{time.Hour, wanted, LeaseRefuse, LeaseQuarantined},
			step{0, LeaseEvent{Kind: LeaseAuthorized}, LeaseDoNothing, LeaseQuarantined},
			step{0, LeaseEvent{Kind: LeaseTabClosed}, LeaseDoNothing, LeaseGone})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, now := NewLease(), leaseStart
			for i, s := range tt.steps {
				now = now.Add(s.after)
				var a LeaseAction
				l, a = l.Apply(s.ev, now)
				assert.Equal(t, fmt.Sprint(a, " ", l.State), fmt.Sprint(s.action, " ", s.state), "step %d", i)
			}
		})
	}
}

// TestLeaseProperties runs leases through any order of events.
func TestLeaseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkLease(t, drawLeaseEvents(t)) })
}

type timedLeaseEvent struct {
	after time.Duration
	ev    LeaseEvent
}

func drawLeaseEvents(t *rapid.T) []timedLeaseEvent {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) timedLeaseEvent {
		return timedLeaseEvent{
			after: rapid.SampledFrom([]time.Duration{0, time.Millisecond, LeasePause, LeaseRepeat, LeaseIdle}).Draw(t, "after"),
			ev: LeaseEvent{
				Kind: rapid.SampledFrom([]LeaseEventKind{LeaseWanted, LeaseWanted, LeaseAttached, LeaseRefused, LeaseDetached, LeaseReleased, LeaseTick,
					LeasePinned, LeaseUnpinned, LeaseAuthorized, LeaseTabClosed, LeaseUndoFailed}).Draw(t, "kind"),
				Refusal: rapid.SampledFrom([]LeaseRefusal{RefusedAttached, RefusedForeign, RefusedOther, RefusedGone}).Draw(t, "refusal"),
				Reason:  rapid.SampledFrom([]string{"target_closed", "canceled_by_user", "replaced_with_devtools", ""}).Draw(t, "reason"),
				Failure: "failed",
			},
		}
	}), 0, 40).Draw(t, "events")
}

func checkLease(t assert.TestingT, events []timedLeaseEvent) {
	l, now := NewLease(), leaseStart
	var regained time.Time // of the last attach after a loss
	lost, quarantined := false, false
	for _, e := range events {
		now = now.Add(e.after)
		before := l
		var a LeaseAction
		l, a = l.Apply(e.ev, now)
		// The debugger is used only while it is held, and attached only from
		// where that may be.
		if a == LeaseUse {
			assert.Equal(t, l.State, LeaseHeld)
		}
		if a == LeaseAttach {
			assert.Equal(t, l.State, LeaseAttaching)
			assert.Assert(t, before.State == LeaseFree || before.State == LeaseBusy || before.State == LeaseLost)
			if before.State == LeaseLost {
				assert.Assert(t, !now.Before(before.Until))
				if lost && !regained.IsZero() {
					assert.Assert(t, now.Sub(regained) >= LeaseRepeat, "attached again after %s", now.Sub(regained))
				}
			}
		}
		if before.State == LeaseLost && a == LeaseAttach {
			lost = true
		}
		if before.State == LeaseAttaching && l.State == LeaseHeld && lost {
			regained, lost = now, false
		}
		if l.State != LeaseAttaching && l.State != LeaseHeld {
			lost = false
		}
		// What the user and a failed undo decided, time does not undo.
		if before.State == LeaseRevoked && e.ev.Kind != LeaseAuthorized && e.ev.Kind != LeaseTabClosed && e.ev.Kind != LeaseUndoFailed {
			assert.Equal(t, l.State, LeaseRevoked)
		}
		if quarantined {
			assert.Assert(t, l.State == LeaseQuarantined || l.State == LeaseGone)
			assert.Assert(t, len(l.Failures) >= len(before.Failures))
		}
		quarantined = quarantined || l.State == LeaseQuarantined
		if before.State == LeaseGone {
			assert.Equal(t, l.State, LeaseGone)
		}
		// An idle detach never takes the debugger from what depends on it.
		if e.ev.Kind == LeaseTick && a == LeaseDetach {
			assert.Equal(t, before.Pins, 0)
			assert.Assert(t, now.Sub(before.UsedAt) >= LeaseIdle)
		}
		assert.Assert(t, l.Pins >= 0)
	}
}

func FuzzLease(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { checkLease(t, drawLeaseEvents(t)) }))
}
