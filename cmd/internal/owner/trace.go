package owner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// maxTrace is the size at which a trace stops growing; its last line says so.
const maxTrace = 512 << 20

// traceLine is one line of a trace file. The first line of each command has
// Kind "command", with its tab, which one that opens a tab tells by a "tab"
// when it is there; a call and its reply share ID.
type traceLine struct {
	Kind      string          `json:"kind"` // command, tab, call, reply, event, detached, end
	Seq       int             `json:"seq"`  // rises by one for each line of a command
	At        time.Time       `json:"at"`
	Command   string          `json:"command,omitempty"`
	Operation string          `json:"operation,omitempty"`
	Tab       *op.TabKey      `json:"tab,omitempty"`
	ID        int             `json:"id,omitempty"`
	Session   string          `json:"sessionId,omitempty"` // of a child target
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	ElapsedUs int64           `json:"elapsedUs,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// recorder writes the frames of one tab, if any, during one command.
type recorder struct {
	command string
	began   time.Time
	of      *recorders // of its tab, nil for none; the command's goroutine alone uses it

	mu     sync.Mutex
	redact redactor
	file   *os.File
	w      *bufio.Writer
	size   int64
	seq    int
	err    error
	full   bool
}

func (r *recorder) write(l traceLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Params, l.Result = r.redact.json(l.Method, l.Params), r.redact.json(l.Method, l.Result)
	if r.err != nil || r.full {
		return
	}
	r.seq++
	l.Seq = r.seq
	raw, err := json.Marshal(l)
	if err != nil {
		r.err = fmt.Errorf("encoding a frame: %w", err)
		return
	}
	if r.size += int64(len(raw)) + 1; r.size > maxTrace {
		r.full = true
		raw = fmt.Appendf(nil, `{"kind":"end","seq":%d,"note":"the trace has reached %d bytes; later frames are not in it"}`, l.Seq, maxTrace)
	}
	if _, err := r.w.Write(append(raw, '\n')); err != nil {
		r.err = err
	}
}

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.err, r.w.Flush(), r.file.Close())
	r.err = errors.New("the trace is closed")
	return err
}

// recorders is the set of traces that are written of one tab, with what the
// commands type that run there: a trace has the frames of all of them.
type recorders struct {
	mu     sync.Mutex
	list   []*recorder
	typed  []string
	nextID int
}

// typing hides what a command types from every trace of the tab: from those
// that begin before over is called, and from those that are being written now
// until they end.
func (s *recorders) typing(texts []string) (over func()) {
	if len(texts) == 0 {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.typed = append(s.typed, texts...)
	for _, r := range s.list {
		r.alsoHide(texts)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, text := range texts {
			if i := slices.Index(s.typed, text); i >= 0 {
				s.typed = slices.Delete(s.typed, i, i+1)
			}
		}
	}
}

// alsoHide has the trace leave out these texts from now on.
func (r *recorder) alsoHide(texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if !slices.Contains(r.redact.typed, text) {
			r.redact.typed = append(r.redact.typed, text)
		}
	}
}

// startTrace begins the trace of a command, which end ends.
func startTrace(call *bridge.Call) (*recorder, error) {
	f, err := os.OpenFile(call.Trace, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &recorder{command: call.ID, began: time.Now(), file: f, w: bufio.NewWriterSize(f, 1<<16), size: info.Size()}
	l := traceLine{Kind: "command", At: r.began, Command: call.ID, Operation: call.Operation}
	if call.Tab != nil {
		key := call.Tab.Key()
		l.Tab = &key
	}
	r.write(l)
	return r, nil
}

// follow has the trace take the frames of the tab from now on.
func (r *recorder) follow(c *conn) {
	r.of = &c.recorders
	r.of.add(r)
}

// opened has it take those of the tab that the command opened.
func (r *recorder) opened(c *conn) {
	key := c.Key()
	r.write(traceLine{Kind: "tab", At: time.Now(), Tab: &key})
	r.follow(c)
}

// end ends the trace, and reports what could not be written.
func (r *recorder) end() error {
	if r.of != nil {
		r.of.remove(r)
	}
	r.write(traceLine{Kind: "end", At: time.Now(), Command: r.command, ElapsedUs: time.Since(r.began).Microseconds()})
	return r.close()
}

func (s *recorders) add(r *recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.alsoHide(s.typed)
	s.list = append(s.list[:len(s.list):len(s.list)], r)
}

func (s *recorders) remove(r *recorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []*recorder
	for _, o := range s.list {
		if o != r {
			rest = append(rest, o)
		}
	}
	s.list = rest
}

// active returns the recorders and an id for a call; the slice is never
// changed in place.
func (s *recorders) active() ([]*recorder, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil, 0
	}
	s.nextID++
	return s.list, s.nextID
}

func (s *recorders) event(e op.Event) {
	list, _ := s.active()
	for _, r := range list {
		l := traceLine{Kind: "event", At: time.Now(), Session: e.SessionID, Method: e.Method, Params: e.Params}
		if e.Detached != "" {
			l.Kind, l.Note = "detached", e.Detached
		}
		r.write(l)
	}
}

// call makes one call and records it and its reply.
func (s *recorders) call(ctx context.Context, to cdp.Session, session, method string, params, result any) error {
	list, id := s.active()
	if len(list) == 0 {
		return to.Call(ctx, method, params, result)
	}
	sent, err := jsonv2.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	start := time.Now()
	for _, r := range list {
		r.write(traceLine{Kind: "call", At: start, ID: id, Session: session, Method: method, Params: json.RawMessage(sent)})
	}
	var raw jsonv2.Value
	err = to.Call(ctx, method, params, &raw)
	l := traceLine{Kind: "reply", At: time.Now(), ID: id, Session: session, Method: method, Result: json.RawMessage(raw), ElapsedUs: time.Since(start).Microseconds()}
	if err != nil {
		l.Error = err.Error()
	}
	for _, r := range list {
		r.write(l)
	}
	if err != nil || result == nil || len(raw) == 0 {
		return err
	}
	if err := jsonv2.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("decoding the result of %s: %w", method, err)
	}
	return nil
}
