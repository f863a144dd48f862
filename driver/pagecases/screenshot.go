package pagecases

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type shot struct {
	Kind       string `json:"kind"`
	Format     string `json:"format"`
	DataURL    string `json:"dataUrl"`
	Tab        op.Tab `json:"tab"`
	Dimensions struct{ Width, Height, ViewportHeight, DPR float64 }
	Tiles      []struct {
		Y       float64
		DataURL string
	}
	Notes []string
}

// whole pictures the whole page and returns it as one picture.
func whole(s *drivertest.Scenario) (*image.RGBA, shot) {
	s.T.Helper()
	var out shot
	s.Value("page.screenshot", `{"capture":{"kind":"full-page-tiles"},"format":"png"}`, &out)
	d := out.Dimensions
	all := image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.Width*d.DPR)), int(math.Ceil(d.Height*d.DPR))))
	for i, tile := range out.Tiles {
		assert.Equal(s.T, tile.Y, float64(i)*d.ViewportHeight)
		img := drivertest.Picture(s.T, tile.DataURL)
		assert.Equal(s.T, img.Bounds().Dx(), all.Bounds().Dx())
		assert.Equal(s.T, img.Bounds().Dy(), int(min(d.ViewportHeight, d.Height-tile.Y)*d.DPR))
		draw.Draw(all, img.Bounds().Add(image.Pt(0, int(tile.Y*d.DPR))), img, img.Bounds().Min, draw.Src)
	}
	return all, out
}

var screenshotCases = []drivertest.Case{
	{Name: "screenshot--viewport", Do: screenshotViewport},
	{Name: "screenshot--tiles", Do: screenshotTiles},
	{Name: "screenshot--keeps-scroll", Do: screenshotKeepsScroll},
	{Name: "screenshot--bad-input", Do: screenshotBadInput},
	{Name: "screenshot--too-tall", Page: "screenshot/too-tall.html", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.screenshot", `{"fullPage":true}`, op.Rejected, op.CaptureLimit)
		assert.Assert(s.T, strings.HasPrefix(e.Message, "Screenshot capture requires ") && strings.HasSuffix(e.Message, " tiles; maximum is 200"), e.Message)
		s.Call("page.screenshot", `{}`)
	}},
	{Name: "screenshot--quadrants", Page: "screenshot/quadrants.html", Do: func(s *drivertest.Scenario) {
		var out shot
		s.Value("page.screenshot", `{}`, &out)
		img := drivertest.Picture(s.T, out.DataURL)
		size := img.Bounds().Size()
		for i, want := range []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 0, 255}} {
			drivertest.ColorAt(s.T, img, size.X/4+i%2*size.X/2, size.Y/4+i/2*size.Y/2, want, 0)
		}
	}},
	{Name: "screenshot--long", Page: "screenshot/long.html", Do: func(s *drivertest.Scenario) {
		all, out := whole(s)
		assert.Equal(s.T, out.Dimensions.Height, 10000.0)
		for n := range 100 {
			for _, y := range []int{n * 100, n*100 + 99} {
				drivertest.ColorAt(s.T, all, 600, y, color.RGBA{uint8(n * 2), uint8(255 - n*2), uint8(n % 2 * 255), 255}, 0)
			}
		}
		assert.Equal(s.T, s.Eval("scrollY"), "0")
	}},
	{Name: "screenshot--odd-height", Page: "screenshot/odd-height.html", Do: func(s *drivertest.Scenario) {
		all, out := whole(s)
		assert.Equal(s.T, out.Dimensions.Height, 1237.0)
		drivertest.ColorAt(s.T, all, 5, 1236, color.RGBA{0, 170, 0, 255}, 0)
		drivertest.ColorAt(s.T, all, 5, 1226, color.RGBA{238, 238, 238, 255}, 0)
	}},
	{Name: "screenshot--wide", Page: "screenshot/wide.html", Do: func(s *drivertest.Scenario) {
		all, out := whole(s)
		assert.Equal(s.T, out.Dimensions.Width, 3000.0)
		for _, x := range []int{5, 1200, 1290, 2400, 2570, 2990} {
			drivertest.ColorAt(s.T, all, x, 100, color.RGBA{uint8(255 - x*255/3000), 0, uint8(x * 255 / 3000), 255}, 3)
		}
	}},
	{Name: "screenshot--bars", Page: "screenshot/cells.html#1", Do: func(s *drivertest.Scenario) {
		// Scroll bars are not in the picture, take no room in it, and are
		// there again afterwards; so is what the page has for styles.
		const looks = "[document.documentElement.clientWidth, document.documentElement.clientHeight, document.adoptedStyleSheets.length]"
		before := s.Eval(looks)
		assert.Assert(s.T, s.Eval("document.documentElement.clientWidth < innerWidth && document.documentElement.clientHeight < innerHeight") == "true", before)
		all, out := whole(s)
		assert.Equal(s.T, fmt.Sprint(out.Dimensions.ViewportHeight), s.Eval("innerHeight"))
		for y := 50; y < 2500; y += 100 {
			for x := 50; x < 3000; x += 100 {
				drivertest.ColorAt(s.T, all, x, y, color.RGBA{uint8(x / 100 * 8), uint8(y / 100 * 9), 90, 255}, 0)
			}
		}
		assert.Equal(s.T, s.Eval(looks), before)
		// What is at the right edge of a page that is only higher than the view.
		s.Eval("(document.body.innerHTML = '<div style=\"width: 100%; height: 2000px; background: #123456\"></div>')")
		before = s.Eval(looks)
		all, out = whole(s)
		assert.Equal(s.T, fmt.Sprint(out.Dimensions.Width), s.Eval("innerWidth"))
		drivertest.ColorAt(s.T, all, all.Bounds().Dx()-1, 1900, color.RGBA{0x12, 0x34, 0x56, 255}, 0)
		assert.Equal(s.T, s.Eval(looks), before)
		fine, coarse := s.Call("page.screenshot", `{"fullPage":true,"format":"jpeg","quality":100}`), s.Call("page.screenshot", `{"fullPage":true,"format":"jpeg","quality":0}`)
		assert.Assert(s.T, len(coarse.Value) < len(fine.Value))
	}},
	{Name: "screenshot--frames", Page: "screenshot/frames.html", Do: func(s *drivertest.Scenario) {
		all, _ := whole(s)
		drivertest.ColorAt(s.T, all, 100, 100, color.RGBA{255, 0, 0, 255}, 0)
		drivertest.ColorAt(s.T, all, 300, 300, color.RGBA{255, 255, 0, 255}, 0)
	}},
	{Name: "screenshot--sticky", Page: "screenshot/sticky.html", Do: func(s *drivertest.Scenario) {
		all, _ := whole(s)
		bars := 0
		for y := 1; y < all.Bounds().Dy(); y++ {
			magenta := color.RGBA{255, 0, 255, 255}
			if all.RGBAAt(600, y) == magenta && all.RGBAAt(600, y-1) != magenta || y == 1 && all.RGBAAt(600, 0) == magenta {
				bars++
			}
		}
		assert.Equal(s.T, bars, 1, "the fixed header is there %d times", bars)
	}},
	{Name: "screenshot--transparent", Page: "screenshot/transparent.html", Do: func(s *drivertest.Scenario) {
		for _, format := range []string{"png", "jpeg"} {
			var out shot
			s.Value("page.screenshot", map[string]any{"format": format}, &out)
			drivertest.ColorAt(s.T, drivertest.Picture(s.T, out.DataURL), 600, 400, color.RGBA{255, 255, 255, 255}, 0)
		}
	}},
	{Name: "screenshot--animated", Page: "screenshot/animated.html", Do: func(s *drivertest.Scenario) {
		begin := time.Now()
		s.Call("page.screenshot", `{}`)
		s.Call("page.screenshot", `{"fullPage":true}`)
		assert.Assert(s.T, time.Since(begin) < 10*time.Second)
	}},
	{Name: "screenshot--notes", Do: func(s *drivertest.Scenario) {
		for page, note := range map[string]string{
			"screenshot/grows.html":        "px high when it was measured and is",
			"screenshot/inner-scroll.html": "main scrolls by itself",
			"screenshot/lazy.html":         "pictures of the page were not loaded",
		} {
			s.Goto(page)
			var out shot
			res := s.Value("page.screenshot", `{"fullPage":true}`, &out)
			assert.Assert(s.T, strings.Contains(strings.Join(out.Notes, "\n"), note), "%s: %q", page, out.Notes)
			assert.Assert(s.T, strings.Contains(res.Text, "\nnote: "), res.Text)
			assert.Equal(s.T, len(out.Tiles), int(math.Ceil(out.Dimensions.Height/out.Dimensions.ViewportHeight)))
		}
	}},
}

// Striped makes the page a stack of bands, each of its own color, of the given
// height in px, and has it count in seen what a picture must not cause.
func Striped(s *drivertest.Scenario, bands, height int) {
	s.T.Helper()
	s.Goto("_/frame?text=stripes")
	s.Eval(fmt.Sprintf(`(() => {
		document.documentElement.style.background = 'white';
		document.body.innerHTML = '';
		document.body.style.margin = 0;
		for (let i = 0; i < %d; i++) {
			const d = document.createElement('div');
			d.style.cssText = 'height:%dpx;background:rgb(' + (i * 37 %% 256) + ',' + (i * 91 %% 256) + ',' + (i * 13 %% 256) + ')';
			document.body.append(d);
		}
		globalThis.seen = [];
		for (const type of ['scroll', 'resize']) addEventListener(type, () => seen.push(type), true);
	})()`, bands, height))
}

func band(i int) color.RGBA {
	return color.RGBA{uint8(i * 37), uint8(i * 91), uint8(i * 13), 255}
}

func screenshotViewport(s *drivertest.Scenario) {
	t := s.T
	Striped(s, 10, 100)
	assert.Equal(t, s.Eval("document.visibilityState"), `"hidden"`)
	var out shot
	res := s.Value("page.screenshot", `{"capture":{"kind":"viewport"},"format":"png"}`, &out)
	assert.Equal(t, out.Kind+" "+out.Format, "image png")
	assert.Equal(t, out.Tab.URL, s.Site.URL("_/frame?text=stripes"))
	assert.Assert(t, strings.HasPrefix(res.Text, "Chrome screenshot of the viewport (png, "), res.Text)
	img := drivertest.Picture(t, out.DataURL)
	assert.Equal(t, fmt.Sprintf("%dx%d", img.Bounds().Dx(), img.Bounds().Dy()), strings.Trim(s.Eval("innerWidth + 'x' + innerHeight"), `"`))
	for i := range 5 {
		drivertest.ColorAt(t, img, 10, i*100+50, band(i), 0)
	}
	// What is pictured is what was scrolled to; nothing is scrolled for it.
	s.Eval("scrollTo(0, 200)")
	s.Value("page.screenshot", `{"format":"jpeg","quality":90}`, &out)
	img = drivertest.Picture(t, out.DataURL)
	drivertest.ColorAt(t, img, 10, 50, band(2), 6)
	assert.Equal(t, s.Eval("scrollY"), "200")
	assert.Equal(t, s.Eval("seen.filter(e => e === 'resize').length"), "0")
}

func screenshotTiles(s *drivertest.Scenario) {
	t := s.T
	Striped(s, 30, 100)
	s.Eval("scrollTo(0, 333)")
	all, out := whole(s)
	dim := out.Dimensions
	assert.Equal(t, dim.Height, 3000.0)
	assert.Equal(t, dim.DPR, 1.0)
	want := int((dim.Height + dim.ViewportHeight - 1) / dim.ViewportHeight)
	assert.Equal(t, len(out.Tiles), want)
	for y := range int(dim.Height) {
		drivertest.ColorAt(t, all, 10, y, band(y/100), 0)
		if t.Failed() {
			break
		}
	}
	assert.Equal(t, s.Eval("scrollY"), "333")
	fine := s.Call("page.screenshot", `{"fullPage":true,"format":"jpeg","quality":100}`)
	coarse := s.Call("page.screenshot", `{"fullPage":true,"format":"jpeg","quality":5}`)
	assert.Assert(t, strings.HasPrefix(fine.Text, fmt.Sprintf("Chrome screenshot of the full page: %d tiles (jpeg), ", want)), fine.Text)
	assert.Assert(t, len(coarse.Value) < len(fine.Value))
}

// screenshotKeepsScroll checks a page that Chrome scrolls while it pictures
// what lies beyond the viewport.
func screenshotKeepsScroll(s *drivertest.Scenario) {
	Striped(s, 30, 100)
	s.Eval(`(() => {
		const style = document.createElement('style');
		style.textContent = '@media (max-height: 300px) { body > div { height: 5px !important } #inner > p { height: 1px !important; margin: 0 } }';
		document.head.append(style);
		const inner = document.createElement('div');
		inner.id = 'inner';
		inner.style.cssText = 'overflow: auto; height: 200px';
		inner.innerHTML = '<p style="height:1000px">tall</p>';
		document.body.append(inner);
		inner.scrollTop = 400;
		scrollTo(0, 900);
		document.documentElement.style.scrollBehavior = 'smooth';
	})()`)
	s.Call("page.screenshot", `{"fullPage":true}`)
	assert.Equal(s.T, s.Eval("scrollY"), "900")
	assert.Equal(s.T, s.Eval("inner.scrollTop"), "400")
}

func screenshotBadInput(s *drivertest.Scenario) {
	for input, part := range map[string]string{
		`{"format":"gif"}`:                                                    "png, jpeg",
		`{"format":"png","quality":5}`:                                        "quality",
		`{"quality":5}`:                                                       "quality",
		`{"format":"jpeg","quality":101}`:                                     "0 to 100",
		`{"capture":{"kind":"window"}}`:                                       "full-page-tiles",
		`{"capture":{}}`:                                                      "capture.kind",
		`{"capture":{"kind":"viewport","directory":"x"}}`:                     "capture.directory",
		`{"capture":{"kind":"full-page-tiles","path":"x"}}`:                   "capture.path",
		`{"capture":{"kind":"viewport","path":"/x.png"}}`:                     "absolute",
		`{"capture":{"kind":"viewport","path":"../x.png"}}`:                   `".."`,
		`{"capture":{"kind":"viewport"},"fullPage":true}`:                     "capture and fullPage",
		`{"capture":{"kind":"viewport"},"format":"png","background":"never"}`: "background",
	} {
		e := s.Fail("page.screenshot", input, op.Invalid, op.InvalidInput)
		assert.Assert(s.T, strings.Contains(e.Message, part), "%s: %s", input, e.Message)
	}
}
