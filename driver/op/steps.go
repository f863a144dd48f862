package op

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// DoName is the wire name of the operation that runs a list of calls as one
// command. Whoever admits commands runs its steps; see [DoIn].
const DoName = "do"

// MaxDo bounds the steps of one list together.
const MaxDo = 300 * time.Second

// Bounds of what a list of steps returns; a step's own result is kept by
// itself.
const (
	maxStepValue  = 4 << 20
	maxStepValues = 12 << 20
	maxStepLine   = 160
)

// Bounds of its text, in characters. The last step's own text follows whole;
// what the others said may be missing there and nowhere else, such as that a
// field did not take its value, so they keep some room beside a long one.
const (
	maxStepText  = 1000
	minStepText  = 200
	maxStepsText = 8000
	minStepsText = 4000
	stepFrame    = 80 // what a step's line and its count of lines cost beside its text
)

// Object is a JSON object whose fields another schema describes.
type Object json.RawMessage

// MarshalJSON writes the object, {} for none.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return json.RawMessage(o).MarshalJSON()
}

// UnmarshalJSON takes the object as it stands.
func (o *Object) UnmarshalJSON(b []byte) error {
	*o = append((*o)[:0], b...)
	return nil
}

// Step is one call of a list.
type Step struct {
	Tool  string `json:"tool" minLength:"1" maxLength:"128" brief:"" jsonschema:"name of the tool, such as chrome_click; not chrome_do"`
	Input Object `json:"input,omitzero" brief:"all that the tool takes by itself; fields such as these" briefSome:"url,ref,text" jsonschema:"its input, as the tool takes it by itself"`
}

// DoIn is the input of the operation [DoName].
type DoIn struct {
	Steps []Step `json:"steps" minItems:"1" maxItems:"20" brief:"" jsonschema:"the calls, in order; the first that is not done ends the list"`
}

// StepResult is what became of one step that was begun or refused.
type StepResult struct {
	ID         string          `json:"id" jsonschema:"id of the step's own command: that of the list, a slash and its number"`
	Tool       string          `json:"tool"`
	OK         bool            `json:"ok"`
	Value      json.RawMessage `json:"value,omitempty"`
	ValueBytes int             `json:"valueBytes,omitempty" jsonschema:"size of a value that was too large to be told here"`
	Error      *Error          `json:"error,omitempty"`
	Text       string          `json:"text"`
	ElapsedMs  int64           `json:"elapsedMs"`
}

// DoOut is the result of the operation [DoName]. A step that was not done ends
// the list; those after it were not begun.
type DoOut struct {
	Steps []StepResult `json:"steps" jsonschema:"the steps that were begun, in order"`
	Done  int          `json:"done" jsonschema:"how many were done"`
	Of    int          `json:"of" jsonschema:"how many there were"`

	bytes int
}

// Add takes a step's result in and reports whether the list goes on.
func (o *DoOut) Add(r StepResult) bool {
	if n := len(r.Value); n > maxStepValue || o.bytes+n > maxStepValues {
		r.Value, r.ValueBytes = nil, n
	}
	o.bytes += len(r.Value)
	o.Steps = append(o.Steps, r)
	if r.OK {
		o.Done++
	}
	return r.OK
}

// Text is what each step said, and then the last step's own text.
func (o DoOut) Text() string {
	var b strings.Builder
	if o.Done == o.Of {
		fmt.Fprintf(&b, "Done: %d of %d steps\n", o.Done, o.Of)
	} else {
		fmt.Fprintf(&b, "Stopped at step %d of %d\n", len(o.Steps), o.Of)
	}
	last, rest := "", o.Steps
	if n := len(o.Steps); n > 0 && o.Steps[n-1].OK && o.Steps[n-1].Text != "" {
		last, rest = "\n"+o.Steps[n-1].Text, o.Steps[:n-1]
	}
	share := stepShare(rest, max(maxStepsText-utf8.RuneCountInString(last), minStepsText))
	for i, s := range rest {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s.account(share))
	}
	if last != "" {
		fmt.Fprintf(&b, "%d. %s\n", len(o.Steps), o.Steps[len(rest)].line())
	}
	switch left := o.Of - len(o.Steps); {
	case left == 1:
		fmt.Fprintf(&b, "%d. not begun\n", o.Of)
	case left > 1:
		fmt.Fprintf(&b, "%d-%d. not begun\n", len(o.Steps)+1, o.Of)
	}
	b.WriteString(last)
	return strings.TrimRight(b.String(), "\n")
}

// stepShare is how much each step may say so that all together stay within
// room: those that say little leave the rest to the others.
func stepShare(steps []StepResult, room int) int {
	var sizes []int
	for _, s := range steps {
		room -= stepFrame
		sizes = append(sizes, utf8.RuneCountInString(s.account(maxStepText)))
	}
	slices.Sort(sizes)
	for i, n := range sizes {
		if left := len(sizes) - i; n*left > room {
			return min(max(room/left, minStepText), maxStepText)
		}
		room -= n
	}
	return maxStepText
}

// account tells a step: its first line, and the others below it, indented, up
// to most characters. What is left out is counted.
func (s StepResult) account(most int) string {
	if s.Error != nil {
		return s.line()
	}
	lines := s.lines()
	first := head(lines[0], most)
	out := s.told(first)
	size := utf8.RuneCountInString(first)
	for i, l := range lines[1:] {
		room := most - size - len(stepIndent)
		shown := head(l, room)
		if left := len(lines) - 1 - i; shown != l && room < 60 && left == 1 {
			return out + "\n" + stepIndent + "(1 more line)"
		} else if shown != l && room < 60 {
			return out + "\n" + stepIndent + fmt.Sprintf("(%d more lines)", left)
		}
		out += "\n" + stepIndent + shown
		size += utf8.RuneCountInString(shown) + len(stepIndent) + 1
	}
	return out
}

const stepIndent = "   "

// line tells a step on one line.
func (s StepResult) line() string {
	if e := s.Error; e != nil {
		line := fmt.Sprintf("%s %s %s: %s", s.Tool, e.Kind, e.Code, e.Message)
		if e.Hint != "" {
			line += " (" + e.Hint + ")"
		}
		return strings.Join(strings.Fields(line), " ")
	}
	return s.told(head(s.lines()[0], maxStepLine))
}

func (s StepResult) told(first string) string {
	return fmt.Sprintf("%s: %s (%d ms)", s.Tool, first, s.ElapsedMs)
}

// lines are the lines of the step's text that say something; JSON is one.
func (s StepResult) lines() []string {
	text := strings.TrimSpace(s.Text)
	var compact bytes.Buffer
	if (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && json.Compact(&compact, []byte(text)) == nil {
		text = compact.String()
	}
	var out []string
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, " \r\n"); l != "" {
			out = append(out, l)
		}
	}
	if out == nil {
		out = []string{""}
	}
	return out
}

// head is the beginning of a text.
func head(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:max(n, 0)]) + "…"
}

// CheckSteps refuses a list of which a step is no tool, is a list itself, or
// has bad input, before any is begun. describe finds a tool by name, validate
// checks an input; the steps come back under their wire names.
func CheckSteps(raw json.RawMessage, describe func(string) (Descriptor, bool), validate func(string, json.RawMessage) error) ([]Step, []Descriptor, error) {
	var in DoIn
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, Invalidf("chrome_do: %s", err)
	}
	descs := make([]Descriptor, len(in.Steps))
	for i, s := range in.Steps {
		d, ok := describe(s.Tool)
		if !ok {
			d, ok = describe("chrome_" + strings.ReplaceAll(s.Tool, "-", "_"))
		}
		at := fmt.Sprintf("steps[%d]", i)
		switch {
		case !ok:
			e := Invalidf("chrome_do: field %q is %q, which is no tool; nothing was done", at+".tool", s.Tool)
			e.Code = UnknownTool
			return nil, nil, e.WithDetail("field", at+".tool")
		case d.Name == DoName:
			return nil, nil, Invalidf("chrome_do: field %q is a list of steps itself; write its steps here; nothing was done", at+".tool").WithDetail("field", at+".tool")
		}
		if len(s.Input) == 0 {
			in.Steps[i].Input = Object("{}")
		}
		if err := validate(d.Name, json.RawMessage(in.Steps[i].Input)); err != nil {
			return nil, nil, InStep(i, err)
		}
		in.Steps[i].Tool, descs[i] = d.Name, d
	}
	return in.Steps, descs, nil
}

// InStep is the error of a list whose i-th step, from 0, was refused before any
// was begun.
func InStep(i int, err error) *Error {
	e := *AsError(err)
	e.Details = maps.Clone(e.Details)
	e.Message = fmt.Sprintf("chrome_do: step %d: %s; nothing was done", i+1, e.Message)
	return e.WithDetail("step", i+1)
}

// DoBudget is how long a list may take: the sum of what its steps may, at most
// [MaxDo].
func DoBudget(steps []Step, descs []Descriptor) time.Duration {
	sum := time.Duration(0)
	for i, d := range descs {
		sum += d.Deadline.Budget(json.RawMessage(steps[i].Input))
	}
	return min(sum, MaxDo)
}
