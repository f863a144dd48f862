package chromedptab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

const (
	// session is what chromedp calls its session with the tab.
	session target.SessionID = "tab"
	// maxQueue bounds the messages that chromedp has not read.
	maxQueue = 10_000
	// maxCalls bounds the calls that are under way at once.
	maxCalls = 64
)

// Codes of JSON-RPC, as Chrome uses them.
const (
	serverError    = -32000
	methodNotFound = -32601
	invalidParams  = -32602
)

// errBehind ends a connection whose reader does not keep up.
var errBehind = fmt.Errorf("chromedp fell %d messages behind the tab", maxQueue)

// transport is the connection to a browser as chromedp knows it. What is of the
// browser it answers itself, what is of the tab it passes on.
type transport struct {
	tab   Tab
	ctx   context.Context // of the calls to the tab
	end   context.CancelFunc
	lanes chan struct{}
	calls sync.WaitGroup

	mu    sync.Mutex
	stop  func() // listening to the tab
	queue []*cdproto.Message
	err   error         // ends the connection once the queue is read
	wake  chan struct{} // has room for one
}

func newTransport(ctx context.Context, tab Tab) *transport {
	t := &transport{tab: tab, lanes: make(chan struct{}, maxCalls), wake: make(chan struct{}, 1)}
	t.ctx, t.end = context.WithCancel(ctx)
	t.stop = tab.Listen(t.event)
	return t
}

// Read implements chromedp.Transport.
func (t *transport) Read(ctx context.Context, m *cdproto.Message) error {
	for {
		t.mu.Lock()
		if len(t.queue) > 0 {
			*m = *t.queue[0]
			t.queue = t.queue[1:]
			t.mu.Unlock()
			return nil
		}
		err := t.err
		t.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Write implements chromedp.Transport. The answer comes by Read.
func (t *transport) Write(ctx context.Context, m *cdproto.Message) error {
	id, method, params := m.ID, string(m.Method), m.Params
	if m.SessionID == "" {
		result, err := t.browser(method, params)
		t.answer(id, "", result, err)
		return nil
	}
	if m.SessionID != session {
		t.answer(id, m.SessionID, nil, &cdproto.Error{Code: serverError, Message: "Session with given id not found."})
		return nil
	}
	switch method {
	case "Target.setDiscoverTargets", "Target.setAutoAttach":
		// The owner of the tab follows its frames, and its settings stay.
		t.answer(id, session, struct{}{}, nil)
		return nil
	}
	select {
	case t.lanes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	t.calls.Go(func() {
		defer func() { <-t.lanes }()
		var in any // nil for none
		if len(params) > 0 {
			in = params
		}
		if method == "Runtime.enable" {
			// Chrome announces the contexts that there are only to whoever
			// turns it on, and here it may be on already.
			_ = t.tab.Call(t.ctx, "Runtime.disable", nil, nil) // the next call tells the same error
		}
		var result jsonv2.Value
		err := t.tab.Call(t.ctx, method, in, &result)
		t.answer(id, session, result, asError(err))
	})
	return nil
}

// Close implements chromedp.Transport. The calls that are under way end by
// themselves: see wait.
func (t *transport) Close() error {
	t.fail(errors.New("the connection was closed"))
	t.mu.Lock()
	stop := t.stop
	t.stop = func() {}
	t.mu.Unlock()
	stop()
	t.end()
	return nil
}

// wait returns when nothing of the connection runs any more.
func (t *transport) wait() {
	_ = t.Close() // it has no error
	t.calls.Wait()
}

// browser answers what chromedp asks the browser.
func (t *transport) browser(method string, params jsonv2.Value) (any, *cdproto.Error) {
	key := t.tab.Key()
	switch method {
	case "Target.setDiscoverTargets", "Target.setAutoAttach":
		return struct{}{}, nil
	case "Target.getTargets":
		return map[string]any{"targetInfos": []map[string]any{{
			"targetId": key.TargetID, "type": "page", "title": "", "url": "", "attached": true, "canAccessOpener": false,
		}}}, nil
	case "Target.attachToTarget":
		var in struct {
			TargetID string `json:"targetId"`
		}
		if err := json.Unmarshal(params, &in); err != nil || in.TargetID != key.TargetID {
			return nil, &cdproto.Error{Code: invalidParams, Message: "No target with given id found: the one there is is " + key.TargetID}
		}
		return map[string]target.SessionID{"sessionId": session}, nil
	case "Target.detachFromTarget":
		t.detached()
		return struct{}{}, nil
	}
	return nil, &cdproto.Error{Code: methodNotFound, Message: method + " is of a browser, and only one of its tabs is here"}
}

// detached tells chromedp that its session with the tab has ended.
func (t *transport) detached() {
	t.push(&cdproto.Message{Method: "Target.detachedFromTarget", Params: encode(map[string]string{
		"sessionId": string(session), "targetId": t.tab.Key().TargetID,
	})})
}

// event takes an event of the tab. It does not block.
func (t *transport) event(ev op.Event) {
	switch {
	case ev.Detached != "":
		t.detached()
		t.fail(fmt.Errorf("the debugger of tab %d was detached: %s", t.tab.Key().TabID, ev.Detached))
	case ev.SessionID == "":
		t.push(&cdproto.Message{SessionID: session, Method: cdproto.MethodType(ev.Method), Params: jsonv2.Value(ev.Params)})
	}
}

func (t *transport) answer(id int64, s target.SessionID, result any, fault *cdproto.Error) {
	m := &cdproto.Message{ID: id, SessionID: s, Error: fault}
	if fault == nil {
		m.Result = encode(result)
	}
	t.push(m)
}

func (t *transport) push(m *cdproto.Message) {
	t.mu.Lock()
	switch {
	case t.err != nil:
	case len(t.queue) >= maxQueue:
		t.err = errBehind
	default:
		t.queue = append(t.queue, m)
	}
	t.mu.Unlock()
	t.wakeUp()
}

// fail ends the connection once chromedp has read what came before.
func (t *transport) fail(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
	t.wakeUp()
}

func (t *transport) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// asError is an error of a call as Chrome would answer it: its own where it is
// one, else the words of ours.
func asError(err error) *cdproto.Error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		return &cdproto.Error{Code: p.Code, Message: p.Message}
	}
	return &cdproto.Error{Code: serverError, Message: err.Error()}
}

// encode encodes what is made here, or an answer as it came.
func encode(v any) jsonv2.Value {
	raw, ok := v.(jsonv2.Value)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			panic(fmt.Sprintf("chromedptab: %T cannot be encoded: %v", v, err)) // maps of strings and numbers can
		}
	}
	if len(raw) == 0 {
		return jsonv2.Value("{}")
	}
	return raw
}
