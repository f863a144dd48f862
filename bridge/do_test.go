package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func init() {
	fakeOps[op.DoName] = op.Descriptor{Name: op.DoName, Tool: "chrome_do", Effect: op.MayMutate, Tab: op.NoTab, Deadline: op.StepsDeadline}
}

// doOf is a list of steps, each "operation" or "operation input".
func doOf(id string, steps ...string) wire.Command {
	var in op.DoIn
	for _, s := range steps {
		name, input, _ := strings.Cut(s, " ")
		in.Steps = append(in.Steps, op.Step{Tool: name, Input: op.Object(input)})
	}
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return cmd(id, op.DoName, string(raw))
}

func listed(t *testing.T, r *wire.Result) op.DoOut {
	t.Helper()
	wantOK(t, r)
	var out op.DoOut
	assert.NilError(t, json.Unmarshal(r.Value, &out))
	return out
}

func (p *program) outcome(id string) CommandOutcome {
	var out CommandOutcome
	assert.NilError(p.rig.t, p.ask("outcome", OutcomeParams{id}, &out))
	return out
}

func TestAListRunsEachStepAsACommandOfItsOwn(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			call.Progress(1, 2, "half of "+call.ID)
			return op.Result{Value: json.RawMessage(`{}`), Text: "text of " + call.ID}, nil
		}
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		res := p.do(doOf("x", "page.click "+forTab(tab.ID), "page.snapshot "+forTab(tab.ID), "page.wait "+forTab(tab.ID)))
		out := listed(t, res)
		assert.Equal(t, out.Done, 3)
		assert.Equal(t, out.Of, 3)
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "x/2", "x/3"})
		assert.Equal(t, out.Steps[0].ID, "x/1")
		assert.Equal(t, out.Steps[0].Tool, "chrome_click")
		assert.Assert(t, strings.HasPrefix(res.Text, "Done: 3 of 3 steps\n1. chrome_click: text of x/1 ("), res.Text)
		assert.Assert(t, strings.HasSuffix(res.Text, "\n\ntext of x/3"), res.Text)
		// What may mutate has an outcome of its own; a read has none.
		assert.Equal(t, p.outcome("x").State, "done")
		assert.Equal(t, p.outcome("x/1").State, "done")
		assert.Assert(t, strings.Contains(string(p.outcome("x/2").Result), "it only reads"), string(p.outcome("x/2").Result))
		assert.Equal(t, p.outcome("x/4").State, "unknown")
		p.mu.Lock()
		var notes []string
		for _, n := range p.progress {
			assert.Equal(t, n.ID, "x")
			notes = append(notes, n.Note)
		}
		p.mu.Unlock()
		assert.DeepEqual(t, notes, []string{"chrome_click", "half of x/1", "chrome_snapshot", "half of x/2", "chrome_wait", "half of x/3"})
		// The same id again tells it again and runs nothing.
		assert.Equal(t, p.do(doOf("x", "page.click "+forTab(tab.ID), "page.snapshot "+forTab(tab.ID), "page.wait "+forTab(tab.ID))).Text, res.Text)
		assert.Equal(t, len(r.handler.order()), 3)
	})
}

func TestAListStopsAtTheFirstStepThatIsNotDone(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			if call.ID == "x/2" {
				return op.Result{}, op.Reject(op.StaleActionRef, "el-1 is gone").WithHint("look again")
			}
			return op.NewResult("ok")
		}
		p := r.dial()
		defer p.close()
		res := p.do(doOf("x", "page.click", "page.click", "page.click", "page.snapshot"))
		out := listed(t, res)
		assert.Equal(t, out.Done, 1)
		assert.Equal(t, len(out.Steps), 2)
		assert.Equal(t, out.Steps[1].Error.Code, op.StaleActionRef)
		assert.Assert(t, strings.Contains(res.Text, "Stopped at step 2 of 4\n1. chrome_click"), res.Text)
		assert.Assert(t, strings.HasSuffix(res.Text, "2. chrome_click rejected stale-action-ref: el-1 is gone (look again)\n3-4. not begun"), res.Text)
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "x/2"})
		third := p.outcome("x/3")
		assert.Equal(t, third.State, "done")
		assert.Equal(t, third.Operation, "page.click")
		assert.Assert(t, strings.Contains(string(third.Result), `"rejected"`) && strings.Contains(string(third.Result), "was not begun"), string(third.Result))
	})
}

func TestAListIsCheckedBeforeItsFirstStep(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		f := wantError(t, p.do(doOf("a", "page.click", "page.fly")), op.Invalid, op.UnknownTool)
		assert.Assert(t, strings.Contains(f.Message, `field "steps[1].tool" is "page.fly"`), f.Message)
		f = wantError(t, p.do(doOf("b", "page.click", "do {\"steps\":[]}")), op.Invalid, op.InvalidInput)
		assert.Assert(t, strings.Contains(f.Message, "a list of steps itself"), f.Message)
		assert.Equal(t, len(r.handler.order()), 0)
	})
}

func TestLockEndsAList(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("x/2")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		p.send(doOf("x", "page.click", "page.click", "page.click"))
		synctest.Wait()
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "x/2"})
		assert.NilError(t, p.ask("revoke", SessionParams{"default"}, nil))
		out := listed(t, p.wait("x", 1))
		assert.Equal(t, out.Done, 1)
		assert.Equal(t, out.Steps[1].Error.Kind, op.OutcomeUnknown)
		assert.Equal(t, out.Steps[1].Error.Code, op.SessionLocked)
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "x/2"})
	})
}

func TestCancelingAListCancelsItsStep(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("x/1")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		p.send(doOf("x", "page.click", "page.click"))
		synctest.Wait()
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "x"})
		out := listed(t, p.wait("x", 1))
		assert.Equal(t, out.Done, 0)
		assert.Equal(t, out.Steps[0].Error.Code, op.Canceled)
		assert.Equal(t, out.Steps[0].Error.Kind, op.OutcomeUnknown)
		assert.DeepEqual(t, r.handler.order(), []string{"x/1"})
	})
}

// TestAListIsBoundedAsAWhole gives a list three waits of 120 s: it ends after
// 300 s, in the third.
func TestAListIsBoundedAsAWhole(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = func(ctx context.Context, _ *Call) (op.Result, error) {
			timer := time.NewTimer(120 * time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
				return op.NewResult("waited")
			case <-ctx.Done():
				return op.Result{}, ctx.Err()
			}
		}
		p := r.dial()
		defer p.close()
		wait := `page.wait {"timeoutMs":120000}`
		began := time.Now()
		out := listed(t, p.do(doOf("x", wait, wait, wait, wait)))
		assert.Equal(t, out.Done, 2)
		assert.Equal(t, out.Steps[2].Error.Code, op.DeadlineExceeded)
		assert.Equal(t, time.Since(began).Round(time.Second), 300*time.Second)
	})
}

// TestWhatPassesByPassesAList shows that a list keeps the session's other
// commands in order, and lets by what it may be waiting for.
func TestWhatPassesByPassesAList(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("x/1")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		p.send(doOf("x", "page.click", "page.click"))
		synctest.Wait()
		p.send(cmd("after", "page.click", `{}`))
		wantOK(t, p.do(cmd("by", "page.wait", `{}`)))
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "by"})
		g.open("x/1")
		wantOK(t, p.wait("after", 1))
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "by", "x/2", "after"})
	})
}

// TestTheStepsOfAListFindRoom fills the mailbox: a list that was admitted is
// not stopped by it.
func TestTheStepsOfAListFindRoom(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		var ids []string
		for i := range maxAdmitted {
			ids = append(ids, fmt.Sprint("w", i))
		}
		g := newGate(append(slices.Clone(ids), "x/1")...)
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		p.send(doOf("x", "page.snapshot", "page.click"))
		synctest.Wait()
		for i, id := range ids {
			c := cmd(id, "page.snapshot", forTab(tab.ID))
			c.Session.Key = fmt.Sprint("other", i%2)
			p.send(c)
		}
		synctest.Wait()
		g.open("x/1")
		assert.Equal(t, listed(t, p.wait("x", 1)).Done, 2)
		for _, id := range ids {
			g.open(id)
		}
	})
}

// TestAListAfterAKill kills the owner while the second of four steps
// executes: the first is done, the second outcome-unknown, the others are
// rejected, and nothing runs again.
func TestAListAfterAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate("x/3", "y/1")
		r.handler.run = g.run
		p := r.dial()
		steps := []string{"page.click", "page.snapshot", "page.click", "page.click", "page.snapshot"}
		p.send(doOf("x", steps...))
		synctest.Wait()
		assert.DeepEqual(t, r.handler.order(), []string{"x/1", "x/2", "x/3"})
		assert.Equal(t, p.outcome("x/5").State, "queued")
		r.freeze()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		f := wantError(t, p.do(doOf("x", steps...)), op.OutcomeUnknown, op.BridgeStopped)
		assert.Equal(t, f.Message, "the owner ended during a list of 5 steps: 2 were done, step 3 (page.click) may have had its effect, and 2 were not begun and had no effect. Nothing was sent again")
		var states []string
		for _, s := range f.Details["steps"].([]any) {
			states = append(states, s.(map[string]any)["state"].(string))
		}
		assert.DeepEqual(t, states, []string{"done", "done", "unknown", "rejected", "rejected"})
		assert.Equal(t, len(r.handler.order()), 3)
		tell := func(id string) wire.Result {
			var res wire.Result
			out := p.outcome(id)
			assert.Equal(t, out.State, "done", id)
			assert.NilError(t, json.Unmarshal(out.Result, &res))
			return res
		}
		assert.Assert(t, tell("x/1").OK)
		assert.Equal(t, tell("x/3").Error.Kind, string(op.OutcomeUnknown))
		assert.Equal(t, tell("x/4").Error.Kind, string(op.Rejected))
		assert.Equal(t, tell("x/5").Error.Kind, string(op.Rejected))
	})
}

// TestAListThatOnlyReads is a read itself: it is not in the journal.
func TestAListThatOnlyReads(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		assert.Equal(t, listed(t, p.do(doOf("x", "page.snapshot", "tab.list"))).Done, 2)
		assert.Equal(t, p.outcome("x").State, "unknown")
	})
}

// TestTabsOfAList shows that a step works in the tab that the step before it
// made.
func TestTabsOfAList(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		out := listed(t, p.do(doOf("x", "tab.new", "page.click", "tab.close", "tab.list")))
		assert.Equal(t, out.Done, 4)
		assert.Equal(t, string(out.Steps[3].Value), "[]")
	})
}
