package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// step is one checked call of a list.
type step struct {
	desc     op.Descriptor
	input    json.RawMessage
	readOnly bool
}

// stepName is what the journal keeps of a step before it begins.
type stepName struct {
	Operation string `json:"operation"`
	ReadOnly  bool   `json:"readOnly,omitempty"` // it never has an entry of its own
}

// stepID is the id of a list's n-th step, from 1.
func stepID(list string, n int) string { return list + "/" + strconv.Itoa(n) }

// readSteps checks the steps of a list and works out what the list as a whole
// is: it may mutate when a step may, and may take as long as they together.
func (s *Server) readSteps(c *command) *op.Error {
	steps, descs, err := op.CheckSteps(c.input, s.opts.Handler.Describe, s.opts.Handler.Validate)
	if err != nil {
		return asOpError(err)
	}
	c.effect, c.budget = op.ReadOnly, op.DoBudget(steps, descs)
	for i, st := range steps {
		input := json.RawMessage(st.Input)
		one := step{desc: descs[i], input: input, readOnly: s.opts.Handler.EffectOf(descs[i].Name, input) == op.ReadOnly}
		if !one.readOnly {
			c.effect = op.MayMutate
		}
		c.steps = append(c.steps, one)
	}
	// Each step has its own deadline within that of the list, and tells its
	// own outcome; the list waits for it.
	c.limit = c.budget
	c.budget += 2 * op.ResultDeliveryGrace
	return nil
}

func (c *command) stepNames() []stepName {
	var names []stepName
	for _, st := range c.steps {
		names = append(names, stepName{Operation: st.desc.Name, ReadOnly: st.readOnly})
	}
	return names
}

// runSteps runs the steps of a list, each as a command of its own that enters
// in this moment. The first that is not done ends the list.
func (s *Server) runSteps(ctx context.Context, c *command) (op.Result, error) {
	end := time.Now().Add(c.limit)
	s.list(c, 1)
	defer s.list(c, -1)
	out := op.DoOut{Of: len(c.steps)}
	for i, st := range c.steps {
		s.progress(c, i, len(c.steps), st.desc.Tool)
		r := s.runStep(ctx, c, i+1, end)
		res := op.StepResult{ID: r.ID, Tool: st.desc.Tool, OK: r.OK, Value: r.Value, Text: r.Text, ElapsedMs: r.ElapsedMs}
		if e := r.Error; e != nil {
			res.Error = &op.Error{Kind: op.Kind(e.Kind), Code: op.Code(e.Code), Message: e.Message, Hint: e.Hint, Details: e.Details}
		}
		if !out.Add(res) {
			break
		}
	}
	return op.NewResult(out)
}

// list counts the lists of a session that are under way.
func (s *Server) list(c *command, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessionLocked(c.session.Key).listed += n
}

// runStep admits one step and returns its outcome. What stops the list stops
// the step.
func (s *Server) runStep(ctx context.Context, list *command, n int, end time.Time) wire.Result {
	id, st, ses := stepID(list.id, n), list.steps[n-1], list.session
	refuse := func(err *op.Error) wire.Result {
		return wire.Result{Type: wire.TypeResult, ID: id, Error: failureOf(err)}
	}
	if ctx.Err() != nil {
		e := causeOf(ctx)
		e.Kind = op.Rejected
		e.Message += "; this step was not begun"
		return refuse(e)
	}
	w := wire.Command{Type: wire.TypeCommand, ID: id, Operation: st.desc.Name, Input: st.input, Trace: list.trace,
		Session: wire.Session{Key: ses.Key, Title: ses.Title, Foreground: ses.Foreground, Pace: ses.Pace}}
	if list.profile != nil {
		w.Browser = list.profile.ID()
	}
	c, oerr := s.newCommand(ctx, w, commandDigest(w))
	if oerr != nil {
		return refuse(oerr)
	}
	told := make(chan wire.Result, 1)
	c.parent, c.report = list, func(r wire.Result) { told <- r }
	s.mu.Lock()
	if !c.free {
		oerr = s.refusedLocked(ses.Key, c.entered)
	}
	switch {
	case s.draining:
		oerr = stoppedError()
	case s.commands[id] != nil:
		oerr = reusedID(id)
	case oerr == nil:
		s.commands[id] = c
	}
	s.mu.Unlock()
	if oerr != nil {
		c.cancel(context.Canceled)
		return refuse(oerr)
	}
	s.setDeadline(c, end)
	if err := s.begin(c); err != nil {
		s.withdraw(c, err)
	}
	r := <-told
	if r.OK {
		// The next step finds its lane free.
		<-c.settled
	}
	return r
}

// begin lets a step enter, past the queue that its list holds.
func (s *Server) begin(c *command) *op.Error {
	if !c.free {
		return s.enter(c)
	}
	if _, err := s.admit(c, ""); err != nil {
		return err
	}
	s.startClock(c)
	c.profile = s.anyProfile(c)
	s.launch(c)
	return nil
}

// interruptedSteps is the outcome of a list that a dead owner left under way:
// what began stands in the entries of its steps, and the others had no effect.
func interruptedSteps(tx *bolt.Tx, list journalEntry) (*wire.Failure, error) {
	type state struct {
		ID    string `json:"id"`
		Tool  string `json:"operation"`
		State string `json:"state"` // done, failed, unknown, or rejected: not begun, or read-only
	}
	states := make([]state, len(list.Steps))
	begun, unknown, done := 0, "", 0
	for i, st := range list.Steps {
		states[i] = state{ID: stepID(list.ID, i+1), Tool: st.Operation, State: "rejected"}
		raw := tx.Bucket(bucketJournal).Get([]byte(states[i].ID))
		if raw == nil {
			continue
		}
		var e journalEntry
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("command %s: %w", states[i].ID, err)
		}
		begun = i + 1
		switch {
		case e.OK:
			states[i].State = "done"
			done++
		case e.State == journalExecuting || e.Error == nil || e.Error.Kind == string(op.OutcomeUnknown):
			states[i].State, unknown = "unknown", fmt.Sprintf("step %d (%s) may have had its effect, ", i+1, st.Operation)
		default:
			states[i].State = "failed"
		}
	}
	for i, st := range list.Steps[:begun] {
		if st.ReadOnly {
			states[i].State = "done" // one after it began
			done++
		}
	}
	e := op.Unknown(op.BridgeStopped, "the owner ended during a list of %s: %s done, %sand %s not begun and had no effect. Nothing was sent again",
		plural(len(list.Steps), "step"), wereOf(done), unknown, wereOf(len(list.Steps)-begun)).
		WithHint("Look at the page (chrome_snapshot), then send what is left as a new list.")
	if begun == 0 {
		e = op.Reject(op.BridgeStopped, "the owner ended before the first of %s had any effect", plural(len(list.Steps), "step")).
			WithHint("Send the list again, with a new id.")
	}
	return failureOf(e.WithDetail("steps", states)), nil
}

func wereOf(n int) string {
	if n == 1 {
		return "1 was"
	}
	return strconv.Itoa(n) + " were"
}

// outcomeOfStep says what became of a step that has no entry of its own.
func (s *Server) outcomeOfStep(out CommandOutcome) (CommandOutcome, *op.Error) {
	list, number, ok := cutLast(out.ID, "/")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return out, nil
	}
	s.mu.Lock()
	c := s.commands[list]
	if c != nil && n <= len(c.steps) {
		out.State, out.Operation, out.Session = "queued", c.steps[n-1].desc.Name, c.session.Key
	}
	s.mu.Unlock()
	if c != nil {
		return out, nil
	}
	e, found, err := s.store.entry(list)
	if err != nil {
		return out, op.NotAvailable(op.StateUnreadable, "the journal cannot be read: %s", err)
	}
	if !found || n > len(e.Steps) {
		return out, nil
	}
	why := "it was not begun: the list %s ended before it"
	if e.Steps[n-1].ReadOnly {
		why = "it only reads, so that it had no effect and its result was not kept; if it was not begun, the list %s ended before it"
	}
	out.State, out.Operation, out.Session = "done", e.Steps[n-1].Operation, e.Session
	raw, err := wire.Encode(wire.Result{Type: wire.TypeResult, ID: out.ID,
		Error: failureOf(op.Reject(op.Canceled, "step %d (%s) had no effect: "+why, n, e.Steps[n-1].Operation, list))})
	if err != nil {
		return out, op.Reject(op.Internal, "encoding the outcome: %s", err)
	}
	out.Result = raw
	return out, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
