package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	bolt "go.etcd.io/bbolt"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// The test binary is also the owner that the tests start and kill: a process
// of its own, as in life.
const (
	envOwner   = "PI_CHROME_TEST_OWNER" // the port; starts an owner instead of tests
	envDir     = "PI_CHROME_TEST_DIR"
	envVersion = "PI_CHROME_TEST_VERSION"
	envOps     = "PI_CHROME_TEST_OPERATIONS"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(envOwner); port != "" {
		if err := ownerMain(port); err != nil {
			fmt.Fprintln(os.Stderr, "owner:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func ownerMain(port string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	dir := os.Getenv(envDir)
	s, err := bridge.Listen(bridge.Options{Port: n, StateDir: dir, ExtensionID: extensionID, Handler: handler{dir},
		Version: os.Getenv(envVersion), OperationsFingerprint: os.Getenv(envOps)})
	if err != nil {
		return err
	}
	return s.Serve(context.Background())
}

// handler has operations that write a line to the file "effects" and then
// wait until the file "go" is there.
type handler struct{ dir string }

func (handler) Describe(name string) (op.Descriptor, bool) {
	switch name {
	case "tab.touch":
		return op.Descriptor{Name: name, Tool: "chrome_touch", Effect: op.MayMutate, Tab: op.NoTab, Deadline: op.DefaultDeadline}, true
	case "system.status", "page.look":
		return op.Descriptor{Name: name, Tool: "chrome_status", Effect: op.ReadOnly, Tab: op.NoTab, Deadline: op.DefaultDeadline}, true
	}
	return op.Descriptor{}, false
}

func (h handler) EffectOf(name string, _ json.RawMessage) op.Effect {
	d, _ := h.Describe(name)
	return d.Effect
}

func (handler) Validate(string, json.RawMessage) error { return nil }
func (handler) Forget(op.TabKey)                       {}

func (h handler) Run(ctx context.Context, call *bridge.Call) (op.Result, error) {
	if call.Operation == "system.status" {
		return op.NewResult("fine")
	}
	if call.Operation == "page.look" {
		call.Progress(1, 2, "looked")
		<-ctx.Done()
		return op.Result{}, ctx.Err()
	}
	f, err := os.OpenFile(filepath.Join(h.dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return op.Result{}, err
	}
	fmt.Fprintln(f, call.ID)
	if err := f.Close(); err != nil {
		return op.Result{}, err
	}
	call.Progress(1, 2, "touched")
	for {
		if _, err := os.Stat(filepath.Join(h.dir, "go")); err == nil {
			return op.NewResult(call.ID)
		}
		select {
		case <-ctx.Done():
			return op.Result{}, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// world is a state folder, a port, and a paired browser that connects again
// for as long as the test runs.
type world struct {
	t       *testing.T
	dir     string
	port    int
	starts  atomic.Int32
	owner   *exec.Cmd
	version string
	ops     string
	blocks  int // of 512 bytes that a file of the owner may have, as on a full disk; 0 for any
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), port: freePort(t), version: "1.0.0", ops: strings.Repeat("a", 64)}
	t.Cleanup(w.kill)
	return w
}

func (w *world) options() Options {
	return Options{Port: w.port, StateDir: w.dir, Name: "test", Version: w.version, Operations: w.ops, Start: w.start, EffectOf: handler{}.EffectOf}
}

func (w *world) start(context.Context) error {
	w.starts.Add(1)
	old := w.owner
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	if w.blocks > 0 {
		cmd = exec.Command("sh", "-c", `ulimit -f "$1" && exec "$0"`, exe, strconv.Itoa(w.blocks))
	}
	cmd.Env = append(os.Environ(), envOwner+"="+strconv.Itoa(w.port), envDir+"="+w.dir, envVersion+"="+w.version, envOps+"="+w.ops)
	cmd.Stderr = w.t.Output()
	if err := cmd.Start(); err != nil {
		return err
	}
	w.owner = cmd
	if old != nil {
		go func() { _ = old.Wait() }() // it has ended, or will: reap it
	}
	return nil
}

// kill ends the owner as kill -9 does.
func (w *world) kill() {
	if w.owner == nil {
		return
	}
	_ = w.owner.Process.Kill() // it may have ended
	_ = w.owner.Wait()
	w.owner = nil
}

const (
	extensionID = "ncikkhgopjmpkkcbgndgmolkfkiehlnm"
	connectorID = "11111111-2222-4333-8444-555555555555"
)

// pair writes a binding and keeps a worker connected that answers every call
// with an empty list.
func (w *world) pair() {
	w.t.Helper()
	secret := wire.NewSecret()
	db, err := bolt.Open(filepath.Join(w.dir, "state.db"), 0o600, nil)
	assert.NilError(w.t, err)
	raw, err := json.Marshal(bridge.Binding{ConnectorID: connectorID, Secret: secret, Label: "Test", ExtensionID: extensionID,
		DisplayVersion: "1.0.0", Fingerprint: wire.Fingerprint(), PairedAt: time.Now()})
	assert.NilError(w.t, err)
	assert.NilError(w.t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("bindings"))
		if err != nil {
			return err
		}
		return b.Put([]byte(connectorID), raw)
	}))
	assert.NilError(w.t, db.Close())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = w.worker(ctx, secret) // the owner comes and goes
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
}

func (w *world) worker(ctx context.Context, secret string) error {
	ws, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.0.0.1:%d/connector", w.port), nil)
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	write := func(v any) error {
		b, err := wire.Encode(v)
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, b)
	}
	hello := wire.Hello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ConnectorID: connectorID, ExtensionID: extensionID,
		DisplayVersion: "1.0.0", Label: "Test", Browser: wire.Browser{Family: "chromium", Version: "150.0.0.0"}, BrowserEpoch: strings.Repeat("e", 64),
		WorkerID: strings.Repeat("f", 64), Capabilities: wire.Capabilities{FlatSessions: true}, ClientNonce: wire.NewSecret()}
	if err := write(hello); err != nil {
		return err
	}
	_, raw, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	var ch wire.Challenge
	if err := json.Unmarshal(raw, &ch); err != nil || ch.Type != wire.TypeChallenge {
		return fmt.Errorf("no challenge: %s", raw)
	}
	proof, err := wire.SocketProof(wire.ScopeConnector, secret, hello.Identity(), ch.BridgeEpoch, ch.RequestNonce, hello.Fingerprint)
	if err != nil {
		return err
	}
	if err := write(wire.Prove{Type: wire.TypeProve, Proof: proof}); err != nil {
		return err
	}
	for seq := uint64(1); ; {
		_, raw, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var call wire.CallFrame
		if json.Unmarshal(raw, &call) != nil || call.Call == "" {
			continue
		}
		if err := write(wire.ReplyFrame{Seq: seq, ID: call.ID, Result: json.RawMessage(`[]`)}); err != nil {
			return err
		}
		seq++
	}
}

func (w *world) dial() *Client {
	w.t.Helper()
	c, err := Dial(w.t.Context(), w.options())
	assert.NilError(w.t, err)
	w.t.Cleanup(func() { assert.Check(w.t, c.Close()) })
	return c
}

func (w *world) effects() []string {
	b, err := os.ReadFile(filepath.Join(w.dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func (w *world) release() {
	assert.NilError(w.t, os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600))
}

func touch(id string) wire.Command {
	return wire.Command{ID: id, Operation: "tab.touch", Session: wire.Session{Key: "default"}}
}

func wantCode(t *testing.T, err error, kind op.Kind, code op.Code) *op.Error {
	t.Helper()
	e, ok := errors.AsType[*op.Error](err)
	if !ok || e.Code != code || e.Kind != kind {
		t.Fatalf("error is %#v (%v); wanted %s/%s", err, err, kind, code)
	}
	return e
}

func TestDialStartsAnOwnerOnce(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	assert.Equal(t, w.starts.Load(), int32(1))
	assert.Equal(t, c.Owner().Version, "1.0.0")
	var st bridge.Status
	assert.NilError(t, c.Request(t.Context(), "status", bridge.SessionParams{Session: "default"}, &st))
	assert.Equal(t, st.Readiness, "unpaired")
	out, err := c.Command(t.Context(), wire.Command{Operation: "system.status", Session: wire.Session{Key: "default"}}, nil)
	assert.NilError(t, err)
	assert.Equal(t, out.Result.Text, `"fine"`)
	w.dial()
	assert.Equal(t, w.starts.Load(), int32(1))
	_, err = c.Command(t.Context(), wire.Command{Operation: "page.fly", Session: wire.Session{Key: "default"}}, nil)
	wantCode(t, err, op.Invalid, op.UnknownTool)
}

func TestNoOwnerAndNoWayToStartOne(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Start = nil
	_, err := Dial(t.Context(), o)
	wantCode(t, err, op.Unavailable, op.BridgeUnavailable)
	o.Start = func(context.Context) error { return errors.New("no such program") }
	_, err = Dial(t.Context(), o)
	e := wantCode(t, err, op.Unavailable, op.BridgeUnavailable)
	assert.Assert(t, strings.Contains(e.Message, "no such program"))
	o.Start = func(context.Context) error { return nil }
	o.ReadyTimeout = 200 * time.Millisecond
	_, err = Dial(t.Context(), o)
	e = wantCode(t, err, op.Unavailable, op.BridgeUnavailable)
	assert.Assert(t, strings.Contains(e.Hint, "owner.log"))
}

func TestAnOwnerThatCannotStartSaysWhy(t *testing.T) {
	w := newWorld(t)
	assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "state.db"), []byte(strings.Repeat("junk", 5000)), 0o600))
	begin := time.Now()
	_, err := Dial(t.Context(), w.options())
	wantCode(t, err, op.Unavailable, op.StateUnreadable)
	assert.Assert(t, time.Since(begin) < readyTimeout, "%s", time.Since(begin))
}

// TestForeignListeners meets programs that hold the port and are no owner of
// our state folder.
func TestForeignListeners(t *testing.T) {
	check := func(t *testing.T, w *world) {
		t.Helper()
		for _, start := range []func(context.Context) error{w.start, nil} {
			o := w.options()
			o.Start = start
			_, err := Dial(t.Context(), o)
			e := wantCode(t, err, op.Unavailable, op.PortTaken)
			assert.Assert(t, strings.Contains(e.Message, strconv.Itoa(w.port)), e.Message)
			assert.Assert(t, strings.Contains(e.Hint, "--port"), e.Hint)
		}
		assert.Equal(t, w.starts.Load(), int32(0))
	}
	serve := func(t *testing.T, h http.HandlerFunc) *world {
		w := newWorld(t)
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", w.port))
		assert.NilError(t, err)
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(ln) }()
		t.Cleanup(func() { _ = srv.Close() })
		return w
	}
	credential := func(t *testing.T, w *world) {
		assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "owner-credential.json"),
			fmt.Appendf(nil, `{"version":1,"credential":%q}`, wire.NewSecret()), 0o600))
	}
	t.Run("a web server", func(t *testing.T) {
		w := serve(t, http.NotFound)
		check(t, w) // no credential yet
		credential(t, w)
		check(t, w)
	})
	t.Run("not http", func(t *testing.T) {
		w := newWorld(t)
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", w.port))
		assert.NilError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n\r\n"))
			}
		}()
		credential(t, w)
		check(t, w)
	})
	t.Run("the owner of another state folder", func(t *testing.T) {
		w := newWorld(t)
		w.dial()
		v := newWorld(t)
		v.port = w.port
		credential(t, v)
		check(t, v)
	})
	t.Run("a listener that replays an owner's challenge", func(t *testing.T) {
		w := serve(t, func(rw http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(rw, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			if _, _, err := ws.Read(r.Context()); err != nil {
				return
			}
			h := strings.Repeat("1", 64)
			b, _ := wire.Encode(wire.Challenge{Type: wire.TypeChallenge, BridgeEpoch: h, RequestNonce: h, ServerFingerprint: wire.Fingerprint(), Proof: h})
			_ = ws.Write(r.Context(), websocket.MessageText, b)
			if _, _, err := ws.Read(r.Context()); err == nil {
				t.Error("the program answered a wrong proof with its own")
			}
		})
		credential(t, w)
		check(t, w)
	})
}

func TestASilentListenerIsForeign(t *testing.T) {
	w := newWorld(t)
	ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", w.port))
	assert.NilError(t, err)
	defer ln.Close()
	assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "owner-credential.json"),
		fmt.Appendf(nil, `{"version":1,"credential":%q}`, wire.NewSecret()), 0o600))
	_, err = Dial(t.Context(), w.options())
	wantCode(t, err, op.Unavailable, op.PortTaken)
}

func TestUnreadableCredential(t *testing.T) {
	w := newWorld(t)
	w.dial()
	path := filepath.Join(w.dir, "owner-credential.json")
	assert.NilError(t, os.Chmod(path, 0o644))
	_, err := Dial(t.Context(), w.options())
	e := wantCode(t, err, op.Unavailable, op.CredentialUnreadable)
	assert.Assert(t, strings.Contains(e.Hint, "chmod 600"))
}

func TestOwnerKilledBetweenCommands(t *testing.T) {
	w := newWorld(t)
	w.pair()
	w.release()
	c := w.dial()
	_, err := c.Command(t.Context(), touch("1"), nil)
	assert.NilError(t, err)
	cn := c.conn
	w.kill()
	<-cn.done
	// The next call starts a new owner; the caller does not see it.
	out, err := c.Command(t.Context(), touch("2"), nil)
	assert.NilError(t, err)
	assert.Equal(t, string(out.Result.Value), `"2"`)
	assert.Equal(t, w.starts.Load(), int32(2))
	// And it remembers what the dead one did.
	out, err = c.Command(t.Context(), touch("1"), nil)
	assert.NilError(t, err)
	assert.Equal(t, string(out.Result.Value), `"1"`)
	assert.DeepEqual(t, w.effects(), []string{"1", "2"})
}

func TestOwnerKilledMidCommand(t *testing.T) {
	w := newWorld(t)
	w.pair()
	c := w.dial()
	began := make(chan struct{})
	_, err := c.Command(t.Context(), touch("1"), func(done, total int, note string) {
		if note == "touched" {
			close(began)
			w.kill()
		}
	})
	<-began
	e := wantCode(t, err, op.OutcomeUnknown, op.BridgeStopped)
	assert.Assert(t, strings.Contains(e.Message, "tab.touch"), e.Message)
	assert.Equal(t, w.starts.Load(), int32(2))
	assert.DeepEqual(t, w.effects(), []string{"1"}) // never sent again
}

func TestOwnerKilledWhileACommandWaits(t *testing.T) {
	w := newWorld(t) // nothing is paired yet, so nothing can begin
	w.pairOffline()
	c := w.dial()
	res := make(chan error, 1)
	go func() {
		_, err := c.Command(context.Background(), touch("1"), func(_, _ int, note string) { w.kill() })
		res <- err
	}()
	wantCode(t, <-res, op.Unavailable, op.BridgeStopped)
	assert.Equal(t, len(w.effects()), 0)
}

// pairOffline pairs a browser that never connects.
func (w *world) pairOffline() {
	w.t.Helper()
	db, err := bolt.Open(filepath.Join(w.dir, "state.db"), 0o600, nil)
	assert.NilError(w.t, err)
	raw, err := json.Marshal(bridge.Binding{ConnectorID: connectorID, Secret: wire.NewSecret(), Label: "Test", ExtensionID: extensionID, Fingerprint: wire.Fingerprint()})
	assert.NilError(w.t, err)
	assert.NilError(w.t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("bindings"))
		if err != nil {
			return err
		}
		return b.Put([]byte(connectorID), raw)
	}))
	assert.NilError(w.t, db.Close())
}

func TestCanceledCallerReturnsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.pair()
	c := w.dial()
	ctx, cancel := context.WithCancel(t.Context())
	var canceled time.Time
	_, err := c.Command(ctx, touch("1"), func(_, _ int, note string) {
		if note == "touched" {
			canceled = time.Now()
			cancel()
		}
	})
	wantCode(t, err, op.OutcomeUnknown, op.Canceled)
	assert.Assert(t, time.Since(canceled) < 2*time.Second)
	// The owner was told, so the command is over and its outcome is known.
	var out bridge.CommandOutcome
	for out.State != "done" {
		assert.NilError(t, c.Request(t.Context(), "outcome", bridge.OutcomeParams{ID: "1"}, &out))
	}
	w.release()
	_, err = c.Command(t.Context(), touch("2"), nil)
	assert.NilError(t, err)
	canceledCtx, stop := context.WithCancel(t.Context())
	stop()
	_, err = c.Command(canceledCtx, touch("3"), nil)
	assert.Assert(t, err != nil)
	assert.DeepEqual(t, w.effects(), []string{"1", "2"})
}

// TestAReadIsNeverUnknown loses the answer of a read in each way, and that of
// a command that may have had an effect beside it.
func TestAReadIsNeverUnknown(t *testing.T) {
	w := newWorld(t)
	w.pair()
	look := func() wire.Command {
		return wire.Command{Operation: "page.look", Session: wire.Session{Key: "default"}}
	}
	t.Run("the caller has gone", func(t *testing.T) {
		for _, code := range []op.Code{op.Canceled, op.DeadlineExceeded} {
			c := w.dial()
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			if code == op.DeadlineExceeded {
				deadline, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = deadline
			}
			_, err := c.Command(ctx, look(), func(_, _ int, note string) {
				if code == op.Canceled {
					end(nil)
				}
			})
			e, ok := errors.AsType[*op.Error](err)
			assert.Assert(t, ok && e.Kind != op.OutcomeUnknown, "%v", err)
		}
	})
	t.Run("the owner was killed and none comes", func(t *testing.T) {
		for _, cmd := range []wire.Command{look(), touch("1")} {
			c := w.dial()
			c.opts.Start = nil
			_, err := c.Command(t.Context(), cmd, func(_, _ int, note string) { w.kill() })
			if cmd.Operation == "tab.touch" {
				wantCode(t, err, op.OutcomeUnknown, op.BridgeStopped)
				continue
			}
			e := wantCode(t, err, op.Unavailable, op.BridgeStopped)
			assert.Assert(t, strings.Contains(e.Message, "only reads") && strings.Contains(e.Hint, "again"), "%s %s", e.Message, e.Hint)
		}
	})
}

// silent is a connection to an owner that takes frames and never answers.
func silent(t *testing.T) *conn {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for {
			if _, _, err := ws.Read(context.Background()); err != nil {
				return
			}
		}
	}))
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	assert.NilError(t, err)
	cn := &conn{ws: ws, done: make(chan struct{}), waiters: map[string]*waiter{}}
	go cn.read()
	t.Cleanup(func() { cn.close(); srv.Close() })
	return cn
}

// TestASilentOwner gives up an owner that says nothing at all.
func TestASilentOwner(t *testing.T) {
	c := &Client{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cn := silent(t)
	for _, m := range []message{{id: "read", reads: true}, {id: "act"}} {
		kind := op.OutcomeUnknown
		if m.reads {
			kind = op.Unavailable
		}
		w, err := cn.expect(m.id)
		assert.NilError(t, err)
		_, err = c.giveUp(ctx, cn, m, w)
		wantCode(t, err, kind, op.Canceled)
		cn.forget(m.id, w)
		_, err = c.await(t.Context(), cn, m, w, nil, time.Millisecond)
		wantCode(t, err, kind, op.DeadlineExceeded)
	}
}

// TestOnlyTheSocketBreaks: the owner lives, and so does the command. Its caller
// gets the real outcome of the one run.
func TestOnlyTheSocketBreaks(t *testing.T) {
	w := newWorld(t)
	w.pair()
	c := w.dial()
	snap := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		assert.Check(t, c.conn.ws.CloseNow())
	}
	out, err := c.Command(t.Context(), touch("1"), func(_, _ int, note string) {
		if note == "touched" {
			snap()
			w.release()
		}
	})
	assert.NilError(t, err)
	assert.Equal(t, string(out.Result.Value), `"1"`)
	snap()
	_, err = c.Command(t.Context(), touch("2"), nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, w.effects(), []string{"1", "2"})
	assert.Equal(t, w.starts.Load(), int32(1))
}

// TestAFullDisk: an owner whose disk takes no more begins nothing that may have
// an effect, says so, and goes on to read and to answer.
func TestAFullDisk(t *testing.T) {
	w := newWorld(t)
	w.blocks = 600
	w.pair()
	w.release()
	c := w.dial()
	var err error
	n := 0
	for ; err == nil && n < 3000; n++ {
		_, err = c.Command(t.Context(), touch(fmt.Sprint(n)), nil)
	}
	e := wantCode(t, err, op.Unavailable, op.StateUnreadable)
	for _, part := range []string{"file too large", "Nothing was done"} {
		assert.Assert(t, strings.Contains(e.Message, part), e.Message)
	}
	assert.Assert(t, strings.Contains(e.Hint, "space"), e.Hint)
	t.Logf("full after %d commands: %s", n-1, e.Message)
	assert.Equal(t, len(w.effects()), n-1, "the refused one had its effect")
	out, err := c.Command(t.Context(), wire.Command{Operation: "system.status", Session: wire.Session{Key: "default"}}, nil)
	assert.NilError(t, err)
	assert.Equal(t, string(out.Result.Value), `"fine"`)
	var known bridge.CommandOutcome
	assert.NilError(t, c.Request(t.Context(), "outcome", bridge.OutcomeParams{ID: fmt.Sprint(n - 2)}, &known))
	assert.Equal(t, known.State, "done")
	assert.Equal(t, w.starts.Load(), int32(1))

	// With room again the next owner reads everything and takes commands.
	w.kill()
	<-c.conn.done // a command that is sent into the dead socket is told so
	w.blocks = 0
	c = w.dial() // a command of the old one may still be written to the owner that was killed
	_, err = c.Command(t.Context(), touch("after"), nil)
	assert.NilError(t, err)
	assert.NilError(t, c.Request(t.Context(), "outcome", bridge.OutcomeParams{ID: fmt.Sprint(n - 2)}, &known))
	assert.Equal(t, known.State, "done")
}

// TestAFullDiskAtTheStart: the owner's files may grow no more, and its audit log
// is at the limit. It starts, reads, and says what it does not begin.
func TestAFullDiskAtTheStart(t *testing.T) {
	w := newWorld(t)
	w.blocks = 600
	w.pair()
	w.release()
	log := filepath.Join(w.dir, "audit.log")
	assert.NilError(t, os.WriteFile(log, []byte(strings.Repeat("x", 600*512)), 0o600))
	c := w.dial()
	out, err := c.Command(t.Context(), wire.Command{Operation: "system.status", Session: wire.Session{Key: "default"}}, nil)
	assert.NilError(t, err)
	assert.Equal(t, string(out.Result.Value), `"fine"`)
	_, err = c.Command(t.Context(), touch("1"), nil)
	e := wantCode(t, err, op.Unavailable, op.StateUnreadable)
	for _, part := range []string{"the audit log", "file too large", "Nothing was done"} {
		assert.Assert(t, strings.Contains(e.Message, part), e.Message)
	}
	assert.Equal(t, len(w.effects()), 0)
	assert.Equal(t, w.starts.Load(), int32(1))
	w.kill()
	<-c.conn.done // a command that is sent into the dead socket is told so
	w.blocks = 0  // with room again
	_, err = c.Command(t.Context(), touch("2"), nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, w.effects(), []string{"2"})
	rep, err := bridge.VerifyAudit(w.dir)
	assert.NilError(t, err)
	assert.Equal(t, rep.Problem, "")
}

func TestANewerProgramTakesOver(t *testing.T) {
	w := newWorld(t)
	old := w.dial()
	w.version, w.ops = "1.1.0", strings.Repeat("b", 64)
	c := w.dial()
	assert.Equal(t, c.Owner().Version, "1.1.0")
	assert.Equal(t, w.starts.Load(), int32(2))
	// The older program says so and stops.
	err := old.Request(t.Context(), "owner", nil, nil)
	e := wantCode(t, err, op.Unavailable, op.VersionMismatch)
	assert.Assert(t, strings.Contains(e.Message, "1.1.0") && strings.Contains(e.Message, "1.0.0"), e.Message)
	assert.Equal(t, w.starts.Load(), int32(2))
}

func TestTwoProgramsStartOneOwner(t *testing.T) {
	w := newWorld(t)
	v := &world{t: t, dir: w.dir, port: w.port, version: w.version, ops: w.ops}
	t.Cleanup(v.kill)
	errs := make(chan error, 2)
	for _, x := range []*world{w, v} {
		go func() {
			c, err := Dial(context.Background(), x.options())
			if err == nil {
				err = c.Request(context.Background(), "owner", nil, nil)
				err = errors.Join(err, c.Close())
			}
			errs <- err
		}()
	}
	assert.NilError(t, <-errs)
	assert.NilError(t, <-errs)
}

func TestOlder(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	cases := []struct {
		mine  string
		build time.Time
		owner string
		their time.Time
		older bool
	}{
		{"1.0.0", early, "1.0.1", early, true}, {"1.0.1", early, "1.0.0", late, false}, {"1.10.0", early, "1.9.9", late, false},
		{"1.0.0", early, "1.0.0", late, true}, {"1.0.0", late, "1.0.0", early, false}, {"1.0.0", time.Time{}, "1.0.0", late, false},
		{"1.0.0-beta.2", late, "1.0.0", early, true}, {"1.0.0", early, "1.0.0-beta.10", late, false}, {"1.0.0-beta.2", late, "1.0.0-beta.10", early, true},
		{"v2", early, "1.9", late, false}, {"", early, "1.0", late, true}, {"dev", early, "dev", early, false},
	}
	for _, c := range cases {
		assert.Equal(t, older(c.mine, c.build, wire.OwnerReady{Version: c.owner, Build: c.their}), c.older, "%+v", c)
	}
}
