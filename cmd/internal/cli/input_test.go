package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

type testIn struct {
	op.TabInput
	Text       string         `json:"text" maxLength:"50" jsonschema:"what to write"`
	Mode       string         `json:"mode,omitzero" enum:"fast|slow"`
	MaxItems   int            `json:"maxItems,omitzero" min:"1" max:"80"`
	Ratio      float64        `json:"ratio,omitzero"`
	Strict     bool           `json:"strict,omitzero"`
	Tags       []string       `json:"tags,omitempty"`
	Conditions []testChoice   `json:"conditions,omitempty"`
	Modifiers  testSwitches   `json:"modifiers,omitzero"`
	Snapshot   *testNested    `json:"snapshot,omitempty"`
	Extra      map[string]any `json:"extra,omitempty"`
}

type testChoice struct {
	By    string `json:"by" enum:"selector|load"`
	Value string `json:"value,omitzero"`
}

type testSwitches struct {
	Shift   bool `json:"shift,omitzero"`
	Control bool `json:"control,omitzero"`
}

type testNested struct {
	Mode  string `json:"mode,omitzero" enum:"auto|full"`
	Query string `json:"query,omitzero"`
}

func testDescriptor(t testing.TB) op.Descriptor {
	t.Helper()
	o := op.Define(op.Spec{Name: "test.write", Tool: "chrome_test_write", Args: []string{"text"}},
		func(context.Context, int, testIn) (struct{}, error) { return struct{}{}, nil })
	d, err := o.Descriptor()
	assert.NilError(t, err)
	return d
}

func parseInput(t testing.TB, args ...string) (string, error) {
	t.Helper()
	in := newInput(testDescriptor(t))
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	in.register(set)
	if err := set.Parse(args); err != nil {
		return "", err
	}
	if err := in.positional(set.Args(), func() (string, error) { return "from stdin", nil }); err != nil {
		return "", err
	}
	raw, err := in.build()
	return string(raw), err
}

func TestFlagsBecomeInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, `{}`},
		"positional":           {[]string{"hello world"}, `{"text":"hello world"}`},
		"positional as flag":   {[]string{"--text", "hello"}, `{"text":"hello"}`},
		"after two dashes":     {[]string{"--mode=fast", "--", "-5 degrees"}, `{"mode":"fast","text":"-5 degrees"}`},
		"empty text":           {[]string{""}, `{"text":""}`},
		"kebab case":           {[]string{"--max-items", "7"}, `{"maxItems":7}`},
		"negative number":      {[]string{"--ratio", "-0.5"}, `{"ratio":-0.5}`},
		"switch":               {[]string{"--strict"}, `{"strict":true}`},
		"switch off":           {[]string{"--strict=false"}, `{"strict":false}`},
		"list":                 {[]string{"--tags", "a,b", "--tags", "c"}, `{"tags":["a,b","c"]}`},
		"list as JSON":         {[]string{"--tags", `["a","b"]`}, `{"tags":["a","b"]}`},
		"list of choices":      {[]string{"--conditions", "selector=a=b", "--conditions", "load"}, `{"conditions":[{"by":"selector","value":"a=b"},{"by":"load"}]}`},
		"target by number":     {[]string{"--target", "12"}, `{"target":{"by":"id","value":"12"}}`},
		"target by title":      {[]string{"--target", "title=A=B"}, `{"target":{"by":"title","value":"A=B"}}`},
		"modifiers":            {[]string{"--modifiers", "ctrl+Shift"}, `{"modifiers":{"control":true,"shift":true}}`},
		"nested bare":          {[]string{"--snapshot"}, `{"snapshot":{}}`},
		"nested as JSON":       {[]string{`--snapshot={"mode":"full"}`}, `{"snapshot":{"mode":"full"}}`},
		"nested field":         {[]string{"--snapshot.mode", "full"}, `{"snapshot":{"mode":"full"}}`},
		"nested bare and more": {[]string{"--snapshot.query=x", "--snapshot"}, `{"snapshot":{"query":"x"}}`},
		"JSON under flags":     {[]string{"--json-input", `{"text":"a","snapshot":{"mode":"full","query":"q"}}`, "--snapshot.mode=auto"}, `{"snapshot":{"mode":"auto","query":"q"},"text":"a"}`},
		"big number":           {[]string{"--json-input", `{"ratio":12345678901234567890}`}, `{"ratio":12345678901234567890}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseInput(t, c.args...)
			assert.NilError(t, err)
			assert.Equal(t, got, c.want)
		})
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"not a number":         {[]string{"--max-items", "many"}, `"many" for "--max-items" flag: it must be a whole number, 1 to 80`},
		"fraction":             {[]string{"--max-items", "1.5"}, "it must be a whole number"},
		"not finite":           {[]string{"--ratio", "NaN"}, "it must be a number"},
		"not a boolean":        {[]string{"--strict=perhaps"}, "allowed: true, false"},
		"unknown choice":       {[]string{"--target", "name=x"}, "allowed: id=…, url=…, title=…"},
		"id that is no number": {[]string{"--target", "id=first"}, "an id is the number that pi-chrome tab-list shows"},
		"choice without value": {[]string{"--target", "url"}, "allowed: id=…, url=…, title=…"},
		"unknown modifier":     {[]string{"--modifiers", "ctrl+hyper"}, `"hyper" is none of: shift, control`},
		"not JSON":             {[]string{"--json-input", "{"}, "not JSON"},
		"JSON list":            {[]string{"--json-input", "[]"}, "not JSON of the right form"},
		"JSON null":            {[]string{"--json-input", "null"}, "it must be a JSON object"},
		"two values":           {[]string{"--json-input", "{} {}"}, "more than one JSON value"},
		"argument twice":       {[]string{"a", "b"}, `takes TEXT, but got "b" too`},
		"argument and flag":    {[]string{"--text=a", "b"}, `takes TEXT, but got "b" too`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseInput(t, c.args...)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestShorthandsFillNestedFields(t *testing.T) {
	type wait struct {
		Condition testWait `json:"condition"`
	}
	o := op.Define(op.Spec{Name: "page.wait", Tool: "chrome_wait"}, func(context.Context, int, wait) (struct{}, error) { return struct{}{}, nil })
	d, err := o.Descriptor()
	assert.NilError(t, err)
	parse := func(args ...string) (string, error) {
		in := newInput(d)
		set := pflag.NewFlagSet("wait", pflag.ContinueOnError)
		in.register(set)
		if err := set.Parse(args); err != nil {
			return "", err
		}
		raw, err := in.build()
		return string(raw), err
	}
	got, err := parse("--text", "Paid = yes")
	assert.NilError(t, err)
	assert.Equal(t, got, `{"condition":{"by":"textContains","value":"Paid = yes"}}`)
	got, err = parse("--condition", "urlIncludes=/done")
	assert.NilError(t, err)
	assert.Equal(t, got, `{"condition":{"by":"urlIncludes","value":"/done"}}`)
	_, err = parse("--text", "a", "--selector", "b")
	assert.ErrorContains(t, err, "it cannot be given together with --text")
}

type testWait struct {
	By    string `json:"by" enum:"selector|textContains|urlIncludes|expression"`
	Value string `json:"value,omitzero"`
}

// Any flags that are taken make one JSON object that says what they said.
func TestFlagsRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.String().Draw(r, "text")
		n := rapid.IntRange(-1000, 1000).Draw(r, "n")
		query := rapid.String().Draw(r, "query")
		in := newInput(testDescriptor(t))
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		in.register(set)
		assert.NilError(r, set.Parse([]string{"--max-items", json.Number(jsonOf(n)).String(), "--snapshot.query", query, "--", text}))
		assert.NilError(r, in.positional(set.Args(), nil))
		raw, err := in.build()
		assert.NilError(r, err)
		var back testIn
		assert.NilError(r, json.Unmarshal(raw, &back))
		assert.Equal(r, back.MaxItems, n)
		assert.Equal(r, jsonOf(back.Text), jsonOf(text))
		assert.Equal(r, jsonOf(back.Snapshot.Query), jsonOf(query))
	})
}

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
