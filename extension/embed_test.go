package extension

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// notShipped are the entries of the folder that a browser has no use for.
var notShipped = []string{"embed.go", "embed_test.go", "icons/icon.svg", "package.json", "tsconfig.json", "types.d.ts"}

// ofTheFolder lists the files beside this test that ought to ship. A
// bridge.json is left out: it belongs to an installed folder.
func ofTheFolder(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(p)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name == "test":
			return filepath.SkipDir
		case !entry.IsDir() && !slices.Contains(notShipped, name) && name != BridgeFile:
			names = append(names, name)
		}
		return nil
	})
	assert.NilError(t, err)
	slices.Sort(names)
	return names
}

func TestEmbeddedFilesEqualTheFolder(t *testing.T) {
	assert.DeepEqual(t, Files(), ofTheFolder(t))
	for _, name := range Files() {
		want, err := os.ReadFile(filepath.FromSlash(name))
		assert.NilError(t, err)
		got, err := fs.ReadFile(FS(), name)
		assert.NilError(t, err)
		assert.Assert(t, bytes.Equal(got, want), "%s is embedded as it was before", name)
	}
}

func TestIDFollowsFromTheKey(t *testing.T) {
	var manifest struct {
		Key string `json:"key"`
	}
	b, err := fs.ReadFile(FS(), "manifest.json")
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(b, &manifest))
	key, err := base64.StdEncoding.DecodeString(manifest.Key)
	assert.NilError(t, err)
	sum := sha256.Sum256(key)
	var id strings.Builder
	for _, b := range sum[:16] {
		id.WriteByte('a' + b>>4)
		id.WriteByte('a' + b&15)
	}
	assert.Equal(t, id.String(), ID)
}

// TestModulesAreEmbedded follows every import and every file that a page or
// the manifest names: a missing one would only show in a browser.
func TestModulesAreEmbedded(t *testing.T) {
	named := regexp.MustCompile(`(?:from |import |src=|href=|"service_worker": |"default_popup": |"\d+": )"(?:\./)?([\w./-]+\.(?:js|css|png|html))"`)
	found := 0
	for _, name := range Files() {
		if ext := path.Ext(name); ext == ".png" || ext == ".css" {
			continue
		}
		b, err := fs.ReadFile(FS(), name)
		assert.NilError(t, err)
		for _, m := range named.FindAllStringSubmatch(string(b), -1) {
			found++
			assert.Assert(t, slices.Contains(Files(), m[1]), "%s names %s", name, m[1])
		}
	}
	assert.Assert(t, found > 25, "only %d references found", found)
}

func TestContractEqualsTheOwners(t *testing.T) {
	b, err := fs.ReadFile(FS(), "contract.js")
	assert.NilError(t, err)
	_, body, ok := bytes.Cut(b, []byte("export const CONTRACT = "))
	assert.Assert(t, ok)
	body = bytes.TrimSuffix(bytes.TrimSpace(body), []byte(";"))
	var contract wire.ContractValue
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	assert.NilError(t, decoder.Decode(&contract))
	assert.DeepEqual(t, contract, wire.Contract)
	fingerprint, err := wire.FingerprintOf(contract)
	assert.NilError(t, err)
	assert.Equal(t, fingerprint, wire.Fingerprint())
}

func TestVersionIsThatOfTheManifest(t *testing.T) {
	assert.Assert(t, regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(Version()), Version())
}
