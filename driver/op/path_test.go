package op

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestCheckPortablePath(t *testing.T) {
	for _, good := range []string{"a", "a.png", "a/b/c.png", ".hidden", "a/.pi/x", "a..b", "ä/ö.png", "a b", "a/"} {
		assert.NilError(t, CheckPortablePath(good), good)
	}
	for bad, part := range map[string]string{
		"": "empty", "  ": "empty", "/etc/passwd": "absolute", "C:/x": "drive", "c:\\x": "backslash", "a\\b": "backslash",
		"../a": `".."`, "a/../b": `".."`, "./a": `"."`, "a/.": `"."`, "a//b": "empty part", "a\x00b": "NUL",
	} {
		assert.ErrorContains(t, CheckPortablePath(bad), part, bad)
	}
}

func FuzzCheckPortablePath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "a//b", "C:/x", "a/./b", "a\\b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPortablePath(p) == nil {
			rel, err := filepath.Rel("/w", filepath.Join("/w", p))
			assert.NilError(t, err)
			assert.Assert(t, rel != ".." && !strings.HasPrefix(rel, "../"), "%q leaves the workspace", p)
		}
	})
}
