package relaytest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"
	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/direct"
	"pi-chrome/extension"
)

// p50 is the median in milliseconds.
func p50(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// timed runs fn for the length of the benchmark and reports its median.
func timed(b *testing.B, fn func()) float64 {
	fn()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		fn()
		times = append(times, time.Since(began))
	}
	m := p50(times)
	b.ReportMetric(m, "p50-ms")
	return m
}

// memory keeps bindings for the length of a benchmark.
type memory struct {
	mu  sync.Mutex
	all map[string]bridge.Binding
}

func (m *memory) Binding(_ context.Context, id string) (bridge.Binding, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.all[id]
	return b, ok, nil
}

func (m *memory) Bindings(context.Context) ([]bridge.Binding, error) { return nil, nil }

func (m *memory) SaveBinding(_ context.Context, b bridge.Binding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[b.ConnectorID] = b
	return nil
}

func (m *memory) RemoveBinding(context.Context, string) error { return nil }

// devtools is a tab over the WebSocket that Chrome offers for debugging: what
// the relay is measured by. One call is made at a time.
type devtools struct {
	conn *websocket.Conn
	id   int
}

func (d *devtools) Call(ctx context.Context, method string, params, result any) error {
	d.id++
	raw, err := jsonv2.Marshal(map[string]any{"id": d.id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if err := d.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		return err
	}
	_, raw, err = d.conn.Read(ctx)
	if err != nil {
		return err
	}
	var reply struct {
		ID     int          `json:"id"`
		Result jsonv2.Value `json:"result"`
	}
	if err := jsonv2.Unmarshal(raw, &reply); err != nil {
		return err
	}
	if reply.ID != d.id {
		return fmt.Errorf("an answer to call %d instead of %d", reply.ID, d.id)
	}
	return jsonv2.Unmarshal(reply.Result, result)
}

func (*devtools) Subscribe(string) (<-chan jsonv2.Value, func()) { return nil, func() {} }

// relayTab is a tab of a browser with the extension, reached by a relay in this
// process; and tabs of the same browser over its WebSocket and its pipe.
func relayTab(b testing.TB) (*bridge.Tab, *devtools, *direct.Page) {
	b.Helper()
	relay, err := bridge.NewRelay(bridge.RelayOptions{ExtensionID: extension.ID, Bindings: &memory{all: map[string]bridge.Binding{}}})
	assert.NilError(b, err)
	b.Cleanup(func() { assert.Check(b, relay.Close()) })
	mux := http.NewServeMux()
	mux.HandleFunc("/connector", relay.ServeConnector)
	mux.HandleFunc("/pairing", relay.ServePairing)
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	folder := install.Folder{Dir: b.TempDir()}
	pairing, err := relay.Pairing().Start(bridge.PairingOptions{})
	assert.NilError(b, err)
	_, err = folder.Write(port)
	assert.NilError(b, err)
	assert.NilError(b, folder.SetToken(port, pairing.Token))
	browser, err := direct.Launch(b.Context(), &direct.Options{ExtensionDir: folder.Dir, Args: []string{"--remote-debugging-port=0"}})
	assert.NilError(b, err)
	b.Cleanup(func() { assert.Check(b, browser.Close()) })
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	_, err = relay.Pairing().Wait(ctx)
	assert.NilError(b, err)
	c := relay.Connectors()[0]
	assert.NilError(b, c.WaitLive(ctx))
	made, err := c.CreateTab(ctx, bridge.CreateTab{})
	assert.NilError(b, err)
	tab, err := c.Tab(ctx, made.ID)
	assert.NilError(b, err)
	assert.NilError(b, tab.Attach(ctx))
	page, err := browser.NewPage(ctx, nil)
	assert.NilError(b, err)
	active, err := os.ReadFile(filepath.Join(browser.UserDataDir(), "DevToolsActivePort"))
	assert.NilError(b, err)
	host, _, _ := strings.Cut(string(active), "\n")
	conn, _, err := websocket.Dial(ctx, "ws://127.0.0.1:"+host+"/devtools/page/"+page.Key().TargetID, nil)
	assert.NilError(b, err)
	b.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	return tab, &devtools{conn: conn}, page
}

func evaluateOn(b testing.TB, s cdp.Session, expression string) string {
	yes := true
	res, err := cdp.Call(b.Context(), s, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ReturnByValue: &yes})
	assert.NilError(b, err)
	return string(res.Result.Value)
}

// BenchmarkRelay is what the way through the extension costs, beside the same
// commands over the browser's own debugging socket and pipe.
func BenchmarkRelay(b *testing.B) {
	tab, socket, page := relayTab(b)
	sessions := []struct {
		name string
		cdp.Session
	}{{"socket", socket}, {"pipe", page}, {"relay", tab}}
	one := map[string]float64{}
	for _, s := range sessions {
		b.Run("evaluate/"+s.name, func(b *testing.B) {
			one[s.name] = timed(b, func() { evaluateOn(b, s, "1+1") })
			if s.name == "relay" && one["socket"] > 0 {
				b.ReportMetric(one["relay"]/one["socket"], "x-socket")
			}
		})
	}
	sessions = sessions[1:] // the socket takes one call at a time
	for _, s := range sessions {
		b.Run("32-in-flight/"+s.name, func(b *testing.B) {
			calls := make(chan struct{})
			var done sync.WaitGroup
			for range 32 {
				done.Go(func() {
					for range calls {
						evaluateOn(b, s, "1+1")
					}
				})
			}
			for b.Loop() {
				calls <- struct{}{}
			}
			close(calls)
			done.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
	for _, s := range sessions {
		b.Run("1MB/"+s.name, func(b *testing.B) {
			timed(b, func() { assert.Equal(b, len(evaluateOn(b, s, `"x".repeat(1 << 20)`)), 1<<20+2) })
		})
	}
}

// BenchmarkOperation is what a caller waits for: the whole path, program,
// owner, relay, extension and tab, which is hidden.
func BenchmarkOperation(b *testing.B) {
	l := Start(b, false)
	s := l.Session(b)
	b.Run("snapshot-6000", func(b *testing.B) {
		s.t = b
		s.Open(l.URL + "/_/huge?n=6000")
		timed(b, func() { s.Do("page.snapshot", map[string]any{}) })
	})
	b.Run("evaluate", func(b *testing.B) {
		s.t = b
		timed(b, func() { s.Do("page.evaluate", map[string]any{"expression": "1+1"}) })
	})
	b.Run("read-only-list", func(b *testing.B) {
		s.t = b
		timed(b, func() { s.Do("tab.list", map[string]any{}) })
	})
	for _, by := range []string{"selector", "ref"} {
		b.Run("click-by-"+by, func(b *testing.B) {
			s.t = b
			s.Open(l.URL + "/input/click-log.html")
			target := map[string]any{"selector": "#button"}
			if by == "ref" {
				target = map[string]any{"ref": s.Ref("Click me")}
			}
			s.Do("page.evaluate", map[string]any{"expression": "addEventListener('mouseup', (e) => { last = performance.timeOrigin + e.timeStamp }, true)"})
			var events []time.Duration
			timed(b, func() {
				began := time.Now()
				s.Do("input.click", target)
				b.StopTimer()
				at, err := strconv.ParseFloat(string(s.Do("page.evaluate", map[string]any{"expression": "last"}).Value), 64)
				assert.NilError(b, err)
				events = append(events, time.Duration((at-float64(began.UnixMicro())/1000)*float64(time.Millisecond)))
				b.StartTimer()
			})
			b.ReportMetric(p50(events), "last-event-p50-ms")
		})
	}
	b.Run("full-page", func(b *testing.B) {
		s.t = b
		s.Open(l.URL + "/screenshot/long.html")
		tiles := 0
		m := timed(b, func() {
			r := s.Do("page.screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "full-page-tiles"}})
			tiles = len(Value[struct {
				Tiles []struct {
					Y float64 `json:"y"`
				} `json:"tiles"`
			}](b, r).Tiles)
		})
		b.ReportMetric(float64(tiles), "tiles")
		b.ReportMetric(m/float64(tiles), "tile-p50-ms")
	})
	b.Run("viewport", func(b *testing.B) {
		s.t = b
		timed(b, func() {
			s.Do("page.screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "viewport"}})
		})
	})
	s.t = b
}

// BenchmarkStatus is a process of its own each time, as a shell starts it.
func BenchmarkStatus(b *testing.B) {
	l := Start(b, false)
	bin := builtProgram(b)
	timed(b, func() {
		cmd := exec.Command(bin, "status")
		cmd.Env = append(os.Environ(), l.Env()...)
		out, err := cmd.CombinedOutput()
		assert.NilError(b, err, "%s", out)
	})
}

// builtProgram builds pi-chrome itself: the binary of the tests is larger.
func builtProgram(b *testing.B) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "pi-chrome")
	out, err := exec.Command("go", "build", "-o", bin, "pi-chrome/cmd/pi-chrome").CombinedOutput()
	assert.NilError(b, err, "%s", out)
	return bin
}

// BenchmarkOwnerIdle is the memory of an owner with a live profile that does
// nothing, in MB resident. It takes no time.
func BenchmarkOwnerIdle(b *testing.B) {
	bin := builtProgram(b)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{Executable: bin})
	assert.NilError(b, err)
	b.Cleanup(func() { assert.Check(b, box.Close()) })
	for b.Loop() {
		b.ReportMetric(residentMB(b, box.OwnerPID()), "rss-MB")
	}
}

// residentMB reads what ps says of a process.
func residentMB(b *testing.B, pid int) float64 {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	assert.NilError(b, err)
	kb, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	assert.NilError(b, err)
	return kb / 1024
}
