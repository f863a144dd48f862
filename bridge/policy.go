package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of a policy.
const (
	maxPolicyBytes    = 64 << 10
	maxPolicyPatterns = 500
	maxPolicyRules    = 100
	maxActions        = 6000 // a minute
)

// Policy is what a session may do. It is set by whoever holds the owner
// credential, kept in the state and enforced by the owner: no operation reads
// or changes it.
type Policy struct {
	Version  int  `json:"version"` // 1
	ReadOnly bool `json:"readOnly,omitempty"`
	// Background refuses the focus even to a caller that may take it.
	Background       bool         `json:"background,omitempty"`
	Origins          OriginRules  `json:"origins,omitzero"`
	Verbs            []VerbPolicy `json:"verbs,omitempty"`
	ActionsPerMinute int          `json:"actionsPerMinute,omitempty"` // 0 for no limit
}

// OriginRules are patterns of origins. Deny wins; an empty Allow allows all.
type OriginRules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// VerbPolicy says which operations are allowed on some origins. The first one
// whose origins match counts. Allow and Deny hold verbs and tool names.
type VerbPolicy struct {
	Origins []string `json:"origins"`
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
}

// ParsePolicy reads a policy file. known reports whether a tool has the name;
// nil takes every name. The error is an *op.Error of kind invalid that names
// the field.
func ParsePolicy(raw []byte, known func(tool string) bool) (*Policy, error) {
	if len(raw) > maxPolicyBytes {
		return nil, policyError("", "it has %d bytes; allowed: %d", len(raw), maxPolicyBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var p Policy
	if err := dec.Decode(&p); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
			return nil, policyError(t.Field, "it must be %s, not %s", jsonName(t.Type.String()), t.Value)
		}
		text := strings.TrimPrefix(err.Error(), "json: ")
		if field, ok := strings.CutPrefix(text, "unknown field "); ok {
			return nil, policyError(strings.Trim(field, `"`), "there is no such field; known: version, readOnly, background, origins {allow, deny}, verbs [{origins, allow, deny}], actionsPerMinute")
		}
		return nil, policyError("", "it is not a JSON object: %s", text)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, policyError("", "there is more after the object")
	}
	if p.Version != 1 {
		return nil, policyError("version", "it is %d; this pi-chrome knows version 1", p.Version)
	}
	if p.ActionsPerMinute < 0 || p.ActionsPerMinute > maxActions {
		return nil, policyError("actionsPerMinute", "it is %d; allowed: 1 to %d, or nothing for no limit", p.ActionsPerMinute, maxActions)
	}
	if len(p.Verbs) > maxPolicyRules {
		return nil, policyError("verbs", "it has %d rules; allowed: %d", len(p.Verbs), maxPolicyRules)
	}
	if err := checkPatterns("origins.allow", p.Origins.Allow); err != nil {
		return nil, err
	}
	if err := checkPatterns("origins.deny", p.Origins.Deny); err != nil {
		return nil, err
	}
	for i, r := range p.Verbs {
		at := fmt.Sprintf("verbs[%d]", i)
		if len(r.Origins) == 0 {
			return nil, policyError(at+".origins", "it is missing; give [\"*\"] for every origin")
		}
		if err := checkPatterns(at+".origins", r.Origins); err != nil {
			return nil, err
		}
		if (len(r.Allow) > 0) == (len(r.Deny) > 0) {
			return nil, policyError(at, "give one of allow and deny")
		}
		for _, v := range slices.Concat(r.Allow, r.Deny) {
			if !slices.Contains(op.Verbs, op.Verb(v)) && known != nil && !known(v) {
				return nil, policyError(at, "%q is neither a verb (%s) nor a tool", v, verbNames())
			}
		}
	}
	return &p, nil
}

func verbNames() string {
	names := make([]string, len(op.Verbs))
	for i, v := range op.Verbs {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

func jsonName(goType string) string {
	switch {
	case goType == "bool":
		return "true or false"
	case goType == "int":
		return "a whole number"
	case goType == "string":
		return "a text"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "an object"
}

func policyError(field, format string, args ...any) *op.Error {
	where := "the policy"
	if field != "" {
		where = "policy field " + field
	}
	e := op.Invalidf("%s: %s; nothing was changed", where, fmt.Sprintf(format, args...)).WithHint("docs/policy.md describes the file.")
	if field != "" {
		e = e.WithDetail("field", field)
	}
	return e
}

func checkPatterns(field string, patterns []string) error {
	if len(patterns) > maxPolicyPatterns {
		return policyError(field, "it has %d patterns; allowed: %d", len(patterns), maxPolicyPatterns)
	}
	for i, raw := range patterns {
		if _, err := parsePattern(raw); err != nil {
			return policyError(fmt.Sprintf("%s[%d]", field, i), "%q is no pattern of origins: %s", raw, err)
		}
	}
	return nil
}

// limitsOrigins reports whether the address of a page matters.
func (p *Policy) limitsOrigins() bool {
	return p != nil && (len(p.Origins.Allow) > 0 || len(p.Origins.Deny) > 0)
}

// judgesAddresses reports whether an address that is opened matters, by the
// origins or by the verbs.
func (p *Policy) judgesAddresses() bool { return p.limitsOrigins() || p != nil && len(p.Verbs) > 0 }

// allowsURL reports whether the session may be on a page with the address;
// rule says what decided when it may not. A blank page is everybody's.
func (p *Policy) allowsURL(raw string) (rule string, ok bool) {
	if !p.limitsOrigins() || raw == "" || raw == "about:blank" {
		return "", true
	}
	o := originOf(raw)
	if o.scheme == unknownScheme {
		return "no pattern can judge it", false // it may be any
	}
	if pattern, hit := match(p.Origins.Deny, o); hit {
		return "origins.deny " + pattern, false
	}
	if len(p.Origins.Allow) == 0 {
		return "", true
	}
	if _, hit := match(p.Origins.Allow, o); hit {
		return "", true
	}
	return "origins.allow has no pattern for it", false
}

// allowsVerb reports whether an operation may be used on a page with the
// address; rule says what decided when it may not.
func (p *Policy) allowsVerb(d op.Descriptor, raw string) (rule string, ok bool) {
	o := originOf(raw)
	if len(p.Verbs) > 0 && raw != "" && o.scheme == unknownScheme {
		return "no pattern can judge it", false // it may be any
	}
	has := func(list []string) bool {
		return slices.Contains(list, string(d.Verb)) || slices.Contains(list, d.Tool) || slices.Contains(list, d.Name)
	}
	for i, r := range p.Verbs {
		if _, hit := match(r.Origins, o); !hit {
			continue
		}
		if len(r.Allow) > 0 && !has(r.Allow) || len(r.Deny) > 0 && has(r.Deny) {
			return fmt.Sprintf("verbs[%d]", i), false
		}
		return "", true
	}
	return "", true
}
