package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"pi-chrome/driver/op"
)

// input collects the flags of one operation into its JSON input.
type input struct {
	desc  op.Descriptor
	base  map[string]any    // of --json-input
	given map[string]any    // of flags; nested fields are nested maps
	by    map[string]string // dotted field → flag that gave it
}

// shorthand is a flag that stands for a field which the descriptor has in
// another form, so that a person has less to type.
type shorthand struct {
	flag, varname, usage string
	path                 []string
	value                func(text string) any // nil: the text itself
	with                 map[string]any        // fields set beside it, by dotted path
	bare                 string                // value of the flag without one
}

// shorthands of the tools. A flag whose tool does not have the field is not
// offered.
var shorthands = map[string][]shorthand{
	"chrome_wait": {
		{flag: "selector", varname: "css", usage: "wait for an element", path: []string{"condition", "value"}, with: map[string]any{"condition.by": "selector"}},
		{flag: "text", varname: "text", usage: "wait for a text on the page", path: []string{"condition", "value"}, with: map[string]any{"condition.by": "textContains"}},
		{flag: "url", varname: "part", usage: "wait until the URL holds this part", path: []string{"condition", "value"}, with: map[string]any{"condition.by": "urlIncludes"}},
		{flag: "expression", varname: "js", usage: "wait until this is true", path: []string{"condition", "value"}, with: map[string]any{"condition.by": "expression"}},
	},
	"chrome_screenshot": {
		{flag: "full-page", usage: "the whole page as tiles", path: []string{"capture", "kind"}, bare: "true",
			value: func(text string) any {
				if text == "false" {
					return "viewport"
				}
				return "full-page-tiles"
			}},
		{flag: "path", varname: "file", usage: "save the viewport's picture here, below the working directory", path: []string{"capture", "path"}},
		{flag: "directory", varname: "folder", usage: "save the tiles here, below the working directory", path: []string{"capture", "directory"}, with: map[string]any{"capture.kind": "full-page-tiles"}},
	},
}

// defaults fill what a person leaves out and the tool requires.
var defaults = map[string]map[string]any{
	"chrome_screenshot": {"format": "png", "capture.kind": "viewport"},
}

func newInput(desc op.Descriptor) *input {
	return &input{desc: desc, base: map[string]any{}, given: map[string]any{}, by: map[string]string{}}
}

// register adds one flag a field to set, in the order of the schema.
func (in *input) register(set *pflag.FlagSet) {
	short := map[string]bool{}
	for _, s := range shorthands[in.desc.Tool] {
		if in.desc.Input.Properties[s.path[0]] == nil {
			continue
		}
		short[s.flag] = true
		f := set.VarPF(&shortValue{in: in, s: s}, s.flag, "", s.usage)
		f.NoOptDefVal = s.bare
	}
	for _, name := range fieldOrder(in.desc.Input) {
		if s := in.desc.Input.Properties[name]; !short[kebab(name)] {
			in.registerField(set, []string{name}, s)
		}
	}
	set.Var(&jsonValue{in: in}, "json-input", "the input as one JSON `object`; flags and arguments win over its fields")
}

func (in *input) registerField(set *pflag.FlagSet, path []string, s *jsonschema.Schema) {
	if set.Lookup(flagName(path)) != nil {
		return // a flag of every command, such as --pace, says the same for the session
	}
	v := &fieldValue{in: in, path: path, schema: s, flag: flagName(path)}
	f := set.VarPF(v, v.flag, "", strings.ReplaceAll(usageOf(s), "`", "'"))
	switch {
	case s.Type == "boolean":
		f.NoOptDefVal = "true"
	case s.Type == "object" && !isChoice(s) && !isSwitches(s):
		f.NoOptDefVal = "{}"
		if len(path) > 1 {
			return
		}
		for _, name := range fieldOrder(s) {
			in.registerField(set, append(slices.Clone(path), name), s.Properties[name])
		}
	}
}

// positional puts the arguments into the fields that the descriptor names, in
// order. A field that a flag gave already, or whose place an exclusive one
// took, is passed over: fill --ref el-4 TEXT and fill el-4 TEXT say the same.
func (in *input) positional(args []string, stdin func() (string, error)) error {
	open := in.open()
	for i, arg := range args {
		if i >= len(open) {
			usage := argList(in.desc)
			if usage == "" {
				usage = "no argument"
			}
			return usageError(in.desc.Command(), "pi-chrome %s takes %s, but got %q too", in.desc.Command(), usage, arg)
		}
		name := open[i]
		if arg == "-" && name == "expression" {
			text, err := stdin()
			if err != nil {
				return err
			}
			arg = text
		}
		value, err := parseField(in.desc.Input.Properties[name], arg)
		if err != nil {
			return usageError(in.desc.Command(), "argument %s is %q: %s", strings.ToUpper(name), arg, err).WithDetail("field", name)
		}
		if err := in.put([]string{name}, value, strings.ToUpper(name)); err != nil {
			return usageError(in.desc.Command(), "%s", err).WithDetail("field", name)
		}
	}
	return nil
}

// open lists the fields that the next arguments go to.
func (in *input) open() []string {
	var open []string
	for _, name := range in.desc.Args {
		if !in.taken(name) {
			open = append(open, name)
		}
	}
	return open
}

// taken reports whether a flag gave the field, or another one of a group of
// which only one may be given.
func (in *input) taken(name string) bool {
	if _, ok := in.given[name]; ok {
		return true
	}
	for _, group := range in.desc.OneOf {
		if !slices.Contains(group, name) {
			continue
		}
		for _, alt := range group {
			for other := range strings.SplitSeq(alt, "+") {
				if _, ok := in.given[other]; ok && other != name {
					return true
				}
			}
		}
	}
	return false
}

// put sets a field once.
func (in *input) put(path []string, value any, flag string) error {
	key := strings.Join(path, ".")
	if before := in.by[key]; before != "" && before != flag {
		return fmt.Errorf("%s and %s cannot be given together", before, flag)
	}
	in.by[key] = flag
	setPath(in.given, path, value)
	return nil
}

// build returns the input as JSON.
func (in *input) build() (json.RawMessage, error) {
	all := merge(in.base, in.given)
	for path, value := range defaults[in.desc.Tool] {
		setDefault(all, strings.Split(path, "."), value)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return nil, fmt.Errorf("encoding the input: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

func setPath(m map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := m[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	name := path[len(path)-1]
	if old, ok := m[name].(map[string]any); ok {
		if add, ok := value.(map[string]any); ok {
			value = merge(old, add)
		}
	}
	m[name] = value
}

func setDefault(m map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := m[name].(map[string]any)
		if !ok {
			if m[name] != nil {
				return
			}
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	if name := path[len(path)-1]; m[name] == nil {
		m[name] = value
	}
}

// merge returns a with the fields of b over it.
func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		old, isMap := out[k].(map[string]any)
		add, addMap := v.(map[string]any)
		if isMap && addMap {
			out[k] = merge(old, add)
			continue
		}
		out[k] = v
	}
	return out
}

// fieldValue is the flag of one field.
type fieldValue struct {
	in     *input
	path   []string
	schema *jsonschema.Schema
	flag   string
	text   string
}

func (v *fieldValue) String() string { return v.text }

func (v *fieldValue) Type() string {
	s := v.schema
	switch {
	case isChoice(s):
		return "how=value"
	case isSwitches(s):
		return "name+name"
	case s.Type == "integer", s.Type == "number":
		return "number"
	case s.Type == "boolean":
		return ""
	case s.Type == "array" && s.Items != nil && isChoice(s.Items):
		return "how=value"
	case s.Type == "array":
		return "item"
	case s.Type == "object":
		return "JSON"
	}
	return "text"
}

func (v *fieldValue) Set(text string) error {
	value, err := parseField(v.schema, text)
	if err != nil {
		return err
	}
	v.text = text
	if v.schema.Type == "array" {
		// A list's flag is given once for each item.
		if list, ok := lookup(v.in.given, v.path).([]any); ok {
			value = append(list, value.([]any)...)
		}
	}
	return v.in.put(v.path, value, "--"+v.flag)
}

func lookup(m map[string]any, path []string) any {
	var v any = m
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

type shortValue struct {
	in   *input
	s    shorthand
	text string
}

func (v *shortValue) String() string { return v.text }
func (v *shortValue) Type() string   { return v.s.varname }

func (v *shortValue) Set(text string) error {
	v.text = text
	var value any = text
	if v.s.value != nil {
		if text != "true" && text != "false" {
			return fmt.Errorf("allowed: true, false")
		}
		value = v.s.value(text)
	}
	flag := "--" + v.s.flag
	for _, path := range slices.Sorted(maps.Keys(v.s.with)) {
		parts := strings.Split(path, ".")
		if old := lookup(v.in.given, parts); old != nil && old != v.s.with[path] {
			return fmt.Errorf("it cannot be given together with %s", v.in.by[path])
		}
		v.in.by[path] = flag
		setPath(v.in.given, parts, v.s.with[path])
	}
	return v.in.put(v.s.path, value, flag)
}

type jsonValue struct {
	in   *input
	text string
}

func (v *jsonValue) String() string { return v.text }
func (v *jsonValue) Type() string   { return "object" }
func (v *jsonValue) Set(text string) error {
	var m map[string]any
	if err := decodeOne(text, &m); err != nil {
		return err
	}
	if m == nil {
		return fmt.Errorf("it must be a JSON object")
	}
	v.text, v.in.base = text, m
	return nil
}

// decodeOne decodes exactly one JSON value.
func decodeOne(text string, to any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("not JSON of the right form: %w", err)
	}
	if dec.More() {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}

// parseField reads a flag's text as the schema says. Bounds and enums are
// left to the validation of the operation, which names them all.
func parseField(s *jsonschema.Schema, text string) (any, error) {
	switch {
	case isChoice(s):
		return parseChoice(s, text)
	case isSwitches(s):
		return parseSwitches(s, text)
	}
	switch s.Type {
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("it must be a whole number%s", boundsOf(s))
		}
		return n, nil
	case "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n-n != 0 {
			return nil, fmt.Errorf("it must be a number%s", boundsOf(s))
		}
		return n, nil
	case "boolean":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("allowed: true, false")
		}
		return b, nil
	case "array":
		if s.Items != nil && (s.Items.Type != "object" || isChoice(s.Items) && !strings.HasPrefix(text, "{")) && !strings.HasPrefix(text, "[") {
			item, err := parseField(s.Items, text)
			return []any{item}, err
		}
		var list []any
		if err := decodeOne(text, &list); err == nil {
			return list, nil
		}
		var item any
		err := decodeOne(text, &item)
		return []any{item}, err
	case "object":
		var m map[string]any
		err := decodeOne(text, &m)
		return m, err
	case "":
		if len(s.AnyOf) == 0 && len(s.Types) == 0 {
			var v any
			if decodeOne(text, &v) == nil {
				return v, nil
			}
		}
	}
	return text, nil
}

// isChoice reports whether s is {by, value}: written HOW=VALUE.
func isChoice(s *jsonschema.Schema) bool {
	return s.Type == "object" && s.Properties["by"] != nil && s.Properties["value"] != nil && len(s.Properties["by"].Enum) > 0
}

func parseChoice(s *jsonschema.Schema, text string) (any, error) {
	if strings.HasPrefix(text, "{") {
		var m map[string]any
		err := decodeOne(text, &m)
		return m, err
	}
	how, value, ok := strings.Cut(text, "=")
	var allowed []string
	for _, e := range s.Properties["by"].Enum {
		allowed = append(allowed, fmt.Sprint(e))
	}
	if slices.Contains(allowed, "uid") && refText.MatchString(text) {
		how, value, ok = "uid", text, true
	}
	if p := s.Properties[how]; ok && p != nil && p.Type == "string" && how != "by" && how != "value" && slices.Contains(allowed, "find") {
		// By what a person perceives: label=Email.
		return map[string]any{"by": "find", how: value}, nil
	}
	if !ok && slices.Contains(allowed, "id") {
		if _, err := strconv.Atoi(text); err == nil {
			how, value, ok = "id", text, true
		}
	}
	if !ok && slices.Contains(allowed, text) && !slices.Contains(s.Required, "value") {
		return map[string]any{"by": text}, nil
	}
	if !ok || !slices.Contains(allowed, how) {
		return nil, fmt.Errorf("allowed: %s=…", strings.Join(allowed, "=…, "))
	}
	if how == "coordinate" {
		x, y, _ := strings.Cut(value, ",")
		point := map[string]any{"by": how}
		for name, text := range map[string]string{"x": x, "y": y} {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				return nil, fmt.Errorf("a point is X,Y in CSS pixels, as in coordinate=300,120")
			}
			point[name] = n
		}
		return point, nil
	}
	if _, err := strconv.ParseUint(value, 10, 31); how == "id" && err != nil {
		return nil, fmt.Errorf("an id is the number that pi-chrome tab-list shows")
	}
	return map[string]any{"by": how, "value": value}, nil
}

// refText is a ref of a snapshot.
var refText = regexp.MustCompile(`^@?el-\d+$`)

// isSwitches reports whether s is an object of booleans only: written a+b.
func isSwitches(s *jsonschema.Schema) bool {
	if s.Type != "object" || len(s.Properties) == 0 {
		return false
	}
	for _, p := range s.Properties {
		if p.Type != "boolean" {
			return false
		}
	}
	return true
}

// switchNames are other names of the modifier keys.
var switchNames = map[string]string{"ctrl": "control", "cmd": "meta", "command": "meta", "option": "alt"}

func parseSwitches(s *jsonschema.Schema, text string) (any, error) {
	out := map[string]any{}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '+' || r == ',' }) {
		name := strings.ToLower(part)
		if s.Properties[name] == nil && s.Properties[switchNames[name]] != nil {
			name = switchNames[name]
		}
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("%q is none of: %s", part, strings.Join(fieldOrder(s), ", "))
		}
		out[name] = true
	}
	return out, nil
}

// fieldOrder lists the fields in the order of the source.
func fieldOrder(s *jsonschema.Schema) []string {
	names := slices.Clone(s.PropertyOrder)
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, k) {
			names = append(names, k)
		}
	}
	return names
}

// flagName is the flag of a field: capture.kind, max-elements.
func flagName(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		parts[i] = kebab(p)
	}
	return strings.Join(parts, ".")
}

func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// usageOf is the description of a field with what it allows.
func usageOf(s *jsonschema.Schema) string {
	text := s.Description
	var allowed string
	switch {
	case isChoice(s):
		var hows []string
		for _, e := range s.Properties["by"].Enum {
			if e == "find" {
				hows = append(hows, "role=…", "name=…", "label=…", "text=…", "testId=…")
				continue
			}
			hows = append(hows, fmt.Sprint(e)+"=…")
		}
		allowed = strings.Join(hows, ", ")
	case isSwitches(s):
		allowed = strings.Join(fieldOrder(s), "+")
	case len(s.Enum) > 0:
		var all []string
		for _, e := range s.Enum {
			all = append(all, fmt.Sprint(e))
		}
		allowed = strings.Join(all, ", ")
	default:
		allowed = strings.TrimPrefix(boundsOf(s), ", ")
	}
	if allowed == "" {
		return text
	}
	if text == "" {
		return allowed
	}
	return text + " [" + allowed + "]"
}

func boundsOf(s *jsonschema.Schema) string {
	// Not %v, which writes 100000000 as 1e+08.
	number := func(f *float64) string { return strconv.FormatFloat(*f, 'f', -1, 64) }
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return ", " + number(s.Minimum) + " to " + number(s.Maximum)
	case s.Minimum != nil:
		return ", at least " + number(s.Minimum)
	case s.Maximum != nil:
		return ", at most " + number(s.Maximum)
	case s.MinLength != nil && s.MaxLength != nil:
		return fmt.Sprintf(", %d to %d characters", *s.MinLength, *s.MaxLength)
	case s.MaxLength != nil:
		return fmt.Sprintf(", at most %d characters", *s.MaxLength)
	}
	return ""
}

// argList is the positional part of the usage line: "URL" or "[TEXT]".
func argList(desc op.Descriptor) string {
	var parts []string
	for _, name := range desc.Args {
		arg := strings.ToUpper(kebab(name))
		if !slices.Contains(desc.Input.Required, name) {
			arg = "[" + arg + "]"
		}
		parts = append(parts, arg)
	}
	return strings.Join(parts, " ")
}
