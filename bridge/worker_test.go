package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

const pinnedExtension = "ncikkhgopjmpkkcbgndgmolkfkiehlnm"

var errMemClosed = errors.New("the socket is closed")

// memSocket is one end of a socket in memory, so that a conversation runs on
// the fake clock of testing/synctest. Frames are never split and never lost
// but by close.
type memSocket struct {
	in, out chan []byte
	shared  *memShared
	limit   atomic.Int64
}

type memShared struct {
	once   sync.Once
	closed chan struct{}
}

func memPair() (owner, worker *memSocket) {
	a, b := make(chan []byte, 256), make(chan []byte, 256)
	s := &memShared{closed: make(chan struct{})}
	return &memSocket{in: a, out: b, shared: s}, &memSocket{in: b, out: a, shared: s}
}

func (s *memSocket) Read(ctx context.Context) ([]byte, error) {
	select {
	case b := <-s.in: // what was sent before the close still arrives
		return s.check(b)
	default:
	}
	select {
	case b := <-s.in:
		return s.check(b)
	case <-s.shared.closed:
		select {
		case b := <-s.in:
			return s.check(b)
		default:
		}
		return nil, errMemClosed
	case <-ctx.Done():
		s.CloseNow()
		return nil, ctx.Err()
	}
}

func (s *memSocket) check(b []byte) ([]byte, error) {
	if limit := s.limit.Load(); limit > 0 && int64(len(b)) > limit {
		s.CloseNow()
		return nil, fmt.Errorf("a frame of %d bytes is too big", len(b))
	}
	return b, nil
}

func (s *memSocket) Write(ctx context.Context, frame []byte) error {
	frame = slices.Clone(frame)
	select {
	case <-s.shared.closed:
		return errMemClosed
	default:
	}
	select {
	case s.out <- frame:
		return nil
	case <-s.shared.closed:
		return errMemClosed
	case <-ctx.Done():
		s.CloseNow()
		return ctx.Err()
	}
}

func (s *memSocket) SetReadLimit(n int64)               { s.limit.Store(n) }
func (s *memSocket) Close(websocket.StatusCode, string) { s.CloseNow() }
func (s *memSocket) CloseNow()                          { s.shared.once.Do(func() { close(s.shared.closed) }) }

// memBindings is a BindingStore in memory.
type memBindings struct {
	mu   sync.Mutex
	all  map[string]Binding
	fail error
}

func (m *memBindings) Binding(_ context.Context, id string) (Binding, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.all[id]
	return b, ok, m.fail
}

func (m *memBindings) Bindings(context.Context) ([]Binding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Binding
	for _, b := range m.all {
		all = append(all, b)
	}
	return all, m.fail
}

func (m *memBindings) SaveBinding(_ context.Context, b Binding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.all == nil {
		m.all = map[string]Binding{}
	}
	m.all[b.ConnectorID] = b
	return nil
}

func (m *memBindings) RemoveBinding(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, id)
	return m.fail
}

// fakeProfile is a profile with the extension: what outlives a worker.
type fakeProfile struct {
	t     testing.TB
	relay *Relay
	id    string
	label string
	epoch string // of the browser

	canceledAt int64 // of the browser, see wire.Hello

	secret  string
	workers int
	// answer makes the reply of a call, on a goroutine of its own; the
	// default knows debugger.* of the tabs.
	answer func(w *fakeWorker, call string, args []json.RawMessage) (any, error)

	mu       sync.Mutex
	tabs     map[int]string // tab id to target id
	attached map[int]bool   // by us: the attachment outlives the worker
	foreign  map[int]bool   // by another extension
	calls    []string       // every call that was executed
}

// fakeWorker does what the extension's worker does, by docs/protocol.md.
type fakeWorker struct {
	p        *fakeProfile
	id       string
	sock     socket
	served   chan struct{}                 // closed when the owner has let go of the socket
	dial     func(scope wire.Scope) socket // over the network; nil for a socket in memory
	pongs    bool
	maxKept  int
	refusal  *wire.Refused
	ready    *wire.Ready
	tamper   func(*wire.Hello)
	proof    func(string) string
	received chan *wire.CallFrame                     // when set, calls go here and are not answered
	heard    func(frame any)                          // when set, told of every frame, one after the other
	retell   func(wire.Hello, *wire.Challenge) string // another proof
	quiet    bool                                     // the test reads the socket itself

	mu       sync.Mutex
	epoch    string // of the owner spoken to last
	lastCall uint64
	seq      uint64
	kept     []keptFrame
	acked    uint64
	online   bool
}

type keptFrame struct {
	seq  uint64
	text []byte
}

func newRelayFor(t testing.TB, hooks Hooks) (*Relay, *memBindings) {
	t.Helper()
	store := &memBindings{}
	r, err := NewRelay(RelayOptions{ExtensionID: pinnedExtension, Bindings: store, Hooks: hooks})
	assert.NilError(t, err)
	return r, store
}

var profileCount atomic.Int64

// newProfile is a paired profile with the tabs 1 and 2.
func newProfile(t testing.TB, r *Relay) *fakeProfile {
	t.Helper()
	n := profileCount.Add(1)
	p := &fakeProfile{
		t: t, relay: r, id: fmt.Sprintf("11111111-2222-4333-8444-%012d", n), label: fmt.Sprintf("Profile %d", n),
		epoch: "browser-1", secret: wire.NewSecret(),
		tabs:     map[int]string{1: "target-1", 2: "target-2"},
		attached: map[int]bool{}, foreign: map[int]bool{},
	}
	assert.NilError(t, r.bindings.SaveBinding(t.Context(), Binding{ConnectorID: p.id, Secret: p.secret, Label: p.label, ExtensionID: pinnedExtension}))
	return p
}

// worker starts the extension's worker, which has no socket yet.
func (p *fakeProfile) worker() *fakeWorker {
	p.workers++
	return &fakeWorker{p: p, id: fmt.Sprintf("worker-%d", p.workers), pongs: true, maxKept: wire.KeptFrames}
}

// open connects and proves; it returns when the owner said ready or refused.
func (w *fakeWorker) open() *fakeWorker { return w.openScope(wire.ScopeConnector, w.p.secret) }

func (w *fakeWorker) openScope(scope wire.Scope, key string) *fakeWorker {
	p := w.p
	w.refusal, w.ready = nil, nil
	if w.dial != nil {
		w.sock = w.dial(scope)
	} else if !w.connect(scope) {
		w.refusal = &wire.Refused{Code: "http-503"}
		return w
	}
	w.mu.Lock()
	h := wire.Hello{
		Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ConnectorID: p.id, ExtensionID: pinnedExtension,
		DisplayVersion: "0.1.0", Label: p.label, Browser: wire.Browser{Family: "chromium", Version: "156"},
		BrowserEpoch: p.epoch, CanceledAt: p.canceledAt, WorkerID: w.id, ClientNonce: wire.NewSecret(), Capabilities: wire.Capabilities{FlatSessions: true},
		Resume: wire.Resume{BridgeEpoch: w.epoch, LastCall: w.lastCall, FirstSeq: w.seq + 1 - uint64(len(w.kept)), LastSeq: w.seq},
	}
	w.mu.Unlock()
	if w.tamper != nil {
		w.tamper(&h)
	}
	w.write(h)
	c, ok := w.read().(*wire.Challenge)
	if !ok {
		return w
	}
	want, err := wire.ServerProof(scope, key, h.Identity(), h.ClientNonce, c.BridgeEpoch, c.RequestNonce, c.ServerFingerprint)
	assert.NilError(p.t, err)
	assert.Equal(p.t, c.Proof, want, "the owner does not hold the secret")
	proof, err := wire.SocketProof(scope, key, h.Identity(), c.BridgeEpoch, c.RequestNonce, h.Fingerprint)
	assert.NilError(p.t, err)
	if w.proof != nil {
		proof = w.proof(proof)
	}
	if w.retell != nil {
		proof = w.retell(h, c)
	}
	w.write(wire.Prove{Type: wire.TypeProve, Proof: proof})
	switch f := w.read().(type) {
	case *wire.Ready:
		w.ready = f
		if !w.quiet {
			w.begin(c.BridgeEpoch, f.Ack)
		}
	case *wire.Offered:
		if f, ok := w.read().(*wire.Paired); ok {
			p.secret, err = wire.PairingSecret(key, h.ConnectorID, h.ClientNonce, c.BridgeEpoch, c.RequestNonce)
			assert.NilError(p.t, err)
			assert.Equal(p.t, f.ConnectorID, p.id)
		}
	}
	return w
}

// connect opens a socket in memory; false when the owner takes none.
func (w *fakeWorker) connect(scope wire.Scope) bool {
	owner, mine := memPair()
	done := make(chan struct{})
	w.mu.Lock() // the reader of the socket before may still look
	w.sock, w.served = mine, done
	w.mu.Unlock()
	r := w.p.relay
	if !r.enter() {
		close(done)
		return false
	}
	go func() {
		defer close(done)
		defer r.leave()
		r.serveSocket(owner, scope, func() {})
	}()
	return true
}

func (w *fakeWorker) write(frame any) {
	b, err := wire.Encode(frame)
	assert.Check(w.p.t, err)
	_ = w.sock.Write(context.Background(), b) // a socket that was lost is the test's matter
}

// read reads one frame of the handshake; nil when the socket has closed.
func (w *fakeWorker) read() any {
	b, err := w.sock.Read(context.Background())
	if err != nil {
		return nil
	}
	f, err := wire.DecodeForExtension(b)
	assert.Check(w.p.t, err)
	if r, ok := f.(*wire.Refused); ok {
		w.refusal = r
	}
	if w.heard != nil {
		w.heard(f)
	}
	return f
}

// begin sends what was kept and starts to answer.
func (w *fakeWorker) begin(epoch string, ack uint64) {
	w.mu.Lock()
	if epoch != w.epoch {
		if w.epoch != "" {
			w.kept, w.seq = nil, 0
		}
		w.epoch, w.lastCall = epoch, 0
	}
	w.ackLocked(ack)
	if first := w.seq + 1 - uint64(len(w.kept)); ack+1 < first {
		w.write(wire.Gap{Type: wire.TypeGap, From: ack + 1, To: first - 1})
	}
	for _, k := range w.kept {
		_ = w.sock.Write(context.Background(), k.text)
	}
	w.online = true
	sock := w.sock
	w.mu.Unlock()
	go w.listen(sock)
}

func (w *fakeWorker) ackLocked(seq uint64) {
	w.acked = max(w.acked, seq)
	w.kept = slices.DeleteFunc(w.kept, func(k keptFrame) bool { return k.seq <= seq })
}

func (w *fakeWorker) listen(sock socket) {
	for {
		b, err := sock.Read(context.Background())
		if err != nil {
			return
		}
		f, err := wire.DecodeForExtension(b)
		if !assert.Check(w.p.t, err) {
			return
		}
		w.mu.Lock()
		if w.sock != sock || !w.online {
			w.mu.Unlock()
			return // a socket that was let go of: its frames mean nothing
		}
		if w.heard != nil {
			w.heard(f)
		}
		switch f := f.(type) {
		case *wire.Ping:
			w.ackLocked(f.Ack)
			if w.pongs {
				w.write(wire.Pong{Type: wire.TypePong})
			}
		case *wire.Ack:
			w.ackLocked(f.Ack)
		case *wire.CallFrame:
			assert.Check(w.p.t, f.ID > w.lastCall, "call %d after %d", f.ID, w.lastCall)
			w.lastCall = f.ID
			if w.received != nil {
				w.mu.Unlock()
				w.received <- f
				continue
			}
			go w.execute(f)
		}
		w.mu.Unlock()
	}
}

func (w *fakeWorker) execute(f *wire.CallFrame) {
	p := w.p
	p.mu.Lock()
	p.calls = append(p.calls, callName(f))
	answer := p.answer
	p.mu.Unlock()
	if answer == nil {
		answer = (*fakeWorker).standard
	}
	v, err := answer(w, f.Call, f.Args)
	w.reply(f.ID, v, err)
}

func callName(f *wire.CallFrame) string {
	if f.Call == "debugger.sendCommand" {
		return strings.Trim(string(f.Args[1]), `"`)
	}
	return f.Call
}

// errNoAnswer is an answer that never comes.
var errNoAnswer = errors.New("no answer")

func (w *fakeWorker) reply(id uint64, v any, err error) {
	if errors.Is(err, errNoAnswer) {
		return
	}
	if err != nil {
		w.emit(func(seq uint64) any {
			return wire.ReplyFrame{Seq: seq, ID: id, Error: &wire.CallError{Message: err.Error()}}
		})
		return
	}
	raw, err := wire.Encode(v)
	assert.Check(w.p.t, err)
	w.emit(func(seq uint64) any { return wire.ReplyFrame{Seq: seq, ID: id, Result: raw} })
}

// event sends or keeps an event.
func (w *fakeWorker) event(name string, args ...any) {
	raw := make([]json.RawMessage, len(args))
	for i, a := range args {
		b, err := wire.Encode(a)
		assert.Check(w.p.t, err)
		raw[i] = b
	}
	w.emit(func(seq uint64) any { return wire.EventFrame{Seq: seq, Event: name, Args: raw} })
}

// cdpEvent is an event of a tab's debugger session.
func (w *fakeWorker) cdpEvent(tab int, method string, params any) {
	w.event("debugger.onEvent", map[string]int{"tabId": tab}, method, params)
}

func (w *fakeWorker) emit(frame func(seq uint64) any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	b, err := wire.Encode(frame(w.seq))
	assert.Check(w.p.t, err)
	w.kept = append(w.kept, keptFrame{w.seq, b})
	if len(w.kept) > w.maxKept {
		w.kept = w.kept[len(w.kept)-w.maxKept:]
	}
	if w.online {
		_ = w.sock.Write(context.Background(), b)
	}
}

// drop loses the socket and waits until the owner has noticed.
func (w *fakeWorker) drop() {
	w.mu.Lock()
	w.online = false
	w.mu.Unlock()
	w.sock.CloseNow()
	<-w.served
}

// kill ends the worker: what it kept is gone, what Chrome has attached stays.
func (w *fakeWorker) kill() {
	w.drop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = nil
}

type debuggee struct {
	TabID     int    `json:"tabId"`
	SessionID string `json:"sessionId"`
}

// standard answers as a browser with the profile's tabs.
func (w *fakeWorker) standard(call string, args []json.RawMessage) (any, error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var d debuggee
	if len(args) > 0 {
		_ = json.Unmarshal(args[0], &d)
	}
	switch call {
	case "debugger.getTargets":
		targets := []DebugTarget{}
		for id, target := range p.tabs {
			targets = append(targets, DebugTarget{ID: target, TabID: id, Type: "page", Attached: p.attached[id] || p.foreign[id]})
		}
		return targets, nil
	case "debugger.attach":
		switch {
		case p.tabs[d.TabID] == "":
			return nil, fmt.Errorf("No tab with given id %d.", d.TabID)
		case p.attached[d.TabID] || p.foreign[d.TabID]:
			return nil, fmt.Errorf("Another debugger is already attached to the tab with id: %d.", d.TabID)
		}
		p.attached[d.TabID] = true
		return nil, nil
	case "debugger.detach":
		if !p.attached[d.TabID] {
			return nil, fmt.Errorf("Debugger is not attached to the tab with id: %d.", d.TabID)
		}
		delete(p.attached, d.TabID)
		return nil, nil
	case "debugger.sendCommand":
		if !p.attached[d.TabID] {
			return nil, fmt.Errorf("Debugger is not attached to the tab with id: %d.", d.TabID)
		}
		return map[string]any{"method": json.RawMessage(args[1]), "session": d.SessionID}, nil
	}
	return nil, nil
}

func (p *fakeProfile) executed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *fakeProfile) count(name string) int {
	n := 0
	for _, c := range p.executed() {
		if c == name {
			n++
		}
	}
	return n
}

func (p *fakeProfile) connector() *Connector {
	c, ok := p.relay.Connector(p.id)
	assert.Assert(p.t, ok, "no connector")
	return c
}

// attachedTab returns tab id, attached.
func (p *fakeProfile) attachedTab(id int) *Tab {
	p.t.Helper()
	tab, err := p.connector().Tab(p.t.Context(), id)
	assert.NilError(p.t, err)
	assert.NilError(p.t, tab.Attach(p.t.Context()))
	return tab
}

// recorder is a listener that keeps what it heard.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) listen(ev op.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ev.Detached != "" {
		r.events = append(r.events, "detached:"+ev.Detached)
		return
	}
	r.events = append(r.events, ev.Method)
}

func (r *recorder) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, s)
}

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
