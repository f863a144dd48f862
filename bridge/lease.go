package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// protocolVersion is the one that chrome.debugger.attach wants to be told.
const protocolVersion = "1.3"

// attachBound is how long one step of an attach may take.
const attachBound = 10 * time.Second

// step tells the lease what happened and returns what it wants done. It may be
// called from anywhere; only who holds the token attaches or detaches.
func (t *Tab) step(ev cdpmodel.LeaseEvent) cdpmodel.LeaseAction {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stepLocked(ev)
}

func (t *Tab) stepLocked(ev cdpmodel.LeaseEvent) cdpmodel.LeaseAction {
	before := t.lease
	var act cdpmodel.LeaseAction
	t.lease, act = t.lease.Apply(ev, time.Now())
	if before.MayBeAttached() != t.lease.MayBeAttached() || len(before.Failures) != len(t.lease.Failures) {
		t.conn.hooks.push(t.keepLease)
	}
	return act
}

// Pin keeps the debugger from being given back because nobody used it for
// long, until unpin is called. what is for status: "command", "dialog" and so
// on.
func (t *Tab) Pin(what string) (unpin func()) {
	t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeasePinned, Pin: what})
	return sync.OnceFunc(func() { t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnpinned, Pin: what}) })
}

// hold takes the tab's token.
func (t *Tab) hold(ctx context.Context) (release func(), err error) {
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the debugger of tab %d: %w: %w", t.Key().TabID, context.Cause(ctx), op.ErrNotDelivered)
	}
}

// Attach attaches the debugger unless it is attached. Where Chrome says that
// one is already there, it may be our own from before the worker or the owner
// was started again: then it is taken up. The error is an *op.Error
// debugger-busy, debugger-canceled, debugger-quarantined, protected-tab-url or
// tab-gone, or one of the transport.
func (t *Tab) Attach(ctx context.Context) error {
	release, err := t.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	for {
		if t.isGone() {
			return tabGone(t.Key().TabID)
		}
		switch act := t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseWanted}); act {
		case cdpmodel.LeaseUse:
			return nil
		case cdpmodel.LeaseAttach:
			err = t.attach(ctx)
		case cdpmodel.LeaseWait:
			err = t.pause(ctx)
		case cdpmodel.LeaseDetach:
			err = t.reset(ctx)
		default:
			err = t.refusal()
		}
		if err != nil {
			return err
		}
	}
}

// attach asks Chrome once. That we may be attached is durable before.
func (t *Tab) attach(ctx context.Context) error {
	if err := t.wakeUp(ctx); err != nil {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseRefused, Refusal: cdpmodel.RefusedOther})
		return err
	}
	if t.Key().TargetID == "" {
		err := t.conn.reconcile(ctx)
		if err == nil && t.isGone() {
			err = tabGone(t.Key().TabID)
		}
		if err != nil {
			t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseRefused, Refusal: cdpmodel.RefusedOther})
			return err
		}
	}
	t.keepLease()
	err := t.lend(ctx, "debugger.attach", protocolVersion)
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		id := t.Key().TabID
		why, refusal, cause := t.attachRefused(ctx, p)
		if t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseRefused, Refusal: refusal}) == cdpmodel.LeaseProbe {
			return t.takeUp(ctx)
		}
		t.conn.noteRefusal(id, cause, why)
		return why
	}
	t.unanswered(err)
	return err
}

// unanswered ends an attempt without Chrome's word.
func (t *Tab) unanswered(err error) {
	ev := cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnanswered}
	if errors.Is(err, op.ErrNotDelivered) {
		ev = cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseRefused, Refusal: cdpmodel.RefusedOther}
	}
	t.step(ev)
}

// lend makes an attach call; the lease hears of it when its reply has its turn
// in the stream, so that a detach right after it is seen after it.
func (t *Tab) lend(ctx context.Context, name string, more ...any) error {
	id := t.Key().TabID
	args, err := json.Marshal(append([]any{map[string]int{"tabId": id}}, more...))
	if err != nil {
		return err
	}
	_, err = t.callDebugger(ctx, func() *call {
		return &call{
			name: name, what: fmt.Sprintf("%s of tab %d", name, id), args: args, tab: t, bound: attachBound,
			apply: func(_ json.RawMessage, err error) {
				if err == nil {
					t.nowAttached()
				}
			},
		}
	})
	return err
}

func (t *Tab) nowAttached() {
	t.mu.Lock()
	act := t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseAttached})
	if act == cdpmodel.LeaseUse {
		t.dropping = false
		t.attachment++
	}
	id := t.key.TabID
	t.mu.Unlock()
	if act == cdpmodel.LeaseUse {
		t.conn.relay.meter.attaches.add("attached", "")
		t.conn.forgetRefusals(id)
	}
	if act == cdpmodel.LeaseDetach {
		t.conn.relay.wg.Go(t.giveBack) // the user has canceled in the meantime
	}
}

// pause waits before a tab is attached again that Chrome detached while it was
// open, as it does for a frame with an unknown scheme.
func (t *Tab) pause(ctx context.Context) error {
	t.mu.Lock()
	until, id := t.lease.Until, t.key.TabID
	t.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting before tab %d is attached again: %w: %w", id, context.Cause(ctx), op.ErrNotDelivered)
	}
}

// refusal says why the lease gives nobody the debugger.
func (t *Tab) refusal() error {
	t.mu.Lock()
	l, id := t.lease, t.key.TabID
	t.mu.Unlock()
	if l.State == cdpmodel.LeaseRevoked {
		return debuggerCanceled(id)
	}
	return tabGone(id)
}

// takeUp finds out whose the attachment is: a command only works on our own.
func (t *Tab) takeUp(ctx context.Context) error {
	err := t.probe(ctx, t.nowAttached)
	if _, ok := errors.AsType[*op.ProtocolError](err); ok {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseRefused, Refusal: cdpmodel.RefusedForeign})
		id := t.Key().TabID
		why := debuggerBusy(id, err)
		t.conn.noteRefusal(id, CauseOtherDebugger, why)
		return why
	}
	if err != nil {
		// Somebody is attached, and it may be ourselves.
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnanswered})
	}
	return err
}

// probe sends a command that only works on our own attachment, and calls ours
// when it did. The command is one that the browser process answers, so also
// while a dialog blocks the page, and it lets go of the child sessions: which
// of them are left nobody knows, Chrome only announces them to whoever turns
// them on anew, and one that waits for us at its start runs on.
func (t *Tab) probe(ctx context.Context, ours func()) error {
	id := t.Key().TabID
	args, err := commandArgs(id, "", "Target.setAutoAttach", map[string]bool{"autoAttach": false, "waitForDebuggerOnStart": false, "flatten": true})
	if err != nil {
		return err
	}
	_, err = t.conn.do(ctx, &call{
		name: "debugger.sendCommand", what: fmt.Sprintf("looking for our debugger on tab %d", id), args: args, tab: t, bound: attachBound,
		apply: func(_ json.RawMessage, err error) {
			if err == nil {
				ours()
			}
		},
	})
	return err
}

// look finds out what became of an attachment that an owner or a worker before
// has left, so that no frame waits for somebody who has gone. It does not take
// it up: whoever worked with the session before must hear that it has ended.
func (t *Tab) look() {
	ctx, cancel := context.WithTimeout(t.conn.relay.ctx, attachBound)
	defer cancel()
	release, err := t.hold(ctx)
	if err != nil {
		return
	}
	defer release()
	if t.leaseState() != cdpmodel.LeaseLeft {
		return // a command was faster
	}
	err = t.probe(ctx, func() {})
	if _, ok := errors.AsType[*op.ProtocolError](err); ok {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseReleased}) // it is not ours
		return
	}
	if err != nil {
		t.conn.relay.log.Info("looking for our debugger", "tab", t.Key().TabID, "error", err)
	}
}

// Detach gives the debugger of the tab back. The domains that were enabled are
// off when it is attached again.
func (t *Tab) Detach(ctx context.Context) error {
	release, err := t.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if !t.mayBeAttached() {
		return nil
	}
	return t.detach(ctx)
}

func (t *Tab) detach(ctx context.Context) error {
	id := t.Key().TabID
	args, err := json.Marshal([]any{map[string]int{"tabId": id}})
	if err != nil {
		return err
	}
	_, err = t.conn.do(ctx, &call{
		name: "debugger.detach", what: fmt.Sprintf("detaching the debugger from tab %d", id), args: args, tab: t, bound: attachBound,
		apply: func(_ json.RawMessage, err error) {
			if err != nil && !isDetached(err) {
				return
			}
			t.mu.Lock()
			was, listeners := t.lease.State == cdpmodel.LeaseHeld, t.listeners
			t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseReleased})
			t.mu.Unlock()
			if was {
				t.emit(item{event: op.Event{Detached: DetachedReleased}}, listeners)
			}
		},
	})
	if isDetached(err) {
		return nil
	}
	if err != nil && !errors.Is(err, op.ErrNotDelivered) {
		t.interrupt() // it may be detached
	}
	return err
}

// isDetached reports whether Chrome refused to detach because that is what was
// wanted: nothing of ours is attached any more, or the tab is gone. Any other
// refusal leaves it open, and what was spoiled stays so.
func isDetached(err error) bool {
	p, ok := errors.AsType[*op.ProtocolError](err)
	return ok && (strings.HasPrefix(p.Message, "Debugger is not attached to the") || strings.HasPrefix(p.Message, "No tab with"))
}

// ResetSession ends the debugger session, and with it all that is registered in it,
// because something in it could not be undone: cause says what. Where that
// fails too, the tab is quarantined: no command uses its debugger before a
// reset has worked, and the error, debugger-quarantined, tells every failure.
func (t *Tab) ResetSession(ctx context.Context, cause error) error {
	t.mu.Lock()
	was := t.lease.State == cdpmodel.LeaseHeld
	act := t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseSpoiled, Failure: cause.Error()})
	t.mu.Unlock()
	if act != cdpmodel.LeaseDetach {
		return nil // it has ended, and nothing of it is left
	}
	if was {
		t.push(item{event: op.Event{Detached: DetachedReleased}})
	}
	release, err := t.hold(ctx)
	if err != nil {
		return t.resetFailed(err)
	}
	defer release()
	if t.leaseState() != cdpmodel.LeaseQuarantined {
		return nil // Chrome has ended it meanwhile, or another command has
	}
	return t.reset(ctx)
}

func (t *Tab) reset(ctx context.Context) error {
	if err := t.detach(ctx); err != nil {
		return t.resetFailed(err)
	}
	return nil
}

func (t *Tab) resetFailed(err error) error {
	t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseResetFailed, Failure: err.Error()})
	t.mu.Lock()
	l, id := t.lease, t.key.TabID
	t.mu.Unlock()
	t.conn.relay.log.Warn("a tab is quarantined", "tab", id, "failures", l.Failures, "omitted", l.Omitted)
	return op.Reject(op.DebuggerQuarantined, "tab %d is quarantined: something of an earlier command may be left in it, and its debugger could not be reset (%s)", id, failures(l)).
		WithHint("Send the command again: each one tries the reset first. If that does not help, close the tab and use another.").
		WithDetail("tabId", id).WithDetail("failures", l.Failures).WithCause(err)
}

// failures are those of a lease, as a message tells them.
func failures(l cdpmodel.Lease) string {
	all := slices.Clone(l.Failures)
	if l.Omitted > 0 {
		all = slices.Insert(all, len(all)/2, fmt.Sprintf("… %d more …", l.Omitted))
	}
	return strings.Join(all, "; ")
}

// giveBack ends the session of a tab if the lease says so: nobody uses it, it
// is spoiled, or the user does not want it.
func (t *Tab) giveBack() {
	ctx, cancel := context.WithTimeout(t.conn.relay.ctx, attachBound)
	defer cancel()
	release, err := t.hold(ctx)
	if err != nil {
		return
	}
	defer release()
	switch state := t.leaseState(); {
	case state == cdpmodel.LeaseQuarantined:
		err = t.reset(ctx)
	case state == cdpmodel.LeaseRevoked, t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseTick}) == cdpmodel.LeaseDetach:
		err = t.detach(ctx)
	default:
		return // somebody has begun to use it
	}
	if err != nil {
		t.conn.relay.log.Warn("giving a debugger back", "tab", t.Key().TabID, "error", err)
	}
}

// watchLeases gives back what nobody uses, until the relay ends.
func (r *Relay) watchLeases() {
	tick := time.NewTicker(max(r.time.lease.Idle/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		for _, c := range r.Connectors() {
			if !c.Live() {
				continue
			}
			for _, t := range c.knownTabs() {
				if t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseTick}) == cdpmodel.LeaseDetach {
					r.wg.Go(t.giveBack)
				}
			}
		}
	}
}

func (c *Connector) knownTabs() []*Tab {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.tabs))
}

func (t *Tab) leaseState() cdpmodel.LeaseState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease.State
}

func (t *Tab) mayBeAttached() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease.MayBeAttached()
}

func (t *Tab) isGone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone != ""
}

// oneCancel is how far apart the tabs of one Cancel are told at most.
const oneCancel = time.Second

// userCanceled notes that the user pressed Cancel on the debugger banner, which
// is for every tab of the profile; t, which may be nil, knows of it. The time is
// the browser's own, so that one that is told again, by another tab or in a
// hello, is known for the same one and does not undo an authorization since.
func (c *Connector) userCanceled(t *Tab, at time.Time) {
	c.mu.Lock()
	if ago := c.canceledAt.Sub(at); ago >= 0 && ago < oneCancel {
		allowed := !c.canceled
		c.mu.Unlock()
		if allowed && t != nil {
			t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseAuthorized})
		}
		return
	}
	c.canceledAt = at
	first := !c.canceled
	c.canceled = true
	tabs := slices.Collect(maps.Values(c.tabs))
	c.mu.Unlock()
	for _, other := range tabs {
		if other != t {
			other.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseCanceled})
		}
	}
	c.hooks.push(c.keepCanceled)
	if h := c.relay.opts.Hooks.Canceled; h != nil && first {
		c.hooks.push(func() { h(c, at) })
	}
}

// AllowDebugger lets tabs be attached again after the user pressed Cancel on
// the debugger banner and authorized the sessions anew.
func (c *Connector) AllowDebugger() {
	c.mu.Lock()
	was := c.canceled
	c.canceled = false
	c.mu.Unlock()
	if !was {
		return
	}
	for _, t := range c.knownTabs() {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseAuthorized})
	}
	c.hooks.push(c.keepCanceled)
}

func tabGone(id int) *op.Error {
	return op.Reject(op.TabGone, "tab %d does not exist any more", id).
		WithHint("chrome_tab_list shows the tabs there are.").WithDetail("tabId", id)
}

func debuggerCanceled(id int) *op.Error {
	return op.Reject(op.DebuggerCanceled, "tab %d was not attached: the user pressed Cancel on the debugger banner of this browser", id).
		WithHint("The user must authorize a session of that browser again, with /chrome authorize or pi-chrome authorize --session NAME; pi-chrome doctor names one.").WithDetail("tabId", id)
}
