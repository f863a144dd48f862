package cli

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/guide"
	"pi-chrome/driver/op"
)

// TestHelpOfCodes: the help of each code says its three parts, in plain words
// of a width that a terminal has; the last line of an error leads there.
func TestHelpOfCodes(t *testing.T) {
	all := guide.Troubles()
	assert.Assert(t, len(all) > 80, "%d codes", len(all))
	list, err := commands()
	assert.NilError(t, err)
	for _, trouble := range all {
		if slices.Contains(names(list), trouble.Code) {
			assert.Equal(t, trouble.Code, "extension") // the popup's own, which no error has
			continue
		}
		env, out, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, []string{"help", trouble.Code}), exitDone, errs)
		text := out.String()
		assert.Assert(t, strings.HasPrefix(text, trouble.Code+"\n\n"), text)
		assert.Assert(t, strings.Contains(text, "\nDo: "), text)
		assert.Assert(t, strings.Contains(text, "\nEffect: ") || strings.Contains(text, "The extension is refused: "), text)
		assert.Assert(t, !strings.ContainsAny(text, "`*|") && !strings.Contains(text, "]("), text)
		for line := range strings.SplitSeq(text, "\n") {
			assert.Assert(t, len(line) <= 100, line)
		}
	}

	env, _, errs := testEnv(t, nil)
	printError(env.Stderr, op.Reject(op.TabGone, "tab 7 does not exist any more").WithHint("list the tabs"))
	assert.Equal(t, errs.String(), "pi-chrome: error: tab 7 does not exist any more\npi-chrome: hint: list the tabs\npi-chrome: code: tab-gone (see pi-chrome help tab-gone)\n")
	errs.Reset()
	printError(env.Stderr, op.Invalidf("field x is missing"))
	assert.Equal(t, errs.String(), "pi-chrome: error: field x is missing\n")
}
