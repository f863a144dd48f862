package op_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func TestCheckSteps(t *testing.T) {
	describe := func(name string) (op.Descriptor, bool) {
		switch name {
		case "chrome_click", "input.click":
			return op.Descriptor{Name: "input.click", Tool: "chrome_click", Deadline: op.DefaultDeadline}, true
		case "chrome_wait":
			return op.Descriptor{Name: "page.wait", Tool: "chrome_wait", Deadline: op.WaitDeadline}, true
		case "chrome_do":
			return op.Descriptor{Name: op.DoName, Tool: "chrome_do"}, true
		}
		return op.Descriptor{}, false
	}
	o := define()
	validate := func(name string, input json.RawMessage) error {
		if name == "page.wait" {
			return nil
		}
		return o.Validate(input)
	}
	for _, tt := range []struct{ in, want string }{
		{`{"steps":[{"tool":"chrome_click","input":{"ref":"el-3"}},{"tool":"wait","input":{"timeoutMs":5}}]}`, ""},
		{`{"steps":[{"tool":"input.click","input":{"ref":"el-3"}},{"tool":"click"}]}`, "chrome_do: step 2: chrome_click: one of ref, selector or x and y is required; nothing was done"},
		{`{"steps":[{"tool":"chrome_fly"}]}`, `field "steps[0].tool" is "chrome_fly", which is no tool`},
		{`{"steps":[{"tool":"do"}]}`, `a list of steps itself`},
		{`{"steps":1}`, "chrome_do: "},
	} {
		steps, descs, err := op.CheckSteps(json.RawMessage(tt.in), describe, validate)
		if tt.want != "" {
			assert.ErrorContains(t, err, tt.want)
			assert.Equal(t, op.AsError(err).Kind, op.Invalid)
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, steps[0].Tool+" "+steps[1].Tool, "input.click page.wait")
		assert.Equal(t, op.DoBudget(steps, descs), 30*time.Second+2255*time.Millisecond)
	}
	var steps []op.Step
	var descs []op.Descriptor
	for range 20 {
		steps, descs = append(steps, op.Step{Tool: "input.click"}), append(descs, op.Descriptor{Deadline: op.DefaultDeadline})
	}
	assert.Equal(t, op.DoBudget(steps, descs), op.MaxDo)
}

func TestStepsText(t *testing.T) {
	out := op.DoOut{Of: 4}
	assert.Assert(t, out.Add(op.StepResult{Tool: "chrome_evaluate", OK: true, Value: json.RawMessage(`{}`), Text: "{\n  \"a\": 1\n}", ElapsedMs: 3}))
	assert.Assert(t, out.Add(op.StepResult{Tool: "chrome_read", OK: true, Text: strings.Repeat("ä", 400) + "\nsecond"}))
	lines := strings.Split(out.Text(), "\n")
	assert.DeepEqual(t, lines[:5], []string{"Stopped at step 2 of 4", `1. chrome_evaluate: {"a":1} (3 ms)`, "2. chrome_read: " + strings.Repeat("ä", 160) + "… (0 ms)", "3-4. not begun", ""})
	assert.Assert(t, !out.Add(op.StepResult{Tool: "chrome_click", Error: op.Reject(op.StaleActionRef, "it is\ngone").WithHint("look")}))
	assert.Assert(t, strings.HasSuffix(out.Text(), "\n3. chrome_click rejected stale-action-ref: it is gone (look)\n4. not begun"), out.Text())
	// Values are bounded; how large they were is told.
	big := op.DoOut{Of: 5}
	for i := range 5 {
		big.Add(op.StepResult{OK: true, Value: json.RawMessage(`"` + strings.Repeat("x", (4<<20)-10) + `"`), ID: fmt.Sprint(i)})
	}
	kept := 0
	for _, s := range big.Steps {
		if s.Value == nil {
			assert.Equal(t, s.ValueBytes, (4<<20)-8)
			continue
		}
		kept++
	}
	assert.Equal(t, kept, 3)
}

func TestExampleShown(t *testing.T) {
	e := op.Example{Input: json.RawMessage(`{"url":"{{base}}/a","ref":"{{ref:button \"Save\"}}"}`)}
	assert.Equal(t, e.Shown(), `{"url":"https://example.org/a","ref":"el-3"}`)
}
