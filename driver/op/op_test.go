package op_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

type nested struct {
	Kind string `json:"kind" enum:"viewport|full-page-tiles"`
	Path string `json:"path,omitzero" pattern:"^[a-z./]+$"`
}

type clickIn struct {
	Ref      string   `json:"ref,omitzero" pattern:"^@?el-[0-9]+$"`
	Selector string   `json:"selector,omitzero" minLength:"1"`
	X        *float64 `json:"x,omitempty"`
	Y        *float64 `json:"y,omitempty"`
	Max      int      `json:"maxElements,omitzero" min:"1" max:"80"`
	Capture  nested   `json:"capture,omitzero"`
	Paths    []string `json:"paths,omitempty" minItems:"1" maxItems:"2"`
	op.TabInput
}

type clickOut struct {
	Ref string `json:"ref"`
}

func (o clickOut) Text() string { return "clicked " + o.Ref }

func define() op.Operation[string] {
	return op.Define(op.Spec{Name: "input.click", Tool: "chrome_click", Effect: op.MayMutate, Deadline: op.DefaultDeadline,
		Args: []string{"ref"}, OneOf: [][]string{{"ref", "selector", "x+y"}}},
		func(_ context.Context, call string, in clickIn) (clickOut, error) {
			return clickOut{Ref: call + in.Ref + string(in.Target.Value)}, nil
		})
}

func TestValidation(t *testing.T) {
	o := define()
	for _, tt := range []struct{ input, want string }{
		{`{"ref":"el-3"}`, ""},
		{`{"x":1,"y":2.5}`, ""},
		{`{"ref":"el-3","target":{"by":"id","value":7}}`, ""},
		{`{"ref":"el-3","target":{"by":"url","value":"shop"}}`, ""},
		{`{"reff":"el-3"}`, `unknown field "reff"; allowed: ref, selector, x, y`},
		{`{"ref":"e3"}`, `field "ref" is "e3"; it must match ^@?el-[0-9]+$`},
		{`{"ref":3}`, `field "ref" is 3; it must be a string`},
		{`{"ref":"el-3","maxElements":81}`, `field "maxElements" is 81; allowed: 1 to 80`},
		{`{"ref":"el-3","maxElements":3600000}`, `field "maxElements" is 3600000; allowed: 1 to 80`},
		{`{"ref":"el-3","maxElements":1.5}`, `field "maxElements" is 1.5; it must be a whole number`},
		{`{"ref":"el-3","capture":{"kind":"all"}}`, `field "capture.kind" is "all"; allowed: viewport, full-page-tiles`},
		{`{"ref":"el-3","capture":{}}`, `field "capture.kind" is required`},
		{`{"ref":"el-3","paths":[]}`, `field "paths" has 0 items; allowed: 1 to 2 items`},
		{`{"ref":"el-3","paths":["a",5]}`, `field "paths[1]" is 5; it must be a string`},
		{`{"ref":"el-3","target":{"by":"tab","value":1}}`, `field "target.by" is "tab"; allowed: id, url, title`},
		{`{"ref":"el-3","target":{"by":"id","value":-1}}`, `field "target.value" is -1; allowed: a string that is not empty, or a whole number of at least 0`},
		{`{"ref":"el-3","selector":"a"}`, `give one of ref, selector or x and y, not ref and selector`},
		{`{}`, `one of ref, selector or x and y is required`},
		{`{"x":1}`, `x and y must be given together`},
		{`{"selector":""}`, `field "selector" has 0 characters; allowed: at least 1 characters`},
		{`[1]`, `input must be a JSON object, not an array`},
		{`{"ref":"el-3"`, `input is not JSON`},
		{`{"ref":"el-3"} {}`, `more than one JSON value`},
		{`{"ref":null}`, `field "ref" is null; it must be a string`},
	} {
		err := o.Validate(json.RawMessage(tt.input))
		if tt.want == "" {
			assert.NilError(t, err, tt.input)
			continue
		}
		assert.ErrorContains(t, err, tt.want, tt.input)
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, tt.input)
		assert.Equal(t, e.Kind, op.Invalid)
		assert.Assert(t, strings.HasPrefix(e.Message, "chrome_click: "), e.Message)
	}
}

func TestRun(t *testing.T) {
	o := define()
	res, err := o.Run(t.Context(), ">", json.RawMessage(`{"ref":"el-3","target":{"by":"id","value":7}}`))
	assert.NilError(t, err)
	assert.Equal(t, string(res.Value), `{"ref":">el-37"}`)
	assert.Equal(t, res.Text, "clicked >el-37")
	_, err = o.Run(t.Context(), "", nil)
	assert.ErrorContains(t, err, "is required")
}

// TestSchemaIsFlat: providers reject unions at the top, type arrays and
// references.
func TestSchemaIsFlat(t *testing.T) {
	d, err := define().Descriptor()
	assert.NilError(t, err)
	b, err := json.Marshal(d.Input)
	assert.NilError(t, err)
	var s map[string]any
	assert.NilError(t, json.Unmarshal(b, &s))
	assert.Equal(t, s["type"], "object")
	assert.Assert(t, s["anyOf"] == nil && s["oneOf"] == nil)
	assert.Assert(t, !strings.Contains(string(b), `"type":[`), string(b))
	assert.Assert(t, !strings.Contains(string(b), "null"), string(b))
	assert.Assert(t, !strings.Contains(string(b), "$ref"), string(b))
	assert.Equal(t, d.Command(), "click")
}

func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		kind  op.DeadlineKind
		input string
		want  time.Duration
	}{
		{op.DefaultDeadline, `{}`, 30 * time.Second},
		{op.NavigateDeadline, `{}`, 17 * time.Second},
		{op.NavigateDeadline, `{"timeoutMs":1000,"snapshot":{}}`, 33 * time.Second},
		{op.NavigateDeadline, `{"timeoutMs":1000,"snapshot":null}`, 3 * time.Second},
		{op.WaitDeadline, `{}`, 12250 * time.Millisecond},
		{op.WaitDeadline, `{"timeoutMs":100,"intervalMs":50}`, 2150 * time.Millisecond},
		{op.ScreenshotDeadline, `{"capture":{"kind":"viewport"}}`, 30 * time.Second},
		{op.ScreenshotDeadline, `{"capture":{"kind":"full-page-tiles"}}`, 120 * time.Second},
		{op.TextInputDeadline, `{"text":"äöü"}`, 30540 * time.Millisecond},
		{op.TextInputDeadline, `{"text":"` + strings.Repeat("x", 5000) + `"}`, 120 * time.Second},
		{op.DefaultDeadline, `not json`, 30 * time.Second},
	} {
		assert.Equal(t, tt.kind.Budget(json.RawMessage(tt.input)), tt.want, "%s %s", tt.kind, cutFor(tt.input))
	}
}

func cutFor(s string) string { return s[:min(len(s), 60)] }

func TestCapText(t *testing.T) {
	assert.Equal(t, op.CapText("äbc", 3), "äbc")
	assert.Equal(t, op.CapText("äbcd", 3), "äbc\n\n[truncated 1 characters]")
}

func TestErrors(t *testing.T) {
	e := op.Reject(op.StaleActionRef, "gone").WithHint("snapshot").WithDetail("ref", "el-1").WithCause(op.ErrDetached)
	assert.Assert(t, errors.Is(e, op.ErrDetached))
	assert.Assert(t, errors.Is(e, &op.Error{Code: op.StaleActionRef}))
	assert.Assert(t, !errors.Is(e, &op.Error{Code: op.StaleActionRef, Kind: op.OutcomeUnknown}))
	assert.Equal(t, op.AsError(errors.New("x")).Code, op.BrowserOperation)
	assert.Assert(t, op.AsError(nil) == nil)
	assert.Equal(t, op.AsError(e), e)
}

func FuzzValidate(f *testing.F) {
	f.Add(`{"ref":"el-3"}`)
	f.Add(`{"x":1,"y":2,"capture":{"kind":"viewport"},"paths":["a"],"target":{"by":"id","value":3}}`)
	o := define()
	f.Fuzz(func(t *testing.T, s string) {
		err := o.Validate(json.RawMessage(s))
		if err == nil {
			if _, err := o.Run(t.Context(), "", json.RawMessage(s)); err != nil && op.AsError(err).Kind != op.Invalid {
				t.Fatalf("valid input %q failed: %v", s, err)
			}
			return
		}
		if op.AsError(err).Kind != op.Invalid {
			t.Fatalf("bad input %q is not invalid: %v", s, err)
		}
	})
}
