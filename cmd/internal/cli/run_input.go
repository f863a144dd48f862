package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/owner"
)

// laterValues stand for a value that is not known before the script runs, when
// its lines are checked: a ref first, then the other kinds of values.
var laterValues = []scriptValue{
	textValue("el-1"), textValue("https://example.org/"), jsonScriptValue(json.RawMessage("1")), jsonScriptValue(json.RawMessage("true")),
}

// maxLater bounds the variables of results in one line, for each is tried.
const maxLater = 3

// tryLine builds a line's input without running it. Where it has variables of
// earlier results, one way to fill them must do.
func (a *app) tryLine(l *scriptLine, vars map[string]scriptValue, later map[string][]scriptValue) error {
	names, err := l.names()
	if err != nil {
		return err
	}
	all := maps.Clone(vars)
	var open []string
	for _, n := range names {
		_, isLater := later[n]
		if _, known := vars[n]; !known && !isLater {
			return fmt.Errorf("$%s is not set before this line; set it with --var %s=…, take it from the environment with --env %s, or keep it from a result with => as %s", n, n, n, n)
		}
		if isLater {
			open = append(open, n)
		}
	}
	if len(open) > maxLater {
		return fmt.Errorf("it uses %d variables of earlier results; at most %d can be checked before", len(open), maxLater)
	}
	validate := owner.Validate
	if len(open) > 0 {
		validate = owner.ValidateForm
	}
	return a.tryEach(l, all, open, later, validate)
}

func (a *app) tryEach(l *scriptLine, vars map[string]scriptValue, open []string, later map[string][]scriptValue, validate validator) error {
	if len(open) == 0 {
		_, _, err := a.lineInput(l, vars, validate)
		return err
	}
	var first error
	for _, v := range later[open[0]] {
		vars[open[0]] = v
		err := a.tryEach(l, vars, open[1:], later, validate)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// names are the variables that a line uses, each once.
func (l *scriptLine) names() ([]string, error) {
	var names []string
	add := func(name string) (scriptValue, error) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return scriptValue{raw: json.RawMessage("null")}, nil
	}
	words := slices.Clone(l.args)
	for _, s := range l.saves {
		if s.ref != nil {
			words = append(words, *s.ref)
		}
	}
	for _, c := range l.checks {
		words = append(words, c.arg)
		if c.value != nil {
			if _, err := fillJSON(c.value, add); err != nil {
				return nil, err
			}
		}
	}
	for _, w := range words {
		for _, n := range w.names() {
			_, _ = add(n)
		}
	}
	if l.input != nil {
		if _, err := fillJSON(l.input, add); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// fillJSON puts the values of variables into the strings of a JSON text. A
// string that is one variable becomes its value, of whatever kind.
func fillJSON(raw json.RawMessage, value func(name string) (scriptValue, error)) (json.RawMessage, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	v, err := fillAny(v, value)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

func fillAny(v any, value func(name string) (scriptValue, error)) (any, error) {
	var err error
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if x[k], err = fillAny(e, value); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, e := range x {
			if x[i], err = fillAny(e, value); err != nil {
				return nil, err
			}
		}
	case string:
		w, err := splitText(x)
		if err != nil {
			return nil, err
		}
		if len(w.pieces) == 1 && w.pieces[0].name != "" {
			val, err := value(w.pieces[0].name)
			return val.raw, err
		}
		return w.fill(func(name string) (string, error) {
			val, err := value(name)
			return val.text, err
		}, nil)
	}
	return v, nil
}

// lineGlobals are the flags of every command that a line may have; the others
// are those of the whole run.
var lineGlobals = []string{"browser", "pace", "foreground", "timeout"}

// validator checks an operation's input.
type validator func(operation string, input json.RawMessage) error

// lineInput builds what a line runs with, and checks it: the input, and the
// command line as the line's flags have it.
func (a *app) lineInput(l *scriptLine, vars map[string]scriptValue, validate validator) (*app, json.RawMessage, error) {
	value := func(name string) (scriptValue, error) {
		v, ok := vars[name]
		if !ok {
			return v, fmt.Errorf("$%s is not set", name)
		}
		return v, nil
	}
	sub := *a
	sub.file = nil
	sub.globals.output = ""
	var raw json.RawMessage
	var err error
	if l.input != nil {
		raw, err = fillJSON(l.input, value)
	} else {
		args := make([]string, len(l.args))
		for i, w := range l.args {
			args[i], err = w.fill(func(name string) (string, error) {
				v, err := value(name)
				return v.text, err
			}, nil)
			if err != nil {
				return nil, nil, err
			}
		}
		raw, err = sub.lineFlags(l, args)
	}
	if err != nil {
		return nil, nil, err
	}
	checked := absolutePaths(a.env.Dir, l.desc.Tool, raw)
	if err := validate(l.desc.Name, checked); err != nil {
		return nil, nil, err
	}
	if err := artifact.Check(l.desc.Tool, checked); err != nil {
		return nil, nil, err
	}
	return &sub, raw, nil
}

// lineFlags reads the flags and arguments of a command line.
func (a *app) lineFlags(l *scriptLine, args []string) (json.RawMessage, error) {
	if l.call {
		if len(args) == 0 {
			return json.RawMessage("{}"), nil
		}
		return json.RawMessage(args[0]), nil
	}
	name := l.desc.Command()
	set := a.newFlagSet(name)
	a.globals.register(set)
	common := a.globalSet()
	in := newInput(l.desc)
	in.register(set)
	if err := set.Parse(args); err != nil {
		return nil, a.flagError(set, name, err)
	}
	for _, f := range changedFlags(set) {
		if common.Lookup(f) != nil && !slices.Contains(lineGlobals, f) {
			return nil, fmt.Errorf("--%s is for the whole script; give it to pi-chrome run", f)
		}
	}
	if err := a.globals.resolve(a.env); err != nil {
		return nil, err
	}
	err := in.positional(set.Args(), func() (string, error) {
		return "", fmt.Errorf("a script's commands have no stdin; write the expression in quotes")
	})
	if err != nil {
		return nil, err
	}
	return in.build()
}

func changedFlags(set *pflag.FlagSet) []string {
	var names []string
	set.Visit(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
