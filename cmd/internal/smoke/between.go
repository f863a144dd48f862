package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"

	"pi-chrome/bridge/wire"
)

// Bounds of what is recorded.
const (
	tracedFrame = 4 << 10  // bytes of one frame
	tracedBytes = 64 << 20 // of the whole file; later frames are counted only
	dialTimeout = 5 * time.Second
)

// between stands between the extension and the owner: it passes frames on,
// writes each to the trace, and on request does what a stranger, an older
// release or a bad network would do.
type between struct {
	port   int
	server *http.Server
	served chan error

	mu      sync.Mutex
	owner   int // the owner's port; 0 while there is none
	rules   rules
	muted   bool // nothing of the owner reaches the extension before its next socket
	seen    seen
	links   map[*link]struct{}
	sockets sync.WaitGroup

	traceMu sync.Mutex
	trace   *os.File
	began   time.Time
	written int
	left    int // frames that the trace had no room for
}

// rules say what is done to frames. The zero value passes everything on.
type rules struct {
	badProof    bool   // the owner's proof is another
	fingerprint string // of the extension's hello
	stranger    func(hello *wire.Hello) (wire.Challenge, error)
	// lose decides about the answer to an input event: what is done to it,
	// once.
	lose loss
}

// loss is how the answer of a call is lost.
type loss int

const (
	loseNothing loss = iota
	loseAnswer       // the answer does not arrive: the socket is cut instead
	loseReceipt      // it arrives, and the socket is cut before it is acknowledged
)

// seen counts what has crossed.
type seen struct {
	calls, proofs, challenges int
	lastProof                 string // of the extension
	answers                   map[uint64]int
	losing                    uint64 // id of the call whose answer is lost
	lost                      uint64 // seq of the frame that was lost
}

// link is one socket of the extension and its counterpart.
type link struct {
	cancel context.CancelFunc
}

func newBetween(trace *os.File) (*between, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the extension: %w", err)
	}
	b := &between{port: l.Addr().(*net.TCPAddr).Port, trace: trace, began: time.Now(), served: make(chan error, 1), links: map[*link]struct{}{}}
	b.seen.answers = map[uint64]int{}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: dialTimeout}
	go func() { b.served <- b.server.Serve(l) }()
	return b, nil
}

func (b *between) close() error {
	err := b.server.Close()
	b.cut()
	b.sockets.Wait()
	if served := <-b.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if b.left > 0 {
		_, werr := fmt.Fprintf(b.trace, "{\"left\":%d}\n", b.left)
		err = errors.Join(err, werr)
	}
	return errors.Join(err, b.trace.Close())
}

// set changes the rules, and cuts the sockets that were made under others.
func (b *between) set(r rules) {
	b.mu.Lock()
	b.rules = r
	b.mu.Unlock()
	b.cut()
}

// loseNext has the answer to the next release of the mouse lost.
func (b *between) loseNext(how loss) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules.lose, b.seen.losing, b.seen.lost = how, 0, 0
}

// counts returns what has crossed so far.
func (b *between) counts() seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// arrivals is how often the owner has got the frame that was lost.
func (b *between) arrivals() (seq uint64, times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen.lost, b.seen.answers[b.seen.lost]
}

func (b *between) connect(owner int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owner = owner
}

// cut ends every socket, as a network that fails does.
func (b *between) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.links {
		l.cancel()
	}
}

// ServeHTTP takes one socket of the extension.
func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	port, rules := b.owner, b.rules
	b.mu.Unlock()
	if port == 0 {
		http.Error(w, "no owner yet", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.sockets.Add(1)
	defer b.sockets.Done()
	l := &link{cancel: cancel}
	b.mu.Lock()
	b.links[l] = struct{}{}
	b.muted = false
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.links, l)
		b.mu.Unlock()
	}()
	if rules.stranger != nil {
		b.impersonate(ctx, w, r, rules.stranger)
		return
	}
	dctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	owner, res, err := websocket.Dial(dctx, fmt.Sprintf("ws://127.0.0.1:%d%s", port, r.URL.Path), &websocket.DialOptions{HTTPHeader: http.Header{"Origin": r.Header["Origin"]}})
	if err != nil {
		status := http.StatusBadGateway
		if res != nil {
			status = res.StatusCode
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer func() { _ = owner.CloseNow() }()
	ext, err := b.accept(w, r)
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = ext.CloseNow() }()
	owner.SetReadLimit(wire.FrameBytes)
	var pumps sync.WaitGroup
	pumps.Go(func() { defer cancel(); b.pump(ctx, "owner", owner, ext, b.fromOwner) })
	pumps.Go(func() { defer cancel(); b.pump(ctx, "extension", ext, owner, b.fromExtension) })
	pumps.Wait()
}

func (b *between) accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	// Who connects here is the owner's to judge: the origin is passed on.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		c.SetReadLimit(wire.FrameBytes)
	}
	return c, err
}

// pump passes frames on until one side ends.
func (b *between) pump(ctx context.Context, from string, in, out *websocket.Conn, edit func([]byte) (frame []byte, cut bool)) {
	for {
		_, frame, err := in.Read(ctx)
		if err != nil {
			if code := websocket.CloseStatus(err); code > 0 {
				_ = out.Close(code, "") // the other side may have gone too
			}
			return
		}
		frame, cut := edit(frame)
		b.record(from, frame)
		if frame != nil && out.Write(ctx, websocket.MessageText, frame) != nil {
			return
		}
		if cut {
			if frame != nil {
				// Answered once everything before it was read.
				_ = out.Ping(ctx)
			}
			return
		}
	}
}

// head is what is looked at of a frame.
type head struct {
	Type  string            `json:"type"`
	ID    uint64            `json:"id"`
	Seq   uint64            `json:"seq"`
	Call  string            `json:"call"`
	Event string            `json:"event"`
	Args  []json.RawMessage `json:"args"`
	Proof string            `json:"proof"`
}

func (b *between) fromOwner(frame []byte) ([]byte, bool) {
	var h head
	if json.Unmarshal(frame, &h) != nil {
		return frame, false // the extension judges it
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.muted {
		return nil, false
	}
	switch {
	case h.Type == wire.TypeChallenge:
		b.seen.challenges++
		if b.rules.badProof {
			return replaced(frame, "proof", wire.NewSecret()), false
		}
	case h.Call != "":
		b.seen.calls++
		released := len(h.Args) > 2 && bytes.Contains(h.Args[1], []byte("dispatchMouseEvent")) && bytes.Contains(h.Args[2], []byte("mouseReleased"))
		if b.rules.lose != loseNothing && b.seen.losing == 0 && released {
			b.seen.losing = h.ID
		}
	}
	return frame, false
}

func (b *between) fromExtension(frame []byte) ([]byte, bool) {
	var h head
	if json.Unmarshal(frame, &h) != nil {
		return frame, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case h.Type == wire.TypeHello && b.rules.fingerprint != "":
		return replaced(frame, "fingerprint", b.rules.fingerprint), false
	case h.Type == wire.TypeProve:
		b.seen.proofs++
		b.seen.lastProof = h.Proof
	case h.Type == "" && h.Event == "" && h.ID > 0:
		how := loseNothing
		if h.ID == b.seen.losing && b.seen.lost == 0 {
			how, b.seen.lost = b.rules.lose, h.Seq
			b.rules.lose = loseNothing
		}
		if how == loseAnswer {
			return nil, true
		}
		b.seen.answers[h.Seq]++
		b.muted = how == loseReceipt
		return frame, b.muted
	}
	return frame, false
}

// replaced returns the frame with another value of one field.
func replaced(frame []byte, field, value string) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(frame, &all) != nil {
		return frame
	}
	all[field], _ = json.Marshal(value) // a string can always be encoded
	out, err := json.Marshal(all)
	if err != nil {
		return frame
	}
	return out
}

// impersonate speaks to the extension in the owner's place.
func (b *between) impersonate(ctx context.Context, w http.ResponseWriter, r *http.Request, answer func(*wire.Hello) (wire.Challenge, error)) {
	ext, err := b.accept(w, r)
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = ext.CloseNow() }()
	_, raw, err := ext.Read(ctx)
	if err != nil {
		return
	}
	b.record("extension", raw)
	hello, err := wire.DecodeHello(raw)
	if err != nil {
		return // the step that waits for a challenge will say so
	}
	challenge, err := answer(hello)
	if err != nil {
		return
	}
	frame, err := wire.Encode(challenge)
	if err != nil {
		return
	}
	b.record("stranger", frame)
	b.mu.Lock()
	b.seen.challenges++
	b.mu.Unlock()
	if ext.Write(ctx, websocket.MessageText, frame) != nil {
		return
	}
	for {
		_, raw, err := ext.Read(ctx)
		if err != nil {
			return
		}
		b.record("extension", raw)
		b.fromExtension(raw)
	}
}

// record adds a frame to the trace.
func (b *between) record(from string, frame []byte) {
	entry := struct {
		Ms    int64           `json:"ms"`
		From  string          `json:"from"`
		Bytes int             `json:"bytes"`
		Lost  bool            `json:"lost,omitempty"`
		Frame json.RawMessage `json:"frame,omitempty"`
		Start string          `json:"start,omitempty"` // of a frame that is longer than a line may be
	}{Ms: time.Since(b.began).Milliseconds(), From: from, Bytes: len(frame), Lost: frame == nil}
	switch {
	case len(frame) > tracedFrame:
		entry.Start = string(frame[:tracedFrame])
	case json.Valid(frame):
		entry.Frame = frame
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return
	}
	b.traceMu.Lock()
	defer b.traceMu.Unlock()
	if b.written += len(line); b.written > tracedBytes {
		b.left++
		return
	}
	// What cannot be written is missed by nobody but a reader of the trace.
	_, _ = io.WriteString(b.trace, string(line)+"\n")
}
