// Package artifact keeps the pictures of chrome_screenshot as files, the same
// way on every surface and in lists of steps too: the value that a caller sees
// names paths instead of holding picture data.
//
// Files appear whole or not at all: they are written beside their place under
// another name and renamed. Nothing is written outside the workspace, symbolic
// links included.
package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// Folder is where pictures go whose place the caller does not name, in the
// workspace.
const Folder = ".pi/chrome-screenshots"

// input is what Publish needs of a call's input.
type input struct {
	Format  string `json:"format"`
	Capture struct {
		Path      string `json:"path"`
		Directory string `json:"directory"`
	} `json:"capture"`
}

// picture is a result of page.screenshot.
type picture struct {
	Kind       string          `json:"kind"`
	Format     string          `json:"format"`
	DataURL    string          `json:"dataUrl"`
	Tab        json.RawMessage `json:"tab"`
	Dimensions *dimensions     `json:"dimensions"`
	Tiles      []struct {
		Y       float64 `json:"y"`
		DataURL string  `json:"dataUrl"`
	} `json:"tiles"`
}

type dimensions struct {
	Width          float64 `json:"width"`
	Height         float64 `json:"height"`
	ViewportHeight float64 `json:"viewportHeight"`
	DPR            float64 `json:"dpr"`
}

// imageValue and tilesValue are what a caller sees.
type imageValue struct {
	Kind   string          `json:"kind"`
	Path   string          `json:"path"`
	Format string          `json:"format"`
	Tab    json.RawMessage `json:"tab,omitempty"`
}

type tilesValue struct {
	Kind         string          `json:"kind"`
	Directory    string          `json:"directory"`
	Format       string          `json:"format"`
	ManifestPath string          `json:"manifestPath"`
	Tiles        []tileValue     `json:"tiles"`
	Dimensions   *dimensions     `json:"dimensions"`
	Tab          json.RawMessage `json:"tab,omitempty"`
}

type tileValue struct {
	Path string  `json:"path"`
	Y    float64 `json:"y"`
}

// manifest is written beside the tiles; the order of its fields is the
// contract's.
type manifest struct {
	Version    int            `json:"version"`
	Kind       string         `json:"kind"`
	Format     string         `json:"format"`
	Dimensions *dimensions    `json:"dimensions"`
	Tiles      []manifestTile `json:"tiles"`
}

type manifestTile struct {
	File string  `json:"file"`
	Y    float64 `json:"y"`
}

// check refuses a path of the input of a screenshot: one that leaves the
// workspace, or whose extension is not the format's.
func check(in json.RawMessage) error {
	var i input
	if json.Unmarshal(in, &i) != nil {
		return nil
	}
	for field, p := range map[string]string{"capture.path": i.Capture.Path, "capture.directory": i.Capture.Directory} {
		if p == "" {
			continue
		}
		if err := op.CheckPortablePath(p); err != nil {
			return op.Invalidf("chrome_screenshot: field %q: %s", field, err).WithDetail("field", field)
		}
	}
	if i.Capture.Path != "" {
		if _, err := withExtension(i.Capture.Path, i.format()); err != nil {
			return err
		}
	}
	return nil
}

func (i input) format() string {
	if i.Format == "" {
		return "png"
	}
	return i.Format
}

// kept is a screenshot whose pictures are in files.
type kept struct {
	value    json.RawMessage // as a caller sees it
	text     string
	pictures []Picture // from the top of the page down
}

// publish writes the pictures of a result of page.screenshot under cwd. in is
// the call's input. An error is an *op.Error; then no file is left.
func publish(cwd string, in, value json.RawMessage) (kept, error) {
	if err := check(in); err != nil {
		return kept{}, err
	}
	var i input
	if err := json.Unmarshal(in, &i); err != nil && len(bytes.TrimSpace(in)) > 0 {
		return kept{}, failed("reading the input", err)
	}
	var p picture
	if err := json.Unmarshal(value, &p); err != nil {
		return kept{}, failed("reading the pictures", err)
	}
	if p.Format != "png" && p.Format != "jpeg" {
		return kept{}, failed("reading the pictures", fmt.Errorf("%q is no format of a picture", p.Format))
	}
	cwd, err := filepath.Abs(cwd)
	if err != nil {
		return kept{}, failed("finding the workspace", err)
	}
	root, err := os.OpenRoot(cwd)
	if err != nil {
		return kept{}, failed("opening the workspace", err)
	}
	defer func() { _ = root.Close() }()
	w := writer{root: root, cwd: cwd, format: p.Format}
	switch p.Kind {
	case "image":
		return w.image(p, i.Capture.Path)
	case "tile-set":
		return w.tiles(p, i.Capture.Directory)
	}
	return kept{}, failed("reading the pictures", fmt.Errorf("%q is no kind of a screenshot", p.Kind))
}

func failed(what string, err error) error {
	return op.Reject(op.ScreenshotFailure, "keeping the screenshot: %s: %s", what, err).
		WithHint("the page was pictured and not changed; choose another path and take the screenshot again").WithCause(err)
}

// stem is a place that nothing else has.
func stem() string {
	return fmt.Sprintf("%s/%d-%s", Folder, time.Now().UnixMilli(), uuid())
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func withExtension(p, format string) (string, error) {
	switch ext := path.Ext(p); ext {
	case "":
		return p + "." + format, nil
	case "." + format:
		return p, nil
	default:
		return "", op.Invalidf("Screenshot path extension %s does not match requested %s", ext, format).WithDetail("field", "capture.path")
	}
}

type writer struct {
	root   *os.Root
	cwd    string
	format string
}

func (w *writer) picture(data []byte) Picture {
	return Picture{MIMEType: "image/" + w.format, Data: data}
}

// full is the path of a name of the workspace as a caller sees it.
func (w *writer) full(name string) string { return filepath.Join(w.cwd, filepath.FromSlash(name)) }

func (w *writer) image(p picture, name string) (kept, error) {
	if name == "" {
		name = stem()
	}
	name, err := withExtension(name, p.Format)
	if err != nil {
		return kept{}, err
	}
	data, err := decode(p.DataURL, p.Format)
	if err != nil {
		return kept{}, failed("reading the picture", err)
	}
	staging, err := w.stage(name)
	if err != nil {
		return kept{}, err
	}
	if info, err := w.root.Lstat(name); err == nil && info.IsDir() {
		return kept{}, failed("writing "+w.full(name), errors.New("a folder has that name"))
	}
	err = w.write(staging, data)
	if err == nil {
		err = w.root.Rename(staging, name)
	}
	if err != nil {
		return kept{}, errors.Join(failed("writing "+w.full(name), escape(err)), ignoreAbsent(w.root.Remove(staging)))
	}
	out, err := encode(imageValue{Kind: "image", Path: w.full(name), Format: p.Format, Tab: p.Tab}, "")
	if err != nil {
		return kept{}, failed("describing the picture", err)
	}
	return kept{out, "Saved Chrome screenshot image to " + w.full(name), []Picture{w.picture(data)}}, nil
}

func (w *writer) tiles(p picture, name string) (kept, error) {
	if name == "" {
		name = stem() + "-tiles"
	}
	name = strings.TrimSuffix(name, "/")
	tiles, err := checkTiles(p)
	if err != nil {
		return kept{}, failed("reading the tiles", err)
	}
	staging, err := w.stage(name)
	if err != nil {
		return kept{}, err
	}
	exists := func() error {
		if _, err := w.root.Lstat(name); err == nil {
			return op.Reject(op.ScreenshotFailure, "Screenshot tile-set destination already exists: %s", w.full(name)).
				WithHint("nothing was written; choose another directory and take the screenshot again")
		}
		return nil
	}
	if err := exists(); err != nil {
		return kept{}, err
	}
	m := manifest{Version: 1, Kind: "tile-set", Format: p.Format, Dimensions: p.Dimensions}
	v := tilesValue{Kind: "tile-set", Directory: w.full(name), Format: p.Format, ManifestPath: w.full(name + "/manifest.json"), Dimensions: p.Dimensions, Tab: p.Tab}
	err = w.root.Mkdir(staging, 0o700)
	for i, data := range tiles {
		if err != nil {
			break
		}
		file := fmt.Sprintf("tile-%04d.%s", i, p.Format)
		err = w.write(staging+"/"+file, data)
		m.Tiles = append(m.Tiles, manifestTile{File: file, Y: p.Tiles[i].Y})
		v.Tiles = append(v.Tiles, tileValue{Path: w.full(name + "/" + file), Y: p.Tiles[i].Y})
	}
	if err == nil {
		var raw []byte
		if raw, err = encode(m, "  "); err == nil {
			err = w.write(staging+"/manifest.json", raw)
		}
	}
	if err == nil {
		// A rename would replace an empty folder that came meanwhile.
		if err = exists(); err == nil {
			err = w.root.Rename(staging, name)
		}
	}
	if err != nil {
		if _, ok := errors.AsType[*op.Error](err); !ok {
			err = failed("writing "+w.full(name), escape(err))
		}
		return kept{}, errors.Join(err, ignoreAbsent(w.root.RemoveAll(staging)))
	}
	out, err := encode(v, "")
	if err != nil {
		return kept{}, failed("describing the tiles", err)
	}
	k := kept{value: out, text: fmt.Sprintf("Saved %d full-page screenshot tiles to %s. Manifest: %s", len(v.Tiles), v.Directory, v.ManifestPath)}
	for _, data := range tiles {
		k.pictures = append(k.pictures, w.picture(data))
	}
	return k, nil
}

// stage makes the folder of name and returns a free name in it.
func (w *writer) stage(name string) (string, error) {
	dir := path.Dir(name)
	if err := w.root.MkdirAll(dir, 0o700); err != nil {
		return "", failed("making the folder "+w.full(dir), escape(err))
	}
	return path.Join(dir, "."+path.Base(name)+".staging-"+uuid()), nil
}

func (w *writer) write(name string, data []byte) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// escape says in plain words why os.Root refuses a symbolic link.
func escape(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && strings.Contains(pe.Err.Error(), "escapes") {
		return fmt.Errorf("a symbolic link leads out of the workspace: %w", err)
	}
	return err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// decode reads a data URL of exactly that format.
func decode(dataURL, format string) ([]byte, error) {
	data, ok := strings.CutPrefix(dataURL, "data:image/"+format+";base64,")
	if !ok {
		return nil, fmt.Errorf("the data is not a %s: %.40q", format, dataURL)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("decoding the %s: %w", format, err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("the %s is empty", format)
	}
	return raw, nil
}

// checkTiles decodes the tiles, which must be exactly those of the geometry.
func checkTiles(p picture) ([][]byte, error) {
	d := p.Dimensions
	if d == nil {
		return nil, errors.New("the tiles have no dimensions")
	}
	for _, v := range []float64{d.Width, d.Height, d.ViewportHeight, d.DPR} {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the dimensions %g × %g, %g, %g are not positive", d.Width, d.Height, d.ViewportHeight, d.DPR)
		}
	}
	if want := math.Ceil(d.Height / d.ViewportHeight); float64(len(p.Tiles)) != want {
		return nil, fmt.Errorf("there are %d tiles, the page needs %g", len(p.Tiles), want)
	}
	var out [][]byte
	for i, tile := range p.Tiles {
		if tile.Y != float64(i)*d.ViewportHeight {
			return nil, fmt.Errorf("tile %d lies at %g, not at %g", i, tile.Y, float64(i)*d.ViewportHeight)
		}
		data, err := decode(tile.DataURL, p.Format)
		if err != nil {
			return nil, fmt.Errorf("tile %d: %w", i, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// encode is JSON without the escapes for HTML and without a last line end.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
