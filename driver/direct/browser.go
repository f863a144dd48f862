package direct

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

// Bounds of the transport.
const (
	maxMessage  = 256 << 20 // bytes of one message of the browser
	maxQueued   = 1024      // calls that wait for the writer
	maxBuffered = 1024      // events of a subscription that nobody reads
)

// Browser is a started browser. It is itself the session of the browser
// target, for commands such as Target.getTargets.
type Browser struct {
	p     *process
	epoch string

	queue  chan *pending
	in     io.WriteCloser
	closed chan struct{} // closed when the pipe has ended
	wg     sync.WaitGroup
	end    sync.Once
	endErr error

	mu        sync.Mutex
	err       error // why the pipe ended
	nextID    int64
	nextTab   int
	tabIDs    map[target.ID]int // of the pages that are there, as far as they have a number
	opened    op.OpenedTabs
	calls     map[int64]*pending
	sessions  map[string]*Page // by session id: a page's own and its children's
	attaching map[target.ID]*Page
	subs      map[subKey]map[int]chan jsonv2.Value
	nextSub   int
	version   Version
}

var _ cdp.Session = (*Browser)(nil)

// Version says which browser was started.
type Version struct {
	Product   string // such as "Chrome/156.0.8078.114"
	UserAgent string
	Protocol  string
}

type subKey struct{ session, method string }

// pending is one call.
type pending struct {
	id      int64
	session string
	method  string
	frame   []byte
	sent    bool // handed to the pipe; guarded by Browser.mu
	reply   chan reply
}

type reply struct {
	result json.RawMessage
	err    error
}

func newBrowser(p *process, in io.WriteCloser, out io.ReadCloser) *Browser {
	b := &Browser{p: p, epoch: rand.Text(), queue: make(chan *pending, maxQueued), in: in, closed: make(chan struct{}),
		calls: map[int64]*pending{}, sessions: map[string]*Page{}, attaching: map[target.ID]*Page{}, tabIDs: map[target.ID]int{}, subs: map[subKey]map[int]chan jsonv2.Value{}}
	b.wg.Go(func() { b.read(out) })
	b.wg.Go(b.write)
	return b
}

// hello waits until the browser answers.
func (b *Browser) hello(ctx context.Context) error {
	v, err := cdp.Call(ctx, b, browser.GetVersion, cdp.Empty{})
	if err != nil {
		return err
	}
	b.version = Version{Product: v.Product, UserAgent: v.UserAgent, Protocol: v.ProtocolVersion}
	// So that the pages' tabs are known when they open.
	_, err = cdp.Call(ctx, b, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true, Filter: target.Filter{{Type: "page"}, {Exclude: true}}})
	return err
}

// Version returns what the browser said of itself when it started.
func (b *Browser) Version() Version { return b.version }

// PID is the id of the browser's first process, which is also the id of its
// process group.
func (b *Browser) PID() int { return b.p.cmd.Process.Pid }

// UserDataDir is the profile's folder.
func (b *Browser) UserDataDir() string { return b.p.dir }

// Done is closed when the browser has gone.
func (b *Browser) Done() <-chan struct{} { return b.closed }

// Close ends the browser and every process it started, waits for them, and
// removes a temporary profile. A second Close returns what the first did.
func (b *Browser) Close() error {
	b.end.Do(func() {
		// Ask first: a killed browser leaves files behind, and a kept profile
		// unwritten. Its reply may be lost with the pipe, so the process
		// tells.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = b.Call(ctx, browser.CommandClose, nil, nil)
		select {
		case <-b.p.done:
		case <-ctx.Done():
		}
		b.endErr = b.p.end()
		b.fail(errors.New("the browser was closed"))
		b.wg.Wait()
	})
	return b.endErr
}

// Call implements [cdp.Session] on the browser target. An error of the browser
// is an *op.ProtocolError; a browser that has gone is op.ErrNotDelivered or
// op.ErrReplyLost.
func (b *Browser) Call(ctx context.Context, method string, params, result any) error {
	return b.call(ctx, "", method, params, result)
}

// Subscribe implements [cdp.Session]. A subscription that nobody reads ends
// after 1,024 events.
func (b *Browser) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return b.subscribe("", method)
}

// frame is a message on the pipe.
type frame struct {
	ID        int64           `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error,omitempty"`
}

func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	if string(raw) == "null" {
		raw = []byte("{}")
	}
	c := &pending{session: session, method: method, reply: make(chan reply, 1)}
	b.mu.Lock()
	if b.err != nil {
		err := b.err
		b.mu.Unlock()
		return fmt.Errorf("%s: %w: %w", method, op.ErrNotDelivered, err)
	}
	b.nextID++
	c.id = b.nextID
	b.calls[c.id] = c
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.calls, c.id)
		b.mu.Unlock()
	}()
	if c.frame, err = json.Marshal(frame{ID: c.id, SessionID: session, Method: method, Params: raw}); err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	select {
	case b.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
	}
	var r reply
	select {
	case r = <-c.reply:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		// A reply that was read before the end counts.
		select {
		case r = <-c.reply:
		default:
			r.err = b.lost(c)
		}
	}
	if r.err != nil {
		return r.err
	}
	if result == nil {
		return nil
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = r.result
		return nil
	}
	if err := jsonv2.Unmarshal(r.result, result); err != nil {
		return fmt.Errorf("decoding the result of %s: %w", method, err)
	}
	return nil
}

// lost is the error of a call whose reply cannot come any more.
func (b *Browser) lost(c *pending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.sent {
		return fmt.Errorf("%s: %w: %w", c.method, op.ErrReplyLost, b.err)
	}
	return fmt.Errorf("%s: %w: %w", c.method, op.ErrNotDelivered, b.err)
}

// fail ends the pipe, once.
func (b *Browser) fail(err error) {
	b.mu.Lock()
	first := b.err == nil
	var pages []*Page
	if first {
		b.err = err
		close(b.closed)
		for id, p := range b.sessions {
			if p.session() == id {
				pages = append(pages, p)
			}
		}
		b.sessions = map[string]*Page{}
		for _, set := range b.subs {
			for _, ch := range set {
				close(ch)
			}
		}
		b.subs = map[subKey]map[int]chan jsonv2.Value{}
	}
	b.mu.Unlock()
	if !first {
		return
	}
	// Closing wakes the writer; the reader ends with the browser.
	_ = b.in.Close()
	for _, p := range pages {
		p.detached("connection-lost")
	}
}

func (b *Browser) write() {
	for {
		select {
		case <-b.closed:
			return
		case c := <-b.queue:
			b.mu.Lock()
			_, wanted := b.calls[c.id]
			c.sent = wanted
			b.mu.Unlock()
			if !wanted {
				continue // its caller has gone: nothing need be done
			}
			if _, err := b.in.Write(append(c.frame, 0)); err != nil {
				b.fail(fmt.Errorf("writing to the browser: %w", err))
				return
			}
		}
	}
}

func (b *Browser) read(out io.ReadCloser) {
	defer func() { _ = out.Close() }()
	r := bufio.NewReaderSize(out, 1<<16)
	for {
		msg, err := readMessage(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the browser has ended")
			}
			b.fail(err)
			return
		}
		var f frame
		if err := json.Unmarshal(op.CleanJSON(msg), &f); err != nil {
			b.fail(fmt.Errorf("reading the browser's pipe: %w", err))
			return
		}
		b.take(&f)
	}
}

// readMessage reads up to the next NUL.
func readMessage(r *bufio.Reader) ([]byte, error) {
	var msg bytes.Buffer
	for {
		part, err := r.ReadSlice(0)
		if msg.Len()+len(part) > maxMessage {
			return nil, fmt.Errorf("the browser sent a message of more than %d bytes", maxMessage)
		}
		msg.Write(part)
		if err == nil {
			return msg.Bytes()[:msg.Len()-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func (b *Browser) take(f *frame) {
	if f.Method == "" {
		b.mu.Lock()
		c := b.calls[f.ID]
		b.mu.Unlock()
		if c == nil {
			return // canceled by its caller
		}
		r := reply{result: f.Result}
		if f.Error != nil {
			msg := f.Error.Message
			if f.Error.Data != "" {
				msg += ": " + f.Error.Data
			}
			r = reply{err: &op.ProtocolError{Method: c.method, Code: f.Error.Code, Message: msg}}
		}
		c.answer(r)
		return
	}
	b.mu.Lock()
	p := b.sessions[f.SessionID]
	b.mu.Unlock()
	switch f.Method {
	case target.AttachedToTarget.Method:
		b.enter(p, f.Params)
	case target.TargetCreated.Method, target.TargetInfoChanged.Method, target.TargetDestroyed.Method:
		b.tabs(f)
	case target.DetachedFromTarget.Method:
		var e struct {
			SessionID string `json:"sessionId"`
		}
		if json.Unmarshal(f.Params, &e) == nil {
			b.drop(e.SessionID)
		}
	}
	b.publish(f)
	if p != nil {
		id := f.SessionID
		if id == p.session() {
			id = ""
		}
		p.emit(op.Event{SessionID: id, Method: f.Method, Params: f.Params})
	}
}

// enter takes in a session that the browser announces: a child's on the
// session of page p, or with no p the page's own that Attach waits for.
func (b *Browser) enter(p *Page, params json.RawMessage) {
	var e struct {
		SessionID  string `json:"sessionId"`
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
		} `json:"targetInfo"`
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return
	}
	if p != nil {
		b.sessions[e.SessionID] = p
	} else if p := b.attaching[e.TargetInfo.TargetID]; p != nil {
		b.enterLocked(p, e.SessionID)
	}
}

// tabs takes in that a tab has come, changed or gone.
func (b *Browser) tabs(f *frame) {
	var e struct {
		TargetID   target.ID `json:"targetId"`
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
			OpenerID target.ID `json:"openerId"`
			URL      string    `json:"url"`
		} `json:"targetInfo"`
	}
	if json.Unmarshal(f.Params, &e) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.Method {
	case target.TargetDestroyed.Method:
		b.opened.Close(b.tabIDs[e.TargetID])
		delete(b.tabIDs, e.TargetID)
		return
	case target.TargetInfoChanged.Method:
		b.opened.Goes(b.tabIDs[e.TargetInfo.TargetID], e.TargetInfo.URL)
		return
	}
	id := b.tabIDLocked(e.TargetInfo.TargetID)
	if e.TargetInfo.OpenerID == "" {
		return // no page opened it
	}
	b.opened.Add(op.OpenedTab{TabID: id, Opener: b.tabIDLocked(e.TargetInfo.OpenerID), URL: e.TargetInfo.URL, At: time.Now()})
}

// tabIDLocked is the number of a tab.
func (b *Browser) tabIDLocked(id target.ID) int {
	n := b.tabIDs[id]
	if n == 0 {
		b.nextTab++
		n = b.nextTab
		b.tabIDs[id] = n
	}
	return n
}

// answer gives the call its reply; a second one is dropped.
func (c *pending) answer(r reply) {
	select {
	case c.reply <- r:
	default:
	}
}

// drop forgets a session that has ended. The calls that wait on it get no
// reply any more.
func (b *Browser) drop(session string) {
	b.mu.Lock()
	p := b.sessions[session]
	root := p != nil && p.session() == session
	gone := map[string]bool{session: true}
	for id, q := range b.sessions {
		if root && q == p {
			gone[id] = true
		}
	}
	for id := range gone {
		delete(b.sessions, id)
	}
	var lost []*pending
	for _, c := range b.calls {
		if gone[c.session] {
			lost = append(lost, c)
		}
	}
	b.mu.Unlock()
	for _, c := range lost {
		if root {
			c.answer(reply{err: fmt.Errorf("%s: %w: %w", c.method, op.ErrDetached, op.ErrReplyLost)})
			continue
		}
		missing := &op.ProtocolError{Method: c.method, Code: -32001, Message: "Session with given id not found."}
		c.answer(reply{err: fmt.Errorf("%w: %w", op.ErrReplyLost, missing)})
	}
	if root {
		p.detached("target_closed")
	}
}

func (b *Browser) publish(f *frame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := subKey{f.SessionID, f.Method}
	for id, ch := range b.subs[key] {
		select {
		case ch <- jsonv2.Value(f.Params):
		default:
			delete(b.subs[key], id)
			close(ch)
		}
	}
}

func (b *Browser) subscribe(session, method string) (<-chan jsonv2.Value, func()) {
	ch := make(chan jsonv2.Value, maxBuffered)
	key := subKey{session, method}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		close(ch)
		return ch, func() {}
	}
	b.nextSub++
	id := b.nextSub
	if b.subs[key] == nil {
		b.subs[key] = map[int]chan jsonv2.Value{}
	}
	b.subs[key][id] = ch
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs[key], id)
		if len(b.subs[key]) == 0 {
			delete(b.subs, key)
		}
	}
}
