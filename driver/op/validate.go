package op

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// validate lets the schema library decide and explains a refusal in the words
// of the field that caused it.
func (s *schemaSet) validate(spec Spec, raw json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	var v any
	if err := dec.Decode(&v); err != nil {
		return Invalidf("%s: input is not JSON: %s", spec.Tool, err)
	}
	if dec.More() {
		return Invalidf("%s: input has more than one JSON value", spec.Tool)
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return Invalidf("%s: input must be a JSON object, not %s", spec.Tool, describe(v))
	}
	if err := s.resolved.Validate(v); err != nil {
		if msg, field := explain(s.schema, v, ""); msg != "" {
			return Invalidf("%s: %s", spec.Tool, msg).WithDetail("field", field)
		}
		return Invalidf("%s: %s", spec.Tool, err)
	}
	return exclusive(spec, obj)
}

func exclusive(spec Spec, obj map[string]any) error {
	for _, group := range spec.OneOf {
		var given []string
		optional := false
		for _, alt := range group {
			if alt == "" {
				optional = true
				continue
			}
			parts := strings.Split(alt, "+")
			n := 0
			for _, p := range parts {
				if _, ok := obj[p]; ok {
					n++
				}
			}
			if n > 0 && n < len(parts) {
				return Invalidf("%s: %s must be given together", spec.Tool, strings.Join(parts, " and ")).WithDetail("field", parts[0])
			}
			if n > 0 {
				given = append(given, strings.Join(parts, " and "))
			}
		}
		names := oneOfNames(group)
		if len(given) > 1 {
			return Invalidf("%s: give one of %s, not %s", spec.Tool, names, strings.Join(given, " and ")).WithDetail("given", given)
		}
		if len(given) == 0 && !optional {
			return Invalidf("%s: one of %s is required", spec.Tool, names)
		}
	}
	return nil
}

func oneOfNames(group []string) string {
	var names []string
	for _, alt := range group {
		if alt != "" {
			names = append(names, strings.ReplaceAll(alt, "+", " and "))
		}
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// explain returns the first thing wrong with v and the path of its field, or
// "" when it finds nothing.
func explain(s *jsonschema.Schema, v any, path string) (string, string) {
	at := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch x := v.(type) {
	case map[string]any:
		if s.Type != "" && s.Type != "object" {
			return wrongType(s, v, path)
		}
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			p := s.Properties[k]
			if p == nil {
				if s.AdditionalProperties != nil && len(s.Properties) > 0 {
					return fmt.Sprintf("unknown field %q; allowed: %s", at(k), strings.Join(fieldNames(s), ", ")), at(k)
				}
				if len(s.Properties) == 0 && s.AdditionalProperties != nil {
					return fmt.Sprintf("unknown field %q; it takes no fields", at(k)), at(k)
				}
				continue
			}
			if msg, f := explain(p, x[k], at(k)); msg != "" {
				return msg, f
			}
		}
		for _, r := range s.Required {
			if _, ok := x[r]; !ok {
				return fmt.Sprintf("field %q is required", at(r)), at(r)
			}
		}
		return "", ""
	case []any:
		if s.Type != "" && s.Type != "array" {
			return wrongType(s, v, path)
		}
		if s.MinItems != nil && len(x) < *s.MinItems || s.MaxItems != nil && len(x) > *s.MaxItems {
			return fmt.Sprintf("field %q has %d items; allowed: %s", path, len(x), bounds(intf(s.MinItems), intf(s.MaxItems), "items")), path
		}
		for i, e := range x {
			if s.Items != nil {
				if msg, f := explain(s.Items, e, fmt.Sprintf("%s[%d]", path, i)); msg != "" {
					return msg, f
				}
			}
		}
		return "", ""
	}
	return explainScalar(s, v, path)
}

func explainScalar(s *jsonschema.Schema, v any, path string) (string, string) {
	for _, alt := range s.AnyOf {
		if msg, _ := explain(alt, v, path); msg == "" {
			return "", ""
		}
	}
	if len(s.AnyOf) > 0 {
		return fmt.Sprintf("field %q is %s; allowed: %s", path, describe(v), forms(s.AnyOf)), path
	}
	switch x := v.(type) {
	case string:
		if s.Type != "string" && s.Type != "" {
			return wrongType(s, v, path)
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(x)) {
			var all []string
			for _, e := range s.Enum {
				all = append(all, fmt.Sprint(e))
			}
			return fmt.Sprintf("field %q is %q; allowed: %s", path, x, strings.Join(all, ", ")), path
		}
		n := utf8.RuneCountInString(x)
		if s.MinLength != nil && n < *s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
			return fmt.Sprintf("field %q has %d characters; allowed: %s", path, n, bounds(intf(s.MinLength), intf(s.MaxLength), "characters")), path
		}
		if s.Pattern != "" {
			if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(x) {
				return fmt.Sprintf("field %q is %q; it must match %s", path, x, s.Pattern), path
			}
		}
	case float64:
		if s.Type != "number" && s.Type != "integer" && s.Type != "" {
			return wrongType(s, v, path)
		}
		if s.Type == "integer" && x != float64(int64(x)) {
			return fmt.Sprintf("field %q is %s; it must be a whole number", path, number(x)), path
		}
		if s.Minimum != nil && x < *s.Minimum || s.Maximum != nil && x > *s.Maximum {
			return fmt.Sprintf("field %q is %s; allowed: %s", path, number(x), bounds(s.Minimum, s.Maximum, "")), path
		}
	case bool:
		if s.Type != "boolean" && s.Type != "" {
			return wrongType(s, v, path)
		}
	case nil:
		if s.Type != "" && s.Type != "null" {
			return wrongType(s, v, path)
		}
	}
	return "", ""
}

func wrongType(s *jsonschema.Schema, v any, path string) (string, string) {
	return fmt.Sprintf("field %q is %s; it must be %s", path, describe(v), article(s.Type)), path
}

func article(t string) string {
	switch t {
	case "integer":
		return "a whole number"
	case "array", "object":
		return "an " + t
	}
	return "a " + t
}

func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		r := []rune(x)
		if len(r) > 60 {
			x = string(r[:60]) + "…"
		}
		return fmt.Sprintf("the text %q", x)
	case float64:
		return number(x)
	}
	return fmt.Sprint(v)
}

// number writes a number as a person does: without an exponent, unless it
// would be very long.
func number(f float64) string {
	if math.Abs(f) >= 1e15 {
		return fmt.Sprint(f)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// forms says which alternatives a value has.
func forms(alternatives []*jsonschema.Schema) string {
	var all []string
	for _, alt := range alternatives {
		form := article(alt.Type)
		if lo := alt.MinLength; lo != nil && *lo > 0 {
			form += " that is not empty"
		}
		if b := bounds(alt.Minimum, alt.Maximum, ""); b != "" {
			form += " of " + b
		}
		all = append(all, form)
	}
	return strings.Join(all, ", or ")
}

func intf(p *int) *float64 {
	if p == nil {
		return nil
	}
	f := float64(*p)
	return &f
}

func bounds(lo, hi *float64, unit string) string {
	s := ""
	switch {
	case lo != nil && hi != nil:
		s = number(*lo) + " to " + number(*hi)
	case lo != nil:
		s = "at least " + number(*lo)
	case hi != nil:
		s = "at most " + number(*hi)
	}
	if unit != "" {
		s += " " + unit
	}
	return s
}

func fieldNames(s *jsonschema.Schema) []string {
	names := slices.Clone(s.PropertyOrder)
	for k := range s.Properties {
		if !slices.Contains(names, k) {
			names = append(names, k)
		}
	}
	return names
}
