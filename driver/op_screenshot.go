package driver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"

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

// Check refuses what the schema cannot.
func (in ScreenshotIn) Check() error {
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
		"Chrome tells the page of a resize to its own size for every tile; where it stands scrolled stays the same. " +
		"A page with scroll bars that take room is pictured as it is laid out without them.\n\n" +
		"On a command line and in an agent the pictures are files; `path` and `directory` name them.",
	Effect: op.ReadOnly, Deadline: op.ScreenshotDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "The viewport", Input: json.RawMessage(`{"capture":{"kind":"viewport"},"format":"png"}`)},
		{Title: "The whole page", Input: json.RawMessage(`{"capture":{"kind":"full-page-tiles"},"format":"jpeg","quality":70}`)},
	},
	Errors: []op.Code{op.CaptureLimit, op.DocumentChanged, op.DialogOpen},
}, screenshot)

func screenshot(ctx context.Context, c *Call, in ScreenshotIn) (ScreenshotOut, error) {
	t := c.tab
	main, err := t.mainFrame()
	if err != nil {
		return ScreenshotOut{}, err
	}
	release, err := t.holdView(ctx, in.kind() == captureTiles)
	if err != nil {
		return ScreenshotOut{}, err
	}
	shot := camera{t: t, main: main, format: page.CaptureScreenshotFormatPng, quality: 80}
	defer shot.whenIdle(release)
	if in.Format == "jpeg" {
		shot.format = page.CaptureScreenshotFormatJpeg
		if in.Quality != nil {
			shot.quality = int64(*in.Quality)
		}
	}
	if err := together(
		func() error { return t.leaseFrames(ctx) },
		func() error { return shot.measure(ctx) },
	); err != nil {
		return ScreenshotOut{}, err
	}
	out := ScreenshotOut{Format: string(shot.format)}
	if in.kind() == captureViewport {
		out.Kind = "image"
		if err := cdpmodel.CheckCapture(shot.view.Width, shot.view.Height, shot.view.DPR); err != nil {
			return ScreenshotOut{}, t.planError(err)
		}
		out.DataURL, err = shot.viewport(ctx)
	} else {
		out.Kind = "tile-set"
		var plan cdpmodel.TilePlan
		plan, out.Tiles, err = shot.whole(ctx, c)
		if err == nil {
			out.Dimensions = &Dimensions{Width: plan.Width, Height: plan.Height, ViewportHeight: plan.ViewportHeight, DPR: plan.DPR}
			out.Notes, err = t.pageNotes(ctx, main, plan.Geometry)
		}
	}
	if err != nil {
		return ScreenshotOut{}, err
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
