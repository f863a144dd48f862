package cdpmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
)

// Bounds of a projected evaluation result. Lengths are in UTF-16 units, as
// JavaScript counts.
const (
	MaxNodes        = 512
	MaxDepth        = 12
	MaxEntries      = 128
	MaxStringLength = 2000
	MaxKeyLength    = 256
)

// MarkerTag is the _tag of every marker.
const MarkerTag = "PiChromeEvaluationMarker"

// MarkerKind names what a marker stands for.
type MarkerKind string

// The kinds: what JSON cannot say, and what was left out.
const (
	KindUndefined             MarkerKind = "Undefined"
	KindBigInt                MarkerKind = "BigInt"
	KindNonFiniteNumber       MarkerKind = "NonFiniteNumber"
	KindNegativeZero          MarkerKind = "NegativeZero"
	KindSymbol                MarkerKind = "Symbol"
	KindFunction              MarkerKind = "Function"
	KindError                 MarkerKind = "Error"
	KindArrayHole             MarkerKind = "ArrayHole"
	KindNonPlainObject        MarkerKind = "NonPlainObject"
	KindStringTruncated       MarkerKind = "StringTruncated"
	KindObjectEntryProjection MarkerKind = "ObjectEntryProjection"
	KindSymbolKey             MarkerKind = "SymbolKey"
	KindKeyTruncated          MarkerKind = "KeyTruncated"
	KindCircularReference     MarkerKind = "CircularReference"
	KindSharedReference       MarkerKind = "SharedReference"
	KindPropertyAccessError   MarkerKind = "PropertyAccessError"
	KindCollectionLimit       MarkerKind = "CollectionLimit"
	KindDepthLimit            MarkerKind = "DepthLimit"
	KindNodeLimit             MarkerKind = "NodeLimit"
	KindUninspectableObject   MarkerKind = "UninspectableObject"
)

// markerFields are the fields of each kind besides _tag and kind, in the order
// in which they are written. One that ends in "?" may be absent.
var markerFields = map[MarkerKind][]string{
	KindUndefined:             {},
	KindBigInt:                {"value"},
	KindNonFiniteNumber:       {"value"},
	KindNegativeZero:          {},
	KindSymbol:                {"description"},
	KindFunction:              {"referenceId", "source"},
	KindError:                 {"referenceId", "name", "message", "stack"},
	KindArrayHole:             {"index"},
	KindNonPlainObject:        {"referenceId", "constructorName", "objectTag", "properties"},
	KindStringTruncated:       {"prefix", "originalLength"},
	KindObjectEntryProjection: {"referenceId", "entries", "omitted", "limit"},
	KindSymbolKey:             {"description"},
	KindKeyTruncated:          {"prefix", "originalLength"},
	KindCircularReference:     {"referenceId"},
	KindSharedReference:       {"referenceId"},
	KindPropertyAccessError:   {"message"},
	KindCollectionLimit:       {"collection", "omitted", "limit"},
	KindDepthLimit:            {"depth", "limit"},
	KindNodeLimit:             {"limit"},
	KindUninspectableObject:   {"referenceId?", "message"},
}

// Marker is one marker of a projected value. Only the fields of its kind are
// set; Value, Description, Source, Name, Message, Stack and Properties are
// projected values themselves, so a long text among them is a StringTruncated.
type Marker struct {
	Kind            MarkerKind
	Value           json.RawMessage
	Description     json.RawMessage
	Source          json.RawMessage
	Name            json.RawMessage
	Message         json.RawMessage
	Stack           json.RawMessage
	Properties      json.RawMessage
	ConstructorName json.RawMessage
	ObjectTag       json.RawMessage
	Entries         []MarkerEntry
	Prefix          string
	Collection      string
	ReferenceID     int // 0 for none
	OriginalLength  int
	Index           int
	Omitted         int
	Depth           int
	Limit           int
}

// MarkerEntry is one property of an ObjectEntryProjection. The key is a
// string, a SymbolKey or a KeyTruncated.
type MarkerEntry struct {
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

// field returns the address of the named field.
func (m *Marker) field(name string) any {
	switch name {
	case "value":
		return &m.Value
	case "description":
		return &m.Description
	case "source":
		return &m.Source
	case "name":
		return &m.Name
	case "message":
		return &m.Message
	case "stack":
		return &m.Stack
	case "properties":
		return &m.Properties
	case "constructorName":
		return &m.ConstructorName
	case "objectTag":
		return &m.ObjectTag
	case "entries":
		return &m.Entries
	case "prefix":
		return &m.Prefix
	case "collection":
		return &m.Collection
	case "referenceId":
		return &m.ReferenceID
	case "originalLength":
		return &m.OriginalLength
	case "index":
		return &m.Index
	case "omitted":
		return &m.Omitted
	case "depth":
		return &m.Depth
	default:
		return &m.Limit
	}
}

// MarshalJSON writes the marker with its fields in the contract's order.
func (m Marker) MarshalJSON() ([]byte, error) {
	fields, ok := markerFields[m.Kind]
	if !ok {
		return nil, fmt.Errorf("no marker is called %q", m.Kind)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"_tag":%q,"kind":%q`, MarkerTag, m.Kind)
	for _, f := range fields {
		name, optional := optionalField(f)
		v := m.field(name)
		if id, ok := v.(*int); optional && ok && *id == 0 {
			continue
		}
		if list, ok := v.(*[]MarkerEntry); ok && *list == nil {
			v = &[]MarkerEntry{}
		}
		raw, err := marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encoding field %s of %s: %w", name, m.Kind, err)
		}
		fmt.Fprintf(&b, ",%q:%s", name, raw)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func optionalField(f string) (string, bool) {
	if n := len(f) - 1; f[n] == '?' {
		return f[:n], true
	}
	return f, false
}

// marshal is json.Marshal without the escapes for HTML, which JSON.stringify
// does not write either.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// ErrNotMarker means that a JSON value is no marker.
var ErrNotMarker = errors.New("not an evaluation marker")

// ParseMarker reads a marker. A value that does not carry the tag is
// ErrNotMarker; one that does but has not exactly the fields of its kind is
// another error.
func ParseMarker(raw json.RawMessage) (Marker, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return Marker{}, ErrNotMarker
	}
	return parseMarker(fields)
}

func parseMarker(fields map[string]json.RawMessage) (Marker, error) {
	var tag string
	if json.Unmarshal(fields["_tag"], &tag) != nil || tag != MarkerTag {
		return Marker{}, ErrNotMarker
	}
	var m Marker
	if err := json.Unmarshal(fields["kind"], &m.Kind); err != nil {
		return Marker{}, fmt.Errorf("reading a marker's kind: %w", err)
	}
	want, ok := markerFields[m.Kind]
	if !ok {
		return Marker{}, fmt.Errorf("no marker is called %q", m.Kind)
	}
	seen := 2
	for _, f := range want {
		name, optional := optionalField(f)
		raw, ok := fields[name]
		if !ok && optional {
			continue
		}
		if !ok {
			return Marker{}, fmt.Errorf("marker %s lacks the field %s", m.Kind, name)
		}
		seen++
		if err := json.Unmarshal(raw, m.field(name)); err != nil {
			return Marker{}, fmt.Errorf("reading field %s of marker %s: %w", name, m.Kind, err)
		}
	}
	if seen != len(fields) {
		return Marker{}, fmt.Errorf("marker %s has %d fields, %d are its own", m.Kind, len(fields), seen)
	}
	return m, nil
}

// Account is what a projected value holds.
type Account struct {
	Nodes   int                // values, markers among them
	Depth   int                // of the deepest object or array; the root is 0
	Markers map[MarkerKind]int // how many of each
	Omitted int                // entries and items that were left out
}

// Complete reports whether nothing was left out of the value.
func (a Account) Complete() bool {
	for _, k := range []MarkerKind{KindStringTruncated, KindKeyTruncated, KindCollectionLimit, KindDepthLimit, KindNodeLimit} {
		if a.Markers[k] > 0 {
			return false
		}
	}
	return a.Omitted == 0
}

// CheckProjection walks a projected value and returns its account, or an error
// when it keeps not within the bounds or has a malformed marker: a page can
// replace the functions that the projection relies on.
func CheckProjection(raw json.RawMessage) (Account, error) {
	a := Account{Markers: map[MarkerKind]int{}}
	c := checker{a: &a}
	err := c.value(raw, 0)
	return a, err
}

type checker struct{ a *Account }

// Slack over the bounds: a marker for what was left out counts as a node, and
// so do the parts of a marker.
const (
	slackNodes = 16 * MaxNodes
	slackDepth = 2*MaxDepth + 2
)

func (c *checker) value(raw json.RawMessage, depth int) error {
	if c.a.Nodes++; c.a.Nodes > slackNodes {
		return fmt.Errorf("the value has more than %d nodes", slackNodes)
	}
	if depth > slackDepth {
		return fmt.Errorf("the value is deeper than %d", slackDepth)
	}
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 {
		return errors.New("a value is missing")
	}
	switch trimmed[0] {
	case '"':
		return checkText(raw, MaxStringLength)
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		if len(items) > MaxEntries+1 {
			return fmt.Errorf("an array has %d items", len(items))
		}
		c.a.Depth = max(c.a.Depth, depth)
		for _, item := range items {
			if err := c.value(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case '{':
		return c.object(raw, depth)
	}
	if !json.Valid(raw) {
		return errors.New("a value is not JSON")
	}
	return nil
}

func (c *checker) object(raw json.RawMessage, depth int) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	m, err := parseMarker(fields)
	if errors.Is(err, ErrNotMarker) {
		c.a.Depth = max(c.a.Depth, depth)
		if len(fields) > MaxEntries {
			return fmt.Errorf("an object has %d properties", len(fields))
		}
		for k, v := range fields {
			if n := units(k); n > MaxKeyLength {
				return fmt.Errorf("a key has %d characters", n)
			}
			if err := c.value(v, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return c.marker(m, depth)
}

func (c *checker) marker(m Marker, depth int) error {
	c.a.Markers[m.Kind]++
	c.a.Omitted += m.Omitted
	if m.Omitted < 0 || m.ReferenceID < 0 || m.ReferenceID > MaxNodes {
		return fmt.Errorf("marker %s has a number out of range", m.Kind)
	}
	switch m.Kind {
	case KindCircularReference, KindSharedReference:
		if m.ReferenceID == 0 {
			return fmt.Errorf("marker %s refers to nothing", m.Kind)
		}
	case KindNonFiniteNumber:
		if !slices.Contains([]string{`"NaN"`, `"Infinity"`, `"-Infinity"`}, string(m.Value)) {
			return fmt.Errorf("marker %s has the value %s", m.Kind, m.Value)
		}
	case KindStringTruncated, KindKeyTruncated:
		limit := MaxStringLength
		if m.Kind == KindKeyTruncated {
			limit = MaxKeyLength
		}
		if n := units(m.Prefix); n > limit || m.OriginalLength <= limit {
			return fmt.Errorf("marker %s has %d of %d characters", m.Kind, n, m.OriginalLength)
		}
	}
	if len(m.Entries) > MaxEntries {
		return fmt.Errorf("marker %s has %d entries", m.Kind, len(m.Entries))
	}
	for _, e := range m.Entries {
		if err := errors.Join(c.value(e.Key, depth+1), c.value(e.Value, depth+1)); err != nil {
			return err
		}
	}
	for _, part := range []json.RawMessage{m.Value, m.Description, m.Source, m.Name, m.Message, m.Stack, m.Properties, m.ConstructorName, m.ObjectTag} {
		if part == nil {
			continue
		}
		if err := c.value(part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func checkText(raw json.RawMessage, limit int) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if n := units(s); n > limit {
		return fmt.Errorf("a text has %d characters", n)
	}
	return nil
}

// units is a string's length as JavaScript counts it.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
