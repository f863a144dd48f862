package driver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

// quietFor is how long no request may be in flight before the network counts
// as idle. Chrome's own milestone of a document has the same.
const quietFor = 500 * time.Millisecond

// netWaits counts the waits for an idle network in a tab: Chrome tells of
// requests while there is one, or while the network is captured.
// Tab.mu guards it.
type netWaits struct {
	n    int
	turn chan struct{} // a token for who asks Chrome to tell, or to stop
}

// idleWatch follows the requests of the tab's frames while one wait lasts.
//
// Chrome's milestone alone is no answer: a document reaches it once, and what
// it asks for later does not take it back. Chrome names no request that was
// under way before it was asked to tell; the capture knows those if it is on.
type idleWatch struct {
	t      *Tab
	events func() // ends the events

	mu        sync.Mutex
	listening bool
	under     listenState
	open      map[network.RequestID]openRequest
	since     time.Time // when a request last ended, or the watch began
	streams   bool      // the page has an event source: Chrome never calls its document idle
}

// openRequest is a request that has not ended.
type openRequest struct {
	session string
	frame   cdp.FrameID // "" where it is not known
	loader  cdp.LoaderID
	url     string
}

// listenState is what Chrome's telling depends on.
type listenState struct {
	attachment int
	captured   bool
}

// watchIdle begins to follow the tab's requests.
func (t *Tab) watchIdle() *idleWatch {
	w := &idleWatch{t: t, open: map[network.RequestID]openRequest{}}
	t.mu.Lock()
	t.netWaits.n++
	t.mu.Unlock()
	w.events = t.watch(w.take)
	return w
}

// stop ends the watch. Chrome stops telling when nobody else listens.
func (w *idleWatch) stop() {
	w.events()
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.netWaits.n--; t.netWaits.n == 0 && !t.capture.wantNetwork {
		t.enqueueLocked(t.stopTelling)
	}
}

func (t *Tab) stopTelling(ctx context.Context) {
	t.setup.Lock() // a capture may begin or end
	defer t.setup.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second) // other commands may wait for the setup
	defer cancel()
	done, err := t.takeTurn(ctx, &t.netWaits.turn)
	if err != nil {
		return
	}
	defer done()
	t.mu.Lock()
	list := t.frameSessionsLocked()
	needed := t.netWaits.n > 0 || t.capture.wantNetwork || t.detached != ""
	t.mu.Unlock()
	if needed {
		return
	}
	var fns []func() error
	for _, s := range list {
		fns = append(fns, func() error { _, err := call(ctx, s, network.Disable, cdp.Empty{}); return err })
	}
	if err := together(fns...); err != nil {
		t.log.Debug("turning the network's events off", "error", err)
	}
}

// frameSessionsLocked are the tab's own session, first, and those of its
// frames in other processes.
func (t *Tab) frameSessionsLocked() []cdp.Session {
	list := []cdp.Session{t.conn}
	for _, c := range t.children {
		if !c.crashed {
			list = append(list, c.session)
		}
	}
	return list
}

// listen has Chrome tell of requests where it does not. When that was lost
// meanwhile, what is in flight is not known and the quiet begins anew.
func (w *idleWatch) listen(ctx context.Context) error {
	t := w.t
	done, err := t.takeTurn(ctx, &t.netWaits.turn)
	if err != nil {
		return err
	}
	defer done()
	t.mu.Lock()
	now := listenState{t.attached, t.capture.wantNetwork}
	list := t.frameSessionsLocked()
	w.mu.Lock()
	same := w.listening && w.under == now
	if !same {
		w.listening, w.under = false, now
		if now.captured {
			w.open, w.streams = t.underWayLocked()
		} else {
			clear(w.open)
		}
	}
	w.mu.Unlock()
	t.mu.Unlock()
	if same {
		return nil
	}
	if !now.captured {
		fns := []func() error{func() error { return enableNetwork(ctx, list[0]) }}
		for _, s := range list[1:] {
			fns = append(fns, func() error { w.tell(ctx, s); return nil })
		}
		if err := together(fns...); err != nil {
			return fmt.Errorf("listening to the network: %w", err)
		}
	}
	w.mu.Lock()
	w.listening, w.since = true, time.Now()
	w.mu.Unlock()
	return nil
}

// tell has a frame of another process tell of its requests. One that does not
// must not keep the rest from being waited for.
func (w *idleWatch) tell(ctx context.Context, s cdp.Session) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := enableNetwork(ctx, s); err != nil {
		w.t.log.Debug("listening to a frame's network", "error", err)
	}
}

// underWayLocked are the requests of the page and its frames that the capture
// has seen begin and not end, and whether event sources are among them.
func (t *Tab) underWayLocked() (open map[network.RequestID]openRequest, streams bool) {
	open = map[network.RequestID]openRequest{}
	f := t.frames[t.main]
	for id, c := range t.capture.network.byKey {
		r := c.hops[len(c.hops)-1]
		s := t.capture.sessions[r.session]
		if r.finished || s == nil || s.worker() || f == nil || r.nav == "" && r.doc != f.loader {
			continue
		}
		if endless(r.req.Type) {
			streams = streams || strings.EqualFold(r.req.Type, "eventsource")
			continue
		}
		o := openRequest{session: r.session, frame: t.main, loader: r.doc, url: r.req.URL}
		if r.nav != "" {
			o.loader = r.nav
		}
		if r.req.FrameURL != "" {
			o.frame, o.loader = "", "" // the capture does not keep which one
		}
		open[id] = o
	}
	return open, streams
}

// endless reports whether requests of the type stay open as long as they are
// of use.
func endless(kind string) bool {
	return strings.EqualFold(kind, "eventsource") || strings.EqualFold(kind, "websocket") || strings.EqualFold(kind, "webtransport")
}

// take takes in an event.
func (w *idleWatch) take(ev op.Event) {
	var begun *openRequest
	var id network.RequestID
	var over func(network.RequestID, openRequest) bool
	t := w.t
	switch ev.Method {
	case network.RequestWillBeSent.Method:
		e, ok := decode[network.EventRequestWillBeSent](ev)
		if !ok || e.Request == nil || strings.HasPrefix(e.Request.URL, "data:") {
			return
		}
		if endless(string(e.Type)) {
			w.streaming(ev.SessionID)
			return
		}
		id, begun = e.RequestID, &openRequest{ev.SessionID, e.FrameID, e.LoaderID, e.Request.URL}
	case network.ResponseReceived.Method:
		e, ok := decode[network.EventResponseReceived](ev)
		if !ok || e.Response == nil || strings.HasPrefix(e.Response.URL, "data:") {
			return
		}
		id = e.RequestID
		if endless(string(e.Type)) {
			w.streaming(ev.SessionID)
			return
		}
		// It may have been under way before Chrome was asked to tell.
		begun = &openRequest{ev.SessionID, e.FrameID, e.LoaderID, e.Response.URL}
	case network.EventSourceMessageReceived.Method:
		w.streaming(ev.SessionID)
		return
	case network.LoadingFinished.Method:
		e, ok := decode[network.EventLoadingFinished](ev)
		if !ok {
			return
		}
		over = func(r network.RequestID, _ openRequest) bool { return r == e.RequestID }
	case network.LoadingFailed.Method:
		e, ok := decode[network.EventLoadingFailed](ev)
		if !ok {
			return
		}
		over = func(r network.RequestID, _ openRequest) bool { return r == e.RequestID }
	case page.FrameNavigated.Method:
		// What the old document asked for ends with it, and not all of it is
		// told.
		e, ok := decode[page.EventFrameNavigated](ev)
		if !ok || e.Frame == nil {
			return
		}
		if e.Frame.ParentID == "" && ev.SessionID == "" {
			w.mu.Lock()
			w.streams = false
			w.mu.Unlock()
		}
		over = func(_ network.RequestID, r openRequest) bool {
			return r.frame == e.Frame.ID && r.loader != e.Frame.LoaderID || r.frame == "" && e.Frame.ParentID == "" && ev.SessionID == ""
		}
	case page.FrameDetached.Method:
		e, ok := decode[page.EventFrameDetached](ev)
		if !ok {
			return
		}
		over = func(_ network.RequestID, r openRequest) bool { return r.frame == e.FrameID }
	case target.DetachedFromTarget.Method:
		e, ok := decode[target.EventDetachedFromTarget](ev)
		if !ok {
			return
		}
		over = func(_ network.RequestID, r openRequest) bool { return r.session == string(e.SessionID) }
	case target.AttachedToTarget.Method:
		e, ok := decode[target.EventAttachedToTarget](ev)
		if !ok || e.TargetInfo == nil {
			return
		}
		// The document of a frame that goes to another process, and the
		// script of a worker, are told to the end by a session of their own.
		if e.TargetInfo.Type == "iframe" {
			over = func(_ network.RequestID, r openRequest) bool { return r.frame == cdp.FrameID(e.TargetInfo.TargetID) }
			w.mu.Lock()
			captured := w.under.captured // then it is turned on there, too
			w.mu.Unlock()
			if !captured {
				s := t.conn.Child(string(e.SessionID))
				t.mu.Lock()
				t.enqueueLocked(func(ctx context.Context) { w.tell(ctx, s) })
				t.mu.Unlock()
			}
			break
		}
		over = func(_ network.RequestID, r openRequest) bool { return r.url == e.TargetInfo.URL }
	default:
		return
	}
	if begun != nil && !w.ofFrame(ev.SessionID) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if begun != nil {
		w.open[id] = *begun
		return
	}
	ended := strings.HasPrefix(ev.Method, "Network.")
	for id, r := range w.open {
		if over(id, r) {
			delete(w.open, id)
			ended = true
		}
	}
	if ended {
		w.since = time.Now()
	}
}

// ofFrame reports whether the session is one of the page or a frame, not of a
// worker.
func (w *idleWatch) ofFrame(session string) bool {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	return session == "" || w.t.children[session] != nil
}

// streaming notes an event source.
func (w *idleWatch) streaming(session string) {
	if !w.ofFrame(session) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = true
}

// idle reports whether the network is idle, how many requests are in flight
// that are known, and after what time it is worth looking again, 0 for an
// event.
func (w *idleWatch) idle() (yes bool, open int, again time.Duration) {
	reached, loaded := w.t.lifecycle("networkIdle"), w.t.lifecycle("load")
	w.mu.Lock()
	defer w.mu.Unlock()
	reached = reached || loaded && w.streams
	if !w.listening || len(w.open) > 0 || !reached {
		return false, len(w.open), 0
	}
	if left := quietFor - time.Since(w.since); left > 0 {
		return false, 0, left
	}
	return true, 0, 0
}

// reason says why the network is not idle though no request is in flight that
// is known, "" otherwise.
func (w *idleWatch) reason() string {
	if yes, open, again := w.idle(); yes || open > 0 || again > 0 {
		return ""
	}
	return "Chrome has not called the document idle yet: a request or event source from before the wait may be open; they are known once the tab's network is captured, from the first list of its requests on"
}
