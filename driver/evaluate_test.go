package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// tagged is the start of every marker.
const tagged = `{"_tag":"PiChromeEvaluationMarker","kind":`

func eval(s *drivertest.Scenario, expression string) string {
	s.T.Helper()
	return string(s.Call("page.evaluate", map[string]any{"expression": expression}).Value)
}

// TestEvaluateLostReply checks that a lost reply is not a failure that changed
// nothing, and that the expression is not sent again.
func TestEvaluateLostReply(t *testing.T) {
	s := start(t, "")
	eval(s, "0")
	r := recorded(s)
	r.Reset()
	r.FailNth("Runtime.evaluate", 1, op.ErrReplyLost)
	s.Fail("page.evaluate", `{"expression":"globalThis.n = (globalThis.n || 0) + 1"}`, op.OutcomeUnknown, op.BrowserOperation)
	assert.Equal(t, r.Count("Runtime.evaluate"), 1)
	assert.Equal(t, s.Eval("n"), "1")
	r.FailNth("Runtime.evaluate", 1, op.ErrNotDelivered)
	s.Fail("page.evaluate", `{"expression":"n++"}`, op.Rejected, op.ConnectorOffline)
	assert.Equal(t, s.Eval("n"), "1")
}

// TestEvaluateDeadline checks that scripts without an end are stopped, and
// leave the page usable.
func TestEvaluateDeadline(t *testing.T) {
	s := start(t, "")
	lane := directLane(t)
	eval(s, "1") // its tab is prepared: the deadline is of scripts alone
	run := func(expression string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		in, err := json.Marshal(map[string]string{"expression": expression})
		assert.NilError(t, err)
		begin := time.Now()
		_, err = lane.Run(ctx, s.Conn, "page.evaluate", in)
		assert.Assert(t, time.Since(begin) < 3*time.Second, "%s took %s", expression, time.Since(begin))
		return err
	}
	for _, expression := range []string{
		"(() => { for (;;); })()",                   // before the first reply
		"(await 0, (() => { for (;;); })())",        // after it
		"new Promise(() => {})",                     // nothing runs
		"({ get x() { for (;;); } })",               // in the projection
		"new Proxy({}, { ownKeys() { for (;;); }})", // in a trap
	} {
		err := run(expression)
		e := op.AsError(err)
		assert.Equal(t, fmt.Sprint(e.Kind, " ", e.Code), "outcome-unknown deadline-exceeded", "%s: %v", expression, err)
		assert.Equal(t, eval(s, "40+2"), "42", "after %s", expression)
	}
	ctx, cancel := context.WithCancel(t.Context())
	recorded(s).BeforeNth("Runtime.evaluate", 1, func() { time.AfterFunc(50*time.Millisecond, cancel) })
	_, err := lane.Run(ctx, s.Conn, "page.evaluate", json.RawMessage(`{"expression":"new Promise(() => {})"}`))
	assert.Equal(t, op.AsError(err).Code, op.Canceled)
	assert.Equal(t, op.AsError(err).Kind, op.OutcomeUnknown)
}

// hostile are pages that replace what a projection could rely on. Values must
// come out right, or at least as markers; nothing may hang or fail.
var hostile = []string{
	"Object.keys = Object.getOwnPropertyNames = Object.getOwnPropertySymbols = null",
	"Object.keys = () => { throw 1 }; Reflect.ownKeys = () => { throw 2 }",
	"globalThis.Object = globalThis.Reflect = globalThis.Array = globalThis.JSON = undefined",
	"Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = () => 'bad'",
	"JSON.stringify = () => { throw 1 }; JSON.parse = () => { throw 2 }",
	"Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1 }",
	"Object.prototype.toString = Function.prototype.toString = Array.prototype.toString = () => { throw 1 }",
	"Array.isArray = () => true; Error.isError = () => true",
	"Array.prototype[Symbol.iterator] = () => { throw 1 }; Array.prototype.push = Array.prototype.map = null",
	"for (let i = 0; i < 130; i++) Object.defineProperty(Array.prototype, i, { set() { throw 1 }, get() { return 'bad' }, configurable: true })",
	"for (const k of ['value', 'thrown', 'kind', '_tag', 'total', 'a', 'enumerable', 'get', 'then']) Object.defineProperty(Object.prototype, k, { __proto__: null, set() { throw 1 }, get() { return undefined }, configurable: true })",
	"Promise.prototype.then = () => { throw 1 }; globalThis.Promise = null",
	"Object.setPrototypeOf(Object.prototype.__proto__ || {}, null); Object.defineProperty(Object.prototype, '__proto__', { get() { throw 1 }, set() { throw 1 } })",
	"Object.defineProperty(Symbol.prototype, 'description', { get() { throw 1 } }); String.prototype.slice = null",
	"Reflect.apply = (f, t, a) => f(...a); Reflect.getPrototypeOf = (o) => o; Reflect.getOwnPropertyDescriptor = () => ({ enumerable: true })",
	"Object.keys = () => ({ length: 1e9 }); Object.getOwnPropertySymbols = () => ({ length: 1e9 })",
	"Object.keys = (o) => { for (;;) return Reflect.ownKeys(o).concat([{}, 5, null]) }",
}

func TestEvaluateHostilePage(t *testing.T) {
	for _, attack := range hostile {
		s := start(t, "")
		s.Eval("(() => {" + attack + "})(), 0")
		for _, tt := range []struct{ expression, want string }{
			{"({a: 1, b: ['x', {c: null}], d: 'é', e: -0})", `{"a":1,"b":["x",{"c":null}],"d":"é","e":` + tagged + `"NegativeZero"}}`},
			{"[[], {}, [0, false, 'text']]", `[[],{},[0,false,"text"]]`},
			{"'text'", `"text"`},
			{"[1n, undefined]", `[` + tagged + `"BigInt","value":"1"},` + tagged + `"Undefined"}]`},
		} {
			got := eval(s, tt.expression)
			if strings.Contains(attack, "Array = ") || strings.HasPrefix(attack, "Object.keys = (o)") {
				// What an array is, or what its keys are, nothing tells any
				// more; it must still come out.
				assert.Assert(t, json.Valid([]byte(got)))
				continue
			}
			assert.Equal(t, got, tt.want, "%s\nafter %s", tt.expression, attack)
		}
		for _, expression := range []string{
			"[Symbol('x'), () => 1, new Date(0), /x/, document.body, window, new Proxy({}, {}), new Error('e')]",
			"[new Proxy([], { get() { throw new Error('trap') } })]",
			"new Proxy({}, { ownKeys() { return ['a'] }, getOwnPropertyDescriptor() { return { enumerable: true, configurable: true } }, get(t, k, r) { return r } })",
			"({ toJSON() { throw 1 }, get constructor() { throw 2 }, get [Symbol.toStringTag]() { throw 3 } })",
		} {
			raw := eval(s, expression)
			_, err := cdpmodel.CheckProjection(json.RawMessage(raw))
			assert.NilError(t, err, "%s\nafter %s\n%s", expression, attack, raw)
		}
	}
}

// TestEvaluateHostileValues checks values that fight back on a sane page.
func TestEvaluateHostileValues(t *testing.T) {
	s := start(t, "")
	for _, tt := range []struct{ expression, want string }{
		{"new Uint8Array(5e7)", `"omitted":49999872`},
		{"new Array(4e9)", `"omitted":3999999872`},
		{"'y'.repeat(5e7)", `"originalLength":50000000`},
		{"({ get [Symbol.toStringTag]() { throw 3 }, a: 1 })", `{"key":"a","value":1}`},
		{"Object.create({ get constructor() { throw new Error('no') } })", `"constructorName":"Object"`},
		{"(() => { const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { throw new Error('no stack') } }); return e })()", `"message":"no stack"`},
		{"new Proxy(function f() {}, {})", `"kind":"Function"`},
		{"window.frames", `"constructorName":"Window"`},
		{"(() => { const f = document.createElement('iframe'); document.body.append(f); const o = new f.contentWindow.Object(); o.a = 1; return o })()", `{"a":1}`},
		{"new DOMException('gone', 'AbortError')", `"name":"AbortError"`},
		{"(() => { let p = {}; p = new Proxy(p, { get: () => p, ownKeys: () => ['a', 'b'], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) }); return p })()", `"CircularReference"`},
		{"(() => { const g = () => new Proxy({}, { get: g, ownKeys: () => ['a', 'b'], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) }); return g() })()", `"NodeLimit"`},
		{"Object.assign(Object.create(null), Object.fromEntries(Array.from({length: 1e5}, (_, i) => ['k' + i, i])))", `"omitted":99872`},
	} {
		got := eval(s, tt.expression)
		assert.Assert(t, strings.Contains(got, tt.want), "%s: %.2000s", tt.expression, got)
		_, err := cdpmodel.CheckProjection(json.RawMessage(got))
		assert.NilError(t, err)
	}
}

// TestEvaluateLeavesNothing checks that an evaluation adds nothing to the
// page.
func TestEvaluateLeavesNothing(t *testing.T) {
	s := start(t, "")
	before := s.Eval("Reflect.ownKeys(globalThis).length")
	eval(s, "({a:1})")
	assert.Equal(t, s.Eval("Reflect.ownKeys(globalThis).length"), before)
	assert.Equal(t, s.Eval("typeof piChromeRun"), `"undefined"`)
	var buf bytes.Buffer
	assert.NilError(t, json.Compact(&buf, []byte(eval(s, "Object.keys({})"))))
	assert.Equal(t, buf.String(), "[]")
}

// TestEvaluateModel checks the script in the page against its model in
// cdpmodel on values that nobody thought of.
func TestEvaluateModel(t *testing.T) {
	s := start(t, "")
	rapid.Check(t, func(rt *rapid.T) {
		g := valueGenerator{t: rt, names: map[*cdpmodel.JSValue]string{}}
		v := g.value(0)
		expression := "(() => { " + g.setup.String() + "return " + g.expression(v) + " })()"
		res, err := s.Run("page.evaluate", map[string]any{"expression": expression})
		if err != nil {
			rt.Fatalf("%s: %v", expression, err)
		}
		var got, want any
		assert.NilError(rt, json.Unmarshal(res.Value, &got))
		assert.NilError(rt, json.Unmarshal(cdpmodel.Project(v), &want))
		assert.DeepEqual(rt, got, want)
		_, err = cdpmodel.CheckProjection(res.Value)
		assert.NilError(rt, err)
	})
}

// valueGenerator draws a value and writes the statements that make it.
type valueGenerator struct {
	t     *rapid.T
	setup strings.Builder
	names map[*cdpmodel.JSValue]string // variables of the objects
	list  []*cdpmodel.JSValue
	size  int
}

var texts = []string{"", "a", "key", "ä😀", "<b>&\u2028", strings.Repeat("k", 257), strings.Repeat("😀", 1001), "__proto__", "_tag", cdpmodel.MarkerTag, "toJSON", "then"}

func (g *valueGenerator) text() string { return rapid.SampledFrom(texts).Draw(g.t, "text") }

func (g *valueGenerator) value(depth int) *cdpmodel.JSValue {
	g.size++
	kinds := []cdpmodel.JSKind{cdpmodel.JSUndefined, cdpmodel.JSNull, cdpmodel.JSBoolean, cdpmodel.JSNumber, cdpmodel.JSString, cdpmodel.JSBigInt, cdpmodel.JSSymbol, "again"}
	if depth < 15 && g.size < 900 {
		kinds = append(kinds, cdpmodel.JSArray, cdpmodel.JSObject, cdpmodel.JSInstance, cdpmodel.JSFunction, cdpmodel.JSArray, cdpmodel.JSObject, cdpmodel.JSObject)
	}
	v := &cdpmodel.JSValue{Kind: rapid.SampledFrom(kinds).Draw(g.t, "kind")}
	switch v.Kind {
	case "again":
		if len(g.list) == 0 {
			return &cdpmodel.JSValue{Kind: cdpmodel.JSNull}
		}
		return rapid.SampledFrom(g.list).Draw(g.t, "again")
	case cdpmodel.JSBoolean:
		v.Bool = rapid.Bool().Draw(g.t, "bool")
	case cdpmodel.JSNumber:
		v.Number = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1.5, -7, 1e21, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 53}).Draw(g.t, "number")
	case cdpmodel.JSString:
		v.Text = g.text()
	case cdpmodel.JSBigInt:
		v.Text = strconv.Itoa(rapid.Int().Draw(g.t, "bigint"))
	case cdpmodel.JSSymbol:
		v.Unnamed = rapid.Bool().Draw(g.t, "unnamed")
		if !v.Unnamed {
			v.Text = g.text()
		}
	case cdpmodel.JSFunction:
		v.Text = "() => 1"
		g.declare(v, v.Text)
	case cdpmodel.JSArray:
		g.declare(v, "[]")
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 130}).Draw(g.t, "length")
		for i := range n {
			if n > 100 || rapid.IntRange(0, 9).Draw(g.t, "hole") == 0 {
				v.Items = append(v.Items, nil)
				continue
			}
			item := g.value(depth + 1)
			v.Items = append(v.Items, item)
			fmt.Fprintf(&g.setup, "%s[%d] = %s; ", g.names[v], i, g.expression(item))
		}
		fmt.Fprintf(&g.setup, "%s.length = %d; ", g.names[v], n)
	case cdpmodel.JSObject, cdpmodel.JSInstance:
		init := "{}"
		if v.Kind == cdpmodel.JSInstance {
			init, v.Class, v.Tag = "new Map()", "Map", "[object Map]"
		}
		g.declare(v, init)
		g.properties(v, depth)
	}
	return v
}

func (g *valueGenerator) declare(v *cdpmodel.JSValue, init string) {
	name := fmt.Sprintf("v%d", len(g.list))
	g.names[v] = name
	g.list = append(g.list, v)
	fmt.Fprintf(&g.setup, "const %s = %s; ", name, init)
}

func (g *valueGenerator) properties(v *cdpmodel.JSValue, depth int) {
	seen := map[string]bool{}
	if rapid.IntRange(0, 15).Draw(g.t, "many") == 0 {
		for i := range 130 {
			key := fmt.Sprintf("k%d", i)
			v.Props = append(v.Props, cdpmodel.JSProp{Key: key, Value: &cdpmodel.JSValue{Kind: cdpmodel.JSNull}})
			fmt.Fprintf(&g.setup, "%s.%s = null; ", g.names[v], key)
		}
	}
	for range rapid.IntRange(0, 4).Draw(g.t, "properties") {
		key := g.text()
		if key == "then" || seen[key] {
			continue // a thenable would be awaited
		}
		seen[key] = true
		define := fmt.Sprintf("Object.defineProperty(%s, %s, {enumerable: true, ", g.names[v], quoted(key))
		if rapid.IntRange(0, 9).Draw(g.t, "throws") == 0 {
			v.Props = append(v.Props, cdpmodel.JSProp{Key: key, Throws: "no"})
			g.setup.WriteString(define + "get() { throw new Error('no') }}); ")
			continue
		}
		value := g.value(depth + 1)
		v.Props = append(v.Props, cdpmodel.JSProp{Key: key, Value: value})
		g.setup.WriteString(define + "value: " + g.expression(value) + "}); ")
	}
	if rapid.IntRange(0, 7).Draw(g.t, "symbol") == 0 {
		v.Props = append(v.Props, cdpmodel.JSProp{Key: "s", Symbol: true, Value: &cdpmodel.JSValue{Kind: cdpmodel.JSNull}})
		fmt.Fprintf(&g.setup, "%s[Symbol('s')] = null; ", g.names[v])
	}
}

// expression names the object, or writes the primitive.
func (g *valueGenerator) expression(v *cdpmodel.JSValue) string {
	if name, ok := g.names[v]; ok {
		return name
	}
	switch v.Kind {
	case cdpmodel.JSUndefined:
		return "undefined"
	case cdpmodel.JSBoolean:
		return fmt.Sprint(v.Bool)
	case cdpmodel.JSNumber:
		switch {
		case math.IsNaN(v.Number):
			return "NaN"
		case math.IsInf(v.Number, 1):
			return "Infinity"
		case math.IsInf(v.Number, -1):
			return "-Infinity"
		case v.Number == 0 && math.Signbit(v.Number):
			return "-0"
		}
		return strconv.FormatFloat(v.Number, 'g', -1, 64)
	case cdpmodel.JSString:
		return quoted(v.Text)
	case cdpmodel.JSBigInt:
		return "(" + v.Text + "n)"
	case cdpmodel.JSSymbol:
		if v.Unnamed {
			return "Symbol()"
		}
		return "Symbol(" + quoted(v.Text) + ")"
	}
	return "null"
}

// quoted is a JavaScript literal of the text.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// BenchmarkEvaluate evaluates a small expression.
func BenchmarkEvaluate(b *testing.B) {
	s := start(b, "")
	for b.Loop() {
		eval(s, "({title: document.title, links: [1, 2, 3]})")
	}
}
