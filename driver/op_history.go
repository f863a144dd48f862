package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// HistoryIn is the input of chrome_history.
type HistoryIn struct {
	Action        string           `json:"action" enum:"back|forward|reload" brief:"" jsonschema:"where to go in the tab's history, or load the page again"`
	BypassCache   bool             `json:"bypassCache,omitzero" brief:"with reload" jsonschema:"with reload: take nothing from the browser's cache"`
	WaitUntilLoad bool             `json:"waitUntilLoad,omitzero" brief:"else returns when the new document is there" jsonschema:"wait for the load event; otherwise it returns when the new document has replaced the old one"`
	TimeoutMs     int              `json:"timeoutMs,omitzero" min:"1" max:"120000" brief:"default 15000" jsonschema:"how long to wait for that, in milliseconds; 15000 when absent"`
	Snapshot      *SnapshotOptions `json:"snapshot,omitempty" brief:"take one too; options as chrome_snapshot" briefFields:"mode,query" jsonschema:"take a snapshot of the page in the same call, with these options"`
	op.TabInput
}

// HistoryOut is the result of chrome_history: the tab afterwards.
type HistoryOut struct {
	op.Tab
	Action       string       `json:"action"`
	Restored     bool         `json:"restored,omitempty" jsonschema:"the page came from the back-forward cache as it was left, its script state and form values included"`
	CanGoBack    bool         `json:"canGoBack"`
	CanGoForward bool         `json:"canGoForward"`
	Snapshot     *SnapshotOut `json:"snapshot,omitempty"`

	notes []string
}

// Text follows the form of a navigation.
func (o HistoryOut) Text() string {
	var b strings.Builder
	did := map[string]string{"back": "Went back to", "forward": "Went forward to", "reload": "Reloaded"}[o.Action]
	fmt.Fprintf(&b, "%s %s\ntitle: %s\nstatus: %s\n", did, o.URL, o.Title, o.Status)
	if o.Restored {
		b.WriteString("restored from the back-forward cache, as it was left\n")
	}
	for _, n := range o.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if o.Snapshot != nil {
		b.WriteString("\n" + o.Snapshot.Text())
	}
	return strings.TrimRight(b.String(), "\n")
}

var opHistory = op.Define(op.Spec{
	Name: "page.history", Tool: "chrome_history", Profile: "tabs", Title: "History",
	Summary: "Go back or forward in the tab's history, or reload the page.",
	Brief:   "Go back or forward, or reload.",
	Doc: "Goes one entry `back` or `forward` in the history of the tab, or loads its page again with `reload` (`bypassCache` takes nothing from the cache). " +
		"It returns when the document of this very step has replaced the old one, or with `waitUntilLoad` when it has loaded. " +
		"A step within the same document and a page from the back-forward cache are there at once. Without an entry in that direction nothing is done (`history-unavailable`).",
	Effect: op.MayMutate, Verb: op.VerbOpen, Deadline: op.NavigateDeadline, Tab: op.PageTab, Args: []string{"action"},
	Examples: []op.Example{
		{Title: "Load the page again", Page: "navigate/plain.html", Input: json.RawMessage(`{"action":"reload","waitUntilLoad":true}`)},
		{Title: "Go back and look", Page: "navigate/plain.html", Input: json.RawMessage(`{"action":"back","snapshot":{"mode":"interactive"}}`)},
	},
	Errors: []op.Code{op.HistoryUnavailable, op.NavigationFailed, op.NavigationDownload, op.NavigationInterrupted, op.ProtectedTabURL, op.DialogOpen, op.DeadlineExceeded},
}, history)

// Check refuses what the schema cannot.
func (in HistoryIn) Check() error {
	if in.BypassCache && in.Action != "reload" {
		return op.Invalidf("chrome_history: field %q goes only with reload", "bypassCache").WithDetail("field", "bypassCache")
	}
	return nil
}

func history(ctx context.Context, c *Call, in HistoryIn) (HistoryOut, error) {
	t := c.tab
	h := &historyStep{action: in.Action, timeout: 15 * time.Second}
	until := cdpmodel.Commit
	if in.WaitUntilLoad {
		until = cdpmodel.Load
	}
	if in.TimeoutMs > 0 {
		h.timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	}
	if in.Action == "reload" {
		h.to = t.url()
		h.send = func(ctx context.Context) error {
			_, err := call(ctx, t.conn, page.Reload, page.ReloadParams{IgnoreCache: &in.BypassCache})
			return err
		}
	} else {
		entry, err := t.historyEntry(ctx, in.Action)
		if err != nil {
			return HistoryOut{}, err
		}
		h.to = entry.URL
		h.send = func(ctx context.Context) error {
			_, err := call(ctx, t.conn, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: entry.ID})
			return err
		}
	}
	out := HistoryOut{Action: in.Action}
	var err error
	if out.notes, out.Restored, err = t.step(ctx, c, h, until); err != nil {
		return HistoryOut{}, err
	}
	if out.Tab, err = t.info(ctx); err != nil {
		return HistoryOut{}, fmt.Errorf("reading the tab after it went %s: %w", in.Action, err)
	}
	if res, err := call(ctx, t.conn, page.GetNavigationHistory, cdp.Empty{}); err == nil {
		out.CanGoBack, out.CanGoForward = res.CurrentIndex > 0, int(res.CurrentIndex)+1 < len(res.Entries)
	}
	if in.Snapshot != nil {
		snap, err := t.snapshot(ctx, c, *in.Snapshot)
		if err != nil {
			out.notes = append(out.notes, "the page is there, but the snapshot failed: "+err.Error())
		} else {
			out.Snapshot = &snap
		}
	}
	return out, nil
}

// historyEntry is the entry before or after the one that the tab shows.
func (t *Tab) historyEntry(ctx context.Context, action string) (*page.NavigationEntry, error) {
	id := t.conn.Key().TabID
	res, err := call(ctx, t.conn, page.GetNavigationHistory, cdp.Empty{})
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	at := int(res.CurrentIndex) - 1
	if action == "forward" {
		at = int(res.CurrentIndex) + 1
	}
	if at < 0 || at >= len(res.Entries) {
		return nil, op.Reject(op.HistoryUnavailable, "tab %d cannot go %s: it shows the %s page of its history; nothing was done", id, action,
			map[string]string{"back": "first", "forward": "last"}[action]).WithHint("navigate to the page that you want").WithDetail("action", action)
	}
	e := res.Entries[at]
	if err := checkDriven(e.URL); err != nil {
		return nil, op.Reject(op.ProtectedTabURL, "tab %d would go %s to %s, one of the browser's own pages, which cannot be driven; nothing was done", id, action, cut(e.URL, 200)).
			WithHint("navigate to a web page").WithDetail("url", e.URL)
	}
	return e, nil
}

// historyStep is one step in a tab's history, or a reload.
type historyStep struct {
	action  string
	to      string // the address, for messages
	timeout time.Duration
	send    func(context.Context) error

	// Guarded by the mutex of its watch.
	restored bool // the document came from the back-forward cache
	failed   bool // the document is Chrome's page about an error
	stopped  bool // the frame has stopped loading without a document
}

// step makes a step in the history and waits for the milestone of exactly its
// document.
//
// Chrome's reply says nothing of the document. The event that the main frame
// starts to navigate, after the step was sent, names its loader.
func (t *Tab) step(ctx context.Context, c *Call, h *historyStep, until cdpmodel.Milestone) (notes []string, restored bool, err error) {
	id := t.conn.Key().TabID
	f, err := t.mainFrame()
	if err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	t.gen++
	w := &navWatch{nav: cdpmodel.NewNavigation(t.gen-1, f.id, f.loader, until), done: make(chan struct{}), same: make(chan struct{})}
	t.mu.Unlock()
	w.unwatch = t.watch(func(ev op.Event) { h.event(w, f.id, ev) })
	defer w.stop()

	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	c.begin()
	w.sent = make(chan struct{})
	go func() {
		defer close(w.sent)
		if err := h.send(ctx); err != nil {
			w.end(func() { w.sendErr = err })
		}
	}()
	ended, dialog, err := w.wait(ctx)
	w.mu.Lock()
	restored = h.restored
	failed := h.failed
	w.mu.Unlock()
	notes, stays := w.told()
	switch {
	case stays != nil:
		c.noEffect()
		return nil, false, staysError(t, *stays, map[string]string{"reload": "reload", "back": "go back", "forward": "go forward"}[h.action])
	case dialog != nil && !ended.Committed:
		c.noEffect()
		e := dialogError(t, dialog)
		e.Message = fmt.Sprintf("%s of the present page holds up going %s on tab %d: %q", dialog.called(), h.action, id, cut(dialog.Message, 300))
		return nil, false, e.WithHint("accept it with chrome_dialog to leave the page, or dismiss it to stay")
	case dialog != nil:
		notes = append(notes, fmt.Sprintf("%s is open: %q; answer it with chrome_dialog", dialog.called(), cut(dialog.Message, 300)))
	case err != nil && ended.Committed:
		return nil, false, op.Unknown(op.DeadlineExceeded, "tab %d shows the page, but its load did not end within %s", id, h.timeout).
			WithHint("go on with a snapshot, or wait for what you need").WithDetail("url", h.to).WithCause(err)
	case errors.Is(err, errNothingCame):
		return nil, false, op.Unknown(op.NavigationFailed, "tab %d got no page from %s: the server sent none (such as 204), or the load was stopped; it shows what it did before", id, cut(h.to, 200)).
			WithHint("take a snapshot to see how the page stands").WithDetail("url", h.to)
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return nil, false, op.Unknown(op.DeadlineExceeded, "tab %d did not get an answer from %s within %s; it may still come through", id, cut(h.to, 200), h.timeout).
			WithHint("wait for the page, or navigate elsewhere").WithDetail("url", h.to).WithCause(err)
	case err != nil:
		return nil, false, err
	}
	switch {
	case ended.Outcome == cdpmodel.NavDownload:
		return nil, false, op.Unknown(op.NavigationDownload, "%s became a download; tab %d still shows the page before", cut(h.to, 200), id).
			WithHint("look for the file in the browser's downloads").WithDetail("url", h.to)
	case ended.Outcome == cdpmodel.NavInterrupted && !ended.Committed:
		return nil, false, op.Unknown(op.NavigationInterrupted, "going %s on tab %d to %s was interrupted: %s", h.action, id, cut(h.to, 200), ended.ErrorText).
			WithHint("take a snapshot to see where the tab is").WithDetail("url", h.to)
	case ended.Outcome == cdpmodel.NavInterrupted:
		notes = append(notes, "the page navigated on by itself")
	case ended.Outcome == cdpmodel.NavDetached:
		return nil, false, op.Unknown(op.DebuggerDetached, "Chrome debugger detached from tab %d while it went %s: %s", id, h.action, ended.ErrorText).
			WithHint("list the tabs, then take a snapshot").WithDetail("url", h.to)
	case failed:
		return nil, false, op.Unknown(op.NavigationFailed, "tab %d is at %s in its history now, but shows Chrome's page about an error: the page could not be loaded", id, cut(h.to, 200)).
			WithHint("check that the server runs, then reload").WithDetail("url", h.to)
	}
	c.landed()
	return notes, restored, nil
}

// errNothingCame says that a navigation ended without a document.
var errNothingCame = errors.New("the frame stopped loading and no document came")

// restoreLimit is how long the document of a step may come after Chrome has
// said that the frame does not load any more, as it says first when the
// document comes from the back-forward cache.
const restoreLimit = 500 * time.Millisecond

// event takes in an event of the tab while the step is under way.
func (h *historyStep) event(w *navWatch, main cdp.FrameID, ev op.Event) {
	if w.dialogEvent(ev) {
		return
	}
	switch ev.Method {
	case page.FrameStartedNavigating.Method:
		e, ok := decode[page.EventFrameStartedNavigating](ev)
		if !ok || e.FrameID != main {
			return
		}
		reply := cdpmodel.NavEvent{Kind: cdpmodel.NavReplied, Frame: main, Loader: e.LoaderID}
		switch e.NavigationType {
		case page.FrameStartedNavigatingNavigationTypeHistorySameDocument:
			reply.Loader = "" // the document stays
		case page.FrameStartedNavigatingNavigationTypeSameDocument, page.FrameStartedNavigatingNavigationTypeDifferentDocument:
			return // the page's own
		}
		w.apply(reply)
		return
	case page.FrameStoppedLoading.Method:
		if e, ok := decode[page.EventFrameStoppedLoading](ev); ok && e.FrameID == main {
			w.mu.Lock()
			lost := w.nav.Replied && !w.nav.Committed && !w.nav.SameDocument() && !h.stopped
			h.stopped = h.stopped || lost
			w.mu.Unlock()
			if lost {
				time.AfterFunc(restoreLimit, func() { h.nothing(w) })
			}
		}
		return
	case page.FrameNavigated.Method:
		e, ok := decode[page.EventFrameNavigated](ev)
		if !ok || e.Frame == nil || e.Frame.ID != main {
			return
		}
		w.mu.Lock()
		loader := w.nav.Loader
		if e.Frame.LoaderID == loader {
			h.failed = e.Frame.UnreachableURL != ""
		}
		h.restored = h.restored || e.Type == page.NavigationTypeBackForwardCacheRestore
		w.mu.Unlock()
		if e.Type == page.NavigationTypeBackForwardCacheRestore {
			// The document keeps the loader that it had. It has loaded long
			// ago.
			w.apply(cdpmodel.NavEvent{Kind: cdpmodel.NavCommitted, Frame: main, Loader: loader, URL: e.Frame.URL + e.Frame.URLFragment})
			w.apply(cdpmodel.NavEvent{Kind: cdpmodel.NavLifecycle, Frame: main, Loader: loader, Name: "load"})
			return
		}
	}
	if ne, ok := navEvent(ev); ok {
		w.apply(ne)
	}
}

// nothing ends the wait for a document that did not come.
func (h *historyStep) nothing(w *navWatch) {
	w.mu.Lock()
	here := w.nav.Committed || w.nav.Done()
	w.mu.Unlock()
	if !here {
		w.end(func() { w.sendErr = errNothingCame })
	}
}
