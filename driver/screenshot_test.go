package driver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
)

// TestScreenshotProgress checks that each tile is told of, and that a lease
// that was given back is taken anew.
func TestScreenshotProgress(t *testing.T) {
	s := start(t, "")
	pagecases.Striped(s, 30, 100)
	var notes []string
	d := New(nil)
	defer d.Close()
	res, err := d.Run(t.Context(), "page.screenshot", &Call{Conn: s.Conn, Progress: func(done, total int, note string) {
		notes = append(notes, fmt.Sprint(done, "/", total, " ", note))
	}}, json.RawMessage(`{"capture":{"kind":"full-page-tiles"}}`))
	assert.NilError(t, err)
	var out ScreenshotOut
	assert.NilError(t, json.Unmarshal(res.Value, &out))
	assert.Equal(t, len(notes), len(out.Tiles))
	assert.Equal(t, notes[0], fmt.Sprintf("1/%d tile 1 of %d", len(out.Tiles), len(out.Tiles)))
	assert.NilError(t, d.Release(t.Context(), s.Conn.Key()))
	s.Call("page.screenshot", `{}`)
}

// TestScreenshotBounds checks that nothing is pictured where a bound would be
// passed.
func TestScreenshotBounds(t *testing.T) {
	s := start(t, "")
	s.Goto("_/frame?text=tall")
	s.Eval("document.body.style.height = '1000000px'")
	r := recorded(s)
	e := s.Fail("page.screenshot", `{"fullPage":true}`, op.Rejected, op.CaptureLimit)
	assert.Assert(t, strings.HasPrefix(e.Message, "Screenshot capture requires ") && strings.HasSuffix(e.Message, " tiles; maximum is 200"), e.Message)
	assert.NilError(t, s.Conn.Call(t.Context(), "Emulation.setDeviceMetricsOverride", map[string]any{"width": 800, "height": 600, "deviceScaleFactor": 5, "mobile": false}, nil))
	e = s.Fail("page.screenshot", `{}`, op.Rejected, op.CaptureLimit)
	assert.Equal(t, e.Message, "Screenshot capture device pixel ratio is 5; maximum is 4")
	assert.NilError(t, s.Conn.Call(t.Context(), "Emulation.setDeviceMetricsOverride", map[string]any{"width": 5000, "height": 4000, "screenWidth": 5000, "deviceScaleFactor": 1, "mobile": false}, nil))
	e = s.Fail("page.screenshot", `{}`, op.Rejected, op.CaptureLimit)
	assert.Equal(t, e.Message, "Screenshot capture requires 20000000 pixels; maximum per capture is 16777216")
	assert.Equal(t, r.Count("Page.captureScreenshot"), 0)
	assert.NilError(t, s.Conn.Call(t.Context(), "Emulation.clearDeviceMetricsOverride", nil, nil))

}

// TestScreenshotFailures checks every call of a capture that fails: a read is
// never outcome-unknown.
func TestScreenshotFailures(t *testing.T) {
	s := start(t, "")
	pagecases.Striped(s, 20, 100)
	s.Call("page.screenshot", `{}`)
	r := recorded(s)
	r.Reset()
	s.Call("page.screenshot", `{"fullPage":true}`)
	n := len(r.Calls())
	for i := 1; i <= n; i++ {
		for _, err := range []error{op.ErrReplyLost, op.ErrNotDelivered, &op.ProtocolError{Method: "X", Message: "Unable to capture screenshot"}} {
			r.Reset()
			r.FailNth("", i, err)
			_, got := s.Run("page.screenshot", `{"fullPage":true}`)
			if len(r.Calls()) < i {
				break // after a failure that left the scroll bars away, there is less to do
			}
			e := op.AsError(got)
			assert.Assert(t, e != nil && e.Kind == op.Rejected && e.Message != "" && e.Hint != "", "call %d with %v: %v", i, err, got)
		}
	}
	r.Reset()
	s.Call("page.screenshot", `{}`)

	r.Reset()
	// A page that goes elsewhere between two tiles.
	r.BeforeNth("Page.captureScreenshot", 2, func() { drivertest.Goto(t, s.Conn, s.Site.URL("_/frame?text=other")) })
	s.Fail("page.screenshot", `{"fullPage":true}`, op.Rejected, op.DocumentChanged)
}

// BenchmarkScreenshotViewport pictures the viewport of a hidden tab.
func BenchmarkScreenshotViewport(b *testing.B) {
	s := start(b, "")
	pagecases.Striped(s, 100, 100)
	for b.Loop() {
		s.Call("page.screenshot", `{}`)
	}
}

// BenchmarkScreenshotTile pictures a whole page of a hidden tab; the metric is
// for one tile.
func BenchmarkScreenshotTile(b *testing.B) {
	s := start(b, "")
	pagecases.Striped(s, 100, 100)
	tiles := 0
	for b.Loop() {
		var out ScreenshotOut
		s.Value("page.screenshot", `{"fullPage":true}`, &out)
		tiles += len(out.Tiles)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(tiles), "ms/tile")
}
