package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// Bounds of a script.
const (
	maxScript      = 1 << 20  // bytes of the file
	maxScriptLine  = 64 << 10 // bytes of a line
	maxScriptLines = 500      // commands
	maxShownBad    = 10       // bad lines that one error tells
)

// scriptLine is one command of a script with what is kept of its result and
// what is expected of it.
type scriptLine struct {
	number int
	shown  string // as written: values of variables are not in it
	desc   op.Descriptor
	args   []word          // of a command line, after the name; nil for a JSON line
	call   bool            // args is the one JSON object of call
	input  json.RawMessage // of a JSON line, with variables in its strings
	saves  []save
	checks []check
	want   *wantedError // nil: the command must succeed
}

// save keeps a part of a result in a variable: its text, the value at a JSON
// pointer, or the ref of the one element that words name.
type save struct {
	name    string
	text    bool
	pointer string
	ref     *word
}

// check is one thing that a result must be.
type check struct {
	kind    string          // contains, matches, equals
	pointer string          // of equals
	arg     word            // the text that is wanted
	value   json.RawMessage // of equals in a JSON line, with variables in its strings; nil: arg
}

// wantedError is the error with which a command must fail.
type wantedError struct {
	Kind op.Kind `json:"kind"`
	Code op.Code `json:"code,omitempty"`
}

// scriptValue is the value of a variable.
type scriptValue struct {
	raw  json.RawMessage
	text string // of a string the string, else the JSON
}

func textValue(text string) scriptValue {
	raw, err := json.Marshal(text)
	if err != nil {
		raw = []byte(`""`) // a string always encodes
	}
	return scriptValue{raw, text}
}

func jsonScriptValue(raw json.RawMessage) scriptValue {
	var s string
	if json.Unmarshal(raw, &s) == nil && string(raw) != "null" {
		return scriptValue{raw, s}
	}
	return scriptValue{raw, string(raw)}
}

// badLine is one line that cannot be run.
type badLine struct {
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}

// parseScript reads a whole script and checks every line of it. vars are the
// variables that are set before its first line. The error tells each bad line.
func (a *app) parseScript(name, text string, vars map[string]scriptValue) ([]scriptLine, error) {
	if len(text) > maxScript {
		return nil, usageError("run", "%s holds more than %d bytes; nothing was run", name, maxScript)
	}
	var lines []scriptLine
	var bad []badLine
	later := map[string][]scriptValue{} // what variables of results may hold, as far as known before
	for i, raw := range strings.Split(text, "\n") {
		number, written := i+1, strings.TrimSpace(raw)
		if written == "" || written[0] == '#' {
			continue
		}
		if len(lines) == maxScriptLines {
			return nil, usageError("run", "%s holds more than %d commands; nothing was run", name, maxScriptLines)
		}
		l := scriptLine{number: number, shown: written}
		err := l.parse(written)
		if err == nil {
			err = a.tryLine(&l, vars, later)
		}
		if err != nil {
			e := asError(err)
			problem := e.Message
			if e.Hint != "" {
				problem += " (" + e.Hint + ")"
			}
			bad = append(bad, badLine{number, problem})
		}
		for _, s := range l.saves {
			later[s.name] = laterValues
			if s.ref != nil {
				later[s.name] = laterValues[:1]
			}
		}
		lines = append(lines, l)
	}
	switch {
	case len(bad) > 0:
		return nil, badScript(name, bad)
	case len(lines) == 0:
		return nil, usageError("run", "%s holds no command", name)
	}
	return lines, nil
}

func badScript(name string, bad []badLine) *op.Error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %s; nothing was run", name, counted(len(bad), "bad line"))
	for _, l := range bad[:min(len(bad), maxShownBad)] {
		fmt.Fprintf(&b, "\n  line %d: %s", l.Line, l.Problem)
	}
	if more := len(bad) - maxShownBad; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return usageError("run", "%s", b.String()).WithDetail("lines", bad[:min(len(bad), maxShownBad)])
}

func (l *scriptLine) parse(line string) error {
	if len(line) > maxScriptLine {
		return fmt.Errorf("it is longer than %d bytes", maxScriptLine)
	}
	if line[0] == '{' {
		return l.parseJSON(line)
	}
	words, err := splitWords(line)
	if err != nil {
		return err
	}
	command, clauses := cutClauses(words)
	if len(command) == 0 {
		return fmt.Errorf("it has no command before =>")
	}
	name, ok := command[0].literal()
	if !ok {
		return fmt.Errorf("the name of the command may not be a variable")
	}
	l.args = command[1:]
	if name == "call" {
		l.call = true
		if len(l.args) == 0 || len(l.args) > 2 {
			return fmt.Errorf("call takes a tool and one JSON object")
		}
		if name, ok = l.args[0].literal(); !ok {
			return fmt.Errorf("the name of the tool may not be a variable")
		}
		l.args = l.args[1:]
	}
	for _, c := range clauses {
		if err := l.clause(c); err != nil {
			return err
		}
	}
	if l.desc, err = scriptOperation(name, l.call); err != nil {
		return err
	}
	return l.agree()
}

// scriptOperation finds what a line runs: an operation, since the other
// commands have no result to go on with.
func scriptOperation(name string, call bool) (op.Descriptor, error) {
	d, err := owner.Find(name)
	if err == nil || call {
		return d, err
	}
	if slices.ContainsFunc(ownCommands(), func(c *command) bool { return c.name == name }) {
		return d, fmt.Errorf("%s is no operation; a script runs the commands that see and act in a page", name)
	}
	if _, unknown := findCommand(name); unknown != nil {
		return d, unknown
	}
	return d, err
}

// cutClauses parts a command from what stands after each =>.
func cutClauses(words []word) (command []word, clauses [][]word) {
	parts := [][]word{nil}
	for _, w := range words {
		if text, ok := w.literal(); ok && w.bare && text == "=>" {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], w)
	}
	return parts[0], parts[1:]
}

const clauseForms = "after => stands one of: as NAME, as NAME value, as NAME /pointer, as NAME ref WORDS, text contains TEXT, text matches PATTERN, value equals TEXT, value /pointer equals TEXT, error KIND [CODE]"

// clause takes one clause of a command line.
func (l *scriptLine) clause(words []word) error {
	key := make([]string, len(words)) // what is literal
	for i, w := range words {
		key[i], _ = w.literal()
	}
	n := len(words)
	switch {
	case n >= 2 && key[0] == "as":
		s := save{name: key[1]}
		switch {
		case n == 2:
			s.text = true
		case n == 3 && key[2] == "value": // all of it
		case n == 3 && key[2] != "" && key[2] != "ref":
			s.pointer = key[2]
			if err := checkPointer(s.pointer); err != nil {
				return err
			}
		case n > 3 && key[2] == "ref":
			s.ref = joinWords(words[3:])
		default:
			return fmt.Errorf("%s", clauseForms)
		}
		l.saves = append(l.saves, s)
		return nil
	case n == 3 && key[0] == "text" && (key[1] == "contains" || key[1] == "matches"):
		return l.addCheck(check{kind: key[1], arg: words[2]})
	case n == 3 && key[0] == "value" && key[1] == "equals":
		return l.addCheck(check{kind: key[1], arg: words[2]})
	case n == 4 && key[0] == "value" && key[1] != "" && key[2] == "equals":
		return l.addCheck(check{kind: key[2], pointer: key[1], arg: words[3]})
	case (n == 2 || n == 3) && key[0] == "error":
		if l.want != nil {
			return fmt.Errorf("it expects two errors")
		}
		l.want = &wantedError{Kind: op.Kind(key[1])}
		if n == 3 {
			if key[2] == "" {
				return fmt.Errorf("the code of an error may not be a variable")
			}
			l.want.Code = op.Code(key[2])
		}
		return nil
	}
	return fmt.Errorf("%s; a text of several words needs quotes", clauseForms)
}

func joinWords(words []word) *word {
	var out word
	for i, w := range words {
		if i > 0 {
			out.pieces = append(out.pieces, piece{text: " "})
		}
		out.pieces = append(out.pieces, w.pieces...)
	}
	return &out
}

func (l *scriptLine) addCheck(c check) error {
	if c.kind == "equals" {
		if err := checkPointer(c.pointer); err != nil {
			return err
		}
	}
	l.checks = append(l.checks, c)
	return nil
}

// jsonLine is a line that is one JSON object.
type jsonLine struct {
	Tool   string                     `json:"tool"`
	Input  json.RawMessage            `json:"input"`
	Save   map[string]json.RawMessage `json:"save"`
	Expect struct {
		Text struct {
			Contains string `json:"contains"`
			Matches  string `json:"matches"`
		} `json:"text"`
		Value map[string]json.RawMessage `json:"value"`
		Error *wantedError               `json:"error"`
	} `json:"expect"`
}

func (l *scriptLine) parseJSON(line string) error {
	var in jsonLine
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return fmt.Errorf("it is no line of a script: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something stands after the JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(in.Save)) {
		s, err := jsonSave(name, in.Save[name])
		if err != nil {
			return err
		}
		l.saves = append(l.saves, s)
	}
	for kind, text := range map[string]string{"contains": in.Expect.Text.Contains, "matches": in.Expect.Text.Matches} {
		if text == "" {
			continue
		}
		w, err := splitText(text)
		if err != nil {
			return err
		}
		l.checks = append(l.checks, check{kind: kind, arg: w})
	}
	for _, p := range slices.Sorted(maps.Keys(in.Expect.Value)) {
		if err := l.addCheck(check{kind: "equals", pointer: p, value: in.Expect.Value[p]}); err != nil {
			return err
		}
	}
	l.want = in.Expect.Error
	if l.input = bytes.TrimSpace(in.Input); len(l.input) == 0 {
		l.input = json.RawMessage("{}")
	}
	var err error
	if l.desc, err = scriptOperation(in.Tool, true); err != nil {
		return err
	}
	return l.agree()
}

// jsonSave reads what is kept under a name: "text", a pointer, or {"ref": words}.
func jsonSave(name string, raw json.RawMessage) (save, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "text" {
			return save{name: name, text: true}, nil
		}
		return save{name: name, pointer: text}, checkPointer(text)
	}
	var by struct {
		Ref string `json:"ref"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&by); err != nil || by.Ref == "" {
		return save{}, fmt.Errorf(`save.%s is none of: "text", a pointer such as "/title", {"ref":"words"}`, name)
	}
	w, err := splitText(by.Ref)
	return save{name: name, ref: &w}, err
}

var wantedKinds = []op.Kind{op.Invalid, op.Rejected, op.OutcomeUnknown, op.Unavailable}

// agree checks what can be seen without values of variables.
func (l *scriptLine) agree() error {
	seen := map[string]bool{}
	for _, s := range l.saves {
		if !isName(s.name) {
			return fmt.Errorf("%q is no name of a variable: letters, digits and _, not a digit first", s.name)
		}
		if seen[s.name] {
			return fmt.Errorf("it sets $%s twice", s.name)
		}
		seen[s.name] = true
	}
	for _, c := range l.checks {
		if c.kind != "matches" {
			continue
		}
		// Values stand for themselves in a pattern, so that it is good or
		// bad whatever they are.
		pattern, err := c.arg.fill(func(string) (string, error) { return "x", nil }, nil)
		if err != nil {
			return err
		}
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("the pattern cannot be read: %w", err)
		}
	}
	if l.want == nil {
		return nil
	}
	if !slices.Contains(wantedKinds, l.want.Kind) {
		return fmt.Errorf("%q is no kind of an error; allowed: invalid, rejected, outcome-unknown, unavailable", l.want.Kind)
	}
	if len(l.saves) > 0 || slices.ContainsFunc(l.checks, func(c check) bool { return c.kind == "equals" }) {
		return fmt.Errorf("a command that must fail has no value: only its text can be expected too, which is the message")
	}
	return nil
}
