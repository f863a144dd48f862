package cdpmodel

import (
	"slices"
	"time"
)

// LeaseState is how we stand with the debugger of one tab.
type LeaseState string

// The states of a debugger lease.
const (
	LeaseFree        LeaseState = "free"        // not attached; nothing is known against it
	LeaseAttaching   LeaseState = "attaching"   // an attach, or the test whether an attachment is ours, is under way
	LeaseHeld        LeaseState = "held"        // attached
	LeaseLost        LeaseState = "lost"        // detached by Chrome with the tab alive; attached again after a pause
	LeaseBusy        LeaseState = "busy"        // another extension's debugger holds the tab
	LeaseRevoked     LeaseState = "revoked"     // the user pressed Cancel; only the user's word frees it
	LeaseQuarantined LeaseState = "quarantined" // what we left in the tab cannot be taken back; never used again
	LeaseGone        LeaseState = "gone"        // the tab is closed
)

// Pauses of a lease.
const (
	// LeasePause is between a detach by Chrome and the next attach.
	LeasePause = 250 * time.Millisecond
	// LeaseRepeat is the least time between two attaches after such a
	// detach: a page that makes Chrome detach each time must not spin.
	LeaseRepeat = 3 * time.Second
	// LeaseIdle is how long a lease is held that nobody uses.
	LeaseIdle = 5 * time.Minute
)

// LeaseEventKind is the kind of a LeaseEvent.
type LeaseEventKind string

// The events a lease consumes.
const (
	LeaseWanted     LeaseEventKind = "wanted"      // a command needs the debugger
	LeaseAttached   LeaseEventKind = "attached"    // the attach, or the test, succeeded
	LeaseRefused    LeaseEventKind = "refused"     // the attach failed; Refusal says why
	LeaseDetached   LeaseEventKind = "detached"    // Chrome detached; Reason is its own word
	LeaseReleased   LeaseEventKind = "released"    // we detached
	LeaseTick       LeaseEventKind = "tick"        // time has passed
	LeasePinned     LeaseEventKind = "pinned"      // a capture, dialog or init script begins to depend on it
	LeaseUnpinned   LeaseEventKind = "unpinned"    // and ends
	LeaseAuthorized LeaseEventKind = "authorized"  // the user authorized again
	LeaseTabClosed  LeaseEventKind = "tab-closed"  // the tab is gone
	LeaseUndoFailed LeaseEventKind = "undo-failed" // taking back what we left failed, and so did the reset
)

// LeaseRefusal says why Chrome refused an attach.
type LeaseRefusal string

// The refusals.
const (
	RefusedAttached LeaseRefusal = "already-attached" // by somebody; it may be ourselves
	RefusedForeign  LeaseRefusal = "foreign"          // the attachment is not ours
	RefusedOther    LeaseRefusal = "other"            // a protected page, a policy, a hiccup
	RefusedGone     LeaseRefusal = "gone"             // no such tab
)

// LeaseEvent is one thing that happened to a lease.
type LeaseEvent struct {
	Kind    LeaseEventKind
	Refusal LeaseRefusal
	Reason  string // of a detach: target_closed, canceled_by_user, replaced_with_devtools, …
	Failure string // of an undo
}

// LeaseAction is what the owner of a lease has to do next.
type LeaseAction string

// The actions. None is the zero action.
const (
	LeaseDoNothing LeaseAction = ""
	LeaseUse       LeaseAction = "use"    // the debugger is attached: go on
	LeaseAttach    LeaseAction = "attach" // attach now
	LeaseProbe     LeaseAction = "probe"  // send one harmless command: if it answers, the attachment is ours
	LeaseWait      LeaseAction = "wait"   // until Lease.Until, then say wanted again; or for the attach under way
	LeaseRefuse    LeaseAction = "refuse" // the command cannot have the debugger; State says why
	LeaseDetach    LeaseAction = "detach" // give the debugger back
	LeaseLockAll   LeaseAction = "lock"   // lock every session of the profile
)

// Lease is the right to debug one tab. It is a value: Apply returns the next
// one. Whoever holds the lease token of the tab applies events, one at a time.
type Lease struct {
	State    LeaseState
	Reason   string    // of the last detach
	Until    time.Time // when a lost lease may be attached again
	UsedAt   time.Time // of the last command
	Pins     int       // captures, dialogs and scripts that depend on it
	Failures []string  // every failure that led into quarantine

	probing    bool
	regainedAt time.Time // of the last attach after a loss
	losing     bool      // the attach under way follows a loss
}

// NewLease returns the lease of a tab that nobody has touched.
func NewLease() Lease { return Lease{State: LeaseFree} }

// Apply takes in one event at the time now.
func (l Lease) Apply(ev LeaseEvent, now time.Time) (Lease, LeaseAction) {
	if l.State == LeaseGone {
		if ev.Kind == LeaseWanted {
			return l, LeaseRefuse
		}
		return l, LeaseDoNothing
	}
	switch ev.Kind {
	case LeaseTabClosed:
		return Lease{State: LeaseGone, Reason: l.Reason, Failures: l.Failures}, LeaseDoNothing
	case LeaseUndoFailed:
		l.State, l.Failures = LeaseQuarantined, append(slices.Clip(l.Failures), ev.Failure)
		return l, LeaseDetach
	case LeasePinned:
		l.Pins++
	case LeaseUnpinned:
		l.Pins = max(0, l.Pins-1)
	case LeaseWanted:
		return l.want(now)
	case LeaseAttached:
		return l.attached(now)
	case LeaseRefused:
		return l.refused(ev, now)
	case LeaseDetached:
		return l.detached(ev, now)
	case LeaseReleased:
		if l.State == LeaseHeld {
			l.State, l.Pins = LeaseFree, 0
		}
	case LeaseTick:
		if l.State == LeaseHeld && l.Pins == 0 && now.Sub(l.UsedAt) >= LeaseIdle {
			return l, LeaseDetach
		}
	case LeaseAuthorized:
		if l.State == LeaseRevoked {
			l.State = LeaseFree
		}
	}
	return l, LeaseDoNothing
}

func (l Lease) want(now time.Time) (Lease, LeaseAction) {
	switch l.State {
	case LeaseHeld:
		l.UsedAt = now
		return l, LeaseUse
	case LeaseAttaching:
		return l, LeaseWait
	case LeaseRevoked, LeaseQuarantined:
		return l, LeaseRefuse
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
	if l.State != LeaseAttaching {
		// It came too late: whatever happened meanwhile decides.
		if l.State == LeaseHeld {
			return l, LeaseDoNothing
		}
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
		return l, LeaseDoNothing
	}
	switch ev.Refusal {
	case RefusedAttached:
		if !l.probing {
			// The attachment outlives the extension's worker and our
			// owner: it may be ours from before.
			l.probing = true
			return l, LeaseProbe
		}
		fallthrough
	case RefusedForeign:
		l.State = LeaseBusy
	case RefusedGone:
		return Lease{State: LeaseGone, Reason: l.Reason}, LeaseRefuse
	default:
		l.State = LeaseFree
		if l.losing {
			l.State, l.Until = LeaseLost, now.Add(LeasePause)
		}
	}
	l.probing, l.losing = false, false
	return l, LeaseRefuse
}

func (l Lease) detached(ev LeaseEvent, now time.Time) (Lease, LeaseAction) {
	if l.State == LeaseQuarantined {
		return l, LeaseDoNothing
	}
	if ev.Reason == "canceled_by_user" {
		// The banner is of the whole browser, and so is the user's word.
		l.State, l.Reason, l.Pins, l.probing, l.losing = LeaseRevoked, ev.Reason, 0, false, false
		return l, LeaseLockAll
	}
	if l.State != LeaseHeld && l.State != LeaseAttaching {
		return l, LeaseDoNothing
	}
	l.State, l.Reason, l.Pins, l.probing, l.losing = LeaseLost, ev.Reason, 0, false, false
	l.Until = now.Add(LeasePause)
	if again := l.regainedAt.Add(LeaseRepeat); !l.regainedAt.IsZero() && again.After(l.Until) {
		l.Until = again
	}
	return l, LeaseDoNothing
}
