package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// fakeHandler has one operation of each kind. What it does is the test's.
type fakeHandler struct {
	mu      sync.Mutex
	run     func(ctx context.Context, call *Call) (op.Result, error)
	forgot  []op.TabKey
	running int
	ran     []string // ids, in the order in which they began
}

var fakeOps = map[string]op.Descriptor{
	"page.click":    {Name: "page.click", Tool: "chrome_click", Effect: op.MayMutate, Tab: op.PageTab, Deadline: op.DefaultDeadline},
	"page.snapshot": {Name: "page.snapshot", Tool: "chrome_snapshot", Effect: op.ReadOnly, Tab: op.PageTab, Deadline: op.DefaultDeadline},
	"page.wait":     {Name: "page.wait", Tool: "chrome_wait", Effect: op.MayMutate, Tab: op.PageTab, Deadline: op.WaitDeadline, PassesBy: true},
	"tab.list":      {Name: "tab.list", Tool: "chrome_tab_list", Effect: op.ReadOnly, Tab: op.NoTab, Deadline: op.DefaultDeadline},
	"tab.new":       {Name: "tab.new", Tool: "chrome_tab_new", Effect: op.MayMutate, Tab: op.NoTab, Deadline: op.DefaultDeadline},
	"tab.close":     {Name: "tab.close", Tool: "chrome_tab_close", Effect: op.MayMutate, Tab: op.OwnedTab, Deadline: op.DefaultDeadline},
	"system.status": {Name: "system.status", Tool: "chrome_status", Effect: op.ReadOnly, Tab: op.NoTab, Deadline: op.DefaultDeadline},
}

func (h *fakeHandler) Describe(name string) (op.Descriptor, bool) {
	d, ok := fakeOps[name]
	return d, ok
}

func (h *fakeHandler) EffectOf(name string, _ json.RawMessage) op.Effect { return fakeOps[name].Effect }

func (h *fakeHandler) Validate(_ string, input json.RawMessage) error {
	if strings.Contains(string(input), `"bad"`) {
		return op.Invalidf("unknown field %q", "bad")
	}
	return nil
}

func (h *fakeHandler) Run(ctx context.Context, call *Call) (op.Result, error) {
	h.mu.Lock()
	h.ran = append(h.ran, call.ID)
	h.running++
	run := h.run
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.running--
		h.mu.Unlock()
	}()
	switch call.Operation {
	case "tab.new":
		_, info, err := call.Browser.NewTab(ctx, "")
		if err != nil {
			return op.Result{}, err
		}
		return op.NewResult(info)
	case "tab.close":
		var in struct {
			Target op.Target `json:"target"`
		}
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return op.Result{}, err
		}
		n, err := call.Browser.CloseTab(ctx, in.Target)
		if err != nil {
			return op.Result{}, err
		}
		return op.NewResult(map[string]int{"closed": n})
	case "tab.list":
		tabs, err := call.Browser.Tabs(ctx)
		if err != nil {
			return op.Result{}, err
		}
		return op.NewResult(tabs)
	case "system.status":
		raw, err := call.Browser.Status(ctx)
		return op.Result{Value: raw, Text: "status"}, err
	}
	if run != nil {
		return run(ctx, call)
	}
	return op.NewResult(map[string]string{"done": call.ID})
}

func (h *fakeHandler) Forget(key op.TabKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgot = append(h.forgot, key)
}

// Refs names one element after its tab, so that a test sees which was asked.
func (h *fakeHandler) Refs(key op.TabKey, _ int) []op.Ref {
	if key == (op.TabKey{}) {
		return nil
	}
	return []op.Ref{{Ref: "el-1", Role: "button", Name: fmt.Sprint(key.TabID), Verbs: []string{"click"}}}
}

func (h *fakeHandler) order() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ran)
}

// fakeBrowser is one profile: its tabs, windows and target ids.
type fakeBrowser struct {
	id, label string

	mu      sync.Mutex
	live    bool
	lost    time.Time // told by bound
	refused *RefusalRecord
	closed  bool
	epoch   string
	nextID  int
	tabs    []op.Tab
	targets map[int]string
	handles map[int]*Tab
	windows []Window
	calls   []string
	// fail, when set, is asked before each call; its error is the call's. When
	// after is true the call is made first: its reply is lost.
	fail    func(call string) (err error, after bool)
	left    []int // tabs that left the bootstrap page
	attach  func(tabID int) error
	grouped map[int]int
	moved   map[int]int
	asked   string // the question that the popup shows: its id and text

	activated []int
	blocked   map[int]string // by tab: what its guard kept it from
	detached  []int          // tabs whose debugger was given back
	colors    map[int]string // of groups
}

func newFakeBrowser(id, label string) *fakeBrowser {
	return &fakeBrowser{id: id, label: label, live: true, epoch: "epoch-1", nextID: 10, targets: map[int]string{}, handles: map[int]*Tab{},
		windows: []Window{{ID: 1, Focused: true, Type: "normal"}}, grouped: map[int]int{}, colors: map[int]string{}}
}

func (b *fakeBrowser) ID() string    { return b.id }
func (b *fakeBrowser) Label() string { return b.label }

func (b *fakeBrowser) BrowserEpoch() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

// do runs one call under the lock, with the fault that the test wants.
func (b *fakeBrowser) do(ctx context.Context, call string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", op.ErrNotDelivered, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	if b.fail != nil {
		if err, after := b.fail(call); err != nil {
			if after {
				if ferr := fn(); ferr != nil {
					return ferr
				}
			}
			return err
		}
	}
	return fn()
}

func (b *fakeBrowser) addLocked(url string) op.Tab {
	b.nextID++
	t := op.Tab{ID: b.nextID, WindowID: 1, URL: url, Title: "tab " + fmt.Sprint(b.nextID), GroupID: -1}
	b.tabs = append(b.tabs, t)
	b.targets[t.ID] = fmt.Sprintf("TARGET-%s-%d", b.epoch, t.ID)
	return t
}

// open makes a tab as a user does.
func (b *fakeBrowser) open(url string) op.Tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(url)
}

func (b *fakeBrowser) indexLocked(id int) int {
	return slices.IndexFunc(b.tabs, func(t op.Tab) bool { return t.ID == id })
}

func (b *fakeBrowser) Tabs(ctx context.Context) (tabs []op.Tab, err error) {
	err = b.do(ctx, "tabs.query", func() error { tabs = slices.Clone(b.tabs); return nil })
	return tabs, err
}

func (b *fakeBrowser) TabInfo(ctx context.Context, id int) (tab op.Tab, err error) {
	err = b.do(ctx, "tabs.get", func() error {
		i := b.indexLocked(id)
		if i < 0 {
			return op.Reject(op.TabGone, "tab %d is gone", id)
		}
		tab = b.tabs[i]
		return nil
	})
	return tab, err
}

func (b *fakeBrowser) Tab(ctx context.Context, id int) (t *Tab, err error) {
	err = b.do(ctx, "tab", func() error {
		if b.indexLocked(id) < 0 {
			return op.Reject(op.TabGone, "tab %d is gone", id)
		}
		if b.handles[id] == nil {
			b.handles[id] = &Tab{}
		}
		t = b.handles[id]
		return nil
	})
	return t, err
}

// discard gives a tab another id and another target, and says so to MovedTo.
func (b *fakeBrowser) discard(id, to int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tabs[b.indexLocked(id)].ID, b.targets[to] = to, fmt.Sprint("TARGET-of-", to)
	b.moved = map[int]int{id: to}
}

func (b *fakeBrowser) MovedTo(id int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cmp.Or(b.moved[id], id)
}

func (b *fakeBrowser) Targets(ctx context.Context) (list []DebugTarget, err error) {
	err = b.do(ctx, "debugger.getTargets", func() error {
		for _, t := range b.tabs {
			list = append(list, DebugTarget{ID: b.targets[t.ID], TabID: t.ID, Type: "page"})
		}
		return nil
	})
	return list, err
}

func (b *fakeBrowser) Windows(ctx context.Context) (list []Window, err error) {
	err = b.do(ctx, "windows.getAll", func() error { list = slices.Clone(b.windows); return nil })
	return list, err
}

func (b *fakeBrowser) CreateTab(ctx context.Context, o CreateTab) (tab op.Tab, err error) {
	err = b.do(ctx, "tabs.create", func() error { tab = b.addLocked(o.URL); return nil })
	return tab, err
}

func (b *fakeBrowser) RemoveTabs(ctx context.Context, ids ...int) error {
	return b.do(ctx, "tabs.remove", func() error {
		for _, id := range ids {
			i := b.indexLocked(id)
			if i < 0 {
				return &op.ProtocolError{Method: "tabs.remove", Message: "No tab with id"}
			}
			b.tabs = slices.Delete(b.tabs, i, i+1)
		}
		return nil
	})
}

func (b *fakeBrowser) ActivateTab(ctx context.Context, id int) (op.Tab, error) {
	err := b.do(ctx, "tabs.update", func() error { b.activated = append(b.activated, id); return nil })
	if err != nil {
		return op.Tab{}, err
	}
	return b.TabInfo(ctx, id)
}

func (b *fakeBrowser) ReloadTab(ctx context.Context, id int, _ bool) error {
	return b.do(ctx, "tabs.reload", func() error { b.tabs[b.indexLocked(id)].Status = "complete"; return nil })
}

func (b *fakeBrowser) GroupTabs(ctx context.Context, group, _ int, ids ...int) (int, error) {
	err := b.do(ctx, "tabs.group", func() error {
		if group < 0 {
			group = 100 + len(b.grouped)
		}
		for _, id := range ids {
			b.grouped[id] = group
			b.tabs[b.indexLocked(id)].GroupID = group
		}
		return nil
	})
	return group, err
}

func (b *fakeBrowser) UngroupTabs(ctx context.Context, ids ...int) error {
	return b.do(ctx, "tabs.ungroup", func() error {
		for _, id := range ids {
			b.tabs[b.indexLocked(id)].GroupID = -1
		}
		return nil
	})
}

func (b *fakeBrowser) UpdateGroup(_ context.Context, id int, u GroupUpdate) (op.Group, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Color != "" {
		b.colors[id] = u.Color
	}
	return op.Group{ID: id, Title: u.Title, Color: u.Color}, nil
}

// restart is a new start of the browser: its tabs are there again with other
// target ids.
func (b *fakeBrowser) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch += "+"
	clear(b.handles)
	for _, t := range b.tabs {
		b.targets[t.ID] = fmt.Sprintf("TARGET-%s-%d", b.epoch, t.ID)
	}
}

// fakeTabs is the tabPort of fake browsers.
type fakeTabs struct{ browsers []*fakeBrowser }

func (f fakeTabs) of(t *Tab) (*fakeBrowser, int) {
	for _, b := range f.browsers {
		b.mu.Lock()
		for id, h := range b.handles {
			if h == t {
				b.mu.Unlock()
				return b, id
			}
		}
		b.mu.Unlock()
	}
	return nil, -1
}

func (f fakeTabs) key(t *Tab) op.TabKey {
	b, id := f.of(t)
	if b == nil {
		return op.TabKey{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return op.TabKey{BrowserEpoch: b.epoch, TabID: id, TargetID: b.targets[id]}
}

func (f fakeTabs) attach(_ context.Context, t *Tab) error {
	b, id := f.of(t)
	if b != nil && b.attach != nil {
		return b.attach(id)
	}
	return nil
}

func (f fakeTabs) pin(*Tab, string) (unpin func()) { return func() {} }

func (f fakeTabs) detach(ctx context.Context, t *Tab) error {
	b, id := f.of(t)
	if b == nil {
		return nil
	}
	return b.do(ctx, "detach", func() error { b.detached = append(b.detached, id); return nil })
}

func (f fakeTabs) guard(_ context.Context, _ *Server, t *Tab, _ *command) (func() string, error) {
	b, id := f.of(t)
	return func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		to := b.blocked[id]
		delete(b.blocked, id)
		return to
	}, nil
}

func (f fakeTabs) leave(ctx context.Context, t *Tab) error {
	b, id := f.of(t)
	return b.do(ctx, "leave", func() error {
		b.tabs[b.indexLocked(id)].URL = "about:blank"
		b.left = append(b.left, id)
		return nil
	})
}

// fakeProfiles are the paired browsers.
type fakeProfiles struct {
	mu   sync.Mutex
	list []*fakeBrowser
	ch   chan struct{}
}

func (f *fakeProfiles) bound(context.Context) ([]profileRef, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var refs []profileRef
	for _, b := range f.list {
		b.mu.Lock()
		refs = append(refs, profileRef{ID: b.id, Label: b.label, Live: b.live, lost: b.lost, refused: b.refused, closed: b.closed})
		b.mu.Unlock()
	}
	return refs, nil
}

func (f *fakeProfiles) anyLive() bool {
	refs, _ := f.bound(context.Background())
	return slices.ContainsFunc(refs, func(r profileRef) bool { return r.Live })
}

func (f *fakeProfiles) wait(ctx context.Context, id string) (profile, error) {
	for {
		ch := f.changed()
		f.mu.Lock()
		for _, b := range f.list {
			b.mu.Lock()
			ok := b.id == id && b.live
			b.mu.Unlock()
			if ok {
				f.mu.Unlock()
				return b, nil
			}
		}
		f.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			return nil, op.NotAvailable(op.ConnectorOffline, "offline")
		}
	}
}

func (f *fakeProfiles) changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ch
}

func (f *fakeProfiles) setLive(b *fakeBrowser, live bool) {
	b.mu.Lock()
	b.live = live
	b.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.ch)
	f.ch = make(chan struct{})
}

// pipe is one end of an in-memory socket.
type pipe struct {
	in   <-chan []byte
	out  chan<- []byte
	done chan struct{}
	once *sync.Once
}

func newPipe() (a, b *pipe) {
	x, y, done, once := make(chan []byte, 4), make(chan []byte, 4), make(chan struct{}), &sync.Once{}
	return &pipe{in: x, out: y, done: done, once: once}, &pipe{in: y, out: x, done: done, once: once}
}

func (p *pipe) Read(ctx context.Context) ([]byte, error) {
	select {
	case b := <-p.in:
		return b, nil
	case <-p.done:
		// What was written before the end is still read, as on a socket.
		select {
		case b := <-p.in:
			return b, nil
		default:
			return nil, io.EOF
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipe) Write(ctx context.Context, b []byte) error {
	select {
	case p.out <- b:
		return nil
	case <-p.done:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipe) Limit(int64) {}
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// rigT is what a rig needs of a test, or of one run of a property.
type rigT interface {
	assert.TestingT
	Helper()
}

// rig is a server with fake browsers, inside a synctest bubble.
type rig struct {
	t        rigT
	dir      string
	srv      *Server
	handler  *fakeHandler
	profiles *fakeProfiles
	browser  *fakeBrowser // the first
	secret   string
	disk     []byte // state.db as it was when freeze was called last
}

func newRig(t *testing.T, browsers ...*fakeBrowser) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir(), browsers...)
}

func newRigIn(t rigT, dir string, browsers ...*fakeBrowser) *rig {
	t.Helper()
	if len(browsers) == 0 {
		browsers = []*fakeBrowser{newFakeBrowser("11111111-2222-4333-8444-555555555555", "Work")}
	}
	r := &rig{t: t, dir: dir, handler: &fakeHandler{}, profiles: &fakeProfiles{list: browsers, ch: make(chan struct{})}, browser: browsers[0]}
	var err error
	r.secret, err = ensureCredential(r.dir)
	assert.NilError(t, err)
	r.start()
	return r
}

// start starts an owner on the state folder.
func (r *rig) start() {
	r.t.Helper()
	st, snap, err := openStore(r.dir, time.Second)
	assert.NilError(r.t, err)
	r.srv, err = newServer(Options{StateDir: r.dir, ExtensionID: pinnedExtension, Handler: r.handler, Version: "1.0.0", IdleTimeout: -1}, r.secret, st, snap)
	assert.NilError(r.t, err)
	if r.profiles != nil { // else the browsers are those of the relay
		r.srv.profiles, r.srv.tabs = r.profiles, fakeTabs{r.profiles.list}
	}
}

func (r *rig) close() {
	r.t.Helper()
	assert.NilError(r.t, r.srv.Close())
}

// freeze keeps the disk as it is at this moment.
func (r *rig) freeze() {
	b, err := os.ReadFile(filepath.Join(r.dir, databaseFile))
	assert.Check(r.t, err)
	r.disk = b
}

// crash ends the owner as a kill does: what was on the disk at the last
// freeze, or is now, is all that the next owner finds.
func (r *rig) crash() {
	r.t.Helper()
	if r.disk == nil {
		r.freeze()
	}
	assert.NilError(r.t, r.srv.Close())
	assert.NilError(r.t, os.WriteFile(filepath.Join(r.dir, databaseFile), r.disk, 0o600))
	r.disk = nil
}

// program is one authenticated program.
type program struct {
	rig      *rig
	conn     *pipe
	mu       sync.Mutex
	results  map[string][]*wire.Result
	progress []*wire.Progress
	wake     chan struct{}
	gone     chan struct{}
	heard    func(frame any) // when set, told of every frame
}

func (r *rig) dial() *program {
	r.t.Helper()
	ours, theirs := newPipe()
	srv := r.srv
	srv.wg.Go(func() { srv.serveClient(theirs, func() {}) })
	assert.NilError(r.t, introduce(ours, r.secret))
	p := &program{rig: r, conn: ours, results: map[string][]*wire.Result{}, wake: make(chan struct{}), gone: make(chan struct{})}
	go p.read()
	return p
}

// introduce is the handshake of a program.
func introduce(conn frames, secret string) error {
	ctx := context.Background()
	nonce := wire.NewSecret()
	if err := writeFrame(conn, wire.OwnerHello{Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), Client: "test", ClientNonce: nonce}); err != nil {
		return err
	}
	raw, err := conn.Read(ctx)
	if err != nil {
		return err
	}
	v, err := wire.DecodeForClient(raw)
	if err != nil {
		return err
	}
	ch, ok := v.(*wire.Challenge)
	if !ok {
		return fmt.Errorf("answer to hello: %s", raw)
	}
	proof, err := wire.SocketProof(wire.ScopeOwner, secret, wire.Identity{}, ch.BridgeEpoch, ch.RequestNonce, wire.Fingerprint())
	if err != nil {
		return err
	}
	if err := writeFrame(conn, wire.Prove{Type: wire.TypeProve, Proof: proof}); err != nil {
		return err
	}
	if raw, err = conn.Read(ctx); err != nil {
		return err
	}
	if v, err = wire.DecodeForClient(raw); err != nil {
		return err
	}
	if _, ok := v.(*wire.OwnerReady); !ok {
		return fmt.Errorf("answer to a proof: %s", raw)
	}
	return nil
}

func writeFrame(conn frames, frame any) error {
	b, err := wire.Encode(frame)
	if err != nil {
		return err
	}
	return conn.Write(context.Background(), b)
}

func (p *program) read() {
	defer close(p.gone)
	for {
		raw, err := p.conn.Read(context.Background())
		if err != nil {
			return
		}
		v, err := wire.DecodeForClient(raw)
		if err != nil {
			panic(fmt.Sprintf("frame of the owner: %v: %s", err, raw))
		}
		if p.heard != nil {
			p.heard(v)
		}
		p.mu.Lock()
		switch f := v.(type) {
		case *wire.Result:
			p.results[f.ID] = append(p.results[f.ID], f)
		case *wire.Progress:
			p.progress = append(p.progress, f)
		}
		close(p.wake)
		p.wake = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *program) close() {
	p.conn.Close()
	<-p.gone
}

func cmd(id, operation, input string) wire.Command {
	return wire.Command{Type: wire.TypeCommand, ID: id, Operation: operation, Session: wire.Session{Key: "default"}, Input: json.RawMessage(input)}
}

func (p *program) send(frame any) {
	p.rig.t.Helper()
	assert.NilError(p.rig.t, writeFrame(p.conn, frame))
}

// wait returns the n-th answer (from 1) to an id.
func (p *program) wait(id string, n int) *wire.Result {
	for {
		p.mu.Lock()
		if len(p.results[id]) >= n {
			defer p.mu.Unlock()
			return p.results[id][n-1]
		}
		wake := p.wake
		p.mu.Unlock()
		select {
		case <-wake:
		case <-p.gone:
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.results[id]) >= n {
				return p.results[id][n-1]
			}
			return &wire.Result{ID: id, Error: &wire.Failure{Kind: "test", Code: "gone", Message: "the owner closed the socket"}}
		}
	}
}

func (p *program) answered(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.results[id]) > 0
}

func (p *program) do(c wire.Command) *wire.Result {
	p.rig.t.Helper()
	p.send(c)
	return p.wait(c.ID, 1)
}

func (p *program) ask(method string, params, out any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	id := wire.NewSecret()[:16]
	p.send(wire.Request{Type: wire.TypeRequest, ID: id, Method: method, Params: raw})
	r := p.wait(id, 1)
	if !r.OK {
		return errorOf(r.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(r.Value, out)
}

func wantOK(t *testing.T, r *wire.Result) {
	t.Helper()
	if !r.OK {
		t.Fatalf("command %s: %s/%s: %s", r.ID, r.Error.Kind, r.Error.Code, r.Error.Message)
	}
}

func wantError(t *testing.T, r *wire.Result, kind op.Kind, code op.Code) *wire.Failure {
	t.Helper()
	if r.OK {
		t.Fatalf("command %s succeeded with %s; wanted %s/%s", r.ID, r.Value, kind, code)
	}
	if r.Error.Kind != string(kind) || r.Error.Code != string(code) {
		t.Fatalf("command %s: %s/%s: %s; wanted %s/%s", r.ID, r.Error.Kind, r.Error.Code, r.Error.Message, kind, code)
	}
	assert.Assert(t, r.Error.Message != "")
	return r.Error
}

// bubble runs a conversation in virtual time.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// withOwner runs a conversation with an owner in virtual time.
func withOwner(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		fn(t, r)
	})
}

// withProgram runs a conversation of one program with an owner in virtual time.
func withProgram(t *testing.T, fn func(t *testing.T, r *rig, p *program)) {
	t.Helper()
	withOwner(t, func(t *testing.T, r *rig) {
		p := r.dial()
		defer p.close()
		fn(t, r, p)
	})
}

var errLostForTest = fmt.Errorf("%w: the worker ended", op.ErrReplyLost)
