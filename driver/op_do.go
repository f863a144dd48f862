package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pi-chrome/driver/op"
)

var opDo = op.Define(op.Spec{
	Name: op.DoName, Tool: "chrome_do", Profile: "core", Title: "Do",
	Summary: "Run up to 20 calls in order as one command; it stops at the first that is not done.",
	Brief:   "Run up to 20 tool calls in order as one; stops at the first that is not done. Takes every chrome_ tool.",
	Doc: "Runs the `steps` one after the other, each exactly as a call of its own: authorized, bounded and recorded by itself under the id of this command, a slash and its number. " +
		"The first step that is not done ends the list; those after it are not begun and have no effect. All inputs are checked before the first step. " +
		"A step cannot be a list itself, and all steps belong to this session. The list may take as long as its steps together, at most 300 s. " +
		"Use it for what needs no look in between, such as filling a form, sending it and taking a snapshot.\n\n" +
		"Returns `steps` with the value or error of each, `done` and `of`; the text has what each step said, at most 1,000 characters of one, and then the last step's own text.",
	Effect: op.MayMutate, Deadline: op.StepsDeadline, Tab: op.NoTab, Args: []string{"steps"},
	Examples: []op.Example{
		{Title: "Fill a field, press Enter and look", Page: "input/textarea.html",
			Input: json.RawMessage(`{"steps":[{"tool":"chrome_fill","input":{"selector":"textarea","text":"one line"}},{"tool":"chrome_press","input":{"key":"End"}},{"tool":"chrome_snapshot","input":{"mode":"interactive"}}]}`)},
		{Title: "Open a page and read it", Input: json.RawMessage(`{"steps":[{"tool":"chrome_navigate","input":{"url":"{{base}}/navigate/plain.html"}},{"tool":"chrome_read"}]}`)},
	},
	Errors: []op.Code{op.InvalidInput, op.UnknownTool, op.SessionLocked},
}, do)

// do runs the steps of a session that has the driver to itself. An owner runs
// them itself, since each has to be admitted.
func do(ctx context.Context, c *Call, in op.DoIn) (op.DoOut, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return op.DoOut{}, fmt.Errorf("encoding the steps: %w", err)
	}
	steps, descs, err := op.CheckSteps(raw, c.driver.describe, c.driver.validate)
	if err != nil {
		return op.DoOut{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, op.DoBudget(steps, descs))
	defer cancel()
	out := op.DoOut{Of: len(steps)}
	for i, s := range steps {
		c.progress(i, len(steps), descs[i].Tool)
		r := op.StepResult{ID: fmt.Sprintf("%s/%d", c.ID, i+1), Tool: descs[i].Tool}
		began := time.Now()
		sctx, end := context.WithTimeout(ctx, descs[i].Deadline.Budget(json.RawMessage(s.Input)))
		res, err := c.driver.Run(sctx, s.Tool, &Call{ID: r.ID, Session: c.Session, Conn: c.Conn, Browser: c.Browser, Progress: c.Progress}, json.RawMessage(s.Input))
		end()
		r.ElapsedMs = time.Since(began).Milliseconds()
		if err != nil {
			r.Error = op.AsError(err)
		} else {
			r.OK, r.Value, r.Text = true, res.Value, res.Text
		}
		if !out.Add(r) {
			break
		}
	}
	return out, nil
}

func (d *Driver) describe(name string) (op.Descriptor, bool) {
	o, ok := d.Operation(name)
	if !ok {
		return op.Descriptor{}, false
	}
	desc, err := o.Descriptor()
	return desc, err == nil
}

func (d *Driver) validate(name string, input json.RawMessage) error {
	o, _ := d.Operation(name) // describe has found it
	return o.Validate(input)
}
