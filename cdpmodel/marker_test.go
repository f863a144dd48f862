package cdpmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

// TestMarkers checks that each kind is written in the contract's form and read
// back.
func TestMarkers(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for want, m := range map[string]Marker{
		`"Undefined"`:                                                  {Kind: KindUndefined},
		`"BigInt","value":"42"`:                                        {Kind: KindBigInt, Value: raw(`"42"`)},
		`"NonFiniteNumber","value":"-Infinity"`:                        {Kind: KindNonFiniteNumber, Value: raw(`"-Infinity"`)},
		`"NegativeZero"`:                                               {Kind: KindNegativeZero},
		`"Symbol","description":"s"`:                                   {Kind: KindSymbol, Description: raw(`"s"`)},
		`"Function","referenceId":1,"source":"() => 1"`:                {Kind: KindFunction, ReferenceID: 1, Source: raw(`"() => 1"`)},
		`"Error","referenceId":1,"name":"E","message":"m","stack":"s"`: {Kind: KindError, ReferenceID: 1, Name: raw(`"E"`), Message: raw(`"m"`), Stack: raw(`"s"`)},
		`"ArrayHole","index":0`:                                        {Kind: KindArrayHole},
		`"NonPlainObject","referenceId":2,"constructorName":"Map","objectTag":"[object Map]","properties":{}`: {Kind: KindNonPlainObject, ReferenceID: 2, ConstructorName: raw(`"Map"`), ObjectTag: raw(`"[object Map]"`), Properties: raw(`{}`)},
		`"StringTruncated","prefix":"<a>","originalLength":2003`:                                              {Kind: KindStringTruncated, Prefix: "<a>", OriginalLength: 2003},
		`"ObjectEntryProjection","referenceId":1,"entries":[{"key":"a","value":2}],"omitted":0,"limit":128`:   {Kind: KindObjectEntryProjection, ReferenceID: 1, Entries: []MarkerEntry{{raw(`"a"`), raw(`2`)}}, Limit: 128},
		`"SymbolKey","description":"k"`:                                  {Kind: KindSymbolKey, Description: raw(`"k"`)},
		`"KeyTruncated","prefix":"k","originalLength":300`:               {Kind: KindKeyTruncated, Prefix: "k", OriginalLength: 300},
		`"CircularReference","referenceId":1`:                            {Kind: KindCircularReference, ReferenceID: 1},
		`"SharedReference","referenceId":2`:                              {Kind: KindSharedReference, ReferenceID: 2},
		`"PropertyAccessError","message":"getter failed"`:                {Kind: KindPropertyAccessError, Message: raw(`"getter failed"`)},
		`"CollectionLimit","collection":"Array","omitted":2,"limit":128`: {Kind: KindCollectionLimit, Collection: "Array", Omitted: 2, Limit: 128},
		`"DepthLimit","depth":12,"limit":12`:                             {Kind: KindDepthLimit, Depth: 12, Limit: 12},
		`"NodeLimit","limit":512`:                                        {Kind: KindNodeLimit, Limit: 512},
		`"UninspectableObject","referenceId":1,"message":"no"`:           {Kind: KindUninspectableObject, ReferenceID: 1, Message: raw(`"no"`)},
		`"UninspectableObject","message":"no"`:                           {Kind: KindUninspectableObject, Message: raw(`"no"`)},
	} {
		want = `{"_tag":"PiChromeEvaluationMarker","kind":` + want + `}`
		got, err := m.MarshalJSON()
		assert.NilError(t, err)
		assert.Equal(t, string(got), want)
		back, err := ParseMarker(got)
		assert.NilError(t, err)
		assert.DeepEqual(t, back, m)
		_, err = CheckProjection(got)
		assert.NilError(t, err, want)
	}
	assert.Equal(t, len(markerFields), 20)
	_, err := (Marker{Kind: "Nothing"}).MarshalJSON()
	assert.ErrorContains(t, err, "no marker is called")
}

func TestParseMarkerRefuses(t *testing.T) {
	for _, raw := range []string{`1`, `"x"`, `[]`, `{}`, `{"_tag":"Other","kind":"Undefined"}`, `{"_tag":5}`, ``, `{`} {
		_, err := ParseMarker(json.RawMessage(raw))
		assert.ErrorIs(t, err, ErrNotMarker, raw)
	}
	for _, raw := range []string{`"kind":"Nothing"`, `"kind":5`, `"kind":"BigInt"`, `"kind":"Undefined","more":1`, `"kind":"ArrayHole","index":"x"`, `"kind":"NodeLimit"`} {
		_, err := ParseMarker(json.RawMessage(`{"_tag":"PiChromeEvaluationMarker",` + raw + `}`))
		assert.Assert(t, err != nil && !errors.Is(err, ErrNotMarker), raw)
	}
}

// TestCheckProjectionRefuses checks what a page could send that replaced the
// functions of the projection.
func TestCheckProjectionRefuses(t *testing.T) {
	tag := `{"_tag":"PiChromeEvaluationMarker","kind":`
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("0,", n), ",") }
	var keys strings.Builder
	for i := range 129 {
		fmt.Fprintf(&keys, `"k%d":0,`, i)
	}
	for raw, part := range map[string]string{
		`"` + strings.Repeat("x", 2001) + `"`:                                       "2001 characters",
		`[` + many(130) + `]`:                                                       "130 items",
		`{` + strings.TrimSuffix(keys.String(), ",") + `}`:                          "129 properties",
		`{"` + strings.Repeat("k", 257) + `":1}`:                                    "257 characters",
		strings.Repeat("[", 40) + strings.Repeat("]", 40):                           "deeper",
		`[` + strings.TrimSuffix(strings.Repeat(`[`+many(128)+`],`, 80), ",") + `]`: "nodes",
		tag + `"Nothing"}`:                                                          "no marker is called",
		tag + `"SharedReference","referenceId":0}`:                                  "refers to nothing",
		tag + `"SharedReference","referenceId":9999}`:                               "out of range",
		tag + `"NonFiniteNumber","value":"1"}`:                                      "has the value",
		tag + `"StringTruncated","prefix":"x","originalLength":1}`:                  "1 of 1 characters",
		tag + `"CollectionLimit","collection":"Array","omitted":-1,"limit":128}`:    "out of range",
		`{"a":}`: "invalid", `nul`: "not JSON", ``: "missing",
	} {
		_, err := CheckProjection(json.RawMessage(raw))
		assert.ErrorContains(t, err, part, "%.200s", raw)
	}
}

func TestAccount(t *testing.T) {
	a, err := CheckProjection(Project(&JSValue{Kind: JSArray, Items: []*JSValue{{Kind: JSString, Text: "x"}, nil, {Kind: JSObject}}}))
	assert.NilError(t, err)
	assert.Assert(t, a.Complete())
	assert.Equal(t, a.Nodes, 4)
	assert.Equal(t, a.Depth, 1)
	assert.Equal(t, a.Markers[KindArrayHole], 1)
	a, err = CheckProjection(Project(&JSValue{Kind: JSArray, Items: make([]*JSValue, 200)}))
	assert.NilError(t, err)
	assert.Assert(t, !a.Complete())
	assert.Equal(t, a.Omitted, 72)
}

// drawValue draws a value with shared and circular parts.
func drawValue(t *rapid.T, depth int, made *[]*JSValue) *JSValue {
	kinds := []JSKind{JSUndefined, JSNull, JSBoolean, JSNumber, JSString, JSBigInt, JSSymbol, "again"}
	if depth < 16 && len(*made) < 700 {
		kinds = append(kinds, JSArray, JSObject, JSInstance, JSFunction, JSError, JSArray, JSObject)
	}
	v := &JSValue{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	text := func() string {
		return rapid.SampledFrom([]string{"", "a", "_tag", MarkerTag, strings.Repeat("x", 2001), strings.Repeat("😀", 1001), "é"}).Draw(t, "text")
	}
	switch v.Kind {
	case "again":
		if len(*made) == 0 {
			return &JSValue{Kind: JSNull}
		}
		return rapid.SampledFrom(*made).Draw(t, "again")
	case JSNumber:
		v.Number = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), 1.5, 1e300}).Draw(t, "number")
	case JSString, JSBigInt, JSSymbol, JSFunction, JSError:
		v.Text = text()
	}
	switch v.Kind {
	case JSArray, JSObject, JSInstance:
	default:
		return v
	}
	*made = append(*made, v)
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 129}).Draw(t, "n")
	for i := range n {
		item := &JSValue{Kind: JSNull}
		if i < 4 {
			item = drawValue(t, depth+1, made)
		}
		if v.Kind == JSArray {
			v.Items = append(v.Items, item)
		} else {
			v.Props = append(v.Props, JSProp{Key: fmt.Sprint(text(), i), Symbol: i > 100, Value: item})
		}
	}
	return v
}

// checkProject: whatever is projected keeps within every bound, is what it
// says, and refers only to what was given a number.
func checkProject(t *rapid.T) {
	var made []*JSValue
	raw := Project(drawValue(t, 0, &made))
	a, err := CheckProjection(raw)
	assert.NilError(t, err)
	assert.Assert(t, json.Valid(raw))
	assert.Assert(t, len(raw) < 8<<20)
	assert.Assert(t, a.Depth <= 2*MaxDepth+2)
}

func TestProjectProperties(t *testing.T) { rapid.Check(t, checkProject) }

func FuzzProject(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkProject)) }

func FuzzCheckProjection(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"_tag":"PiChromeEvaluationMarker","kind":"Undefined"}]}`))
	f.Add([]byte(`{"_tag":"PiChromeEvaluationMarker","kind":"ObjectEntryProjection","referenceId":1,"entries":[{"key":"a","value":2}],"omitted":0,"limit":128}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := CheckProjection(raw)
		if err == nil {
			assert.Assert(t, json.Valid(raw))
			assert.Assert(t, a.Nodes <= slackNodes)
		}
	})
}
