package driver

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// camera takes the pictures of one result.
//
// Chrome pictures a clip by giving the view the clip's size for as long as the
// picture takes. The page's process may hear of that size too late; Chrome then
// fills the rest of the picture with repetitions of what it has, or leaves it
// black. So the camera always asks for a clip of exactly the view's size, which
// no one has to be told of, and puts the tiles together itself.
type camera struct {
	t       *Tab
	main    frameRef
	format  page.CaptureScreenshotFormat
	quality int64 // of a jpeg
	metrics page.GetLayoutMetricsResult
	view    viewSize
	bytes   int      // of the data URLs so far
	last    *shutter // the picture that was asked for last
}

// viewSize is the size of the viewport in CSS px, scroll bars included, and
// how many device px one of them is.
type viewSize struct{ Width, Height, DPR float64 }

// measure looks at the page and its view.
func (s *camera) measure(ctx context.Context) error {
	return together(
		func() (err error) {
			s.metrics, err = call(ctx, s.t.conn, page.GetLayoutMetrics, cdp.Empty{})
			return err
		},
		func() error { return s.t.run(ctx, s.main, "view", &s.view) })
}

// zoom is how many px of the window one CSS px of the page is: what the user
// has zoomed it to. Clips are in px of the window.
func (s *camera) zoom() float64 {
	if v := s.metrics.CSSVisualViewport; v != nil && v.Zoom > 0 {
		return v.Zoom
	}
	return 1
}

// barsTakeRoom says whether scroll bars take some of the view.
func (s *camera) barsTakeRoom() bool {
	v := s.metrics.CSSLayoutViewport
	const rounding = 2 // of a page that is zoomed
	return float64(v.ClientWidth) < s.view.Width-rounding || float64(v.ClientHeight) < s.view.Height-rounding
}

// plan is the plan of the page as it was measured.
func (s *camera) plan() (cdpmodel.TilePlan, error) {
	layout, content := s.metrics.CSSLayoutViewport, s.metrics.CSSContentSize
	if layout == nil || content == nil {
		return cdpmodel.TilePlan{}, errors.New("the browser did not say how large the page is")
	}
	plan, err := cdpmodel.PlanTiles(cdpmodel.Geometry{
		Width: math.Ceil(content.Width), Height: math.Ceil(content.Height),
		ViewportHeight: float64(layout.ClientHeight), DPR: s.view.DPR})
	if err != nil {
		return cdpmodel.TilePlan{}, s.t.planError(err)
	}
	return plan, nil
}

// page pictures the tiles of the plan. Where scroll bars take room, Chrome
// pictures the page without them, laid out anew: then the plan is made again
// of that, and returned. The bars are back afterwards, and where the page
// stands scrolled is the same.
func (s *camera) page(ctx context.Context, c *Call, plan cdpmodel.TilePlan) (_ cdpmodel.TilePlan, out []TileOut, err error) {
	if err := s.t.run(ctx, s.main, "picture_keep", nil, false); err != nil {
		return plan, nil, err
	}
	defer func() {
		// Also for a caller that has gone; in a page that has gone there is
		// nothing to put back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreBound)
		defer cancel()
		if e := s.t.run(ctx, s.main, "picture_keep", nil, true); err == nil {
			err = e
		}
	}()
	if s.barsTakeRoom() {
		if err := s.measure(ctx); err != nil {
			return plan, nil, err
		}
		if plan, err = s.plan(); err != nil {
			return plan, nil, err
		}
	}
	for i, tile := range plan.Tiles {
		data, err := s.tile(ctx, tile)
		if err != nil {
			return plan, nil, err
		}
		url, err := s.keep(data)
		if err != nil {
			return plan, nil, err
		}
		out = append(out, TileOut{Y: tile.Y, DataURL: url})
		c.progress(i+1, len(plan.Tiles), fmt.Sprintf("tile %d of %d", i+1, len(plan.Tiles)))
	}
	var now viewSize
	if err := s.t.run(ctx, s.main, "view", &now); err != nil {
		return plan, nil, err
	}
	if now != s.view {
		return plan, nil, op.Reject(op.DocumentChanged, "the window of tab %d changed its size while the page was pictured, from %g × %g CSS px to %g × %g; nothing was kept",
			s.t.conn.Key().TabID, s.view.Width, s.view.Height, now.Width, now.Height).
			WithHint("take the screenshot again").WithCause(errResized)
	}
	return plan, out, nil
}

// errResized is the cause of an error when the view was not the same size all
// the while.
var errResized = errors.New("the view changed its size")

// resizes is how often a page is pictured anew because its view changed its
// size: Chrome's bar of a debugger comes a while after the attach, and takes
// some of the window.
const resizes = 2

// whole pictures the whole page, anew when the view changes its size meanwhile.
func (s *camera) whole(ctx context.Context, c *Call) (cdpmodel.TilePlan, []TileOut, error) {
	for n := 0; ; n++ {
		plan, err := s.plan()
		if err != nil {
			return plan, nil, err
		}
		plan, tiles, err := s.page(ctx, c, plan)
		if n == resizes || !errors.Is(err, errResized) {
			return plan, tiles, err
		}
		s.bytes = 0
		if err := s.measure(ctx); err != nil {
			return plan, nil, err
		}
	}
}

// restoreBound is how long putting back what pictures change may take.
const restoreBound = 2 * time.Second

// window is the size of the view in px of the window, which are whole.
func (s *camera) window() (width, height float64) {
	width, height = s.view.Width, s.view.Height
	if v := s.metrics.CSSVisualViewport; v != nil && !s.barsTakeRoom() {
		// What a script is told is cut to whole CSS px.
		width, height = v.ClientWidth*v.Scale, v.ClientHeight*v.Scale
	}
	// Chrome rounds the view up to whole device px.
	whole := func(css float64) float64 {
		return math.Floor(math.Round(css*s.view.DPR)*s.zoom()/s.view.DPR + 0.01)
	}
	return whole(width), whole(height)
}

// tile pictures one tile.
func (s *camera) tile(ctx context.Context, tile cdpmodel.Tile) ([]byte, error) {
	width, height := s.window()
	device := s.view.DPR / s.zoom() // device px of one px of the window
	size := image.Pt(int(math.Ceil(tile.Width*s.view.DPR)), int(math.Ceil(tile.Height*s.view.DPR)))
	shot := image.Pt(int(math.Round(width*device)), int(math.Round(height*device)))
	clip := page.Viewport{Y: tile.Y * s.zoom(), Width: width, Height: height, Scale: 1}
	if size == shot {
		return s.shoot(ctx, s.format, &clip)
	}
	whole := image.NewRGBA(image.Rectangle{Max: size})
	for i := 0; i*shot.X < size.X; i++ {
		clip.X = float64(i) * width
		data, err := s.shoot(ctx, page.CaptureScreenshotFormatPng, &clip)
		if err != nil {
			return nil, err
		}
		part, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("reading a picture of Chrome's: %w", err)
		}
		if got := part.Bounds().Size(); got != shot {
			return nil, fmt.Errorf("the browser sent a picture of %v px where %v were asked for", got, shot)
		}
		draw.Draw(whole, part.Bounds().Add(image.Pt(i*shot.X, 0)), part, image.Point{}, draw.Src)
	}
	var b bytes.Buffer
	var err error
	if s.format == page.CaptureScreenshotFormatJpeg {
		// Chrome's scale begins at 0, this encoder's at 1.
		err = jpeg.Encode(&b, whole, &jpeg.Options{Quality: max(1, int(s.quality))})
	} else {
		err = png.Encode(&b, whole)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a picture: %w", err)
	}
	return b.Bytes(), nil
}

// viewport pictures what a user would see now, and returns a data URL.
func (s *camera) viewport(ctx context.Context) (string, error) {
	data, err := s.shoot(ctx, s.format, nil)
	if err != nil {
		return "", err
	}
	return s.keep(data)
}

// keep makes a picture part of the result: a data URL.
func (s *camera) keep(data []byte) (string, error) {
	url := "data:image/" + string(s.format) + ";base64," + base64.StdEncoding.EncodeToString(data)
	if s.bytes += len(url); s.bytes > cdpmodel.MaxCaptureBytes {
		return "", op.Reject(op.CaptureLimit, "Screenshot capture requires more than %d bytes of picture data; tab %d was not changed", cdpmodel.MaxCaptureBytes, s.t.conn.Key().TabID).
			WithHint("use the format jpeg with a lower quality, or picture the viewport")
	}
	return url, nil
}

// shoot pictures the viewport, or the clip wherever in the page it lies.
func (s *camera) shoot(ctx context.Context, format page.CaptureScreenshotFormat, clip *page.Viewport) ([]byte, error) {
	data, err := s.capture(ctx, format, clip)
	if err != nil {
		return nil, fmt.Errorf("picturing the page: %w", err)
	}
	id := s.t.conn.Key().TabID
	if now, err := s.t.mainFrame(); err != nil || now.loader != s.main.loader {
		return nil, op.Reject(op.DocumentChanged, "tab %d went to another page while it was pictured; nothing was kept", id).
			WithHint("wait until the page has loaded, then take the screenshot again")
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("the browser sent an empty picture of tab %d", id)
	}
	return data, nil
}

const (
	// frameBound is how long a picture is waited for before the frame lease
	// is taken anew; it needs a tenth of a second.
	frameBound = 3 * time.Second
	// shotBound is how long one picture may take.
	shotBound = 12 * time.Second
)

// shutter is one picture that Chrome was asked for.
type shutter struct {
	data  []byte
	err   error
	ended chan struct{}
}

// capture asks for one picture and waits for it. Chrome cannot be told to
// leave it, and of two at a time the end of the first moves back what the
// second pictures: so a picture that does not come is helped and not asked for
// again, and s.last says when Chrome is done with one whose caller has gone.
func (s *camera) capture(ctx context.Context, format page.CaptureScreenshotFormat, clip *page.Viewport) ([]byte, error) {
	surface, beyond := true, clip != nil
	params := page.CaptureScreenshotParams{Format: format, Clip: clip, FromSurface: &surface, CaptureBeyondViewport: &beyond}
	if format == page.CaptureScreenshotFormatJpeg {
		params.Quality = &s.quality
	}
	shot := &shutter{ended: make(chan struct{})}
	s.last = shot
	s.t.shots.Go(func() {
		defer close(shot.ended)
		ctx, cancel := context.WithTimeoutCause(s.t.ctx, shotBound, fmt.Errorf("no picture came within %s: %w", shotBound, context.DeadlineExceeded))
		defer cancel()
		res, err := call(ctx, s.t.conn, page.CaptureScreenshot, params)
		shot.data, shot.err = res.Data, err
	})
	slow := time.NewTimer(frameBound)
	defer slow.Stop()
	for {
		select {
		case <-shot.ended:
			return shot.data, shot.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-slow.C:
			// No frame came: a navigation or the window may have ended what
			// the lease holds.
			if err := errors.Join(s.t.releaseFrames(ctx), s.t.leaseFrames(ctx)); err != nil {
				return nil, err
			}
		}
	}
}

// whenIdle calls release when Chrome has no picture of this camera under way.
func (s *camera) whenIdle(release func()) {
	if s.last == nil {
		release()
		return
	}
	select {
	case <-s.last.ended:
		release()
	default:
		s.t.shots.Go(func() {
			<-s.last.ended
			release()
		})
	}
}

// planError explains a capture that would pass a bound.
func (t *Tab) planError(err error) error {
	e := op.Reject(op.CaptureLimit, "%s", err).WithCause(err).WithDetail("tabId", t.conn.Key().TabID)
	if p, ok := errors.AsType[*cdpmodel.PlanError](err); ok {
		e.WithDetail("bound", p.Bound)
	}
	return e.WithHint("nothing was pictured; picture the viewport, or a part of the page at a time")
}
