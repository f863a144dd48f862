package cli

import (
	"regexp"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/guide"
)

// TestSkill: what is printed is the guide, and each command that it names
// exists.
func TestSkill(t *testing.T) {
	want, err := guide.Skill()
	assert.NilError(t, err)
	env, out, errs := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"skill"}), exitDone)
	assert.Equal(t, out.String(), want)
	assert.Equal(t, errs.String(), "")
	named := regexp.MustCompile("`pi-chrome ([a-z-]+)").FindAllStringSubmatch(want, -1)
	assert.Assert(t, len(named) >= 3, "%q", named)
	for _, m := range named {
		_, err := findCommand(m[1])
		assert.NilError(t, err)
	}
	env, _, errs = testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"skill", "now"}), exitUsage)
	assert.Equal(t, errs.String(), "pi-chrome: error: pi-chrome skill takes no argument, but got \"now\"\npi-chrome: hint: pi-chrome help skill shows its usage\n")
}
