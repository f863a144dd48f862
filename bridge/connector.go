package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

var (
	errForgotten = errors.New("the profile was unpaired")
	errStopped   = errors.New("the owner stopped")
	errReplaced  = errors.New("the same browser connected again")
)

// Connector is one paired profile, live or not. It lives as long as its
// binding; its connections come and go.
//
// Each connection has a reader, which decodes frames and hands them on without
// ever waiting for a consumer, and a writer. Hooks run on a goroutine of the
// connector, every tab has one of its own.
type Connector struct {
	relay *Relay

	acceptMu sync.Mutex // one handshake is decided at a time
	hooks    hookQueue

	mu         sync.Mutex
	binding    Binding
	closed     error // why, once it is
	conn       *connection
	generation int
	since      time.Time // of the latest change between connected and not
	lastSeen   time.Time
	changed    chan struct{} // closed when conn, resetting or closed change

	// What the owner knows of the worker. A worker is one start of the
	// extension's code; it may have several connections.
	workerID     string
	browserEpoch string
	browser      wire.Browser
	capabilities wire.Capabilities
	lastSeq      uint64 // of the worker's frames, processed

	resets    int         // counts resets
	resetting int         // the reset that is not finished, 0 for none: only its own calls are sent
	reason    ResetReason // of the latest reset

	lastCall uint64           // the highest call id given out
	resend   []*call          // written to a socket that was lost before the worker read them, by id
	urgent   []*call          // not yet written, of a reset
	queue    []*call          // not yet written
	pending  map[uint64]*call // written, no reply yet
	bytes    int              // of the arguments that are held for writing

	tabs       map[int]*Tab
	former     map[int]*Tab    // by an id that onReplaced took away, until its onDetach
	pages      map[int]string  // origins that tabs were last told to show, for the audit log
	moved      map[int]int     // ids that onReplaced took away, with the new ones, until its hook has run
	opened     op.OpenedTabs   // of late, by anyone
	canceled   bool            // the user pressed Cancel on the banner
	canceledAt time.Time       // the last time, by the browser's clock
	restored   []LeaseRecord   // that an owner before has left, until the first connection
	debugged   time.Time       // when a debugger session ended last
	closing    time.Time       // when a window closed last
	refused    []AttachRefusal // the latest first
}

// connection is one socket of a connector.
type connection struct {
	id         string
	generation int
	sock       socket
	hello      *wire.Hello
	ready      uint64 // the ack of the ready frame

	ctx      context.Context
	cancel   context.CancelCauseFunc
	wake     chan struct{} // for the writer, one slot
	heard    chan struct{} // a frame came, one slot
	done     chan struct{} // closed when reader and writer have ended
	lastRead atomic.Int64  // when a frame came last, for people: Unix nanoseconds
	began    time.Time
	heardAt  atomic.Int64 // the same for timeouts: nanoseconds after began, which no change of the clock moves

	// Guarded by Connector.mu.
	unacked      int // frames since the last acknowledgement
	unackedBytes int
	ackDue       bool
	pingDue      bool
	gap          bool // the worker named a gap: calls that it had before may have lost their reply
}

// fail ends the connection with the first reason given.
func (n *connection) fail(err error) {
	n.cancel(err)
	n.sock.CloseNow()
}

func (n *connection) wakeWriter() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func newConnector(r *Relay, b Binding) *Connector {
	c := &Connector{
		relay:   r,
		binding: b,
		since:   time.Now(),
		changed: make(chan struct{}),
		pending: map[uint64]*call{},
		tabs:    map[int]*Tab{},
		former:  map[int]*Tab{},
		moved:   map[int]int{},
		pages:   map[int]string{},
	}
	c.hooks.wake = make(chan struct{}, 1)
	return c
}

// ConnectorInfo is what status shows of a connector.
type ConnectorInfo struct {
	ID             string            `json:"id"`
	Label          string            `json:"label"`
	Live           bool              `json:"live"`
	ExtensionID    string            `json:"extensionId,omitempty"`
	DisplayVersion string            `json:"displayVersion,omitempty"`
	Browser        wire.Browser      `json:"browser,omitzero"`
	BrowserEpoch   string            `json:"browserEpoch,omitempty"`
	Capabilities   wire.Capabilities `json:"capabilities,omitzero"`
	Generation     int               `json:"generation"`
	PendingCalls   int               `json:"pendingCalls"`
	AttachedTabs   int               `json:"attachedTabs"`
	Leases         []LeaseInfo       `json:"leases,omitempty"`   // of tabs that are or were debugged
	Canceled       bool              `json:"canceled,omitempty"` // the user pressed Cancel on the debugger banner
	ConnectedAt    time.Time         `json:"connectedAt,omitzero"`
	LastSeenAt     time.Time         `json:"lastSeenAt,omitzero"`
	PairedAt       time.Time         `json:"pairedAt,omitzero"`
}

// ID is the connector's own, a UUID.
func (c *Connector) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.binding.ConnectorID
}

// Label is the profile's name, as its popup shows it.
func (c *Connector) Label() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.binding.Label
}

// BrowserEpoch tells one start of the browser from another; "" before the
// first connection.
func (c *Connector) BrowserEpoch() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.browserEpoch
}

// Capabilities says what the extension may do in the profile.
func (c *Connector) Capabilities() wire.Capabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities
}

// Live reports whether calls are sent at once.
func (c *Connector) Live() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.liveLocked()
}

// quickAfter is how long after the end of a debugger session the worker is sure
// to be woken up within seconds (extension/pulse.js).
const quickAfter = 45 * time.Second

// workerPatience is how long a worker is sure to keep its tabs attached without
// an owner; some seconds later it lets them go (extension/pulse.js).
const workerPatience = 50 * time.Second

// closedAfter bounds the time between a browser's last window and its end.
const closedAfter = 5 * time.Second

// browserClosed reports whether the browser was closed, as far as its end
// shows: all windows went just before it. The worker had their events until
// then, so that it had not fallen asleep. A browser that was killed, or had no
// window, ends as a worker does that is stopped.
func (c *Connector) browserClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn == nil && !c.closing.IsZero() && c.since.Sub(c.closing) < closedAfter
}

// lostAt is when the latest connection ended of a worker that may sleep for
// half a minute; zero for one that is woken up sooner, was never there, or went
// with its browser.
func (c *Connector) lostAt() time.Time {
	if c.browserClosed() {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil || c.generation == 0 || c.since.Sub(c.debugged) < quickAfter {
		return time.Time{}
	}
	for _, t := range c.tabs {
		if t.mayBeAttached() {
			return time.Time{}
		}
	}
	return c.since
}

// refusal is the latest refused handshake of the profile since it is not
// connected; nil for none.
func (c *Connector) refusal() *RefusalRecord {
	c.mu.Lock()
	id, offline, since := c.binding.ConnectorID, c.conn == nil, c.since
	c.mu.Unlock()
	if !offline {
		return nil
	}
	for _, r := range c.relay.Refusals() {
		if r.ConnectorID == id {
			if r.At.Before(since) {
				return nil
			}
			return &r
		}
	}
	return nil
}

// released notes the end of a debugger session.
func (c *Connector) released() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.debugged = time.Now()
}

func (c *Connector) liveLocked() bool { return c.conn != nil && c.resetting == 0 }

// Info returns what status shows.
func (c *Connector) Info() ConnectorInfo {
	c.mu.Lock()
	tabs := make([]*Tab, 0, len(c.tabs))
	for _, t := range c.tabs {
		tabs = append(tabs, t)
	}
	i := ConnectorInfo{
		ID: c.binding.ConnectorID, Label: c.binding.Label, Live: c.liveLocked(),
		ExtensionID: c.binding.ExtensionID, DisplayVersion: c.binding.DisplayVersion,
		Browser: c.browser, BrowserEpoch: c.browserEpoch, Capabilities: c.capabilities,
		Generation: c.generation, PendingCalls: len(c.pending) + len(c.queue) + len(c.resend) + len(c.urgent),
		LastSeenAt: c.lastSeen, PairedAt: c.binding.PairedAt, Canceled: c.canceled,
	}
	if c.conn != nil {
		i.ConnectedAt = c.since
		i.LastSeenAt = time.Unix(0, c.conn.lastRead.Load())
	}
	c.mu.Unlock()
	for _, t := range tabs {
		l := t.leaseInfo()
		if l.State == string(cdpmodel.LeaseHeld) {
			i.AttachedTabs++
		}
		if l.State != string(cdpmodel.LeaseFree) {
			i.Leases = append(i.Leases, l)
		}
	}
	slices.SortFunc(i.Leases, func(a, b LeaseInfo) int { return cmp.Compare(a.TabID, b.TabID) })
	return i
}

func (c *Connector) setBinding(b Binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.binding = b
}

// WaitLive waits until calls are sent at once. When ctx ends first the error is
// an *op.Error connector-offline.
func (c *Connector) WaitLive(ctx context.Context) error {
	for {
		c.mu.Lock()
		live, closed, changed, label := c.liveLocked(), c.closed, c.changed, c.binding.Label
		c.mu.Unlock()
		if live {
			return nil
		}
		if closed != nil {
			return op.NotAvailable(op.ConnectorNotBound, "the browser profile %q is not available: %s", label, closed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return op.NotAvailable(op.ConnectorOffline, "the browser profile %q is not connected", label).
				WithHint("Start that browser, or look at the popup of the pi-chrome extension for the reason.").
				WithDetail("connectorId", c.ID()).WithDetail("label", label).WithCause(context.Cause(ctx))
		}
	}
}

func (c *Connector) bumpLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// accept decides about a connection whose profile has proved its secret, and
// sends ready. What the older worker had of this owner's calls ends here when
// the worker is another.
func (c *Connector) accept(sock socket, hello *wire.Hello) (*connection, *refusal) {
	c.acceptMu.Lock()
	defer c.acceptMu.Unlock()
	c.mu.Lock()
	old := c.conn
	c.mu.Unlock()
	if old != nil {
		if old.hello.BrowserEpoch != hello.BrowserEpoch && c.answers(old) {
			return nil, &refusal{wire.RefuseDuplicate, "Another browser is connected with this profile's identity, as a copied profile would be. Give this profile a new identity in the popup, then pair it."}
		}
		old.fail(errReplaced)
		<-old.done
	}
	if hello.CanceledAt != 0 { // it may be news: perhaps nobody was there to hear it
		c.userCanceled(nil, time.UnixMilli(hello.CanceledAt))
	}

	c.mu.Lock()
	if c.closed != nil {
		err := c.closed
		c.mu.Unlock()
		return nil, &refusal{wire.RefuseShutDown, "Not available: " + err.Error() + "."}
	}
	same := c.workerID != "" && hello.WorkerID == c.workerID && hello.Resume.BridgeEpoch == c.relay.opts.Epoch
	if same && hello.Resume.LastCall > c.lastCall {
		c.mu.Unlock()
		return nil, &refusal{wire.RefuseMalformed, "resume.lastCall is higher than any call that was made."}
	}
	conn := &connection{
		id: wire.NewSecret()[:16], sock: sock, hello: hello, began: time.Now(),
		wake: make(chan struct{}, 1), heard: make(chan struct{}, 1), done: make(chan struct{}),
	}
	conn.ctx, conn.cancel = context.WithCancelCause(c.relay.ctx)
	conn.lastRead.Store(time.Now().UnixNano())
	c.generation++
	conn.generation = c.generation
	reason := ResetWorker
	switch {
	case c.workerID == "":
		reason = ResetFirst
	case c.browserEpoch != hello.BrowserEpoch:
		reason = ResetBrowser
	}
	// By the wall clock: a machine that slept was away too.
	alone := same && time.Now().Round(0).Sub(c.lastSeen.Round(0)) > workerPatience
	if alone {
		reason = ResetGap
	}
	if !same {
		c.lastSeq = 0
	}
	conn.ready = c.lastSeq
	c.workerID, c.browserEpoch, c.browser, c.capabilities = hello.WorkerID, hello.BrowserEpoch, hello.Browser, hello.Capabilities
	var reset func()
	if c.resetting != 0 && (same || c.reason == ResetFirst || c.reason == ResetBrowser) {
		reason = c.reason // the connection was lost before that reset was finished
	}
	if !same || alone || c.resetting != 0 {
		reset = c.resetLocked(reason, !same)
	}
	if same {
		c.resendLocked(hello.Resume.LastCall)
	}
	c.conn = conn
	c.since, c.lastSeen = time.Now(), time.Now()
	c.bumpLocked()
	c.mu.Unlock()

	err := c.relay.send(sock, wire.Ready{Type: wire.TypeReady, ConnectionID: conn.id, Generation: conn.generation, Ack: conn.ready})
	if err != nil {
		conn.fail(fmt.Errorf("sending ready: %w", err))
	}
	c.relay.log.Info("connected", "connector", hello.ConnectorID, "label", hello.Label, "generation", conn.generation, "sameWorker", same)
	if reset != nil {
		reset()
	} else {
		c.relay.announce()
		c.hooks.push(c.announceLive)
	}
	return conn, nil
}

func (c *Connector) announceLive() {
	if h := c.relay.opts.Hooks.Live; h != nil && c.Live() {
		h(c)
	}
}

// answers reports whether a connection still lives: anything from it within a
// moment after a ping will do.
func (c *Connector) answers(conn *connection) bool {
	select {
	case <-conn.heard:
	default:
	}
	c.mu.Lock()
	conn.pingDue = true
	c.mu.Unlock()
	conn.wakeWriter()
	timer := time.NewTimer(c.relay.time.probe)
	defer timer.Stop()
	select {
	case <-conn.heard:
		return true
	case <-conn.done:
		return false
	case <-timer.C:
		return false
	}
}

// serve carries the connection until it ends and returns why.
func (c *Connector) serve(conn *connection) error {
	var writer sync.WaitGroup
	writer.Go(func() { conn.fail(c.writeLoop(conn)) })
	conn.fail(c.readLoop(conn))
	writer.Wait()
	c.mu.Lock()
	if c.conn == conn {
		c.conn = nil
		c.since, c.lastSeen = time.Now(), time.Unix(0, conn.lastRead.Load())
		c.bumpLocked()
	}
	closed := c.closed != nil
	c.mu.Unlock()
	close(conn.done)
	if !closed {
		c.relay.announce()
		c.hooks.push(func() {
			if h := c.relay.opts.Hooks.Offline; h != nil && !c.Live() {
				h(c)
			}
		})
	}
	return context.Cause(conn.ctx)
}

func (c *Connector) readLoop(conn *connection) error {
	loop := &c.relay.meter.readLoop
	defer loop.enter()()
	for {
		b, err := conn.sock.Read(conn.ctx)
		if err != nil {
			if cause := context.Cause(conn.ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("reading: %w", err)
		}
		start := time.Now()
		conn.lastRead.Store(start.UnixNano())
		conn.heardAt.Store(int64(start.Sub(conn.began)))
		select {
		case conn.heard <- struct{}{}:
		default:
		}
		// Page texts may hold halves of surrogate pairs, which a strict
		// decoder refuses.
		frame, err := wire.DecodeExtension(op.CleanJSON(b))
		if err != nil {
			return err
		}
		if err := c.receive(conn, frame, len(b)); err != nil {
			return err
		}
		loop.turn(start)
	}
}

// receive processes one frame. It never waits for a consumer.
func (c *Connector) receive(conn *connection, frame any, size int) error {
	switch f := frame.(type) {
	case *wire.Pong:
		return nil
	case *wire.Gap:
		c.lost(conn, f.From, f.To)
		return nil
	case *wire.ReplyFrame:
		if !c.next(conn, f.Seq, size) {
			return nil
		}
		c.mu.Lock()
		call := c.pending[f.ID]
		delete(c.pending, f.ID)
		c.mu.Unlock()
		if call != nil { // else its caller has gone
			call.finish(f, nil)
		}
		c.settle(conn)
	case *wire.EventFrame:
		if !c.next(conn, f.Seq, size) {
			return nil
		}
		c.event(f)
		c.settle(conn)
	}
	return nil
}

// next takes the seq of a frame; false for one that was processed before.
func (c *Connector) next(conn *connection, seq uint64, size int) bool {
	c.mu.Lock()
	if seq <= c.lastSeq {
		c.mu.Unlock()
		return false
	}
	from := c.lastSeq + 1
	c.mu.Unlock()
	if seq > from {
		c.lost(conn, from, seq-1) // a hole that the worker did not name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastSeq = seq
	conn.unacked++
	conn.unackedBytes += size
	if conn.unacked >= wire.AckEveryFrames || conn.unackedBytes >= wire.AckEveryBytes {
		conn.ackDue = true
		conn.wakeWriter()
	}
	return true
}

// lost notes that frames will never come. Events among them may have changed
// anything, so commands wait until tabs and targets were read again.
func (c *Connector) lost(conn *connection, from, to uint64) {
	c.mu.Lock()
	if to <= c.lastSeq {
		c.mu.Unlock()
		return
	}
	c.relay.log.Warn("the worker dropped frames", "connector", c.binding.ConnectorID, "from", from, "to", to)
	c.lastSeq = to
	// Only frames that were kept without a socket can have been replies.
	conn.gap = conn.gap || from <= conn.hello.Resume.LastSeq
	reset := c.resetLocked(ResetGap, false)
	c.mu.Unlock()
	reset()
	c.settle(conn)
}

// settle ends calls whose reply was among dropped frames. Which they are
// nobody knows, so once all kept frames have come every call that the worker
// had before the connection counts as lost.
func (c *Connector) settle(conn *connection) {
	c.mu.Lock()
	if !conn.gap || c.lastSeq < conn.hello.Resume.LastSeq {
		c.mu.Unlock()
		return
	}
	conn.gap = false
	var lost []*call
	for id, call := range c.pending {
		if id <= conn.hello.Resume.LastCall {
			lost = append(lost, call)
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	finishAll(lost, fmt.Errorf("the extension had to drop answers while it was not connected: %w", op.ErrReplyLost))
}

// resetLocked begins a reset: what is known of tabs may be wrong. With the
// worker gone, the calls that it had are lost. It returns what is to be done
// after the mutex was released.
func (c *Connector) resetLocked(reason ResetReason, workerGone bool) func() {
	c.resets++
	c.relay.meter.resets.add(string(reason), "")
	c.resetting, c.reason = c.resets, reason
	n := c.resets
	tabs := make([]*Tab, 0, len(c.tabs))
	for _, t := range c.tabs {
		tabs = append(tabs, t)
	}
	var lost []*call
	if workerGone {
		for _, call := range c.pending {
			lost = append(lost, call)
		}
		lost = append(lost, c.resend...)
		clear(c.pending)
		c.resend = nil
	}
	if reason == ResetBrowser {
		clear(c.tabs)
		clear(c.former)
		clear(c.moved)
		c.refused = nil // their ids mean nothing any more
	}
	c.bumpLocked()
	return func() {
		for _, t := range tabs {
			if reason == ResetBrowser {
				t.end("the browser was started again")
			} else {
				t.interrupt()
			}
		}
		what := "the extension's worker ended"
		if reason == ResetBrowser {
			what = "the browser was started again"
		}
		finishAll(lost, fmt.Errorf("%s before it answered: %w", what, op.ErrReplyLost))
		c.hooks.push(func() { c.resync(n, reason) })
	}
}

type resetKey struct{}

// resync reads the targets again and lets calls through. It runs among the
// hooks.
func (c *Connector) resync(n int, reason ResetReason) {
	c.mu.Lock()
	conn, current := c.conn, c.resetting == n
	c.mu.Unlock()
	if conn == nil || !current {
		return // the next connection, or the later reset, does it
	}
	ctx, cancel := context.WithTimeout(context.WithValue(conn.ctx, resetKey{}, true), c.relay.time.resync)
	defer cancel()
	if err := c.resyncTargets(ctx); err != nil {
		conn.fail(fmt.Errorf("reading the targets again: %w", err))
		return
	}
	if h := c.relay.opts.Hooks.Reset; h != nil {
		ctx, cancel := context.WithTimeout(context.WithValue(conn.ctx, resetKey{}, true), c.relay.time.hook)
		h(ctx, c, reason)
		cancel()
	}
	c.mu.Lock()
	// A hook that was cut short by the end of the connection has not read all.
	done := c.resetting == n && c.conn == conn && conn.ctx.Err() == nil
	if done {
		c.resetting = 0
		c.bumpLocked()
		conn.wakeWriter()
	}
	c.mu.Unlock()
	if done {
		for _, t := range c.knownTabs() {
			if t.leaseState() == cdpmodel.LeaseLeft {
				c.relay.wg.Go(t.look)
			}
		}
		c.relay.announce()
		c.announceLive()
	}
}

// close ends the connector for good.
func (c *Connector) close(reason error) {
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	c.closed = reason
	conn := c.conn
	written := make([]*call, 0, len(c.pending))
	for _, call := range c.pending {
		written = append(written, call)
	}
	written = append(written, c.resend...)
	unwritten := slices.Concat(c.urgent, c.queue)
	clear(c.pending)
	c.resend, c.urgent, c.queue, c.bytes = nil, nil, nil, 0
	tabs := make([]*Tab, 0, len(c.tabs))
	for _, t := range c.tabs {
		tabs = append(tabs, t)
	}
	clear(c.tabs)
	clear(c.former)
	c.bumpLocked()
	c.mu.Unlock()
	if conn != nil {
		conn.fail(reason)
	}
	finishAll(unwritten, fmt.Errorf("%w: %w", reason, op.ErrNotDelivered))
	finishAll(written, fmt.Errorf("%w before the answer came: %w", reason, op.ErrReplyLost))
	for _, t := range tabs {
		t.end(reason.Error())
	}
	c.hooks.close()
}

// hookQueue runs functions one after the other.
type hookQueue struct {
	mu     sync.Mutex
	queue  []func()
	spare  int // of queue, by offer
	closed bool
	wake   chan struct{}
}

func (q *hookQueue) push(fn func()) {
	q.mu.Lock()
	q.pushLocked(fn)
	q.mu.Unlock()
}

func (q *hookQueue) pushLocked(fn func()) {
	if !q.closed {
		q.queue = append(q.queue, fn)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// offer is push for what may be lost: no more than maxSpare wait.
func (q *hookQueue) offer(fn func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.spare >= maxSpare {
		return false
	}
	q.spare++
	q.pushLocked(fn)
	return true
}

func (q *hookQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// clear drops what waits.
func (q *hookQueue) clear() {
	q.mu.Lock()
	q.queue, q.spare = nil, 0
	q.mu.Unlock()
}

func (q *hookQueue) close() {
	q.mu.Lock()
	q.closed, q.queue = true, nil
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// runHooks is the connector's goroutine for hooks.
func (c *Connector) runHooks() {
	q, loop := &c.hooks, &c.relay.meter.hookLoop
	defer loop.enter()()
	for {
		q.mu.Lock()
		batch, closed := q.queue, q.closed
		q.queue, q.spare = nil, 0
		q.mu.Unlock()
		if closed {
			return
		}
		start := time.Now()
		for _, fn := range batch {
			fn()
			start = loop.turn(start)
		}
		if len(batch) == 0 {
			<-q.wake
		}
	}
}
