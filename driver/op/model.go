package op

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A model pays for every word of every schema in every conversation, so what
// it is told of an input is a shorter form of the published schema: the same
// fields with their types, choices and short texts, without the bounds, which
// a refusal names. A struct tag says what stands there:
//
//	brief:"words"  these words in place of the `jsonschema` ones
//	brief:""       no words: the name says it all
//	brief:"-"      the field is left out; it is taken all the same. Of an
//	               embedded struct: all its fields
//	briefFields:"a,b"  of a field that is an object: only these of its fields
//	briefSome:"a,b"    of an [Object]: texts that it may have among others,
//	               because some providers refuse an object without a field
//
// docs/operations.md and the help of the command line have the long form.

// modelSchema writes the short form of s, which is the schema of t. What is
// required is told of the input itself only.
func modelSchema(s *jsonschema.Schema, t reflect.Type, text string, tag reflect.StructTag) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	m := object{}
	if err := m.add("type", typeOf(s)); err != nil {
		return nil, err
	}
	if text != "" {
		if err := m.add("description", text); err != nil {
			return nil, err
		}
	}
	if len(s.Enum) > 0 {
		if err := m.add("enum", s.Enum); err != nil {
			return nil, err
		}
	}
	if s.Items != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		items, err := modelSchema(s.Items, t.Elem(), s.Items.Description, "")
		if err != nil {
			return nil, err
		}
		if err := m.add("items", items); err != nil {
			return nil, err
		}
	}
	if some, ok := tag.Lookup("briefSome"); ok {
		properties := object{}
		for name := range strings.SplitSeq(some, ",") {
			if err := properties.add(name, json.RawMessage(`{"type":"string"}`)); err != nil {
				return nil, err
			}
		}
		if err := m.add("properties", properties.end()); err != nil {
			return nil, err
		}
	}
	if t.Kind() == reflect.Struct && s.Type == "object" {
		properties, err := modelFields(s, t, tag)
		if err != nil {
			return nil, err
		}
		if err := m.add("properties", properties); err != nil {
			return nil, err
		}
	}
	return m.end(), nil
}

// modelInput is the short form of a whole input.
func modelInput(s *jsonschema.Schema, t reflect.Type) (json.RawMessage, error) {
	properties, err := modelFields(s, t, "")
	if err != nil {
		return nil, err
	}
	m := object{}
	if err := errors.Join(m.add("type", "object"), m.add("properties", properties)); err != nil {
		return nil, err
	}
	if len(s.Required) > 0 {
		if err := m.add("required", s.Required); err != nil {
			return nil, err
		}
	}
	return m.end(), nil
}

// modelFields are the fields of a struct, in the order of the published
// schema.
func modelFields(s *jsonschema.Schema, t reflect.Type, tag reflect.StructTag) (json.RawMessage, error) {
	only, some := tag.Lookup("briefFields")
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous && f.Tag.Get("json") == "" {
			continue
		}
		if len(f.Index) > 1 && t.FieldByIndex(f.Index[:len(f.Index)-1]).Tag.Get("brief") == "-" {
			continue
		}
		if name := fieldName(f); !some || slices.Contains(strings.Split(only, ","), name) {
			fields[name] = f
		}
	}
	m := object{}
	for _, name := range fieldNames(s) {
		f, ok := fields[name]
		if !ok {
			continue
		}
		text, short := f.Tag.Lookup("brief")
		if text == "-" {
			continue
		}
		if !short {
			text = s.Properties[name].Description
		}
		p, err := modelSchema(s.Properties[name], f.Type, text, f.Tag)
		if err != nil {
			return nil, err
		}
		if err := m.add(name, p); err != nil {
			return nil, err
		}
	}
	return m.end(), nil
}

// typeOf is one type, which model providers want: a tab id may be written as
// text, too.
func typeOf(s *jsonschema.Schema) string {
	switch {
	case s.Type != "":
		return s.Type
	case slices.ContainsFunc(s.AnyOf, func(a *jsonschema.Schema) bool { return a.Type == "string" }):
		return "string"
	}
	return "object"
}

// object writes a JSON object in the order of its fields.
type object struct{ b bytes.Buffer }

func (o *object) add(name string, v any) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	for _, part := range []any{name, v} {
		if err := enc.Encode(part); err != nil {
			return err
		}
	}
	key, value, _ := bytes.Cut(bytes.TrimSpace(raw.Bytes()), []byte("\n"))
	if o.b.Len() > 0 {
		o.b.WriteByte(',')
	}
	o.b.Write(key)
	o.b.WriteByte(':')
	o.b.Write(value)
	return nil
}

func (o *object) end() json.RawMessage {
	return slices.Concat([]byte("{"), o.b.Bytes(), []byte("}"))
}
