package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of one program's connection.
const (
	writeTimeout    = 10 * time.Second // of one frame, then the program counts as gone
	outgoingBytes   = 64 << 20         // not yet written
	outgoingNotes   = 64               // frames waiting beyond which progress is dropped
	maxClientOpen   = 256              // commands and requests of one connection that are not answered
	socketCloseWait = time.Second
)

// frames is a socket of whole text frames: a WebSocket, or a pipe in tests.
type frames interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, frame []byte) error
	// Limit bounds the frames read from now on, in bytes.
	Limit(n int64)
	Close() error
}

type webSocket struct{ conn *websocket.Conn }

func (w webSocket) Read(ctx context.Context) ([]byte, error) {
	kind, b, err := w.conn.Read(ctx)
	if err == nil && kind != websocket.MessageText {
		return nil, errors.New("a binary frame")
	}
	return b, err
}

func (w webSocket) Write(ctx context.Context, b []byte) error {
	return w.conn.Write(ctx, websocket.MessageText, b)
}

func (w webSocket) Limit(n int64) { w.conn.SetReadLimit(n) }
func (w webSocket) Close() error  { return w.conn.CloseNow() }

// client is one authenticated program. Its reader is the goroutine that calls
// serve; a second goroutine writes, so that a slow program never holds up a
// command.
type client struct {
	srv    *Server
	conn   frames
	name   string
	number int
	since  time.Time
	ctx    context.Context // of the connection
	cancel context.CancelFunc

	mu       sync.Mutex
	out      [][]byte
	outBytes int
	ending   bool // nothing more is queued; the writer closes when it is through
	wake     chan struct{}
	requests map[string]context.CancelFunc
	open     int
}

func (s *Server) serveOwner(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		refuse(w, http.StatusServiceUnavailable, "the owner is ending")
		return
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the route refuses every Origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		s.log.Debug("accepting a program", "err", err)
		return
	}
	s.serveClient(webSocket{conn}, func() { proven(r.Context()) })
}

// serveClient speaks with one program until its socket ends. proven is called
// once it has proved the credential.
func (s *Server) serveClient(conn frames, proven func()) {
	defer conn.Close()
	conn.Limit(wire.HandshakeBytes)
	hello, err := s.handshake(conn)
	if err != nil {
		s.log.Info("program refused", "err", err)
		return
	}
	proven()
	conn.Limit(wire.FrameBytes)
	// Not the server's context: when the server ends, the last answers are
	// still written before the socket closes.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &client{srv: s, conn: conn, name: hello.Client, since: time.Now(), ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), requests: map[string]context.CancelFunc{}}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.connCount++
	c.number = s.connCount
	s.clients[c] = struct{}{}
	s.lastBusy = time.Now()
	s.mu.Unlock()

	var writer sync.WaitGroup
	writer.Go(c.write)
	c.send(wire.OwnerReady{Type: wire.TypeReady, ConnectionID: wire.NewSecret()[:16], Generation: c.number,
		Version: s.info.Version, Build: s.info.Build, Operations: s.info.Operations, BridgeEpoch: s.info.BridgeEpoch,
		PID: s.info.PID, StateDir: s.info.StateDir})
	err = c.read(ctx)
	s.log.Debug("program gone", "client", c.name, "number", c.number, "err", err)

	s.mu.Lock()
	delete(s.clients, c)
	s.lastBusy = time.Now()
	s.mu.Unlock()
	grace := orphanGrace
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		grace = 0
	}
	s.abandon(c, grace)
	cancel()
	writer.Wait()
}

// handshake proves the owner to the program and checks the program's proof.
func (s *Server) handshake(conn frames) (*wire.OwnerHello, error) {
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTimeout)
	defer cancel()
	refuse := func(code wire.RefusalCode, err error) (*wire.OwnerHello, error) {
		s.meter.refusals.add("/owner", string(code))
		// Best effort: the other side may be gone.
		if b, eerr := wire.Encode(wire.Refused{Type: wire.TypeRefused, Code: code, Message: err.Error()}); eerr == nil {
			_ = conn.Write(ctx, b)
		}
		return nil, fmt.Errorf("%s: %w", code, err)
	}
	raw, err := conn.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading hello: %w", err)
	}
	head, err := wire.PeekHello(raw)
	if err != nil {
		return refuse(wire.RefuseMalformed, err)
	}
	if head.Version != wire.Version {
		return refuse(wire.RefuseVersion, fmt.Errorf("the program speaks version %d of the protocol, the owner %s version %d", head.Version, s.info.Version, wire.Version))
	}
	hello, err := wire.DecodeOwnerHello(raw)
	if err != nil {
		return refuse(wire.RefuseMalformed, err)
	}
	// Another contract is no reason to refuse a program that can prove itself:
	// a newer one must be able to ask this owner to leave.
	nonce := s.nonces.Issue(time.Now())
	proof, err := wire.ServerProof(wire.ScopeOwner, s.secret, wire.Identity{}, hello.ClientNonce, s.info.BridgeEpoch, nonce, s.info.Fingerprint)
	if err != nil {
		return nil, err
	}
	b, err := wire.Encode(wire.Challenge{Type: wire.TypeChallenge, BridgeEpoch: s.info.BridgeEpoch, RequestNonce: nonce, ServerFingerprint: s.info.Fingerprint, Proof: proof})
	if err != nil {
		return nil, err
	}
	if err := conn.Write(ctx, b); err != nil {
		return nil, fmt.Errorf("writing challenge: %w", err)
	}
	if raw, err = conn.Read(ctx); err != nil {
		return nil, fmt.Errorf("reading proof: %w", err)
	}
	prove, err := wire.DecodeProve(raw)
	if err != nil {
		return refuse(wire.RefuseMalformed, err)
	}
	switch err := s.nonces.Consume(nonce, time.Now()); {
	case errors.Is(err, wire.ErrNonceExpired):
		return refuse(wire.RefuseNonceOld, err)
	case err != nil:
		return refuse(wire.RefuseNonceUsed, err)
	}
	want, err := wire.SocketProof(wire.ScopeOwner, s.secret, wire.Identity{}, s.info.BridgeEpoch, nonce, hello.Fingerprint)
	if err != nil {
		return nil, err
	}
	if !wire.EqualProof(want, prove.Proof) {
		return refuse(wire.RefuseProof, errors.New("the program does not hold the owner credential of this state folder"))
	}
	return hello, nil
}

func (c *client) read(ctx context.Context) error {
	for {
		raw, err := c.conn.Read(ctx)
		if err != nil {
			return err
		}
		frame, err := wire.DecodeFromClient(raw)
		if err != nil {
			// One frame that cannot be read means that the two sides do not
			// agree on the protocol: no later frame can be trusted either.
			c.fail("", op.Invalidf("%s", err))
			c.finish()
			return err
		}
		switch f := frame.(type) {
		case *wire.Command:
			if !c.take() {
				c.fail(f.ID, crowded())
				continue
			}
			c.srv.submit(c, *f)
		case *wire.Cancel:
			c.mu.Lock()
			stop := c.requests[f.ID]
			c.mu.Unlock()
			if stop != nil {
				stop()
				continue
			}
			c.srv.cancelFor(c, f.ID)
		case *wire.Request:
			if !c.take() {
				c.fail(f.ID, crowded())
				continue
			}
			c.request(*f)
		}
	}
}

func crowded() *op.Error {
	return op.NotAvailable(op.ConnectorBusy, "this program waits for %d answers already", maxClientOpen).WithHint("Wait for some of them first.")
}

// take counts one more frame that wants an answer.
func (c *client) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= maxClientOpen {
		return false
	}
	c.open++
	return true
}

// answer sends the result of something that was taken. One that no frame can
// hold is told as an error: of a read as one without effect.
func (c *client) answer(r wire.Result, effect op.Effect) {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	b, err := wire.Encode(r)
	if err == nil && len(b) <= wire.FrameBytes {
		c.queue(b, false)
		return
	}
	e := op.Unknown(op.ResultTooLarge, "the result of %s has %d bytes, more than the %d that a frame may have", r.ID, len(b), wire.FrameBytes)
	if err != nil {
		e = op.Unknown(op.Internal, "the result of %s could not be encoded: %s", r.ID, err)
	}
	e = e.WithHint("Ask for less: a smaller area, a lower quality, a narrower selector.")
	if effect == op.ReadOnly {
		e.Kind = op.Rejected
	} else {
		e.Message += "; what it did was done"
	}
	c.send(wire.Result{Type: wire.TypeResult, ID: r.ID, ElapsedMs: r.ElapsedMs, Error: failureOf(e)})
}

func (c *client) fail(id string, err *op.Error) {
	c.send(wire.Result{Type: wire.TypeResult, ID: id, Error: failureOf(err)})
}

// request runs one request on its own goroutine: it may wait, as for a
// pairing.
func (c *client) request(r wire.Request) {
	ctx, cancel := context.WithCancel(c.srv.ctx)
	gone := context.AfterFunc(c.ctx, cancel)
	c.mu.Lock()
	if _, known := c.requests[r.ID]; known {
		c.mu.Unlock()
		gone()
		cancel()
		c.answer(wire.Result{Type: wire.TypeResult, ID: r.ID, Error: failureOf(op.Invalidf("request id %q is in use", r.ID))}, op.ReadOnly)
		return
	}
	c.requests[r.ID] = cancel
	c.mu.Unlock()
	started := time.Now()
	c.srv.wg.Go(func() {
		defer cancel()
		defer gone() // a connection that lasts would keep one for each request
		value, err := c.srv.admitted(ctx, c, r)
		res := wire.Result{Type: wire.TypeResult, ID: r.ID, OK: err == nil, Value: value, ElapsedMs: time.Since(started).Milliseconds()}
		if err != nil {
			res.Value, res.Error = nil, failureOf(op.AsError(err))
		}
		c.mu.Lock()
		delete(c.requests, r.ID)
		c.mu.Unlock()
		c.answer(res, op.MayMutate)
		if r.Method == "shutdown" && err == nil {
			in, _ := decodeParams[ShutdownParams](r.Method, r.Params) // admin has checked it
			c.srv.shutdown(in.Reason)
		}
	})
}

// send queues a frame. A program that does not read is cut off rather than
// waited for.
func (c *client) send(frame any) {
	b, err := wire.Encode(frame)
	if err != nil {
		c.srv.log.Error("encoding a frame", "err", err)
		return
	}
	_, note := frame.(wire.Progress)
	c.queue(b, note)
}

// queue puts an encoded frame to those that go out; a note may be left out.
func (c *client) queue(b []byte, note bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || note && len(c.out) >= outgoingNotes {
		return
	}
	if c.outBytes+len(b) > outgoingBytes && len(c.out) > 0 {
		c.srv.log.Warn("program cut off: it does not read", "client", c.name, "number", c.number)
		c.out, c.ending = nil, true
		c.cancel()
		return
	}
	c.out = append(c.out, b)
	c.outBytes += len(b)
	c.poke()
}

func (c *client) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // the writer will look anyway
	}
}

// finish lets the writer send what is queued and then closes the socket.
func (c *client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.poke()
}

// write is the writer's goroutine.
func (c *client) write() {
	defer c.conn.Close() // ends the reader too
	for {
		c.mu.Lock()
		batch, ending := c.out, c.ending
		c.out, c.outBytes = nil, 0
		c.mu.Unlock()
		for _, b := range batch {
			// Not the connection's context: what was queued before the end is
			// still told.
			ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
			err := c.conn.Write(ctx, b)
			cancel()
			if err != nil {
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if ending {
			return
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			c.mu.Lock()
			c.ending = true
			c.mu.Unlock()
		}
	}
}

// ClientInfo is what status shows of a connected program.
type ClientInfo struct {
	Name        string    `json:"name"`
	Number      int       `json:"number"`
	ConnectedAt time.Time `json:"connectedAt"`
	Open        int       `json:"open"` // commands and requests without an answer yet
}

func (s *Server) clientInfos() []ClientInfo {
	s.mu.Lock()
	all := make([]*client, 0, len(s.clients))
	for c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	infos := make([]ClientInfo, 0, len(all))
	for _, c := range all {
		c.mu.Lock()
		infos = append(infos, ClientInfo{Name: c.name, Number: c.number, ConnectedAt: c.since, Open: c.open})
		c.mu.Unlock()
	}
	return infos
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
