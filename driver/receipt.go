package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// Bounds of the wait after an input: a page at rest is told after two quiet
// frames, one that keeps changing after restLimit, a navigation that has begun
// gets commitLimit to show its page, and loadLimit when a snapshot of the new
// page is wanted.
const (
	restLimit   = time.Second
	commitLimit = 250 * time.Millisecond
	loadLimit   = 5 * time.Second
)

// Outcomes of an input.
const (
	outcomeObserved = "effect-observed"
	outcomeNothing  = "input-dispatched-no-observable-effect"
)

// StateChange is one state that an input changed.
type StateChange struct {
	What   string `json:"what" jsonschema:"name, value, checked, expanded, pressed, selected, invalid, current, open, disabled or hidden"`
	Of     string `json:"of" jsonschema:"the element, such as checkbox \"News\""`
	Ref    string `json:"ref,omitempty" jsonschema:"its ref, when a snapshot has shown it"`
	Before string `json:"before"`
	After  string `json:"after"`
	Self   bool   `json:"self,omitempty"` // the target itself
}

// Receipt is the account of what an input changed, as far as it was seen until
// the page came to rest.
type Receipt struct {
	Outcome         string   `json:"outcome" enum:"effect-observed|input-dispatched-no-observable-effect"`
	ObservedChanges []string `json:"observedChanges" jsonschema:"of url, navigation-pending, title, focus, scroll, page, then value, checked and other states, dialog, new-tab, download"`
	URLChanged      bool     `json:"urlChanged"`
	TitleChanged    bool     `json:"titleChanged"`
	FocusChanged    bool     `json:"focusChanged"`
	ScrollChanged   bool     `json:"scrollChanged"`
	PageChanged     bool     `json:"pageChanged"`
	URLBefore       string   `json:"urlBefore"`
	URLAfter        string   `json:"urlAfter"`
	ObservedAfterMs int64    `json:"observedAfterMs" jsonschema:"from the last input event to the observation"`

	Title       string           `json:"title,omitempty" jsonschema:"the new title"`
	Focus       string           `json:"focus,omitempty" jsonschema:"what has the focus now, when that changed"`
	FocusRef    string           `json:"focusRef,omitempty" jsonschema:"its ref, when a snapshot has shown it"`
	Changes     []StateChange    `json:"changes,omitempty" jsonschema:"at most 12"`
	MoreChanges int              `json:"moreChanges,omitempty" jsonschema:"how many more states changed"`
	Frames      []FrameNews      `json:"frames,omitempty" jsonschema:"documents that came to frames of the page, at most 5"`
	Opened      []string         `json:"opened,omitempty" jsonschema:"names of the page's own dialogs that appeared, at most 3"`
	Appeared    []Thing          `json:"appeared,omitempty" jsonschema:"actions that appeared, at most 12, with refs that can be used at once"`
	Vanished    []Thing          `json:"vanished,omitempty" jsonschema:"actions that went, at most 12"`
	More        int              `json:"more,omitempty" jsonschema:"how many more appeared or went"`
	Unlisted    string           `json:"unlisted,omitempty" jsonschema:"why what appeared has no refs"`
	Text        []string         `json:"text,omitempty" jsonschema:"text that appeared, at most 3 pieces"`
	Dialog      *Dialog          `json:"dialog,omitempty" jsonschema:"a dialog that is open now and blocks the tab"`
	Answered    []AnsweredDialog `json:"answered,omitempty" jsonschema:"dialogs that the session's policy answered, at most 5"`
	Navigating  string           `json:"navigating,omitempty" jsonschema:"where a navigation that is still on its way goes"`
	NewTabs     []NewTab         `json:"newTabs,omitempty" jsonschema:"tabs or windows that the page asked for, at most 5"`
	Downloads   []string         `json:"downloads,omitempty" jsonschema:"downloads that began, at most 5"`
	Window      string           `json:"window,omitempty" jsonschema:"what Chrome did to the tab's window because of the press, and what became of it"`
	Busy        bool             `json:"busy,omitempty" jsonschema:"the page was still changing when the wait ended"`
	Crashed     bool             `json:"crashed,omitempty" jsonschema:"the renderer crashed"`
}

// pageNote is a change as its page tells it.
type pageNote struct {
	StateChange
	Num int `json:"num"` // of the element in its document, 0 for none
}

// pageReport is what the page's own watch tells.
type pageReport struct {
	Missed        bool        `json:"missed"`
	URL           string      `json:"url"`
	URLBefore     string      `json:"urlBefore"`
	Title         string      `json:"title"`
	TitleBefore   string      `json:"titleBefore"`
	Token         string      `json:"token"`
	Focus         string      `json:"focus"`
	FocusNum      int         `json:"focusNum"`
	FocusChanged  bool        `json:"focusChanged"`
	ScrollChanged bool        `json:"scrollChanged"`
	Mutations     int         `json:"mutations"`
	Notes         []pageNote  `json:"notes"`
	More          int         `json:"more"` // notes that are not told
	Text          []string    `json:"text"`
	Large         bool        `json:"large"` // too many elements to compare all of them
	Fresh         int         `json:"fresh"` // elements that can be seen now and could not before
	Appeared      []pageThing `json:"appeared"`
	Vanished      []pageThing `json:"vanished"`
	Dialogs       []string    `json:"dialogs"`
	Busy          bool        `json:"busy"`
}

// witness watches a tab while an input is given.
type witness struct {
	t      *Tab
	main   frameRef
	frames []frameRef                   // whose page watch is armed, the main frame first
	had    map[cdp.FrameID]cdp.LoaderID // the documents of the tab when the watch began
	stop   func()
	click  cdp.FrameID // the frame in which a touch is to become a click, "" for none
	quiet  int         // frames in a row without news that end the wait
	window heldWindow  // of the presses
	since  time.Time   // when the watch began
	front  bool        // the session may change what the user sees

	mu        sync.Mutex
	dialog    *Dialog
	detached  string
	crashed   bool
	pending   string                 // URL of a navigation of the main frame that has begun
	leaving   map[cdp.FrameID]string // the same of other frames
	committed string                 // URL of a document that has come since
	loaded    bool                   // its content is there
	within    bool                   // a change of URL within the document
	asked     []string               // addresses of new tabs
	askedAt   time.Time
	downloads []string
	answered  []AnsweredDialog
	lastInput time.Time

	blocked chan struct{} // closed when a dialog opens or the session ends
	once    sync.Once
	guarded []context.CancelCauseFunc // called when a dialog opens
	news    chan struct{}             // one token: something above changed
}

// errDialog says that a dialog opened before an input was answered.
var errDialog = errors.New("a dialog opened")

// witness starts to watch the tab.
func (t *Tab) witness(c *Call) (*witness, error) {
	f, err := t.mainFrame()
	if err != nil {
		return nil, err
	}
	t.renamedTarget() // of an input that ended without a receipt
	now := time.Now()
	w := &witness{t: t, main: f, had: t.hadFrames(), quiet: 2, blocked: make(chan struct{}), news: make(chan struct{}, 1), since: now, lastInput: now, front: c.Session.Foreground}
	w.stop = t.watch(w.event)
	return w, nil
}

// event takes in one event of the tab, on the connection's goroutine.
func (w *witness) event(ev op.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ev.Detached != "" {
		w.detached = ev.Detached
		w.once.Do(func() { close(w.blocked) })
		w.tellLocked()
		return
	}
	w.frameLocked(ev)
	switch ev.Method {
	case page.JavascriptDialogOpening.Method:
		if e, ok := decode[page.EventJavascriptDialogOpening](ev); ok {
			d := dialogOf(e)
			d.Message, d.DefaultPrompt = cut(d.Message, 1000), cut(d.DefaultPrompt, 1000)
			w.dialog = &d
			w.once.Do(func() { close(w.blocked) })
			for _, cancel := range w.guarded {
				cancel(errDialog)
			}
			w.guarded = nil
		}
	case toldOfAnswer:
		if a, ok := answeredIn(ev); ok && len(w.answered) < 5 {
			a.Message, a.DefaultPrompt = cut(a.Message, 1000), cut(a.DefaultPrompt, 1000)
			w.answered = append(w.answered, a)
		}
	case page.FrameRequestedNavigation.Method:
		e, ok := decode[page.EventFrameRequestedNavigation](ev)
		if !ok {
			return
		}
		switch e.Disposition {
		case page.ClientNavigationDispositionNewTab, page.ClientNavigationDispositionNewWindow:
			w.askedLocked(e.URL)
		case page.ClientNavigationDispositionCurrentTab:
			if e.FrameID == w.main.id && !sameDocument(w.main.url, e.URL) {
				w.pending = e.URL
			}
		}
	case page.FrameStartedNavigating.Method:
		e, ok := decode[page.EventFrameStartedNavigating](ev)
		if !ok || e.FrameID != w.main.id {
			return
		}
		switch e.NavigationType {
		case page.FrameStartedNavigatingNavigationTypeSameDocument, page.FrameStartedNavigatingNavigationTypeHistorySameDocument:
			w.pending = ""
		default:
			w.pending = e.URL
		}
	case page.FrameStoppedLoading.Method:
		if e, ok := decode[page.EventFrameStoppedLoading](ev); ok && e.FrameID == w.main.id && w.committed == "" {
			w.pending = "" // it became a download, or nothing
		}
	case page.FrameNavigated.Method:
		if e, ok := decode[page.EventFrameNavigated](ev); ok && e.Frame != nil && e.Frame.ID == w.main.id {
			w.committed, w.pending, w.loaded = e.Frame.URL+e.Frame.URLFragment, "", false
		}
	case page.NavigatedWithinDocument.Method:
		if e, ok := decode[page.EventNavigatedWithinDocument](ev); ok && e.FrameID == w.main.id {
			w.within, w.pending = true, ""
		}
	case page.DomContentEventFired.Method:
		if ev.SessionID == "" {
			w.loaded = true
		}
	case page.WindowOpen.Method:
		if e, ok := decode[page.EventWindowOpen](ev); ok {
			w.askedLocked(e.URL)
		}
	case downloadWillBegin:
		var e struct {
			URL      string `json:"url"`
			Filename string `json:"suggestedFilename"`
		}
		if json.Unmarshal(ev.Params, &e) == nil {
			name := e.Filename
			if name == "" {
				name = e.URL
			}
			w.downloads = appendBounded(w.downloads, name, 5)
			w.pending = ""
		}
	case inspector.TargetCrashed.Method:
		if ev.SessionID != "" {
			return
		}
		w.crashed = true
		w.once.Do(func() { close(w.blocked) })
	default:
		return
	}
	w.tellLocked()
}

func (w *witness) tellLocked() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func appendBounded(list []string, s string, n int) []string {
	s = cut(s, 300)
	if len(list) >= n || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// sameDocument reports whether going from one URL to the other only changes
// the fragment.
func sameDocument(from, to string) bool {
	a, _, _ := strings.Cut(from, "#")
	b, _, has := strings.Cut(to, "#")
	return has && a == b
}

// inputAt notes that an input event is sent now.
func (w *witness) inputAt() {
	w.mu.Lock()
	w.lastInput = time.Now()
	w.mu.Unlock()
}

// over reports whether further input has no page to go to.
func (w *witness) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialog != nil || w.detached != "" || w.crashed || w.committed != ""
}

// fence refuses input that nothing has been sent of yet when another document
// has come since the call looked, to the tab or to the frame that it is for: it
// would go to that one.
func (w *witness) fence(c *Call) error {
	w.mu.Lock()
	committed, where := w.committed, fmt.Sprintf("tab %d", w.t.conn.Key().TabID)
	w.mu.Unlock()
	if committed == "" {
		committed, where = w.replaced(), "a frame of "+where
	}
	if committed == "" {
		return nil
	}
	e := op.Reject(op.DocumentChanged, "another document came to %s before anything was pressed or entered, %s; nothing was sent to it", where, cut(committed, 300)).
		WithHint("take a snapshot and look").WithDetail("url", committed)
	if c.effects.Load() {
		// An element of the one before has been given the focus, or clicked.
		e.Kind = op.OutcomeUnknown
	}
	return e
}

// replaced is the address of what came to an armed frame since it was looked
// up, "" where all are as they were. A frame whose parent's document was
// replaced has gone with it.
func (w *witness) replaced() string {
	for _, f := range w.frames {
		now, ok := w.t.frameByID(f.id)
		switch {
		case !ok:
			return "in place of " + f.url
		case now.loader != f.loader:
			return now.url
		}
	}
	return ""
}

// gone reports whether an error of an input event is only that its page went:
// what the input was for.
func (w *witness) gone(err error) bool {
	if isCode(err, op.DocumentChanged) || isCode(err, op.StaleActionRef) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return err != nil && !errors.Is(err, op.ErrNotDelivered) && w.committed != ""
}

// ended reports whether an error, or what else there is to see, means only that
// the page opened a dialog or went away: no error then, the receipt tells.
func (w *witness) ended(err error) bool {
	if _, refused := errors.AsType[*op.Error](err); refused {
		return false
	}
	return errors.Is(err, errDialog) || w.gone(err) || w.over()
}

// deliver sends one input event. It returns errDialog, without the answer,
// when a dialog opens first: the page takes input in only after it is closed.
func (w *witness) deliver(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- send(ctx) }()
	select {
	case err := <-done:
		return err
	case <-w.blocked:
	}
	w.mu.Lock()
	dialog := w.dialog
	w.mu.Unlock()
	if dialog == nil {
		return <-done // the session has ended: the call says so itself
	}
	cancel()
	if err := <-done; err == nil {
		return nil
	}
	return errDialog
}

// guard returns a context for looking at the page, which a dialog ends: the
// page would not answer before it is closed.
func (w *witness) guard(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dialog != nil {
		cancel(errDialog)
	} else {
		w.guarded = append(w.guarded, cancel)
	}
	return ctx, func() { cancel(nil) }
}

// untouched is the error of a call that a dialog broke off before it pressed
// or entered anything; any other error it returns as it is.
func (w *witness) untouched(err error) error {
	if !errors.Is(err, errDialog) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dialog == nil {
		return err
	}
	return op.Reject(op.DialogOpen, "%s opened on tab %d before anything was pressed: %q", w.dialog.called(), w.t.conn.Key().TabID, cut(w.dialog.Message, 300)).
		WithHint("answer it with chrome_dialog, then try again").
		WithDetail("type", w.dialog.Type).WithDetail("message", w.dialog.Message)
}

// tapClick is how long Chrome may take to make a click from a touch; a page
// that prevents it costs its taps that long.
const tapClick = 400 * time.Millisecond

// clickIn is how long the frame is waited for to be clicked.
func (w *witness) clickIn(f frameRef) time.Duration {
	if w.click != "" && f.id == w.click {
		return tapClick
	}
	return 0
}

// arm has the pages of the frames watch for changes, from now on.
func (w *witness) arm(ctx context.Context, frames ...frameRef) error {
	w.frames = []frameRef{w.main}
	for _, f := range frames {
		if f.id != w.main.id {
			w.frames = append(w.frames, f)
		}
	}
	w.startFrames()
	fns := make([]func() error, len(w.frames))
	for i, f := range w.frames {
		fns[i] = func() error { return w.t.inputFn(ctx, f, "", "arm", nil) }
	}
	return together(fns...)
}

// disarm ends the pages' watch without a report, also for a caller who has
// left. A page that does not answer ends it by itself.
func (w *witness) disarm(ctx context.Context) {
	if w.over() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	for _, f := range w.frames {
		if err := w.t.inputFn(ctx, f, "", "disarm", nil); err != nil {
			w.t.log.Debug("ending a page's watch", "error", err)
		}
	}
	w.frames = nil
}

// settle waits until the page has come to rest and tells what changed. With
// load it waits for the content of a new page too. It never fails: what could
// not be seen is left out.
func (w *witness) settle(ctx context.Context, load bool) Receipt {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	reports := make([]*pageReport, len(w.frames))
	done := make(chan struct{})
	go func() {
		defer close(done)
		fns := make([]func() error, len(w.frames))
		for i, f := range w.frames {
			fns[i] = func() error {
				var r pageReport
				err := w.t.inputFn(ctx, f, "", "settle", &r, restLimit.Milliseconds(), w.quiet, w.clickIn(f).Milliseconds())
				if err == nil && !r.Missed {
					reports[i] = &r
				}
				return err
			}
		}
		if err := together(fns...); err != nil {
			w.t.log.Debug("reading a page's watch", "error", err)
		}
	}()
	w.await(ctx, done, load)
	cancel()
	<-done
	fresh := w.appeared(outer, reports)
	r := w.receipt(reports, fresh)
	r.Window = strings.Join(slices.DeleteFunc([]string{w.window.did, w.putBehind(outer)}, func(s string) bool { return s == "" }), "; ")
	return r
}

// await returns when the page's own reports are there, or when a dialog, the
// end of the session or a new document makes them pointless. Chrome holds back
// what is asked of a page while a navigation of it is on its way: the reports
// come when that became a download or nothing, and are not waited for longer
// than the new page is.
func (w *witness) await(ctx context.Context, done <-chan struct{}, load bool) {
	hard := time.NewTimer(restLimit + 500*time.Millisecond)
	defer hard.Stop()
	var commit <-chan time.Time
	limit, read, waited := commitLimit, false, false
	if load {
		limit = loadLimit
	}
	for {
		w.mu.Lock()
		blocked := w.dialog != nil || w.detached != "" || w.crashed
		pending, committed, loaded := w.pending != "", w.committed != "", w.loaded
		_, frames := w.frameNewsLocked()
		_, tabs := w.newTabsLocked()
		w.mu.Unlock()
		leaving := committed || pending
		switch {
		case blocked, committed && (loaded || !load), leaving && waited, frames && read && waited && !tabs:
			return
		case leaving, frames:
			if commit == nil {
				timer := time.NewTimer(limit)
				defer timer.Stop()
				commit = timer.C
			}
		case read && !tabs:
			return
		}
		var finished <-chan struct{}
		if !read {
			finished = done
		}
		var timeout, tick <-chan time.Time
		if frames || tabs {
			tick = time.After(frameTick)
		}
		if !leaving {
			timeout = hard.C
		}
		select {
		case <-finished:
			read = true
		case <-w.news:
		case <-tick:
		case <-commit:
			waited = true
		case <-timeout:
			return
		case <-ctx.Done():
			return
		}
	}
}

// receipt puts together what the tab and its pages told.
func (w *witness) receipt(reports []*pageReport, fresh freshThings) Receipt {
	known := w.knownOf(reports)
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Receipt{URLBefore: w.main.url, URLAfter: w.main.url, ObservedAfterMs: time.Since(w.lastInput).Milliseconds(),
		Dialog: w.dialog, Answered: w.answered, Navigating: w.pending, Downloads: w.downloads, Crashed: w.crashed, ObservedChanges: []string{}}
	if now, ok := w.t.frameByID(w.main.id); ok {
		r.URLAfter = now.url
	}
	mutations, differs := 0, false
	for i, p := range reports {
		if p == nil {
			continue
		}
		if i == 0 && w.committed == "" {
			r.URLBefore, r.URLAfter = p.URLBefore, p.URL
			r.TitleChanged = p.Title != p.TitleBefore
			if r.TitleChanged {
				r.Title = cut(p.Title, 200)
			}
		}
		if p.FocusChanged {
			r.FocusChanged = true
			if p.Focus != "" && (i > 0 || !strings.HasPrefix(p.Focus, "iframe")) || r.Focus == "" {
				r.Focus, r.FocusRef = p.Focus, known.ref(i, p.FocusNum)
			}
		}
		if i > 0 && p.Title != p.TitleBefore {
			mutations++ // a frame's title is a part of the page
		}
		r.ScrollChanged = r.ScrollChanged || p.ScrollChanged
		mutations += p.Mutations
		r.MoreChanges += p.More
		for _, c := range p.Notes {
			c.Ref = known.ref(i, c.Num)
			r.Changes = append(r.Changes, c.StateChange)
		}
		if !fresh.looked {
			r.Appeared = append(r.Appeared, things(p.Appeared)...)
		}
		r.Vanished = append(r.Vanished, known.vanished(i, p.Vanished)...)
		r.Opened = append(r.Opened, p.Dialogs...)
		if p.Fresh > 0 || len(p.Vanished) > 0 {
			differs = true
		}
		r.Text = append(r.Text, p.Text...)
		r.Busy = r.Busy || p.Busy
	}
	if w.committed != "" { // all of it went with its page
		r.Appeared, r.Vanished, r.Opened = nil, nil, nil
	} else {
		r.Appeared, r.Unlisted = append(r.Appeared, fresh.list...), fresh.why
	}
	news, _ := w.frameNewsLocked()
	r.Frames = firstN(news, 5)
	r.NewTabs, _ = w.newTabsLocked()
	r.MoreChanges += max(0, len(r.Changes)-12)
	r.More = max(0, len(r.Appeared)-maxThings) + max(0, len(r.Vanished)-maxThings)
	r.Changes, r.Appeared, r.Vanished, r.Text, r.Opened = firstN(r.Changes, 12), firstN(r.Appeared, maxThings), firstN(r.Vanished, maxThings), firstN(r.Text, 3), firstN(r.Opened, 3)
	r.URLChanged = r.URLAfter != r.URLBefore || w.committed != ""
	r.PageChanged = mutations > 0 || differs || len(r.Changes) > 0 || w.committed != "" || slices.ContainsFunc(news, func(n FrameNews) bool { return !n.Pending })
	add := func(yes bool, what string) {
		if yes && !slices.Contains(r.ObservedChanges, what) {
			r.ObservedChanges = append(r.ObservedChanges, what)
		}
	}
	add(r.URLChanged, "url")
	add(r.Navigating != "" || slices.ContainsFunc(news, func(n FrameNews) bool { return n.Pending }), "navigation-pending")
	add(r.TitleChanged, "title")
	add(r.FocusChanged, "focus")
	add(r.ScrollChanged, "scroll")
	add(r.PageChanged, "page")
	for _, c := range r.Changes {
		add(true, c.What)
	}
	add(r.Dialog != nil || len(r.Answered) > 0, "dialog")
	add(slices.ContainsFunc(r.NewTabs, func(n NewTab) bool { return !n.Missing }), "new-tab")
	add(len(r.Downloads) > 0, "download")
	r.Outcome = outcomeObserved
	if len(r.ObservedChanges) == 0 && !r.Crashed {
		r.Outcome = outcomeNothing
	}
	r.Changes = append(w.t.renamedTarget(), r.Changes...)
	return r
}

// withoutOwnValue leaves out that the target's own value changed, where the
// result tells it in a better way.
func (r *Receipt) withoutOwnValue() {
	r.Changes = slices.DeleteFunc(r.Changes, func(c StateChange) bool { return c.Self && c.What == "value" })
}

func firstN[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// maxReceipt bounds the text of a receipt, in characters.
const maxReceipt = 1000

// text is the account for a reader: "click completed: url, page" and a line
// for each thing that changed.
func (r Receipt) text(kind string, notes ...string) string {
	lines := []string{kind + " completed"}
	if len(r.ObservedChanges) > 0 {
		lines[0] += ": " + strings.Join(r.ObservedChanges, ", ")
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, n := range notes {
		add("%s", n)
	}
	if r.Window != "" {
		add("window: %s", r.Window)
	}
	if d := r.Dialog; d != nil {
		add("dialog open: %s %q; answer it with chrome_dialog", d.Type, cut(d.Message, 200))
	}
	for _, a := range r.Answered {
		add("dialog: %s", a)
	}
	if r.Crashed {
		add("the page's renderer crashed; reload with chrome_history or navigate to load a page again")
	}
	if r.URLChanged {
		add("url: %s", cut(r.URLAfter, 200))
	}
	if r.Navigating != "" {
		add("navigating to %s; the new page is not there yet", cut(r.Navigating, 200))
	}
	for _, f := range r.Frames {
		if f.Pending {
			add("frame: navigating to %s; its page is not there yet", cut(f.URL, 200))
		} else {
			add("frame: %s", cut(f.URL, 200))
		}
	}
	for _, n := range r.NewTabs {
		add("new tab: %s", n)
	}
	for _, d := range r.Downloads {
		add("download: %s", cut(d, 120))
	}
	if r.TitleChanged {
		add("title: %s", cut(r.Title, 120))
	}
	for _, name := range r.Opened {
		add("dialog of the page: %s", quoteName(name, 80))
	}
	for _, c := range r.Changes {
		add("%s of %s%s: %s → %s", c.What, c.Of, refMark(c.Ref), shownValue(c.Before), shownValue(c.After))
	}
	if r.MoreChanges > 0 {
		add("%d more states changed", r.MoreChanges)
	}
	if r.FocusChanged {
		add("focus: %s%s", shownValue(r.Focus), refMark(r.FocusRef))
	}
	for _, a := range r.Appeared {
		add("appeared: %s", a)
	}
	for _, v := range r.Vanished {
		add("vanished: %s", v)
	}
	if r.More > 0 {
		add("%d more appeared or went", r.More)
	}
	if r.Unlisted != "" {
		add("%s", r.Unlisted)
	}
	for _, s := range r.Text {
		add("text: %s", s)
	}
	if r.Busy {
		add("the page is still changing")
	}
	return boundLines(lines, maxReceipt)
}

func shownValue(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// boundLines joins lines up to max characters and says how many are left out.
func boundLines(lines []string, max int) string {
	size := 0
	for i, l := range lines {
		n := len([]rune(l)) + 1
		if size+n > max-30 && i > 0 {
			return strings.Join(lines[:i], "\n") + fmt.Sprintf("\n(%d more lines in the value)", len(lines)-i)
		}
		size += n
	}
	return strings.Join(lines, "\n")
}

// Verification is what a look at the page after the action gave.
type Verification struct {
	Status   string       `json:"status" enum:"not-requested|observed|unavailable"`
	Snapshot *SnapshotOut `json:"snapshot,omitempty"`
	Reason   string       `json:"reason,omitempty"`
}

// verify takes the snapshot that a call asked for. That it fails never makes
// the action fail.
func (t *Tab) verify(ctx context.Context, c *Call, w *witness, want bool, max int) Verification {
	if !want {
		return Verification{Status: "not-requested"}
	}
	w.mu.Lock()
	dialog, detached, crashed := w.dialog, w.detached, w.crashed
	w.mu.Unlock()
	unavailable := func(format string, args ...any) Verification {
		return Verification{Status: "unavailable", Reason: cut(fmt.Sprintf(format, args...), 1000)}
	}
	switch {
	case dialog != nil:
		return unavailable("a dialog (%s) is open", dialog.Type)
	case detached != "":
		return unavailable("the debugger was detached: %s", detached)
	case crashed:
		return unavailable("the renderer crashed")
	}
	snap, err := t.snapshot(ctx, c, SnapshotOptions{Mode: "interactive", MaxElements: max})
	if err != nil {
		return unavailable("%s", plain(err))
	}
	return Verification{Status: "observed", Snapshot: &snap}
}

// text is contract §1.11's part after the receipt.
func (v Verification) text() string {
	switch v.Status {
	case "observed":
		return "\n\n" + v.Snapshot.Text()
	case "unavailable":
		return "\nPost-action snapshot unavailable; the action result was preserved: " + v.Reason
	}
	return ""
}
