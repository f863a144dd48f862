package op

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Effect is the class of an operation.
type Effect string

// An operation that is ReadOnly can never end as outcome-unknown.
const (
	ReadOnly  Effect = "read-only"
	MayMutate Effect = "may-mutate"
)

// TabUse says which tab an operation needs.
type TabUse string

// The bridge resolves the tab once, before the operation runs.
const (
	NoTab    TabUse = "none"     // it works on the browser or on nothing
	PageTab  TabUse = "page"     // a debugged tab; a session that owns none gets a new one
	OwnedTab TabUse = "existing" // an existing tab, never allocated implicitly; not debugged
)

// EnableTool is the tool with which a model asks a surface for the tools of one
// more of [Profiles]. It is no operation: nothing of it reaches the owner.
const EnableTool = "chrome_enable"

// Verb is what an operation is to a policy of a session.
type Verb string

// The verbs. An operation that says none reads when its effect is read-only,
// and is input otherwise.
const (
	VerbRead   Verb = "read"   // looks at a page
	VerbOpen   Verb = "open"   // takes a tab to another document
	VerbTab    Verb = "tab"    // makes, takes, gives, shows, groups or closes tabs
	VerbInput  Verb = "input"  // acts on a page as its user does
	VerbScript Verb = "script" // runs the caller's code in a page
	VerbUser   Verb = "user"   // speaks to the user
)

// Verbs are all of them.
var Verbs = []Verb{VerbRead, VerbOpen, VerbTab, VerbInput, VerbScript, VerbUser}

// Profiles are the groups in which tools are offered to a model.
var Profiles = []string{"core", "tabs", "page", "network", "capture", "interaction"}

// Spec is what [Define] is told of an operation.
type Spec struct {
	Name    string // "page.snapshot"
	Tool    string // "chrome_snapshot"
	Profile string // one of Profiles
	Title   string // "Snapshot"
	Summary string // one sentence for lists of tools
	// Brief is what a model is told of the tool; Summary when empty.
	Brief    string
	Doc      string // what it does, never does, and returns; Markdown
	Effect   Effect
	Deadline DeadlineKind
	Tab      TabUse
	// PassesBy lets the operation run while another command that may change
	// the tab is under way: it is what that command may be waiting for.
	PassesBy bool
	Verb     Verb     // "" for the one that follows from Effect
	Opens    string   // the input field with the address that the tab is taken to
	Args     []string // input fields that are positional on a command line, in order
	Examples []Example
	Errors   []Code
	// OneOf lists groups of fields of which exactly one must be given; a
	// group such as "x+y" is several fields together. It is checked at run
	// time because a published schema has no union at its top.
	OneOf [][]string
}

// Example is one call that is run as a test.
type Example struct {
	Title string          `json:"title"`
	Input json.RawMessage `json:"input"`
	Page  string          `json:"page,omitempty"` // the fixture it runs on, such as "input/click.html"
}

// Shown is the input as a reader is shown it. In the input itself {{base}}
// stands for the origin of the fixtures, and {{ref:WORDS}} for the ref of the
// action whose line in a snapshot has the words.
func (e Example) Shown() string {
	return examplePlace.ReplaceAllStringFunc(string(e.Input), func(place string) string {
		if place == "{{base}}" {
			return "https://example.org"
		}
		return "el-3"
	})
}

var examplePlace = regexp.MustCompile(`\{\{(base|ref:.*?)\}\}`)

// Descriptor is all that a surface sees of an operation.
type Descriptor struct {
	Name     string             `json:"name"`
	Tool     string             `json:"tool"`
	Profile  string             `json:"profile"`
	Title    string             `json:"title"`
	Summary  string             `json:"summary"`
	Doc      string             `json:"doc"`
	Effect   Effect             `json:"effect"`
	Deadline DeadlineKind       `json:"deadline"`
	Tab      TabUse             `json:"tab"`
	PassesBy bool               `json:"passesBy,omitempty"`
	Verb     Verb               `json:"verb"`
	Opens    string             `json:"opens,omitempty"`
	Args     []string           `json:"args,omitempty"`
	Input    *jsonschema.Schema `json:"input"`
	Output   *jsonschema.Schema `json:"output,omitempty"`
	Examples []Example          `json:"examples,omitempty"`
	Errors   []Code             `json:"errors,omitempty"`
	OneOf    [][]string         `json:"oneOf,omitempty"`
	// Mixed says that the input of a call decides its class.
	Mixed bool `json:"mixed,omitempty"`
	// ModelText and ModelInput are what a model is told: description and
	// schema in their short form, with the fields that it needs.
	ModelText  string          `json:"modelText"`
	ModelInput json.RawMessage `json:"modelInput"`
}

// Command is the tool's name on a command line: "chrome_tab_list" is
// "tab-list".
func (d Descriptor) Command() string { return commandOf(d.Tool) }

func commandOf(tool string) string {
	return strings.ReplaceAll(strings.TrimPrefix(tool, "chrome_"), "_", "-")
}

// CheckOutput checks a value against the published schema of results; every
// value fits where none is published.
func (d Descriptor) CheckOutput(raw json.RawMessage) error {
	if d.Output == nil {
		return nil
	}
	schema, err := d.Output.Resolve(nil)
	if err != nil {
		return fmt.Errorf("output schema of %s: %w", d.Tool, err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return fmt.Errorf("result of %s: %w", d.Tool, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("the result of %s does not fit its published schema: %w: %.1000s", d.Tool, err, raw)
	}
	return nil
}

// Result is what an operation returns: the value for programs and the text
// for readers. The text is at most MaxText characters.
type Result struct {
	Value json.RawMessage `json:"value"`
	Text  string          `json:"text"`
}

// MaxText is the cap of every text form, in characters.
const MaxText = 30_000

// Texter is a result with a text form of its own. A result without one is
// shown as indented JSON.
type Texter interface{ Text() string }

// Operation is a defined operation for calls of type C.
type Operation[C any] struct {
	spec     Spec
	input    func() (*schemaSet, error)
	output   func() (*jsonschema.Schema, error)
	mixed    bool
	effectOf func(raw json.RawMessage) Effect
	check    func(raw json.RawMessage) error
	run      func(ctx context.Context, call C, raw json.RawMessage) (Result, error)
}

type effecter interface{ EffectOf() Effect }

type checker interface{ Check() error }

// Define returns the operation with the given handler. Input and result
// schemas come from I and O: json tags name the fields, `jsonschema` tags
// describe them, and the tags enum, min, max, minLength, maxLength, minItems,
// maxItems and pattern bound them. An input type with the method
// EffectOf() Effect decides the class of each call by itself. One with the
// method Check() error refuses, with an error of kind invalid, what the schema
// cannot; it looks at nothing but the input.
//
// Define panics when the spec names a field that the input does not have,
// since that is a mistake in the source.
func Define[C, I, O any](spec Spec, handler func(ctx context.Context, call C, in I) (O, error)) Operation[C] {
	in := sync.OnceValues(func() (*schemaSet, error) { return inputSchema[I](spec) })
	out := sync.OnceValues(func() (*jsonschema.Schema, error) { return outputSchema[O]() })
	_, mixed := any(*new(I)).(effecter)
	return Operation[C]{
		spec:   spec,
		input:  in,
		output: out,
		mixed:  mixed,
		effectOf: func(raw json.RawMessage) Effect {
			var v I
			if json.Unmarshal(raw, &v) == nil {
				if e, ok := any(v).(effecter); ok {
					return e.EffectOf()
				}
			}
			return spec.Effect
		},
		check: func(raw json.RawMessage) error {
			var v I
			c, ok := any(&v).(checker)
			if !ok {
				return nil
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				return Invalidf("%s: %s", spec.Tool, err)
			}
			return c.Check()
		},
		run: func(ctx context.Context, call C, raw json.RawMessage) (Result, error) {
			var v I
			if err := json.Unmarshal(raw, &v); err != nil {
				return Result{}, Invalidf("%s: %s", spec.Tool, err)
			}
			res, err := handler(ctx, call, v)
			if err != nil {
				return Result{}, err
			}
			return NewResult(res)
		},
	}
}

// NewResult encodes a value and its text form.
func NewResult(v any) (Result, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Result{}, fmt.Errorf("encoding result: %w", err)
	}
	raw := bytes.TrimRight(buf.Bytes(), "\n")
	text := ""
	if t, ok := v.(Texter); ok {
		text = t.Text()
	} else {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, raw, "", "  "); err != nil {
			return Result{}, fmt.Errorf("indenting result: %w", err)
		}
		text = pretty.String()
	}
	return Result{Value: raw, Text: CapText(text, MaxText)}, nil
}

// CapText cuts s to max characters and says how many it left out.
func CapText(s string, max int) string {
	if len(s) <= max {
		return s
	}
	n := utf8.RuneCountInString(s)
	if n <= max {
		return s
	}
	end, seen := len(s), 0
	for i := range s {
		if seen == max {
			end = i
			break
		}
		seen++
	}
	return s[:end] + fmt.Sprintf("\n\n[truncated %d characters]", n-max)
}

// Name returns the wire name, such as "page.click".
func (o Operation[C]) Name() string { return o.spec.Name }

// Tool returns the tool name, such as "chrome_click".
func (o Operation[C]) Tool() string { return o.spec.Tool }

// Descriptor returns what surfaces see. Schemas are built on first use.
func (o Operation[C]) Descriptor() (Descriptor, error) {
	in, err := o.input()
	if err != nil {
		return Descriptor{}, fmt.Errorf("input schema of %s: %w", o.spec.Tool, err)
	}
	out, err := o.output()
	if err != nil {
		return Descriptor{}, fmt.Errorf("output schema of %s: %w", o.spec.Tool, err)
	}
	s := o.spec
	if s.Verb == "" {
		s.Verb = VerbInput
		if s.Effect == ReadOnly {
			s.Verb = VerbRead
		}
	}
	return Descriptor{Name: s.Name, Tool: s.Tool, Profile: s.Profile, Title: s.Title, Summary: s.Summary, Doc: s.Doc,
		Effect: s.Effect, Deadline: s.Deadline, Tab: s.Tab, PassesBy: s.PassesBy, Verb: s.Verb, Opens: s.Opens, Args: s.Args, Input: in.schema, Output: out,
		Examples: s.Examples, Errors: s.Errors, OneOf: s.OneOf,
		Mixed: o.mixed, ModelText: cmp.Or(s.Brief, s.Summary), ModelInput: in.model}, nil
}

// EffectOf returns the class of a call with this input.
func (o Operation[C]) EffectOf(raw json.RawMessage) Effect { return o.effectOf(raw) }

// Validate checks the input against the schema, the exclusive groups and the
// input's own check. No input is {}. The error is an *Error of kind invalid
// that names field, value and what is allowed.
func (o Operation[C]) Validate(raw json.RawMessage) error {
	raw = orEmpty(raw)
	if err := o.ValidateForm(raw); err != nil {
		return err
	}
	return o.invalid(o.check(raw))
}

// ValidateForm is [Operation.Validate] without the input's own check, for an
// input whose values are not all known. Its error is the same.
func (o Operation[C]) ValidateForm(raw json.RawMessage) error {
	in, err := o.input()
	if err != nil {
		return err
	}
	return o.invalid(in.validate(o.spec, orEmpty(raw)))
}

// invalid gives the error of an input, nil for none, a hint if it has none.
func (o Operation[C]) invalid(err error) error {
	if err == nil {
		return nil
	}
	e := AsError(err)
	if e.Hint == "" {
		e.Hint = "pi-chrome help " + commandOf(o.spec.Tool) + " shows what it takes"
	}
	return e
}

// orEmpty is the input of a caller that gave none: {}.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if s := bytes.TrimSpace(raw); len(s) == 0 || string(s) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// Run validates the input and runs the handler.
func (o Operation[C]) Run(ctx context.Context, call C, raw json.RawMessage) (Result, error) {
	raw = orEmpty(raw)
	if err := o.Validate(raw); err != nil {
		return Result{}, err
	}
	return o.run(ctx, call, raw)
}
