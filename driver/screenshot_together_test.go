package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// cells checks that a full-page picture of screenshot/cells.html#n shows every
// cell of the page where it is. It may be called from several goroutines.
func cells(s *drivertest.Scenario, n int) error {
	res, err := s.Run("page.screenshot", `{"fullPage":true}`)
	if err != nil {
		return err
	}
	var out ScreenshotOut
	if err := json.Unmarshal(res.Value, &out); err != nil {
		return err
	}
	if d := out.Dimensions; d.Width != 3000 || d.Height != 2500 {
		return fmt.Errorf("the page is %g × %g", d.Width, d.Height)
	}
	for i, tile := range out.Tiles {
		img := drivertest.Picture(s.T, tile.DataURL)
		if img.Bounds().Dx() != 3000 {
			return fmt.Errorf("tile %d is %v", i, img.Bounds())
		}
		for y := 0; y < img.Bounds().Dy(); y += 7 {
			for x := 5; x < 3000; x += 10 {
				want := color.RGBA{uint8(x / 100 * 8), uint8((y + int(tile.Y)) / 100 * 9), uint8(40 + 50*n), 255}
				if got := color.RGBAModel.Convert(img.At(x, y)); got != want {
					return fmt.Errorf("tile %d: pixel %d,%d is %v, want %v", i, x, y, got, want)
				}
			}
		}
	}
	return nil
}

// TestScreenshotTogether pictures four hidden tabs of one browser at the same
// time, pages that are wider and higher than the view, and each of them twice
// at once. No picture may need a view of another size: Chrome fills up with
// repetitions what it has not got in time.
func TestScreenshotTogether(t *testing.T) {
	var all []*drivertest.Scenario
	for n := range 4 {
		s := start(t, fmt.Sprint("screenshot/cells.html#", n))
		s.Call("page.screenshot", `{}`)
		recorded(s).Reset()
		all = append(all, s)
	}
	var wg sync.WaitGroup
	for n, s := range all {
		for range 2 {
			wg.Go(func() { assert.Check(t, cells(s, n), "tab %d", n) })
		}
	}
	wg.Wait()
	for _, s := range all {
		var view []float64
		assert.NilError(t, json.Unmarshal([]byte(s.Eval("[innerWidth, innerHeight]")), &view))
		shots := 0
		for _, c := range recorded(s).Calls() {
			if c.Method != "Page.captureScreenshot" {
				continue
			}
			var in struct {
				Clip struct{ Width, Height, Scale float64 }
			}
			assert.NilError(t, json.Unmarshal([]byte(c.Params), &in))
			assert.DeepEqual(t, []float64{in.Clip.Width, in.Clip.Height, in.Clip.Scale}, append(view, 1))
			shots++
		}
		assert.Equal(t, shots, 2*4*3)
	}
}

// TestScreenshotWaitsItsTurn checks that who waits for another picture of the
// tab can leave.
func TestScreenshotWaitsItsTurn(t *testing.T) {
	s := start(t, "screenshot/cells.html#0")
	d := New(nil)
	defer d.Close()
	run := func(ctx context.Context, before func()) error {
		_, err := d.Run(ctx, "page.screenshot", &Call{Conn: s.Conn, Progress: func(done, _ int, _ string) {
			if done == 1 && before != nil {
				before()
			}
		}}, json.RawMessage(`{"fullPage":true}`))
		return err
	}
	assert.NilError(t, run(t.Context(), func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorContains(t, run(ctx, nil), "canceled")
	}))
}

// TestScreenshotAndInput clicks while the whole page is pictured, again and
// again: every press reaches its button.
func TestScreenshotAndInput(t *testing.T) {
	s := start(t, "screenshot/cells.html#1")
	s.Eval(`(() => {
		globalThis.hits = [];
		addEventListener('mousedown', (e) => hits.push(e.target.textContent));
		for (const [name, x, y] of [['a', 40, 40], ['b', 900, 500]]) {
			const b = document.createElement('button');
			b.id = b.textContent = name;
			b.style.cssText = 'position: absolute; left: ' + x + 'px; top: ' + y + 'px; width: 60px; height: 30px';
			document.body.append(b);
		}
	})()`)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for pictured := false; ; pictured = true {
			select {
			case <-done:
				assert.Check(t, pictured)
				return
			default:
			}
			if _, err := s.Run("page.screenshot", `{"fullPage":true}`); !assert.Check(t, err) {
				return
			}
		}
	})
	var want []string
	for i := range 10 {
		name := string(rune('a' + i%2))
		want = append(want, name)
		_, err := s.Run("input.click", map[string]any{"selector": "#" + name})
		assert.Check(t, err)
	}
	close(done)
	wg.Wait()
	var hits []string
	assert.NilError(t, json.Unmarshal([]byte(s.Eval("hits")), &hits))
	assert.DeepEqual(t, hits, want)
}

// TestScreenshotLeft leaves a picture of the whole page while Chrome works on
// it: the next one waits for Chrome, since two at a time spoil each other.
func TestScreenshotLeft(t *testing.T) {
	s := start(t, "screenshot/cells.html#2")
	s.Call("page.screenshot", `{}`)
	r := recorded(s)
	r.Reset()
	d := New(nil)
	defer d.Close()
	run := func(ctx context.Context) error {
		_, err := d.Run(ctx, "page.screenshot", &Call{Conn: s.Conn}, json.RawMessage(`{"fullPage":true}`))
		return err
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	r.BeforeNth("Page.captureScreenshot", 2, func() {
		leave()
		<-done
	})
	assert.ErrorContains(t, run(ctx), "canceled")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, run(short), "another picture")
	assert.Equal(t, r.Count("Page.captureScreenshot"), 2)
	close(done)
	assert.NilError(t, run(t.Context()))
	assert.NilError(t, cells(s, 2))
}

// TestScreenshotWithoutFrame has a picture wait for a frame that does not
// come: the lease is taken anew, and no second picture is asked for.
func TestScreenshotWithoutFrame(t *testing.T) {
	s := start(t, "screenshot/cells.html#3")
	s.Call("page.screenshot", `{}`)
	r := recorded(s)
	r.Reset()
	again := make(chan struct{})
	r.BeforeNth("Page.startScreencast", 1, func() { close(again) })
	r.BeforeNth("Page.captureScreenshot", 2, func() { <-again })
	assert.NilError(t, cells(s, 3))
	assert.Equal(t, r.Count("Page.stopScreencast"), 1)
	assert.Equal(t, r.Count("Page.captureScreenshot"), 4*3)
}

// TestScreenshotResized changes the size of the view while the page is
// pictured: once, as Chrome's bar does that comes a while after an attach, and
// then before every picture.
func TestScreenshotResized(t *testing.T) {
	s := start(t, "screenshot/long.html")
	r := recorded(s)
	height := 500
	resize := func() {
		height += 10
		assert.Check(t, s.Conn.Call(t.Context(), "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil))
	}
	r.BeforeNth("Page.captureScreenshot", 2, resize)
	var out ScreenshotOut
	assert.NilError(t, json.Unmarshal(s.Call("page.screenshot", `{"fullPage":true}`).Value, &out))
	assert.Equal(t, out.Dimensions.ViewportHeight, float64(height))
	y := 0.0
	for _, tile := range out.Tiles {
		assert.Equal(t, tile.Y, y)
		y += float64(drivertest.Picture(t, tile.DataURL).Bounds().Dy())
	}
	assert.Equal(t, y, 10000.0)

	r.Reset()
	var again func()
	again = func() {
		resize()
		r.BeforeNth("Page.captureScreenshot", 1, again)
	}
	r.BeforeNth("Page.captureScreenshot", 1, again)
	e := s.Fail("page.screenshot", `{"fullPage":true}`, op.Rejected, op.DocumentChanged)
	assert.ErrorContains(t, e, "changed its size")
}
