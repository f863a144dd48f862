package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/bridge"
	"pi-chrome/driver/direct"
)

// Bounds of the evidence of one failure.
const (
	maxPictures    = 6
	pictureTimeout = 5 * time.Second
	maxLog         = 1 << 20 // the end of the owner's log
)

// evidence keeps what shows how things stood at a failure: a picture of each
// open page and the end of the owner's log. What cannot be kept is left out.
func (r *run) evidence(ctx context.Context, f *Failure) {
	if tabs := r.tabTrace(); fileExists(tabs) {
		f.Tabs = tabs
	}
	if r.box == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evidenceTimeout)
	defer cancel()
	if log, err := os.ReadFile(bridge.LogPath(r.box.StateDir)); err == nil {
		name := filepath.Join(r.opts.Dir, "owner.log")
		if os.WriteFile(name, log[max(0, len(log)-maxLog):], 0o600) == nil {
			f.Log = name
		}
	}
	if r.box.Browser == nil {
		return
	}
	list, err := r.box.Browser.Targets(ctx)
	if err != nil {
		return // the browser has gone
	}
	for _, t := range list {
		if t.Type != "page" || len(f.Pictures) == maxPictures {
			continue
		}
		data, err := picture(ctx, r.box.Browser, t.TargetID)
		if err != nil {
			continue
		}
		name := filepath.Join(r.opts.Dir, fmt.Sprintf("page-%d.png", len(f.Pictures)+1))
		if os.WriteFile(name, data, 0o600) == nil {
			f.Pictures = append(f.Pictures, name)
		}
	}
}

// tabTrace is where the owner writes the frames of the tabs.
func (r *run) tabTrace() string { return filepath.Join(r.opts.Dir, "tabs.jsonl") }

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// picture shows the page and takes its picture: nobody else looks at this
// browser, so that the focus is free to take.
func picture(ctx context.Context, b *direct.Browser, id target.ID) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	p, err := b.AttachPage(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Detach(ctx)) }()
	if err := p.Activate(ctx); err != nil {
		return nil, err
	}
	if _, err := cdp.Call(ctx, p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		return nil, err
	}
	shot, err := cdp.Call(ctx, p, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: "png"})
	if err != nil {
		return nil, err
	}
	return shot.Data, nil
}
