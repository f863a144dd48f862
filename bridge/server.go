package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Limits of the owner.
const (
	maxConnections   = 128
	maxHeaderBytes   = 16 << 10
	headerTimeout    = 10 * time.Second
	handshakeTimeout = 5 * time.Second
	drainTimeout     = 35 * time.Second
	stateLockWait    = 5 * time.Second
	defaultIdle      = 30 * time.Minute
)

// Options configure a [Server]. StateDir, ExtensionID and Handler are
// required.
type Options struct {
	Port        int    // of 127.0.0.1; 0 for any free one
	StateDir    string // made when it is missing
	ExtensionID string // the pinned id of the extension
	Handler     Handler
	Logger      *slog.Logger // nil for none
	Version     string       // of this binary, for people
	Build       time.Time    // of this binary: between equal versions the later is the newer
	// OperationsFingerprint is of the operation list; clients compare it.
	OperationsFingerprint string
	// IdleTimeout is how long the owner lives without a client and without a
	// live connector: 0 is 30 minutes, negative is for ever.
	IdleTimeout time.Duration
	// ExtensionDir is where the extension is installed, for the popup; "" for
	// not said.
	ExtensionDir string
	// WebOrigins are the pages that may offer their profile to a session; nil
	// is DefaultWebOrigins, empty is none.
	WebOrigins []string
}

// Server is the owner of the port. Make one with [Listen].
type Server struct {
	opts     Options
	log      *slog.Logger
	info     OwnerInfo
	listener net.Listener
	http     *http.Server
	store    *store
	secret   string // the owner credential
	nonces   wire.Nonces
	meter    *meter
	relay    *Relay
	profiles profiles
	tabs     tabPort

	webOrigins []string
	// webMu makes storing a route and knowing it one step. It is taken before
	// mu.
	webMu sync.Mutex

	ctx    context.Context // ends when the server closes
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // every goroutine of the server
	done   chan struct{}  // closed when Close begins

	mu        sync.Mutex
	draining  bool
	closed    bool
	lastBusy  time.Time // a client or a live connector was there
	sessions  map[string]*session
	records   map[string]*targetRecord // by nonce
	making    map[string]making        // by nonce, of records that are allocating
	looking   map[string]bool          // connectors whose new tabs are looked for later
	ending    map[string]bool          // by nonce, of records whose session has to leave the tab now
	boxes     map[string]*mailbox      // by connector id; "" for commands without a profile
	leaving   map[string]bool          // connectors that are being unpaired
	webOffers map[string]webOffer      // of pages, by the number that the page made
	webRoutes map[string]WebRoute      // by session
	commands  map[string]*command      // by id, until they are answered
	stopped   time.Time                // when the user stopped everything; zero once a session was authorized since
	receipts  []receipt                // of commands that are over, the latest last
	clients   map[*client]struct{}
	audit     *auditLog
	auditDown atomic.Bool // the log took no entry: no effect begins
	guards    map[*Tab]*guard
	seen      map[tabRef]op.TabKey // tabs that the handler was given
	asks      map[string]*asked    // the question that is shown, by connector id
	connCount int                  // rises with each client

	closeOnce sync.Once
	closeErr  error
}

// Listen binds the port and opens the state folder. The bind is the election
// of the owner: a taken port is op.PortTaken.
func Listen(opts Options) (s *Server, err error) {
	if opts.Handler == nil || opts.ExtensionID == "" || opts.StateDir == "" {
		return nil, errors.New("bridge: StateDir, ExtensionID and Handler are required")
	}
	dir, err := PrepareStateDir(opts.StateDir)
	if err != nil {
		return nil, err
	}
	opts.StateDir = dir
	defer func() {
		if err != nil && !addressInUse(err) {
			noteStartFailure(dir, err)
		}
	}()
	secret, err := ensureCredential(dir)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(opts.Port)))
	if err != nil {
		return nil, bindError(opts.Port, err)
	}
	st, snap, err := openStore(dir, stateLockWait)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s, err = newServer(opts, secret, st, snap)
	if err != nil {
		return nil, errors.Join(err, st.Close(), ln.Close())
	}
	s.listener = &lobby{Listener: ln}
	s.info.Port = ln.Addr().(*net.TCPAddr).Port
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	removeStartFailure(dir)
	if err := writeMetricsToken(dir, metricsToken(secret)); err != nil {
		s.log.Warn("writing "+metricsFile, "err", err) // only who reads the numbers misses it
	}
	if err := writeOwnerFile(dir, OwnerFile{PID: s.info.PID, Port: s.info.Port, Version: opts.Version, StartedAt: s.info.StartedAt}); err != nil {
		// Only messages read it.
		s.log.Warn("writing owner.json", "err", err)
	}
	return s, nil
}

// addressInUse knows Windows' own number (WSAEADDRINUSE) too.
func addressInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.Errno(10048))
}

func bindError(port int, err error) error {
	if addressInUse(err) {
		return op.NotAvailable(op.PortTaken, "port %d of 127.0.0.1 is taken", port).
			WithHint("If it is a pi-chrome owner, use it; if it is forwarded from another machine, start the owner there. Otherwise choose another port with --port or PI_CHROME_PORT, and install the extension for it with pi-chrome extension install --port.").
			WithDetail("port", port).WithCause(err)
	}
	return op.NotAvailable(op.BridgeUnavailable, "port %d of 127.0.0.1 cannot be opened: %s", port, err).
		WithHint("Choose another port with --port or PI_CHROME_PORT.").WithDetail("port", port).WithCause(err)
}

// newServer makes a server without a listener.
func newServer(opts Options, secret string, st *store, snap stored) (*Server, error) {
	s := &Server{
		opts:      opts,
		log:       opts.Logger,
		store:     st,
		secret:    secret,
		meter:     st.meter,
		done:      make(chan struct{}),
		sessions:  map[string]*session{},
		records:   map[string]*targetRecord{},
		making:    map[string]making{},
		looking:   map[string]bool{},
		ending:    map[string]bool{},
		boxes:     map[string]*mailbox{},
		leaving:   map[string]bool{},
		webOffers: map[string]webOffer{},
		webRoutes: snap.routes,
		commands:  map[string]*command{},
		stopped:   snap.stopped,
		clients:   map[*client]struct{}{},
		guards:    map[*Tab]*guard{},
		seen:      map[tabRef]op.TabKey{},
		asks:      map[string]*asked{},
		lastBusy:  time.Now(),
	}
	if s.webOrigins = opts.WebOrigins; s.webOrigins == nil {
		s.webOrigins = DefaultWebOrigins
	}
	for _, origin := range s.webOrigins {
		if err := checkWebOrigin(origin); err != nil {
			return nil, err
		}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.info = OwnerInfo{Version: opts.Version, Build: opts.Build, Operations: opts.OperationsFingerprint,
		Fingerprint: wire.Fingerprint(), BridgeEpoch: wire.NewSecret(), StateDir: opts.StateDir, PID: os.Getpid(), StartedAt: time.Now()}
	s.audit = newAudit(opts.StateDir)
	s.record(AuditEntry{Event: "owner-started", Note: opts.Version})
	for _, r := range snap.sessions {
		s.sessions[r.Key] = &session{record: r, groups: map[string]int{}, noted: r.LastUsed}
	}
	for _, r := range snap.targets {
		s.records[r.Nonce] = &r
	}
	relay, err := NewRelay(RelayOptions{ExtensionID: opts.ExtensionID, Bindings: st, Leases: st, Epoch: s.info.BridgeEpoch, Logger: s.log, meter: s.meter,
		Hooks: Hooks{
			Reset: func(ctx context.Context, c *Connector, reason ResetReason) {
				if reason == ResetFirst {
					s.takeBack(ctx, c) // an owner before may have left its question
				}
				s.reconcile(ctx, c, reason)
			},
			Live: func(c *Connector) {
				s.touch()
				s.wg.Go(func() { s.askAgain(s.ctx, c) })
			},
			Offline:     func(c *Connector) { s.touch() },
			TabCreated:  func(c *Connector, tab op.Tab) { s.tabCreated(c, tab) },
			TabRemoved:  func(c *Connector, tabID int) { s.tabRemoved(c.ID(), tabID) },
			TabReplaced: func(c *Connector, oldID, newID int) { s.tabReplaced(c, oldID, newID) },
			Canceled:    func(c *Connector, at time.Time) { s.debuggerCanceled(c, at) },
			Paired:      func(c *Connector) { s.record(AuditEntry{Event: "paired", Connector: c.ID(), Outcome: "ok"}) },
			Other: func(c *Connector, event string, args []json.RawMessage) {
				switch event {
				case "popup.request":
					s.popupRequest(c.ID(), args)
				case "runtime.onMessageExternal":
					s.external(c.ID(), args)
				}
			},
			Popup: func(ctx context.Context, c *Connector, ask wire.PopupAsk) (*wire.Projection, *op.Error) {
				return s.popup(ctx, c, ask)
			},
		}})
	if err != nil {
		return nil, err
	}
	s.relay, s.profiles, s.tabs = relay, relayProfiles{relay, st}, relayTabs{}
	return s, nil
}

// Port is the port that the server listens on.
func (s *Server) Port() int { return s.info.Port }

// Info says who the owner is.
func (s *Server) Info() OwnerInfo { return s.info }

// Serve serves until ctx ends, a client asks for the end, or the owner has
// been idle for too long; then it has closed the server and returns nil.
func (s *Server) Serve(ctx context.Context) error {
	s.wg.Go(s.watchIdle) // before anything can wait for it: ctx may have ended by now
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	s.log.Info("owner ready", "port", s.info.Port, "version", s.opts.Version, "stateDir", s.opts.StateDir)
	err := s.http.Serve(s.listener)
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return errors.Join(fmt.Errorf("serving: %w", err), s.Close())
	}
	return s.Close()
}

// touch notes that the owner is in use.
func (s *Server) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastBusy = time.Now()
}

func (s *Server) watchIdle() {
	idle, forever := s.opts.IdleTimeout, s.opts.IdleTimeout < 0
	if idle <= 0 {
		idle = defaultIdle
	}
	tick := time.NewTicker(min(max(idle/10, time.Millisecond), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		s.noteUses()
		s.releaseUnused(time.Now())
		live := s.profiles.anyLive()
		s.mu.Lock()
		if live || len(s.clients) > 0 || len(s.commands) > 0 {
			s.lastBusy = time.Now()
		}
		expired := !forever && time.Since(s.lastBusy) >= idle
		s.mu.Unlock()
		if expired {
			s.log.Info("owner ends: idle", "for", idle)
			s.closeSoon()
			return
		}
	}
}

// closeSoon closes the server from one of its own goroutines, which Close
// would wait for.
func (s *Server) closeSoon() {
	go s.Close() // Serve waits for it: both go through closeOnce
}

// shutdown refuses new commands, withdraws queued ones, lets executing ones
// end (at most 35 s), and closes the server.
func (s *Server) shutdown(reason string) {
	s.mu.Lock()
	if s.draining || s.closed {
		s.mu.Unlock()
		return
	}
	s.draining = true
	var queued, running []*command
	for _, c := range s.commands {
		if c.state == stateQueued {
			queued = append(queued, c)
		} else {
			running = append(running, c)
		}
	}
	s.mu.Unlock()
	s.log.Info("owner drains", "reason", reason, "queued", len(queued), "executing", len(running))
	for _, c := range queued {
		s.withdraw(c, stoppedError())
	}
	s.wg.Go(func() {
		limit := time.NewTimer(drainTimeout)
		defer limit.Stop()
		for _, c := range running {
			select {
			case <-c.finished:
			case <-limit.C:
				s.closeSoon()
				return
			case <-s.done:
				return
			}
		}
		s.closeSoon()
	})
}

func stoppedError() *op.Error {
	return op.NotAvailable(op.BridgeStopped, "the owner is ending; the command was not started").WithHint("Send it again: a new owner will take it.")
}

// Close ends the server: it closes the port, cancels what runs, tells every
// caller the outcome, and returns when no goroutine of the server is left.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.draining, s.closed = true, true
		commands := make([]*command, 0, len(s.commands))
		for _, c := range s.commands {
			commands = append(commands, c)
		}
		s.mu.Unlock()
		close(s.done)
		// The listener first: from here on another owner may win the port.
		var errs []error
		if s.listener != nil {
			if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		for _, c := range commands {
			s.withdraw(c, stoppedError())
		}
		s.cancel(endsWith(context.Canceled, op.NotAvailable(op.BridgeStopped, "the owner ended")))
		for _, c := range commands {
			<-c.finished
		}
		s.mu.Lock()
		clients := make([]*client, 0, len(s.clients))
		for c := range s.clients {
			clients = append(clients, c)
		}
		s.mu.Unlock()
		for _, c := range clients {
			c.finish()
		}
		if s.http != nil {
			if err := s.http.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if s.relay != nil {
			errs = append(errs, s.relay.Close())
		}
		s.wg.Wait()
		errs = append(errs, s.audit.close(), s.store.Close())
		removeOwnerFile(s.opts.StateDir, s.info.PID)
		s.closeErr = errors.Join(errs...)
		s.log.Info("owner ended")
	})
	return s.closeErr
}

// routes is every route with its checks.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.local(s.serveHealth))
	mux.HandleFunc("GET /owner", s.local(s.serveOwner))
	mux.HandleFunc("GET /metrics", s.local(s.serveMetrics))
	mux.HandleFunc("GET /connector", s.relay.ServeConnector)
	mux.HandleFunc("GET /pairing", s.relay.ServePairing)
	mux.HandleFunc("GET /popup", s.relay.ServePopup)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page that rebinds its name to 127.0.0.1 sends its own name here.
		if r.Host != fmt.Sprintf("127.0.0.1:%d", s.info.Port) && r.Host != fmt.Sprintf("localhost:%d", s.info.Port) {
			refuse(w, http.StatusForbidden, "host not allowed")
			return
		}
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			refuse(w, http.StatusRequestEntityTooLarge, "no route takes a body")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// local refuses whatever a browser sent: programs of this machine set neither
// header.
func (s *Server) local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Origin")) > 0 || len(r.Header.Values("Sec-Fetch-Site")) > 0 {
			refuse(w, http.StatusForbidden, "this route is for programs of this machine only")
			return
		}
		next(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	http.Error(w, why, status)
}

// Health is the answer of GET /health. It holds no secret: anybody may read
// it, and nobody should trust it.
type Health struct {
	Version     string `json:"version"`
	Fingerprint string `json:"fingerprint"`
	BridgeEpoch string `json:"bridgeEpoch"`
	Mode        string `json:"mode"` // server, or draining
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	h := Health{Version: s.info.Version, Fingerprint: s.info.Fingerprint, BridgeEpoch: s.info.BridgeEpoch, Mode: "server"}
	s.mu.Lock()
	if s.draining {
		h.Mode = "draining"
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(h); err != nil {
		s.log.Debug("writing health", "err", err)
	}
}
