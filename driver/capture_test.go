package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// mute is a Conn without a browser: a test plays the events, and answer says
// what a call returns.
type mute struct {
	mu     sync.Mutex
	listen func(op.Event)
	answer func(ctx context.Context, session, method string) (string, error)
	calls  []string
}

var _ Conn = (*mute)(nil)

func (m *mute) Call(ctx context.Context, method string, params, result any) error {
	return m.call(ctx, "", method, result)
}

func (m *mute) call(ctx context.Context, session, method string, result any) error {
	m.mu.Lock()
	m.calls = append(m.calls, session+" "+method)
	answer := m.answer
	m.mu.Unlock()
	text := "{}"
	if answer != nil {
		var err error
		if text, err = answer(ctx, session, method); err != nil {
			return err
		}
	}
	return jsonv2.Unmarshal([]byte(text), result)
}

func (m *mute) Subscribe(string) (<-chan jsonv2.Value, func()) { return nil, func() {} }
func (m *mute) Child(id string) cdp.Session                    { return muteChild{m, id} }
func (m *mute) Listen(fn func(op.Event)) func()                { m.listen = fn; return func() {} }
func (m *mute) Key() op.TabKey                                 { return op.TabKey{TabID: 1} }
func (m *mute) Info(context.Context) (op.Tab, error)           { return op.Tab{}, nil }
func (m *mute) Attach(context.Context) error                   { return nil }
func (m *mute) Detach(context.Context) error                   { return nil }
func (m *mute) ResetSession(context.Context, error) error      { return nil }
func (m *mute) Pin(string) func()                              { return func() {} }
func (m *mute) Attachment() int                                { return 1 }

func (m *mute) called(call string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		if c == call {
			return true
		}
	}
	return false
}

type muteChild struct {
	m  *mute
	id string
}

func (c muteChild) Call(ctx context.Context, method string, params, result any) error {
	return c.m.call(ctx, c.id, method, result)
}
func (c muteChild) Subscribe(string) (<-chan jsonv2.Value, func()) { return nil, func() {} }

// played is a tab on a mute Conn, with both captures on.
func played(t interface{ Cleanup(func()) }) (*Tab, *mute) {
	m := &mute{}
	tab := newTab(m, New(nil).log)
	t.Cleanup(tab.close)
	tab.mu.Lock()
	root := tab.rootLocked()
	root.console, root.network = true, true
	tab.capture.wantConsole, tab.capture.wantNetwork = true, true
	tab.mu.Unlock()
	return tab, m
}

func (m *mute) play(session, method, params string) {
	m.listen(op.Event{SessionID: session, Method: method, Params: json.RawMessage(params)})
}

func send(m *mute, id, url string) {
	m.play("", network.RequestWillBeSent.Method, fmt.Sprintf(
		`{"requestId":%q,"loaderId":"L","documentURL":"http://site/","request":{"url":%q,"method":"GET","headers":{}},"timestamp":1,"wallTime":1700000000,"type":"Fetch","frameId":"F"}`, id, url))
}

func TestRequestsAreBounded(t *testing.T) {
	tab, m := played(t)
	for i := range 1500 {
		send(m, fmt.Sprint(i), fmt.Sprintf("http://site/%d", i))
	}
	out := tab.networkNow(NetworkListIn{IncludePreserved: true}, 0)
	assert.Equal(t, len(out.Requests), maxRequests)
	assert.Equal(t, out.Dropped, 500)
	assert.Equal(t, out.Requests[0].ID, "req-501")
	tab.mu.Lock()
	defer tab.mu.Unlock()
	assert.Assert(t, len(tab.capture.network.byKey) <= maxRequestKeys)
}

func TestRequestsAreBoundedInBytes(t *testing.T) {
	tab, m := played(t)
	long := strings.Repeat("x", 3000)
	for i := range 900 {
		id := fmt.Sprint(i)
		send(m, id, "http://site/"+long)
		var headers []string
		for h := range 30 {
			headers = append(headers, fmt.Sprintf(`"H-%d":%q`, h, long))
		}
		m.play("", network.ResponseReceivedExtraInfo.Method, fmt.Sprintf(`{"requestId":%q,"headers":{%s},"statusCode":200}`, id, strings.Join(headers, ",")))
	}
	tab.mu.Lock()
	n := &tab.capture.network
	bytes, list := n.bytes, len(n.list)
	tab.mu.Unlock()
	assert.Assert(t, bytes <= maxRequestsBytes && list < 900 && list > 100, "%d bytes in %d requests", bytes, list)
	out := tab.networkNow(NetworkListIn{IncludePreserved: true}, 0)
	r := out.Requests[0]
	assert.Equal(t, r.URLLength, 3012)
	assert.Equal(t, r.ResponseHeaders[len(r.ResponseHeaders)-1][0], "…", "cut headers are not counted")
	text := out.Text()
	assert.Assert(t, json.Valid([]byte(text)) && utf8.RuneCountInString(text) <= op.MaxText)
}

func TestMessagesAreBounded(t *testing.T) {
	tab, m := played(t)
	for i := range 800 {
		m.play("", runtime.ConsoleAPICalled.Method, fmt.Sprintf(`{"type":"log","args":[{"type":"string","value":%q}],"executionContextId":1,"timestamp":%d}`, strings.Repeat("y", 3000), 1700000000000+i))
	}
	out := tab.consoleNow(ConsoleIn{}, 0)
	tab.mu.Lock()
	bytes := tab.capture.console.bytes
	tab.mu.Unlock()
	assert.Assert(t, bytes <= maxConsoleBytes, "%d bytes", bytes)
	assert.Equal(t, len(out.Messages)+out.Dropped, 800)
	text := out.Text()
	assert.Assert(t, json.Valid([]byte(text)) && utf8.RuneCountInString(text) <= op.MaxText)
	assert.Assert(t, strings.Contains(text, `"before": "msg-`), "the text does not say how to see the rest")
}

// The raw headers of a request come before or after it, and each hop of a
// redirect has its own.
func TestRawHeadersGoToTheirHop(t *testing.T) {
	tab, m := played(t)
	sent := func(v string) {
		m.play("", network.RequestWillBeSentExtraInfo.Method, fmt.Sprintf(`{"requestId":"1","associatedCookies":[],"headers":{"X-Hop":%q}}`, v))
	}
	got := func(v string, status int) {
		m.play("", network.ResponseReceivedExtraInfo.Method, fmt.Sprintf(`{"requestId":"1","blockedCookies":[],"headers":{"X-Got":%q},"statusCode":%d}`, v, status))
	}
	sent("one") // before its request
	send(m, "1", "http://site/one")
	redirect := func(to string, extra bool) {
		m.play("", network.RequestWillBeSent.Method, fmt.Sprintf(
			`{"requestId":"1","loaderId":"L","documentURL":"http://site/","request":{"url":"http://site/%s","method":"GET","headers":{}},"timestamp":2,"wallTime":1700000001,"type":"Fetch","frameId":"F","redirectHasExtraInfo":%t,"redirectResponse":{"url":"http://site/","status":302,"statusText":"Found","headers":{},"mimeType":""}}`, to, extra))
	}
	redirect("two", true)
	got("one", 302)
	redirect("three", false) // from a cache: no raw headers come for it
	sent("three")
	got("three", 200)
	m.play("", network.ResponseReceived.Method, `{"requestId":"1","loaderId":"L","timestamp":3,"type":"Fetch","hasExtraInfo":true,"response":{"url":"http://site/three","status":200,"statusText":"OK","headers":{},"mimeType":"text/plain"}}`)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	var seen []string
	for _, r := range tab.capture.network.list {
		seen = append(seen, fmt.Sprint(r.req.Status, r.sent, r.req.ResponseHeaders))
	}
	assert.DeepEqual(t, seen, []string{"302 [[X-Hop one]] [[X-Got one]]", "302 [] []", "200 [[X-Hop three]] [[X-Got three]]"})
}

// Whatever order events come in, the account of the ring stays right.
func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &mute{answer: func(context.Context, string, string) (string, error) {
			return `{"body":"{\"a\":1}","base64Encoded":false}`, nil
		}}
		tab := newTab(m, New(nil).log)
		defer tab.close()
		tab.mu.Lock()
		root := tab.rootLocked()
		root.console, root.network = true, true
		tab.capture.wantConsole, tab.capture.wantNetwork = true, true
		tab.mu.Unlock()
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			id := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "id")
			switch rapid.IntRange(0, 12).Draw(rt, "event") {
			case 0, 1:
				send(m, id, "http://site/"+rapid.StringN(0, 40, 200).Draw(rt, "path"))
			case 2:
				m.play("", network.RequestWillBeSent.Method, fmt.Sprintf(`{"requestId":%q,"loaderId":%q,"request":{"url":"http://site/r","method":"POST","headers":{"Content-Type":"application/json"},"hasPostData":true,"postDataEntries":[{"bytes":"e30="}]},"timestamp":2,"wallTime":3,"redirectResponse":{"status":301,"headers":{"A":"b"}}}`, id, id))
			case 3:
				m.play("", network.RequestWillBeSentExtraInfo.Method, fmt.Sprintf(`{"requestId":%q,"headers":{"Cookie":"a=b; c=d"}}`, id))
			case 4:
				m.play("", network.ResponseReceivedExtraInfo.Method, fmt.Sprintf(`{"requestId":%q,"headers":{"Set-Cookie":"a=b\nc=d"},"statusCode":200}`, id))
			case 5:
				m.play("", network.ResponseReceived.Method, fmt.Sprintf(`{"requestId":%q,"type":"XHR","hasExtraInfo":%t,"response":{"url":"http://site/x","status":200,"headers":{"B":"c"},"mimeType":"application/json"}}`, id, rapid.Bool().Draw(rt, "extra")))
			case 6:
				m.play("", network.DataReceived.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":4,"dataLength":10}`, id))
			case 7:
				m.play("", network.LoadingFinished.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":5,"encodedDataLength":10}`, id))
			case 8:
				m.play("", network.LoadingFailed.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":5,"errorText":"net::ERR_FAILED","corsErrorStatus":{"corsError":"MissingAllowOriginHeader"}}`, id))
			case 9:
				m.play("", network.WebSocketCreated.Method, fmt.Sprintf(`{"requestId":%q,"url":"ws://site/"}`, id))
				m.play("", network.WebSocketFrameReceived.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":1,"response":{"opcode":1,"payloadData":"x"}}`, id))
				m.play("", network.WebSocketClosed.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":2}`, id))
			case 10:
				tab.networkNow(NetworkListIn{Clear: true}, 0)
			case 11:
				tab.mu.Lock()
				tab.captureResetLocked()
				root = tab.rootLocked()
				root.console, root.network = true, true
				tab.mu.Unlock()
			case 12:
				m.play("", network.EventSourceMessageReceived.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":1,"data":"x"}`, id))
			}
		}
		tab.captureSettled(t.Context(), 5*time.Second)
		tab.mu.Lock()
		defer tab.mu.Unlock()
		n := &tab.capture.network
		bytes, bodies := 0, 0
		for _, r := range n.list {
			bytes += r.size
			bodies += r.body.response.cost() + r.body.request.cost()
			if r.gone || n.byKey[r.key] == nil && !r.finished {
				rt.Fatalf("%s is %+v", r.req.ID, r)
			}
			raw, err := json.Marshal(tab.capture.toldLocked(r))
			if err != nil || strings.Contains(string(raw), "a=b") {
				rt.Fatalf("%s %v", raw, err)
			}
		}
		if bytes != n.bytes || bodies != n.bodies.bytes {
			rt.Fatalf("counted %d and %d bytes, there are %d and %d", n.bytes, n.bodies.bytes, bytes, bodies)
		}
	})
}

func TestBodiesAreBounded(t *testing.T) {
	tab, m := played(t)
	body := strings.Repeat("z", 60_000)
	m.answer = func(context.Context, string, string) (string, error) {
		return fmt.Sprintf(`{"body":%q,"base64Encoded":false}`, body), nil
	}
	for i := range 100 {
		id := fmt.Sprint(i)
		send(m, id, "http://site/"+id)
		m.play("", network.ResponseReceived.Method, fmt.Sprintf(`{"requestId":%q,"type":"Fetch","response":{"url":"http://site/x","status":200,"headers":{},"mimeType":"text/plain"}}`, id))
		m.play("", network.LoadingFinished.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":5,"encodedDataLength":10}`, id))
		if i == 50 {
			// A body that is looked at stays longer than the others.
			tab.captureSettled(t.Context(), 5*time.Second)
		}
		if i >= 50 {
			r, err := tab.request("req-1")
			assert.NilError(t, err)
			_, why := tab.responseBody(t.Context(), r)
			assert.Equal(t, why, "")
		}
	}
	tab.captureSettled(t.Context(), 5*time.Second)
	tab.mu.Lock()
	n := &tab.capture.network
	assert.Assert(t, n.bodies.bytes <= maxKeptBodies, "%d bytes", n.bodies.bytes)
	assert.Assert(t, n.list[0].body.response != nil && n.list[99].body.response != nil && n.list[1].body.response == nil)
	assert.Assert(t, strings.Contains(n.list[1].body.why, "let go"), n.list[1].body.why)
	tab.mu.Unlock()
}

// A session that waits for us is let go whatever else fails, and a service
// worker before it answers anything.
func TestWaitingSessionsAreLetGo(t *testing.T) {
	_, m := played(t)
	m.answer = func(ctx context.Context, session, method string) (string, error) {
		switch {
		case session == "fails" && method == network.Enable.Method:
			return "", &op.ProtocolError{Method: method, Code: -32000, Message: "no"}
		case session == "service" && method != runtime.RunIfWaitingForDebugger.Method && !m.called("service "+runtime.RunIfWaitingForDebugger.Method):
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "{}", nil
	}
	for session, kind := range map[string]string{"fails": "iframe", "service": "service_worker", "odd": "auction_worklet"} {
		m.play("", target.AttachedToTarget.Method, fmt.Sprintf(`{"sessionId":%q,"waitingForDebugger":true,"targetInfo":{"targetId":"T","type":%q,"url":"http://site/w.js"}}`, session, kind))
	}
	deadline := time.Now().Add(5 * time.Second)
	for _, session := range []string{"fails", "service", "odd"} {
		for !m.called(session + " " + runtime.RunIfWaitingForDebugger.Method) {
			assert.Assert(t, time.Now().Before(deadline), "%s waits for ever", session)
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestClosingWaitsForTheCapture(t *testing.T) {
	m := &mute{answer: func(ctx context.Context, _, method string) (string, error) {
		if method == network.GetResponseBody.Method {
			<-ctx.Done() // the page does not answer
			return "", ctx.Err()
		}
		return "{}", nil
	}}
	tab := newTab(m, New(nil).log)
	tab.mu.Lock()
	tab.rootLocked().network = true
	tab.capture.wantNetwork = true
	tab.mu.Unlock()
	for i := range 5 {
		id := fmt.Sprint(i)
		send(m, id, "http://site/")
		m.play("", network.ResponseReceived.Method, fmt.Sprintf(`{"requestId":%q,"type":"Fetch","response":{"status":200,"headers":{}}}`, id))
		m.play("", network.LoadingFinished.Method, fmt.Sprintf(`{"requestId":%q,"timestamp":5}`, id))
	}
	began := time.Now()
	tab.close()
	assert.Assert(t, time.Since(began) < captureJobBound, "closing waited %s", time.Since(began))
	tab.mu.Lock()
	defer tab.mu.Unlock()
	assert.Assert(t, !tab.capture.working && tab.capture.idle == nil)
}

func TestListTextFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var items []json.RawMessage
		for range rapid.IntRange(0, 40).Draw(rt, "items") {
			items = append(items, jsonText(strings.Repeat(rapid.StringN(0, 20, 100).Draw(rt, "text"), rapid.IntRange(0, 400).Draw(rt, "times"))))
		}
		text := listText("list", items, func(omitted int) any {
			return struct {
				Count   int `json:"count"`
				Omitted int `json:"omitted,omitempty"`
			}{len(items) - omitted, omitted}
		})
		var got struct {
			List    []string `json:"list"`
			Count   int      `json:"count"`
			Omitted int      `json:"omitted"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			rt.Fatal(err)
		}
		if utf8.RuneCountInString(text) > op.MaxText || got.Count != len(got.List) || got.Count+got.Omitted != len(items) {
			rt.Fatalf("%d characters, %d of %d items, %d omitted", utf8.RuneCountInString(text), len(got.List), len(items), got.Omitted)
		}
	})
}

// FuzzRemoteValue feeds the projection whatever Chrome might say of a value.
func FuzzRemoteValue(f *testing.F) {
	f.Add(`{"type":"object","className":"Object","preview":{"type":"object","properties":[{"name":"a","type":"object","value":"Object"}],"overflow":true}}`)
	f.Add(`{"type":"object","subtype":"array","description":"Array(9)","preview":{"type":"object","properties":[{"name":"7","type":"number","value":"-0"}],"overflow":true}}`)
	f.Add(`{"type":"object","subtype":"error","className":"Error","description":"Error"}`)
	f.Add(`{"type":"number","unserializableValue":"NaN"}`)
	f.Add(`{"type":"string","value":"\ud800"}`)
	f.Add(`{"type":"accessor"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o runtime.RemoteObject
		if jsonv2.Unmarshal(op.CleanJSON([]byte(text)), &o) != nil {
			return
		}
		refs := 0
		v, _ := remoteValue(&o, &refs)
		if !json.Valid(v) || utf8.RuneCount(v) > 2*maxConsoleValue+200 {
			t.Fatalf("%d characters: %.500s", utf8.RuneCount(v), v)
		}
	})
}

// failing is a scenario on a page whose console and network have something to
// tell, at a site without a service worker: the tab has one session.
func failing(t *testing.T) *drivertest.Scenario {
	s := start(t, "")
	drivertest.Goto(t, s.Conn, s.Site.Third+"/console/levels.html")
	s.Call("page.snapshot", `{}`)
	recorded(s).Reset()
	return s
}

// Each call of an operation fails once: the error is a rejection, and the next
// call works.
func TestCaptureFailsAndRecovers(t *testing.T) {
	for _, c := range []struct{ operation, method string }{
		{"page.console", "Runtime.enable"}, {"page.console", "Log.enable"},
		{"page.network-list", "Network.enable"}, {"page.network-list", "Target.setAutoAttach"},
	} {
		for _, fault := range []error{op.ErrNotDelivered, op.ErrReplyLost, &op.ProtocolError{Method: c.method, Code: -32000, Message: "it went wrong"}} {
			t.Run(c.method+" "+fault.Error(), func(t *testing.T) {
				s := failing(t)
				recorded(s).FailNth(c.method, 1, fault)
				_, err := s.Run(c.operation, `{}`)
				e, ok := errors.AsType[*op.Error](err)
				assert.Assert(t, ok && e.Kind == op.Rejected, "%v", err)
				assert.Assert(t, e.Message != "" && e.Hint != "")
				var out struct {
					Started, Enabled bool
					Count            int
				}
				s.Value(c.operation, `{}`, &out)
				assert.Assert(t, out.Started && out.Enabled)
				s.Call("page.snapshot", `{}`)
			})
		}
	}
}

func TestStoppingFailsAndRecovers(t *testing.T) {
	for operation, method := range map[string]string{"page.console": "Runtime.disable", "page.network-list": "Network.disable"} {
		s := failing(t)
		s.Call(operation, `{}`)
		recorded(s).FailNth(method, 1, op.ErrReplyLost)
		_, err := s.Run(operation, `{"enable":false}`)
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok && e.Kind == op.Rejected, "%v", err)
		s.Call(operation, `{"enable":false}`)
		s.Call(operation, `{}`)
	}
}

func TestBodyFailsAndIsTold(t *testing.T) {
	s := start(t, "")
	s.Call("page.network-list", `{}`)
	s.Goto("network/bodies.html")
	s.Call("page.wait", `{"condition":{"by":"expression","value":"document.title === 'Bodies: done'"}}`)
	var list struct{ Requests []NetworkRequest }
	s.Value("page.network-list", `{"urlIncludes":"n=200000"}`, &list)
	assert.Equal(t, len(list.Requests), 1)
	recorded(s).FailNth("Network.getResponseBody", 1, &op.ProtocolError{Method: "Network.getResponseBody", Code: -32000, Message: "No data found"})
	var got NetworkGetOut
	s.Value("page.network-get", map[string]any{"requestId": list.Requests[0].ID}, &got)
	assert.Assert(t, got.ResponseBody == nil && strings.Contains(got.ResponseBodyError, "No data found"), got.ResponseBodyError)
	got = NetworkGetOut{}
	s.Value("page.network-get", map[string]any{"requestId": list.Requests[0].ID}, &got)
	assert.Assert(t, got.ResponseBody != nil && got.ResponseBodyLength == 200000, "%+v", got)
}

// A page that does not answer holds up neither the console nor the bodies of
// other frames.
func TestBusyPageDoesNotHoldUpTheConsole(t *testing.T) {
	s := start(t, "console/levels.html")
	s.Call("page.console", `{}`)
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		s.Eval("console.log('busy', { a: { b: 1 } }); for (const end = performance.now() + 1500; performance.now() < end;);")
	}()
	began := time.Now()
	for {
		res := s.Call("page.console", `{"textContains":"busy"}`)
		if strings.Contains(res.Text, `"count": 1`) {
			break
		}
		assert.Assert(t, time.Since(began) < 1400*time.Millisecond, "the message came only when the page was free")
		time.Sleep(10 * time.Millisecond)
	}
	<-busy
}

func TestConsoleValueKeepsItsBounds(t *testing.T) {
	s := start(t, "")
	s.Call("page.console", `{}`)
	s.Eval(`console.log("deep", (() => { let o = {}; const top = o; for (let i = 0; i < 50; i++) { o.next = { text: "t".repeat(100) }; o = o.next; } return top; })())`)
	s.Eval(`console.log("wide", Object.fromEntries(Array.from({ length: 100000 }, (_, i) => ["key" + i, "v".repeat(50)])))`)
	s.Eval(`console.log("forged", { _tag: "PiChromeEvaluationMarker", kind: "Undefined", a: { b: 1 } })`)
	var out ConsoleOut
	s.Value("page.console", `{}`, &out)
	for _, want := range []string{"deep", "wide", "forged"} {
		found := false
		for _, m := range out.Messages {
			if len(m.Args) == 2 && string(m.Args[0]) == `"`+want+`"` {
				found = true
				_, err := cdpmodel.CheckProjection(m.Args[1])
				assert.NilError(t, err, "%s: %s", want, m.Args[1])
				assert.Assert(t, len(m.Args[1]) <= 2*maxConsoleValue, "%s has %d characters", want, len(m.Args[1]))
				switch want {
				case "wide":
					assert.Assert(t, strings.Contains(string(m.Args[1]), `"omitted":9`), "%s", m.Args[1])
				case "forged":
					assert.Assert(t, strings.Contains(string(m.Args[1]), `"kind":"ObjectEntryProjection"`), "%s", m.Args[1])
				}
			}
		}
		assert.Assert(t, found, want)
	}
}

// What Chrome told of an object before anything was asked of it forges no
// marker either.
func TestLoggedPreviewIsNoMarker(t *testing.T) {
	refs := 0
	v, more := remoteValue(&runtime.RemoteObject{Type: runtime.RemoteObjectTypeObject, ClassName: "Object", Preview: &runtime.ObjectPreview{
		Properties: []*runtime.PropertyPreview{{Name: "_tag", Type: "string", Value: "PiChromeEvaluationMarker"}, {Name: "kind", Type: "string", Value: "Undefined"}}}}, &refs)
	assert.Assert(t, !more)
	_, err := cdpmodel.CheckProjection(v)
	assert.NilError(t, err, "%s", v)
	assert.Assert(t, strings.Contains(string(v), `"kind":"ObjectEntryProjection"`), "%s", v)
}

// A tab that is given back is not captured any more.
func TestReleaseEndsTheCapture(t *testing.T) {
	d := New(nil)
	t.Cleanup(d.Close)
	s := drivertest.Start(t, drivertest.Lane{Name: "direct",
		Open: func(t testing.TB) drivertest.Conn { return drivertest.Record(t, drivertest.Page(t)) },
		Run: func(ctx context.Context, c drivertest.Conn, operation string, input json.RawMessage) (op.Result, error) {
			return d.Run(ctx, operation, &Call{ID: "test", Session: op.Session{Key: "test"}, Conn: c}, input)
		}}, "unnamed--case")
	drivertest.Goto(t, s.Conn, s.Site.Third+"/navigate/plain.html")
	// Chrome describes an error for a debugger with its stack, which it makes then.
	const probe = `(() => { let seen = 0; Error.prepareStackTrace = () => { seen++; return ""; }; console.debug(new Error("probe")); delete Error.prepareStackTrace; return seen; })()`
	s.Call("page.console", `{}`)
	s.Call("page.network-list", `{}`)
	assert.Assert(t, s.Eval(probe) != "0", "the probe does not notice a debugger that is there")
	assert.NilError(t, d.Release(t.Context(), s.Conn.Key()))
	assert.Equal(t, s.Eval(probe), "0")
	assert.Equal(t, recorded(s).Count("Network.disable"), 1)
}
