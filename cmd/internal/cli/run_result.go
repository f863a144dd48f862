package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pi-chrome/driver/op"
)

// maxSaved bounds the value of one variable.
const maxSaved = 1 << 20

// checkPointer refuses what is no JSON pointer (RFC 6901).
func checkPointer(p string) error {
	if p != "" && p[0] != '/' {
		return fmt.Errorf("%q is no JSON pointer: it begins with /, as in /actions/0/id", p)
	}
	for i := strings.IndexByte(p, '~'); i >= 0; {
		if i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1' {
			return fmt.Errorf("%q is no JSON pointer: write ~0 for ~ and ~1 for /", p)
		}
		next := strings.IndexByte(p[i+1:], '~')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return nil
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// valueAt is the value at a JSON pointer; the error says where the way ends.
func valueAt(raw json.RawMessage, pointer string) (json.RawMessage, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	if pointer == "" {
		return raw, nil
	}
	at := ""
	for token := range strings.SplitSeq(pointer[1:], "/") {
		name := pointerEscapes.Replace(token)
		where := "the result"
		if at != "" {
			where = at
		}
		var list []json.RawMessage
		var fields map[string]json.RawMessage
		switch raw = bytes.TrimSpace(raw); {
		case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(list) {
				return nil, fmt.Errorf("%s is not there: %s has %s", pointer, where, counted(len(list), "item"))
			}
			raw = list[i]
		case raw[0] == '{' && json.Unmarshal(raw, &fields) == nil:
			next, ok := fields[name]
			if !ok {
				var names []string
				for k := range fields {
					names = append(names, k)
				}
				slices.Sort(names)
				return nil, fmt.Errorf("%s is not there: %s has %s", pointer, where, clip(strings.Join(names, ", "), 200))
			}
			raw = next
		default:
			return nil, fmt.Errorf("%s is not there: %s is %s", pointer, where, clip(string(raw), 100))
		}
		at += "/" + token
	}
	return raw, nil
}

// clip cuts a text for a message.
func clip(text string, max int) string {
	if r := []rune(text); len(r) > max {
		return string(r[:max]) + "…"
	}
	return text
}

// element is what snapshots and finds tell of something that can be acted on.
type element struct {
	ID    string   `json:"id"`
	UID   string   `json:"uid"`
	Role  string   `json:"role"`
	Name  string   `json:"name"`
	Verbs []string `json:"verbs"`
}

// refOf is the ref of the one action of a result that words name: each of them
// stands in its role or name. Of several the one whose role and name, or name,
// is just that.
func refOf(raw json.RawMessage, words string) (string, error) {
	var in struct {
		Actions []element `json:"actions"`
		Matches []element `json:"matches"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return "", fmt.Errorf("no ref of %q: the result has no elements", words)
	}
	asked := strings.ToLower(strings.Join(strings.Fields(words), " "))
	var fit, exact []element
	all := append(in.Actions, in.Matches...)
	for _, e := range all {
		if e.ID == "" {
			e.ID = e.UID
		}
		if len(e.Verbs) == 0 || slices.ContainsFunc(fit, func(f element) bool { return f.ID == e.ID }) {
			continue
		}
		name := strings.ToLower(e.Name)
		is := strings.ToLower(e.Role) + " " + name
		if slices.ContainsFunc(strings.Fields(asked), func(w string) bool { return !strings.Contains(is, w) }) {
			continue
		}
		fit = append(fit, e)
		if asked == is || asked == name {
			exact = append(exact, e)
		}
	}
	if len(exact) == 1 {
		fit = exact
	}
	switch {
	case len(fit) == 1:
		return fit[0].ID, nil
	case len(fit) == 0:
		return "", fmt.Errorf("no ref of %q: none of the %s of the result is called that", words, counted(len(all), "element"))
	}
	var names []string
	for _, e := range fit[:min(len(fit), 5)] {
		names = append(names, fmt.Sprintf("%s %s %q", e.ID, e.Role, clip(e.Name, 40)))
	}
	return "", fmt.Errorf("no one ref of %q: %d elements are called that: %s", words, len(fit), strings.Join(names, ", "))
}

// lineResult is what a line came to.
type lineResult struct {
	value json.RawMessage
	text  string // of an error its message
	err   *op.Error
}

// unmet says which expectation of a line its result does not meet; "" for
// none. An error that was not expected is no matter of this.
func (l *scriptLine) unmet(r lineResult, vars map[string]scriptValue) string {
	if w := l.want; w != nil {
		wanted := string(w.Kind)
		if w.Code != "" {
			wanted += " " + string(w.Code)
		}
		switch {
		case r.err == nil:
			return fmt.Sprintf("it was done, but expected was the error %s", wanted)
		case r.err.Kind != w.Kind || w.Code != "" && r.err.Code != w.Code:
			return fmt.Sprintf("it failed with %s %s, but expected was %s: %s", r.err.Kind, r.err.Code, wanted, r.err.Message)
		}
	}
	text := func(name string) (string, error) { return vars[name].text, nil }
	for _, c := range l.checks {
		if problem := c.problem(r, vars, text); problem != "" {
			return problem
		}
	}
	return ""
}

func (c check) problem(r lineResult, vars map[string]scriptValue, text variable) string {
	switch c.kind {
	case "contains":
		want, err := c.arg.fill(text, nil)
		if err != nil || !strings.Contains(r.text, want) {
			return fmt.Sprintf("its text does not contain %q; it is %q", want, clip(r.text, 300))
		}
		return ""
	case "matches":
		want, err := c.arg.fill(text, regexp.QuoteMeta)
		if err != nil {
			return err.Error()
		}
		re, err := regexp.Compile(want)
		if err != nil {
			return err.Error()
		}
		if !re.MatchString(r.text) {
			return fmt.Sprintf("its text does not match %q; it is %q", want, clip(r.text, 300))
		}
		return ""
	}
	got, err := valueAt(r.value, c.pointer)
	if err != nil {
		return err.Error()
	}
	want := c.value
	if want != nil {
		want, err = fillJSON(want, func(name string) (scriptValue, error) { return vars[name], nil })
	} else {
		var is string
		is, err = c.arg.fill(text, nil)
		// On a command line a text is a text where the value is one, else
		// it is read as JSON.
		want = textValue(is).raw
		if json.Valid([]byte(is)) && !bytes.HasPrefix(got, []byte(`"`)) {
			want = json.RawMessage(is)
		}
	}
	if err != nil {
		return err.Error()
	}
	if !sameJSON(got, want) {
		where := "its value"
		if c.pointer != "" {
			where = "the value at " + c.pointer
		}
		return fmt.Sprintf("%s is %s, but expected was %s", where, clip(string(got), 300), clip(string(want), 300))
	}
	return ""
}

// sameJSON compares two JSON texts by value.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// keep puts what the line keeps of its result into vars.
func (l *scriptLine) keep(r lineResult, vars map[string]scriptValue) error {
	for _, s := range l.saves {
		var v scriptValue
		switch {
		case s.text:
			v = textValue(r.text)
		case s.ref != nil:
			words, err := s.ref.fill(func(name string) (string, error) { return vars[name].text, nil }, nil)
			if err != nil {
				return err
			}
			ref, err := refOf(r.value, words)
			if err != nil {
				return err
			}
			v = textValue(ref)
		default:
			raw, err := valueAt(r.value, s.pointer)
			if err != nil {
				return fmt.Errorf("$%s cannot be set: %w", s.name, err)
			}
			v = jsonScriptValue(raw)
		}
		if len(v.raw) > maxSaved {
			return fmt.Errorf("$%s cannot be set: the value has %d bytes; at most %d are kept", s.name, len(v.raw), maxSaved)
		}
		vars[s.name] = v
	}
	return nil
}
