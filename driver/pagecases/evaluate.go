package pagecases

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

const marker = `{"_tag":"PiChromeEvaluationMarker","kind":`

func eval(s *drivertest.Scenario, expression string) string {
	s.T.Helper()
	return string(s.Call("page.evaluate", map[string]any{"expression": expression}).Value)
}

var numbers = regexp.MustCompile(`-?[0-9.]+`)

var evaluateCases = []drivertest.Case{
	{Name: "evaluate--vectors", Do: evaluateVectors},
	{Name: "evaluate--errors", Do: evaluateErrors},
	{Name: "evaluate--dialog", Do: evaluateDialog},
	{Name: "evaluate--values", Page: "evaluate/values.html", Do: func(s *drivertest.Scenario) {
		var names []string
		s.Value("page.evaluate", `{"expression":"Object.keys(values)"}`, &names)
		var b strings.Builder
		for _, name := range names {
			expression := "values." + name
			if name == "revoked" {
				expression = "[" + expression + "]" // nobody can wait for it by itself
			}
			v := eval(s, expression)
			if name == "rect" { // its numbers are of the window and the fonts
				v = numbers.ReplaceAllString(v, "N")
			}
			if len(v) > 1000 {
				v = v[:500] + " … " + v[len(v)-400:]
			}
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
		s.Golden("page.evaluate", b.String())
	}},
	{Name: "evaluate--globals", Page: "evaluate/globals.html", Do: func(s *drivertest.Scenario) {
		assert.Equal(s.T, eval(s, "[lexical, variable, Object.getOwnPropertyNames(window).length - before - 1]"), `["lexical","variable",0]`)
		assert.Equal(s.T, eval(s, "globalThis.mine = 5"), "5")
		assert.Equal(s.T, eval(s, "mine"), "5")
	}},
	{Name: "evaluate--csp", Page: "evaluate/csp.html", Do: func(s *drivertest.Scenario) {
		assert.Equal(s.T, eval(s, "document.getElementById('text').textContent"), `"Strict"`)
	}},
	{Name: "evaluate--hostile", Page: "evaluate/hostile.html", Do: func(s *drivertest.Scenario) {
		assert.Equal(s.T, eval(s, "sample"), `{"list":[1,2],"text":"plain"}`)
		assert.Equal(s.T, eval(s, "[1, , {a: -0}]"), `[1,`+marker+`"ArrayHole","index":1},{"a":`+marker+`"NegativeZero"}}]`)
	}},
	{Name: "evaluate--promises", Page: "evaluate/promises.html", Do: func(s *drivertest.Scenario) {
		assert.Equal(s.T, eval(s, "late()"), `"late"`)
		assert.Equal(s.T, eval(s, "thenable"), `"from a thenable"`)
		s.Fail("page.evaluate", `{"expression":"goAway()"}`, op.OutcomeUnknown, op.DocumentChanged)
	}},
	{Name: "evaluate--throws", Page: "evaluate/throws.html", Do: func(s *drivertest.Scenario) {
		for expression, text := range map[string]string{
			"throwError()": "RangeError: out of range", "throwString()": `it threw "a string"`, "throwNothing()": "Undefined",
			"throwObject()": `it threw {"code":7}`, "reject()": "Error: rejected", "mutateThenThrow()": "Error: after an effect",
		} {
			e := s.Fail("page.evaluate", map[string]any{"expression": expression}, op.OutcomeUnknown, op.EvaluationFailed)
			assert.Assert(s.T, strings.Contains(e.Message, text), "%s: %s", expression, e.Message)
		}
		assert.Equal(s.T, s.Eval("effects"), "1")
	}},
}

// evaluateVectors checks the projection of every kind of value against
// contract §1.12.
func evaluateVectors(s *drivertest.Scenario) {
	t := s.T
	deep := strings.Repeat(`{"c":`, 12) + marker + `"DepthLimit","depth":12,"limit":12}` + strings.Repeat("}", 12)
	var first128, entries []string
	for i := range 128 {
		first128 = append(first128, fmt.Sprint(i))
		entries = append(entries, fmt.Sprintf(`{"key":"k%d","value":%d}`, i, i))
	}
	for _, tt := range []struct{ expression, want string }{
		{"undefined", marker + `"Undefined"}`},
		{"42n", marker + `"BigInt","value":"42"}`},
		{"NaN", marker + `"NonFiniteNumber","value":"NaN"}`},
		{"Infinity", marker + `"NonFiniteNumber","value":"Infinity"}`},
		{"-Infinity", marker + `"NonFiniteNumber","value":"-Infinity"}`},
		{"-0", marker + `"NegativeZero"}`},
		{"Symbol('s')", marker + `"Symbol","description":"s"}`},
		{"Symbol('')", marker + `"Symbol","description":""}`},
		{"Symbol()", marker + `"Symbol","description":` + marker + `"Undefined"}}`},
		{"function f(){return 1}", marker + `"Function","referenceId":1,"source":"function f(){return 1}"}`},
		{"class A {\n}", marker + `"Function","referenceId":1,"source":"class A {\n}"}`},
		{"[1,,3]", `[1,` + marker + `"ArrayHole","index":1},3]`},
		{"new Date(0)", marker + `"NonPlainObject","referenceId":1,"constructorName":"Date","objectTag":"[object Date]","properties":{}}`},
		{"new Map([[1,2]])", marker + `"NonPlainObject","referenceId":1,"constructorName":"Map","objectTag":"[object Map]","properties":{}}`},
		{"/a/g", marker + `"NonPlainObject","referenceId":1,"constructorName":"RegExp","objectTag":"[object RegExp]","properties":{}}`},
		{"new Uint8Array([1,2])", marker + `"NonPlainObject","referenceId":1,"constructorName":"Uint8Array","objectTag":"[object Uint8Array]","properties":{"0":1,"1":2}}`},
		{"({p: new Promise(() => {})}).p && [new Promise(() => {})]", `[` + marker + `"NonPlainObject","referenceId":2,"constructorName":"Promise","objectTag":"[object Promise]","properties":{}}]`},
		{"'x'.repeat(2003)", marker + `"StringTruncated","prefix":"` + strings.Repeat("x", 2000) + `","originalLength":2003}`},
		{"'x'.repeat(2000)", `"` + strings.Repeat("x", 2000) + `"`},
		{"'x'.repeat(1999)+'😀'", marker + `"StringTruncated","prefix":"` + strings.Repeat("x", 1999) + `","originalLength":2001}`},
		{"({[Symbol('k')]:1,a:2})", marker + `"ObjectEntryProjection","referenceId":1,"entries":[{"key":"a","value":2},{"key":` + marker + `"SymbolKey","description":"k"},"value":1}],"omitted":0,"limit":128}`},
		{"null", `null`}, {"'s'", `"s"`}, {"true", `true`}, {"1.5", `1.5`}, {"1e21", `1e+21`},
		{"({a:{b:[1]}})", `{"a":{"b":[1]}}`},
		{"({__proto__: null, a: 1})", `{"a":1}`},
		{"({['__proto__']: 1})", `{"__proto__":1}`},
		{"({b:1,a:2,1:3})", `{"1":3,"b":1,"a":2}`},
		{"(() => { const first = {v:1}, o = {first, second: first}; o.self = o; return o })()",
			`{"first":{"v":1},"second":` + marker + `"SharedReference","referenceId":2},"self":` + marker + `"CircularReference","referenceId":1}}`},
		{"({get x() { throw new Error('getter failed') }})", `{"x":` + marker + `"PropertyAccessError","message":"getter failed"}}`},
		{"Array.from({length:130}, (_, i) => i)", `[` + strings.Join(first128, ",") + `,` + marker + `"CollectionLimit","collection":"Array","omitted":2,"limit":128}]`},
		{"Object.fromEntries(Array.from({length:130}, (_, i) => ['k'+i, i]))",
			marker + `"ObjectEntryProjection","referenceId":1,"entries":[` + strings.Join(entries, ",") + `],"omitted":2,"limit":128}`},
		{"(() => { let o = {}; const top = o; for (let i = 0; i < 14; i++) o = o.c = {}; return top })()", deep},
		{"({['k'.repeat(300)]:1})", marker + `"ObjectEntryProjection","referenceId":1,"entries":[{"key":` + marker + `"KeyTruncated","prefix":"` + strings.Repeat("k", 256) + `","originalLength":300},"value":1}],"omitted":0,"limit":128}`},
		{"(() => { const r = Proxy.revocable({}, {}); r.revoke(); return [r.proxy] })()",
			`[` + marker + `"UninspectableObject","referenceId":2,"message":"Cannot perform 'getPrototypeOf' on a proxy that has been revoked"}]`},
		{"new DOMRect(1, 2, 3, 4)", `{"x":1,"y":2,"width":3,"height":4,"top":2,"right":4,"bottom":6,"left":1}`},
		{"({_tag:'PiChromeEvaluationMarker',kind:'Undefined'})",
			marker + `"ObjectEntryProjection","referenceId":1,"entries":[{"key":"_tag","value":"PiChromeEvaluationMarker"},{"key":"kind","value":"Undefined"}],"omitted":0,"limit":128}`},
		{"'\\ud800x'", `"�x"`},
		{"document.all", marker + `"NonPlainObject","referenceId":1,"constructorName":"HTMLAllCollection","objectTag":"[object HTMLAllCollection]","properties":{"0":` +
			`{"_tag":"PiChromeEvaluationMarker","kind":"NonPlainObject","referenceId":2,"constructorName":"HTMLHtmlElement","objectTag":"[object HTMLHtmlElement]","properties":{}},"1":` +
			`{"_tag":"PiChromeEvaluationMarker","kind":"NonPlainObject","referenceId":3,"constructorName":"HTMLHeadElement","objectTag":"[object HTMLHeadElement]","properties":{}},"2":` +
			`{"_tag":"PiChromeEvaluationMarker","kind":"NonPlainObject","referenceId":4,"constructorName":"HTMLBodyElement","objectTag":"[object HTMLBodyElement]","properties":{}}}}`},
		{"1 // a comment", `1`},
		{"await Promise.resolve(7)", `7`},
		{"Promise.resolve({then: 5})", `{"then":5}`},
		{"this === window", `true`},
	} {
		got := eval(s, tt.expression)
		assert.Equal(t, got, tt.want, tt.expression)
	}

	var e struct{ Tag, Kind, Name, Message, Stack string }
	s.Value("page.evaluate", `{"expression":"new RangeError('boom')"}`, &e)
	assert.Equal(t, e.Kind+e.Name+e.Message, "ErrorRangeErrorboom")
	assert.Assert(t, strings.HasPrefix(e.Stack, "RangeError: boom\n    at <anonymous>:1:"), e.Stack)
	assert.Assert(t, !strings.Contains(e.Stack, "project"), "the stack shows our own script: %s", e.Stack)

	// Beyond 512 nodes only markers follow, and nothing else is larger.
	raw := eval(s, "Array.from({length:128}, () => [1,2,3,4])")
	assert.Assert(t, strings.HasSuffix(raw, strings.Repeat(`,`+marker+`"NodeLimit","limit":512}`, 3)+`]`), raw[len(raw)-300:])
	account, err := cdpmodel.CheckProjection(json.RawMessage(raw))
	assert.NilError(t, err)
	assert.Assert(t, !account.Complete())

	// Without awaiting, a promise is a value.
	res := s.Call("page.evaluate", `{"expression":"Promise.resolve(1)","awaitPromise":false}`)
	assert.Equal(t, string(res.Value), marker+`"NonPlainObject","referenceId":1,"constructorName":"Promise","objectTag":"[object Promise]","properties":{}}`)
	assert.Equal(t, s.Call("page.evaluate", `{"expression":"'plain\\ntext'"}`).Text, "plain\ntext")
	assert.Equal(t, s.Call("page.evaluate", `{"expression":"({a:1})"}`).Text, "{\n  \"a\": 1\n}")
}

// evaluateErrors checks what is rejected and what is outcome-unknown, and
// where the expression is said to be wrong.
func evaluateErrors(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		input        string
		kind         op.Kind
		message      string
		line, column int
	}{
		{`{"expression":"var x = 1"}`, op.Rejected, "Unexpected token 'var'", 1, 1},
		{`{"expression":"1 +\n  )"}`, op.Rejected, "Unexpected token ')'", 2, 3},
		{`{"expression":"[1, 2"}`, op.Rejected, "Unexpected token ')'", 1, 6},
		{`{"expression":"await 1","awaitPromise":false}`, op.Rejected, "Unexpected number", 1, 7},
		{`{"expression":"// nothing"}`, op.Rejected, "Unexpected token ')'", 1, 11},
		{`{"expression":"null.x"}`, op.OutcomeUnknown, "TypeError: Cannot read properties of null (reading 'x')", 1, 6},
		{`{"expression":"[1,\n  missing]","awaitPromise":false}`, op.OutcomeUnknown, "ReferenceError: missing is not defined", 2, 3},
		{`{"expression":"JSON.parse('{')"}`, op.OutcomeUnknown, "SyntaxError: Expected property name", 1, 6},
		{`{"expression":"JSON.parse('{')","awaitPromise":false}`, op.OutcomeUnknown, "SyntaxError: Expected property name", 1, 6},
		{`{"expression":"Promise.reject('no')"}`, op.OutcomeUnknown, `it threw "no"`, 0, 0},
		{`{"expression":"Promise.reject(undefined)"}`, op.OutcomeUnknown, `"kind":"Undefined"`, 0, 0},
		{`{"expression":"(() => { throw { get message() { throw 1 } } })()"}`, op.OutcomeUnknown, "PropertyAccessError", 0, 0},
		{`{"expression":"(function f() { f() })()"}`, op.OutcomeUnknown, "RangeError: Maximum call stack size exceeded", 0, 0},
	} {
		e := s.Fail("page.evaluate", tt.input, tt.kind, op.EvaluationFailed)
		assert.Assert(t, strings.Contains(e.Message, tt.message), "%s: %s", tt.input, e.Message)
		assert.Assert(t, e.Hint != "" && e.Details["exception"] != "", tt.input)
		if tt.line > 0 {
			assert.Equal(t, fmt.Sprint(e.Details["line"], ":", e.Details["column"]), fmt.Sprint(tt.line, ":", tt.column), "%s: %s", tt.input, e.Message)
		}
	}
	for input, field := range map[string]string{
		`{}`: "expression", `{"expression":""}`: "expression", `{"expression":"  \n"}`: "expression",
		`{"expression":1}`: "expression", `{"expression":"1","awaitPromise":"yes"}`: "awaitPromise", `{"expression":"1","script":"2"}`: "script",
	} {
		e := s.Fail("page.evaluate", input, op.Invalid, op.InvalidInput)
		assert.Assert(t, strings.Contains(e.Message, field), e.Message)
	}
}

// evaluateDialog checks that a dialog ends the call at once, and that the next
// one says what stands open.
func evaluateDialog(s *drivertest.Scenario) {
	t := s.T
	for _, expression := range []string{"alert('stop here')", "(await 0, confirm('stop here'))"} {
		begin := time.Now()
		e := s.Fail("page.evaluate", map[string]any{"expression": expression}, op.OutcomeUnknown, op.DialogOpen)
		assert.Assert(t, time.Since(begin) < 5*time.Second)
		assert.Equal(t, e.Details["message"], "stop here")
		e = s.Fail("page.evaluate", `{"expression":"1"}`, op.Rejected, op.DialogOpen)
		assert.Equal(t, e.Details["message"], "stop here")
		assert.NilError(t, s.Conn.Call(t.Context(), "Page.handleJavaScriptDialog", map[string]any{"accept": true}, nil))
		assert.Equal(t, eval(s, "1"), "1")
	}
}
