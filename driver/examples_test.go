package driver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
	"pi-chrome/fixtures"
)

func descriptors(t testing.TB) []op.Descriptor {
	t.Helper()
	var list []op.Descriptor
	for _, o := range Operations() {
		d, err := o.Descriptor()
		assert.NilError(t, err, o.Name())
		list = append(list, d)
	}
	return list
}

// TestExamples runs every example of every operation.
func TestExamples(t *testing.T) {
	drivertest.RunCases(t, directLane(t), pagecases.Examples(descriptors(t), false))
}

// TestDescriptors checks that each operation says what a surface needs.
func TestDescriptors(t *testing.T) {
	pages := fixtures.Names()
	seen := map[string]bool{}
	for _, d := range descriptors(t) {
		t.Run(d.Tool, func(t *testing.T) {
			for _, name := range []string{d.Name, d.Tool} {
				assert.Assert(t, !seen[name], "%s is there twice", name)
				seen[name] = true
			}
			assert.Assert(t, strings.HasPrefix(d.Tool, "chrome_"))
			assert.Assert(t, slices.Contains(op.Profiles, d.Profile), d.Profile)
			assert.Assert(t, d.Title != "")
			// The label of a tool is its name, in words.
			assert.Equal(t, strings.ToLower(strings.ReplaceAll(d.Title, " ", "_")), strings.TrimPrefix(d.Tool, "chrome_"))
			n := utf8.RuneCountInString(d.Summary)
			assert.Assert(t, n > 10 && n <= 120, "the summary has %d characters", n)
			assert.Assert(t, strings.HasSuffix(d.Summary, "."))
			assert.Assert(t, len(d.Doc) > len(d.Summary)/2, "it has no documentation")
			assert.Assert(t, d.Effect == op.ReadOnly || d.Effect == op.MayMutate)
			assert.Assert(t, d.Deadline.Budget(nil) > 0)
			assert.Assert(t, len(d.Examples) > 0, "it has no example")
			for _, e := range d.Examples {
				assert.Assert(t, e.Title != "")
				assert.Assert(t, e.Page == "" || slices.Contains(pages, e.Page), "no fixture %s", e.Page)
				assert.Assert(t, json.Valid(e.Input), "%s", e.Input)
			}
			assert.Assert(t, len(d.Errors) > 0 || strings.HasPrefix(d.Name, "system."), "it lists no errors")
			for i, code := range d.Errors {
				assert.Assert(t, code != "" && !slices.Contains(d.Errors[:i], code), "error %q", code)
			}
			checkSchema(t, d)
		})
	}
}

// checkSchema checks what providers of models want of an input: a flat object,
// each field with a type and a description.
func checkSchema(t *testing.T, d op.Descriptor) {
	raw, err := json.Marshal(d.Input)
	assert.NilError(t, err)
	for _, bad := range []string{`"$ref"`, `"type":[`, `"oneOf"`, `"allOf"`} {
		assert.Assert(t, !strings.Contains(string(raw), bad), "%s in %s", bad, raw)
	}
	assert.Equal(t, d.Input.Type, "object")
	for name, p := range d.Input.Properties {
		assert.Assert(t, p.Description != "", "field %s has no description", name)
		assert.Assert(t, p.Type != "" || len(p.AnyOf) > 0, "field %s has no type", name)
	}
}
