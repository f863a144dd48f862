package relaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/install"
)

// tap stands between the owner and those who speak to it, the extension and
// programs. It hands frames on as they are, shows each one to a hook before,
// and can end connections at a chosen frame.
type tap struct {
	port   int
	owner  int
	server *http.Server

	mu    sync.Mutex
	hook  func(*frame) verdict
	links map[*link]bool
	made  int // links of the extension so far
}

// link is one connection through the tap.
type link struct {
	path   string
	cancel context.CancelFunc

	mu    sync.Mutex
	calls map[uint64]string // the names of the calls that have no reply yet
}

// frame is one frame on its way.
type frame struct {
	path  string // /connector or /owner
	owner bool   // it comes from the owner
	raw   []byte
	kind  string // "call Input.dispatchMouseEvent mousePressed", "reply …", "event Page.loadEventFired", or the type
}

// verdict is what becomes of a frame.
type verdict int

const (
	pass     verdict = iota
	drop             // the connection ends before the frame is delivered
	cutAfter         // it ends after
)

// newTap starts a tap in front of the lane's owner and has the extension
// connect through it.
func newTap(t *testing.T, l *Lane) *tap {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	p := &tap{port: listener.Addr().(*net.TCPAddr).Port, owner: l.Port, links: map[*link]bool{}}
	p.server = &http.Server{Handler: p}
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(listener) }()
	t.Cleanup(func() {
		p.mu.Lock()
		for l := range p.links {
			l.cancel()
		}
		p.mu.Unlock()
		assert.Check(t, p.server.Close())
		<-served
	})
	_, err = install.Default(l.StateDir).Write(p.port)
	assert.NilError(t, err)
	return p
}

// on shows every frame to the hook from now on; nil ends that. The hook runs on
// the frame's way: what it waits for, the frame waits for.
func (p *tap) on(hook func(*frame) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// cut ends the extension's connections.
func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.path != "/owner" {
			l.cancel()
		}
	}
}

// live counts the extension's connections, and how many there ever were.
func (p *tap) live() (now, ever int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.path == wire.ScopeConnector.Path() {
			now++
		}
	}
	return now, p.made
}

func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	head := http.Header{}
	for _, name := range []string{"Origin", "Sec-Fetch-Site"} {
		if v := r.Header.Values(name); v != nil {
			head[name] = v
		}
	}
	up, refused, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.0.0.1:%d%s", p.owner, r.URL.Path), &websocket.DialOptions{HTTPHeader: head})
	if err != nil {
		if refused == nil {
			panic(http.ErrAbortHandler) // nobody is there: so it looks here
		}
		http.Error(w, err.Error(), refused.StatusCode)
		return
	}
	defer up.CloseNow() //nolint:errcheck // It may have ended already.
	down, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer down.CloseNow() //nolint:errcheck // It may have ended already.
	up.SetReadLimit(-1)
	down.SetReadLimit(-1)

	l := &link{path: r.URL.Path, cancel: cancel, calls: map[uint64]string{}}
	p.mu.Lock()
	p.links[l] = true
	if l.path == wire.ScopeConnector.Path() {
		p.made++
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		p.copy(ctx, l, up, down, true)
	})
	both.Go(func() {
		defer cancel()
		p.copy(ctx, l, down, up, false)
	})
	both.Wait()
}

// copy hands frames on until one side has ended or a verdict ends both.
func (p *tap) copy(ctx context.Context, l *link, from, to *websocket.Conn, owner bool) {
	for {
		_, raw, err := from.Read(ctx)
		if err != nil {
			return
		}
		p.mu.Lock()
		hook := p.hook
		p.mu.Unlock()
		f := l.read(raw, owner)
		v := pass
		if hook != nil {
			v = hook(f)
		}
		if v == drop {
			return
		}
		if to.Write(ctx, websocket.MessageText, raw) != nil || v == cutAfter {
			return
		}
	}
}

// read says what a frame is.
func (l *link) read(raw []byte, owner bool) *frame {
	f := &frame{path: l.path, owner: owner, raw: raw}
	var in struct {
		Type, Call, Event string
		ID                json.RawMessage
		Args              []json.RawMessage
	}
	// A frame that is not understood has no kind.
	_ = json.Unmarshal(raw, &in)
	var id uint64
	_ = json.Unmarshal(in.ID, &id)
	switch {
	case in.Call != "":
		f.kind = "call " + commandName(in.Call, in.Args)
		l.mu.Lock()
		l.calls[id] = f.kind
		l.mu.Unlock()
	case in.Event != "":
		f.kind = "event " + commandName(in.Event, in.Args)
	case in.Type != "":
		f.kind = in.Type
	default:
		l.mu.Lock()
		f.kind = "reply " + strings.TrimPrefix(l.calls[id], "call ")
		delete(l.calls, id)
		l.mu.Unlock()
	}
	return f
}

// commandName is the debugger command or event in a frame, with the type of an
// input event, or the name of what is no debugger's.
func commandName(name string, args []json.RawMessage) string {
	if !strings.HasPrefix(name, "debugger.") || len(args) < 2 {
		return name
	}
	var method string
	var params struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(args[1], &method) != nil {
		return name
	}
	if len(args) > 2 && strings.HasPrefix(method, "Input.") && json.Unmarshal(args[2], &params) == nil {
		method += " " + params.Type
	}
	return method
}
