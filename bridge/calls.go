package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of calls.
const (
	maxCalls     = 8192     // of one connector without an answer
	maxCallBytes = 64 << 20 // of arguments that wait to be written
	callBound    = 30 * time.Second
	longBound    = 120 * time.Second // of calls that wait for the page's own work
)

// boundOf is the longest that one call may take, whatever its operation
// allows: a call to a frozen tab never answers.
func boundOf(method string) time.Duration {
	switch method {
	case "Runtime.evaluate", "Runtime.callFunctionOn", "Runtime.awaitPromise", "Page.printToPDF", "Page.captureScreenshot":
		return longBound
	}
	return callBound
}

// callState is how far a call is. It only rises.
type callState int

const (
	callQueued  callState = iota // no socket has seen it
	callWritten                  // a socket took it, or may have
	callDone                     // answered or given up; the reply may still be on its way to the caller
)

// call is one call of the allow-list.
type call struct {
	name   string // "debugger.sendCommand"
	what   string // for messages: "Page.navigate on tab 7"
	args   []byte // a JSON array
	urgent bool   // of a reset: it is sent while others wait
	tab    *Tab   // whose stream the reply is a part of; nil for none
	// command and child are set for a command to a debugger session, which
	// ends with it.
	command string // "Page.navigate"
	child   string // the child session, "" for the tab itself
	bound   time.Duration
	// apply runs when the reply's turn has come, before the caller is told:
	// on the tab's goroutine, or on the connection's reader. It may be nil.
	apply func(result json.RawMessage, err error)

	// Guarded by Connector.mu.
	id    uint64
	state callState
	since time.Time

	done   chan struct{} // closed when result and err are set
	result json.RawMessage
	err    error
	ended  bool // Chrome said that the debugger is not attached
}

// finish hands the reply, or the error in its place, to the tab's stream or to
// the caller.
func (k *call) finish(f *wire.ReplyFrame, err error) {
	if f != nil {
		if f.Error != nil {
			err = k.chromeError(f.Error)
		} else {
			k.result = f.Result
		}
	}
	k.err = err
	if k.tab != nil && k.tab.push(item{call: k}) {
		return
	}
	k.deliver()
}

func (k *call) deliver() {
	if k.ended {
		k.tab.sessionEnded()
	}
	if k.apply != nil {
		k.apply(k.result, k.err)
	}
	close(k.done)
}

func finishAll(calls []*call, err error) {
	slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	for _, k := range calls {
		k.finish(nil, fmt.Errorf("%s: %w", k.what, err))
	}
}

// chromeError turns an error reply into the error of the call. Chrome gives
// the error of a debugger command as JSON text.
func (k *call) chromeError(e *wire.CallError) error {
	switch {
	case e.Code == wire.NotAllowed:
		return fmt.Errorf("%s: the extension refused the call: %s: %w", k.what, clip(e.Message), op.ErrNotDelivered)
	case e.Code == "too-large":
		return fmt.Errorf("%s: the answer is larger than %d MB: %w", k.what, wire.FrameBytes>>20, op.ErrReplyLost)
	}
	method := k.name
	if k.command != "" {
		method = k.command
		if err := detachedError(e.Message); err != nil {
			k.ended = true // the tab's session, and with it the child's
			return fmt.Errorf("%s: %w", k.what, err)
		}
	}
	p := &op.ProtocolError{Method: method, Message: e.Message}
	var cdp struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	if json.Unmarshal([]byte(e.Message), &cdp) == nil && cdp.Message != "" {
		p.Code, p.Message = cdp.Code, cdp.Message
		if s, ok := cdp.Data.(string); ok && s != "" {
			p.Message += " (" + s + ")"
		}
	}
	if k.child != "" && strings.HasPrefix(p.Message, "Session with given id not found") {
		return fmt.Errorf("%s: its frame is gone: %w: %w", k.what, op.ErrDetached, op.ErrNotDelivered)
	}
	return p
}

// do queues the call and waits for its reply. ctx never reaches the socket: a
// canceled caller returns at once, and a call that no socket has seen is
// withdrawn. The error tells which: it wraps op.ErrNotDelivered or
// op.ErrReplyLost, or is Chrome's own.
func (c *Connector) do(ctx context.Context, k *call) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", k.what, context.Cause(ctx), op.ErrNotDelivered)
	}
	if err := c.enqueue(ctx, k); err != nil {
		return nil, err
	}
	bound := time.NewTimer(k.bound)
	defer bound.Stop()
	for {
		offline, changed := c.patience(k)
		select {
		case <-k.done:
			return k.result, k.err
		case <-ctx.Done():
			return c.abandon(k, context.Cause(ctx))
		case <-bound.C:
			return c.abandon(k, fmt.Errorf("no answer within %s", k.bound))
		case <-changed:
		case <-offline:
			return c.abandon(k, fmt.Errorf("%w: the profile %q is not connected any more", op.ErrOffline, c.Label()))
		}
	}
}

func (c *Connector) enqueue(ctx context.Context, k *call) error {
	if k.bound == 0 {
		k.bound = callBound
	}
	k.done = make(chan struct{})
	k.urgent = ctx.Value(resetKey{}) != nil
	if len(k.args)+256 > wire.FrameBytes {
		return fmt.Errorf("%s: the call is larger than %d MB: %w", k.what, wire.FrameBytes>>20, op.ErrNotDelivered)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed != nil:
		return fmt.Errorf("%s: %w: %w", k.what, c.closed, op.ErrNotDelivered)
	case len(c.queue)+len(c.pending)+len(c.resend)+len(c.urgent) >= maxCalls:
		return fmt.Errorf("%s: %d calls wait for an answer already: %w", k.what, maxCalls, op.ErrNotDelivered)
	case c.bytes+len(k.args) > maxCallBytes:
		return fmt.Errorf("%s: calls of %d MB wait to be written already: %w", k.what, maxCallBytes>>20, op.ErrNotDelivered)
	}
	k.since = time.Now()
	c.bytes += len(k.args)
	if k.urgent {
		c.urgent = append(c.urgent, k)
	} else {
		c.queue = append(c.queue, k)
	}
	if c.conn != nil {
		c.conn.wakeWriter()
	}
	return nil
}

// patience returns a channel that fires when the connector has been away for
// too long, nil while it is there, and one that is closed when that changes.
func (c *Connector) patience(k *call) (offline <-chan time.Time, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return nil, c.changed
	}
	from := c.since
	if k.state == callQueued && k.since.After(from) {
		from = k.since
	}
	return time.After(time.Until(from.Add(c.relay.time.grace))), c.changed
}

// abandon ends the wait for a call. A call that no socket has seen is
// withdrawn; one that was written may have an effect all the same.
func (c *Connector) abandon(k *call, why error) (json.RawMessage, error) {
	c.mu.Lock()
	select {
	case <-k.done:
		c.mu.Unlock()
		return k.result, k.err
	default:
	}
	state := k.state
	if state == callQueued {
		remove := func(q []*call) []*call {
			if i := slices.Index(q, k); i >= 0 {
				c.bytes -= len(k.args)
				return slices.Delete(q, i, i+1)
			}
			return q
		}
		c.queue, c.urgent = remove(c.queue), remove(c.urgent)
	} else {
		// Never sent again: nobody waits for it any more.
		delete(c.pending, k.id)
		if i := slices.Index(c.resend, k); i >= 0 {
			c.resend = slices.Delete(c.resend, i, i+1)
		}
	}
	c.mu.Unlock()
	if state == callQueued {
		return nil, fmt.Errorf("%s: %w: %w", k.what, why, op.ErrNotDelivered)
	}
	return nil, fmt.Errorf("%s: %w: %w", k.what, why, op.ErrReplyLost)
}

// resendLocked puts back the calls that the worker never received, with their
// ids: it is the same worker and says which was the last.
func (c *Connector) resendLocked(lastCall uint64) {
	again := c.resend
	for id, k := range c.pending {
		if id > lastCall {
			again = append(again, k)
			delete(c.pending, id)
		}
	}
	slices.SortFunc(again, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	c.resend = again
}

// nextFrame returns the next frame to write, nil when there is none.
func (c *Connector) nextFrame(conn *connection, buf []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		return nil
	}
	if conn.ackDue || conn.pingDue {
		ping := conn.pingDue
		conn.ackDue, conn.pingDue, conn.unacked, conn.unackedBytes = false, false, 0, 0
		if ping {
			return wire.AppendPing(buf, c.lastSeq)
		}
		return wire.AppendAck(buf, c.lastSeq)
	}
	var k *call
	switch {
	case len(c.resend) > 0: // before all others, since ids rise
		k = c.resend[0]
		c.resend = c.resend[1:]
	case len(c.urgent) > 0:
		k = c.urgent[0]
		c.urgent = c.urgent[1:]
	case len(c.queue) > 0 && c.resetting == 0:
		k = c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
	default:
		return nil
	}
	if k.state == callQueued {
		c.lastCall++
		k.id, k.state = c.lastCall, callWritten
		c.bytes -= len(k.args)
	}
	c.pending[k.id] = k
	return wire.AppendCall(buf, k.id, k.name, k.args)
}

var errSilent = errors.New("the extension does not answer a ping")

// writeLoop writes frames until the connection ends and returns why it did.
func (c *Connector) writeLoop(conn *connection) error {
	const tick = time.Second
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	lastPing := time.Now()
	var waiting bool // for anything after lastPing
	var buf []byte
	for {
		for {
			frame := c.nextFrame(conn, buf[:0])
			if frame == nil {
				break
			}
			ctx, cancel := context.WithTimeout(conn.ctx, c.relay.time.write)
			err := conn.sock.Write(ctx, frame)
			cancel()
			if err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			if buf = frame; cap(buf) > 1<<20 {
				buf = nil // do not hold on to the largest frame there ever was
			}
		}
		select {
		case <-conn.ctx.Done():
			return context.Cause(conn.ctx)
		case <-conn.wake:
		case now := <-ticker.C:
			heard := conn.began.Add(time.Duration(conn.heardAt.Load()))
			switch {
			case waiting && !heard.Before(lastPing):
				waiting = false
			case waiting && now.Sub(lastPing) >= c.relay.time.pong:
				return errSilent
			}
			if now.Sub(lastPing) >= wire.PingInterval {
				lastPing, waiting = now, true
				c.mu.Lock()
				conn.pingDue = true
				c.mu.Unlock()
			}
		}
	}
}

// Chrome makes one call of the allow-list, such as "tabs.get". The arguments
// are encoded with encoding/json. An error of the browser is an
// *op.ProtocolError.
func (c *Connector) Chrome(ctx context.Context, name string, args ...any) (json.RawMessage, error) {
	return c.chrome(ctx, name, nil, args...)
}

func (c *Connector) chrome(ctx context.Context, name string, apply func(json.RawMessage, error), args ...any) (json.RawMessage, error) {
	if !slices.Contains(wire.Contract.Calls, name) {
		return nil, fmt.Errorf("%s is not a call of the contract: %w", name, op.ErrNotDelivered)
	}
	if args == nil {
		args = []any{}
	}
	raw, err := wire.Encode(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, err, op.ErrNotDelivered)
	}
	return c.do(ctx, &call{name: name, what: name, args: raw, apply: apply})
}
