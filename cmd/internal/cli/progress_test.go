package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

func TestBar(t *testing.T) {
	assert.Equal(t, bar(0, 12, "install"), "[>                       ]  0/12 install")
	assert.Equal(t, bar(6, 12, "tiles"), "[============>           ]  6/12 tiles")
	assert.Equal(t, bar(12, 12, "end"), "[========================] 12/12 end")
	assert.Equal(t, bar(3, 0, "waiting"), "waiting")
	rapid.Check(t, func(r *rapid.T) {
		done, total := rapid.IntRange(-5, 10_000).Draw(r, "done"), rapid.IntRange(0, 9999).Draw(r, "total")
		line := bar(done, total, rapid.String().Draw(r, "note"))
		assert.Assert(r, utf8.RuneCountInString(line) < 80, "%q breaks", line)
		assert.Assert(r, total == 0 || strings.Index(line, "]") == barCells+1, line)
	})
}

// TestBarIsTakenBack: whatever is printed after a bar begins its line, however
// the command ends; without a terminal there is no bar.
func TestBarIsTakenBack(t *testing.T) {
	const gone = "\r\x1b[K"
	const failed = "pi-chrome: error: e\npi-chrome: code: internal (see pi-chrome help internal)\n"
	for name, tt := range map[string]struct {
		then func(a *app)
		want string
	}{
		"the last one":  {func(a *app) { a.progress(2, 2, "x") }, gone + bar(2, 2, "x") + gone},
		"a note":        {func(a *app) { a.note("n") }, gone + "n\n"},
		"an error":      {func(a *app) { a.finish(t.Context(), "", output{}, op.Reject(op.Internal, "e")) }, gone + failed},
		"a result":      {func(a *app) { a.finish(t.Context(), "", output{text: "r"}, nil) }, gone},
		"nothing twice": {func(a *app) { a.clearBar(); a.clearBar() }, gone},
	} {
		for _, terminal := range []bool{true, false} {
			env, _, errs := testEnv(t, nil)
			env.StderrTerminal = terminal
			a := &app{env: env, stdout: env.Stdout, stderr: env.Stderr}
			a.progress(1, 2, "x")
			tt.then(a)
			want := gone + bar(1, 2, "x") + tt.want
			if !terminal {
				want = ""
				if name == "an error" {
					want = failed
				}
			}
			assert.Equal(t, errs.String(), want, "%s, terminal %v", name, terminal)
		}
	}
}
