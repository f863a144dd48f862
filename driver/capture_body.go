package driver

import (
	"context"
	"fmt"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"pi-chrome/driver/op"
)

// Bounds of bodies.
const (
	maxKeptBody    = 64 << 10        // bytes of one that is kept past a navigation
	maxKeptBodies  = 4 << 20         // bytes of all of them in a tab
	maxRequestBody = 64_000          // characters of what was sent that are kept
	maxBodyChars   = 8000            // characters that one call returns
	bodyBound      = 5 * time.Second // to read one on demand
)

// keptBody is what is known of the two bodies of a request.
type keptBody struct {
	response    *bodyText
	asked       bool   // it is being read
	why         string // why there is none
	request     *bodyText
	requestKnow bool // that there is one, but not its text
	used        int  // when it was last told, for letting go of the oldest
}

// bodyText is a body without its secrets. A binary one has no text.
type bodyText struct {
	text   string
	length int // characters of a text that was sent, those that are not kept too
	bytes  int
	binary bool
}

// bodyStore bounds the bodies of a tab.
type bodyStore struct {
	bytes int
	clock int
}

func (b *bodyText) cost() int {
	if b == nil {
		return 0
	}
	return len(b.text) + 64
}

// drop lets go of the bodies of one request.
func (s *bodyStore) drop(b *keptBody) {
	s.bytes -= b.response.cost() + b.request.cost()
	b.response, b.request = nil, nil
}

func (s *bodyStore) touch(b *keptBody) {
	s.clock++
	b.used = s.clock
}

// keepLocked puts a body into the store and lets go of those that were not
// asked for the longest where there is no room.
func (n *networkLog) keepLocked(r *requestEntry, response, request *bodyText) {
	if r.gone {
		return
	}
	s := &n.bodies
	if response != nil {
		s.bytes += response.cost() - r.body.response.cost()
		r.body.response = response
	}
	if request != nil {
		s.bytes += request.cost() - r.body.request.cost()
		r.body.request = request
	}
	s.touch(&r.body)
	for s.bytes > maxKeptBodies {
		var oldest *requestEntry
		for _, o := range n.list {
			if o != r && o.body.response.cost()+o.body.request.cost() > 0 && (oldest == nil || o.body.used < oldest.body.used) {
				oldest = o
			}
		}
		if oldest == nil {
			return
		}
		s.drop(&oldest.body)
		oldest.body.why = fmt.Sprintf("it was let go: a tab keeps %d MB of bodies", maxKeptBodies>>20)
	}
}

// readBody makes a body's text, without its secrets.
func readBody(mimeType string, body []byte) *bodyText {
	b := &bodyText{bytes: len(body)}
	if !utf8.Valid(body) || textless(mimeType) && len(body) > 0 {
		b.binary = true
		return b
	}
	b.text = redactBody(mimeType, string(body))
	return b
}

// textless reports whether a body of that type is no text, even where its
// bytes happen to be.
func textless(mimeType string) bool {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return false
	}
	top, sub, _ := strings.Cut(kind, "/")
	switch top {
	case "image":
		return !strings.Contains(sub, "svg")
	case "audio", "video", "font":
		return true
	}
	return strings.Contains(sub, "octet-stream") || strings.Contains(sub, "zip") || strings.Contains(sub, "pdf") || strings.Contains(sub, "wasm")
}

// keepBodyLocked has the worker read the body of a finished request while its
// document is still there.
func (t *Tab) keepBodyLocked(r *requestEntry) {
	switch r.req.Type {
	case "document", "xhr", "fetch":
	default:
		return
	}
	if !r.mayHaveBody() || r.req.BodyBytes > maxKeptBody {
		return
	}
	r.body.asked = true
	n := &t.capture.network
	t.enqueueJobLocked(captureJob{session: r.session,
		run: func(ctx context.Context, s cdp.Session) error {
			res, err := call(ctx, s, network.GetResponseBody, network.GetResponseBodyParams{RequestID: r.key})
			if err != nil {
				return err
			}
			t.mu.Lock()
			mimeType := r.req.MimeType
			t.mu.Unlock()
			body := readBody(mimeType, res.Body)
			t.mu.Lock()
			defer t.mu.Unlock()
			r.body.asked = false
			if body.bytes <= maxKeptBody {
				n.keepLocked(r, body, nil)
			}
			return nil
		},
		skipped: func(reason string) { r.body.asked, r.body.why = false, reason },
	})
}

// mayHaveBody reports whether the answer can have a body that Chrome keeps.
func (r *requestEntry) mayHaveBody() bool {
	status, _ := r.req.Status.(int64)
	return !r.redirect && !r.failed && r.req.Method != "HEAD" && status != 204 && status != 304 && status >= 200
}

// postedLocked keeps what a request sends.
func (t *Tab) postedLocked(r *requestEntry, q *network.Request) {
	if !q.HasPostData {
		return
	}
	r.req.HasRequestBody = true
	for name, value := range q.Headers {
		if strings.EqualFold(name, "content-type") {
			r.postMime = cut(fmt.Sprint(value), 200)
		}
	}
	var body []byte
	for _, part := range q.PostDataEntries {
		if part != nil {
			body = append(body, part.Bytes...)
		}
	}
	if len(body) == 0 {
		r.body.requestKnow = true
		return
	}
	t.capture.network.keepLocked(r, nil, requestText(r.postMime, body))
}

// requestText is what a request sends, bounded.
func requestText(mimeType string, body []byte) *bodyText {
	b := readBody(mimeType, body)
	if strings.HasPrefix(strings.ToLower(mimeType), "multipart/") && b.binary {
		// The fields beside a file are text, and the file's own bytes are
		// of no use.
		b.text, b.binary = redactBody(mimeType, strings.ToValidUTF8(string(body), "\uFFFD")), false
	}
	b.length = runes(b.text)
	b.text = head(b.text, maxRequestBody)
	return b
}

// responseBody returns the body of a request: from the store, or from Chrome
// while its document lives. The reason says why there is none.
func (t *Tab) responseBody(ctx context.Context, r *requestEntry) (*bodyText, string) {
	t.captureSettled(ctx, time.Second)
	t.mu.Lock()
	n := &t.capture.network
	if b := r.body.response; b != nil {
		n.bodies.touch(&r.body)
		t.mu.Unlock()
		return b, ""
	}
	why := r.noBody()
	s := t.capture.sessions[r.session]
	key, mimeType, before := r.key, r.req.MimeType, r.body.why
	t.mu.Unlock()
	if why != "" {
		return nil, why
	}
	if before == "" {
		before = "its page or frame has navigated away, or Chrome has let go of it"
	}
	if s == nil {
		return nil, "the frame or worker that made the request is gone: " + before
	}
	ctx, cancel := context.WithTimeout(ctx, bodyBound)
	defer cancel()
	res, err := call(ctx, s.session, network.GetResponseBody, network.GetResponseBodyParams{RequestID: key})
	if err != nil {
		if isCode(err, op.DeadlineExceeded) {
			return nil, "Chrome did not tell it in time: the page may be busy"
		}
		return nil, fmt.Sprintf("Chrome does not have it (%s): %s", cut(plain(err), 200), before)
	}
	b := readBody(mimeType, res.Body)
	if b.bytes <= maxKeptBody {
		t.mu.Lock()
		n.keepLocked(r, b, nil)
		t.mu.Unlock()
	}
	return b, ""
}

// noBody says why a request has no body that could be told; "" when it may
// have one.
func (r *requestEntry) noBody() string {
	switch {
	case r.redirect:
		return "a redirect has none; look at " + r.req.RedirectedTo
	case r.req.Type == "websocket":
		return "a web socket has none; its messages stand in frames"
	case r.req.Type == "eventsource":
		return "an event source has none; its events stand in frames"
	case r.failed:
		return "the request failed"
	case !r.finished && r.req.Status == "pending":
		return "the request is still pending"
	case !r.finished:
		return "it has not come whole: it is still on its way, or the page has not read it"
	case !r.mayHaveBody():
		return "such an answer has none"
	}
	return ""
}

// requestBody returns what a request sent; "" and no reason when nothing.
func (t *Tab) requestBody(ctx context.Context, r *requestEntry) (*bodyText, string) {
	t.mu.Lock()
	b, know, s, key, mimeType := r.body.request, r.body.requestKnow, t.capture.sessions[r.session], r.key, r.postMime
	has := r.req.HasRequestBody
	t.mu.Unlock()
	if b != nil || !has {
		return b, ""
	}
	if !know {
		return nil, "it was let go"
	}
	if s == nil {
		return nil, "the frame or worker that made the request is gone"
	}
	ctx, cancel := context.WithTimeout(ctx, bodyBound)
	defer cancel()
	res, err := call(ctx, s.session, network.GetRequestPostData, network.GetRequestPostDataParams{RequestID: key})
	if err != nil {
		return nil, fmt.Sprintf("Chrome does not have it (%s)", cut(plain(err), 200))
	}
	return requestText(mimeType, res.PostData), ""
}

// socketEventLocked takes in an event of a web socket, an event source or a
// web transport.
func (t *Tab) socketEventLocked(s *captureSession, ev op.Event) {
	n := &t.capture.network
	switch ev.Method {
	case network.WebSocketCreated.Method:
		if e, ok := decode[network.EventWebSocketCreated](ev); ok {
			t.openedLocked(s, e.RequestID, e.URL, "WebSocket", e.Initiator)
		}
	case network.WebTransportCreated.Method:
		if e, ok := decode[network.EventWebTransportCreated](ev); ok {
			t.openedLocked(s, e.TransportID, e.URL, "WebTransport", e.Initiator)
		}
	case network.WebSocketWillSendHandshakeRequest.Method:
		if e, ok := decode[network.EventWebSocketWillSendHandshakeRequest](ev); ok && e.Request != nil {
			if r := n.lastLocked(e.RequestID); r != nil {
				r.started, r.wall, r.req.StartedAt = float64(e.Timestamp), float64(e.WallTime), epochMs(float64(e.WallTime))
				r.sent = headerList(e.Request.Headers)
			}
		}
	case network.WebSocketHandshakeResponseReceived.Method:
		if e, ok := decode[network.EventWebSocketHandshakeResponseReceived](ev); ok && e.Response != nil {
			if r := n.lastLocked(e.RequestID); r != nil {
				opened := e.Response.Status == 101
				r.req.Status, r.req.StatusText, r.req.OK = e.Response.Status, cut(e.Response.StatusText, 200), &opened
				r.req.ResponseHeaders = headerList(e.Response.Headers)
				if len(e.Response.RequestHeaders) > 0 {
					r.sent = headerList(e.Response.RequestHeaders)
				}
				n.sizeLocked(r)
			}
		}
	case network.WebTransportConnectionEstablished.Method:
		if e, ok := decode[network.EventWebTransportConnectionEstablished](ev); ok {
			if r := n.lastLocked(e.TransportID); r != nil {
				opened := true
				r.req.Status, r.req.OK = int64(200), &opened
			}
		}
	case network.WebSocketFrameSent.Method:
		if e, ok := decode[network.EventWebSocketFrameSent](ev); ok {
			n.frameLocked(e.RequestID, "sent", float64(e.Timestamp), e.Response)
		}
	case network.WebSocketFrameReceived.Method:
		if e, ok := decode[network.EventWebSocketFrameReceived](ev); ok {
			n.frameLocked(e.RequestID, "received", float64(e.Timestamp), e.Response)
		}
	case network.WebSocketFrameError.Method:
		if e, ok := decode[network.EventWebSocketFrameError](ev); ok {
			if r := n.lastLocked(e.RequestID); r != nil {
				no := false
				r.failed, r.req.Error, r.req.OK = true, cut(e.ErrorMessage, 300), &no
				if r.req.Status == "pending" {
					r.req.Status = 0
				}
			}
		}
	case network.WebSocketClosed.Method:
		if e, ok := decode[network.EventWebSocketClosed](ev); ok {
			n.closedLocked(e.RequestID, float64(e.Timestamp))
		}
	case network.WebTransportClosed.Method:
		if e, ok := decode[network.EventWebTransportClosed](ev); ok {
			n.closedLocked(e.TransportID, float64(e.Timestamp))
		}
	case network.EventSourceMessageReceived.Method:
		if e, ok := decode[network.EventEventSourceMessageReceived](ev); ok {
			if r := n.lastLocked(e.RequestID); r != nil {
				r.req.FramesReceived++
				r.addFrame(SocketFrame{Direction: "received", At: r.at(float64(e.Timestamp)), Event: cut(e.EventName, 100),
					Data: frameText(e.Data), Length: utf8.RuneCountInString(e.Data)})
				n.sizeLocked(r)
			}
		}
	}
}

func (t *Tab) openedLocked(s *captureSession, key network.RequestID, url, kind string, from *network.Initiator) {
	n := &t.capture.network
	if last := n.lastLocked(key); last != nil {
		if !last.finished {
			return // told already
		}
		delete(n.byKey, key)
	}
	r := t.entryLocked(s, key, "GET", url, kind)
	r.wall = float64(time.Now().UnixMilli()) / 1000
	r.req.StartedAt = epochMs(r.wall)
	r.req.Initiator = initiator(from)
	if s.worker() {
		r.req.WorkerURL = shownURL(s.url)
	} else if s.id != "" {
		r.req.FrameURL = shownURL(t.placeLocked(s, ""))
		if r.req.FrameURL == "" && from != nil {
			if at := locate(from.Stack); at != nil {
				r.req.FrameURL = at.URL // it has not told its address yet
			}
		}
	}
	n.addLocked(r)
}

func (n *networkLog) closedLocked(key network.RequestID, at float64) {
	if r := n.lastLocked(key); r != nil && !r.finished {
		r.end(at, nil)
		if r.gone {
			delete(n.byKey, key)
		}
	}
}

func (n *networkLog) frameLocked(key network.RequestID, direction string, at float64, f *network.WebSocketFrame) {
	r := n.lastLocked(key)
	if r == nil || f == nil {
		return
	}
	if direction == "sent" {
		r.req.FramesSent++
	} else {
		r.req.FramesReceived++
	}
	frame := SocketFrame{Direction: direction, At: r.at(at), Length: len(f.PayloadData), Binary: f.Opcode != 1}
	if !frame.Binary {
		text := string(f.PayloadData)
		frame.Data, frame.Length = frameText(text), utf8.RuneCountInString(text)
	}
	r.addFrame(frame)
	n.sizeLocked(r)
}

// frameText is a message's text without its secrets, bounded.
func frameText(s string) string {
	if len(s) > maxKeptBody {
		s = cut(s[:maxKeptBody], maxKeptBody)
	}
	return cut(redactBody("", s), maxFrameLength)
}

// addFrame keeps the last messages; how many there were is counted apart.
func (r *requestEntry) addFrame(f SocketFrame) {
	if r.gone {
		return
	}
	if len(r.frames) >= maxFrames {
		r.frames = append([]SocketFrame(nil), r.frames[len(r.frames)-maxFrames+1:]...)
	}
	r.frames = append(r.frames, f)
}

// at is a monotonic time of Chrome's in ms since 1970.
func (r *requestEntry) at(mono float64) int64 {
	if r.started == 0 || mono == 0 {
		return r.req.StartedAt
	}
	return epochMs(r.wall + mono - r.started)
}
