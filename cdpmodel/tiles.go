package cdpmodel

import (
	"fmt"
	"math"
	"strconv"
)

// Bounds of captures.
const (
	MaxTiles         = 200
	MaxDPR           = 4
	MaxCapturePixels = 16_777_216
	MaxTotalPixels   = 67_108_864
	// MaxCaptureBytes bounds the data URLs of one result together.
	MaxCaptureBytes = 16 << 20
)

// Geometry is what a capture has to cover, in CSS px.
type Geometry struct {
	Width          float64 `json:"width"`
	Height         float64 `json:"height"`         // of the whole page
	ViewportHeight float64 `json:"viewportHeight"` // also a tile's height
	DPR            float64 `json:"dpr"`            // device px for one CSS px
}

// Tile is one picture of a plan, in CSS px from the page's top left corner.
type Tile struct {
	Y      float64
	Width  float64
	Height float64
}

// TilePlan is how a page is pictured: tiles from top to bottom that cover it
// without a gap and without an overlap.
type TilePlan struct {
	Geometry
	Tiles []Tile
}

// PlanError says which bound a capture would pass. Nothing has been captured.
type PlanError struct {
	Message string
	Bound   string // tiles, dpr, pixels, total or geometry
}

func (e *PlanError) Error() string { return e.Message }

// PlanTiles plans the pictures of a whole page. Every bound is checked before
// the first picture: the error is a *PlanError.
func PlanTiles(g Geometry) (TilePlan, error) {
	if err := g.check(); err != nil {
		return TilePlan{}, err
	}
	// A rest of a billionth of a tile is rounding, and no tile.
	n := max(1, math.Ceil(g.Height/g.ViewportHeight-1e-9))
	if n > MaxTiles {
		return TilePlan{}, &PlanError{fmt.Sprintf("Screenshot capture requires %s tiles; maximum is %d", whole(n), MaxTiles), "tiles"}
	}
	p := TilePlan{Geometry: g}
	total := 0.0
	for i := range int(n) {
		y := float64(i) * g.ViewportHeight
		tile := Tile{Y: y, Width: g.Width, Height: min(g.ViewportHeight, g.Height-y)}
		pixels := raster(tile.Width, tile.Height, g.DPR)
		if pixels > MaxCapturePixels {
			return TilePlan{}, tooManyPixels(pixels)
		}
		total += pixels
		p.Tiles = append(p.Tiles, tile)
	}
	if total > MaxTotalPixels {
		return TilePlan{}, &PlanError{fmt.Sprintf("Screenshot capture requires %s pixels; maximum total is %d", whole(total), MaxTotalPixels), "total"}
	}
	return p, nil
}

// CheckCapture checks the bounds of one picture of width × height CSS px.
func CheckCapture(width, height, dpr float64) error {
	if err := (Geometry{width, height, height, dpr}).check(); err != nil {
		return err
	}
	if pixels := raster(width, height, dpr); pixels > MaxCapturePixels {
		return tooManyPixels(pixels)
	}
	return nil
}

func (g Geometry) check() error {
	for _, v := range []float64{g.Width, g.Height, g.ViewportHeight, g.DPR} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
			return &PlanError{fmt.Sprintf("Screenshot capture has nothing to picture: the page is %g × %g, its viewport %g high, the device pixel ratio %g",
				g.Width, g.Height, g.ViewportHeight, g.DPR), "geometry"}
		}
	}
	if g.DPR > MaxDPR {
		return &PlanError{fmt.Sprintf("Screenshot capture device pixel ratio is %g; maximum is %d", g.DPR, MaxDPR), "dpr"}
	}
	return nil
}

// raster is the size of a picture in device px.
func raster(width, height, dpr float64) float64 {
	return math.Ceil(width*dpr) * math.Ceil(height*dpr)
}

func tooManyPixels(n float64) error {
	return &PlanError{fmt.Sprintf("Screenshot capture requires %s pixels; maximum per capture is %d", whole(n), MaxCapturePixels), "pixels"}
}

func whole(f float64) string { return strconv.FormatFloat(f, 'f', 0, 64) }
