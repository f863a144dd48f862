package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// NavigateIn is the input of chrome_navigate.
type NavigateIn struct {
	URL           string           `json:"url" minLength:"1" brief:"with scheme" jsonschema:"the address to go to, with its scheme"`
	WaitUntilLoad bool             `json:"waitUntilLoad,omitzero" brief:"else returns when the new document is there" jsonschema:"wait for the load event; otherwise it returns when the new document has replaced the old one"`
	TimeoutMs     int              `json:"timeoutMs,omitzero" min:"1" max:"120000" brief:"default 15000" jsonschema:"how long to wait for that, in milliseconds; 15000 when absent"`
	InitScript    string           `json:"initScript,omitzero" brief:"JavaScript run before the page's own" jsonschema:"JavaScript to run once in the new document, before its own scripts"`
	Snapshot      *SnapshotOptions `json:"snapshot,omitempty" brief:"take one too; options as chrome_snapshot" briefFields:"mode,query" jsonschema:"take a snapshot of the new page in the same call, with these options"`
	op.TabInput
}

// NavigateOut is the result of chrome_navigate: the tab after the milestone,
// or {tab, snapshot} when a snapshot was asked for.
type NavigateOut struct {
	tab       op.Tab
	snapshot  *SnapshotOut
	requested string
	notes     []string
}

// MarshalJSON writes the tab, or {tab, snapshot}.
func (o NavigateOut) MarshalJSON() ([]byte, error) {
	if o.snapshot == nil {
		return json.Marshal(o.tab)
	}
	return json.Marshal(map[string]any{"tab": o.tab, "snapshot": o.snapshot})
}

// Text is contract §1.11's form.
func (o NavigateOut) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Navigated to %s\n", o.tab.URL)
	if o.requested != o.tab.URL {
		fmt.Fprintf(&b, "requested: %s\n", o.requested)
	}
	fmt.Fprintf(&b, "title: %s\n", o.tab.Title)
	fmt.Fprintf(&b, "status: %s\n", o.tab.Status)
	for _, n := range o.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if o.snapshot != nil {
		b.WriteString("\n" + o.snapshot.Text())
	}
	return strings.TrimRight(b.String(), "\n")
}

var opNavigate = op.Define(op.Spec{
	Name: "page.navigate", Tool: "chrome_navigate", Profile: "core", Title: "Navigate",
	Summary: "Go to an address in the tab and wait until the new page is there.",
	Brief:   "Go to an address and wait until the new page is there. Opens your tab when you have none.",
	Doc: "Goes to `url` in the tab. It returns when the new document has replaced the old one, or with `waitUntilLoad` when that document has loaded; " +
		"only the document of this very navigation counts. A change within the same document (a fragment) returns at once. " +
		"A download, a network error and a page that navigates on by itself are told as such. Chrome's own pages are refused.",
	Effect: op.MayMutate, Verb: op.VerbOpen, Opens: "url", Deadline: op.NavigateDeadline, Tab: op.PageTab, Args: []string{"url"},
	Examples: []op.Example{
		{Title: "Open a page", Input: json.RawMessage(`{"url":"{{base}}/navigate/plain.html"}`)},
		{Title: "Open a page, wait until it has loaded, and look at it", Input: json.RawMessage(`{"url":"{{base}}/navigate/plain.html","waitUntilLoad":true,"snapshot":{"mode":"interactive"}}`)},
	},
	Errors: []op.Code{op.NavigationFailed, op.NavigationDownload, op.NavigationInterrupted, op.ProtectedTabURL, op.DialogOpen, op.DeadlineExceeded, op.TabGone},
}, navigate)

// Check refuses what is no address.
func (in NavigateIn) Check() error { return checkAddress("chrome_navigate", in.URL) }

func navigate(ctx context.Context, c *Call, in NavigateIn) (NavigateOut, error) {
	t := c.tab
	if err := checkDriven(in.URL); err != nil {
		return NavigateOut{}, err
	}
	until, timeout := cdpmodel.Commit, 15*time.Second
	if in.WaitUntilLoad {
		until = cdpmodel.Load
	}
	if in.TimeoutMs > 0 {
		timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	}
	ended, notes, err := t.navigate(ctx, c, in.URL, until, timeout, in.InitScript)
	if err != nil {
		return NavigateOut{}, err
	}
	if in.InitScript != "" && ended.SameDocument() {
		notes = append(notes, "initScript was not run: the document is the same")
	}
	tab, err := t.info(ctx)
	if err != nil {
		return NavigateOut{}, fmt.Errorf("reading the tab after it navigated: %w", err)
	}
	out := NavigateOut{tab: tab, requested: in.URL, notes: notes}
	if in.Snapshot != nil {
		snap, err := t.snapshot(ctx, c, *in.Snapshot)
		if err != nil {
			out.notes = append(out.notes, "the page is there, but the snapshot failed: "+err.Error())
		} else {
			out.snapshot = &snap
		}
	}
	return out, nil
}

// checkAddress refuses what is not an absolute URL of a page.
func checkAddress(tool, raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return op.Invalidf("%s: field %q is %q, which is not a URL: %s", tool, "url", cut(raw, 200), err).WithDetail("field", "url")
	}
	switch strings.ToLower(u.Scheme) {
	case "":
		return op.Invalidf("%s: field %q is %q, which has no scheme", tool, "url", cut(raw, 200)).
			WithHint("write https://%s", strings.TrimPrefix(cut(raw, 200), "//")).WithDetail("field", "url")
	case "javascript":
		return op.Invalidf("%s: field %q is a javascript: URL; run code with chrome_evaluate", tool, "url").WithDetail("field", "url")
	}
	return nil
}

// checkDriven refuses the browser's own pages, before anything is sent.
func checkDriven(raw string) error {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil // Chrome will say what it makes of it
	}
	switch strings.ToLower(u.Scheme) {
	case "chrome", "chrome-extension", "devtools", "chrome-untrusted", "chrome-search", "view-source", "edge", "brave":
		return op.Reject(op.ProtectedTabURL, "%s is one of the browser's own pages, which cannot be driven; nothing was done", cut(raw, 200)).
			WithHint("navigate to a web page").WithDetail("url", raw)
	}
	return nil
}

// navigate goes to url in the main frame and waits for the milestone of
// exactly that document.
func (t *Tab) navigate(ctx context.Context, c *Call, to string, until cdpmodel.Milestone, timeout time.Duration, initScript string) (cdpmodel.Navigation, []string, error) {
	id := t.conn.Key().TabID
	f, err := t.mainFrame()
	if err != nil {
		return cdpmodel.Navigation{}, nil, err
	}
	w := t.watchNavigation(f, until)
	defer w.stop()

	// The generation is reserved before the script is registered: a document
	// that commits in between is not ours.
	remove, err := t.addInitScript(ctx, c, initScript)
	if err != nil {
		return cdpmodel.Navigation{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.begin()
	w.start(ctx, t, to)

	ended, dialog, err := w.wait(ctx)
	if rerr := remove(); rerr != nil {
		return ended, nil, errors.Join(err, rerr)
	}
	notes, stays := w.told()
	switch {
	case stays != nil:
		c.noEffect()
		return ended, nil, staysError(t, *stays, "navigate to "+cut(to, 200))
	case dialog != nil && !ended.Committed:
		c.noEffect()
		e := dialogError(t, dialog)
		e.Message = fmt.Sprintf("%s of the present page holds up the navigation of tab %d: %q", dialog.called(), id, cut(dialog.Message, 300))
		return ended, nil, e.WithHint("accept it with chrome_dialog to leave the page, or dismiss it to stay")
	case dialog != nil:
		notes = append(notes, fmt.Sprintf("%s is open: %q; answer it with chrome_dialog", dialog.called(), cut(dialog.Message, 300)))
	case err != nil && ended.Committed:
		return ended, nil, op.Unknown(op.DeadlineExceeded, "tab %d shows the new page, but its load did not end within %s", id, timeout).
			WithHint("go on with a snapshot, or wait for what you need").WithDetail("url", to).WithCause(err)
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return ended, nil, op.Unknown(op.DeadlineExceeded, "tab %d did not get an answer from %s within %s; the navigation may still come through", id, cut(to, 200), timeout).
			WithHint("wait for the page, or navigate elsewhere").WithDetail("url", to).WithCause(err)
	case err != nil:
		return ended, nil, err
	}
	switch ended.Outcome {
	case cdpmodel.NavFailed:
		e := navigationFailed(id, to, ended.ErrorText)
		if e.Kind == op.Rejected {
			c.noEffect()
		}
		return ended, nil, e
	case cdpmodel.NavDownload:
		return ended, nil, op.Unknown(op.NavigationDownload, "%s became a download; tab %d still shows the page before", cut(to, 200), id).
			WithHint("look for the file in the browser's downloads").WithDetail("url", to)
	case cdpmodel.NavInterrupted:
		if !ended.Committed {
			return ended, nil, op.Unknown(op.NavigationInterrupted, "the navigation of tab %d to %s was interrupted: %s", id, cut(to, 200), ended.ErrorText).
				WithHint("take a snapshot to see where the tab is").WithDetail("url", to)
		}
		notes = append(notes, "the page navigated on by itself")
	case cdpmodel.NavDetached:
		return ended, nil, op.Unknown(op.DebuggerDetached, "Chrome debugger detached from tab %d during the navigation: %s", id, ended.ErrorText).
			WithHint("list the tabs, then take a snapshot").WithDetail("url", to)
	}
	c.landed()
	return ended, notes, nil
}

// navigationFailed is the error of a navigation without a page. One that was
// aborted, or that Chrome refuses to an extension, leaves the tab as it was;
// for any other error Chrome puts a page of its own in place of the tab's.
func navigationFailed(id int, to, text string) *op.Error {
	e := op.Reject(op.NavigationFailed, "Chrome navigation failed: %s (tab %d, %s)", text, id, cut(to, 200)).
		WithDetail("url", to).WithDetail("errorText", text)
	aborted := strings.Contains(text, "ERR_ABORTED")
	if !aborted && strings.HasPrefix(text, "net::") {
		e.Kind = op.OutcomeUnknown
		e.Message += "; the tab shows Chrome's page about the error"
	}
	switch {
	case aborted && strings.HasPrefix(strings.ToLower(to), "data:"):
		return e.WithHint("Chrome lets no extension open a data: address in a tab that is there; serve the page over http")
	case aborted:
		return e.WithHint("the server sent no page (such as 204), or the page stopped the navigation; the tab shows what it did before")
	case strings.Contains(text, "ERR_CONNECTION_REFUSED"):
		return e.WithHint("nothing listens there; check host and port")
	case strings.Contains(text, "ERR_NAME_NOT_RESOLVED"):
		return e.WithHint("the host name is not known; check its spelling")
	case strings.Contains(text, "ERR_CERT"):
		return e.WithHint("the site's certificate is not trusted; the user can decide in the browser")
	case strings.Contains(text, "ERR_FILE_NOT_FOUND"):
		return e.WithHint("there is no such file")
	case strings.Contains(text, "local URL"):
		return e.WithHint("allow the extension access to file URLs in chrome://extensions")
	}
	return e.WithHint("check the address, then try again")
}

// navWatch is one navigation being watched: the pure model under a mutex, fed
// by the tab's events.
type navWatch struct {
	mu       sync.Mutex
	nav      cdpmodel.Navigation
	dialog   *Dialog
	answered []AnsweredDialog // by the session's policy
	stays    *AnsweredDialog  // the answer that kept the page
	sendErr  error
	done     chan struct{}
	once     sync.Once
	same     chan struct{} // closed when Chrome has replied that the document stays
	sameOnce sync.Once
	sent     chan struct{} // closed when Page.navigate has returned; nil when it was not called
	unwatch  func()
}

func (t *Tab) watchNavigation(f frameRef, until cdpmodel.Milestone) *navWatch {
	t.mu.Lock()
	t.gen++
	w := &navWatch{nav: cdpmodel.NewNavigation(t.gen-1, f.id, f.loader, until), done: make(chan struct{}), same: make(chan struct{})}
	t.mu.Unlock()
	w.unwatch = t.watch(func(ev op.Event) {
		if w.dialogEvent(ev) {
			return
		}
		if ne, ok := navEvent(ev); ok {
			w.apply(ne)
		}
	})
	return w
}

// dialogGrace is how long the commit of a document may come after the dialog
// that its script opened: the browser tells the one and the page the other.
const dialogGrace = 500 * time.Millisecond

// dialogEvent takes in that a dialog opened, or was answered.
func (w *navWatch) dialogEvent(ev op.Event) bool {
	if ev.Method == page.JavascriptDialogOpening.Method {
		e, ok := decode[page.EventJavascriptDialogOpening](ev)
		if !ok {
			return true
		}
		d := dialogOf(e)
		w.mu.Lock()
		w.dialog = &d
		early := !w.nav.Committed && e.Type != page.DialogTypeBeforeunload
		w.mu.Unlock()
		if early {
			time.AfterFunc(dialogGrace, func() { w.end(func() {}) })
		} else {
			w.end(func() {})
		}
		return true
	}
	a, ok := answeredIn(ev)
	if !ok {
		return false
	}
	w.mu.Lock()
	w.answered = append(w.answered, a) // at most maxAnswers
	w.mu.Unlock()
	if a.Type == string(page.DialogTypeBeforeunload) && a.Answer == dismissDialog {
		w.end(func() { w.stays = &a })
	}
	return true
}

// told are the notes about dialogs that the policy answered, and the answer
// that kept the page, if one did.
func (w *navWatch) told() (notes []string, stays *AnsweredDialog) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range firstN(w.answered, 5) {
		notes = append(notes, a.String())
	}
	if w.nav.Committed {
		return notes, nil
	}
	return notes, w.stays
}

// navEvent translates a CDP event for the model.
func navEvent(ev op.Event) (cdpmodel.NavEvent, bool) {
	if ev.Detached != "" {
		return cdpmodel.NavEvent{Kind: cdpmodel.NavGone, Reason: ev.Detached}, true
	}
	switch ev.Method {
	case page.LifecycleEvent.Method:
		e, ok := decode[page.EventLifecycleEvent](ev)
		return cdpmodel.NavEvent{Kind: cdpmodel.NavLifecycle, Frame: e.FrameID, Loader: e.LoaderID, Name: e.Name}, ok
	case page.FrameNavigated.Method:
		e, ok := decode[page.EventFrameNavigated](ev)
		if !ok || e.Frame == nil {
			return cdpmodel.NavEvent{}, false
		}
		return cdpmodel.NavEvent{Kind: cdpmodel.NavCommitted, Frame: e.Frame.ID, Loader: e.Frame.LoaderID, URL: e.Frame.URL + e.Frame.URLFragment}, true
	case page.NavigatedWithinDocument.Method:
		e, ok := decode[page.EventNavigatedWithinDocument](ev)
		return cdpmodel.NavEvent{Kind: cdpmodel.NavWithin, Frame: e.FrameID, URL: e.URL}, ok
	case downloadWillBegin:
		var e struct {
			FrameID cdp.FrameID `json:"frameId"`
			URL     string      `json:"url"`
		}
		ok := json.Unmarshal(ev.Params, &e) == nil
		return cdpmodel.NavEvent{Kind: cdpmodel.NavDownloadSeen, Frame: e.FrameID, URL: e.URL}, ok
	}
	return cdpmodel.NavEvent{}, false
}

func (w *navWatch) apply(ev cdpmodel.NavEvent) {
	w.mu.Lock()
	w.nav = w.nav.Apply(ev)
	done, same := w.nav.Done() || w.dialog != nil && w.nav.Committed, ev.Kind == cdpmodel.NavReplied && w.nav.SameDocument()
	w.mu.Unlock()
	if same {
		w.sameOnce.Do(func() { close(w.same) })
	}
	if done {
		w.once.Do(func() { close(w.done) })
	}
}

func (w *navWatch) end(set func()) {
	w.mu.Lock()
	set()
	w.mu.Unlock()
	w.once.Do(func() { close(w.done) })
}

// send asks Chrome to navigate. Its reply goes through the model like any
// event, so that it does not matter which comes first.
func (w *navWatch) send(ctx context.Context, t *Tab, to string) {
	defer close(w.sent)
	res, err := call(ctx, t.conn, page.Navigate, page.NavigateParams{URL: to})
	if err != nil {
		w.end(func() { w.sendErr = err })
		return
	}
	w.apply(cdpmodel.NavEvent{Kind: cdpmodel.NavReplied, Frame: res.FrameID, Loader: res.LoaderID, ErrorText: res.ErrorText, Download: res.IsDownload})
}

// wait returns when the navigation has ended, a dialog has come up, or ctx
// has.
func (w *navWatch) wait(ctx context.Context) (cdpmodel.Navigation, *Dialog, error) {
	select {
	case <-w.done:
	case <-w.same:
		// The document stays and its address is told next; Chrome tells it
		// at once or not at all.
		timer := time.NewTimer(500 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-w.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.nav.Done() || w.nav.SameDocument():
		return w.nav, nil, nil
	case w.dialog != nil:
		return w.nav, w.dialog, nil
	case w.sendErr != nil:
		if p, ok := errors.AsType[*op.ProtocolError](w.sendErr); ok && strings.Contains(p.Message, "invalid URL") {
			return w.nav, nil, op.Invalidf("chrome_navigate: Chrome does not take the URL: %s", p.Message)
		}
		return w.nav, nil, w.sendErr
	}
	return w.nav, nil, ctx.Err()
}

// stop ends the watch and waits for the call to Page.navigate, whose context
// the caller has ended.
func (w *navWatch) stop() {
	w.unwatch()
	if w.sent != nil {
		<-w.sent
	}
}

func (w *navWatch) start(ctx context.Context, t *Tab, to string) {
	w.sent = make(chan struct{})
	go w.send(ctx, t, to)
}

// addInitScript registers the script for the next document and returns the
// func that takes it out again. Where that fails, the debugger session is
// reset, which drops every registered script; where that fails too, the tab is
// quarantined and every error is told.
func (t *Tab) addInitScript(ctx context.Context, c *Call, source string) (remove func() error, err error) {
	if source == "" {
		return func() error { return nil }, nil
	}
	res, err := call(ctx, t.conn, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: source})
	if err != nil {
		err = fmt.Errorf("registering the init script: %w", err)
		if _, refused := errors.AsType[*op.ProtocolError](err); refused || errors.Is(err, op.ErrNotDelivered) {
			return nil, err
		}
		// It may be registered, under a name that nobody knows.
		if rerr := t.resetScript(ctx, err); rerr != nil {
			return nil, rerr
		}
		return nil, err
	}
	unpin := t.conn.Pin("init script")
	return func() error {
		defer unpin()
		// The caller's context may have ended; the script must go all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, err := call(ctx, t.conn, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams(res))
		if err == nil {
			return nil
		}
		// Also where the session seems to have ended: that may be as far as
		// this end of it knows, while the script is still there.
		return t.resetScript(ctx, fmt.Errorf("taking out the init script: %w", err))
	}, nil
}

// resetScript resets the debugger because an init script may be left in it.
func (t *Tab) resetScript(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	rerr := t.conn.ResetSession(ctx, cause)
	if rerr == nil {
		return nil
	}
	return op.Unknown(op.DebuggerQuarantined, "an init script may be left in tab %d, where it would run again: %s", t.conn.Key().TabID, plain(rerr)).
		WithHint("close the tab and use another one, or send another command to the tab: it tries the reset first").WithCause(errors.Join(cause, rerr))
}
