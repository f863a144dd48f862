package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

// Bounds of a capture.
const (
	maxCaptureSessions = 512             // frames and workers of one tab
	maxCaptureJobs     = 512             // bodies and console values that wait to be read
	captureJobBound    = 3 * time.Second // for one of them
	childCaptureBound  = 3 * time.Second // for turning capture on in a frame or worker

	// Chrome's own buffers of bodies, in bytes. They are bounded, since an
	// unbounded one keeps every event of an EventSource.
	chromeTotalBuffer    = 10 << 20
	chromeResourceBuffer = 2 << 20
	chromePostData       = 64 << 10

	// resumeBound is how long a frame or worker that waits for us is held up
	// when it does not say that capture is on. A service worker never does
	// before it runs: it takes the commands in order when it starts.
	resumeBound       = time.Second
	resumeWorkerBound = 50 * time.Millisecond
)

// capture is what a tab records of its console and its network from the moment
// a session first asks, in every frame and worker. It listens only: nothing is
// changed in the page. Tab.mu guards it.
//
// It works beside the tab's loop: a body that takes long to read must not hold
// up the setup of a frame. Each goroutine is counted by wg, which close waits
// for, and ends with the tab's context.
type capture struct {
	wantConsole, wantNetwork   bool
	consoleSince, networkSince int64 // ms since 1970; 0 for never
	lost                       int   // how often the debugger was detached meanwhile

	sessions map[string]*captureSession // by session id; "" is the tab itself
	console  consoleLog
	network  networkLog

	jobs    []captureJob
	working bool
	idle    chan struct{} // closed when no job is left; nil when idle
	closed  bool
	wg      sync.WaitGroup
}

// captureSession is one session whose console and network are captured: the
// tab, a frame in another process, or a worker.
type captureSession struct {
	id      string
	kind    string // page, iframe, worker, shared_worker, service_worker, …
	target  target.ID
	url     string // of a worker's script
	session cdp.Session

	console, network bool   // capture is on
	failure          string // why it is not, "" otherwise
	replaying        bool   // Chrome tells what it had kept before
	replayMark       int    // the last message when that began
	contexts         map[runtime.ExecutionContextID]cdp.FrameID
	worlds           map[runtime.ExecutionContextID]string // of contexts that are not the page's own
	held             int                                   // console values that Chrome keeps for us
}

// worker reports whether the session runs no frame.
func (s *captureSession) worker() bool { return s.kind != "page" && s.kind != "iframe" }

// captureJob is one thing to read from Chrome after the event that told of it.
type captureJob struct {
	session string
	run     func(ctx context.Context, s cdp.Session) error
	skipped func(reason string) // with Tab.mu held; may be nil
}

// rootLocked is the tab's own session.
func (t *Tab) rootLocked() *captureSession {
	c := &t.capture
	if c.sessions == nil {
		c.sessions = map[string]*captureSession{}
	}
	s := c.sessions[""]
	if s == nil {
		s = &captureSession{kind: "page", session: t.conn}
		c.sessions[""] = s
	}
	return s
}

// captureResetLocked forgets the sessions of an attachment that has ended.
// What was captured stays.
func (t *Tab) captureResetLocked() {
	c := &t.capture
	if len(c.sessions) > 0 && (c.wantConsole || c.wantNetwork) {
		c.lost++
	}
	c.sessions = nil
	c.network.interruptLocked()
	t.rootLocked()
}

// captureAttached turns capture on again after the tab was attached anew. It
// must not keep an operation from working: the next call that asks for the
// capture tries again and says what is wrong.
func (t *Tab) captureAttached(ctx context.Context) {
	t.mu.Lock()
	root := t.rootLocked()
	want := t.capture.wantConsole || t.capture.wantNetwork
	t.mu.Unlock()
	if !want {
		return
	}
	if err := t.captureSession(ctx, root); err != nil {
		t.log.Debug("capturing again", "error", err)
	}
}

// startCapture turns the capture of the console or of the network on where it
// is off, in every session of the tab, and reports whether it did.
func (t *Tab) startCapture(ctx context.Context, console bool) (started bool, err error) {
	t.setup.Lock()
	defer t.setup.Unlock()
	t.mu.Lock()
	c := &t.capture
	root := t.rootLocked()
	on, want, since := root.network, &c.wantNetwork, &c.networkSince
	if console {
		on, want, since = root.console, &c.wantConsole, &c.consoleSince
	}
	if *want && on {
		t.mu.Unlock()
		return false, nil
	}
	if !*want {
		started, *want, *since = true, true, time.Now().UnixMilli()
		t.pinCaptureLocked()
	}
	var others []*captureSession
	for id, s := range c.sessions {
		if id != "" {
			others = append(others, s)
		}
	}
	t.mu.Unlock()

	if err := t.captureSession(ctx, root); err != nil {
		t.mu.Lock()
		*want = false
		t.pinCaptureLocked()
		t.mu.Unlock()
		t.stopSessionLater(root, console)
		return false, fmt.Errorf("turning the capture on: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, childCaptureBound)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range others {
		wg.Go(func() { _ = t.captureSession(ctx, s) }) // its failure is told in the result
	}
	wg.Wait()
	return started, nil
}

// pinCaptureLocked keeps the debugger for as long as a capture is wanted.
func (t *Tab) pinCaptureLocked() {
	t.pinLocked("console capture", t.capture.wantConsole)
	t.pinLocked("network capture", t.capture.wantNetwork)
}

// captureSession turns on in one session what is wanted and still off. The
// calls are sent together.
func (t *Tab) captureSession(ctx context.Context, s *captureSession) error {
	t.mu.Lock()
	console := t.capture.wantConsole && !s.console
	net := t.capture.wantNetwork && !s.network
	hold := t.capture.wantNetwork
	if console && !s.replaying {
		s.replaying, s.replayMark = true, t.capture.console.next
	}
	t.mu.Unlock()
	if !console && !net {
		return nil
	}
	var conErr, netErr, childErr error
	err := together(
		func() error {
			if console {
				conErr = enableConsole(ctx, s.session)
			}
			return conErr
		},
		func() error {
			if net {
				netErr = enableNetwork(ctx, s.session)
			}
			return netErr
		},
		func() error {
			// The tab and its frames announce their frames and workers
			// already, a worker does so only when asked.
			if !net && !s.worker() {
				return nil
			}
			childErr = autoAttach(ctx, s.session, hold)
			return childErr
		},
	)
	t.mu.Lock()
	defer t.mu.Unlock()
	if console {
		s.console, s.replaying = conErr == nil, false
	}
	if net {
		s.network = netErr == nil && childErr == nil
	}
	s.failure = ""
	if err != nil {
		s.failure = plain(err)
		t.log.Debug("capturing", "kind", s.kind, "error", err)
	}
	return err
}

func enableConsole(ctx context.Context, s cdp.Session) error {
	return together(
		func() error { _, err := call(ctx, s, runtime.Enable, cdp.Empty{}); return err },
		func() error { _, err := call(ctx, s, log.Enable, cdp.Empty{}); return err },
	)
}

func enableNetwork(ctx context.Context, s cdp.Session) error {
	total, one, post := int64(chromeTotalBuffer), int64(chromeResourceBuffer), int64(chromePostData)
	_, err := call(ctx, s, network.Enable, network.EnableParams{MaxTotalBufferSize: &total, MaxResourceBufferSize: &one, MaxPostDataSize: &post})
	return err
}

// autoAttach has the session announce its frames and workers. With hold, new
// ones wait until they are captured, so that their first requests are not
// missed.
func autoAttach(ctx context.Context, s cdp.Session, hold bool) error {
	flat := true
	_, err := call(ctx, s, target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true, Flatten: &flat, WaitForDebuggerOnStart: hold})
	if missing(err) {
		return nil // a worker of a kind that makes no workers
	}
	return err
}

// missing reports whether the session does not know the command.
func missing(err error) bool {
	p, ok := errors.AsType[*op.ProtocolError](err)
	return ok && (p.Code == -32601 || strings.Contains(p.Message, "wasn't found"))
}

// captureChildLocked takes in a session that the browser announces. One that
// waits for us is let go in any case.
func (t *Tab) captureChildLocked(e target.EventAttachedToTarget) {
	c := &t.capture
	t.rootLocked()
	s := &captureSession{id: string(e.SessionID), kind: e.TargetInfo.Type, target: e.TargetInfo.TargetID, url: e.TargetInfo.URL}
	s.session = t.conn.Child(s.id)
	if len(c.sessions) < maxCaptureSessions {
		c.sessions[s.id] = s
	} else {
		t.log.Debug("a session beyond the bound is not captured", "kind", s.kind)
	}
	want := c.wantConsole || c.wantNetwork
	if c.closed || !want && !e.WaitingForDebugger {
		return
	}
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, setupBound)
		defer cancel()
		t.captureChild(ctx, s, e.WaitingForDebugger)
	})
}

func (t *Tab) captureChild(ctx context.Context, s *captureSession, waiting bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		cctx, cancel := context.WithTimeout(ctx, childCaptureBound)
		defer cancel()
		_ = t.captureSession(cctx, s) // its failure is told in the result
	}()
	if waiting {
		bound := resumeBound
		if s.kind == "service_worker" {
			bound = resumeWorkerBound
		}
		timer := time.NewTimer(bound)
		select {
		case <-done:
		case <-timer.C:
		}
		timer.Stop()
		if _, err := call(ctx, s.session, runtime.RunIfWaitingForDebugger, cdp.Empty{}); err != nil && !isCode(err, op.DocumentChanged) {
			t.log.Debug("letting a session go", "kind", s.kind, "error", err)
		}
	}
	<-done
}

// stopCapture turns a capture off in every session. What was captured stays.
func (t *Tab) stopCapture(ctx context.Context, console bool) error {
	t.setup.Lock()
	defer t.setup.Unlock()
	t.mu.Lock()
	c := &t.capture
	if console {
		c.wantConsole = false
	} else {
		c.wantNetwork = false
	}
	t.pinCaptureLocked()
	var on []*captureSession
	for _, s := range c.sessions {
		if console && s.console || !console && s.network {
			on = append(on, s)
		}
	}
	t.mu.Unlock()
	errs := make([]error, len(on))
	var wg sync.WaitGroup
	for i, s := range on {
		wg.Go(func() {
			errs[i] = t.stopSession(ctx, s, console)
			if s.id != "" {
				errs[i] = nil // a frame or worker that goes takes its capture with it
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (t *Tab) stopSession(ctx context.Context, s *captureSession, console bool) error {
	var err error
	if console {
		err = together(
			func() error { _, err := call(ctx, s.session, runtime.Disable, cdp.Empty{}); return err },
			func() error { _, err := call(ctx, s.session, log.Disable, cdp.Empty{}); return err },
		)
	} else {
		err = together(
			func() error { _, err := call(ctx, s.session, network.Disable, cdp.Empty{}); return err },
			func() error { return autoAttach(ctx, s.session, false) },
		)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if console {
		s.console = false
	} else {
		s.network = false
	}
	return err
}

// stopSessionLater takes back what a failed start may have turned on, without
// making its caller wait.
func (t *Tab) stopSessionLater(s *captureSession, console bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.capture.closed {
		return
	}
	t.capture.wg.Go(func() {
		t.setup.Lock()
		defer t.setup.Unlock()
		t.mu.Lock()
		wanted := console && t.capture.wantConsole || !console && t.capture.wantNetwork
		t.mu.Unlock()
		if wanted {
			return // it was started again meanwhile
		}
		ctx, cancel := context.WithTimeout(t.ctx, childCaptureBound)
		defer cancel()
		if err := t.stopSession(ctx, s, console); err != nil {
			t.log.Debug("turning a capture off", "error", err)
		}
	})
}

// releaseCapture turns every capture off, for a tab that is given back.
func (t *Tab) releaseCapture(ctx context.Context) error {
	return errors.Join(t.stopCapture(ctx, true), t.stopCapture(ctx, false))
}

// closeCapture waits for what the capture still does. The tab's context has
// ended.
func (t *Tab) closeCapture() {
	t.mu.Lock()
	t.capture.closed = true
	t.mu.Unlock()
	t.capture.wg.Wait()
}

// captureLocked takes in an event and reports whether it was one of the
// capture's.
func (t *Tab) captureLocked(ev op.Event) bool {
	c := &t.capture
	s := c.sessions[ev.SessionID]
	switch ev.Method {
	case target.DetachedFromTarget.Method:
		if e, ok := decode[target.EventDetachedFromTarget](ev); ok {
			delete(c.sessions, string(e.SessionID))
		}
		return false
	case target.TargetInfoChanged.Method:
		return true
	}
	if s == nil {
		return false
	}
	return t.consoleEventLocked(s, ev) || t.networkEventLocked(s, ev)
}

// enqueueJobLocked has the capture's worker read something. Where too much
// waits, the oldest is skipped: what came last is looked at first.
func (t *Tab) enqueueJobLocked(j captureJob) {
	c := &t.capture
	if c.closed {
		return
	}
	if len(c.jobs) >= maxCaptureJobs {
		if old := c.jobs[0]; old.skipped != nil {
			old.skipped("too much came at once")
		}
		c.jobs = c.jobs[1:]
	}
	c.jobs = append(c.jobs, j)
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	if !c.working {
		c.working = true
		c.wg.Go(t.captureWork)
	}
}

// captureWork runs the jobs one after another, until none is left.
func (t *Tab) captureWork() {
	for {
		t.mu.Lock()
		c := &t.capture
		if len(c.jobs) == 0 || t.ctx.Err() != nil {
			c.jobs, c.working = nil, false
			close(c.idle)
			c.idle = nil
			t.mu.Unlock()
			return
		}
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		s := c.sessions[j.session]
		if s == nil {
			if j.skipped != nil {
				j.skipped("its frame or worker was gone")
			}
			t.mu.Unlock()
			continue
		}
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.ctx, captureJobBound)
		err := j.run(ctx, s.session)
		cancel()
		if err == nil {
			continue
		}
		t.mu.Lock()
		if j.skipped != nil {
			j.skipped(plain(err))
		}
		if errors.Is(err, context.DeadlineExceeded) {
			c.dropJobsLocked(j.session)
		}
		t.mu.Unlock()
	}
}

// dropJobsLocked skips the jobs of a session that does not answer.
func (c *capture) dropJobsLocked(session string) {
	var rest []captureJob
	for _, j := range c.jobs {
		if j.session != session {
			rest = append(rest, j)
		} else if j.skipped != nil {
			j.skipped("the page did not answer")
		}
	}
	c.jobs = rest
}

// captureSettled waits until what the events so far named is read, or until
// the bound.
func (t *Tab) captureSettled(ctx context.Context, bound time.Duration) {
	t.mu.Lock()
	idle := t.capture.idle
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

// notCapturedLocked names the frames and workers in which capture is wanted
// and off, with the reason.
func (t *Tab) notCapturedLocked() []string {
	var out []string
	if !t.capture.wantConsole && !t.capture.wantNetwork {
		return nil
	}
	for _, s := range t.capture.sessions {
		if s.failure != "" && len(out) < 10 {
			where := s.kind
			if s.url != "" {
				where += " " + redactURL(cut(s.url, 200))
			}
			out = append(out, where+": "+cut(s.failure, 200))
		}
	}
	return out
}

// placeLocked is the address of what a session runs: for the tab and a frame
// the document of the frame, for a worker its script.
func (t *Tab) placeLocked(s *captureSession, frame cdp.FrameID) string {
	if s.worker() {
		return s.url
	}
	if f := t.frames[frame]; f != nil {
		return f.url
	}
	if s.id != "" {
		if f := t.frames[cdp.FrameID(s.target)]; f != nil {
			return f.url
		}
		return ""
	}
	if f := t.frames[t.main]; f != nil {
		return f.url
	}
	return ""
}
