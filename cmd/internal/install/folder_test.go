package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	assert.NilError(t, err)
	return string(data)
}

func TestWriteMakesTheFolderEqual(t *testing.T) {
	f := Folder{Dir: filepath.Join(t.TempDir(), "a", "extension")}
	before, err := f.Info()
	assert.NilError(t, err)
	assert.Assert(t, !before.Installed && !before.Equal)

	r, err := f.Write(4711)
	assert.NilError(t, err)
	assert.Equal(t, r.Written, len(extension.Files()))
	assert.Equal(t, r.Version, extension.Version())
	for _, name := range extension.Files() {
		want, err := extension.FS().(interface {
			ReadFile(string) ([]byte, error)
		}).ReadFile(name)
		assert.NilError(t, err)
		assert.Equal(t, read(t, f.Dir, name), string(want), name)
	}
	info, err := f.Info()
	assert.NilError(t, err)
	assert.Assert(t, info.Installed && info.Equal && info.Port == 4711 && !info.PairingToken)

	again, err := f.Write(4711)
	assert.NilError(t, err)
	assert.Equal(t, again.Written, 0)
	assert.Equal(t, again.Unchanged, r.Written)
}

func TestTokenIsPrivateAndGoes(t *testing.T) {
	f := Folder{Dir: t.TempDir()}
	_, err := f.Write(1)
	assert.NilError(t, err)
	assert.NilError(t, f.SetToken(17, "00112233445566778899AABBCCDDEEFF"))
	var b map[string]any
	assert.NilError(t, json.Unmarshal([]byte(read(t, f.Dir, "bridge.json")), &b))
	assert.DeepEqual(t, b, map[string]any{"port": 17.0, "pairingToken": "00112233445566778899AABBCCDDEEFF"})
	stat, err := os.Stat(filepath.Join(f.Dir, "bridge.json"))
	assert.NilError(t, err)
	assert.Equal(t, stat.Mode().Perm(), os.FileMode(0o600))

	// An installation in the middle of a pairing keeps its token.
	_, err = f.Write(18)
	assert.NilError(t, err)
	info, err := f.Info()
	assert.NilError(t, err)
	assert.Assert(t, info.PairingToken && info.Port == 18)

	assert.NilError(t, f.ClearToken())
	assert.NilError(t, f.ClearToken())
	assert.Equal(t, read(t, f.Dir, "bridge.json"), "{\"port\":18}\n")
}

func TestForeignFolderIsRefused(t *testing.T) {
	f := Folder{Dir: t.TempDir()}
	assert.NilError(t, os.WriteFile(filepath.Join(f.Dir, "manifest.json"), []byte(`{"key":"another"}`), 0o600))
	_, err := f.Write(1)
	assert.ErrorIs(t, err, &op.Error{Code: op.InvalidInput})
	assert.ErrorContains(t, err, "it holds other files")
	entries, err := os.ReadDir(f.Dir)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)
}

func TestInterruptedInstallationIsTakenUp(t *testing.T) {
	f := Folder{Dir: t.TempDir()}
	_, err := f.Write(1)
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(filepath.Join(f.Dir, "manifest.json")))
	_, err = f.Write(1)
	assert.NilError(t, err)
	info, err := f.Info()
	assert.NilError(t, err)
	assert.Assert(t, info.Equal)
}

// Whatever happened to the files of the extension, Write mends it and leaves
// the files of others alone.
func TestWriteMendsAnyDamage(t *testing.T) {
	names := extension.Files()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "x")
		assert.NilError(r, err)
		f := Folder{Dir: dir}
		_, err = f.Write(1)
		assert.NilError(r, err)
		assert.NilError(r, os.WriteFile(filepath.Join(dir, "mine.txt"), []byte("mine"), 0o600))
		for range rapid.IntRange(0, 5).Draw(r, "n") {
			name := rapid.SampledFrom(names).Draw(r, "name")
			if name == "manifest.json" {
				continue
			}
			path := filepath.Join(dir, name)
			if rapid.Bool().Draw(r, "remove") {
				err = os.RemoveAll(path)
			} else {
				err = os.WriteFile(path, rapid.SliceOf(rapid.Byte()).Draw(r, "data"), 0o600)
			}
			assert.NilError(r, err)
		}
		_, err = f.Write(2)
		assert.NilError(r, err)
		info, err := f.Info()
		assert.NilError(r, err)
		assert.Assert(r, info.Equal && info.Port == 2)
		mine, err := os.ReadFile(filepath.Join(dir, "mine.txt"))
		assert.NilError(r, err)
		assert.Equal(r, string(mine), "mine")
		left, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
		assert.NilError(r, err)
		assert.Equal(r, strings.Join(left, ","), "")
	})
}
