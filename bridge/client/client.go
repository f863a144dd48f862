// Package client speaks to the owner of the port over its authenticated
// socket: it checks the owner's proof and gives its own, starts an owner when
// none answers, and tells truthfully what became of a command whose owner
// died.
//
// # Concurrency
//
// A [Client] may be used from many goroutines. Each connection has one reader
// goroutine; [Client.Close] waits for it.
package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Options say which owner to speak to. Port and StateDir are required.
type Options struct {
	Port     int    // of 127.0.0.1
	StateDir string // holds owner-credential.json
	// Start starts an owner in the background and returns without waiting for
	// it to be ready. Nil: an owner that does not answer is an error
	// (op.BridgeUnavailable).
	Start func(ctx context.Context) error
	// Name says who calls, such as "pi-chrome 0.1.0"; the owner shows it in
	// its status.
	Name string
	// Version, Build and Operations are of this binary. An owner with another
	// fingerprint of operations is drained when it is older and leads to
	// op.VersionMismatch when it is newer. Operations "" skips the check.
	Version    string
	Build      time.Time
	Operations string
	// EffectOf returns the class of one call, so that a read whose answer is
	// lost is told as one without effect. Nil: every command may have had one.
	EffectOf func(operation string, input json.RawMessage) op.Effect
	// ReadyTimeout bounds how long Dial waits for a started owner (10 s).
	ReadyTimeout time.Duration
	Logger       *slog.Logger // nil for none
}

// Outcome is what a command came to.
type Outcome struct {
	CommandID string
	Result    op.Result
	Elapsed   time.Duration // as the owner measured it
}

// Progress is told of a long command. It runs on the goroutine of the call.
type Progress func(done, total int, note string)

const (
	readyTimeout = 10 * time.Second
	// cancelWait is how long a canceled caller waits for the owner to say
	// that the command had not started.
	cancelWait = 100 * time.Millisecond
	// commandLimit ends the wait for an owner that neither answers nor dies.
	commandLimit = 10 * time.Minute
	recoverLimit = 20 * time.Second
	// recoveries is how many owners, or sockets to one, may be lost under one
	// command.
	recoveries = 3
)

// Client is one program's connection to an owner. It reconnects by itself,
// starting a new owner when the old one is gone.
type Client struct {
	opts Options
	log  *slog.Logger

	dialing chan struct{} // holds one token: who has it may connect
	mu      sync.Mutex
	conn    *conn
	closed  bool
}

// Dial connects to the owner and verifies its proof. It starts an owner when
// none answers. Errors are *op.Error: op.PortTaken for a listener that cannot
// prove itself, op.CredentialUnreadable, op.VersionMismatch,
// op.BridgeUnavailable, or what the started owner failed with.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	if opts.ReadyTimeout <= 0 {
		opts.ReadyTimeout = readyTimeout
	}
	c := &Client{opts: opts, log: opts.Logger, dialing: make(chan struct{}, 1)}
	c.dialing <- struct{}{}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if _, err := c.connection(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Owner returns what the owner said of itself when the connection was made.
func (c *Client) Owner() wire.OwnerReady {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return wire.OwnerReady{}
	}
	return c.conn.ready
}

// connection returns the live connection, making a new one when it is lost.
func (c *Client) connection(ctx context.Context) (*conn, error) {
	select {
	case <-c.dialing:
	case <-ctx.Done():
		return nil, op.NotAvailable(op.Canceled, "connecting to the owner was canceled; nothing was sent").WithCause(ctx.Err())
	}
	defer func() { c.dialing <- struct{}{} }()
	c.mu.Lock()
	old, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, op.NotAvailable(op.BridgeUnavailable, "this connection to the owner was closed; nothing was sent")
	}
	if old != nil {
		if !old.lost() {
			return old, nil
		}
		old.close()
	}
	next, err := c.reach(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		next.close()
		return nil, op.NotAvailable(op.BridgeUnavailable, "this connection to the owner was closed; nothing was sent")
	}
	c.conn = next
	return next, nil
}

// Command sends a command and waits for its outcome. The error is an
// *op.Error. An empty ID gets a new one; a known ID is never run twice. When
// ctx ends the command is canceled and Command returns at once. When only the
// socket breaks, Command connects again and returns the real outcome. When the
// owner dies, Command asks the next one what became of the command and never sends
// again what may have begun. A read, as Options.EffectOf has it, is never
// outcome-unknown: without an answer it is op.Unavailable. progress may be nil.
func (c *Client) Command(ctx context.Context, cmd wire.Command, progress Progress) (Outcome, error) {
	if cmd.ID == "" {
		cmd.ID = NewID()
	}
	cmd.Type = wire.TypeCommand
	out := Outcome{CommandID: cmd.ID}
	frame, err := wire.Encode(cmd)
	if err != nil {
		return out, op.Invalidf("the command cannot be encoded: %s", err)
	}
	if len(frame) > wire.FrameBytes {
		return out, op.Invalidf("the command has %d bytes; at most %d are allowed", len(frame), wire.FrameBytes)
	}
	cn, err := c.connection(ctx)
	if err != nil {
		return out, err
	}
	sent := message{id: cmd.ID, frame: frame, reads: c.opts.EffectOf != nil && c.opts.EffectOf(cmd.Operation, cmd.Input) == op.ReadOnly}
	heard := false
	tell := func(done, total int, note string) {
		heard = true
		if progress != nil {
			progress(done, total, note)
		}
	}
	res, err := c.exchange(ctx, cn, sent, tell)
	for range recoveries {
		if !errors.Is(err, errLost) {
			break
		}
		res, cn, err = c.recover(ctx, cn, sent, heard, tell)
	}
	if errors.Is(err, errLost) {
		err = sent.blind(err)
	}
	if err != nil {
		return out, err
	}
	return finish(out, res)
}

func finish(out Outcome, res *wire.Result) (Outcome, error) {
	out.Elapsed = time.Duration(res.ElapsedMs) * time.Millisecond
	if !res.OK {
		return out, errorOf(res.Error)
	}
	out.Result = op.Result{Value: res.Value, Text: res.Text}
	return out, nil
}

func errorOf(f *wire.Failure) *op.Error {
	return &op.Error{Kind: op.Kind(f.Kind), Code: op.Code(f.Code), Message: f.Message, Hint: f.Hint, Details: f.Details}
}

// message is one frame that wants an answer.
type message struct {
	id    string
	frame []byte
	reads bool // it has no effect
}

// unanswered is the error of a message that was sent and whose answer did not
// come: why says what happened. What only reads had no effect and may be sent again;
// of the rest nobody knows.
func (m message) unanswered(code op.Code, hint, why string, args ...any) *op.Error {
	why = fmt.Sprintf(why, args...)
	if m.reads {
		return op.NotAvailable(code, "%s; it only reads, so nothing was changed", why).WithHint("Send it again.")
	}
	return op.Unknown(code, "%s: it may have had its effect", why).WithHint("%s", hint)
}

// errLost says that the connection ended before the answer came.
var errLost = errors.New("the connection to the owner was lost")

// exchange sends a message and waits for the result with its id.
func (c *Client) exchange(ctx context.Context, cn *conn, m message, progress Progress) (*wire.Result, error) {
	w, err := cn.expect(m.id)
	if err != nil {
		return nil, err
	}
	defer cn.forget(m.id, w)
	if ctx.Err() != nil {
		return nil, op.Reject(op.Canceled, "the call was canceled before it was sent; nothing was done").WithCause(ctx.Err())
	}
	if err := cn.write(m.frame); err != nil {
		cn.close() // its reader may not know yet, and nobody is to ask on it what became of the message
		return nil, errLost
	}
	return c.await(ctx, cn, m, w, progress, commandLimit)
}

// await waits for the result of a message that was sent.
func (c *Client) await(ctx context.Context, cn *conn, m message, w *waiter, progress Progress, most time.Duration) (*wire.Result, error) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	for {
		select {
		case res := <-w.result:
			return res, nil
		case p := <-w.progress:
			if progress != nil {
				progress(p.Done, p.Total, p.Note)
			}
		case <-cn.done:
			select {
			case res := <-w.result: // it came before the end
				return res, nil
			default:
				return nil, errLost
			}
		case <-ctx.Done():
			return c.giveUp(ctx, cn, m, w)
		case <-limit.C:
			cn.cancel(m.id)
			return nil, m.unanswered(op.DeadlineExceeded, "Look at pi-chrome doctor; ask later with the command's id "+m.id+".", "the owner did not answer in %s", most)
		}
	}
}

// giveUp cancels the command of a caller that has gone. It waits a moment for
// the owner to say that the command had not begun.
func (c *Client) giveUp(ctx context.Context, cn *conn, m message, w *waiter) (*wire.Result, error) {
	cn.cancel(m.id)
	t := time.NewTimer(cancelWait)
	defer t.Stop()
	select {
	case res := <-w.result:
		return res, nil
	case <-cn.done:
	case <-t.C:
	}
	code := op.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = op.DeadlineExceeded
	}
	return nil, m.unanswered(code, "Ask later what became of it: its id is "+m.id+".", "the caller stopped waiting, and the command was canceled after it may have begun").WithCause(ctx.Err())
}

// blind is the error of a message whose owner was lost when no other could be
// asked what became of it.
func (m message) blind(cause error) *op.Error {
	return m.unanswered(op.BridgeStopped, "When an owner runs again, ask with the command's id "+m.id+", or look at the page before you repeat it.",
		"the owner ended while the command was under way, and no owner could be asked what became of it (%s)", cause).WithCause(cause)
}

// recover finds out what became of a command whose owner, or only the socket to
// it, was lost: before is the connection that it was sent on. It returns the
// connection that it asked on, with errLost when that was lost too. heard says
// whether an owner has told something of the command.
func (c *Client) recover(ctx context.Context, before *conn, m message, heard bool, progress Progress) (*wire.Result, *conn, error) {
	rctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	cn, err := c.connection(rctx)
	if err != nil {
		return nil, before, m.blind(err)
	}
	var known bridge.CommandOutcome
	if err := c.request(rctx, cn, "outcome", bridge.OutcomeParams{ID: m.id}, &known); err != nil {
		if errors.Is(err, errLost) {
			return nil, before, err // cn has told nothing, so before is still what it was sent on
		}
		return nil, before, m.blind(err)
	}
	switch known.State {
	case "done":
		v, err := wire.DecodeForClient(known.Result)
		res, ok := v.(*wire.Result)
		if err != nil || !ok {
			return nil, cn, m.blind(fmt.Errorf("the outcome cannot be read: %w", err))
		}
		return res, cn, nil
	case "queued", "executing":
		// The owner lives; only the connection broke. The same id joins the
		// command and never starts a second one.
	default:
		// What may mutate is in the journal before it begins, so it has not
		// begun, and the id keeps it from running twice. The same owner never
		// got the frame, or it was a read whose answer was lost. Another one
		// takes what the dead one never spoke of, as if it had been there
		// first; what had waited there is for its caller to send again.
		if heard && cn.ready.BridgeEpoch != before.ready.BridgeEpoch {
			return nil, cn, op.NotAvailable(op.BridgeStopped, "the owner ended before the command had any effect").
				WithHint("Send it again: a new owner is running.")
		}
	}
	res, err := c.exchange(ctx, cn, m, progress)
	return res, cn, err
}

// Request asks the owner for what is not an operation, such as "status", and
// decodes the answer into out, which may be nil. The error is an *op.Error.
func (c *Client) Request(ctx context.Context, method string, params, out any) error {
	cn, err := c.connection(ctx)
	if err != nil {
		return err
	}
	err = c.request(ctx, cn, method, params, out)
	if errors.Is(err, errLost) {
		return message{reads: lookups[method]}.unanswered(op.BridgeStopped, "Look at pi-chrome status before you repeat it.", "the owner ended while it answered %q", method)
	}
	return err
}

// lookups are the requests that change nothing.
var lookups = map[string]bool{"owner": true, "status": true, "sessions": true, "running": true, "doctor": true, "outcome": true, "pairing.status": true, "pairing.wait": true}

func (c *Client) request(ctx context.Context, cn *conn, method string, params, out any) error {
	req := wire.Request{Type: wire.TypeRequest, ID: NewID(), Method: method}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return op.Invalidf("the request %s cannot be encoded: %s", method, err)
		}
		req.Params = raw
	}
	frame, err := wire.Encode(req)
	if err != nil {
		return op.Invalidf("the request %s cannot be encoded: %s", method, err)
	}
	res, err := c.exchange(ctx, cn, message{id: req.ID, frame: frame, reads: lookups[method]}, nil)
	if err != nil {
		return err
	}
	if !res.OK {
		return errorOf(res.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(res.Value, out); err != nil {
		return op.NotAvailable(op.VersionMismatch, "the owner's answer to %q cannot be read: %s", method, err)
	}
	return nil
}

// Close ends the connection. Commands that still run are canceled by the
// owner.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	cn := c.conn
	c.mu.Unlock()
	if cn != nil {
		cn.leave()
	}
	return nil
}

// CloseNow ends the connection as Close does, without waiting for the owner to
// take note: for a program that has no time.
func (c *Client) CloseNow() {
	c.mu.Lock()
	c.closed = true
	cn := c.conn
	c.mu.Unlock()
	if cn != nil {
		cn.close()
	}
}

// NewID returns a random UUID for a command.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
