package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// serve starts an owner on a free port of the real network.
func serve(t *testing.T, opts Options) (*Server, string) {
	t.Helper()
	if opts.StateDir == "" {
		opts.StateDir = t.TempDir()
	}
	opts.ExtensionID = pinnedExtension
	if opts.Handler == nil {
		opts.Handler = &fakeHandler{}
	}
	s, err := Listen(opts)
	assert.NilError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		assert.Check(t, s.Close())
		assert.Check(t, <-served)
	})
	return s, fmt.Sprintf("127.0.0.1:%d", s.Port())
}

func get(t *testing.T, method, addr, path string, header http.Header, body string) (int, string) {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, r)
	assert.NilError(t, err)
	for k, v := range header {
		if k == "Host" {
			req.Host = v[0]
			continue
		}
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	assert.NilError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	assert.NilError(t, err)
	return resp.StatusCode, string(b)
}

func TestHealthHoldsNoSecret(t *testing.T) {
	s, addr := serve(t, Options{Version: "1.2.3"})
	status, body := get(t, "GET", addr, "/health", nil, "")
	assert.Equal(t, status, 200)
	var h map[string]any
	assert.NilError(t, json.Unmarshal([]byte(body), &h))
	assert.DeepEqual(t, h, map[string]any{"version": "1.2.3", "fingerprint": wire.Fingerprint(), "bridgeEpoch": s.info.BridgeEpoch, "mode": "server"})
	assert.Assert(t, !strings.Contains(body, s.secret))
}

func TestEveryRouteChecksHostAndOrigin(t *testing.T) {
	s, addr := serve(t, Options{})
	upgrade := func(more http.Header) http.Header {
		h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		for k, v := range more {
			h[k] = v
		}
		return h
	}
	extension := "chrome-extension://" + pinnedExtension
	bad := []http.Header{
		{"Host": {"evil.test"}}, {"Host": {fmt.Sprintf("evil.test:%d", s.Port())}}, {"Host": {"127.0.0.1"}}, {"Host": {"127.0.0.1:1"}},
		{"Origin": {"http://evil.test"}}, {"Origin": {"null"}}, {"Origin": {"chrome-extension://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
		{"Origin": {"http://" + addr}}, {"Origin": {extension, "http://evil.test"}},
	}
	for _, path := range []string{"/health", "/owner", "/connector", "/pairing", "/popup"} {
		for _, h := range bad {
			status, _ := get(t, "GET", addr, path, upgrade(h), "")
			assert.Equal(t, status, http.StatusForbidden, "%s %v", path, h)
		}
	}
	for _, path := range []string{"/health", "/owner"} {
		for _, h := range []http.Header{{"Origin": {extension}}, {"Sec-Fetch-Site": {"none"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
			status, _ := get(t, "GET", addr, path, upgrade(h), "")
			assert.Equal(t, status, http.StatusForbidden, "%s %v", path, h)
		}
	}
	status, _ := get(t, "GET", addr, "/nowhere", nil, "")
	assert.Equal(t, status, http.StatusNotFound)
	status, _ = get(t, "POST", addr, "/health", nil, "")
	assert.Equal(t, status, http.StatusMethodNotAllowed)
	status, _ = get(t, "GET", addr, "/health", nil, "a body")
	assert.Equal(t, status, http.StatusRequestEntityTooLarge)
	status, _ = get(t, "GET", addr, "/health", http.Header{"X-Long": {strings.Repeat("x", maxHeaderBytes+4096)}}, "")
	assert.Equal(t, status, http.StatusRequestHeaderFieldsTooLarge)
	status, _ = get(t, "GET", addr, "/owner", nil, "") // no upgrade
	assert.Assert(t, status >= 400)
}

// connect opens a raw WebSocket on /owner.
func connect(t *testing.T, addr string) frames {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/owner", nil)
	assert.NilError(t, err)
	conn.SetReadLimit(wire.FrameBytes)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return webSocket{conn}
}

func refusalOf(t *testing.T, conn frames) wire.RefusalCode {
	t.Helper()
	raw, err := conn.Read(t.Context())
	assert.NilError(t, err)
	v, err := wire.DecodeForClient(raw)
	assert.NilError(t, err)
	r, ok := v.(*wire.Refused)
	assert.Assert(t, ok, "%s", raw)
	assert.Assert(t, r.Message != "")
	return r.Code
}

func TestOwnerHandshakeRefusals(t *testing.T) {
	var logged lockedBuffer
	s, addr := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	hello := func() wire.OwnerHello {
		return wire.OwnerHello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), Client: "test", ClientNonce: wire.NewSecret()}
	}
	challenge := func(conn frames) *wire.Challenge {
		assert.NilError(t, writeFrame(conn, hello()))
		raw, err := conn.Read(t.Context())
		assert.NilError(t, err)
		v, err := wire.DecodeForClient(raw)
		assert.NilError(t, err)
		return v.(*wire.Challenge)
	}
	proofFor := func(ch *wire.Challenge, secret string) wire.Prove {
		p, err := wire.SocketProof(wire.ScopeOwner, secret, wire.Identity{}, ch.BridgeEpoch, ch.RequestNonce, wire.Fingerprint())
		assert.NilError(t, err)
		return wire.Prove{Type: wire.TypeProve, Proof: p}
	}

	conn := connect(t, addr)
	h := hello()
	h.Version = 99
	assert.NilError(t, writeFrame(conn, h))
	assert.Equal(t, refusalOf(t, conn), wire.RefuseVersion)

	conn = connect(t, addr)
	assert.NilError(t, conn.Write(t.Context(), []byte(`{"type":"command"}`)))
	assert.Equal(t, refusalOf(t, conn), wire.RefuseMalformed)

	conn = connect(t, addr)
	ch := challenge(conn)
	assert.NilError(t, writeFrame(conn, proofFor(ch, wire.NewSecret())))
	assert.Equal(t, refusalOf(t, conn), wire.RefuseProof)

	// A proof that was seen on another connection is of another nonce.
	conn = connect(t, addr)
	ch = challenge(conn)
	good := proofFor(ch, s.secret)
	assert.NilError(t, writeFrame(conn, good))
	raw, err := conn.Read(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(raw), `"ready"`))
	conn = connect(t, addr)
	challenge(conn)
	assert.NilError(t, writeFrame(conn, good))
	assert.Equal(t, refusalOf(t, conn), wire.RefuseProof)

	// Another contract is let in: it may be a newer program that takes over.
	conn = connect(t, addr)
	h = hello()
	h.Fingerprint = strings.Repeat("4", 64)
	assert.NilError(t, writeFrame(conn, h))
	raw, err = conn.Read(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(raw), `"challenge"`))

	// Before the proof a frame may be 64 KB, not 20 MB.
	conn = connect(t, addr)
	assert.NilError(t, conn.Write(t.Context(), bytes.Repeat([]byte(" "), wire.HandshakeBytes+1)))
	_, err = conn.Read(t.Context())
	assert.Assert(t, err != nil)

	assert.Assert(t, !strings.Contains(logged.String(), s.secret))
	assert.Assert(t, !strings.Contains(logged.String(), good.Proof))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestASilentProgramIsDropped(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		ours, theirs := newPipe()
		start := time.Now()
		r.srv.wg.Go(func() { r.srv.serveClient(theirs, func() {}) })
		_, err := ours.Read(t.Context())
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, time.Since(start), handshakeTimeout)
		// A nonce is good for five seconds.
		ours, theirs = newPipe()
		r.srv.wg.Go(func() { r.srv.serveClient(theirs, func() {}) })
		assert.NilError(t, writeFrame(ours, wire.OwnerHello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ClientNonce: wire.NewSecret()}))
		_, err = ours.Read(t.Context())
		assert.NilError(t, err)
		time.Sleep(wire.NonceTTL + time.Millisecond)
		_, err = ours.Read(t.Context())
		assert.ErrorIs(t, err, io.EOF)
		synctest.Wait()
	})
}

// TestConnectionLimit: the oldest connection that has not proved itself makes
// room, and one that has keeps its place; where all have, a new one is closed
// at once, so that nobody takes the owner for hanging.
func TestConnectionLimit(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	g := &lobby{Listener: ln}
	defer g.Close()
	dial := func() (net.Conn, *lobbyConn) {
		ours, err := net.Dial("tcp4", ln.Addr().String())
		assert.NilError(t, err)
		t.Cleanup(func() { _ = ours.Close() })
		theirs, err := g.Accept()
		assert.NilError(t, err)
		return ours, theirs.(*lobbyConn)
	}
	ended := func(c net.Conn) bool {
		assert.NilError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	}
	known, theirs := dial()
	proven(withConn(t.Context(), theirs))
	var strangers []net.Conn
	var theirEnds []*lobbyConn
	for range maxConnections - 1 {
		ours, theirs := dial()
		strangers, theirEnds = append(strangers, ours), append(theirEnds, theirs)
	}
	for i := range 3 {
		_, theirs := dial()
		theirEnds = append(theirEnds, theirs)
		assert.Assert(t, ended(strangers[i]))
	}
	_, err = theirs.Write([]byte("x"))
	assert.NilError(t, err)
	_, err = known.Read(make([]byte, 1))
	assert.NilError(t, err)

	for _, c := range theirEnds {
		c.proven()
	}
	refused, err := net.Dial("tcp4", ln.Addr().String())
	assert.NilError(t, err)
	defer refused.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := g.Accept()
		accepted <- c
	}()
	assert.Assert(t, ended(refused))
	assert.NilError(t, theirs.Close())
	_ = theirs.Close() // frees its place once
	next, err := net.Dial("tcp4", ln.Addr().String())
	assert.NilError(t, err)
	defer next.Close()
	assert.Assert(t, <-accepted != nil)
	assert.Equal(t, g.open, maxConnections)
}

func TestListenOnATakenPort(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer ln.Close()
	dir := t.TempDir()
	_, err = Listen(Options{Port: ln.Addr().(*net.TCPAddr).Port, StateDir: dir, ExtensionID: pinnedExtension, Handler: &fakeHandler{}})
	e := op.AsError(err)
	assert.Equal(t, e.Code, op.PortTaken)
	assert.Assert(t, strings.Contains(e.Hint, "--port"))
	assert.Assert(t, StartFailure(dir, time.Now().Add(-time.Minute)) == nil) // the election was lost, nothing is broken
}

func TestIdleOwnerEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.opts.IdleTimeout = 30 * time.Minute
		r.profiles.setLive(r.browser, false)
		start := time.Now()
		r.srv.wg.Go(r.srv.watchIdle)
		p := r.dial()
		time.Sleep(2 * time.Hour) // a client keeps it alive
		p.close()
		r.profiles.setLive(r.browser, true)
		time.Sleep(time.Hour) // and so does a browser
		synctest.Wait()
		select {
		case <-r.srv.done:
			t.Fatal("the owner ended while it was in use")
		default:
		}
		r.profiles.setLive(r.browser, false)
		<-r.srv.done
		assert.Assert(t, time.Since(start) >= 3*time.Hour+29*time.Minute, "%s", time.Since(start))
		assert.Assert(t, time.Since(start) <= 3*time.Hour+32*time.Minute, "%s", time.Since(start))
		r.close()
	})
}

// FuzzOwnerFrames feeds the owner what an authenticated program might send.
// It may refuse and close; it must neither panic nor hang nor answer twice.
func FuzzOwnerFrames(f *testing.F) {
	for _, s := range []string{
		`{"type":"command","id":"1","operation":"page.click","session":{"key":"default"},"input":{}}`,
		`{"type":"command","id":"1","operation":"page.click","session":{"key":"default"},"input":{"target":{"by":"id","value":3}}}`,
		`{"type":"command","id":"1","operation":"page.click","session":{"key":"default"},"input":[1]}`,
		`{"type":"command","id":"1","operation":"page.click","session":{"key":"default"},"deadlineMs":1}`,
		`{"type":"cancel","id":"1"}`, `{"type":"request","id":"2","method":"status","params":{"session":"x"}}`,
		`{"type":"request","id":"2","method":"authorize","params":{"session":"x","mode":"until","minutes":5}}`,
		`{"type":"request","id":"2","method":"pairing.pick","params":{"label":"x"}}`,
		`{"type":"request","id":"2","method":"unpair"}`, `{"type":"hello"}`, `{}`, `[]`, "\x00", `{"type":"result","id":"1","ok":true}`,
	} {
		f.Add([]byte(s), []byte(`{"type":"request","id":"9","method":"owner"}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			r.srv.store.db.NoSync = true
			ours, theirs := newPipe()
			r.srv.wg.Go(func() { r.srv.serveClient(theirs, func() {}) })
			assert.NilError(t, introduce(ours, r.secret))
			answers := map[string]int{}
			read := make(chan struct{})
			go func() {
				defer close(read)
				for {
					raw, err := ours.Read(context.Background())
					if err != nil {
						return
					}
					v, err := wire.DecodeForClient(raw)
					if err != nil {
						panic(fmt.Sprintf("the owner wrote %q: %v", raw, err))
					}
					if res, ok := v.(*wire.Result); ok {
						answers[res.ID]++
					}
				}
			}()
			sent := map[string]int{}
			for _, frame := range [][]byte{a, b} {
				if v, err := wire.DecodeFromClient(frame); err == nil {
					switch f := v.(type) {
					case *wire.Command:
						sent[f.ID]++
					case *wire.Request:
						if f.Method == "shutdown" {
							return
						}
						sent[f.ID]++
					}
				}
				if ours.Write(context.Background(), frame) != nil {
					break
				}
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			ours.Close()
			<-read
			for id, n := range answers {
				if id != "" && n > sent[id] {
					t.Errorf("%d answers to %d frames with id %q", n, sent[id], id)
				}
			}
		})
	})
}
