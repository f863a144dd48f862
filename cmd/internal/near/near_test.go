package near

import (
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	names := []string{"navigate", "snapshot", "screenshot", "click", "tab-list", "tab-new"}
	for word, want := range map[string]string{
		"navigat": "navigate", "nvaigate": "navigate", "snap": "snapshot", "clik": "click", "tab-lst": "tab-list",
		"CLICK": "click", "shot": "snapshot", "zebra": "", "x": "",
	} {
		assert.Equal(t, Of(word, names), want, word)
	}
}

func TestDistance(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := rapid.StringN(0, 12, -1).Draw(r, "a"), rapid.StringN(0, 12, -1).Draw(r, "b"), rapid.String().Draw(r, "c")
		assert.Equal(r, distance(a, b), distance(b, a))
		assert.Equal(r, distance(a, a), 0)
		assert.Assert(r, distance(a+c, b+c) <= distance(a, b))
	})
}
