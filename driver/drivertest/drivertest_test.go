package drivertest

import (
	"errors"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func TestMain(m *testing.M) { Main(m) }

// TestRecorder checks the log and both ways to fail: not sent, and sent with
// the reply lost.
func TestRecorder(t *testing.T) {
	r := Record(t, Page(t))
	assert.Equal(t, Eval(t, r, "globalThis.n = 1"), "1")
	r.FailNth("Runtime.evaluate", 2, op.ErrNotDelivered)
	r.FailNth("Runtime.evaluate", 3, op.ErrReplyLost)
	evaluate := func() error {
		return r.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "n++"}, nil)
	}
	assert.NilError(t, evaluate())
	assert.Assert(t, errors.Is(evaluate(), op.ErrNotDelivered))
	assert.Assert(t, errors.Is(evaluate(), op.ErrReplyLost))
	assert.Equal(t, Eval(t, r, "n"), "3") // the second one was not sent
	assert.Equal(t, r.Count("Runtime.evaluate"), 5)
	assert.Assert(t, errors.Is(r.Calls()[2].Err, op.ErrNotDelivered))
	hooked := false
	r.BeforeNth("", 1, func() { hooked = true })
	assert.NilError(t, evaluate())
	assert.Assert(t, hooked)
}

// TestSite checks that a cross-origin frame is one.
func TestSite(t *testing.T) {
	p, site := Page(t), Server(t)
	Goto(t, p, site.URL("_/frame?text=hello"))
	assert.Equal(t, Eval(t, p, "location.origin"), `"`+site.Origin+`"`)
	Goto(t, p, site.Cross+"/_/frame?text=hello")
	assert.Equal(t, Eval(t, p, "document.querySelector('p').textContent"), `"hello"`)
	assert.Equal(t, site.Neutral(site.Cross+" "+site.Origin+" "+site.Third), "http://cross http://site http://third")
}

func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, "op"), 0o755))
	for _, name := range []string{"a--used", "a--unused"} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "op", name+".golden.txt"), []byte("text\n"), 0o644))
	}
	goldenIn(t, dir, "op", "a--used", "text")
	assert.DeepEqual(t, orphans(dir), []string{filepath.Join(dir, "op", "a--unused.golden.txt")})
}

func TestPixels(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 2, 1))
	img.Set(0, 0, color.RGBA{250, 0, 0, 255})
	img.Set(1, 0, color.RGBA{0, 0, 0, 255})
	ColorAt(t, img, 0, 0, color.RGBA{255, 0, 0, 255}, 5)
	assert.Equal(t, distance(color.RGBA{250, 0, 0, 255}, color.RGBA{255, 7, 0, 255}), 7)
	other := image.NewRGBA(image.Rect(5, 5, 7, 6))
	other.Set(5, 5, color.RGBA{255, 0, 0, 255})
	other.Set(6, 5, color.RGBA{0, 9, 0, 255})
	SamePixels(t, img, other, 5, 1)
}
