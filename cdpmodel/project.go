package cdpmodel

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
)

// JSKind is the kind of a JavaScript value.
type JSKind string

// The kinds of values that [Project] knows.
const (
	JSUndefined JSKind = "undefined"
	JSNull      JSKind = "null"
	JSBoolean   JSKind = "boolean"
	JSNumber    JSKind = "number"
	JSString    JSKind = "string"
	JSBigInt    JSKind = "bigint"
	JSSymbol    JSKind = "symbol"
	JSFunction  JSKind = "function"
	JSArray     JSKind = "array"
	JSObject    JSKind = "object"   // plain
	JSInstance  JSKind = "instance" // of a class: not plain
	JSError     JSKind = "error"
)

// JSValue is a JavaScript value as [Project] sees it. Two references to one
// *JSValue of an object kind are one object.
type JSValue struct {
	Kind    JSKind
	Bool    bool
	Number  float64
	Text    string     // of a string, bigint, symbol or function's source; an error's message
	Unnamed bool       // a symbol without description
	Class   string     // constructor of an instance, name of an error
	Tag     string     // what Object.prototype.toString says of an instance
	Stack   string     // of an error
	Items   []*JSValue // of an array; nil is a hole
	Props   []JSProp   // own enumerable properties: strings, then symbols
}

// JSProp is one property. A getter that throws has Throws set to its message.
type JSProp struct {
	Key    string
	Symbol bool // Key is a symbol's description
	Value  *JSValue
	Throws string
}

// Project is the projection of a value (contract §1.12): the model that the
// script in the page is tested against.
func Project(v *JSValue) json.RawMessage {
	p := projector{ids: map[*JSValue]int{}, active: map[*JSValue]bool{}}
	return p.value(v, 0)
}

type projector struct {
	nodes  int
	ids    map[*JSValue]int
	active map[*JSValue]bool
}

func (p *projector) value(v *JSValue, depth int) json.RawMessage {
	if p.nodes++; p.nodes > MaxNodes {
		return encode(Marker{Kind: KindNodeLimit, Limit: MaxNodes})
	}
	switch v.Kind {
	case JSUndefined:
		return encode(Marker{Kind: KindUndefined})
	case JSNull:
		return json.RawMessage("null")
	case JSBoolean:
		return encode(v.Bool)
	case JSNumber:
		return number(v.Number)
	case JSString:
		return text(v.Text)
	case JSBigInt:
		return encode(Marker{Kind: KindBigInt, Value: text(v.Text)})
	case JSSymbol:
		return encode(Marker{Kind: KindSymbol, Description: description(v.Text, v.Unnamed)})
	}
	if id := p.ids[v]; id != 0 {
		kind := KindSharedReference
		if p.active[v] {
			kind = KindCircularReference
		}
		return encode(Marker{Kind: kind, ReferenceID: id})
	}
	if depth >= MaxDepth {
		return encode(Marker{Kind: KindDepthLimit, Depth: depth, Limit: MaxDepth})
	}
	id := len(p.ids) + 1
	p.ids[v], p.active[v] = id, true
	defer delete(p.active, v)
	switch v.Kind {
	case JSFunction:
		return encode(Marker{Kind: KindFunction, ReferenceID: id, Source: text(v.Text)})
	case JSError:
		return encode(Marker{Kind: KindError, ReferenceID: id, Name: text(v.Class), Message: text(v.Text), Stack: text(v.Stack)})
	case JSArray:
		return encode(p.items(v.Items, depth))
	case JSInstance:
		return encode(Marker{Kind: KindNonPlainObject, ReferenceID: id, ConstructorName: text(v.Class), ObjectTag: text(v.Tag),
			Properties: p.properties(v.Props, id, depth)})
	}
	return p.properties(v.Props, id, depth)
}

func (p *projector) items(list []*JSValue, depth int) []json.RawMessage {
	out := []json.RawMessage{}
	for i, item := range list[:min(len(list), MaxEntries)] {
		if item == nil {
			out = append(out, encode(Marker{Kind: KindArrayHole, Index: i}))
			continue
		}
		out = append(out, p.value(item, depth+1))
	}
	if n := len(list) - MaxEntries; n > 0 {
		out = append(out, encode(Marker{Kind: KindCollectionLimit, Collection: "Array", Omitted: n, Limit: MaxEntries}))
	}
	return out
}

// properties are written as a JSON object where one can hold them, and could
// not be taken for a marker.
func (p *projector) properties(props []JSProp, id, depth int) json.RawMessage {
	plain := len(props) <= MaxEntries
	for _, e := range props {
		forged := e.Key == "_tag" && e.Value != nil && e.Value.Kind == JSString && e.Value.Text == MarkerTag
		plain = plain && !e.Symbol && units(e.Key) <= MaxKeyLength && !forged
	}
	if plain {
		out := []byte("{")
		for i, e := range props {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, encode(e.Key)...), ':'), p.property(e, depth)...)
		}
		return append(out, '}')
	}
	m := Marker{Kind: KindObjectEntryProjection, ReferenceID: id, Limit: MaxEntries, Omitted: max(0, len(props)-MaxEntries)}
	for _, e := range props[:min(len(props), MaxEntries)] {
		m.Entries = append(m.Entries, MarkerEntry{Key: key(e), Value: p.property(e, depth)})
	}
	return encode(m)
}

func (p *projector) property(e JSProp, depth int) json.RawMessage {
	if e.Throws != "" {
		return encode(Marker{Kind: KindPropertyAccessError, Message: text(e.Throws)})
	}
	return p.value(e.Value, depth+1)
}

func key(e JSProp) json.RawMessage {
	if e.Symbol {
		return encode(Marker{Kind: KindSymbolKey, Description: text(e.Key)})
	}
	if prefix, n, cut := truncate(e.Key, MaxKeyLength); cut {
		return encode(Marker{Kind: KindKeyTruncated, Prefix: prefix, OriginalLength: n})
	}
	return encode(e.Key)
}

func description(s string, unnamed bool) json.RawMessage {
	if unnamed {
		return encode(Marker{Kind: KindUndefined})
	}
	return text(s)
}

func text(s string) json.RawMessage {
	if prefix, n, cut := truncate(s, MaxStringLength); cut {
		return encode(Marker{Kind: KindStringTruncated, Prefix: prefix, OriginalLength: n})
	}
	return encode(s)
}

// truncate cuts s to limit units, one less where the cut would part a
// surrogate pair.
func truncate(s string, limit int) (prefix string, length int, cut bool) {
	u := utf16.Encode([]rune(s))
	if len(u) <= limit {
		return s, len(u), false
	}
	n := limit
	if utf16.IsSurrogate(rune(u[n-1])) && u[n-1] < 0xDC00 {
		n--
	}
	return string(utf16.Decode(u[:n])), len(u), true
}

func number(f float64) json.RawMessage {
	switch {
	case math.IsNaN(f):
		return encode(Marker{Kind: KindNonFiniteNumber, Value: encode("NaN")})
	case math.IsInf(f, 1):
		return encode(Marker{Kind: KindNonFiniteNumber, Value: encode("Infinity")})
	case math.IsInf(f, -1):
		return encode(Marker{Kind: KindNonFiniteNumber, Value: encode("-Infinity")})
	case f == 0 && math.Signbit(f):
		return encode(Marker{Kind: KindNegativeZero})
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return json.RawMessage(strconv.FormatInt(int64(f), 10))
	}
	return encode(f)
}

// encode marshals what this file builds, which cannot fail.
func encode(v any) json.RawMessage {
	b, err := marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding a projection: %v", err))
	}
	return b
}
