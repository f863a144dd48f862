package drivertest

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	_ "image/jpeg" // for Picture
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Picture decodes a data URL of a PNG or JPEG.
func Picture(t testing.TB, dataURL string) image.Image {
	t.Helper()
	head, data, ok := strings.Cut(dataURL, ",")
	assert.Assert(t, ok && strings.HasSuffix(head, ";base64"), "%.40s", dataURL)
	raw, err := base64.StdEncoding.Strict().DecodeString(data)
	assert.NilError(t, err)
	img, format, err := image.Decode(bytes.NewReader(raw))
	assert.NilError(t, err)
	assert.Equal(t, head, "data:image/"+format+";base64")
	return img
}

// ColorAt fails unless the pixel's channels are each within tolerance of want.
func ColorAt(t testing.TB, img image.Image, x, y int, want color.RGBA, tolerance int) {
	t.Helper()
	got := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
	if distance(got, want) > tolerance {
		t.Errorf("pixel %d,%d is %v, want %v (tolerance %d); see %s", x, y, got, want, tolerance, savePicture(t, "got", img))
	}
}

// SamePixels fails unless the pictures have one size and at most allowed
// pixels differ by more than tolerance in a channel.
func SamePixels(t testing.TB, got, want image.Image, tolerance, allowed int) {
	t.Helper()
	if got.Bounds().Size() != want.Bounds().Size() {
		t.Fatalf("the picture is %v, want %v; see %s", got.Bounds().Size(), want.Bounds().Size(), savePicture(t, "got", got))
	}
	size, bad := got.Bounds().Size(), 0
	diff := image.NewRGBA(image.Rectangle{Max: size})
	g, w := got.Bounds().Min, want.Bounds().Min
	for y := range size.Y {
		for x := range size.X {
			a := color.RGBAModel.Convert(got.At(g.X+x, g.Y+y)).(color.RGBA)
			b := color.RGBAModel.Convert(want.At(w.X+x, w.Y+y)).(color.RGBA)
			if distance(a, b) > tolerance {
				bad++
				diff.Set(x, y, color.RGBA{255, 0, 0, 255})
			}
		}
	}
	if bad > allowed {
		t.Fatalf("%d pixels differ, allowed are %d; see %s, %s and %s", bad, allowed,
			savePicture(t, "got", got), savePicture(t, "want", want), savePicture(t, "diff", diff))
	}
}

func distance(a, b color.RGBA) int {
	d := 0
	for _, p := range [][2]uint8{{a.R, b.R}, {a.G, b.G}, {a.B, b.B}, {a.A, b.A}} {
		d = max(d, int(p[0])-int(p[1]), int(p[1])-int(p[0]))
	}
	return d
}

// savePicture writes the picture for a person to look at.
func savePicture(t testing.TB, name string, img image.Image) string {
	t.Helper()
	path := filepath.Join(t.ArtifactDir(), name+".png")
	f, err := os.Create(path)
	assert.NilError(t, err)
	assert.NilError(t, png.Encode(f, img))
	assert.NilError(t, f.Close())
	return path
}
