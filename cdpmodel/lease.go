package cdpmodel

import (
	"slices"
	"time"
)

// LeaseState is how we stand with the debugger of one tab.
type LeaseState string

// The states of a debugger lease. In Left, Held and Quarantined the debugger
// may be attached by us.
const (
	LeaseFree        LeaseState = "free"        // not attached; nothing is known against it
	LeaseAttaching   LeaseState = "attaching"   // an attach, or the test whether an attachment is ours, is under way
	LeaseHeld        LeaseState = "held"        // attached
	LeaseLeft        LeaseState = "left"        // attached when it was seen last, by this owner or one before; nobody has looked since
	LeaseLost        LeaseState = "lost"        // detached by Chrome with the tab alive; attached again after a pause
	LeaseBusy        LeaseState = "busy"        // another extension's debugger holds the tab
	LeaseRevoked     LeaseState = "revoked"     // the user pressed Cancel; only the user's word frees it
	LeaseQuarantined LeaseState = "quarantined" // it must be reset before anything uses it: something of ours may be left in it
	LeaseGone        LeaseState = "gone"        // the tab is closed
)

// LeaseTimes are the pauses of a lease.
type LeaseTimes struct {
	// Pause is between a detach by Chrome and the next attach.
	Pause time.Duration
	// Repeat is the least time between two attaches after such a detach: a
	// page that makes Chrome detach each time must not spin.
	Repeat time.Duration
	// Idle is how long a lease is held that nobody uses, and the time between
	// two attempts to reset one in quarantine.
	Idle time.Duration
}

// DefaultLeaseTimes are those of a real browser.
var DefaultLeaseTimes = LeaseTimes{Pause: 150 * time.Millisecond, Repeat: 3 * time.Second, Idle: 5 * time.Minute}

// maxLeaseFailures bounds the failures that are kept: the first half and the
// latest half, with a count of those between.
const maxLeaseFailures = 16

// LeaseEventKind is the kind of a LeaseEvent.
type LeaseEventKind string

// The events a lease consumes.
const (
	LeaseWanted      LeaseEventKind = "wanted"       // a command needs the debugger
	LeaseAttached    LeaseEventKind = "attached"     // the attach, or the test, succeeded
	LeaseRefused     LeaseEventKind = "refused"      // Chrome refused the attach; Refusal says why
	LeaseUnanswered  LeaseEventKind = "unanswered"   // the attach was sent and nobody knows what came of it
	LeaseDetached    LeaseEventKind = "detached"     // Chrome detached; Reason is its own word
	LeaseUnseen      LeaseEventKind = "unseen"       // events were lost: what Chrome did meanwhile is not known
	LeaseReleased    LeaseEventKind = "released"     // we detached, or Chrome says that nothing is attached
	LeaseSpoiled     LeaseEventKind = "spoiled"      // the session must not go on, Failure says why: reset it
	LeaseResetFailed LeaseEventKind = "reset-failed" // the reset of a spoiled one failed; Failure says how
	LeaseTick        LeaseEventKind = "tick"         // time has passed
	LeasePinned      LeaseEventKind = "pinned"       // something begins to depend on the lease; Pin names it
	LeaseUnpinned    LeaseEventKind = "unpinned"     // and ends
	LeaseCanceled    LeaseEventKind = "canceled"     // the user pressed Cancel for another tab of the profile
	LeaseAuthorized  LeaseEventKind = "authorized"   // the user authorized again
	LeaseTabClosed   LeaseEventKind = "tab-closed"   // the tab is gone
)

// LeaseRefusal says why Chrome refused an attach.
type LeaseRefusal string

// The refusals.
const (
	RefusedAttached LeaseRefusal = "already-attached" // by somebody; it may be ourselves
	RefusedForeign  LeaseRefusal = "foreign"          // the attachment is not ours
	RefusedOther    LeaseRefusal = "other"            // a protected page, a policy, a hiccup, or it was never sent
	RefusedGone     LeaseRefusal = "gone"             // no such tab
)

// UserCanceled is Chrome's reason of a detach by the user's Cancel.
const UserCanceled = "canceled_by_user"

// LeaseEvent is one thing that happened to a lease.
type LeaseEvent struct {
	Kind    LeaseEventKind
	Refusal LeaseRefusal
	Reason  string // of a detach: target_closed, canceled_by_user, replaced_with_devtools, …
	Failure string
	Pin     string // command, network capture, dialog, …
}

// LeaseAction is what the owner of a lease has to do next.
type LeaseAction string

// The actions. Do nothing is the zero action.
const (
	LeaseDoNothing LeaseAction = ""
	LeaseUse       LeaseAction = "use"    // the debugger is attached: go on
	LeaseAttach    LeaseAction = "attach" // attach now
	LeaseProbe     LeaseAction = "probe"  // send one harmless command: if it answers, the attachment is ours
	LeaseWait      LeaseAction = "wait"   // until Lease.Until, then say wanted again; or for the attach under way
	LeaseRefuse    LeaseAction = "refuse" // the command cannot have the debugger; State says why
	LeaseDetach    LeaseAction = "detach" // give the debugger back, then say released, or reset-failed in quarantine
	LeaseLockAll   LeaseAction = "lock"   // lock every session of the profile, and cancel its other leases
)

// Lease is the right to debug one tab. It is a value: Apply returns the next
// one and changes nothing that an older one holds.
type Lease struct {
	State    LeaseState
	Reason   string    // of the last detach
	Until    time.Time // when a lost lease may be attached again
	UsedAt   time.Time // when a command used it last
	Pins     []string  // what depends on it, one entry each
	Failures []string  // what led into quarantine, oldest first
	Omitted  int       // failures between the first and the latest that are not kept

	times      LeaseTimes
	probing    bool
	losing     bool      // the next success of an attach follows a loss
	regainedAt time.Time // of the last attach after a loss
}

// NewLease returns the lease of a tab that nobody has touched.
func NewLease(times LeaseTimes) Lease { return Lease{State: LeaseFree, times: times} }

// RestoredLease returns the lease of a tab that an owner before left attached,
// with the failures that it had.
func RestoredLease(times LeaseTimes, failures []string, now time.Time) Lease {
	l := Lease{State: LeaseLeft, UsedAt: now, Failures: slices.Clone(failures), times: times}
	if len(failures) > 0 {
		l.State = LeaseQuarantined
	}
	return l
}

// MayBeAttached reports whether Chrome may have our debugger on the tab.
func (l Lease) MayBeAttached() bool {
	switch l.State {
	case LeaseHeld, LeaseLeft, LeaseAttaching, LeaseQuarantined:
		return true
	}
	return false
}

// Apply takes in one event at the time now.
func (l Lease) Apply(ev LeaseEvent, now time.Time) (Lease, LeaseAction) {
	if l.State == LeaseGone {
		if ev.Kind == LeaseWanted {
			return l, LeaseRefuse
		}
		return l, LeaseDoNothing
	}
	switch ev.Kind {
	case LeaseWanted:
		return l.want(now)
	case LeaseAttached:
		return l.attached(now)
	case LeaseRefused:
		return l.refused(ev, now)
	case LeaseUnanswered:
		if l.State == LeaseAttaching {
			l.State, l.probing, l.UsedAt = LeaseLeft, false, now
		}
	case LeaseDetached:
		return l.detached(ev, now)
	case LeaseUnseen:
		if l.State == LeaseHeld {
			l.State = LeaseLeft
		}
	case LeaseReleased:
		switch l.State {
		case LeaseHeld, LeaseLeft, LeaseQuarantined:
			l.State = LeaseFree
			l.forget()
		}
	case LeaseSpoiled:
		switch l.State {
		case LeaseHeld, LeaseLeft, LeaseAttaching, LeaseQuarantined:
			l.State, l.probing = LeaseQuarantined, false
			l.fail(ev.Failure)
			return l, LeaseDetach
		}
	case LeaseResetFailed:
		if l.State == LeaseQuarantined {
			l.UsedAt = now
			l.fail(ev.Failure)
			return l, LeaseRefuse
		}
	case LeaseTick:
		if l.idle(now) {
			return l, LeaseDetach
		}
	case LeasePinned:
		l.Pins = append(slices.Clip(l.Pins), ev.Pin)
	case LeaseUnpinned:
		if i := slices.Index(l.Pins, ev.Pin); i >= 0 {
			l.Pins = slices.Delete(slices.Clone(l.Pins), i, i+1)
			l.UsedAt = now
		}
	case LeaseCanceled:
		l.revoke()
	case LeaseAuthorized:
		if l.State == LeaseRevoked {
			l.State = LeaseFree
		}
	case LeaseTabClosed:
		return Lease{State: LeaseGone, Reason: l.Reason, Failures: l.Failures, Omitted: l.Omitted, times: l.times}, LeaseDoNothing
	}
	return l, LeaseDoNothing
}

// idle reports whether the debugger is to be given back: nobody has used it
// for long and nothing depends on it. One in quarantine is tried again.
func (l Lease) idle(now time.Time) bool {
	switch l.State {
	case LeaseHeld, LeaseLeft, LeaseQuarantined:
		return len(l.Pins) == 0 && now.Sub(l.UsedAt) >= l.times.Idle
	}
	return false
}

func (l Lease) want(now time.Time) (Lease, LeaseAction) {
	switch l.State {
	case LeaseHeld:
		l.UsedAt = now
		return l, LeaseUse
	case LeaseAttaching:
		return l, LeaseWait
	case LeaseRevoked:
		return l, LeaseRefuse
	case LeaseQuarantined:
		return l, LeaseDetach
	case LeaseLost:
		if now.Before(l.Until) {
			return l, LeaseWait
		}
		l.losing = true
	}
	// The other extension may have gone meanwhile: a busy tab is tried anew
	// for every command.
	l.State, l.probing = LeaseAttaching, false
	return l, LeaseAttach
}

func (l Lease) attached(now time.Time) (Lease, LeaseAction) {
	switch l.State {
	case LeaseRevoked, LeaseQuarantined:
		// It came too late: what the user said, or the failure, counts.
		return l, LeaseDetach
	}
	if l.losing {
		l.regainedAt = now
	}
	l.State, l.UsedAt, l.probing, l.losing = LeaseHeld, now, false, false
	return l, LeaseUse
}

func (l Lease) refused(ev LeaseEvent, now time.Time) (Lease, LeaseAction) {
	if l.State != LeaseAttaching {
		return l, LeaseRefuse
	}
	switch ev.Refusal {
	case RefusedAttached:
		if !l.probing {
			// The attachment outlives the extension's worker and our
			// owner: it may be ours from before.
			l.probing = true
			return l, LeaseProbe
		}
		l.State = LeaseBusy
	case RefusedForeign:
		l.State = LeaseBusy
	case RefusedGone:
		l, _ = l.Apply(LeaseEvent{Kind: LeaseTabClosed}, now)
		return l, LeaseRefuse
	default:
		l.State = LeaseFree
		if l.losing {
			l.State, l.Until = LeaseLost, now.Add(l.times.Pause)
		}
	}
	l.probing = false // and it follows a loss still
	return l, LeaseRefuse
}

// detached takes in a detach by Chrome, which ends all that the session had
// registered: nothing is left to reset.
func (l Lease) detached(ev LeaseEvent, now time.Time) (Lease, LeaseAction) {
	if ev.Reason == UserCanceled {
		// The banner is of the whole browser, and so is the user's word.
		l.Reason = ev.Reason
		l.revoke()
		return l, LeaseLockAll
	}
	switch l.State {
	case LeaseHeld, LeaseLeft, LeaseQuarantined:
		l.State, l.Reason = LeaseLost, ev.Reason
		l.forget()
		l.Until = now.Add(l.times.Pause)
		if again := l.regainedAt.Add(l.times.Repeat); !l.regainedAt.IsZero() && again.After(l.Until) {
			l.Until = again
		}
	case LeaseAttaching:
		// It was the session before: the attach under way will be answered.
		l.Reason = ev.Reason
	}
	return l, LeaseDoNothing
}

func (l *Lease) revoke() {
	l.State, l.probing, l.losing = LeaseRevoked, false, false
	l.forget()
}

func (l *Lease) forget() { l.Failures, l.Omitted = nil, 0 }

func (l *Lease) fail(failure string) {
	l.Failures = append(slices.Clip(l.Failures), failure)
	if len(l.Failures) > maxLeaseFailures {
		l.Failures = slices.Delete(l.Failures, maxLeaseFailures/2, maxLeaseFailures/2+1)
		l.Omitted++
	}
}
