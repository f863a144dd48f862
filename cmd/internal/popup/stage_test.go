package popup

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/direct"
	"pi-chrome/extension"
)

// Who the profile on the stage is.
const (
	connectorID = "11111111-2222-4333-8444-555555555555"
	token       = "0123456789ABCDEF0123456789ABCDEF"
)

// scene is how the owner on the stage behaves. It is put on for one picture.
type scene struct {
	away     bool             // nobody listens for the extension
	refuse   wire.RefusalCode // of the worker; "" for none
	stranger bool             // the owner does not know the secret
	told     string           // the projection that a popup is told, by the name of its golden frame; "" for no such route
	fault    *wire.Failure    // of what a popup asks, beside its status
}

// stage plays the owner for a real extension: it shakes hands as an owner does
// and tells what the scene says.
type stage struct {
	t      *testing.T
	port   int
	secret string

	mu      sync.Mutex
	now     scene
	open    map[*websocket.Conn]string // by scope
	changed chan struct{}
}

func startStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, secret: wire.NewSecret(), open: map[*websocket.Conn]string{}, changed: make(chan struct{})}
	server := httptest.NewServer(s)
	s.port = server.Listener.Addr().(*net.TCPAddr).Port
	t.Cleanup(func() {
		s.drop("")
		server.Close()
	})
	return s
}

// set puts a scene on and ends the sockets of the one before.
func (s *stage) set(now scene) {
	s.mu.Lock()
	s.now = now
	s.mu.Unlock()
	s.drop("")
}

// drop ends the sockets of a scope, of all for "".
func (s *stage) drop(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, of := range s.open {
		if scope == "" || of == scope {
			_ = c.CloseNow()
			delete(s.open, c)
		}
	}
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	scope := wire.Scope(r.URL.Path[1:])
	if now.away || scope == wire.ScopePopup && now.told == "" {
		http.NotFound(w, r)
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // the browser has gone
	}
	defer c.CloseNow()
	s.mu.Lock()
	s.open[c] = string(scope)
	s.mu.Unlock()
	s.play(r.Context(), c, scope, now)
}

// play carries one socket until it ends.
func (s *stage) play(ctx context.Context, c *websocket.Conn, scope wire.Scope, now scene) {
	send := func(frame any) bool {
		b, err := wire.Encode(frame)
		assert.Check(s.t, err)
		return c.Write(ctx, websocket.MessageText, b) == nil
	}
	read := func() []byte {
		_, b, err := c.Read(ctx)
		if err != nil {
			return nil
		}
		return b
	}
	hello, err := wire.DecodeHello(read())
	if err != nil {
		return // it went away again
	}
	if now.refuse != "" && scope != wire.ScopePopup {
		send(wire.Refused{Type: wire.TypeRefused, Code: now.refuse, Message: "It is shutting down."})
		read()
		return
	}
	key := s.secret
	if scope == wire.ScopePairing {
		key = token
	}
	if now.stranger {
		key = wire.NewSecret()
	}
	epoch, nonce := wire.NewSecret(), wire.NewSecret()
	proof, err := wire.ServerProof(scope, key, hello.Identity(), hello.ClientNonce, epoch, nonce, wire.Fingerprint())
	assert.Check(s.t, err)
	if !send(wire.Challenge{Type: wire.TypeChallenge, BridgeEpoch: epoch, RequestNonce: nonce, ServerFingerprint: wire.Fingerprint(), Proof: proof}) {
		return
	}
	prove, err := wire.DecodeProve(read())
	if err != nil {
		return // it does not trust us
	}
	want, err := wire.SocketProof(scope, key, hello.Identity(), epoch, nonce, hello.Fingerprint)
	assert.Check(s.t, err)
	assert.Check(s.t, wire.EqualProof(prove.Proof, want), "the proof of %s", scope)
	if scope == wire.ScopePairing {
		send(wire.Offered{Type: wire.TypeOffered})
		read()
		return
	}
	send(wire.Ready{Type: wire.TypeReady, ConnectionID: "c1", Generation: 1})
	for scope == wire.ScopePopup {
		ask, err := wire.DecodePopupAsk(read())
		if err != nil {
			return
		}
		s.mu.Lock()
		now := s.now
		s.mu.Unlock()
		a := wire.PopupAnswer{Type: wire.TypeAnswer, ID: ask.ID, Status: projection(s.t, now.told)}
		if ask.Do != wire.PopupStatus && now.fault != nil {
			a.Status, a.Error = nil, now.fault
		}
		send(a)
	}
	for read() != nil { // pongs and events
	}
}

// projection is a golden one.
func projection(t *testing.T, name string) *wire.Projection {
	raw, err := os.ReadFile(filepath.Join("../../../fixtures/wire", "bridge2popup-"+name+".json"))
	assert.Check(t, err)
	var golden struct {
		Frame wire.PopupAnswer `json:"frame"`
	}
	assert.Check(t, json.Unmarshal(raw, &golden))
	return golden.Frame.Status
}

// browser starts a browser with the extension, which looks for the stage's
// owner and has its secret. folder is what is loaded.
func (s *stage) browser(ctx context.Context) (b *direct.Browser, folder string) {
	s.t.Helper()
	folder = filepath.Join(s.t.TempDir(), "extension")
	assert.NilError(s.t, os.CopyFS(folder, extension.FS()))
	s.config(folder, fmt.Sprintf(`{"port":%d}`, s.port))
	b, err := direct.Launch(ctx, &direct.Options{ExtensionDir: folder})
	assert.NilError(s.t, err)
	s.t.Cleanup(func() { assert.Check(s.t, b.Close()) })
	return b, folder
}

func (s *stage) config(folder, text string) {
	assert.NilError(s.t, os.WriteFile(filepath.Join(folder, extension.BridgeFile), []byte(text), 0o600))
}

// patience bounds one wait of the tests.
const patience = 30 * time.Second
