package driver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// The kinds of captures.
const (
	captureViewport = "viewport"
	captureTiles    = "full-page-tiles"
)

// CaptureIn says what is pictured, and where a surface puts the files.
type CaptureIn struct {
	Kind      string `json:"kind" enum:"viewport|full-page-tiles" brief:"" jsonschema:"viewport: what a user would see now; full-page-tiles: the whole page as pictures of one viewport's height each"`
	Path      string `json:"path,omitzero" maxLength:"1024" brief:"file for a viewport picture, in the workspace" jsonschema:"the file of a viewport picture, relative to the workspace, with / between its parts; its extension must be that of the format"`
	Directory string `json:"directory,omitzero" maxLength:"1024" brief:"new folder for tiles, in the workspace" jsonschema:"the folder of the tiles, relative to the workspace; it must not exist yet"`
}

// ScreenshotIn is the input of chrome_screenshot.
type ScreenshotIn struct {
	Capture  *CaptureIn `json:"capture,omitempty" brief:"where to keep it" jsonschema:"what to picture; the viewport when absent"`
	FullPage bool       `json:"fullPage,omitzero" brief:"whole page as tiles" jsonschema:"short for the capture full-page-tiles"`
	Format   string     `json:"format,omitzero" enum:"png|jpeg" brief:"default png" jsonschema:"png when absent"`
	Quality  *int       `json:"quality,omitempty" min:"0" max:"100" brief:"of a jpeg, 0 to 100" jsonschema:"of a jpeg; 80 when absent"`
	op.TabInput
}

// kind is what the input asks for.
func (in ScreenshotIn) kind() string {
	switch {
	case in.Capture != nil:
		return in.Capture.Kind
	case in.FullPage:
		return captureTiles
	}
	return captureViewport
}

// check refuses what the schema cannot.
func (in ScreenshotIn) check() error {
	invalid := func(field, format string, args ...any) error {
		return op.Invalidf("chrome_screenshot: "+format, args...).WithDetail("field", field)
	}
	if in.Capture != nil && in.FullPage && in.Capture.Kind != captureTiles {
		return invalid("fullPage", "give one of capture and fullPage")
	}
	if in.Quality != nil && in.Format != "jpeg" {
		return invalid("quality", "field \"quality\" is only for the format jpeg")
	}
	if c := in.Capture; c != nil {
		if c.Path != "" && c.Kind != captureViewport {
			return invalid("capture.path", "field \"capture.path\" is only for the kind viewport; give capture.directory")
		}
		if c.Directory != "" && c.Kind != captureTiles {
			return invalid("capture.directory", "field \"capture.directory\" is only for the kind full-page-tiles; give capture.path")
		}
		for field, p := range map[string]string{"capture.path": c.Path, "capture.directory": c.Directory} {
			if p == "" {
				continue
			}
			if err := op.CheckPortablePath(p); err != nil {
				return invalid(field, "field %q: %s", field, err)
			}
		}
	}
	return nil
}

// Dimensions are a tile set's, in CSS px.
type Dimensions struct {
	Width          float64 `json:"width"`
	Height         float64 `json:"height"`
	ViewportHeight float64 `json:"viewportHeight"`
	DPR            float64 `json:"dpr" jsonschema:"device pixels of one CSS pixel"`
}

// TileOut is one picture of a tile set.
type TileOut struct {
	Y       float64 `json:"y" jsonschema:"its top edge in the page, in CSS pixels"`
	DataURL string  `json:"dataUrl"`
}

// ScreenshotOut is the result of chrome_screenshot: one picture, or a tile
// set. A surface that keeps files replaces the data URLs by paths.
type ScreenshotOut struct {
	Kind       string      `json:"kind" enum:"image|tile-set"`
	Format     string      `json:"format" enum:"png|jpeg"`
	DataURL    string      `json:"dataUrl,omitzero"`
	Tab        op.Tab      `json:"tab"`
	Dimensions *Dimensions `json:"dimensions,omitempty"`
	Tiles      []TileOut   `json:"tiles,omitempty"`
	Notes      []string    `json:"notes,omitempty" jsonschema:"what the picture of a whole page does not show"`
}

// Text says what was pictured; the pictures themselves are no text.
func (o ScreenshotOut) Text() string {
	var b strings.Builder
	if o.Kind == "image" {
		fmt.Fprintf(&b, "Chrome screenshot of the viewport (%s, %d bytes)", o.Format, pictureBytes(o.DataURL))
	} else {
		d := o.Dimensions
		fmt.Fprintf(&b, "Chrome screenshot of the full page: %d tiles (%s), %g × %g CSS px, %g px high each, device pixel ratio %g",
			len(o.Tiles), o.Format, d.Width, d.Height, d.ViewportHeight, d.DPR)
	}
	fmt.Fprintf(&b, "\ntitle: %s\nurl: %s", o.Tab.Title, o.Tab.URL)
	for _, n := range o.Notes {
		b.WriteString("\nnote: " + n)
	}
	return b.String()
}

func pictureBytes(dataURL string) int {
	_, data, _ := strings.Cut(dataURL, ",")
	return base64.StdEncoding.DecodedLen(len(data)) - strings.Count(data[max(0, len(data)-2):], "=")
}

// opScreenshot pictures a tab without showing or scrolling it. Every bound is
// checked before the first picture is taken.
var opScreenshot = op.Define(op.Spec{
	Name: "page.screenshot", Tool: "chrome_screenshot", Profile: "capture", Title: "Screenshot",
	Summary: "Picture the viewport or the whole page, also of a tab that is not shown.",
	Brief:   "Picture the viewport or whole page.",
	Doc: "Pictures the tab without activating, showing or scrolling it; the tab may be hidden, covered or in a minimized window.\n\n" +
		"`full-page-tiles` returns one picture for every viewport's height of the page, from top to bottom, without a gap. " +
		"Bounds, all checked before the first picture: 200 tiles, a device pixel ratio of 4, 16,777,216 pixels a picture and 67,108,864 together; " +
		"besides, 16 MiB of picture data.\n\n" +
		"Chrome tells the page of a resize to its own size for every tile; where it stands scrolled stays the same.\n\n" +
		"On a command line and in an agent the pictures are files; `path` and `directory` name them.",
	Effect: op.ReadOnly, Deadline: op.ScreenshotDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "The viewport", Input: json.RawMessage(`{"capture":{"kind":"viewport"},"format":"png"}`)},
		{Title: "The whole page", Input: json.RawMessage(`{"capture":{"kind":"full-page-tiles"},"format":"jpeg","quality":70}`)},
	},
	Errors: []op.Code{op.CaptureLimit, op.DocumentChanged, op.DialogOpen},
}, screenshot)

func screenshot(ctx context.Context, c *Call, in ScreenshotIn) (ScreenshotOut, error) {
	if err := in.check(); err != nil {
		return ScreenshotOut{}, err
	}
	t := c.tab
	main, err := t.mainFrame()
	if err != nil {
		return ScreenshotOut{}, err
	}
	var metrics page.GetLayoutMetricsResult
	var view struct{ Width, Height, DPR float64 }
	err = together(
		func() error { return t.leaseFrames(ctx) },
		func() (err error) { metrics, err = call(ctx, t.conn, page.GetLayoutMetrics, cdp.Empty{}); return err },
		func() error { return t.run(ctx, main, "view", &view) },
	)
	if err != nil {
		return ScreenshotOut{}, err
	}
	shot := camera{t: t, main: main, format: page.CaptureScreenshotFormatPng}
	out := ScreenshotOut{Format: "png"}
	if in.Format == "jpeg" {
		out.Format, shot.format = "jpeg", page.CaptureScreenshotFormatJpeg
		if in.Quality != nil {
			q := int64(*in.Quality)
			shot.quality = &q
		}
	}
	if in.kind() == captureViewport {
		out.Kind = "image"
		if err := cdpmodel.CheckCapture(view.Width, view.Height, view.DPR); err != nil {
			return ScreenshotOut{}, t.planError(err)
		}
		if out.DataURL, err = shot.take(ctx, nil); err != nil {
			return ScreenshotOut{}, err
		}
	} else {
		out.Kind = "tile-set"
		if metrics.CSSLayoutViewport == nil || metrics.CSSContentSize == nil {
			return ScreenshotOut{}, errors.New("the browser did not say how large the page is")
		}
		plan, err := cdpmodel.PlanTiles(cdpmodel.Geometry{
			Width: math.Ceil(metrics.CSSContentSize.Width), Height: math.Ceil(metrics.CSSContentSize.Height),
			ViewportHeight: float64(metrics.CSSLayoutViewport.ClientHeight), DPR: view.DPR})
		if err != nil {
			return ScreenshotOut{}, t.planError(err)
		}
		out.Dimensions = &Dimensions{Width: plan.Width, Height: plan.Height, ViewportHeight: plan.ViewportHeight, DPR: plan.DPR}
		if out.Tiles, err = shot.tiles(ctx, c, plan.Tiles); err != nil {
			return ScreenshotOut{}, err
		}
		if out.Notes, err = t.pageNotes(ctx, main, plan.Geometry); err != nil {
			return ScreenshotOut{}, err
		}
	}
	if out.Tab, err = t.conn.Info(ctx); err != nil {
		return ScreenshotOut{}, fmt.Errorf("reading the tab: %w", err)
	}
	return out, nil
}

// pageNotes says what tiles of that geometry do not show of the page.
func (t *Tab) pageNotes(ctx context.Context, main frameRef, g cdpmodel.Geometry) ([]string, error) {
	var now struct {
		Width, Height float64
		Unloaded      int
		Box           *struct {
			Name   string
			Hidden float64
		}
	}
	if err := t.run(ctx, main, "page_notes", &now); err != nil {
		return nil, err
	}
	var notes []string
	if math.Abs(now.Height-g.Height) > 1 {
		notes = append(notes, fmt.Sprintf("the page was %g px high when it was measured and is %g px high now", g.Height, now.Height))
	}
	if now.Unloaded > 0 {
		notes = append(notes, fmt.Sprintf("%d pictures of the page were not loaded; scroll to them first", now.Unloaded))
	}
	if now.Box != nil {
		notes = append(notes, fmt.Sprintf("%s scrolls by itself: %g px of it are not in the picture", now.Box.Name, now.Box.Hidden))
	}
	return notes, nil
}

// camera takes the pictures of one result.
type camera struct {
	t       *Tab
	main    frameRef
	format  page.CaptureScreenshotFormat
	quality *int64
	bytes   int
}

// tiles pictures the tiles. Where the page stands scrolled is the same
// afterwards.
func (s *camera) tiles(ctx context.Context, c *Call, plan []cdpmodel.Tile) (out []TileOut, err error) {
	if err := s.t.run(ctx, s.main, "scroll_keep", nil, false); err != nil {
		return nil, err
	}
	defer func() {
		// Also for a caller that has gone; in a page that has gone there is
		// nothing to put back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreBound)
		defer cancel()
		if e := s.t.run(ctx, s.main, "scroll_keep", nil, true); err == nil {
			err = e
		}
	}()
	for i, tile := range plan {
		url, err := s.take(ctx, &page.Viewport{X: 0, Y: tile.Y, Width: tile.Width, Height: tile.Height, Scale: 1})
		if err != nil {
			return nil, err
		}
		out = append(out, TileOut{Y: tile.Y, DataURL: url})
		c.progress(i+1, len(plan), fmt.Sprintf("tile %d of %d", i+1, len(plan)))
	}
	return out, nil
}

// restoreBound is how long putting the scroll positions back may take.
const restoreBound = 2 * time.Second

// take pictures the viewport, or the clip wherever in the page it lies, and
// returns a data URL.
func (s *camera) take(ctx context.Context, clip *page.Viewport) (string, error) {
	data, err := s.shoot(ctx, clip)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// No frame came: a navigation or the window may have ended what the
		// lease holds. To picture a page again changes nothing.
		if err := errors.Join(s.t.releaseFrames(ctx), s.t.leaseFrames(ctx)); err != nil {
			return "", err
		}
		data, err = s.shoot(ctx, clip)
	}
	if err != nil {
		return "", fmt.Errorf("picturing the page: %w", err)
	}
	id := s.t.conn.Key().TabID
	if now, err := s.t.mainFrame(); err != nil || now.loader != s.main.loader {
		return "", op.Reject(op.DocumentChanged, "tab %d went to another page while it was pictured; nothing was kept", id).
			WithHint("wait until the page has loaded, then take the screenshot again")
	}
	if len(data) == 0 {
		return "", fmt.Errorf("the browser sent an empty picture of tab %d", id)
	}
	url := "data:image/" + string(s.format) + ";base64," + base64.StdEncoding.EncodeToString(data)
	if s.bytes += len(url); s.bytes > cdpmodel.MaxCaptureBytes {
		return "", op.Reject(op.CaptureLimit, "Screenshot capture requires more than %d bytes of picture data; tab %d was not changed", cdpmodel.MaxCaptureBytes, id).
			WithHint("use the format jpeg with a lower quality, or picture the viewport")
	}
	return url, nil
}

// shotBound is how long one picture may take; it needs a tenth of a second.
const shotBound = 10 * time.Second

func (s *camera) shoot(ctx context.Context, clip *page.Viewport) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, shotBound, fmt.Errorf("no picture came within %s: %w", shotBound, context.DeadlineExceeded))
	defer cancel()
	surface, beyond := true, clip != nil
	res, err := call(ctx, s.t.conn, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: s.format, Quality: s.quality, Clip: clip, FromSurface: &surface, CaptureBeyondViewport: &beyond})
	return res.Data, err
}

// planError explains a capture that would pass a bound.
func (t *Tab) planError(err error) error {
	e := op.Reject(op.CaptureLimit, "%s", err).WithCause(err).WithDetail("tabId", t.conn.Key().TabID)
	if p, ok := errors.AsType[*cdpmodel.PlanError](err); ok {
		e.WithDetail("bound", p.Bound)
	}
	return e.WithHint("nothing was pictured; picture the viewport, or a part of the page at a time")
}
