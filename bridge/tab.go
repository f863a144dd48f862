package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"

	"pi-chrome/bridge/wire"
	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// Bounds of a tab's stream. A listener that falls behind further ends the
// tab's debugger session.
const (
	maxTabEvents = 10_000
	maxTabBytes  = 64 << 20
)

// Reasons of op.Event.Detached that are the owner's own; the others are
// Chrome's.
const (
	DetachedLost     = "connection-lost" // events were lost: attach again and read everything anew
	DetachedOverflow = "event-overflow"  // a listener was too slow for the tab's events
	DetachedReleased = "released"        // by Tab.Detach
	DetachedGone     = "tab-closed"
)

func ownReason(reason string) bool {
	switch reason {
	case DetachedLost, DetachedOverflow, DetachedReleased, DetachedGone:
		return true
	}
	return false
}

// Tab is one tab of a connector and its debugger session. It is the same
// object while the tab lives, also when a discard gives the tab another id. It
// is a [cdp.Session].
//
// One goroutine hands out the tab's stream in the order in which it arrived:
// events to the listeners, and each reply to its caller only after the
// listeners have returned from every event before it. A listener must
// therefore never wait for a reply of its own tab. Other tabs are not held up.
type Tab struct {
	conn  *Connector
	token chan struct{} // holds one: who has it may attach or detach
	wake  chan struct{} // for the tab's goroutine, one slot

	mu           sync.Mutex
	key          op.TabKey
	lease        cdpmodel.Lease // decides about the debugger; changed by step
	attachment   int
	reason       string    // of the latest detach
	gone         string    // why the tab has ended, "" while it has not
	coveredSince time.Time // since when Chrome refuses commands for another extension's frame

	queue     []item // from head on
	head      int
	events    int // among queue
	bytes     int
	dropping  bool // after an overflow, until it is attached again
	ended     bool // nothing is pushed any more
	listeners []*listener
	subs      map[subKey][]*subscription

	storing sync.Mutex  // held while the lease is stored
	stored  LeaseRecord // what is stored of it; zero for nothing
}

var _ cdp.Session = (*Tab)(nil)

// item is an event, a reply or the tab's end.
type item struct {
	event op.Event
	at    time.Time // of a detach by Cancel, by the browser's clock
	call  *call
	end   bool
}

type listener struct{ fn func(op.Event) }

func newTab(c *Connector, key op.TabKey) *Tab {
	return &Tab{
		conn: c, key: key,
		lease: cdpmodel.NewLease(c.relay.time.lease),
		token: make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		subs:  map[subKey][]*subscription{},
	}
}

// Key is the fence of the tab. Its TargetID is "" from the moment in which a
// discard replaced the tab until the new one was read.
func (t *Tab) Key() op.TabKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.key
}

// Connector is the profile of the tab.
func (t *Tab) Connector() *Connector { return t.conn }

// Info returns the tab as Chrome shows it now, with its group.
func (t *Tab) Info(ctx context.Context) (op.Tab, error) { return t.conn.TabInfo(ctx, t.Key().TabID) }

// OpenedTabs are the tabs that came since and go where this one asked for, and
// whether there are more that may be its own: see [op.OpenedTabs.From].
func (t *Tab) OpenedTabs(since time.Time, asked []string) (found []op.OpenedTab, inDoubt bool) {
	id := t.Key().TabID
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	return t.conn.opened.From(id, since, asked)
}

// PutBehind shows again what the window of the tab, which a page opened, showed
// before it came up in front. It reports false where there is nothing to do: it
// went, or the user looks elsewhere. The error is Chrome's or the relay's.
func (t *Tab) PutBehind(ctx context.Context, opened op.OpenedTab) (bool, error) {
	if opened.Before == 0 || opened.Closed {
		return false, nil
	}
	tab, err := t.conn.TabInfo(ctx, opened.TabID)
	if errors.Is(err, &op.Error{Code: op.TabGone}) || err == nil && !tab.Active {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = t.conn.Chrome(ctx, "tabs.update", opened.Before, map[string]any{"active": true})
	return err == nil, err
}

// Attached reports whether the debugger is attached by this owner.
func (t *Tab) Attached() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease.State == cdpmodel.LeaseHeld
}

// Attachment rises with each attach: whoever enabled domains at an older
// number must enable them again.
func (t *Tab) Attachment() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attachment
}

// Call sends one command to the tab's own session. The error wraps
// op.ErrNotDelivered or op.ErrReplyLost, and op.ErrDetached when the debugger
// session has ended, or op.ErrCovered; Chrome's own error is an
// *op.ProtocolError.
func (t *Tab) Call(ctx context.Context, method string, params, result any) error {
	return t.send(ctx, "", method, params, result)
}

// Child returns the session of a child target, such as a frame of another
// site, that Target.attachedToTarget announced.
func (t *Tab) Child(sessionID string) cdp.Session { return &child{t, sessionID} }

// child is a flat session below a tab.
type child struct {
	tab *Tab
	id  string
}

var _ cdp.Session = (*child)(nil)

func (s *child) Call(ctx context.Context, method string, params, result any) error {
	return s.tab.send(ctx, s.id, method, params, result)
}

func (s *child) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return s.tab.subscribe(subKey{s.id, method})
}

// answerDialogs lets nothing stand in the way of the tab's end: it dismisses a
// dialog that is open and accepts those that open until stop is called.
func (t *Tab) answerDialogs(ctx context.Context) (stop func()) {
	const patience = 2 * time.Second
	answer := func(accept bool) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		// Without a dialog it is Chrome's error, and where the tab is gone nobody's.
		_ = t.Call(ctx, "Page.handleJavaScriptDialog", map[string]bool{"accept": accept}, nil)
	}
	answer(false)
	return t.Listen(func(ev op.Event) {
		if ev.Method == "Page.javascriptDialogOpening" {
			t.conn.relay.wg.Go(func() { answer(true) })
		}
	})
}

// jsonOptions are those of chromedp: a page may hold half of a surrogate pair.
var jsonOptions = jsonv2.JoinOptions(jsonv2.DefaultOptionsV2(), jsonv2.AllowInvalidUTF8(true))

func (t *Tab) send(ctx context.Context, sessionID, method string, params, result any) error {
	t.mu.Lock()
	id, attached, gone, reason := t.key.TabID, t.lease.State == cdpmodel.LeaseHeld, t.gone, t.reason
	t.mu.Unlock()
	what := method + " on tab " + strconv.Itoa(id)
	if gone != "" {
		return fmt.Errorf("%s: %w, %s: %w: %w", what, op.ErrTabGone, gone, op.ErrDetached, op.ErrNotDelivered)
	}
	if !attached {
		return fmt.Errorf("%s: %w%s: %w", what, op.ErrDetached, inParens(reason), op.ErrNotDelivered)
	}
	args, err := commandArgs(id, sessionID, method, params)
	if err != nil {
		return fmt.Errorf("%s: encoding its parameters: %w: %w", what, err, op.ErrNotDelivered)
	}
	raw, err := t.callDebugger(ctx, func() *call {
		return &call{
			name: "debugger.sendCommand", what: what, args: args,
			tab: t, command: method, child: sessionID, bound: boundOf(method),
		}
	})
	if err != nil {
		return err
	}
	if result == nil || len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := jsonv2.Unmarshal(raw, result, jsonOptions); err != nil {
		return fmt.Errorf("%s: decoding its result: %w", what, err)
	}
	return nil
}

func inParens(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// commandArgs encodes the arguments of chrome.debugger.sendCommand.
func commandArgs(tabID int, sessionID, method string, params any) ([]byte, error) {
	b := append(make([]byte, 0, 256), `[{"tabId":`...)
	b = strconv.AppendInt(b, int64(tabID), 10)
	if sessionID != "" {
		b = append(b, `,"sessionId":`...)
		b = wire.AppendString(b, sessionID)
	}
	b = append(b, '}', ',')
	b = wire.AppendString(b, method)
	if params != nil {
		p, err := jsonv2.Marshal(params, jsonOptions)
		if err != nil {
			return nil, err
		}
		if len(p) > 0 && string(p) != "null" {
			b = append(b, ',')
			b = append(b, p...)
		}
	}
	return append(b, ']'), nil
}

// detachedError recognizes Chrome's words for a session that has ended.
func detachedError(message string) error {
	switch {
	case strings.HasPrefix(message, "Detached while handling command"):
		return fmt.Errorf("%w: %w", op.ErrDetached, op.ErrReplyLost)
	case strings.HasPrefix(message, "Debugger is not attached to the"):
		return fmt.Errorf("%w: %w", op.ErrDetached, op.ErrNotDelivered)
	}
	return nil
}

// Listen calls fn for every event of the tab and its child sessions, and for
// the end of the debugger session, in order, on the tab's goroutine. fn may
// still be running when stop returns, but is not called again after it.
func (t *Tab) Listen(fn func(op.Event)) (stop func()) {
	l := &listener{fn}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners = append(slices.Clip(t.listeners), l)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.listeners = slices.DeleteFunc(slices.Clone(t.listeners), func(x *listener) bool { return x == l })
	}
}

// push adds an item to the stream; false when the stream has ended.
func (t *Tab) push(it item) bool {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return false
	}
	if it.event.Method != "" {
		if t.dropping {
			t.mu.Unlock()
			return true
		}
		if t.events >= maxTabEvents || t.bytes+len(it.event.Params) > maxTabBytes {
			t.overflowLocked()
			it = item{event: op.Event{Detached: DetachedOverflow}}
		} else {
			t.events++
			t.bytes += len(it.event.Params)
		}
	}
	t.queue = append(t.queue, it)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return true
}

// overflowLocked drops the events that wait. Replies stay.
func (t *Tab) overflowLocked() {
	t.queue = slices.DeleteFunc(slices.Clone(t.queue[t.head:]), func(it item) bool { return it.event.Method != "" })
	t.head, t.events, t.bytes = 0, 0, 0
	t.dropping, t.reason = true, DetachedOverflow
	t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseSpoiled, Failure: "the page sent more events than could be taken"})
}

// interrupt ends the debugger session as far as this owner knows: events were
// lost.
func (t *Tab) interrupt() {
	t.mu.Lock()
	was := t.lease.State == cdpmodel.LeaseHeld
	t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnseen})
	if was {
		t.reason = DetachedLost
	}
	t.mu.Unlock()
	if was {
		t.push(item{event: op.Event{Detached: DetachedLost}})
	}
}

// sessionEnded notes at a command's failure that the debugger session has
// ended: Chrome's own event of it comes a moment after the reply. Without it
// an Attach between the two would find the tab attached.
func (t *Tab) sessionEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease.State == cdpmodel.LeaseHeld {
		t.reason = "target_closed"
		t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseDetached, Reason: t.reason})
	}
}

// end ends the tab for good. why is a clause, such as "it was closed".
func (t *Tab) end(why string) {
	t.mu.Lock()
	if t.gone == "" {
		t.gone = why
	}
	t.mu.Unlock()
	t.push(item{end: true})
}

// run is the tab's goroutine.
func (t *Tab) run() {
	loop := &t.conn.relay.meter.tabLoop
	defer loop.enter()()
	for start := time.Now(); ; {
		t.mu.Lock()
		if t.head == len(t.queue) {
			t.queue, t.head = t.queue[:0], 0
			if cap(t.queue) > 1024 {
				t.queue = nil
			}
			t.mu.Unlock()
			<-t.wake
			start = time.Now()
			continue
		}
		it := t.queue[t.head]
		t.queue[t.head] = item{}
		t.head++
		listeners := t.listeners
		t.mu.Unlock()
		switch {
		case it.call != nil:
			it.call.deliver()
		case it.end:
			t.finish()
			return
		default:
			t.emit(it, listeners)
		}
		start = loop.turn(start)
	}
}

// emit hands one event to the listeners and subscribers.
func (t *Tab) emit(it item, listeners []*listener) {
	ev, lockAll := it.event, false
	if ev.Detached != "" {
		t.mu.Lock()
		t.reason = ev.Detached
		if !ownReason(ev.Detached) { // the lease knows of our own already
			lockAll = t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseDetached, Reason: ev.Detached}) == cdpmodel.LeaseLockAll
		}
		t.mu.Unlock()
		t.conn.released()
	}
	for _, l := range listeners {
		l.fn(ev)
	}
	if ev.Detached != "" {
		t.endSubscriptions(func(subKey) bool { return true })
		// After a gap the same worker still answers what it was asked.
		if ev.Detached != DetachedLost {
			t.conn.failCommands(func(k *call) bool { return k.tab == t }, errors.New(ev.Detached))
		}
		if ev.Detached == DetachedOverflow {
			t.conn.relay.wg.Go(t.giveBack) // or the events go on
		}
		if lockAll {
			t.conn.userCanceled(t, it.at)
		}
		return
	}
	t.publish(ev)
	if ev.Method == "Target.detachedFromTarget" {
		var p struct {
			SessionID string `json:"sessionId"`
		}
		if json.Unmarshal(ev.Params, &p) == nil && p.SessionID != "" {
			t.endSubscriptions(func(k subKey) bool { return k.session == p.SessionID })
			t.conn.failCommands(func(k *call) bool { return k.tab == t && k.child == p.SessionID }, errors.New("its frame is gone"))
		}
	}
	t.mu.Lock()
	if t.events > 0 { // else an overflow has dropped the count
		t.events--
		t.bytes = max(0, t.bytes-len(ev.Params))
	}
	t.mu.Unlock()
}

// finish ends the stream: what is still queued is delivered first.
func (t *Tab) finish() {
	t.mu.Lock()
	was, listeners := t.lease.State == cdpmodel.LeaseHeld, t.listeners
	t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseTabClosed})
	t.ended = true
	rest, gone := t.queue[t.head:], t.gone
	t.queue, t.head = nil, 0
	t.mu.Unlock()
	if was {
		t.conn.released()
		for _, l := range listeners {
			l.fn(op.Event{Detached: DetachedGone})
		}
	}
	for _, it := range rest {
		if it.call != nil {
			it.call.deliver()
		}
	}
	t.endSubscriptions(func(subKey) bool { return true })
	t.conn.failCommands(func(k *call) bool { return k.tab == t }, fmt.Errorf("%w, %s", op.ErrTabGone, gone))
}

// failCommands ends the commands whose debugger session has ended.
func (c *Connector) failCommands(match func(*call) bool, why error) {
	var written, unwritten []*call
	c.mu.Lock()
	for id, k := range c.pending {
		if k.command != "" && match(k) {
			written = append(written, k)
			delete(c.pending, id)
		}
	}
	drop := func(k *call) bool {
		if k.command == "" || !match(k) {
			return false
		}
		if k.state == callQueued {
			c.bytes -= len(k.args)
			unwritten = append(unwritten, k)
		} else {
			written = append(written, k)
		}
		return true
	}
	c.resend = slices.DeleteFunc(c.resend, drop)
	c.queue = slices.DeleteFunc(c.queue, drop)
	c.mu.Unlock()
	finishAll(unwritten, fmt.Errorf("%w (%w): %w", op.ErrDetached, why, op.ErrNotDelivered))
	finishAll(written, fmt.Errorf("%w (%w): %w", op.ErrDetached, why, op.ErrReplyLost))
}
