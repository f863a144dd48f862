package faults

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"
	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/extension"
)

//go:embed testdata/attack.js
var attackScript string

// attackTime is how long the attackers are at it.
const attackTime = 5 * time.Second

// attackedPaths are asked by every attacker. That each route refuses strangers
// is held in package bridge, where the routes are.
var attackedPaths = []string{"/", "/health", "/owner", "/connector", "/pairing", "/popup", "/metrics", "/..%2fowner"}

// patience is the longest that somebody with the secret may have to wait while
// all attackers are at it, on a machine of two cores that they keep busy.
const patience = 10 * time.Second

// attackers has everybody at once who should get nothing: a page, programs
// without the credential that guess, replay, send too much, send too little and
// open too many connections. Meanwhile a session works, and new programs and a
// profile come in.
func attackers(t *testing.T, r *rig) {
	before := r.figures(t)
	first, starts := r.running()
	tapes, id := recordACommand(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), attackTime)
	defer cancel()

	page := attackerPage(t, r)
	quiet := work(t, r, 1, time.Second)
	var all sync.WaitGroup
	var attacked workFigures
	all.Go(func() { attacked = work(t, r, 0, attackTime) })
	all.Go(func() { attackByPage(t, page, r.port) })
	for i := range 4 {
		all.Go(func() { guess(ctx, t, r, i) })
	}
	all.Go(func() { replay(ctx, t, r, tapes) })
	all.Go(func() { tooMuch(ctx, t, r) })
	all.Go(func() { tooSlow(ctx, t, r) })
	all.Go(func() { flood(ctx, t, r) })
	all.Wait()

	t.Logf("alone: %s", quiet)
	t.Logf("under attack: %s", attacked)
	assert.Assert(t, attacked.commands >= 5, "the session was stopped: %s", attacked)
	assert.Assert(t, attacked.slowestDial < patience && attacked.slowest < patience, "%s", attacked)
	assert.Equal(t, len(r.site.of(id)), 1, "a replayed command ran")
	now, same := r.running()
	assert.Assert(t, now == first && same == starts, "the owner did not survive")
	t.Logf("the owner held %+v before, %+v at the end of the attack", before, r.figures(t))
	// Thousands of connections came; the tabs and lanes of the session at work
	// are a few that stay.
	until(t, 20*time.Second, "the owner still holds what the attackers left", func() bool {
		f := r.figures(t)
		return f.Goroutines <= before.Goroutines+40 && f.HeapBytes < before.HeapBytes+ownerSlack
	})
	c := r.dial(t, r.port)
	defer c.Close()
	facts, err := owner.Facts(t.Context(), c)
	assert.NilError(t, err)
	assert.Equal(t, len(facts.Profiles), 2)
	assert.Assert(t, facts.Profiles[0].Live && facts.Profiles[1].Live)
	assert.Assert(t, len(facts.Refusals) > 0 && len(facts.Refusals) <= 16)
}

// workFigures are what a session at work saw.
type workFigures struct {
	commands      int
	p50, slowest  time.Duration
	dials         int
	slowestDial   time.Duration
	reconnects    int
	slowestReturn time.Duration
}

func (w workFigures) String() string {
	return fmt.Sprintf("%d commands, p50 %s, slowest %s; %d programs came, slowest after %s; %d times the extension came back, slowest after %s",
		w.commands, w.p50.Round(time.Millisecond), w.slowest.Round(time.Millisecond), w.dials, w.slowestDial.Round(time.Millisecond),
		w.reconnects, w.slowestReturn.Round(time.Millisecond))
}

// work sends trivial commands, has new programs connect, and the extension
// lose its socket and come back, for some time.
func work(t *testing.T, r *rig, profile int, d time.Duration) (w workFigures) {
	c := r.dial(t, r.port)
	defer c.Close()
	p := r.profiles[profile]
	session := wire.Session{Key: fmt.Sprintf("work-%d", profile)}
	var times []time.Duration
	run := func() bool {
		began := time.Now()
		_, err := c.Command(t.Context(), wire.Command{Operation: "page.evaluate", Session: session, Browser: p.id, Input: json.RawMessage(`{"expression":"1+1"}`)}, nil)
		times = append(times, time.Since(began))
		return assert.Check(t, err)
	}
	if !run() { // makes the tab
		return w
	}
	times = nil
	for began := time.Now(); time.Since(began) < d; {
		if !run() {
			return w
		}
		w.commands++
		if w.commands%10 == 0 {
			at := time.Now()
			other := r.dial(t, r.port)
			_, err := owner.Status(t.Context(), other, session.Key)
			assert.Check(t, errors.Join(err, other.Close()))
			w.dials++
			w.slowestDial = max(w.slowestDial, time.Since(at))
		}
		if w.commands%40 == 0 {
			at := time.Now()
			p.proxy.cut()
			if !run() {
				return w
			}
			w.reconnects++
			w.slowestReturn = max(w.slowestReturn, time.Since(at))
		}
	}
	_, err := owner.Cleanup(t.Context(), c, session.Key)
	assert.Check(t, err)
	slices.Sort(times)
	w.p50, w.slowest = times[len(times)/2], times[len(times)-1]
	return w
}

// attackerPage opens a page of another site in one of the browsers.
func attackerPage(t *testing.T, r *rig) *direct.Page {
	page, err := r.profiles[0].browser.NewPage(t.Context(), &direct.NewPageOptions{URL: r.site.act("", "attacker", 0)})
	assert.NilError(t, err)
	until(t, 10*time.Second, "the attacker's page has not loaded", func() bool {
		res, err := cdp.Call(t.Context(), page, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.readyState + location.search"})
		return err == nil && strings.HasPrefix(string(res.Result.Value), `"complete?`)
	})
	return page
}

// attackByPage has a page of the same browser ask for everything.
func attackByPage(t *testing.T, page *direct.Page, port int) {
	paths, err := json.Marshal(attackedPaths)
	assert.Check(t, err)
	yes := true
	res, err := cdp.Call(t.Context(), page, runtime.Evaluate, runtime.EvaluateParams{
		Expression: fmt.Sprintf("%s(%d, %s, %d)", strings.TrimSpace(attackScript), port, paths, attackTime.Milliseconds()), ReturnByValue: &yes, AwaitPromise: &yes})
	if !assert.Check(t, err) {
		return
	}
	var out struct {
		Got   []string `json:"got"`
		Asked int      `json:"asked"`
	}
	assert.Check(t, jsonv2.Unmarshal(res.Result.Value, &out))
	assert.Check(t, res.ExceptionDetails == nil, "%v", res.ExceptionDetails)
	assert.Check(t, len(out.Got) == 0, "the page got %q", out.Got)
	assert.Check(t, out.Asked > 50, "it asked %d times only", out.Asked)
	t.Logf("the page asked %d times", out.Asked)
	assert.Check(t, page.Close(t.Context()))
}

// socketOf opens a socket as a stranger does.
func socketOf(ctx context.Context, r *rig, path string, head http.Header) (*websocket.Conn, error) {
	c, res, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.0.0.1:%d%s", r.port, path), &websocket.DialOptions{HTTPHeader: head})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	return c, err
}

// guess is a program that speaks the protocol and guesses the secret.
func guess(ctx context.Context, t *testing.T, r *rig, n int) {
	tries := 0
	for ctx.Err() == nil {
		func() {
			defer func() { tries++ }()
			path, hello := "/owner", any(wire.OwnerHello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(),
				Operations: wire.NewSecret(), Client: "guess", ClientNonce: wire.NewSecret()})
			scope, identity := wire.ScopeOwner, wire.Identity{}
			head := http.Header{}
			if n%2 == 1 {
				h := wire.Hello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ConnectorID: r.profiles[n/2].id, ExtensionID: extension.ID,
					DisplayVersion: "0.1.0", Label: "guess", Browser: wire.Browser{Family: "chromium", Version: "156"}, BrowserEpoch: wire.NewSecret(),
					WorkerID: wire.NewSecret()[:32], ClientNonce: wire.NewSecret(), Capabilities: wire.Capabilities{FlatSessions: true}, Resume: wire.Resume{FirstSeq: 1}}
				path, hello, scope, identity = "/connector", h, wire.ScopeConnector, h.Identity()
				head.Set("Origin", "chrome-extension://"+extension.ID)
			}
			c, err := socketOf(ctx, r, path, head)
			if err != nil {
				return // the port is full of strangers: no room for one more
			}
			defer c.CloseNow() //nolint:errcheck // It may have ended already.
			raw, err := wire.Encode(hello)
			assert.Check(t, err)
			if c.Write(ctx, websocket.MessageText, raw) != nil {
				return
			}
			_, raw, err = c.Read(ctx)
			if err != nil {
				return
			}
			var challenge wire.Challenge
			if json.Unmarshal(raw, &challenge) != nil || challenge.RequestNonce == "" {
				return
			}
			proof, err := wire.SocketProof(scope, wire.NewSecret(), identity, challenge.BridgeEpoch, challenge.RequestNonce, wire.Fingerprint())
			assert.Check(t, err)
			raw, err = wire.Encode(wire.Prove{Type: wire.TypeProve, Proof: proof})
			assert.Check(t, err)
			if c.Write(ctx, websocket.MessageText, raw) != nil {
				return
			}
			if _, raw, err = c.Read(ctx); err == nil {
				assert.Check(t, strings.Contains(string(raw), `"refused"`), "a guess was answered with %s", raw)
			}
		}()
	}
	t.Logf("%d guesses", tries)
}

// recordACommand records all that a program and the extensions sent while a
// command with an effect ran.
func recordACommand(t *testing.T, r *rig) (tapes [][]byte, id string) {
	var program, connector bytes.Buffer
	tape := func(b *bytes.Buffer) func(bool, []byte) {
		return func(owner bool, raw []byte) {
			if !owner {
				b.Write(raw)
			}
		}
	}
	p := r.profiles[0]
	r.programs.record(tape(&program))
	p.proxy.record(tape(&connector))
	p.proxy.cut() // so that its handshake is recorded
	c := r.dial(t, r.programs.port)
	id = wire.NewSecret()[:16]
	input, err := json.Marshal(map[string]any{"url": r.site.act(id, "work-0", 0)})
	assert.NilError(t, err)
	_, err = c.Command(t.Context(), wire.Command{ID: id, Operation: "page.navigate", Session: wire.Session{Key: "work-0"}, Browser: p.id, Input: input}, nil)
	assert.NilError(t, errors.Join(err, c.Close()))
	r.programs.record(nil)
	p.proxy.record(nil)
	assert.Equal(t, len(r.site.of(id)), 1)
	for _, b := range []*bytes.Buffer{&program, &connector} {
		assert.Assert(t, bytes.Contains(b.Bytes(), []byte("Upgrade: websocket")))
		tapes = append(tapes, b.Bytes())
	}
	return tapes, id
}

// replay sends the recorded bytes again, as they were.
func replay(ctx context.Context, t *testing.T, r *rig, tapes [][]byte) {
	rounds, refused := 0, 0
	for ctx.Err() == nil {
		for _, tape := range tapes {
			c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", r.port))
			if !assert.Check(t, err) {
				return
			}
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			_, _ = c.Write(tape) // the owner may have closed by then
			answer, _ := io.ReadAll(c)
			assert.Check(t, !bytes.Contains(answer, []byte(`"ready"`)) && !bytes.Contains(answer, []byte(`"result"`)), "%s", answer)
			if bytes.Contains(answer, []byte(`"refused"`)) {
				refused++
			}
			_ = c.Close()
			rounds++
		}
	}
	assert.Check(t, refused > 0, "no replay was refused")
	t.Logf("%d replays, %d refused in words", rounds, refused)
}

// tooMuch sends frames, headers and bodies without an end.
func tooMuch(ctx context.Context, t *testing.T, r *rig) {
	long := []byte(`{"type":"hello","x":"` + strings.Repeat("x", 1<<20) + `"}`)
	for ctx.Err() == nil {
		for _, path := range []string{"/owner", "/connector", "/pairing", "/popup"} {
			if c, err := socketOf(ctx, r, path, nil); err == nil {
				_ = c.Write(ctx, websocket.MessageText, long)
				_, raw, err := c.Read(ctx)
				assert.Check(t, err != nil || strings.Contains(string(raw), `"refused"`), "%s answered a long frame with %s", path, raw)
				_ = c.CloseNow()
			}
		}
		for _, request := range []string{
			"GET /owner HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
			"POST /owner HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 9000000000\r\n\r\n" + strings.Repeat("x", 64<<10),
			"POST /pairing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + strings.Repeat("x", 64<<10),
		} {
			c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", r.port))
			if !assert.Check(t, err) {
				return
			}
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			_, _ = fmt.Fprintf(c, request, r.port)
			answer, _ := io.ReadAll(io.LimitReader(c, 4096))
			assert.Check(t, len(answer) == 0 || bytes.HasPrefix(answer, []byte("HTTP/1.1 4")), "%s", answer)
			_ = c.Close()
		}
	}
}

// tooSlow holds connections open: some send a header byte by byte, some have
// their socket and say nothing, some say hello and never prove it.
func tooSlow(ctx context.Context, t *testing.T, r *rig) {
	var all sync.WaitGroup
	for i := range 90 {
		all.Go(func() {
			for ctx.Err() == nil {
				switch i % 3 {
				case 0:
					c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", r.port))
					if !assert.Check(t, err) {
						return
					}
					for _, b := range []byte(fmt.Sprintf("GET /owner HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n", r.port)) {
						if _, err := c.Write([]byte{b}); err != nil || pause(ctx, 200*time.Millisecond) {
							break
						}
					}
					_ = c.Close()
				default:
					c, err := socketOf(ctx, r, []string{"", "/owner", "/connector"}[i%3], nil)
					if err != nil {
						pause(ctx, 50*time.Millisecond)
						continue
					}
					_, _, _ = c.Read(ctx) // until the owner has had enough
					_ = c.CloseNow()
				}
			}
		})
	}
	all.Wait()
}

// pause waits; true when the time is up.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

// flood opens connection after connection and keeps as many as it may.
func flood(ctx context.Context, t *testing.T, r *rig) {
	var kept []net.Conn
	opened := 0
	for !pause(ctx, time.Millisecond) {
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", r.port), time.Second)
		if err != nil {
			continue
		}
		opened++
		if kept = append(kept, c); len(kept) > 500 {
			_ = kept[0].Close()
			kept = kept[1:]
		}
	}
	for _, c := range kept {
		_ = c.Close()
	}
	t.Logf("%d connections were opened", opened)
}
