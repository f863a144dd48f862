package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// listen serves the relay over the real network.
func listen(t testing.TB, r *Relay) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/connector", r.ServeConnector)
	mux.HandleFunc("/pairing", r.ServePairing)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		assert.Check(t, r.Close())
		s.Close()
	})
	return s
}

// over makes the worker dial the server, as the extension does.
func (w *fakeWorker) over(s *httptest.Server, headers http.Header) *fakeWorker {
	w.dial = func(scope wire.Scope) socket {
		var nc net.Conn
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			nc, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return nc, err
		}}}
		c, _, err := websocket.Dial(context.Background(), strings.Replace(s.URL, "http", "ws", 1)+scope.Path(), &websocket.DialOptions{HTTPHeader: headers, HTTPClient: client})
		assert.NilError(w.p.t, err)
		c.SetReadLimit(wire.FrameBytes)
		return wsSocket{c, nc}
	}
	return w
}

var extensionOrigin = http.Header{"Origin": {"chrome-extension://" + pinnedExtension}}

func TestOverTheNetwork(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	s := listen(t, r)
	p := newProfile(t, r)
	w := p.worker().over(s, extensionOrigin).open()
	assert.Assert(t, w.ready != nil)
	tab := p.attachedTab(1)
	assert.NilError(t, evaluate(t.Context(), tab))
	// 15 MB there and back.
	large := strings.Repeat("x", 15<<20)
	p.mu.Lock()
	p.answer = func(_ *fakeWorker, _ string, args []json.RawMessage) (any, error) { return args[2], nil }
	p.mu.Unlock()
	var back struct {
		Text string `json:"text"`
	}
	assert.NilError(t, tab.Call(t.Context(), "Runtime.evaluate", map[string]string{"text": large}, &back))
	assert.Check(t, back.Text == large)
}

// TestForgedClients: what the real server refuses before the upgrade.
func TestForgedClients(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	s := listen(t, r)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	good := "chrome-extension://" + pinnedExtension
	for name, c := range map[string]struct {
		host    string
		headers http.Header
		status  int
	}{
		"the extension":              {headers: http.Header{"Origin": {good}}, status: http.StatusSwitchingProtocols},
		"a program":                  {status: http.StatusSwitchingProtocols},
		"by the name localhost":      {host: fmt.Sprintf("localhost:%d", port), status: http.StatusSwitchingProtocols},
		"a page":                     {headers: http.Header{"Origin": {"https://evil.test"}}, status: http.StatusForbidden},
		"a page of this machine":     {headers: http.Header{"Origin": {fmt.Sprintf("http://127.0.0.1:%d", port)}}, status: http.StatusForbidden},
		"a sandboxed frame":          {headers: http.Header{"Origin": {"null"}}, status: http.StatusForbidden},
		"an empty origin":            {headers: http.Header{"Origin": {""}}, status: http.StatusForbidden},
		"another extension":          {headers: http.Header{"Origin": {"chrome-extension://" + strings.Repeat("a", 32)}}, status: http.StatusForbidden},
		"nearly the extension":       {headers: http.Header{"Origin": {good + ".evil.test"}}, status: http.StatusForbidden},
		"the extension in upper":     {headers: http.Header{"Origin": {strings.ToUpper(good)}}, status: http.StatusForbidden},
		"two origins":                {headers: http.Header{"Origin": {good, "https://evil.test"}}, status: http.StatusForbidden},
		"a browser without origin":   {headers: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: http.StatusForbidden},
		"a rebound name":             {host: fmt.Sprintf("evil.test:%d", port), status: http.StatusForbidden},
		"a rebound name, no port":    {host: "evil.test", status: http.StatusForbidden},
		"another port":               {host: "127.0.0.1:1", status: http.StatusForbidden},
		"a name that begins like it": {host: fmt.Sprintf("127.0.0.1.evil.test:%d", port), status: http.StatusForbidden},
	} {
		for _, path := range []string{"/connector", "/pairing"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
				assert.NilError(t, err)
				for k, v := range c.headers {
					req.Header[k] = v
				}
				req.Host = c.host
				for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
					req.Header.Set(k, v)
				}
				res, err := http.DefaultTransport.RoundTrip(req)
				assert.NilError(t, err)
				defer res.Body.Close()
				assert.Equal(t, res.StatusCode, c.status)
				if c.status == http.StatusForbidden {
					assert.Equal(t, r.Refusals()[0].Path, path)
				}
			})
		}
	}
}

func TestPlainRequestIsNoSocket(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	s := listen(t, r)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/connector", strings.NewReader("{}"))
		assert.NilError(t, err)
		res, err := http.DefaultClient.Do(req)
		assert.NilError(t, err)
		assert.Check(t, res.StatusCode >= 400 && res.StatusCode < 500, "%s: %d", method, res.StatusCode)
		assert.NilError(t, res.Body.Close())
	}
}

// raw dials without a handshake.
func raw(t *testing.T, s *httptest.Server, path string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+path, nil)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// TestSilentClientIsLetGo: a client that opens a socket and says nothing holds
// it for no longer than the handshake may take.
func TestSilentClientIsLetGo(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	r.time.hello = 50 * time.Millisecond
	s := listen(t, r)
	c := raw(t, s, "/connector")
	_, b, err := c.Read(t.Context())
	assert.NilError(t, err)
	f, err := wire.DecodeForExtension(b)
	assert.NilError(t, err)
	assert.Equal(t, f.(*wire.Refused).Code, wire.RefuseMalformed)
	_, _, err = c.Read(t.Context())
	assert.Equal(t, websocket.CloseStatus(err), websocket.StatusPolicyViolation)
}

// TestSlowFrame: a hello that is sent one piece at a time is cut off.
func TestSlowFrame(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	r.time.hello = 50 * time.Millisecond
	s := listen(t, r)
	c := raw(t, s, "/connector")
	w, err := c.Writer(t.Context(), websocket.MessageText)
	assert.NilError(t, err)
	_, err = io.WriteString(w, `{"type":"hello",`)
	assert.NilError(t, err)
	_, b, err := c.Read(t.Context())
	assert.NilError(t, err)
	assert.Check(t, strings.Contains(string(b), "No hello within"))
}

func TestWrongFirstFrames(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	s := listen(t, r)
	for name, send := range map[string]func(*websocket.Conn) error{
		"binary":    func(c *websocket.Conn) error { return c.Write(t.Context(), websocket.MessageBinary, []byte("{}")) },
		"oversized": func(c *websocket.Conn) error { return c.Write(t.Context(), websocket.MessageText, make([]byte, 1<<20)) },
		"no JSON":   func(c *websocket.Conn) error { return c.Write(t.Context(), websocket.MessageText, []byte("hello")) },
		"a prove": func(c *websocket.Conn) error {
			return c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"prove","proof":""}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := raw(t, s, "/connector")
			_ = send(c) // the owner may close before all of it is written
			for {
				_, b, err := c.Read(t.Context())
				if err != nil {
					break
				}
				assert.Check(t, strings.Contains(string(b), `"code":"malformed"`), string(b))
			}
		})
	}
}

// TestForgedProofsOverTheNetwork: the refusals of a client that got that far.
func TestForgedProofsOverTheNetwork(t *testing.T) {
	r, _ := newRelayFor(t, Hooks{})
	s := listen(t, r)
	p := newProfile(t, r)
	var proofs []string
	w := p.worker().over(s, extensionOrigin)
	w.proof = func(proof string) string { proofs = append(proofs, proof); return proof }
	w.open()
	assert.Assert(t, w.ready != nil)
	assert.NilError(t, p.connector().WaitLive(t.Context()))
	for name, c := range map[string]struct {
		tamper func(*wire.Hello)
		proof  func(string) string
		want   wire.RefusalCode
	}{
		"wrong proof":       {proof: func(string) string { return strings.Repeat("f", 64) }, want: wire.RefuseProof},
		"replayed proof":    {proof: func(string) string { return proofs[0] }, want: wire.RefuseProof},
		"wrong fingerprint": {tamper: func(h *wire.Hello) { h.Fingerprint = strings.Repeat("f", 64) }, want: wire.RefuseFingerprint},
		"another extension": {tamper: func(h *wire.Hello) { h.ExtensionID = strings.Repeat("b", 32) }, want: wire.RefuseMalformed},
		"copied profile":    {tamper: func(h *wire.Hello) { h.BrowserEpoch = "a copy" }, want: wire.RefuseDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			f := p.worker().over(s, extensionOrigin)
			f.tamper, f.proof = c.tamper, c.proof
			f.open()
			assert.Assert(t, f.refusal != nil)
			assert.Equal(t, f.refusal.Code, c.want)
			assert.Check(t, p.connector().Live())
		})
	}
}

func BenchmarkRelay(b *testing.B) {
	r, _ := newRelayFor(b, Hooks{})
	s := listen(b, r)
	p := newProfile(b, r)
	p.worker().over(s, extensionOrigin).open()
	tab, err := p.connector().Tab(b.Context(), 1)
	assert.NilError(b, err)
	assert.NilError(b, tab.Attach(b.Context()))
	size := 10
	p.mu.Lock()
	p.answer = func(*fakeWorker, string, []json.RawMessage) (any, error) {
		return map[string]any{"result": map[string]any{"value": strings.Repeat("x", size)}}, nil
	}
	p.mu.Unlock()
	call := func() {
		var res struct {
			Result struct {
				Value string `json:"value"`
			} `json:"result"`
		}
		if err := tab.Call(b.Context(), "Runtime.evaluate", map[string]string{"expression": "1+1"}, &res); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			call()
		}
	})
	b.Run("inflight32", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
	size = 1 << 20
	b.Run("1MB", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			call()
		}
	})
}
