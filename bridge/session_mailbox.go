package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// maxAdmitted is how many commands one connector holds that are not over.
const maxAdmitted = 64

// commandState is how far a command is. Only Server.mu's holder changes it.
type commandState int

const (
	stateQueued     commandState = iota // nothing was sent for it: it can be withdrawn
	stateExecuting                      // the handler has it
	stateCompleting                     // its outcome is decided and becomes durable
	stateDone                           // its outcome was told
)

func (st commandState) String() string {
	return [...]string{"queued", "executing", "completing", "done"}[st]
}

// command is one admitted call of an operation.
type command struct {
	id      string
	digest  string
	desc    op.Descriptor
	effect  op.Effect
	input   json.RawMessage
	session op.Session
	browser string            // as the caller named it
	trace   string            // file for the handler's trace; "" for none
	free    bool              // needs neither authorization nor a profile
	steps   []step            // of a list of calls
	limit   time.Duration     // for the steps of a list together
	parent  *command          // the list that this is a step of
	report  func(wire.Result) // told the outcome of a step
	entered time.Time
	budget  time.Duration

	ctx    context.Context // ends with a cancel; its cause is an *op.Error
	cancel context.CancelCauseFunc

	// Written by the goroutine that lets the command enter, read by the one
	// that executes it.
	profile profile
	target  resolvedTab

	// Guarded by Server.mu.
	state     commandState
	deadline  time.Time // zero until the clock runs
	timer     *time.Timer
	box       *mailbox
	journaled bool
	page      string          // origin that its tab showed when it began, where the owner knew it
	watchers  map[*client]int // how many answers each wants
	orphaned  *time.Timer     // ends the command that lost its last watcher; nil while it has not
	settledOK bool

	finished chan struct{} // closed when the outcome was told
	settled  chan struct{} // closed when nothing of it runs any more
}

// mailbox holds the commands of one connector. Commands of one tab that may
// mutate run one after the other, those of one session in order; reads and
// waits pass by; different tabs run side by side. It is guarded by Server.mu.
type mailbox struct {
	admitted int
	held     map[string]int // of admitted, by session; none is zero
	waiting  []placeWaiter  // for a place, in the order in which they came
	lanes    map[int]*lane  // by tab; a key means that one runs
}

func (s *Server) boxLocked(connectorID string) *mailbox {
	b := s.boxes[connectorID]
	if b == nil {
		b = &mailbox{held: map[string]int{}, lanes: map[int]*lane{}}
		s.boxes[connectorID] = b
	}
	return b
}

// submit takes a command of a client. It never waits for the browser. The
// client has counted the command (client.take) and gets exactly one answer.
func (s *Server) submit(from *client, w wire.Command) {
	refuse := func(err *op.Error) {
		s.refused(from, w, err)
	}
	if trimmed := strings.TrimSpace(string(w.Input)); trimmed == "" || trimmed == "null" {
		w.Input = json.RawMessage("{}")
	}
	if strings.Contains(w.ID, "/") {
		refuse(op.Invalidf("command id %q holds a slash; nothing was done: such ids are those of the steps of a list", w.ID))
		return
	}
	digest := commandDigest(w)
	if known, err := s.join(from, w.ID, digest); known {
		if err != nil {
			refuse(err)
		}
		return
	}
	if e, found, err := s.store.entry(w.ID); err != nil {
		refuse(writeFailed(err))
		return
	} else if found {
		if e.State == journalExecuting {
			// It may have begun over another connection since join looked.
			if known, err := s.join(from, w.ID, digest); known {
				if err != nil {
					refuse(err)
				}
				return
			}
			if again, found, err := s.store.entry(w.ID); err == nil && found {
				e = again
			}
		}
		s.retell(from, w.ID, digest, e)
		return
	}
	c, oerr := s.newCommand(s.ctx, w, digest)
	if oerr != nil {
		refuse(oerr)
		return
	}
	c.watchers[from] = 1
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		refuse(stoppedError())
		return
	}
	if s.commands[c.id] != nil {
		// The same id came over another connection in this moment.
		s.mu.Unlock()
		if _, err := s.join(from, w.ID, digest); err != nil {
			refuse(err)
		}
		return
	}
	if !c.free {
		s.sessionLocked(c.session.Key) // from now on it is known, locked or not
		if err := s.refusedLocked(c.session.Key, c.entered); err != nil {
			s.mu.Unlock()
			refuse(err)
			return
		}
	}
	s.commands[c.id] = c
	s.mu.Unlock()
	if w.DeadlineMs > 0 {
		s.setDeadline(c, c.entered.Add(time.Duration(w.DeadlineMs)*time.Millisecond))
	}
	if c.free {
		if _, err := s.admit(c, ""); err != nil {
			s.withdraw(c, err)
			return
		}
		s.startClock(c)
		c.profile = s.anyProfile(c)
		s.launch(c)
		return
	}
	if err := s.enqueue(c); err != nil {
		s.withdraw(c, err)
	}
}

// refused answers a command that does not enter.
func (s *Server) refused(from *client, w wire.Command, err *op.Error) {
	r := wire.Result{Type: wire.TypeResult, ID: w.ID, Error: failureOf(err)}
	name := "unknown"
	if desc, ok := s.opts.Handler.Describe(w.Operation); ok {
		name = desc.Name
	}
	s.meter.command(name, r)
	s.receiptRefused(w, err)
	s.auditRefused(from, w, name, err) // before it is told
	from.answer(r, op.ReadOnly)
}

// join adds a client to the watchers of a command that is under way.
func (s *Server) join(from *client, id, digest string) (known bool, err *op.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.commands[id]
	if c == nil {
		return false, nil
	}
	if c.digest != digest {
		return true, reusedID(id)
	}
	c.watchers[from]++
	if c.orphaned != nil {
		c.orphaned.Stop()
	}
	return true, nil
}

func reusedID(id string) *op.Error {
	return op.Invalidf("command id %q was used for another command; nothing was done: every command needs a new id", id)
}

// retell answers a command that the journal knows.
func (s *Server) retell(from *client, id, digest string, e journalEntry) {
	if e.Digest != digest {
		from.answer(wire.Result{Type: wire.TypeResult, ID: id, Error: failureOf(reusedID(id))}, op.ReadOnly)
		return
	}
	from.answer(e.answer(), op.MayMutate)
}

// newCommand checks all that needs no browser.
func (s *Server) newCommand(ctx context.Context, w wire.Command, digest string) (*command, *op.Error) {
	desc, ok := s.opts.Handler.Describe(w.Operation)
	if !ok {
		// Who has the list says what it is that is meant.
		if err := s.opts.Handler.Validate(w.Operation, w.Input); err != nil {
			return nil, asOpError(err)
		}
		e := op.Invalidf("unknown operation %q; nothing was done", w.Operation)
		e.Code = op.UnknownTool
		return nil, e
	}
	ses, oerr := checkSession(w.Session)
	if oerr != nil {
		return nil, oerr
	}
	if err := s.opts.Handler.Validate(desc.Name, w.Input); err != nil {
		return nil, asOpError(err)
	}
	c := &command{id: w.ID, digest: digest, desc: desc, effect: s.opts.Handler.EffectOf(desc.Name, w.Input),
		input: w.Input, session: ses, browser: w.Browser, entered: time.Now(), budget: desc.Deadline.Budget(w.Input),
		watchers: map[*client]int{}, finished: make(chan struct{}), settled: make(chan struct{}), trace: w.Trace}
	if desc.Name == op.DoName {
		if err := s.readSteps(c); err != nil {
			return nil, err
		}
	}
	c.free = desc.Tab == op.NoTab && c.effect == op.ReadOnly && strings.HasPrefix(desc.Name, "system.")
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c, nil
}

// admit counts a command in its connector's mailbox. Where its session may not
// have a place yet it returns a channel that is closed when it has one.
func (s *Server) admit(c *command, connectorID string) (ready <-chan struct{}, err *op.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enteringLocked(c, connectorID); err != nil {
		return nil, err
	}
	box := s.boxLocked(connectorID)
	full := box.admitted >= maxAdmitted
	// The steps of a list go on with it.
	if c.parent == nil && !c.free && (box.overLocked(c) || full && box.greedyLocked(c.session.Key)) {
		w := placeWaiter{c, make(chan struct{})}
		box.waiting = append(box.waiting, w)
		return w.ready, nil
	}
	if c.parent == nil && full {
		return nil, busyError("this browser", box.admitted)
	}
	box.enterLocked(c)
	return nil, nil
}

// startClock starts the operation's own budget. Waiting for a browser to
// connect is not part of it.
func (s *Server) startClock(c *command) { s.setDeadline(c, time.Now().Add(c.budget)) }

// granted is how long the command had, from its entry, as an error tells it.
func (c *command) granted() time.Duration {
	if c.deadline.IsZero() {
		return c.budget
	}
	return min(c.budget, c.deadline.Sub(c.entered).Round(10*time.Millisecond))
}

// setDeadline shortens the command's deadline.
func (s *Server) setDeadline(c *command, d time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != stateQueued || !c.deadline.IsZero() && c.deadline.Before(d) {
		return
	}
	c.deadline = d
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(time.Until(d), func() { s.withdraw(c, notStarted(c)) })
}

func notStarted(c *command) *op.Error {
	return op.NotAvailable(op.CommandTimeout, "%s waited %s for its turn and was not started", c.desc.Tool, time.Since(c.entered).Round(time.Millisecond)).
		WithHint("It had no effect: send it again when the commands before it are over.")
}

// line puts a command with a resolved tab in the tab's lane, or starts it.
func (s *Server) line(c *command) {
	if c.effect == op.ReadOnly || c.desc.PassesBy {
		s.launch(c)
		return
	}
	tab := c.target.id
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != stateQueued {
		return
	}
	if l := c.box.lanes[tab]; l != nil {
		l.waiting = append(l.waiting, c)
		return
	}
	c.box.lanes[tab] = newLane(c)
	box := c.box
	s.wg.Go(func() { s.drain(box, tab, c) })
}

// drain runs the commands of one lane, one after the other.
func (s *Server) drain(box *mailbox, tab int, c *command) {
	for c != nil {
		s.execute(c)
		s.mu.Lock()
		if c = box.lanes[tab].nextLocked(); c == nil {
			delete(box.lanes, tab)
		}
		s.mu.Unlock()
	}
}

func (s *Server) launch(c *command) { s.wg.Go(func() { s.execute(c) }) }

// execute runs one command to its end.
func (s *Server) execute(c *command) {
	page := pageOf(c)
	s.mu.Lock()
	if c.state != stateQueued {
		s.mu.Unlock()
		return // withdrawn
	}
	// A lock, and whoever the tab has come to, win every race: this is the last
	// moment before an effect.
	var no *op.Error
	if !c.free {
		no = s.refusedLocked(c.session.Key, time.Now())
	}
	if no == nil {
		no = s.passedOnLocked(c)
	}
	if no != nil {
		s.mu.Unlock()
		s.withdraw(c, no)
		return
	}
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		// The turn came before the timer, as after the process was stopped.
		s.mu.Unlock()
		s.withdraw(c, notStarted(c))
		return
	}
	c.state, c.page = stateExecuting, page
	s.meter.waited.observe("", time.Since(c.entered))
	if c.timer != nil {
		c.timer.Stop()
	}
	s.mu.Unlock()
	defer s.settle(c)
	if c.target.tab != nil {
		defer s.tabs.pin(c.target.tab, "command")()
	}

	ctx, cancel := context.WithDeadlineCause(c.ctx, c.deadline, endsWith(context.DeadlineExceeded, overdue(c)))
	defer cancel()
	returned := make(chan struct{})
	s.wg.Go(func() { s.watch(ctx, c, returned) })
	res, oerr := s.run(ctx, c)
	close(returned)
	s.conclude(c, res, oerr)
}

func overdue(c *command) *op.Error {
	return op.Reject(op.DeadlineExceeded, "%s did not end in its %s", c.desc.Tool, c.granted())
}

// watch answers the caller of a command whose handler does not return after
// its end: the lane stays taken, the caller does not wait.
func (s *Server) watch(ctx context.Context, c *command, returned <-chan struct{}) {
	select {
	case <-returned:
		return
	case <-ctx.Done():
	}
	t := time.NewTimer(op.ResultDeliveryGrace)
	defer t.Stop()
	select {
	case <-returned:
	case <-t.C:
		s.conclude(c, op.Result{}, ended(ctx, c))
	}
}

// run makes the command durable where it may mutate, and calls the handler.
func (s *Server) run(ctx context.Context, c *command) (op.Result, *op.Error) {
	if err := s.permit(ctx, c); err != nil {
		return op.Result{}, err
	}
	if c.desc.Tab == op.PageTab {
		if err := s.tabs.attach(ctx, c.target.tab); err != nil {
			// Attaching changes nothing on the page.
			return op.Result{}, noEffect(ctx, err, "the debugger could not be attached to tab %d", c.target.id)
		}
	}
	blocked, gerr := s.guarded(ctx, c)
	if gerr != nil {
		return op.Result{}, noEffect(ctx, gerr, "tab %d could not be kept to the session's policy", c.target.id)
	}
	if c.effect != op.ReadOnly {
		if err := s.auditReady(); err != nil {
			return op.Result{}, err
		}
		e := journalEntry{ID: c.id, Session: c.session.Key, Operation: c.desc.Name, Digest: c.digest, TabID: c.target.id,
			State: journalExecuting, StartedAt: time.Now(), Steps: c.stepNames()}
		if c.desc.Tab == op.NoTab {
			e.TabID = -1
		}
		if c.profile != nil {
			e.ConnectorID = c.profile.ID()
		}
		if err := s.store.begin(e); errors.Is(err, errKnownCommand) {
			return s.already(c)
		} else if err != nil {
			return op.Result{}, writeFailed(err)
		}
		s.mu.Lock()
		c.journaled = true
		s.mu.Unlock()
		if ctx.Err() != nil {
			e := causeOf(ctx)
			e.Kind = op.Rejected
			return op.Result{}, e
		}
	}
	if c.steps != nil {
		res, err := s.runSteps(ctx, c)
		return res, outcome(ctx, c, err)
	}
	res, err := s.call(ctx, c)
	return s.checked(ctx, c, blocked, res, outcome(ctx, c, err))
}

// call runs the handler; its panic is an error of this command only.
func (s *Server) call(ctx context.Context, c *command) (res op.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("an operation panicked", "operation", c.desc.Name, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal fault in %s: %v", c.desc.Name, r)
		}
	}()
	session := c.session
	if p := s.policyOf(session.Key); p != nil && p.Background {
		session.Foreground = false // the policy may have come while the command waited
	}
	call := &Call{ID: c.id, Operation: c.desc.Name, Input: c.input, Session: session, Tab: c.target.tab,
		Browser:  &SessionBrowser{srv: s, profile: c.profile, session: session, command: c},
		Progress: func(done, total int, text string) { s.progress(c, done, total, text) }, Owner: s.info, Trace: c.trace}
	return s.opts.Handler.Run(ctx, call)
}

// outcome decides what a handler's error means. The handler knows best; what
// it did not expect counts as harmless for a read only.
func outcome(ctx context.Context, c *command, err error) *op.Error {
	if err == nil {
		return nil
	}
	var e *op.Error
	switch {
	case errors.As(err, &e):
		e = withReason(ctx, e)
	case ctx.Err() != nil:
		e = ended(ctx, c)
	case c.effect == op.ReadOnly:
		e = op.Reject(op.BrowserOperation, "%s failed: %s", c.desc.Name, err).WithCause(err)
	default:
		e = op.Unknown(op.BrowserOperation, "%s may have changed Chrome before it failed: %s. The command was not replayed", c.desc.Name, err).
			WithHint(lookFirst).WithCause(err)
	}
	if c.effect == op.ReadOnly && e.Kind == op.OutcomeUnknown {
		// A pure read is never outcome-unknown.
		r := *e
		r.Kind = op.Rejected
		return &r
	}
	return e
}

// endCause is why a command's context ended. It hides its *op.Error from
// errors.As: what the transport wraps it in must not pass for an outcome, since
// the call that was cut short may have had its effect.
type endCause struct {
	why *op.Error
	ctx error // context.Canceled or context.DeadlineExceeded
}

func (e *endCause) Error() string { return e.why.Message }
func (e *endCause) Unwrap() error { return e.ctx }

func endsWith(ctx error, why *op.Error) error { return &endCause{why, ctx} }

// causeOf is a new copy of why the context ended.
func causeOf(ctx context.Context) *op.Error {
	if c, ok := errors.AsType[*endCause](context.Cause(ctx)); ok {
		e := *c.why
		return &e
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return op.Reject(op.DeadlineExceeded, "the browser did not answer in time")
	}
	return op.Reject(op.Canceled, "the caller has gone")
}

// withReason names why a command was canceled, as by a lock: the handler only
// knows that it was, and what effect that left.
func withReason(ctx context.Context, e *op.Error) *op.Error {
	c, ok := errors.AsType[*endCause](context.Cause(ctx))
	if !ok || e.Code != op.Canceled || c.why.Code == op.Canceled {
		return e
	}
	r := *c.why
	r.Kind, r.Message = e.Kind, strings.TrimSuffix(r.Message, nothingDone)+": "+e.Message
	if e.Kind == op.OutcomeUnknown {
		r.Hint = lookFirst
	}
	return &r
}

const (
	nothingDone = "; nothing was done"
	lookFirst   = "Look at the page (chrome_snapshot) before you decide to repeat it."
)

// ended is the outcome of a command that was cut short.
func ended(ctx context.Context, c *command) *op.Error {
	e := causeOf(ctx)
	if c.effect == op.ReadOnly {
		e.Kind = op.Rejected
		return e
	}
	e.Kind = op.OutcomeUnknown
	e.Message = strings.TrimSuffix(e.Message, nothingDone) + "; it had begun and may have had its effect. It was not sent again"
	e.Hint = lookFirst
	return e
}

// noEffect is the error of a step before any effect.
func noEffect(ctx context.Context, err error, format string, args ...any) *op.Error {
	if e, ok := errors.AsType[*op.Error](err); ok {
		if e.Kind == op.OutcomeUnknown {
			r := *e
			r.Kind = op.Rejected
			return &r
		}
		return e
	}
	what := fmt.Sprintf(format, args...)
	if ctx.Err() != nil {
		e := causeOf(ctx)
		e.Kind = op.Rejected
		e.Message += ": " + what
		return e
	}
	if errors.Is(err, op.ErrNotDelivered) || errors.Is(err, op.ErrReplyLost) {
		return op.NotAvailable(op.ConnectorOffline, "%s: %s. Nothing was done", what, err).
			WithHint("Send it again: the browser connects by itself.").WithCause(err)
	}
	return op.Reject(op.BrowserOperation, "%s: %s. Nothing was done", what, err).WithCause(err)
}

// withdraw ends a command that has not started. It reports whether it was
// still queued.
func (s *Server) withdraw(c *command, err *op.Error) bool {
	s.mu.Lock()
	if c.state != stateQueued {
		s.mu.Unlock()
		return false
	}
	c.state = stateCompleting
	s.mu.Unlock()
	s.tell(c, wire.Result{Type: wire.TypeResult, ID: c.id, Error: failureOf(err)})
	s.settle(c)
	return true
}

// conclude ends a command that executes: its outcome becomes durable and is
// told then. Of several calls the first counts.
func (s *Server) conclude(c *command, res op.Result, err *op.Error) {
	s.mu.Lock()
	if c.state != stateExecuting {
		s.mu.Unlock()
		return
	}
	c.state = stateCompleting
	journaled := c.journaled
	s.mu.Unlock()
	r := wire.Result{Type: wire.TypeResult, ID: c.id, OK: err == nil, ElapsedMs: time.Since(c.entered).Milliseconds()}
	if err != nil {
		r.Error = failureOf(err)
	} else {
		r.Value, r.Text = res.Value, res.Text
	}
	if journaled {
		if err := s.store.finish(c.id, r); err != nil {
			// The effect is done; hiding its outcome would help nobody.
			s.log.Error("storing an outcome", "command", c.id, "err", err)
		}
	}
	s.tell(c, r)
}

// tell answers everybody who waits for the command.
func (s *Server) tell(c *command, r wire.Result) {
	if r.ElapsedMs == 0 {
		r.ElapsedMs = time.Since(c.entered).Milliseconds()
	}
	code := "ok"
	if r.Error != nil {
		code = r.Error.Kind + "/" + r.Error.Code
	}
	s.mu.Lock()
	c.state = stateDone
	delete(s.commands, c.id)
	if !c.free {
		s.sessionLocked(c.session.Key).last = LastCommand{Operation: c.desc.Name, Outcome: code, At: time.Now()}
		s.receiptLocked(c, r)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.orphaned != nil {
		c.orphaned.Stop()
	}
	watchers := c.watchers
	c.watchers = nil
	s.mu.Unlock()
	s.meter.command(c.desc.Name, r)
	s.meter.took.observe(c.desc.Name, time.Since(c.entered))
	s.auditCommand(c, r, code, watchers) // before it is told
	for w, n := range watchers {
		for range n {
			w.answer(r, c.effect)
		}
	}
	if c.report != nil {
		c.report(r)
	}
	s.log.Info("command", "id", c.id, "session", c.session.Key, "operation", c.desc.Name, "outcome", code, "ms", r.ElapsedMs)
	close(c.finished)
}

// settle frees the command's place in the mailbox.
func (s *Server) settle(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.settledOK {
		return
	}
	c.settledOK = true
	if c.box != nil {
		c.box.leaveLocked(c)
	}
	c.cancel(context.Canceled)
	close(c.settled)
}

func canceledError(why string) *op.Error { return op.Reject(op.Canceled, "%s", why) }

// cancelFor withdraws or cancels a command that the client waits for.
func (s *Server) cancelFor(from *client, id string) {
	s.mu.Lock()
	c := s.commands[id]
	if c == nil {
		s.mu.Unlock()
		return // over, or never known: its answer says so
	}
	_, watches := c.watchers[from]
	others := len(c.watchers) > 1
	s.mu.Unlock()
	if watches && !others {
		s.stop(c, "the command was canceled by its caller")
	}
}

// orphanGrace is how long a command goes on that a program began whose socket
// broke: it comes back for the outcome, or it has died.
const orphanGrace = 3 * time.Second

// abandon cancels what nobody waits for after a client has gone. Where it did
// not say goodbye, what has begun goes on for a moment.
func (s *Server) abandon(from *client, grace time.Duration) {
	s.mu.Lock()
	var orphans []*command
	for _, c := range s.commands {
		if _, watches := c.watchers[from]; watches {
			delete(c.watchers, from)
			if len(c.watchers) > 0 || c.parent != nil {
				continue
			}
			if grace == 0 || c.state == stateQueued {
				orphans = append(orphans, c)
			} else {
				c.orphaned = time.AfterFunc(grace, func() { s.stopOrphan(c) })
			}
		}
	}
	s.mu.Unlock()
	for _, c := range orphans {
		s.stop(c, programGone)
	}
}

const programGone = "the program that sent the command has gone"

func (s *Server) stopOrphan(c *command) {
	s.mu.Lock()
	joined := len(c.watchers) > 0
	s.mu.Unlock()
	if !joined {
		s.stop(c, programGone)
	}
}

func (s *Server) stop(c *command, why string) {
	if !s.withdraw(c, canceledError(why+" before it started; nothing was done")) {
		c.cancel(endsWith(context.Canceled, canceledError(why)))
	}
}

// progress tells everybody who waits how far the command is.
func (s *Server) progress(c *command, done, total int, note string) {
	if c.parent != nil {
		c = c.parent // whose callers wait
	}
	s.mu.Lock()
	watchers := make([]*client, 0, len(c.watchers))
	for w := range c.watchers {
		watchers = append(watchers, w)
	}
	s.mu.Unlock()
	for _, w := range watchers {
		w.send(wire.Progress{Type: wire.TypeProgress, ID: c.id, Done: done, Total: total, Note: note})
	}
}
