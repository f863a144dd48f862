package pi

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// notShipped are the entries of the folder that Pi has no use for.
var notShipped = []string{"embed.go", "embed_test.go", "tsconfig.json"}

func TestEmbeddedFilesEqualTheFolder(t *testing.T) {
	entries, err := os.ReadDir(".")
	assert.NilError(t, err)
	var want []string
	for _, e := range entries {
		if !slices.Contains(notShipped, e.Name()) && e.Name() != ProgramFile {
			want = append(want, e.Name())
		}
	}
	got, err := fs.Glob(FS(), "*")
	assert.NilError(t, err)
	slices.Sort(got)
	assert.DeepEqual(t, got, want)
	for _, name := range got {
		disk, err := os.ReadFile(name)
		assert.NilError(t, err)
		embedded, err := fs.ReadFile(FS(), name)
		assert.NilError(t, err)
		assert.Assert(t, bytes.Equal(embedded, disk), "%s is embedded as it was before", name)
	}
}

// The package has no list of operations: what there is comes from the program.
func TestNoToolIsNamed(t *testing.T) {
	tool := regexp.MustCompile(`chrome_[a-z]`)
	files, err := fs.Glob(FS(), "*.ts")
	assert.NilError(t, err)
	for _, name := range files {
		src, err := fs.ReadFile(FS(), name)
		assert.NilError(t, err)
		assert.Assert(t, !tool.Match(src), "%s names a tool: %s", name, tool.Find(src))
	}
}

// The folder is an npm package: it is packed, and the archive installed into an
// empty project without a network, gives the files that Pi loads.
func TestPackedAndInstalledOffline(t *testing.T) {
	folder, project := t.TempDir(), t.TempDir()
	assert.NilError(t, os.CopyFS(filepath.Join(folder, "pi-chrome"), FS()))
	npm := func(dir string, args ...string) string {
		cmd := exec.Command("npm", append(args, "--offline", "--no-audit", "--no-fund", "--cache", filepath.Join(folder, "cache"))...)
		cmd.Dir = dir
		out, err := cmd.Output()
		assert.NilError(t, err, "npm %v: %s", args, out)
		return string(out)
	}
	var packed []struct {
		Filename string
		Files    []struct{ Path string }
	}
	assert.NilError(t, json.Unmarshal([]byte(npm(filepath.Join(folder, "pi-chrome"), "pack", "--json", "--pack-destination", folder)), &packed))
	assert.Equal(t, len(packed), 1)
	var names []string
	for _, f := range packed[0].Files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	want, err := fs.Glob(FS(), "*")
	assert.NilError(t, err)
	slices.Sort(want)
	assert.DeepEqual(t, names, want)
	assert.NilError(t, os.WriteFile(filepath.Join(project, "package.json"), []byte(`{"name":"consumer","private":true}`), 0o600))
	npm(project, "install", filepath.Join(folder, packed[0].Filename))
	var manifest struct{ Pi struct{ Extensions []string } }
	raw, err := os.ReadFile(filepath.Join(project, "node_modules", "pi-chrome", "package.json"))
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(raw, &manifest))
	assert.Equal(t, strings.Join(manifest.Pi.Extensions, " "), "./index.ts")
	_, err = os.Stat(filepath.Join(project, "node_modules", "pi-chrome", manifest.Pi.Extensions[0]))
	assert.NilError(t, err)
}
