// Package pihost is the program's half of the Pi package: it speaks JSON lines
// with the package of bridge/pi over stdin and stdout, describes the tools, runs
// calls, and decides what a session of Pi may do.
//
// # Lines
//
// A request is {id, method, params}, an answer {id, result} or {id, error}; a
// call may be followed by {id, progress} lines before its answer. {event, …}
// lines tell what changed by itself. The first request is "open".
//
// # Authorization
//
// The owner decides and keeps the deadline; an entry on the session's branch in
// Pi says what was decided there. Of the two the stricter one holds: a branch
// without an entry, or with one that cannot be read, is locked.
package pihost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/pi"
	"pi-chrome/driver/op"
)

// Options are what the host stands on. All fields are required.
type Options struct {
	In      io.Reader // lines of the package
	Out     io.Writer
	Version string // of this program
	Backend Backend
}

// Session is the session of Pi that is served.
type Session struct {
	Key   string `json:"key"`   // "session:" and Pi's id
	Title string `json:"title"` // of its tab group, at most 80 characters
}

// Answer is a tool's result.
type Answer struct {
	Text      string          `json:"text"`
	Value     json.RawMessage `json:"value,omitempty"`
	Images    []Image         `json:"images,omitempty"`
	CommandID string          `json:"commandId,omitempty"`
	ElapsedMs int64           `json:"elapsedMs"`
}

// Image is a picture for the model.
type Image struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

// Call is one tool call.
type Call struct {
	Session    Session
	Dir        string // the session's folder: paths are relative to it
	Tool       string
	Input      json.RawMessage
	Foreground bool
	Images     bool // the model takes pictures
	Progress   func(done, total int, note string)
}

// Backend does the work: the command line implements it. Its methods may be
// called at the same time.
type Backend interface {
	// Tools describes all operations; it needs no owner.
	Tools() ([]op.Descriptor, error)
	// Call runs a tool. The error is an *op.Error.
	Call(ctx context.Context, c Call) (Answer, error)
	// Command runs a command line of pi-chrome for the session and returns
	// what it printed and its exit code.
	Command(ctx context.Context, s Session, dir string, args []string) (text string, code int)
	// Authorization asks the owner how the session stands; start allows it to
	// start an owner when none runs, which is an error otherwise.
	Authorization(ctx context.Context, s Session, start bool) (bridge.Authorization, error)
	// Revoke locks the session at the owner.
	Revoke(ctx context.Context, s Session) error
}

// Bounds of one host.
const (
	maxLine      = 24 << 20 // bytes of one request
	maxUnderWay  = 64       // requests at once
	watchEvery   = 2 * time.Second
	watchTimeout = 2 * time.Second
)

type request struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type answer struct {
	ID       int64     `json:"id,omitempty"`
	Result   any       `json:"result,omitempty"`
	Error    *failure  `json:"error,omitempty"`
	Progress *progress `json:"progress,omitempty"`
	Event    string    `json:"event,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Until    string    `json:"until,omitempty"`
}

type progress struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Note  string `json:"note"`
}

type failure struct {
	*op.Error
	Text string `json:"text"`
}

type host struct {
	o Options

	outMu sync.Mutex

	mu       sync.Mutex
	session  Session
	dir      string
	opened   bool
	front    bool // calls may take the focus: /chrome background off
	watching bool // the owner is asked how the session stands
	canceled map[int64]context.CancelFunc
}

// Serve answers requests until In ends or ctx does, and returns when every
// request it took has been answered. A line that is no request ends it with an
// error: the other side is not the package.
func Serve(ctx context.Context, o Options) error {
	h := &host{o: o, canceled: map[int64]context.CancelFunc{}, front: false}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { h.watch(ctx) })
	lines := bufio.NewScanner(o.In)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return op.Invalidf("stdin holds a line that is no request of the Pi package: %s", err).
				WithHint("pi-chrome pi-host is started by the package that pi-chrome pi install puts into Pi")
		}
		if r.Method == "cancel" {
			h.cancel(r.ID)
			continue
		}
		if r.Method == "open" {
			// What comes after it in the stream finds the session open.
			out, err := h.open(r.Params)
			h.answer(r.ID, out, err)
			continue
		}
		rctx, done, err := h.begin(ctx, r.ID)
		if err != nil {
			h.answer(r.ID, nil, err)
			continue
		}
		work.Go(func() {
			defer done()
			out, err := h.handle(rctx, r)
			h.answer(r.ID, out, err)
		})
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return op.Invalidf("stdin holds a line of more than %d bytes", maxLine)
		}
		return fmt.Errorf("reading stdin: %w", err)
	}
	return nil
}

// begin admits a request; done must be called at its end.
func (h *host) begin(ctx context.Context, id int64) (context.Context, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.canceled) >= maxUnderWay {
		return nil, nil, op.NotAvailable(op.ConnectorBusy, "%d requests of this session are under way, which is the most; nothing was sent", maxUnderWay).
			WithHint("wait for one of them")
	}
	if h.canceled[id] != nil {
		return nil, nil, op.Invalidf("request %d is under way already", id)
	}
	ctx, cancel := context.WithCancel(ctx)
	h.canceled[id] = cancel
	return ctx, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.canceled, id)
	}, nil
}

func (h *host) cancel(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.canceled[id]; cancel != nil {
		cancel()
	}
}

func (h *host) handle(ctx context.Context, r request) (any, error) {
	h.mu.Lock()
	opened := h.opened
	h.mu.Unlock()
	if !opened {
		return nil, op.Invalidf("the first request must be open, not %q", r.Method)
	}
	switch r.Method {
	case "restore":
		return h.restore(ctx, r.Params)
	case "call":
		return h.call(ctx, r.ID, r.Params)
	case "chrome":
		return h.chrome(ctx, r.Params)
	case "cleanup":
		if _, err := h.o.Backend.Authorization(ctx, h.sessionNow(), false); err != nil {
			return reply{Level: "info"}, nil // no owner runs: the session has used no tab
		}
		text, code := h.o.Backend.Command(ctx, h.sessionNow(), h.dirNow(), []string{"cleanup"})
		return reply{Text: text, Level: level(code)}, nil
	}
	return nil, op.Invalidf("unknown method %q; allowed: open, restore, call, chrome, cleanup, cancel", r.Method)
}

func (h *host) sessionNow() Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}

func (h *host) dirNow() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dir
}

func (h *host) call(ctx context.Context, id int64, params json.RawMessage) (any, error) {
	var in struct {
		Tool   string          `json:"tool"`
		Input  json.RawMessage `json:"input"`
		Images bool            `json:"images"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, op.Invalidf("the call cannot be read: %s", err)
	}
	h.mu.Lock()
	c := Call{Session: h.session, Dir: h.dir, Tool: in.Tool, Input: in.Input, Foreground: h.front, Images: in.Images}
	h.mu.Unlock()
	c.Progress = func(done, total int, note string) {
		h.write(answer{ID: id, Progress: &progress{done, total, note}})
	}
	return h.o.Backend.Call(ctx, c)
}

func (h *host) answer(id int64, result any, err error) {
	if err != nil {
		e := op.AsError(err)
		h.write(answer{ID: id, Error: &failure{Error: e, Text: e.Text()}})
		return
	}
	if result == nil {
		result = struct{}{}
	}
	h.write(answer{ID: id, Result: result})
}

func (h *host) write(a answer) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil {
		b.Reset()
		_ = enc.Encode(answer{ID: a.ID, Error: &failure{Error: op.Unknown(op.Internal, "the answer cannot be encoded: %s; the call may have had its effect", err)}})
	}
	h.outMu.Lock()
	defer h.outMu.Unlock()
	// A package that no longer reads has ended; stdin says so too.
	_, _ = h.o.Out.Write(b.Bytes())
}

// Protocol is the version of the lines.
const Protocol = pi.Protocol
