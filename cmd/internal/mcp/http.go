package mcp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/driver/op"
)

// DefaultHTTPPort is where the tools are served over HTTP.
const DefaultHTTPPort = 17319

// Endpoint is the path of the tools.
const Endpoint = "/mcp"

// Bounds of the HTTP server.
const (
	maxConnections = 32               // MCP connections at a time
	maxOpening     = 128              // with the requests that may open one
	connectionIdle = 30 * time.Minute // without a request of its client
	headerTimeout  = 10 * time.Second
	shutdownLimit  = 3 * time.Second
	maxHeaderBytes = 64 << 10
)

// tokenFile holds the token of the HTTP server, in the state folder, so that a
// client's configuration stays right.
const tokenFile = "mcp-token"

var tokenForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Token returns the token that clients of the HTTP server show, making it when
// there is none. The error is an *op.Error.
func Token(stateDir string) (string, error) {
	name := filepath.Join(stateDir, tokenFile)
	fail := func(err error) error {
		return op.NotAvailable(op.CredentialUnreadable, "the token of the HTTP server in %s cannot be used: %s", name, err).
			WithHint("remove the file: the next start makes a new token, which clients must be told")
	}
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if err := makeToken(name); err != nil {
			return "", fail(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fail(err)
	}
	token := strings.TrimSpace(string(text))
	if !tokenForm.MatchString(token) {
		return "", fail(errors.New("it does not hold 64 hex digits"))
	}
	return token, nil
}

// makeToken writes a new token, whole, unless somebody else was first.
func makeToken(name string) error {
	var raw [32]byte
	rand.Read(raw[:])                                              // never fails, see crypto/rand
	file, err := os.CreateTemp(filepath.Dir(name), tokenFile+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(hex.EncodeToString(raw[:]))
	if err = errors.Join(err, file.Close()); err == nil {
		// A link, unlike a rename, does not replace what is there.
		if err = os.Link(file.Name(), name); errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, os.Remove(file.Name()))
}

// Listen takes the port on 127.0.0.1; 0 is any free one. The error is an
// *op.Error.
func Listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, op.NotAvailable(op.PortTaken, "the HTTP server cannot have port %d of 127.0.0.1: %s", port, err).
			WithHint("another pi-chrome mcp --http may run already; choose another port with --http-port")
	}
	return l, nil
}

// URL is the address of the tools on a listener.
func URL(l net.Listener) string { return "http://" + l.Addr().String() + Endpoint }

// ServeHTTP serves any number of connections on l, up to a bound, until ctx
// ends. Every request must show the token, name this host, and come from no
// web page.
func ServeHTTP(ctx context.Context, o Options, l net.Listener, token string) error {
	h := &host{opts: o, link: newLink(o.Connect), faces: map[*face]bool{}}
	defer h.link.close()
	var err error
	if h.idle, err = newFace(o, h.link); err != nil {
		return err
	}
	h.mcp = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{Logger: o.Logger, SessionTimeout: connectionIdle})
	mux := http.NewServeMux()
	mux.Handle(Endpoint, h)
	server := &http.Server{
		Handler: guard(l.Addr().String(), token, mux), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		// The connections first: their open streams would hold the server.
		h.end()
		stop, cancel := context.WithTimeout(context.Background(), shutdownLimit)
		defer cancel()
		if err = server.Shutdown(stop); err != nil {
			err = server.Close()
		}
		<-served
	}
	h.end()
	h.wait.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// guard refuses what is not a client on this machine that knows the token. A
// web page cannot leave out its Origin, and one that had this address given to
// its own name (DNS rebinding) still names its own host.
func guard(address, token string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address) // of a listener
	hosts := map[string]bool{"127.0.0.1:" + port: true, "localhost:" + port: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hosts[strings.ToLower(r.Host)] {
			http.Error(w, fmt.Sprintf("forbidden: this server is 127.0.0.1:%s, not %q", port, r.Host), http.StatusForbidden)
			return
		}
		if origin, ok := r.Header["Origin"]; ok {
			http.Error(w, fmt.Sprintf("forbidden: web pages (%q) may not use this server", strings.Join(origin, " ")), http.StatusForbidden)
			return
		}
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pi-chrome"`)
			http.Error(w, "unauthorized: send the header Authorization: Bearer TOKEN; pi-chrome mcp config --http CLIENT prints it", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// host keeps the connections of an HTTP server.
type host struct {
	opts Options
	link *link
	mcp  http.Handler
	idle *face // answers what is asked outside of a connection
	wait sync.WaitGroup

	mu    sync.Mutex
	ended bool
	faces map[*face]bool // whether its client has said hello
}

type serverKey struct{}

// serverOf is the server that a request belongs to. The handler asks for it
// several times for one request, and must get the same each time.
func serverOf(r *http.Request) *sdk.Server {
	f, _ := r.Context().Value(serverKey{}).(*face)
	if f == nil {
		return nil
	}
	return f.server
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.idle
	if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
		var err error
		if f, err = h.open(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer h.watch(f)
	}
	h.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, f)))
}

// open makes a connection.
func (h *host) open() (*face, error) {
	f, err := newFace(h.opts, h.link)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil, errors.New("this server is ending")
	}
	open := 0
	for _, hello := range h.faces {
		if hello {
			open++
		}
	}
	if open >= maxConnections || len(h.faces) >= maxOpening {
		return nil, fmt.Errorf("%d connections are open already; end one of them, or wait until one has been idle for %s", open, connectionIdle)
	}
	h.faces[f] = false
	h.wait.Add(1)
	return f, nil
}

// watch waits, behind the request that opened a connection, until it has
// ended, and closes it. Other requests open none: the handler has closed what
// it made for them.
func (h *host) watch(f *face) {
	sessions := slices.Collect(f.server.Sessions())
	if slices.ContainsFunc(sessions, func(s *sdk.ServerSession) bool { return s.InitializeParams() != nil }) {
		h.mu.Lock()
		h.faces[f] = true
		h.mu.Unlock()
	}
	go func() {
		defer h.wait.Done()
		for _, s := range sessions {
			_ = s.Wait() // how it ended changes nothing
		}
		h.mu.Lock()
		delete(h.faces, f)
		h.mu.Unlock()
		f.close()
	}()
}

// end ends every connection and takes no more.
func (h *host) end() {
	h.mu.Lock()
	h.ended = true
	var all []*face
	for f := range h.faces {
		all = append(all, f)
	}
	h.mu.Unlock()
	for _, f := range all {
		f.stop()
		for s := range f.server.Sessions() {
			_ = s.Close() // it may have ended already
		}
	}
}
