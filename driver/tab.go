package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// callBound is how long one CDP call may take where the operation gives it no
// shorter bound: a call to a frozen tab can hang for ever.
const callBound = 30 * time.Second

// setupBound bounds what a tab needs before its first operation.
const setupBound = 10 * time.Second

// Tab is what the driver knows of one tab, kept between calls.
type Tab struct {
	conn Conn
	log  *slog.Logger

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	stop   func()        // ends Listen
	done   chan struct{} // closed when the loop has ended
	wake   chan struct{} // one token: the loop has tasks
	setup  sync.Mutex    // held by the one ready at a time

	mu        sync.Mutex
	tasks     []func(context.Context) // for the loop; at most maxTasks
	running   int                     // tasks under way
	idle      chan struct{}           // closed when no task is left or under way; nil when idle
	attached  int                     // the attachment that setup was done for
	detached  string                  // reason of the last detach since that setup
	main      cdp.FrameID
	frames    map[cdp.FrameID]*frame
	children  map[string]*childSession // by session id
	dialog    *Dialog
	watchers  map[int]func(op.Event)
	nextWatch int
	unknown   int           // events that nothing knows, for status
	leased    bool          // the frame lease is on
	holders   int           // of the view; -1 is one that has it alone. See holdView
	free      chan struct{} // closed when a holder leaves; nil when nobody waits
	crashed   bool
	downloads int // downloads begun, for receipts
	gen       cdpmodel.Generation

	observed observations        // what snapshots showed; see refs.go
	input    inputState          // where the pointer is; see input.go
	policy   func() DialogPolicy // of the session that used the tab last; see dialogs.go
	answers  int                 // dialogs that the policy answered during this command
	closed   int                 // dialogs that have closed
	answered []AnsweredDialog    // the last of them

	events    sync.Mutex     // held while an event is taken in
	answering sync.WaitGroup // answers to dialogs that are on their way
	shots     sync.WaitGroup // pictures that are under way; see camera.go
	capture   capture        // console and network; see capture.go
	netWaits  netWaits       // waits for an idle network; see netidle.go

	told  map[string]*toldWalk // walks that are under way, by id; see observe_parts.go
	walks int

	pins map[string]func() // what keeps the debugger attached, with how to end it
}

// maxRunning is how many tasks run at once.
const maxRunning = 8

// maxTasks bounds what events may ask of the loop; a page that makes more
// frames at once is read without the rest, and the snapshot says so.
const maxTasks = 1024

// Dialog is a JavaScript dialog that is open on the tab.
type Dialog struct {
	Type          string `json:"type"` // alert, confirm, prompt or beforeunload
	Message       string `json:"message"`
	DefaultPrompt string `json:"defaultPrompt,omitempty"`
	URL           string `json:"url"`
}

// called is the dialog in a sentence: "an alert dialog".
func (d Dialog) called() string {
	if d.Type == "alert" {
		return "an alert dialog"
	}
	return "a " + d.Type + " dialog"
}

// childSession is a session of a child target: a cross-origin frame.
type childSession struct {
	id      string
	parent  string // session it was announced on
	frameID cdp.FrameID
	session cdp.Session
	crashed bool // its process is gone, until its frame navigates
}

func newTab(conn Conn, log *slog.Logger) *Tab {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tab{conn: conn, log: log.With("tab", conn.Key().TabID), ctx: ctx, cancel: cancel,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		frames: map[cdp.FrameID]*frame{}, children: map[string]*childSession{}, watchers: map[int]func(op.Event){},
		pins: map[string]func(){}}
	t.stop = conn.Listen(t.event)
	go t.loop()
	return t
}

// close ends the loop and waits for it. It undoes nothing in the tab.
func (t *Tab) close() {
	t.stop()
	t.cancel()
	t.closeCapture()
	// An event on its way may start an answer until here.
	t.events.Lock()
	//lint:ignore SA2001 the lock is waited for, not held
	t.events.Unlock()
	t.answering.Wait()
	t.shots.Wait()
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	for what := range t.pins {
		t.pinLocked(what, false)
	}
}

// pinLocked says whether something depends on the debugger that no command
// shows: it must not be given back while nobody uses the tab.
func (t *Tab) pinLocked(what string, on bool) {
	unpin := t.pins[what]
	switch {
	case on && unpin == nil:
		t.pins[what] = t.conn.Pin(what)
	case !on && unpin != nil:
		delete(t.pins, what)
		unpin()
	}
}

// loop does what events made necessary, several tasks at a time: a frame that
// does not answer must not hold up the others. It ends when its tasks have.
func (t *Tab) loop() {
	defer close(t.done)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	lanes := make(chan struct{}, maxRunning)
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.wake:
		}
		for {
			t.mu.Lock()
			if len(t.tasks) == 0 {
				t.quietLocked()
				t.mu.Unlock()
				break
			}
			task := t.tasks[0]
			t.tasks = t.tasks[1:]
			t.running++
			t.mu.Unlock()
			select {
			case lanes <- struct{}{}:
			case <-t.ctx.Done():
				return
			}
			tasks.Go(func() {
				ctx, cancel := context.WithTimeout(t.ctx, setupBound)
				task(ctx)
				cancel()
				<-lanes
				t.mu.Lock()
				t.running--
				t.quietLocked()
				t.mu.Unlock()
			})
		}
	}
}

// quietLocked tells those who wait that nothing is left to do.
func (t *Tab) quietLocked() {
	if t.idle != nil && len(t.tasks) == 0 && t.running == 0 {
		close(t.idle)
		t.idle = nil
	}
}

// enqueueLocked gives the loop a task.
func (t *Tab) enqueueLocked(task func(context.Context)) {
	if len(t.tasks) >= maxTasks {
		t.log.Debug("dropping a frame's setup", "tasks", len(t.tasks))
		return
	}
	t.tasks = append(t.tasks, task)
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// settled waits until the loop has done what the events so far asked for, or
// until the bound: a frame that does not answer must not hold up the rest.
func (t *Tab) settled(ctx context.Context, bound time.Duration) {
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ready attaches the debugger where needed and enables what every operation
// relies on. With a dialog open it does nothing that would hang.
func (t *Tab) ready(ctx context.Context, operation string) error {
	t.setup.Lock()
	defer t.setup.Unlock()
	if err := t.conn.Attach(ctx); err != nil {
		return err
	}
	if err := t.refuseDialog(operation); err != nil {
		return err
	}
	n := t.conn.Attachment()
	t.mu.Lock()
	fresh := t.attached != n || t.detached != ""
	crashed := t.crashed
	t.mu.Unlock()
	if crashed && operation != "page.navigate" && operation != "page.history" {
		return op.Reject(op.RendererCrashed, "the renderer of tab %d has crashed; nothing was done", t.conn.Key().TabID).
			WithHint("reload the page with chrome_history, or navigate elsewhere: both start another renderer")
	}
	if !fresh {
		return nil
	}
	return t.enable(ctx, n)
}

// enable turns on what the driver listens to. It is done anew for each
// attachment.
func (t *Tab) enable(ctx context.Context, attachment int) error {
	t.mu.Lock()
	t.frames, t.children = map[cdp.FrameID]*frame{}, map[string]*childSession{}
	t.leased, t.detached, t.crashed = false, "", false
	t.captureResetLocked()
	t.mu.Unlock()
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, setupBound)
	defer cancel()
	if err := t.enableSession(ctx, t.conn, ""); err != nil {
		// A caller who had less time than that has seen no dialog.
		if errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil {
			return op.Reject(op.DialogOpen, "tab %d does not answer: a dialog that was open before it was attached, or a busy page, blocks it; nothing was done", t.conn.Key().TabID).
				WithHint("close the dialog in the browser, or wait for the page").WithCause(err)
		}
		return fmt.Errorf("preparing tab %d: %w", t.conn.Key().TabID, err)
	}
	t.captureAttached(ctx)
	t.mu.Lock()
	t.attached = attachment
	t.mu.Unlock()
	t.settled(ctx, 500*time.Millisecond)
	return nil
}

// enableSession enables one session, the tab's own ("") or a child's, and
// reads its frames. The calls are sent together: the relay pipelines them.
func (t *Tab) enableSession(ctx context.Context, s cdp.Session, id string) error {
	yes := true
	t.mu.Lock()
	hold := t.capture.wantNetwork // new frames wait until they are captured
	t.mu.Unlock()
	var tree page.GetFrameTreeResult
	err := together(
		func() error { _, err := call(ctx, s, page.Enable, page.EnableParams{}); return err },
		func() error {
			_, err := call(ctx, s, page.SetLifecycleEventsEnabled, page.SetLifecycleEventsEnabledParams{Enabled: true})
			return err
		},
		func() error {
			_, err := call(ctx, s, target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true, Flatten: &yes, WaitForDebuggerOnStart: hold})
			return err
		},
		func() (err error) { tree, err = call(ctx, s, page.GetFrameTree, cdp.Empty{}); return err },
	)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.addTreeLocked(tree.FrameTree, id)
	leased := t.leased && id != ""
	t.mu.Unlock()
	if leased {
		t.focusFrame(ctx, s, true)
	}
	return nil
}

// together runs the functions at once and returns their errors joined.
func together(fns ...func() error) error {
	errs := make([]error, len(fns))
	var wg sync.WaitGroup
	for i, fn := range fns {
		wg.Go(func() { errs[i] = fn() })
	}
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, op.ErrCovered) {
			return err // the others say the same
		}
	}
	return errors.Join(errs...)
}

// refuseDialog says "dialog open" to an operation that a dialog would hang.
func (t *Tab) refuseDialog(operation string) error {
	if operation == "page.dialog" {
		return nil
	}
	d := t.openDialog()
	if d == nil {
		return nil
	}
	return dialogError(t, d)
}

func dialogError(t *Tab, d *Dialog) *op.Error {
	return op.Reject(op.DialogOpen, "%s is open on tab %d: %q; nothing was done", d.called(), t.conn.Key().TabID, cut(d.Message, 300)).
		WithHint("answer the dialog first").
		WithDetail("type", d.Type).WithDetail("message", cut(d.Message, 1000))
}

func (t *Tab) openDialog() *Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dialog
}

// call runs one CDP command under its own bound.
func call[P, R any](ctx context.Context, s cdp.Session, c cdp.Command[P, R], params P) (R, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callBound, fmt.Errorf("%s did not answer within %s: %w", c.Method, callBound, context.DeadlineExceeded))
	defer cancel()
	res, err := cdp.Call(ctx, s, c, params)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return res, fmt.Errorf("%s: %w", c.Method, context.Cause(ctx))
	}
	return res, err
}

// watch calls fn for every event from now on, one at a time, after the tab's own
// state has taken it in: fn must not block.
func (t *Tab) watch(fn func(op.Event)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.nextWatch
	t.nextWatch++
	t.watchers[id] = fn
	return func() {
		t.mu.Lock()
		delete(t.watchers, id)
		t.mu.Unlock()
	}
}

// event takes in one event of the tab. It is called in order, on one
// goroutine.
func (t *Tab) event(ev op.Event) {
	if ev.Method == page.JavascriptDialogOpening.Method {
		ev = t.policed(ev)
	}
	t.take(ev)
}

// take applies an event and tells the watchers.
func (t *Tab) take(ev op.Event) {
	t.events.Lock()
	defer t.events.Unlock()
	t.mu.Lock()
	t.applyLocked(ev)
	watchers := make([]func(op.Event), 0, len(t.watchers))
	for _, fn := range t.watchers {
		watchers = append(watchers, fn)
	}
	t.mu.Unlock()
	for _, fn := range watchers {
		fn(ev)
	}
}

// decode reads an event's payload. An event that does not decode is dropped:
// a new Chrome may send what this build does not know.
func decode[E any](ev op.Event) (E, bool) {
	var v E
	return v, jsonv2.Unmarshal(ev.Params, &v) == nil
}

// cut shortens s to n characters for a message.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
