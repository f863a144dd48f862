package artifact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func dataURL(format, bytes string) string {
	return "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString([]byte(bytes))
}

func image(format, bytes string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"kind":"image","format":%q,"dataUrl":%q,"tab":{"id":7}}`, format, dataURL(format, bytes)))
}

func tiles(t testing.TB, dims string, ys []float64, datas ...string) json.RawMessage {
	type tile struct {
		Y       float64 `json:"y"`
		DataURL string  `json:"dataUrl"`
	}
	var list []tile
	for i, y := range ys {
		list = append(list, tile{y, dataURL("jpeg", datas[i])})
	}
	raw, err := json.Marshal(map[string]any{"kind": "tile-set", "format": "jpeg", "dimensions": json.RawMessage(dims), "tiles": list})
	assert.NilError(t, err)
	return raw
}

const threeTiles = `{"width":1280,"height":2000,"viewportHeight":720,"dpr":1.5}`

// listing is every file of the folder with its mode.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	assert.NilError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%s %s\n", info.Mode(), filepath.ToSlash(rel))
		return nil
	}))
	return b.String()
}

// keep is Keep of one screenshot.
func keep(dir string, in, value json.RawMessage) (json.RawMessage, string, error) {
	r, _, err := Keep(dir, screenshotTool, in, op.Result{Value: value})
	return r.Value, r.Text, err
}

func TestPublishImage(t *testing.T) {
	dir := t.TempDir()
	value, text, err := keep(dir, json.RawMessage(`{"capture":{"kind":"viewport","path":"shots/a"},"format":"png"}`), image("png", "PNG"))
	assert.NilError(t, err)
	want := filepath.Join(dir, "shots", "a.png")
	assert.Equal(t, string(value), fmt.Sprintf(`{"kind":"image","path":%q,"format":"png","tab":{"id":7}}`, want))
	assert.Equal(t, text, "Saved Chrome screenshot image to "+want)
	assert.Equal(t, listing(t, dir), "drwx------ shots\n-rw------- shots/a.png\n")

	// A file that is there is replaced, as a whole.
	_, _, err = keep(dir, json.RawMessage(`{"capture":{"kind":"viewport","path":"shots/a.png"}}`), image("png", "NEW"))
	assert.NilError(t, err)
	got, err := os.ReadFile(want)
	assert.NilError(t, err)
	assert.Equal(t, string(got), "NEW")

	// Without a path, a place of its own.
	value, _, err = keep(dir, nil, image("jpeg", "JPEG"))
	assert.NilError(t, err)
	assert.Assert(t, regexp.MustCompile(`/\.pi/chrome-screenshots/\d{13}-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.jpeg"`).Match(value), "%s", value)
	assert.Assert(t, !strings.Contains(listing(t, dir), "staging"))
}

func TestPublishTiles(t *testing.T) {
	dir := t.TempDir()
	in := json.RawMessage(`{"capture":{"kind":"full-page-tiles","directory":"out/page"},"format":"jpeg"}`)
	value, text, err := keep(dir, in, tiles(t, threeTiles, []float64{0, 720, 1440}, "A", "B", "C"))
	assert.NilError(t, err)
	full := filepath.Join(dir, "out", "page")
	assert.Equal(t, text, fmt.Sprintf("Saved 3 full-page screenshot tiles to %s. Manifest: %s", full, filepath.Join(full, "manifest.json")))
	assert.Equal(t, string(value), fmt.Sprintf(`{"kind":"tile-set","directory":%q,"format":"jpeg","manifestPath":%q,"tiles":[{"path":%q,"y":0},{"path":%q,"y":720},{"path":%q,"y":1440}],"dimensions":%s}`,
		full, filepath.Join(full, "manifest.json"), filepath.Join(full, "tile-0000.jpeg"), filepath.Join(full, "tile-0001.jpeg"), filepath.Join(full, "tile-0002.jpeg"), threeTiles))
	assert.Equal(t, listing(t, dir), "drwx------ out\ndrwx------ out/page\n-rw------- out/page/manifest.json\n-rw------- out/page/tile-0000.jpeg\n-rw------- out/page/tile-0001.jpeg\n-rw------- out/page/tile-0002.jpeg\n")
	got, err := os.ReadFile(filepath.Join(full, "manifest.json"))
	assert.NilError(t, err)
	assert.Equal(t, string(got), `{
  "version": 1,
  "kind": "tile-set",
  "format": "jpeg",
  "dimensions": {
    "width": 1280,
    "height": 2000,
    "viewportHeight": 720,
    "dpr": 1.5
  },
  "tiles": [
    {
      "file": "tile-0000.jpeg",
      "y": 0
    },
    {
      "file": "tile-0001.jpeg",
      "y": 720
    },
    {
      "file": "tile-0002.jpeg",
      "y": 1440
    }
  ]
}`)

	before := listing(t, dir)
	_, _, err = keep(dir, in, tiles(t, threeTiles, []float64{0, 720, 1440}, "A", "B", "C"))
	assert.ErrorContains(t, err, "Screenshot tile-set destination already exists: "+full)
	assert.Equal(t, op.AsError(err).Code, op.ScreenshotFailure)
	assert.Equal(t, listing(t, dir), before)
}

// TestRefused checks that what is wrong is said, and that nothing is left.
func TestRefused(t *testing.T) {
	outside := t.TempDir()
	for _, tt := range []struct {
		name, in  string
		value     json.RawMessage
		kind      op.Kind
		message   string
		workspace func(t *testing.T, dir string)
	}{
		{"wrong extension", `{"capture":{"kind":"viewport","path":"a.jpg"},"format":"jpeg"}`, image("jpeg", "x"), op.Invalid, "Screenshot path extension .jpg does not match requested jpeg", nil},
		{"absolute", `{"capture":{"kind":"viewport","path":"/etc/x.png"}}`, image("png", "x"), op.Invalid, "absolute", nil},
		{"parent", `{"capture":{"kind":"full-page-tiles","directory":"../x"}}`, image("png", "x"), op.Invalid, `".."`, nil},
		{"other type", `{}`, json.RawMessage(`{"kind":"image","format":"png","dataUrl":"data:image/jpeg;base64,AAAA"}`), op.Rejected, "not a png", nil},
		{"no base64", `{}`, json.RawMessage(`{"kind":"image","format":"png","dataUrl":"data:image/png;base64,A*"}`), op.Rejected, "decoding the png", nil},
		{"loose base64", `{}`, json.RawMessage(`{"kind":"image","format":"png","dataUrl":"data:image/png;base64,AB=="}`), op.Rejected, "decoding the png", nil},
		{"empty", `{}`, json.RawMessage(`{"kind":"image","format":"png","dataUrl":"data:image/png;base64,"}`), op.Rejected, "the png is empty", nil},
		{"unknown kind", `{}`, json.RawMessage(`{"kind":"film","format":"png"}`), op.Rejected, `"film" is no kind`, nil},
		{"unknown format", `{}`, json.RawMessage(`{"kind":"image","format":"../x"}`), op.Rejected, "is no format", nil},
		{"no JSON", `{}`, json.RawMessage(`{`), op.Rejected, "reading the pictures", nil},
		{"a tile too few", `{}`, tiles(t, threeTiles, []float64{0, 720}, "A", "B"), op.Rejected, "there are 2 tiles, the page needs 3", nil},
		{"a gap", `{}`, tiles(t, threeTiles, []float64{0, 721, 1440}, "A", "B", "C"), op.Rejected, "tile 1 lies at 721, not at 720", nil},
		{"an empty tile", `{}`, tiles(t, threeTiles, []float64{0, 720, 1440}, "A", "", "C"), op.Rejected, "tile 1: the jpeg is empty", nil},
		{"no dimensions", `{}`, json.RawMessage(`{"kind":"tile-set","format":"png","tiles":[]}`), op.Rejected, "no dimensions", nil},
		{"zero dimensions", `{}`, tiles(t, `{"width":0,"height":0,"viewportHeight":0,"dpr":0}`, nil), op.Rejected, "not positive", nil},
		{"a linked parent", `{"capture":{"kind":"viewport","path":"link/a.png"}}`, image("png", "x"), op.Rejected, "symbolic link leads out", func(t *testing.T, dir string) {
			assert.NilError(t, os.Symlink(outside, filepath.Join(dir, "link")))
		}},
		{"a linked ancestor", `{"capture":{"kind":"full-page-tiles","directory":"link/b/c"}}`, tiles(t, threeTiles, []float64{0, 720, 1440}, "A", "B", "C"), op.Rejected, "symbolic link leads out", func(t *testing.T, dir string) {
			assert.NilError(t, os.Symlink(outside, filepath.Join(dir, "link")))
		}},
		{"a linked default folder", `{}`, image("png", "x"), op.Rejected, "symbolic link leads out", func(t *testing.T, dir string) {
			assert.NilError(t, os.Symlink(outside, filepath.Join(dir, ".pi")))
		}},
		{"a file as parent", `{"capture":{"kind":"viewport","path":"f/a.png"}}`, image("png", "x"), op.Rejected, "making the folder", func(t *testing.T, dir string) {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
		}},
		{"a folder in its place", `{"capture":{"kind":"viewport","path":"a.png"}}`, image("png", "x"), op.Rejected, "a folder has that name", func(t *testing.T, dir string) {
			assert.NilError(t, os.Mkdir(filepath.Join(dir, "a.png"), 0o700))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.workspace != nil {
				tt.workspace(t, dir)
			}
			before := listing(t, dir)
			_, _, err := keep(dir, json.RawMessage(tt.in), tt.value)
			assert.ErrorContains(t, err, tt.message)
			assert.Equal(t, op.AsError(err).Kind, tt.kind)
			assert.Equal(t, strings.ReplaceAll(listing(t, dir), "drwx------ .pi\ndrwx------ .pi/chrome-screenshots\n", ""), before)
			assert.Equal(t, listing(t, outside), "")
		})
	}
	_, _, err := keep(filepath.Join(outside, "absent"), nil, image("png", "x"))
	assert.ErrorContains(t, err, "opening the workspace")

	// A link inside the workspace is nobody's business.
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	assert.NilError(t, os.Symlink("real", filepath.Join(dir, "link")))
	_, _, err = keep(dir, json.RawMessage(`{"capture":{"kind":"viewport","path":"link/a.png"}}`), image("png", "x"))
	assert.NilError(t, err)
	// A link in the file's own place is replaced, not followed.
	victim := filepath.Join(outside, "victim.png")
	assert.NilError(t, os.WriteFile(victim, []byte("old"), 0o600))
	assert.NilError(t, os.Symlink(victim, filepath.Join(dir, "b.png")))
	_, _, err = keep(dir, json.RawMessage(`{"capture":{"kind":"viewport","path":"b.png"}}`), image("png", "x"))
	assert.NilError(t, err)
	got, err := os.ReadFile(victim)
	assert.NilError(t, err)
	assert.Equal(t, string(got), "old")
}

func FuzzPublish(f *testing.F) {
	f.Add("a.png", `{"kind":"image","format":"png","dataUrl":"data:image/png;base64,AAAA"}`)
	f.Add("a/../../b", `{"kind":"tile-set","format":"jpeg","dimensions":{"width":1,"height":1,"viewportHeight":1,"dpr":1},"tiles":[{"y":0,"dataUrl":"data:image/jpeg;base64,AAAA"}]}`)
	f.Fuzz(func(t *testing.T, name, value string) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "work")
		assert.NilError(t, os.Mkdir(dir, 0o700))
		in, err := json.Marshal(map[string]any{"capture": map[string]string{"path": name, "directory": name}})
		assert.NilError(t, err)
		_, _, err = keep(dir, in, json.RawMessage(value))
		entries, readErr := os.ReadDir(parent)
		assert.NilError(t, readErr)
		assert.Equal(t, len(entries), 1, "something was written outside the workspace")
		if err != nil {
			assert.Assert(t, !strings.Contains(listing(t, dir), "staging"))
		}
	})
}
