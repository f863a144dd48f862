package op

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

type schemaSet struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	model    json.RawMessage // its short form, see model.go
}

var typeSchemas = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[TargetValue]():     targetValueSchema(),
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[Object]():          {Type: "object"},
}

func inputSchema[I any](spec Spec) (*schemaSet, error) {
	s, err := jsonschema.For[I](&jsonschema.ForOptions{TypeSchemas: typeSchemas})
	if err != nil {
		return nil, err
	}
	if err := refine(s, reflect.TypeFor[I]()); err != nil {
		return nil, err
	}
	for _, name := range spec.Args {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("positional argument %q is not a field", name)
		}
	}
	for _, group := range spec.OneOf {
		for _, alt := range group {
			if alt == "" {
				continue // none of the group need be given
			}
			for name := range strings.SplitSeq(alt, "+") {
				if s.Properties[name] == nil {
					return nil, fmt.Errorf("exclusive field %q is not a field", name)
				}
			}
		}
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	model, err := modelInput(s, reflect.TypeFor[I]())
	if err != nil {
		return nil, err
	}
	return &schemaSet{schema: s, resolved: r, model: model}, nil
}

func outputSchema[O any]() (*jsonschema.Schema, error) {
	t := reflect.TypeFor[O]()
	if t.Kind() == reflect.Interface || t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil, nil // its fields do not tell what it writes
	}
	s, err := jsonschema.For[O](&jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: typeSchemas})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// refine removes the null alternatives that jsonschema.For writes for
// pointers and slices (model providers reject type arrays) and applies the
// bounding tags of the struct fields.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 {
		for i, name := range s.Types {
			if name == "null" {
				s.Type, s.Types = s.Types[1-i], nil
				break
			}
		}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			return refine(s.Items, t.Elem())
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if !f.IsExported() || (f.Anonymous && f.Tag.Get("json") == "") {
				continue
			}
			name := fieldName(f)
			p := s.Properties[name]
			if p == nil || name == "-" {
				continue
			}
			if err := refine(p, f.Type); err != nil {
				return err
			}
			if err := bound(p, f.Tag); err != nil {
				return fmt.Errorf("field %s: %w", name, err)
			}
		}
	}
	return nil
}

// fieldName is the name of a struct's field in JSON.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return f.Name
	}
	return name
}

func bound(p *jsonschema.Schema, tag reflect.StructTag) error {
	if v, ok := tag.Lookup("enum"); ok {
		for e := range strings.SplitSeq(v, "|") {
			p.Enum = append(p.Enum, e)
		}
	}
	if v, ok := tag.Lookup("pattern"); ok {
		p.Pattern = v
	}
	for _, n := range []struct {
		name string
		to   **float64
	}{{"min", &p.Minimum}, {"max", &p.Maximum}} {
		if v, ok := tag.Lookup(n.name); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return err
			}
			*n.to = &f
		}
	}
	for _, n := range []struct {
		name string
		to   **int
	}{{"minLength", &p.MinLength}, {"maxLength", &p.MaxLength}, {"minItems", &p.MinItems}, {"maxItems", &p.MaxItems}} {
		if v, ok := tag.Lookup(n.name); ok {
			i, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			*n.to = &i
		}
	}
	return nil
}
