package cdpmodel

import (
	"errors"
	"math"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

func TestPlanTiles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		g     Geometry
		tiles int
		err   string
	}{
		{"one viewport", Geometry{1280, 720, 720, 1}, 1, ""},
		{"three viewports", Geometry{1280, 2160, 720, 1}, 3, ""},
		{"a last tile of one px", Geometry{1280, 721, 720, 2}, 2, ""},
		{"as many tiles as may be", Geometry{100, 200 * 100, 100, 1}, 200, ""},
		{"one tile too many", Geometry{100, 200*100 + 1, 100, 1}, 0, "Screenshot capture requires 201 tiles; maximum is 200"},
		{"the highest ratio", Geometry{100, 100, 100, 4}, 1, ""},
		{"a higher one", Geometry{100, 100, 100, 4.5}, 0, "Screenshot capture device pixel ratio is 4.5; maximum is 4"},
		{"the largest picture", Geometry{4096, 4096, 4096, 1}, 1, ""},
		{"a larger one", Geometry{4097, 4096, 4096, 1}, 0, "Screenshot capture requires 16781312 pixels; maximum per capture is 16777216"},
		{"the largest total", Geometry{4096, 4 * 4096, 4096, 1}, 4, ""},
		{"a larger one", Geometry{4096, 4*4096 + 1, 4096, 1}, 0, "Screenshot capture requires 67112960 pixels; maximum total is 67108864"},
		{"a fraction of a px is a px", Geometry{10.5, 10, 10, 1.5}, 1, ""},
		{"nothing", Geometry{0, 0, 720, 1}, 0, "Screenshot capture has nothing to picture: the page is 0 × 0, its viewport 720 high, the device pixel ratio 1"},
		{"no number", Geometry{math.NaN(), 1, 1, 1}, 0, "Screenshot capture has nothing to picture: the page is NaN × 1, its viewport 1 high, the device pixel ratio 1"},
		{"endless", Geometry{1, 1e300, 1e-300, 1}, 0, "Screenshot capture requires +Inf tiles; maximum is 200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := PlanTiles(tt.g)
			if tt.err != "" {
				assert.Error(t, err, tt.err)
				var pe *PlanError
				assert.Assert(t, errors.As(err, &pe) && pe.Bound != "")
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, len(p.Tiles), tt.tiles)
		})
	}
	assert.Error(t, CheckCapture(5000, 5000, 1), "Screenshot capture requires 25000000 pixels; maximum per capture is 16777216")
	assert.NilError(t, CheckCapture(1280, 720, 2))
}

func drawGeometry(t *rapid.T) Geometry {
	return Geometry{
		Width:          rapid.Float64Range(0.1, 6000).Draw(t, "width"),
		Height:         rapid.Float64Range(0.1, 60_000).Draw(t, "height"),
		ViewportHeight: rapid.Float64Range(0.1, 3000).Draw(t, "viewportHeight"),
		DPR:            rapid.Float64Range(0.25, 4.5).Draw(t, "dpr"),
	}
}

// checkPlan: a plan covers the page exactly and keeps within every bound.
func checkPlan(t assert.TestingT, g Geometry) {
	p, err := PlanTiles(g)
	if err != nil {
		assert.Equal(t, len(p.Tiles), 0)
		return
	}
	assert.Assert(t, len(p.Tiles) > 0 && len(p.Tiles) <= MaxTiles && g.DPR <= MaxDPR)
	total := 0.0
	for i, tile := range p.Tiles {
		assert.Equal(t, tile.Y, float64(i)*g.ViewportHeight)
		assert.Equal(t, tile.Width, g.Width)
		assert.Assert(t, tile.Height > 0 && tile.Height <= g.ViewportHeight)
		if i < len(p.Tiles)-1 {
			assert.Equal(t, tile.Height, g.ViewportHeight)
		}
		n := math.Ceil(tile.Width*g.DPR) * math.Ceil(tile.Height*g.DPR)
		assert.Assert(t, n <= MaxCapturePixels)
		total += n
	}
	last := p.Tiles[len(p.Tiles)-1]
	assert.Assert(t, math.Abs(last.Y+last.Height-g.Height) < max(1e-6, g.ViewportHeight*2e-9))
	assert.Assert(t, total <= MaxTotalPixels)
}

func TestPlanTilesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkPlan(t, drawGeometry(t)) })
}

func FuzzPlanTiles(f *testing.F) {
	f.Add(1280.0, 2160.0, 720.0, 1.0)
	f.Add(3761.0, 2160.0, 22.04081632653061, 1.0) // 98 tiles, and rounding
	f.Add(0.0, math.Inf(1), -1.0, math.NaN())
	f.Fuzz(func(t *testing.T, w, h, v, d float64) {
		if h < 1e9 && v > 1e-3 { // the property about the last tile's end is one of real pages
			checkPlan(t, Geometry{w, h, v, d})
		}
	})
}
