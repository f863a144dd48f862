package driver

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"pi-chrome/driver/op"
)

// Bounds of the network's ring.
const (
	maxRequests      = 1000
	maxRequestsBytes = 4 << 20 // without bodies
	maxRequestKeys   = 2 * maxRequests
	maxEarly         = 64
	maxURLLength     = 2000
	maxFrames        = 20  // of a web socket or event source that are kept
	maxFrameLength   = 500 // characters of one
)

// NetworkRequest is one request of the tab, also of its frames and workers.
type NetworkRequest struct {
	ID                string      `json:"id" jsonschema:"req-N, rising"`
	Type              string      `json:"type" jsonschema:"document, stylesheet, script, image, font, media, xhr, fetch, websocket, eventsource, ping, preflight, manifest, …"`
	Method            string      `json:"method"`
	URL               string      `json:"url"`
	URLLength         int         `json:"urlLength,omitempty" jsonschema:"characters of the whole address, where it is cut"`
	StartedAt         int64       `json:"startedAt" jsonschema:"when, in ms since 1970"`
	PageURL           string      `json:"pageUrl" jsonschema:"the page that the tab showed"`
	FrameURL          string      `json:"frameUrl,omitempty" jsonschema:"the frame's document where it is not the page itself"`
	WorkerURL         string      `json:"workerUrl,omitempty" jsonschema:"the worker that made it"`
	Status            any         `json:"status" jsonschema:"the HTTP status, pending, or 0 when no answer came"`
	StatusText        string      `json:"statusText,omitempty"`
	OK                *bool       `json:"ok,omitempty"`
	ResponseURL       string      `json:"responseUrl,omitempty" jsonschema:"where it differs from url"`
	DurationMs        *int64      `json:"durationMs,omitempty"`
	ResponseHeaders   [][2]string `json:"responseHeaders,omitempty" jsonschema:"as [name, value]; secrets are redacted"`
	MimeType          string      `json:"mimeType,omitempty"`
	Protocol          string      `json:"protocol,omitempty"`
	TransferBytes     int64       `json:"transferBytes,omitempty" jsonschema:"bytes that came over the network, headers included"`
	BodyBytes         int64       `json:"bodyBytes,omitempty" jsonschema:"bytes of the decoded body"`
	FromCache         string      `json:"fromCache,omitempty" jsonschema:"memory, disk or prefetch"`
	FromServiceWorker bool        `json:"fromServiceWorker,omitempty"`
	Initiator         string      `json:"initiator,omitempty" jsonschema:"what caused it and where"`
	Error             string      `json:"error,omitempty" jsonschema:"why it failed, such as net::ERR_CONNECTION_REFUSED"`
	BlockedReason     string      `json:"blockedReason,omitempty"`
	Canceled          bool        `json:"canceled,omitempty"`
	RedirectedFrom    string      `json:"redirectedFrom,omitempty"`
	RedirectedTo      string      `json:"redirectedTo,omitempty"`
	Navigation        bool        `json:"navigation,omitempty" jsonschema:"it loads the document of a page or frame"`
	FramesSent        int         `json:"framesSent,omitempty" jsonschema:"of a web socket"`
	FramesReceived    int         `json:"framesReceived,omitempty" jsonschema:"of a web socket; events of an event source"`
	HasRequestBody    bool        `json:"hasRequestBody,omitempty"`
	HasResponseBody   *bool       `json:"hasResponseBody,omitempty" jsonschema:"whether chrome_network_get can tell it"`
}

// SocketFrame is one message of a web socket, or one event of an event source.
type SocketFrame struct {
	Direction string `json:"direction" enum:"sent|received"`
	At        int64  `json:"at" jsonschema:"when, in ms since 1970"`
	Event     string `json:"event,omitempty" jsonschema:"the name of an event"`
	Data      string `json:"data,omitempty" jsonschema:"its text, at most 500 characters"`
	Length    int    `json:"length" jsonschema:"characters of the text, bytes of a binary one"`
	Binary    bool   `json:"binary,omitempty"`
}

// RequestTiming are the parts of a request's time, in ms; absent ones did not
// happen.
type RequestTiming struct {
	QueuedMs  float64 `json:"queuedMs,omitempty"`
	DNSMs     float64 `json:"dnsMs,omitempty"`
	ConnectMs float64 `json:"connectMs,omitempty"`
	TLSMs     float64 `json:"tlsMs,omitempty"`
	SendMs    float64 `json:"sendMs,omitempty"`
	WaitMs    float64 `json:"waitMs,omitempty"`
}

// networkLog is the ring of a tab's requests.
type networkLog struct {
	list    []*requestEntry
	bytes   int
	next    int
	dropped int
	byKey   map[network.RequestID]*requestChain
	early   map[network.RequestID]*requestChain // raw headers that came before their request; at most maxEarly
	bodies  bodyStore
}

// requestChain is a request with its redirects: they share Chrome's id.
type requestChain struct {
	hops               []*requestEntry
	sentSeen, gotSeen  int // which hop the next raw headers are of
	sentEarly, gotLate []network.Headers
}

type requestEntry struct {
	req      NetworkRequest
	number   int
	key      network.RequestID
	session  string       // that tells of it now
	doc      cdp.LoaderID // the page's document that made it
	nav      cdp.LoaderID // the page's document that it makes
	started  float64      // monotonic, s
	wall     float64      // s since 1970
	sent     [][2]string  // request headers
	timing   *RequestTiming
	frames   []SocketFrame
	finished bool
	failed   bool
	redirect bool
	postMime string
	body     keptBody
	size     int
	gone     bool // out of the ring
}

// networkEventLocked takes in an event of the network.
func (t *Tab) networkEventLocked(s *captureSession, ev op.Event) bool {
	if !strings.HasPrefix(ev.Method, "Network.") {
		return false
	}
	if !t.capture.wantNetwork {
		return true
	}
	n := &t.capture.network
	switch ev.Method {
	case network.RequestWillBeSent.Method:
		if e, ok := decode[network.EventRequestWillBeSent](ev); ok && e.Request != nil {
			t.requestLocked(s, &e)
		}
	case network.RequestWillBeSentExtraInfo.Method:
		if e, ok := decode[network.EventRequestWillBeSentExtraInfo](ev); ok {
			n.sentHeadersLocked(e.RequestID, e.Headers)
		}
	case network.ResponseReceivedExtraInfo.Method:
		if e, ok := decode[network.EventResponseReceivedExtraInfo](ev); ok {
			n.gotHeadersLocked(e.RequestID, e.Headers, e.StatusCode)
		}
	case network.RequestServedFromCache.Method:
		if e, ok := decode[network.EventRequestServedFromCache](ev); ok {
			if r := n.lastLocked(e.RequestID); r != nil {
				r.req.FromCache = "memory"
			}
		}
	case network.ResponseReceived.Method:
		if e, ok := decode[network.EventResponseReceived](ev); ok && e.Response != nil {
			t.responseLocked(s, &e)
		}
	case network.DataReceived.Method:
		if e, ok := decode[network.EventDataReceived](ev); ok {
			if r := n.lastLocked(e.RequestID); r != nil {
				r.req.BodyBytes += max(e.DataLength, 0)
			}
		}
	case network.LoadingFinished.Method:
		if e, ok := decode[network.EventLoadingFinished](ev); ok {
			t.finishedLocked(s, &e)
		}
	case network.LoadingFailed.Method:
		if e, ok := decode[network.EventLoadingFailed](ev); ok {
			t.failedLocked(&e)
		}
	default:
		t.socketEventLocked(s, ev)
	}
	return true
}

// lastLocked is the last hop of the request.
func (n *networkLog) lastLocked(key network.RequestID) *requestEntry {
	c := n.byKey[key]
	if c == nil {
		return nil
	}
	return c.hops[len(c.hops)-1]
}

// addLocked puts an entry into the ring.
func (n *networkLog) addLocked(r *requestEntry) {
	n.next++
	r.number = n.next
	r.req.ID = fmt.Sprintf("req-%d", r.number)
	n.list = append(n.list, r)
	c := n.byKey[r.key]
	if c == nil {
		if n.byKey == nil {
			n.byKey = map[network.RequestID]*requestChain{}
		}
		for key, old := range n.byKey {
			if len(n.byKey) < maxRequestKeys {
				break
			}
			if old.hops[len(old.hops)-1].gone {
				delete(n.byKey, key)
			}
		}
		if c = n.early[r.key]; c == nil {
			c = &requestChain{}
		}
		delete(n.early, r.key)
		n.byKey[r.key] = c
	}
	c.hops = append(c.hops, r)
	n.sizeLocked(r)
	for len(n.list) > maxRequests || n.bytes > maxRequestsBytes && len(n.list) > 1 {
		n.dropped++
		n.removeLocked(n.list[0])
		n.list = n.list[1:]
	}
}

// removeLocked forgets an entry. One that is still on its way stays known by
// its key, so that its end is not taken for another request.
func (n *networkLog) removeLocked(r *requestEntry) {
	r.gone = true
	n.bytes -= r.size
	n.bodies.drop(&r.body)
	if c := n.byKey[r.key]; c != nil && c.hops[len(c.hops)-1] == r && (r.finished || len(n.byKey) > maxRequestKeys) {
		delete(n.byKey, r.key)
	}
	r.sent, r.frames, r.req.ResponseHeaders = nil, nil, nil
}

// sizeLocked counts an entry anew after it has grown.
func (n *networkLog) sizeLocked(r *requestEntry) {
	if r.gone {
		return
	}
	size := 400 + len(r.req.URL) + len(r.req.PageURL) + len(r.req.FrameURL) + len(r.req.ResponseURL) + len(r.req.Initiator)
	for _, list := range [][][2]string{r.sent, r.req.ResponseHeaders} {
		for _, h := range list {
			size += len(h[0]) + len(h[1]) + 32
		}
	}
	for _, f := range r.frames {
		size += len(f.Data) + 64
	}
	n.bytes += size - r.size
	r.size = size
}

func (n *networkLog) clearLocked() {
	for _, r := range n.list {
		n.removeLocked(r)
	}
	n.list, n.dropped = nil, 0
}

// interruptLocked ends what was on its way when the debugger was detached: how
// it ended is not known.
func (n *networkLog) interruptLocked() {
	for key, c := range n.byKey {
		if r := c.hops[len(c.hops)-1]; !r.finished {
			r.finished, r.failed = true, true
			r.req.Error = "not known: the debugger was detached before it ended"
			if r.req.Status == "pending" {
				r.req.Status = 0
			}
		}
		delete(n.byKey, key)
	}
}

// requestLocked takes in a request, or a redirect of one.
func (t *Tab) requestLocked(s *captureSession, e *network.EventRequestWillBeSent) {
	n := &t.capture.network
	if strings.HasPrefix(e.Request.URL, "data:") {
		return // no request of the network, and often a large part of the page
	}
	last := n.lastLocked(e.RequestID)
	if last != nil && e.RedirectResponse == nil {
		if !last.finished {
			last.session = s.id // told again by the frame or worker itself
			return
		}
		delete(n.byKey, e.RequestID)
		last = nil
	}
	r := t.entryLocked(s, e.RequestID, e.Request.Method, e.Request.URL+e.Request.URLFragment, string(e.Type))
	r.started, r.wall = float64(e.Timestamp), float64(e.WallTime)
	r.req.StartedAt = epochMs(r.wall)
	r.sent = headerList(e.Request.Headers)
	r.req.Initiator = initiator(e.Initiator)
	r.req.Navigation = e.LoaderID != "" && string(e.LoaderID) == string(e.RequestID)
	switch {
	case s.worker():
		r.req.WorkerURL = shownURL(s.url)
	case e.FrameID != "" && e.FrameID != t.main:
		r.req.FrameURL = shownURL(e.DocumentURL)
	case r.req.Navigation:
		r.nav = e.LoaderID
		r.req.PageURL = shownURL(e.Request.URL)
	case e.LoaderID != "" && e.FrameID == t.main:
		r.doc = e.LoaderID
		r.req.PageURL = shownURL(e.DocumentURL)
	}
	if last != nil {
		last.redirect = true
		last.answer(e.RedirectResponse)
		last.end(float64(e.Timestamp), nil)
		n.byKey[e.RequestID].answered(e.RedirectHasExtraInfo, len(n.byKey[e.RequestID].hops)-1)
	}
	n.addLocked(r)
	if last != nil {
		last.req.RedirectedTo, r.req.RedirectedFrom = r.req.ID, last.req.ID
		n.sizeLocked(last)
	}
	n.byKey[e.RequestID].catchUp(n)
	t.postedLocked(r, e.Request)
}

// entryLocked begins an entry of what the page does now.
func (t *Tab) entryLocked(s *captureSession, key network.RequestID, method, url, kind string) *requestEntry {
	r := &requestEntry{key: key, session: s.id}
	if kind == "" {
		kind = "Other"
	}
	r.req = NetworkRequest{Type: strings.ToLower(kind), Method: cut(method, 40), Status: "pending"}
	if n := utf8.RuneCountInString(url); n > maxURLLength {
		r.req.URLLength = n
	}
	r.req.URL = redactURL(cut(url, maxURLLength))
	if f := t.frames[t.main]; f != nil {
		r.doc = f.loader
		r.req.PageURL = shownURL(f.url)
	}
	return r
}

func (t *Tab) responseLocked(s *captureSession, e *network.EventResponseReceived) {
	n := &t.capture.network
	r := n.lastLocked(e.RequestID)
	if r == nil {
		// It was on its way when the capture began.
		if strings.HasPrefix(e.Response.URL, "data:") {
			return
		}
		r = t.entryLocked(s, e.RequestID, "", e.Response.URL, string(e.Type))
		r.started, r.wall = float64(e.Timestamp), float64(time.Now().UnixMilli())/1000
		r.req.StartedAt = epochMs(r.wall)
		n.addLocked(r)
	}
	r.session = s.id
	if e.Type != "" {
		r.req.Type = strings.ToLower(string(e.Type))
	}
	r.answer(e.Response)
	c := n.byKey[e.RequestID]
	c.answered(e.HasExtraInfo, len(c.hops)-1)
	c.catchUp(n)
	n.sizeLocked(r)
}

// answer takes in the head of a response.
func (r *requestEntry) answer(p *network.Response) {
	if p == nil {
		return
	}
	r.req.Status, r.req.StatusText = p.Status, cut(p.StatusText, 200)
	ok := p.Status >= 200 && p.Status < 300
	r.req.OK = &ok
	if r.req.ResponseHeaders == nil {
		r.req.ResponseHeaders = headerList(p.Headers)
	}
	if u := redactURL(cut(p.URL, maxURLLength)); u != r.req.URL && u != strings.SplitN(r.req.URL, "#", 2)[0] {
		r.req.ResponseURL = u
	}
	r.req.MimeType, r.req.Protocol = cut(p.MimeType, 200), cut(p.Protocol, 40)
	r.req.FromServiceWorker = p.FromServiceWorker
	switch {
	case p.FromDiskCache:
		r.req.FromCache = "disk"
	case p.FromPrefetchCache:
		r.req.FromCache = "prefetch"
	}
	r.req.TransferBytes = int64(p.EncodedDataLength)
	if g := p.Timing; g != nil {
		span := func(from, to float64) float64 {
			if from < 0 || to < from {
				return 0
			}
			return math.Round((to-from)*1000) / 1000
		}
		r.timing = &RequestTiming{DNSMs: span(g.DNSStart, g.DNSEnd), ConnectMs: span(g.ConnectStart, g.ConnectEnd), TLSMs: span(g.SslStart, g.SslEnd),
			SendMs: span(g.SendStart, g.SendEnd), WaitMs: span(g.SendEnd, g.ReceiveHeadersEnd)}
		if r.started > 0 && g.RequestTime > r.started {
			r.timing.QueuedMs = math.Round((g.RequestTime-r.started)*1e6) / 1000
		}
	}
}

// end notes when the request ended.
func (r *requestEntry) end(at float64, total *float64) {
	r.finished = true
	if at > 0 && r.started > 0 {
		ms := max(int64(math.Round((at-r.started)*1000)), 0)
		r.req.DurationMs = &ms
	}
	if total != nil && *total > 0 {
		r.req.TransferBytes = int64(*total)
	}
}

func (t *Tab) finishedLocked(s *captureSession, e *network.EventLoadingFinished) {
	n := &t.capture.network
	r := n.lastLocked(e.RequestID)
	if r == nil || r.finished {
		return
	}
	r.session = s.id
	r.end(float64(e.Timestamp), &e.EncodedDataLength)
	if r.gone {
		delete(n.byKey, r.key)
		return
	}
	t.keepBodyLocked(r)
}

func (t *Tab) failedLocked(e *network.EventLoadingFailed) {
	n := &t.capture.network
	r := n.lastLocked(e.RequestID)
	if r == nil || r.finished {
		return
	}
	r.end(float64(e.Timestamp), nil)
	r.failed = true
	r.req.Error, r.req.Canceled, r.req.BlockedReason = cut(e.ErrorText, 300), e.Canceled, string(e.BlockedReason)
	if c := e.CorsErrorStatus; c != nil {
		r.req.Error = strings.TrimSpace(r.req.Error + " CORS: " + string(c.CorsError) + " " + cut(c.FailedParameter, 200))
	}
	if r.req.Status == "pending" {
		r.req.Status = 0
	}
	no := false
	r.req.OK = &no
	if r.gone {
		delete(n.byKey, r.key)
	}
}

// The raw headers of a request come apart from it, and before it or after it,
// once for each hop that went over the network. They are told in the order of
// the hops.

// chainLocked is the request that raw headers are of; it may not be told yet.
func (n *networkLog) chainLocked(key network.RequestID) *requestChain {
	if c := n.byKey[key]; c != nil {
		return c
	}
	if n.early == nil || n.early[key] == nil && len(n.early) >= maxEarly {
		n.early = map[network.RequestID]*requestChain{}
	}
	if n.early[key] == nil {
		n.early[key] = &requestChain{}
	}
	return n.early[key]
}

func (n *networkLog) sentHeadersLocked(key network.RequestID, h network.Headers) {
	c := n.chainLocked(key)
	if len(c.sentEarly) < 4 {
		c.sentEarly = append(c.sentEarly, h)
	}
	c.catchUp(n)
}

func (n *networkLog) gotHeadersLocked(key network.RequestID, h network.Headers, status int64) {
	c := n.chainLocked(key)
	// The status of a hop that no response event will come for, such as the
	// script of a shared worker.
	if last := len(c.hops) - 1; last >= 0 && c.gotSeen+len(c.gotLate) == last && c.hops[last].req.Status == "pending" && status > 0 {
		ok := status >= 200 && status < 300
		c.hops[last].req.Status, c.hops[last].req.OK = status, &ok
	}
	if len(c.gotLate) < 4 {
		c.gotLate = append(c.gotLate, h)
	}
	c.catchUp(n)
}

// answered says of a hop whether raw headers come for it.
func (c *requestChain) answered(extra bool, hop int) {
	if extra {
		return
	}
	if c.sentSeen == hop {
		c.sentSeen++
	}
	if c.gotSeen == hop {
		c.gotSeen++
	}
}

// catchUp gives the raw headers to the hops that they are of.
func (c *requestChain) catchUp(n *networkLog) {
	for len(c.sentEarly) > 0 && c.sentSeen < len(c.hops) {
		r := c.hops[c.sentSeen]
		if !r.gone {
			r.sent = headerList(c.sentEarly[0])
			n.sizeLocked(r)
		}
		c.sentEarly, c.sentSeen = c.sentEarly[1:], c.sentSeen+1
	}
	for len(c.gotLate) > 0 && c.gotSeen < len(c.hops) {
		r := c.hops[c.gotSeen]
		if !r.gone {
			r.req.ResponseHeaders = headerList(c.gotLate[0])
			n.sizeLocked(r)
		}
		c.gotLate, c.gotSeen = c.gotLate[1:], c.gotSeen+1
	}
}

// initiator is what caused a request, in a line.
func initiator(i *network.Initiator) string {
	if i == nil {
		return ""
	}
	out := string(i.Type)
	if at := locate(i.Stack); at != nil {
		return fmt.Sprintf("%s %s:%d:%d", out, at.URL, at.Line, at.Column)
	}
	if i.URL != "" {
		out += " " + shownURL(i.URL)
		if i.LineNumber > 0 {
			out += fmt.Sprintf(":%d", int64(i.LineNumber)+1)
		}
	}
	return out
}

func epochMs(seconds float64) int64 {
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e12 {
		return 0
	}
	return int64(math.Round(seconds * 1000))
}
