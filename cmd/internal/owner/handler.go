package owner

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"

	"pi-chrome/bridge"
	"pi-chrome/driver"
	"pi-chrome/driver/op"
)

// handler runs the bridge's commands with the driver.
type handler struct {
	d     *driver.Driver
	log   *slog.Logger
	descs map[string]op.Descriptor // by wire name and by tool name

	mu    sync.Mutex
	conns map[*bridge.Tab]*conn // stable: the driver knows a tab by its conn
}

var (
	_ bridge.Handler   = (*handler)(nil)
	_ bridge.RefLister = (*handler)(nil)
)

func newHandler(log *slog.Logger) (*handler, error) {
	list, err := Descriptors()
	if err != nil {
		return nil, err
	}
	h := &handler{d: driver.New(&driver.Options{Logger: log}), log: log, descs: map[string]op.Descriptor{}, conns: map[*bridge.Tab]*conn{}}
	for _, d := range list {
		h.descs[d.Name], h.descs[d.Tool] = d, d
	}
	return h, nil
}

// close forgets every tab. The bridge has ended by then.
func (h *handler) close() { h.d.Close() }

func (h *handler) Describe(operation string) (op.Descriptor, bool) {
	d, ok := h.descs[operation]
	return d, ok
}

func (h *handler) EffectOf(operation string, input json.RawMessage) op.Effect {
	o, ok := h.d.Operation(operation)
	if !ok {
		return op.MayMutate
	}
	return o.EffectOf(input)
}

func (h *handler) Validate(operation string, input json.RawMessage) error {
	o, ok := h.d.Operation(operation)
	if !ok {
		return unknown(operation)
	}
	return o.Validate(input)
}

func (h *handler) Run(ctx context.Context, call *bridge.Call) (op.Result, error) {
	c := &driver.Call{ID: call.ID, Session: call.Session, Progress: call.Progress}
	var trace *recorder
	if call.Trace != "" {
		var err error
		if trace, err = startTrace(call); err != nil {
			return op.Result{}, op.Reject(op.InvalidInput, "the trace file cannot be written: %s; the command was not started", err).
				WithHint("give another file with --trace, or leave it out")
		}
		defer func() {
			if err := trace.end(); err != nil {
				h.log.Warn("writing a trace", "err", err)
			}
		}()
	}
	if call.Browser != nil {
		c.Browser = &browser{h: h, b: call.Browser, trace: trace}
	}
	if call.Tab != nil {
		k := h.conn(call.Tab)
		c.Conn = k
		defer k.typing(typedIn(call.Operation, call.Input))()
		if trace != nil {
			trace.follow(k)
		}
	}
	return h.d.Run(ctx, call.Operation, c, call.Input)
}

func (h *handler) Forget(key op.TabKey) {
	h.d.Forget(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.conns {
		if t.Key() == key {
			delete(h.conns, t)
		}
	}
}

func (h *handler) Refs(key op.TabKey, max int) []op.Ref { return h.d.Refs(key, max) }

// conn returns the driver's view of a tab, always the same for one tab.
func (h *handler) conn(t *bridge.Tab) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.conns[t]
	if c == nil {
		c = &conn{tab: t}
		h.conns[t] = c
	}
	return c
}

// conn is a tab of the bridge as the driver wants it, with the recorders of
// the traces that are being written.
type conn struct {
	tab *bridge.Tab
	recorders
}

var (
	_ driver.Conn         = (*conn)(nil)
	_ driver.WindowHolder = (*conn)(nil)
	_ driver.TabTeller    = (*conn)(nil)
)

func (c *conn) Call(ctx context.Context, method string, params, result any) error {
	return c.recorders.call(ctx, c.tab, "", method, params, result)
}

func (c *conn) Subscribe(method string) (<-chan jsonv2.Value, func()) { return c.tab.Subscribe(method) }

func (c *conn) Child(sessionID string) cdp.Session {
	return &child{c: c, id: sessionID, session: c.tab.Child(sessionID)}
}

func (c *conn) Listen(fn func(op.Event)) (stop func()) {
	return c.tab.Listen(func(e op.Event) {
		c.recorders.event(e)
		fn(e)
	})
}

func (c *conn) Key() op.TabKey                           { return c.tab.Key() }
func (c *conn) Info(ctx context.Context) (op.Tab, error) { return c.tab.Info(ctx) }

func (c *conn) HoldWindow(ctx context.Context) (func(context.Context) (string, error), error) {
	return c.tab.HoldWindow(ctx)
}

func (c *conn) OpenedTabs(since time.Time, asked []string) (found []op.OpenedTab, inDoubt bool) {
	return c.tab.OpenedTabs(since, asked)
}

func (c *conn) PutBehind(ctx context.Context, opened op.OpenedTab) (bool, error) {
	return c.tab.PutBehind(ctx, opened)
}

func (c *conn) Attach(ctx context.Context) error { return c.tab.Attach(ctx) }
func (c *conn) Attachment() int                  { return c.tab.Attachment() }
func (c *conn) Detach(ctx context.Context) error { return c.tab.Detach(ctx) }
func (c *conn) Pin(what string) (unpin func())   { return c.tab.Pin(what) }

func (c *conn) ResetSession(ctx context.Context, cause error) error {
	return c.tab.ResetSession(ctx, cause)
}

// child is the session of a child target of a tab.
type child struct {
	c       *conn
	id      string
	session cdp.Session
}

func (s *child) Call(ctx context.Context, method string, params, result any) error {
	return s.c.recorders.call(ctx, s.session, s.id, method, params, result)
}

func (s *child) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return s.session.Subscribe(method)
}

// browser is the session's view of its profile as the driver wants it.
type browser struct {
	h     *handler
	b     *bridge.SessionBrowser
	trace *recorder // of the command; nil without one
}

var _ driver.Browser = (*browser)(nil)

func (b *browser) Tabs(ctx context.Context) ([]op.Tab, error) { return b.b.Tabs(ctx) }

func (b *browser) NewTab(ctx context.Context, groupColor string) (driver.Conn, error) {
	t, _, err := b.b.NewTab(ctx, groupColor)
	if err != nil {
		return nil, err
	}
	c := b.h.conn(t)
	if b.trace != nil {
		b.trace.opened(c)
	}
	return c, nil
}

func (b *browser) CloseTab(ctx context.Context, target op.Target) (int, error) {
	return b.b.CloseTab(ctx, target)
}

func (b *browser) ActivateTab(ctx context.Context, target op.Target) (op.Tab, error) {
	return b.b.ActivateTab(ctx, target)
}

func (b *browser) GroupTab(ctx context.Context, target op.Target, color string) (op.Tab, error) {
	return b.b.GroupTab(ctx, target, color)
}

func (b *browser) UngroupTab(ctx context.Context, target op.Target) (op.Tab, error) {
	return b.b.UngroupTab(ctx, target)
}

func (b *browser) ClaimTab(ctx context.Context, target op.Target, want op.TabDetails) (op.Tab, error) {
	return b.b.ClaimTab(ctx, target, want)
}

func (b *browser) ReleaseTab(ctx context.Context, target op.Target, atEnd bool) (op.ReleasedTab, error) {
	return b.b.ReleaseTab(ctx, target, atEnd)
}

func (b *browser) Targets(ctx context.Context) ([]op.Profile, error) { return b.b.Targets(ctx) }

func (b *browser) Ask(ctx context.Context, message string, timeout time.Duration) (bool, error) {
	return b.b.Ask(ctx, message, timeout)
}

func (b *browser) Status(ctx context.Context) (json.RawMessage, error) { return b.b.Status(ctx) }
