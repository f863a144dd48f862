package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// protocolVersion is the one that chrome.debugger.attach wants to be told.
const protocolVersion = "1.3"

// attachBound is how long one step of an attach may take.
const attachBound = 10 * time.Second

// hold takes the tab's lease token.
func (t *Tab) hold(ctx context.Context) (release func(), err error) {
	select {
	case t.lease <- struct{}{}:
		return func() { <-t.lease }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the debugger of tab %d: %w: %w", t.Key().TabID, context.Cause(ctx), op.ErrNotDelivered)
	}
}

// Attach attaches the debugger unless it is attached. Where Chrome says that
// one is already there, it may be our own from before the worker or the owner
// was started again: then it is taken up. The error is an *op.Error
// debugger-busy, debugger-canceled, protected-tab-url or tab-gone, or one of
// the transport.
func (t *Tab) Attach(ctx context.Context) error {
	release, err := t.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	t.mu.Lock()
	attached, gone, id, dropping, unread := t.attached, t.gone, t.key.TabID, t.dropping, t.key.TargetID == ""
	t.mu.Unlock()
	switch {
	case gone != "":
		return tabGone(id)
	case attached:
		return nil
	}
	if err := t.pause(ctx); err != nil {
		return err
	}
	if t.conn.isCanceled() {
		return debuggerCanceled(id)
	}
	if unread {
		if err := t.conn.reconcile(ctx); err != nil {
			return err
		}
		if t.isGone() {
			return tabGone(id)
		}
	}
	if dropping {
		// A fresh session without the domains whose events were too many.
		if err := t.detach(ctx); err != nil {
			return err
		}
	}
	err = t.lend(ctx, "debugger.attach", protocolVersion)
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		return t.attachRefused(ctx, p)
	}
	return err
}

// lend makes an attach call; attached is set when its reply has its turn in
// the stream, so that a detach right after it is seen after it.
func (t *Tab) lend(ctx context.Context, name string, more ...any) error {
	id := t.Key().TabID
	args, err := json.Marshal(append([]any{map[string]int{"tabId": id}}, more...))
	if err != nil {
		return err
	}
	_, err = t.conn.do(ctx, &call{
		name: name, what: fmt.Sprintf("%s of tab %d", name, id), args: args, tab: t, bound: attachBound,
		apply: func(_ json.RawMessage, err error) {
			if err == nil {
				t.nowAttached()
			}
		},
	})
	return err
}

func (t *Tab) nowAttached() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone != "" {
		return
	}
	t.attached, t.dropping = true, false
	t.attachment++
	if t.reason == "target_closed" {
		t.regainedAt = time.Now()
	}
}

// pause waits before a tab is attached again that Chrome detached while it was
// open, as it does for a frame with an unknown scheme; at most one such attach
// happens within three seconds.
func (t *Tab) pause(ctx context.Context) error {
	t.mu.Lock()
	at, reason := t.detachedAt.Add(t.conn.relay.time.pause), t.reason
	if next := t.regainedAt.Add(t.conn.relay.time.reapply); next.After(at) {
		at = next
	}
	id := t.key.TabID
	t.mu.Unlock()
	wait := time.Until(at)
	if reason != "target_closed" || wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		if t.isGone() {
			return tabGone(id)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting before tab %d is attached again: %w: %w", id, context.Cause(ctx), op.ErrNotDelivered)
	}
}

// attachRefused explains Chrome's refusal, or takes up our own attachment.
func (t *Tab) attachRefused(ctx context.Context, p *op.ProtocolError) error {
	id := t.Key().TabID
	has := func(s string) bool { return strings.Contains(strings.ToLower(p.Message), s) }
	switch {
	case has("already attached"):
		return t.takeUp(ctx)
	case has("no tab with"):
		return tabGone(id)
	case has("polic"):
		return op.Reject(op.ProtectedTabURL, "tab %d cannot be debugged: a policy of this managed browser forbids it (%s)", id, p.Message).
			WithHint("Ask the browser's administrator about the policies ExtensionSettings runtime_blocked_hosts and DeveloperToolsAvailability.").
			WithDetail("tabId", id).WithCause(p)
	case has("different extension"):
		return op.Reject(op.DebuggerBusy, "tab %d cannot be debugged while it shows a part of another extension (%s)", id, p.Message).
			WithHint("Close the other extension's overlay in that tab, such as a password manager's, and send the command again.").
			WithDetail("tabId", id).WithCause(p)
	case has("cannot access"), has("cannot attach"), has("cannot be"), has("not allowed"):
		return op.Reject(op.ProtectedTabURL, "tab %d cannot be debugged: %s", id, p.Message).
			WithHint("Chrome's own pages, the extension store and other extensions' pages are closed to extensions. Open another address in the tab.").
			WithDetail("tabId", id).WithCause(p)
	}
	return op.Reject(op.BrowserOperation, "attaching the debugger to tab %d: %s", id, p.Message).WithDetail("tabId", id).WithCause(p)
}

// takeUp finds out whose the attachment is: a command only works on our own.
// The command is one that the browser process answers, so also while a dialog
// blocks the page, and it lets go of the child sessions: which of them are left
// nobody knows, and Chrome only announces them to whoever turns them on anew.
func (t *Tab) takeUp(ctx context.Context) error {
	id := t.Key().TabID
	args, err := commandArgs(id, "", "Target.setAutoAttach", map[string]bool{"autoAttach": false, "waitForDebuggerOnStart": false, "flatten": true})
	if err != nil {
		return err
	}
	_, err = t.conn.do(ctx, &call{
		name: "debugger.sendCommand", what: fmt.Sprintf("looking for our debugger on tab %d", id), args: args, tab: t, bound: attachBound,
		apply: func(_ json.RawMessage, err error) {
			if err == nil {
				t.nowAttached()
			}
		},
	})
	if _, ok := errors.AsType[*op.ProtocolError](err); ok {
		return op.Reject(op.DebuggerBusy, "tab %d is debugged by another extension; the command had no effect", id).
			WithHint("Turn the other extension's debugging off, or use another tab. Chrome's DevTools beside pi-chrome are no problem.").
			WithDetail("tabId", id).WithCause(err)
	}
	return err
}

// Detach gives the debugger of the tab back. The domains that were enabled are
// off when it is attached again.
func (t *Tab) Detach(ctx context.Context) error {
	release, err := t.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if !t.Attached() {
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
			if err == nil {
				t.mu.Lock()
				was, listeners := t.attached, t.listeners
				t.mu.Unlock()
				if was {
					t.emit(op.Event{Detached: DetachedReleased}, listeners)
				}
			}
		},
	})
	if _, ok := errors.AsType[*op.ProtocolError](err); ok {
		// It was not attached any more, or the tab is gone: what was wanted.
		t.interruptAs(DetachedReleased)
		return nil
	}
	return err
}

func (t *Tab) interruptAs(reason string) {
	t.mu.Lock()
	was := t.attached
	t.attached = false
	t.mu.Unlock()
	if was {
		t.push(item{event: op.Event{Detached: reason}})
	}
}

// dropSession ends the session of a tab whose events nobody could take, so
// that they stop.
func (t *Tab) dropSession() {
	ctx, cancel := context.WithTimeout(t.conn.relay.ctx, attachBound)
	defer cancel()
	release, err := t.hold(ctx)
	if err != nil {
		return
	}
	defer release()
	if t.Attached() {
		return // somebody has attached anew in the meantime
	}
	if err := t.detach(ctx); err != nil {
		t.conn.relay.log.Warn("ending the session of a tab with too many events", "tab", t.Key().TabID, "error", err)
	}
}

func (t *Tab) isGone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone != ""
}

func (c *Connector) isCanceled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled
}

// userCanceled notes that the user pressed Cancel on the debugger banner.
func (c *Connector) userCanceled(t *Tab) {
	c.mu.Lock()
	first := !c.canceled
	c.canceled = true
	c.mu.Unlock()
	if h := c.relay.opts.Hooks.Canceled; h != nil && first {
		id := t.Key().TabID
		c.hooks.push(func() { h(c, id) })
	}
}

func tabGone(id int) *op.Error {
	return op.Reject(op.TabGone, "tab %d does not exist any more", id).
		WithHint("chrome_tab_list shows the tabs there are.").WithDetail("tabId", id)
}

func debuggerCanceled(id int) *op.Error {
	return op.Reject(op.DebuggerCanceled, "tab %d was not attached: the user pressed Cancel on the debugger banner of this browser", id).
		WithHint("The user must authorize again, with /chrome authorize or pi-chrome authorize.").WithDetail("tabId", id)
}
