package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// chromium is a real browser with the real extension, paired with a relay.
type chromium struct {
	relay  *Relay
	mux    atomic.Pointer[http.ServeMux] // of the relay
	server *httptest.Server
	cdp    *websocket.Conn // of the browser itself, to do to it what users and crashes do
	nextID int
}

// browserPath finds the browser of the tests. There is no test without one.
func browserPath(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("PI_CHROME_BROWSER"); p != "" {
		return p
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-for-testing"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Fatal("no Chromium: install it, or name it in PI_CHROME_BROWSER")
	return ""
}

// startChromium serves a relay, starts the browser and waits until the
// extension, which finds the token in its folder, is paired and live.
func startChromium(t testing.TB, hooks Hooks) *chromium {
	t.Helper()
	return startChromiumWith(t, RelayOptions{Bindings: &memBindings{}, Hooks: hooks}, "")
}

// startChromiumWith starts one with the folder of another extension beside
// ours, "" for none, and more arguments.
func startChromiumWith(t testing.TB, opts RelayOptions, other string, more ...string) *chromium {
	t.Helper()
	b := &chromium{}
	b.own(t, opts)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { b.mux.Load().ServeHTTP(w, req) }))
	b.server = s
	t.Cleanup(func() {
		assert.Check(t, b.relay.Close())
		s.Close()
	})
	r := b.relay
	folder := filepath.Join(t.TempDir(), "extension")
	assert.NilError(t, os.CopyFS(folder, os.DirFS("../extension")))
	status, err := r.Pairing().Start(PairingOptions{Folder: true})
	assert.NilError(t, err)
	config, err := json.Marshal(map[string]any{"port": s.Listener.Addr().(*net.TCPAddr).Port, "pairingToken": status.Token})
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(folder, "bridge.json"), config, 0o600))

	profile := t.TempDir()
	args := []string{"--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--remote-debugging-port=0", "--user-data-dir=" + profile,
		"--load-extension=" + strings.Trim(folder+","+other, ",")}
	args = append(append(args, more...), "about:blank")
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.Command(browserPath(t), args...)
	// Wait returns when every process of the browser has let go of the pipe,
	// so that nobody writes into the profile while it is removed.
	cmd.Stderr = io.Discard
	cmd.WaitDelay = 10 * time.Second
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("refusals: %+v", b.relay.Refusals())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done, err := r.Pairing().Wait(ctx)
	assert.NilError(t, err)
	assert.Equal(t, done.State, PairingDone)
	assert.NilError(t, b.connector(t).WaitLive(ctx))
	port, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
	assert.NilError(t, err)
	lines := strings.Fields(string(port))
	b.cdp, _, err = websocket.Dial(ctx, "ws://127.0.0.1:"+lines[0]+lines[1], nil)
	assert.NilError(t, err)
	b.cdp.SetReadLimit(-1)
	t.Cleanup(func() { _ = b.cdp.CloseNow() })
	return b
}

// own makes the relay that has the browser from now on, beside whatever one
// there was.
func (b *chromium) own(t testing.TB, opts RelayOptions) {
	t.Helper()
	if opts.time == nil {
		times := defaultTiming
		opts.time = &times
	}
	opts.time.offers = 100 * time.Millisecond
	opts.ExtensionID = extension.ID
	r, err := NewRelay(opts)
	assert.NilError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/connector", r.ServeConnector)
	mux.HandleFunc("/pairing", r.ServePairing)
	b.relay = r
	b.mux.Store(mux)
}

func (b *chromium) connector(t testing.TB) *Connector {
	all := b.relay.Connectors()
	assert.Equal(t, len(all), 1)
	return all[0]
}

// command sends one command to the browser itself.
func (b *chromium) command(t testing.TB, method string, params, result any) {
	t.Helper()
	b.nextID++
	raw, err := json.Marshal(map[string]any{"id": b.nextID, "method": method, "params": params})
	assert.NilError(t, err)
	assert.NilError(t, b.cdp.Write(t.Context(), websocket.MessageText, raw))
	for {
		_, raw, err := b.cdp.Read(t.Context())
		assert.NilError(t, err)
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		assert.NilError(t, json.Unmarshal(raw, &m))
		if m.ID != b.nextID {
			continue
		}
		assert.Equal(t, string(m.Error), "", method)
		if result != nil {
			assert.NilError(t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// killWorker ends the extension's worker as Chrome does.
func (b *chromium) killWorker(t testing.TB) {
	t.Helper()
	var targets struct {
		TargetInfos []struct{ TargetID, Type, URL string }
	}
	b.command(t, "Target.getTargets", struct{}{}, &targets)
	for _, x := range targets.TargetInfos {
		if x.Type == "service_worker" && strings.Contains(x.URL, extension.ID) {
			b.command(t, "Target.closeTarget", map[string]string{"targetId": x.TargetID}, nil)
			return
		}
	}
	t.Fatalf("no worker among %+v", targets.TargetInfos)
}

// open makes a hidden tab, attaches it and loads the address.
func (b *chromium) open(t testing.TB, url string) *Tab {
	t.Helper()
	c := b.connector(t)
	made, err := c.CreateTab(t.Context(), CreateTab{})
	assert.NilError(t, err)
	tab, err := c.Tab(t.Context(), made.ID)
	assert.NilError(t, err)
	defer tab.Pin("a test")() // as a command does
	assert.NilError(t, tab.Attach(t.Context()))
	loaded, stop := tab.Subscribe("Page.loadEventFired")
	defer stop()
	assert.NilError(t, tab.Call(t.Context(), "Page.enable", nil, nil))
	assert.NilError(t, tab.Call(t.Context(), "Page.navigate", map[string]string{"url": url}, nil))
	<-loaded
	assert.NilError(t, tab.Call(t.Context(), "Page.disable", nil, nil))
	return tab
}

// value evaluates an expression in the tab.
func value[T any](t testing.TB, tab *Tab, expression string) T {
	t.Helper()
	var res struct {
		Result struct {
			Value T `json:"value"`
		} `json:"result"`
	}
	err := tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &res)
	assert.NilError(t, err)
	return res.Result.Value
}

// counter is a page with a frame of another site, and counts what it was sent.
type counter struct {
	*httptest.Server
	mu   sync.Mutex
	hits int
}

func newCounter(t testing.TB) *counter {
	c := &counter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/hit":
			c.mu.Lock()
			c.hits++
			c.mu.Unlock()
		case "/frame":
			_, _ = io.WriteString(w, "<p>inner")
		case "/framed":
			cross := strings.Replace("http://"+req.Host, "127.0.0.1", "localhost", 1)
			_, _ = fmt.Fprintf(w, `<!doctype html><title>outer</title><iframe src="%s/frame"></iframe>`, cross)
		default:
			_, _ = io.WriteString(w, "<!doctype html><title>page</title><p>hello")
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits
}

// TestRealExtension is the whole path with the real worker: pairing from the
// folder, tabs, events in order, child sessions, a detach, errors.
func TestRealExtension(t *testing.T) {
	b := startChromium(t, Hooks{})
	pages := newCounter(t)
	c := b.connector(t)
	info := c.Info()
	assert.Check(t, info.Browser.Family != "" && info.Browser.Version != "" && info.Capabilities.FlatSessions)

	tab := b.open(t, pages.URL)
	assert.Equal(t, value[int](t, tab, "1+1"), 2)
	assert.Equal(t, value[string](t, tab, `"\ud800"`), "\ufffd") // half of a pair, as Chrome hands it on
	shown, err := tab.Info(t.Context())
	assert.NilError(t, err)
	assert.Check(t, !shown.Active && shown.ID == tab.Key().TabID)

	t.Run("events come before the reply", func(t *testing.T) {
		var heard recorder
		stop := tab.Listen(heard.listen)
		defer stop()
		assert.NilError(t, tab.Call(t.Context(), "Page.enable", nil, nil))
		assert.NilError(t, tab.Call(t.Context(), "Runtime.enable", nil, nil))
		assert.Check(t, slices.Contains(heard.heard(), "Runtime.executionContextCreated"), "%v", heard.heard())
		assert.NilError(t, tab.Call(t.Context(), "Runtime.disable", nil, nil))
	})
	t.Run("a frame of another site", func(t *testing.T) {
		attached, stop := tab.Subscribe("Target.attachedToTarget")
		defer stop()
		assert.NilError(t, tab.Call(t.Context(), "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}, nil))
		assert.NilError(t, tab.Call(t.Context(), "Page.navigate", map[string]string{"url": pages.URL + "/framed"}, nil))
		var ev struct {
			SessionID string `json:"sessionId"`
		}
		assert.NilError(t, json.Unmarshal(<-attached, &ev))
		var res struct {
			Result struct {
				Value string `json:"value"`
			} `json:"result"`
		}
		assert.NilError(t, tab.Child(ev.SessionID).Call(t.Context(), "Runtime.evaluate", map[string]any{
			"expression": `new Promise(r => document.readyState === "complete" ? r(location.host) : addEventListener("load", () => r(location.host)))`, "awaitPromise": true}, &res))
		assert.Check(t, strings.HasPrefix(res.Result.Value, "localhost:"), res.Result.Value)
	})
	t.Run("Chrome's errors", func(t *testing.T) {
		err := tab.Call(t.Context(), "Page.navigate", map[string]string{"url": "no scheme"}, nil)
		assert.ErrorContains(t, err, "Cannot navigate to invalid URL")
		err = tab.Call(t.Context(), "Nothing.atAll", nil, nil)
		assert.ErrorContains(t, err, "wasn't found")
		err = tab.Child("0123456789ABCDEF0123456789ABCDEF").Call(t.Context(), "Page.enable", nil, nil)
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
		_, err = c.TabInfo(t.Context(), 999_999)
		assert.ErrorIs(t, err, &op.Error{Code: op.TabGone})
	})
	t.Run("a page of Chrome cannot be attached", func(t *testing.T) {
		made, err := c.CreateTab(t.Context(), CreateTab{URL: "chrome://version"})
		assert.NilError(t, err)
		own, err := c.Tab(t.Context(), made.ID)
		assert.NilError(t, err)
		assert.ErrorIs(t, own.Attach(t.Context()), &op.Error{Code: op.ProtectedTabURL})
		assert.NilError(t, c.RemoveTabs(t.Context(), made.ID))
		assert.ErrorIs(t, own.Attach(t.Context()), &op.Error{Code: op.TabGone})
	})
	t.Run("a frame with an unknown scheme detaches", func(t *testing.T) {
		victim := b.open(t, pages.URL)
		detached := make(chan string, 4)
		victim.Listen(func(ev op.Event) {
			if ev.Detached != "" {
				detached <- ev.Detached
			}
		})
		err := victim.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": `{const f=document.createElement("iframe");f.src="unknown-scheme://x";document.body.append(f)}; new Promise(done=>setTimeout(done,20000))`, "awaitPromise": true}, nil)
		assert.ErrorIs(t, err, op.ErrDetached)
		assert.NilError(t, victim.Attach(t.Context()))
		assert.Equal(t, <-detached, "target_closed")
		assert.Equal(t, victim.Attachment(), 2)
		assert.Equal(t, value[int](t, victim, "2+2"), 4)
	})
	t.Run("groups", func(t *testing.T) {
		group, err := c.GroupTabs(t.Context(), -1, shown.WindowID, shown.ID)
		assert.NilError(t, err)
		g, err := c.UpdateGroup(t.Context(), group, GroupUpdate{Title: "Agent", Color: "blue"})
		assert.NilError(t, err)
		assert.Equal(t, g.Title, "Agent")
		tabs, err := c.Tabs(t.Context())
		assert.NilError(t, err)
		i := slices.IndexFunc(tabs, func(x op.Tab) bool { return x.ID == shown.ID })
		assert.Check(t, i >= 0 && tabs[i].Group != nil && tabs[i].Group.Color == "blue")
		assert.NilError(t, c.UngroupTabs(t.Context(), shown.ID))
	})
	t.Run("a large answer", func(t *testing.T) {
		assert.Equal(t, len(value[string](t, tab, `"x".repeat(10<<20)`)), 10<<20)
		err := tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": `"x".repeat(25<<20)`, "returnByValue": true}, nil)
		assert.ErrorContains(t, err, "larger than 20 MB")
		assert.Equal(t, value[int](t, tab, "3"), 3)
	})
	t.Run("a call that the worker does not allow", func(t *testing.T) {
		_, err := c.Chrome(t.Context(), "storage.local.get", nil)
		assert.ErrorIs(t, err, op.ErrNotDelivered)
	})
}

// TestRealWorkerIsKilled: with nothing in flight nobody sees it; in the middle
// of a call the outcome is told truthfully and the call is not made again.
func TestRealWorkerIsKilled(t *testing.T) {
	b := startChromium(t, Hooks{})
	pages := newCounter(t)
	tab := b.open(t, pages.URL+"/framed")
	c := b.connector(t)
	autoAttach := map[string]bool{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}
	first, stopFirst := tab.Subscribe("Target.attachedToTarget")
	defer stopFirst()
	assert.NilError(t, tab.Call(t.Context(), "Target.setAutoAttach", autoAttach, nil))
	<-first

	gone := make(chan struct{})
	generation := c.Info().Generation
	go func() {
		for c.Live() && c.Info().Generation == generation {
			<-b.relay.Changed()
		}
		close(gone)
	}()
	b.killWorker(t)
	<-gone
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	assert.NilError(t, c.WaitLive(ctx))
	assert.NilError(t, tab.Attach(ctx))
	assert.Equal(t, tab.Attachment(), 2)
	assert.Equal(t, value[int](t, tab, "1+1"), 2)
	// The frame of another site is announced to whoever asks anew.
	second, stopSecond := tab.Subscribe("Target.attachedToTarget")
	defer stopSecond()
	assert.NilError(t, tab.Call(t.Context(), "Target.setAutoAttach", autoAttach, nil))
	<-second

	lost := make(chan error, 1)
	go func() {
		lost <- tab.Call(t.Context(), "Runtime.evaluate", map[string]any{
			"expression": `fetch("/hit").then(() => new Promise(() => {}))`, "awaitPromise": true}, nil)
	}()
	deadline := time.After(10 * time.Second)
	for pages.count() == 0 {
		select {
		case <-deadline:
			t.Fatal("the page was not asked")
		case <-time.After(5 * time.Millisecond):
		}
	}
	b.killWorker(t)
	err := <-lost
	assert.ErrorIs(t, err, op.ErrReplyLost)
	assert.NilError(t, c.WaitLive(ctx))
	assert.NilError(t, tab.Attach(ctx))
	assert.Equal(t, value[int](t, tab, "1+1"), 2)
	assert.Equal(t, pages.count(), 1)
}

// TestRealSocketIsLost in the middle of a call, which finishes all the same.
func TestRealSocketIsLost(t *testing.T) {
	b := startChromium(t, Hooks{})
	pages := newCounter(t)
	tab := b.open(t, pages.URL)
	c := b.connector(t)
	done := make(chan error, 1)
	var res struct {
		Result struct {
			Value int `json:"value"`
		} `json:"result"`
	}
	go func() {
		done <- tab.Call(t.Context(), "Runtime.evaluate", map[string]any{
			"expression": `fetch("/hit").then(() => new Promise(r => setTimeout(r, 100, 7)))`, "awaitPromise": true}, &res)
	}()
	deadline := time.After(10 * time.Second)
	for pages.count() == 0 {
		select {
		case <-deadline:
			t.Fatal("the page was not asked")
		case <-time.After(time.Millisecond):
		}
	}
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	conn.fail(io.ErrUnexpectedEOF)
	assert.NilError(t, <-done)
	assert.Equal(t, res.Result.Value, 7)
	assert.Equal(t, pages.count(), 1)
	assert.Equal(t, tab.Attachment(), 1)
	assert.Equal(t, c.Info().Generation, 2)
}

func BenchmarkRealRelay(b *testing.B) {
	browser := startChromium(b, Hooks{})
	pages := newCounter(b)
	tab := browser.open(b, pages.URL)
	run := func(expression string) {
		var res struct {
			Result struct {
				Value json.RawMessage `json:"value"`
			} `json:"result"`
		}
		if err := tab.Call(b.Context(), "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &res); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		times := make([]time.Duration, 0, 10_000)
		for b.Loop() {
			start := time.Now()
			run("1+1")
			times = append(times, time.Since(start))
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
	})
	b.Run("inflight32", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				run("1+1")
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	})
	b.Run("1MB", func(b *testing.B) {
		for b.Loop() {
			run(`"x".repeat(1<<20)`)
		}
	})
}
