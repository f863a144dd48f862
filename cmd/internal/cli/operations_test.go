package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"pi-chrome/cmd/internal/owner"
)

// docs/operations.md is what `operations --markdown` prints; go test -update
// writes it anew.
func TestOperationsDocumentIsCurrent(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	path, err := filepath.Abs("../../../docs/operations.md")
	assert.NilError(t, err)
	golden.Assert(t, OperationsMarkdown(list), path)
}

// Every operation is a command, unless a command of ours has its name; every
// field has a flag.
func TestEveryOperationHasACommand(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	for _, d := range list {
		c, err := findCommand(d.Command())
		assert.NilError(t, err)
		if d.Tool == "chrome_status" {
			continue // `status` is ours: it starts no owner
		}
		a := &app{}
		set := a.newFlagSet(d.Command())
		a.globals.register(set)
		c.prepare(a, set)
		for name := range d.Input.Properties {
			// A shorthand may stand in a field's place.
			assert.Assert(t, set.Lookup(kebab(name)) != nil, "%s has no flag for %s", d.Command(), name)
		}
	}
}

// The input of every example is valid and can be built from JSON on the
// command line.
func TestExamplesAreValid(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	for _, d := range list {
		for _, e := range d.Examples {
			in := newInput(d)
			input := strings.ReplaceAll(string(e.Input), "{{base}}", "https://example.org")
			assert.NilError(t, (&jsonValue{in: in}).Set(input), "%s: %s", d.Tool, e.Title)
			raw, err := in.build()
			assert.NilError(t, err)
			assert.NilError(t, owner.Validate(d.Name, raw), "%s: %s", d.Tool, e.Title)
		}
	}
}
