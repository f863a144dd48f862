// Package mcp serves the operations as tools of the Model Context Protocol,
// over stdin and stdout or over streamable HTTP on loopback.
//
// It has no list of operations: tools, their schemas and their profiles come
// from the descriptors. It keeps no tab and no page either: a call becomes one
// command of the owner, which is started when none answers, and reached again
// when it has died.
//
// # Concurrency
//
// Each MCP connection is one [face] with a session of its own. Calls of one
// connection run side by side; the owner puts them in order. All connections
// share one [link] to the owner.
package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/guide"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// SessionPrefix begins the key of every session of this surface. The owner
// locks such sessions until somebody authorizes them.
const SessionPrefix = "mcp:"

// cleanupLimit bounds what is done for a connection that has ended.
const cleanupLimit = 5 * time.Second

// Options say what a server offers. Connect and Dir are required.
type Options struct {
	// Connect reaches the owner, starting one when none answers.
	Connect func(ctx context.Context) (*client.Client, error)
	// Session is the key of the session without [SessionPrefix]. With "" each
	// connection has one of its own, whose tabs are closed at its end.
	Session    string
	Browser    string // id or label of a profile; "" for the only live one
	Pace       string // fast or human
	Foreground bool
	Trace      string        // file to which the frames of the tab are added; "" for none
	Timeout    time.Duration // of each call; 0 for the operation's own
	// Profiles are the tools to begin with; core is always among them.
	Profiles []string
	// Authorize lets the sessions use the browser from their first call on,
	// unless a person locked them, or everything, before.
	Authorize *Authorization
	// Structured adds the value of a result as structured content. Some
	// clients then show that to the model in place of the text.
	Structured bool
	Dir        string // the workspace in which pictures are kept
	// Prepare rewrites the input of a tool for the owner, such as the paths of
	// files that it names; nil for nothing.
	Prepare func(tool string, input json.RawMessage) json.RawMessage
	Logger  *slog.Logger // nil for none
}

// Authorization is for so many minutes, or with 0 until it is revoked. Policy
// is the text of a policy's file; nil leaves the session the one that it has.
type Authorization struct {
	Minutes int
	Policy  []byte
}

// link is the connection to the owner, made when it is first needed.
type link struct {
	connect func(context.Context) (*client.Client, error)
	turn    chan struct{} // holds one token: who has it may connect
	c       *client.Client
}

func newLink(connect func(context.Context) (*client.Client, error)) *link {
	l := &link{connect: connect, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// client returns the connection. It reconnects by itself once it was made.
func (l *link) client(ctx context.Context) (*client.Client, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, op.NotAvailable(op.Canceled, "connecting to the owner was canceled; nothing was sent").WithCause(ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	if l.c == nil {
		c, err := l.connect(ctx)
		if err != nil {
			return nil, err
		}
		l.c = c
	}
	return l.c, nil
}

// made returns the connection if there is one.
func (l *link) made() *client.Client {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	return l.c
}

func (l *link) close() {
	if c := l.made(); c != nil {
		_ = c.Close() // every call has ended by now
	}
}

// face is one MCP connection.
type face struct {
	opts    Options
	link    *link
	tools   []op.Descriptor
	session wire.Session
	own     bool // nobody else can know the session
	server  *sdk.Server
	log     *slog.Logger

	authorizing chan struct{} // holds one token until the session is authorized

	mu       sync.Mutex
	stopped  bool
	calls    map[string]context.CancelFunc // under way, by command id
	used     bool                          // a command was sent
	active   []string
	snapshot string // text of the latest
	shots    shots
}

// newFace makes the server of one connection.
func newFace(o Options, l *link) (*face, error) {
	list, err := owner.Descriptors()
	if err != nil {
		return nil, err
	}
	f := &face{opts: o, link: l, tools: list, own: o.Session == "", authorizing: make(chan struct{}, 1), calls: map[string]context.CancelFunc{}}
	f.authorizing <- struct{}{}
	f.log = o.Logger
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	key := SessionPrefix + o.Session
	if f.own {
		key = SessionPrefix + client.NewID()[:8]
	}
	f.session = wire.Session{Key: key, Title: "pi-chrome " + key, Pace: o.Pace, Foreground: o.Foreground}
	f.server = sdk.NewServer(&sdk.Implementation{Name: "pi-chrome", Title: "pi-chrome", Version: owner.Version}, &sdk.ServerOptions{
		Instructions: guide.Only(instructions, func(tool string) bool { _, ok := f.find(tool); return ok }),
		Logger:       f.log,
		Capabilities: &sdk.ServerCapabilities{}, // logs are the owner's, not the model's
		SubscribeHandler: func(_ context.Context, r *sdk.SubscribeRequest) error {
			return f.known(r.Params.URI)
		},
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	f.active = append([]string{"core"}, o.Profiles...)
	for _, d := range list {
		if slices.Contains(f.active, d.Profile) {
			f.addTool(d)
		}
	}
	if len(f.dormant()) > 0 {
		f.addEnable()
	}
	f.server.AddReceivingMiddleware(f.offered)
	f.addResources()
	f.addPrompts()
	return f, nil
}

func (f *face) addTool(d op.Descriptor) {
	f.server.AddTool(toolOf(d), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return f.call(ctx, req, d), nil
	})
}

// toolOf is a descriptor as clients see it.
func toolOf(d op.Descriptor) *sdk.Tool {
	readOnly := d.Effect == op.ReadOnly && !d.Mixed
	destructive := !readOnly
	return &sdk.Tool{
		Name: d.Tool, Description: d.ModelText, InputSchema: d.ModelInput,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly, DestructiveHint: &destructive, IdempotentHint: readOnly, OpenWorldHint: new(true)},
	}
}

// begin makes the context of a call, which ends with the connection too: a
// server that ends does not wait for its calls.
func (f *face) begin(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		cancel()
	}
	f.calls[id] = cancel
	return ctx, func() {
		cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, id)
	}
}

// stop cancels what is under way and what is still to come.
func (f *face) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, cancel := range f.calls {
		cancel()
	}
}

// close closes the tabs of a session that nobody can come back to. What keeps
// it from that is logged: whoever spoke to us has gone.
func (f *face) close() {
	f.stop()
	f.mu.Lock()
	used := f.used
	f.mu.Unlock()
	if !f.own || !used {
		return
	}
	c := f.link.made()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	if _, err := owner.Cleanup(ctx, c, f.session.Key); err != nil {
		f.log.Warn("closing the tabs of a connection that has ended", "session", f.session.Key, "err", err)
	}
}
