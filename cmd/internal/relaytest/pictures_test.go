package relaytest

import (
	"fmt"
	"image/color"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// cells pictures the whole of screenshot/cells.html#n, zoomed to zoom, and
// compares every cell.
func cells(t testing.TB, s *Session, n int, zoom float64) {
	out := Value[driver.ScreenshotOut](t, s.Do("page.screenshot", map[string]any{"fullPage": true}))
	assert.Check(t, out.Dimensions.Width == 3000 && out.Dimensions.Height == 2500 && out.Dimensions.DPR == zoom, "%+v", *out.Dimensions)
	for _, tile := range out.Tiles {
		img := drivertest.Picture(t, tile.DataURL)
		for y := range 25 {
			for x := range 30 {
				at := float64(y)*100 + 50 - tile.Y
				if at < 0 || int(at*zoom) >= img.Bounds().Dy() {
					continue
				}
				drivertest.ColorAt(t, img, int(float64(x*100+50)*zoom), int(at*zoom), color.RGBA{uint8(x * 8), uint8(y * 9), uint8(40 + 50*n), 255}, 0)
			}
		}
	}
}

// pictures takes pictures of four tabs at once, and of a page that the user
// has zoomed.
func pictures(t *testing.T, l *Lane) {
	var wg sync.WaitGroup
	for n := range 4 {
		s := l.Session(t)
		wg.Go(func() {
			s.Open(fmt.Sprintf("%s/screenshot/cells.html#%d", l.URL, n))
			for range 2 {
				cells(t, s, n, 1)
			}
		})
	}
	wg.Wait()
	s, w := l.Session(t), &worker{browser: l.Browser}
	s.Open(l.Cross + "/screenshot/cells.html#0") // Chrome zooms a host, and the other tests' is the other one
	tab := 0
	for _, x := range Value[[]op.Tab](t, s.Do("tab.list", map[string]any{})) {
		if x.Owned {
			tab = x.ID
		}
	}
	for _, zoom := range []float64{1.5, 0.5} {
		assert.NilError(t, w.eval(t.Context(), fmt.Sprintf(`chrome.tabs.setZoomSettings(%[1]d, {scope: "per-tab"}).then(() => chrome.tabs.setZoom(%[1]d, %g))`, tab, zoom), nil))
		cells(t, s, 0, zoom)
	}
}
