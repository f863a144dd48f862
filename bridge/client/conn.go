package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

const (
	handshakeLimit = 3 * time.Second
	writeLimit     = 10 * time.Second
)

// conn is one authenticated socket.
type conn struct {
	ws          *websocket.Conn
	ready       wire.OwnerReady
	fingerprint string        // of the owner's contract
	done        chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	waiters map[string]*waiter
}

type waiter struct {
	result   chan *wire.Result
	progress chan *wire.Progress
}

// absentError says that nothing listens, or that an owner is just ending: it is
// worth trying again.
type absentError struct {
	err     error
	hungUp  bool // something took the connection and ended it
	refuses bool // something is there and says that it is unavailable
}

func (e *absentError) Error() string { return e.err.Error() }
func (e *absentError) Unwrap() error { return e.err }

// slowError says that a listener took the connection and then was silent.
type slowError struct{ err *op.Error }

func (e *slowError) Error() string { return e.err.Error() }
func (e *slowError) Unwrap() error { return e.err }

// foreign is the error of a listener that is not the owner of our state
// folder.
func foreign(opts Options, why string) *op.Error {
	return op.NotAvailable(op.PortTaken, "port %d of 127.0.0.1 is taken by something that is not the owner of %s: %s", opts.Port, opts.StateDir, why).
		WithHint("If another pi-chrome owner has it, use its state folder (--state-dir). Otherwise end that program, or choose another port with --port or PI_CHROME_PORT and install the extension for it (pi-chrome extension install --port).").
		WithDetail("port", opts.Port).WithDetail("stateDir", opts.StateDir)
}

// open makes one connection and proves both sides. It fails with
// *absentError when nothing is there, and with *op.Error otherwise.
func open(ctx context.Context, opts Options) (*conn, error) {
	secret, err := bridge.LoadCredential(opts.StateDir)
	if err != nil && errors.Is(err, bridge.ErrNoCredential) {
		return openWithout(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	// A transport of our own: no proxy may come between us and loopback.
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableCompression: true, DisableKeepAlives: true}
	ws, resp, err := websocket.Dial(ctx, "ws://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(opts.Port))+"/owner",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, dialError(ctx, opts, resp, err)
	}
	ws.SetReadLimit(wire.HandshakeBytes)
	ready, fingerprint, err := handshake(ctx, opts, secret, ws)
	if err != nil {
		_ = ws.CloseNow() // the handshake's error says it all
		return nil, err
	}
	ws.SetReadLimit(wire.FrameBytes + 1024)
	c := &conn{ws: ws, ready: *ready, fingerprint: fingerprint, done: make(chan struct{}), waiters: map[string]*waiter{}}
	go c.read()
	return c, nil
}

// openWithout tells whether anything listens although no owner has ever
// written a credential here.
func openWithout(ctx context.Context, opts Options) (*conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(opts.Port)))
	if err != nil {
		return nil, &absentError{err: err}
	}
	_ = c.Close() // only asked whether somebody is there
	if _, err := bridge.LoadCredential(opts.StateDir); !errors.Is(err, bridge.ErrNoCredential) {
		return nil, &absentError{err: errors.New("the owner there has just begun")}
	}
	return nil, foreign(opts, "no owner has run with that state folder")
}

// dialError sorts the errors of a connection; the numbers are Windows' own
// for refused and reset.
func dialError(ctx context.Context, opts Options, resp *http.Response, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.Errno(10061)):
		return &absentError{err: err}
	case resp != nil && resp.StatusCode == http.StatusServiceUnavailable: // as an owner does that ends
		return &absentError{err: err, refuses: true}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.Errno(10054)):
		return &absentError{err: err, hungUp: true} // it may be an owner that ends
	case strings.Contains(err.Error(), "http: server closed idle connection"):
		return &absentError{err: err, hungUp: true} // the same, of which net/http has no value to compare with
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
			return op.NotAvailable(op.Canceled, "connecting to the owner was canceled; nothing was sent").WithCause(cause)
		}
		return &slowError{foreign(opts, fmt.Sprintf("it did not answer within %s", handshakeLimit)).WithCause(err)}
	case resp != nil && resp.StatusCode == http.StatusForbidden:
		e := foreign(opts, "it answers only to who names another port, as the owner of another machine does behind a forwarded one").WithCause(err)
		return e.WithHint("Forward the owner's port under the same number on both sides. %s", e.Hint)
	case resp != nil:
		return foreign(opts, fmt.Sprintf("it answers %q to a WebSocket on /owner", resp.Status)).WithCause(err)
	}
	return foreign(opts, err.Error()).WithCause(err)
}

func handshake(ctx context.Context, opts Options, secret string, ws *websocket.Conn) (*wire.OwnerReady, string, error) {
	nonce := wire.NewSecret()
	hello := wire.OwnerHello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(),
		Operations: opts.Operations, Client: opts.Name, ClientNonce: nonce, Build: opts.Build}
	v, err := ask(ctx, opts, ws, hello)
	if err != nil {
		return nil, "", err
	}
	ch, ok := v.(*wire.Challenge)
	if !ok {
		return nil, "", foreign(opts, fmt.Sprintf("it answers %T to a hello", v))
	}
	want, err := wire.ServerProof(wire.ScopeOwner, secret, wire.Identity{}, nonce, ch.BridgeEpoch, ch.RequestNonce, ch.ServerFingerprint)
	if err != nil {
		return nil, "", op.NotAvailable(op.CredentialUnreadable, "the owner credential cannot be used: %s", err)
	}
	if !wire.EqualProof(want, ch.Proof) {
		return nil, "", foreign(opts, "it cannot prove that it holds the owner credential")
	}
	proof, err := wire.SocketProof(wire.ScopeOwner, secret, wire.Identity{}, ch.BridgeEpoch, ch.RequestNonce, hello.Fingerprint)
	if err != nil {
		return nil, "", op.NotAvailable(op.CredentialUnreadable, "the owner credential cannot be used: %s", err)
	}
	v, err = ask(ctx, opts, ws, wire.Prove{Type: wire.TypeProve, Proof: proof})
	if err != nil {
		return nil, "", err
	}
	ready, ok := v.(*wire.OwnerReady)
	if !ok {
		return nil, "", foreign(opts, fmt.Sprintf("it answers %T to a proof", v))
	}
	return ready, ch.ServerFingerprint, nil
}

// ask writes one frame of the handshake and reads the next.
func ask(ctx context.Context, opts Options, ws *websocket.Conn, frame any) (any, error) {
	b, err := wire.Encode(frame)
	if err != nil {
		return nil, op.Invalidf("the handshake cannot be encoded: %s", err)
	}
	if err := ws.Write(ctx, websocket.MessageText, b); err != nil {
		return nil, dialError(ctx, opts, nil, err)
	}
	_, raw, err := ws.Read(ctx)
	if err != nil {
		if websocket.CloseStatus(err) != -1 {
			return nil, &absentError{err: err}
		}
		return nil, dialError(ctx, opts, nil, err)
	}
	v, err := wire.DecodeForClient(raw)
	if err != nil {
		return nil, foreign(opts, err.Error()).WithCause(err)
	}
	r, ok := v.(*wire.Refused)
	if !ok {
		return v, nil
	}
	switch r.Code {
	case wire.RefuseShutDown, wire.RefuseCrowded:
		return nil, &absentError{err: errors.New(r.Message)}
	case wire.RefuseVersion:
		return nil, op.NotAvailable(op.VersionMismatch, "the owner of port %d refused this program: %s", opts.Port, r.Message).
			WithHint("Use the pi-chrome that started it, or end that owner.")
	}
	return nil, op.NotAvailable(op.BridgeUnavailable, "the owner of port %d refused this program (%s): %s", opts.Port, r.Code, r.Message).
		WithHint("Check that --state-dir is the owner's own.")
}

// read is the reader's goroutine.
func (c *conn) read() {
	defer close(c.done)
	defer c.ws.CloseNow() // after the loop nothing is worth a close frame
	for {
		kind, raw, err := c.ws.Read(context.Background())
		if err != nil || kind != websocket.MessageText {
			return
		}
		v, err := wire.DecodeForClient(raw)
		if err != nil {
			return // no later frame can be trusted
		}
		switch f := v.(type) {
		case *wire.Result:
			if w := c.waiter(f.ID); w != nil {
				select {
				case w.result <- f:
				default: // it has its answer
				}
			}
		case *wire.Progress:
			if w := c.waiter(f.ID); w != nil {
				select {
				case w.progress <- f:
				default: // the caller is slow; later progress says more
				}
			}
		}
	}
}

func (c *conn) waiter(id string) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters[id]
}

func (c *conn) expect(id string) (*waiter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[id] != nil {
		return nil, op.Invalidf("command id %q is under way already", id)
	}
	w := &waiter{result: make(chan *wire.Result, 1), progress: make(chan *wire.Progress, 16)}
	c.waiters[id] = w
	return w, nil
}

func (c *conn) forget(id string, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[id] == w {
		delete(c.waiters, id)
	}
}

// write sends one frame. Its bound is the connection's, never a caller's: an
// ended context would close the socket for everybody.
func (c *conn) write(frame []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, frame)
}

// cancel tells the owner that nobody waits for the command any more. It is
// best effort: a lost connection cancels it too.
func (c *conn) cancel(id string) {
	b, err := wire.Encode(wire.Cancel{Type: wire.TypeCancel, ID: id})
	if err == nil {
		_ = c.write(b)
	}
}

func (c *conn) lost() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// leave ends the connection and tells the owner that nobody comes back.
func (c *conn) leave() {
	if !c.lost() {
		_ = c.ws.Close(websocket.StatusNormalClosure, "") // it may break just now
	}
	c.close()
}

// close ends the connection and waits for its reader.
func (c *conn) close() {
	_ = c.ws.CloseNow() // it may be closed already
	<-c.done
}
