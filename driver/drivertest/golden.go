package drivertest

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/golden"
)

var goldens struct {
	mu   sync.Mutex
	used map[string]bool // absolute paths
}

// Golden compares text with testdata/<operation>/<stem>.golden.txt, where stem
// is <topic>--<case>. The flag -update writes it.
func Golden(t testing.TB, operation, stem, text string) {
	t.Helper()
	goldenIn(t, "testdata", operation, stem, text)
}

func goldenIn(t testing.TB, dir, operation, stem, text string) {
	t.Helper()
	if !strings.Contains(stem, "--") {
		t.Fatalf("a golden is named <topic>--<case>, not %q", stem)
	}
	full, err := filepath.Abs(filepath.Join(dir, operation, stem+".golden.txt"))
	if err != nil {
		t.Fatal(err)
	}
	goldens.mu.Lock()
	if goldens.used == nil {
		goldens.used = map[string]bool{}
	}
	goldens.used[full] = true
	goldens.mu.Unlock()
	golden.Assert(t, strings.TrimRight(text, "\n")+"\n", full)
}

// orphans returns the goldens below dir that nothing compared with.
func orphans(dir string) []string {
	var out []string
	// A package without testdata has no orphans.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(entry.Name(), ".golden.") {
			return nil
		}
		full, err := filepath.Abs(path)
		goldens.mu.Lock()
		defer goldens.mu.Unlock()
		if err == nil && !goldens.used[full] {
			out = append(out, path)
		}
		return nil
	})
	slices.Sort(out)
	return out
}
