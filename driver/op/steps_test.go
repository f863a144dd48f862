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
	assert.Assert(t, strings.HasSuffix(out.Text(), "\n2. chrome_read: "+strings.Repeat("ä", 400)+" (0 ms)\n   second\n3. chrome_click rejected stale-action-ref: it is gone (look)\n4. not begun"), out.Text())
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

// What a step said is seen though it is not the last one: a field that did not
// take its value says so on a later line.
func TestStepsTell(t *testing.T) {
	fill := op.StepResult{Tool: "chrome_fill", OK: true, Text: "fill completed: value\nvalue differs from what was given: the page holds \"12\"\n\ninvalid: too short", ElapsedMs: 7}
	out := op.DoOut{Of: 2}
	out.Add(fill)
	out.Add(op.StepResult{Tool: "chrome_click", OK: true, Text: "click completed: page\nfocus: Submit", ElapsedMs: 8})
	assert.Equal(t, out.Text(), `Done: 2 of 2 steps
1. chrome_fill: fill completed: value (7 ms)
   value differs from what was given: the page holds "12"
   invalid: too short
2. chrome_click: click completed: page (8 ms)

click completed: page
focus: Submit`)

	// Twenty long ones stay within a snapshot's cap, and say what they leave out.
	long := op.StepResult{Tool: "chrome_read", OK: true, Text: "# Chrome read (content)\n" + strings.Repeat("a line of forty characters, more or less\n", 100)}
	for _, n := range []int{1, 3, 20} {
		out := op.DoOut{Of: n + 1}
		for range n {
			out.Add(long)
		}
		out.Add(fill)
		text := out.Text()
		assert.Assert(t, len(text) <= 8000, "%d steps: %d characters", n, len(text))
		assert.Equal(t, strings.Count(text, " more lines)"), n)
	}
	one := op.DoOut{Of: 2}
	one.Add(long)
	one.Add(fill)
	assert.Equal(t, strings.Count(one.Text(), "   a line of forty"), 22)
	assert.Assert(t, strings.Contains(one.Text(), "\n   (78 more lines)\n2. chrome_fill"), one.Text())

	// A long last one leaves the others the room that a form's fields need.
	out = op.DoOut{Of: 20}
	for range 19 {
		out.Add(fill)
	}
	out.Add(op.StepResult{Tool: "chrome_snapshot", OK: true, Text: strings.Repeat("x", 8000)})
	assert.Equal(t, strings.Count(out.Text(), "   value differs from what was given"), 19)
	assert.Assert(t, len(out.Text()) <= 8000+6000, "%d characters", len(out.Text()))
}

func TestExampleShown(t *testing.T) {
	e := op.Example{Input: json.RawMessage(`{"url":"{{base}}/a","ref":"{{ref:button \"Save\"}}"}`)}
	assert.Equal(t, e.Shown(), `{"url":"https://example.org/a","ref":"el-3"}`)
}
