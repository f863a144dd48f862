package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coder/websocket"

	"pi-chrome/bridge/wire"
	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// Binding is one paired profile.
type Binding struct {
	ConnectorID    string    `json:"connectorId"`
	Secret         string    `json:"secret"` // 32 bytes, hex; it never leaves the owner
	Label          string    `json:"label"`
	ExtensionID    string    `json:"extensionId"`
	DisplayVersion string    `json:"displayVersion"`
	Fingerprint    string    `json:"fingerprint"`
	PairedAt       time.Time `json:"pairedAt"`
}

// BindingStore keeps which profiles are paired. Its methods are called from
// many goroutines.
type BindingStore interface {
	// Binding returns the binding of one connector, false when there is none.
	Binding(ctx context.Context, connectorID string) (Binding, bool, error)
	// Bindings returns all, in no order.
	Bindings(ctx context.Context) ([]Binding, error)
	// SaveBinding adds or replaces a binding; it is durable when it returns.
	SaveBinding(ctx context.Context, b Binding) error
	// RemoveBinding forgets a connector; one that is unknown is no error.
	RemoveBinding(ctx context.Context, connectorID string) error
}

// Hooks are told what happens to connectors and their tabs. Those of one
// connector run one after the other, in the order of the browser's events,
// on a goroutine of the connector; a slow hook delays only later hooks. Any
// may be nil.
type Hooks struct {
	// Reset says that events may have been lost: at the first connection of
	// this owner, after a new worker, a gap or a new start of the browser.
	// Calls wait until it returns, except those with the given ctx. It is
	// given at most 30 s.
	Reset       func(ctx context.Context, c *Connector, reason ResetReason)
	Live        func(c *Connector) // a connection is ready for commands
	Offline     func(c *Connector)
	TabCreated  func(c *Connector, tab op.Tab)
	TabUpdated  func(c *Connector, tabID int, change json.RawMessage, tab op.Tab)
	TabRemoved  func(c *Connector, tabID int)
	TabReplaced func(c *Connector, oldID, newID int) // a discard: the tab has another id from now on
	TabActive   func(c *Connector, tabID, windowID int)
	// Canceled says that the user pressed Cancel on the debugger banner, at a
	// time by the browser's clock that may lie before this owner: no tab of
	// the profile is attached until Connector.AllowDebugger.
	Canceled func(c *Connector, at time.Time)
	// Paired says that the profile has just been paired, or paired again.
	Paired func(c *Connector)
	// Other gets every other event: downloads, messages of pages, requests of
	// the popup ("popup.request"). Messages of pages come on the reader's
	// goroutine: it must not wait for anything.
	Other func(c *Connector, event string, args []json.RawMessage)
	// Popup answers what the popup of a profile asks. It is called from up to
	// four goroutines of each popup, in no order with the other hooks, and ctx
	// ends with the popup's socket. Without it there is no popup.
	Popup func(ctx context.Context, c *Connector, ask wire.PopupAsk) (*wire.Projection, *op.Error)
}

// ResetReason says why events may have been lost.
type ResetReason string

// The reasons of a reset.
const (
	ResetFirst   ResetReason = "first"   // the connector's first connection to this owner
	ResetWorker  ResetReason = "worker"  // another worker of the same browser
	ResetBrowser ResetReason = "browser" // the browser was started again: tab ids mean nothing any more
	ResetGap     ResetReason = "gap"     // the worker dropped events
)

// RelayOptions configure a Relay. ExtensionID and Bindings are required.
type RelayOptions struct {
	ExtensionID string // the pinned id of the extension
	Bindings    BindingStore
	Epoch       string     // of this owner, 32 bytes hex; "" for a new random one
	Leases      LeaseStore // nil to remember none
	Hooks       Hooks
	Logger      *slog.Logger // nil for none

	time  *timing // nil for defaultTiming; tests are in more of a hurry
	meter *meter  // nil for one that nobody reads
}

// Bounds of the relay.
const (
	maxSockets    = 128 // of the extension, at once
	maxHandshakes = 32  // not yet authenticated, at once
	maxRefusals   = 16  // kept for status
)

// timing is how long the relay waits. Tests make it shorter where the real
// network is used.
type timing struct {
	hello  time.Duration // for the first frame
	prove  time.Duration // for the proof
	write  time.Duration // for one frame to be taken by the socket
	pong   time.Duration // for an answer to a ping
	grace  time.Duration // for a connector to come back
	probe  time.Duration // for an older connection to show that it lives
	offers time.Duration // for further profiles to offer themselves
	resync time.Duration // to read the targets again
	hook   time.Duration // for Hooks.Reset
	lease  cdpmodel.LeaseTimes
}

var defaultTiming = timing{
	hello:  3 * time.Second,
	prove:  wire.NonceTTL,
	write:  15 * time.Second,
	pong:   10 * time.Second,
	grace:  8 * time.Second,
	probe:  2 * time.Second,
	offers: 3 * time.Second,
	resync: 10 * time.Second,
	hook:   30 * time.Second,
	lease:  cdpmodel.DefaultLeaseTimes,
}

// Relay serves the sockets of the extension and knows every connector. Make
// one with [NewRelay].
//
// Its mutex guards the maps; a connector's own state is under the connector's
// mutex, which may be taken while none of the relay is held and the other way
// round never. No hook and no I/O happens under either.
type Relay struct {
	opts     RelayOptions
	bindings BindingStore
	log      *slog.Logger
	time     timing
	meter    *meter
	pairing  *Pairing
	nonces   map[wire.Scope]*wire.Nonces

	ctx    context.Context // ends at Close; the parent of every connection's
	cancel context.CancelFunc
	wg     sync.WaitGroup // of sockets, connectors and tabs

	// bindMu makes storing a binding and knowing its connector one step, so
	// that a profile that is forgotten does not come back by a handshake that
	// was under way. It is taken before mu.
	bindMu sync.Mutex

	mu         sync.Mutex
	closed     bool
	sockets    int
	guests     []*guest // not yet authenticated, oldest first
	connectors map[string]*Connector
	refusals   []RefusalRecord // newest first
	changed    chan struct{}
}

// NewRelay returns a relay that serves no socket yet. The connectors of the
// stored bindings exist at once, offline.
func NewRelay(opts RelayOptions) (*Relay, error) {
	if opts.ExtensionID == "" || opts.Bindings == nil {
		return nil, errors.New("a relay needs the extension's id and a store of bindings")
	}
	if opts.Epoch == "" {
		opts.Epoch = wire.NewSecret()
	}
	if !wire.IsHex256(opts.Epoch) {
		return nil, fmt.Errorf("the epoch %q is not 64 hex digits", clip(opts.Epoch))
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{
		opts:       opts,
		bindings:   opts.Bindings,
		log:        opts.Logger,
		time:       *cmp.Or(opts.time, &defaultTiming),
		meter:      cmp.Or(opts.meter, &meter{}),
		nonces:     map[wire.Scope]*wire.Nonces{wire.ScopeConnector: {}, wire.ScopePairing: {}, wire.ScopePopup: {}},
		connectors: map[string]*Connector{},
		changed:    make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.pairing = &Pairing{relay: r, changed: make(chan struct{})}
	bindings, err := r.bindings.Bindings(r.ctx)
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("reading the bindings: %w", err)
	}
	for _, b := range bindings {
		r.connectorFor(b)
	}
	if err := r.restoreLeases(); err != nil {
		r.log.Warn("reading what an owner before has attached", "error", err)
	}
	r.wg.Go(r.watchLeases)
	return r, nil
}

// Epoch is this owner's, new at each start.
func (r *Relay) Epoch() string { return r.opts.Epoch }

// Pairing issues tokens and binds the profiles that prove them.
func (r *Relay) Pairing() *Pairing { return r.pairing }

// Connectors returns every bound connector, by label.
func (r *Relay) Connectors() []*Connector {
	r.mu.Lock()
	all := make([]*Connector, 0, len(r.connectors))
	for _, c := range r.connectors {
		all = append(all, c)
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *Connector) int {
		if n := strings.Compare(a.Label(), b.Label()); n != 0 {
			return n
		}
		return strings.Compare(a.ID(), b.ID())
	})
	return all
}

// Connector returns the bound connector with that id.
func (r *Relay) Connector(id string) (*Connector, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.connectors[id]
	return c, ok
}

// Changed returns a channel that is closed at the next change of any
// connector's liveness, or when one is bound or forgotten.
func (r *Relay) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *Relay) announce() {
	r.mu.Lock()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

// connectorFor returns the connector of a binding, a new one when it has none
// yet; nil when the relay is closed.
func (r *Relay) connectorFor(b Binding) *Connector {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	c, ok := r.connectors[b.ConnectorID]
	if ok {
		c.setBinding(b)
		return c
	}
	c = newConnector(r, b)
	r.connectors[b.ConnectorID] = c
	r.wg.Go(c.runHooks)
	return c
}

// Forget removes a connector with its binding: its socket is closed and its
// calls fail. That the binding is gone already is no error.
func (r *Relay) Forget(connectorID string) {
	r.bindMu.Lock()
	if err := r.bindings.RemoveBinding(r.ctx, connectorID); err != nil {
		r.log.Error("removing a binding", "connector", connectorID, "error", err)
	}
	r.mu.Lock()
	c := r.connectors[connectorID]
	delete(r.connectors, connectorID)
	r.mu.Unlock()
	r.bindMu.Unlock()
	if c != nil {
		c.close(errForgotten)
		r.announce()
	}
}

// bind stores a binding and returns its connector, nil when the relay is
// closed.
func (r *Relay) bind(b Binding) (*Connector, error) {
	r.bindMu.Lock()
	defer r.bindMu.Unlock()
	if err := r.bindings.SaveBinding(r.ctx, b); err != nil {
		return nil, err
	}
	return r.connectorFor(b), nil
}

// rebind returns the connector of a profile that has proved its secret, and
// stores what the profile now says of itself.
func (r *Relay) rebind(hello *wire.Hello) (*Connector, *refusal) {
	r.bindMu.Lock()
	defer r.bindMu.Unlock()
	b, ok, err := r.bindings.Binding(r.ctx, hello.ConnectorID)
	if err != nil || !ok {
		return nil, unknownConnector // it was forgotten during the handshake
	}
	fresh := b
	fresh.Label, fresh.ExtensionID, fresh.DisplayVersion, fresh.Fingerprint = hello.Label, hello.ExtensionID, hello.DisplayVersion, hello.Fingerprint
	if fresh != b {
		if err := r.bindings.SaveBinding(r.ctx, fresh); err != nil {
			r.log.Error("updating a binding", "connector", hello.ConnectorID, "error", err)
		}
	}
	c := r.connectorFor(fresh)
	if c == nil {
		return nil, &refusal{wire.RefuseShutDown, "The owner is stopping. The extension connects again by itself."}
	}
	return c, nil
}

// rename stores the name that the user has given a profile in its popup. One
// that a hello could not carry is passed over.
func (r *Relay) rename(connectorID, label string) {
	if label == "" || !utf8.ValidString(label) || utf8.RuneCountInString(label) > wire.MaxLabel || strings.ContainsFunc(label, unicode.IsControl) {
		return
	}
	r.bindMu.Lock()
	defer r.bindMu.Unlock()
	b, ok, err := r.bindings.Binding(r.ctx, connectorID)
	if err == nil && ok && b.Label != label {
		b.Label = label
		if err = r.bindings.SaveBinding(r.ctx, b); err == nil {
			r.connectorFor(b)
			r.announce()
		}
	}
	if err != nil {
		r.log.Error("renaming a profile", "connector", connectorID, "error", err)
	}
}

var unknownConnector = &refusal{wire.RefuseUnknown, "This profile is not paired with pi-chrome any more. Run pi-chrome onboard."}

// Close refuses new sockets, ends the open ones, fails the calls and returns
// when every goroutine of the relay has ended.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	all := make([]*Connector, 0, len(r.connectors))
	for _, c := range r.connectors {
		all = append(all, c)
	}
	r.mu.Unlock()
	r.pairing.Cancel()
	for _, c := range all {
		c.close(errStopped)
	}
	r.cancel()
	r.wg.Wait()
	return nil
}

// ServeConnector is the handler of /connector.
func (r *Relay) ServeConnector(w http.ResponseWriter, req *http.Request) {
	r.serve(w, req, wire.ScopeConnector)
}

// ServePairing is the handler of /pairing.
func (r *Relay) ServePairing(w http.ResponseWriter, req *http.Request) {
	r.serve(w, req, wire.ScopePairing)
}

func (r *Relay) serve(w http.ResponseWriter, req *http.Request, scope wire.Scope) {
	err := checkHost(req)
	if err == nil {
		err = checkOrigin(req, r.opts.ExtensionID)
	}
	if err == nil && scope == wire.ScopePopup && req.Header.Get("Origin") == "" {
		err = errors.New("a program is not the popup")
	}
	if err != nil {
		r.record(scope, nil, &refusal{wire.RefuseMalformed, "Refused with HTTP 403: " + err.Error() + "."})
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	if !r.enter() {
		http.Error(w, "too many sockets, or shutting down", http.StatusServiceUnavailable)
		return
	}
	defer r.leave()
	sock, err := accept(w, req, wire.HandshakeBytes)
	if err != nil {
		r.log.Debug("upgrading a request", "path", scope.Path(), "error", err)
		return
	}
	r.serveSocket(sock, scope, func() { proven(req.Context()) })
}

// enter counts a socket in; false when there are too many or the relay closes.
func (r *Relay) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.sockets >= maxSockets {
		return false
	}
	r.sockets++
	r.wg.Add(1)
	return true
}

func (r *Relay) leave() {
	r.mu.Lock()
	r.sockets--
	r.mu.Unlock()
	r.wg.Done()
}

// serveSocket carries one socket from hello to its end. proven is called once
// the other side has proved a secret.
func (r *Relay) serveSocket(sock socket, scope wire.Scope, proven func()) {
	defer sock.CloseNow()
	// Close must not wait for a stranger who sends nothing.
	stop := context.AfterFunc(r.ctx, sock.CloseNow)
	defer stop()

	visitor, over := r.arrive(sock)
	defer over()
	handshakeDone := func() {
		over()
		proven()
	}
	var no *refusal
	var hello *wire.Hello
	switch scope {
	case wire.ScopePairing:
		hello, no = r.pairing.serve(visitor, handshakeDone)
	case wire.ScopePopup:
		hello, no = r.servePopup(visitor, handshakeDone)
	default:
		hello, no = r.serveConnector(visitor, handshakeDone)
	}
	if no != nil {
		r.refuse(sock, scope, hello, no)
	}
}

func (r *Relay) serveConnector(sock socket, handshakeDone func()) (*wire.Hello, *refusal) {
	h, no := r.handshake(sock, wire.ScopeConnector, r.secretOf)
	if no != nil {
		return helloOf(h), no
	}
	hello := h.hello
	c, no := r.rebind(hello)
	if no != nil {
		return hello, no
	}
	conn, no := c.accept(sock, hello)
	if no != nil {
		return hello, no
	}
	handshakeDone()
	sock.SetReadLimit(wire.FrameBytes)
	err := c.serve(conn)
	r.log.Info("connection ended", "connector", hello.ConnectorID, "generation", conn.generation, "reason", err)
	return hello, nil
}

// secretOf is the secret of the profile that a hello names.
func (r *Relay) secretOf(hello *wire.Hello) (string, *refusal) {
	b, ok, err := r.bindings.Binding(r.ctx, hello.ConnectorID)
	if err != nil {
		r.log.Error("reading a binding", "connector", hello.ConnectorID, "error", err)
		return "", &refusal{wire.RefuseUnknown, "The owner cannot read its bindings. Run pi-chrome doctor."}
	}
	if !ok {
		return "", unknownConnector
	}
	return b.Secret, nil
}

// A refusal ends a handshake. An empty code means that the peer is gone.
type refusal struct {
	code    wire.RefusalCode
	message string
}

func (r *Relay) refuse(sock socket, scope wire.Scope, hello *wire.Hello, no *refusal) {
	r.record(scope, hello, no)
	if no.code == "" {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.time.hello)
	defer cancel()
	frame, err := wire.Encode(wire.Refused{Type: wire.TypeRefused, Code: no.code, Message: no.message})
	if err == nil && sock.Write(ctx, frame) == nil {
		sock.Close(websocket.StatusPolicyViolation, string(no.code))
	}
}

// RefusalRecord is one refused handshake, for status and doctor.
type RefusalRecord struct {
	At             time.Time        `json:"at"`
	Path           string           `json:"path"` // /connector, /pairing or /popup
	Code           wire.RefusalCode `json:"code"`
	Message        string           `json:"message"`
	ConnectorID    string           `json:"connectorId,omitempty"`
	Label          string           `json:"label,omitempty"`
	DisplayVersion string           `json:"displayVersion,omitempty"`
	Fingerprint    string           `json:"fingerprint,omitempty"`
}

func (r *Relay) record(scope wire.Scope, hello *wire.Hello, no *refusal) {
	rec := RefusalRecord{At: time.Now(), Path: scope.Path(), Code: no.code, Message: no.message}
	if hello != nil {
		rec.ConnectorID, rec.Label, rec.DisplayVersion, rec.Fingerprint = hello.ConnectorID, hello.Label, hello.DisplayVersion, hello.Fingerprint
	}
	r.log.Info("refused", "path", rec.Path, "code", rec.Code, "connector", rec.ConnectorID, "message", rec.Message)
	if no.code == "" {
		return
	}
	r.meter.refusals.add(rec.Path, string(rec.Code))
	r.mu.Lock()
	// One that comes again and again does not push the others out.
	r.refusals = slices.DeleteFunc(r.refusals, func(o RefusalRecord) bool {
		o.At = rec.At
		return o == rec
	})
	r.refusals = slices.Insert(r.refusals, 0, rec)
	r.refusals = r.refusals[:min(len(r.refusals), maxRefusals)]
	r.mu.Unlock()
}

// Refusals returns the latest refused handshakes, newest first, at most 16.
func (r *Relay) Refusals() []RefusalRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refusals)
}
