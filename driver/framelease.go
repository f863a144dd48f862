package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// leaseFrames makes the tab produce frames although nobody looks at it: focus
// emulation and a screencast of one pixel. Without both, input to a hidden
// tab waits for seconds and a capture may never come. The lease stays until
// the tab is given back, so that a page does not see its focus come and go
// with every command.
func (t *Tab) leaseFrames(ctx context.Context) error {
	t.mu.Lock()
	leased := t.leased
	t.mu.Unlock()
	if leased {
		return nil
	}
	t.mu.Lock()
	t.leased = true // a frame that comes meanwhile gets the focus too
	t.mu.Unlock()
	err := together(
		func() error { return t.emulateFocus(ctx, true) },
		func() error {
			_, err := call(ctx, t.conn, page.StartScreencast, page.StartScreencastParams{
				Format: page.StartScreencastFormatJpeg, MaxWidth: 1, MaxHeight: 1, EveryNthFrame: 1000})
			// The screencast outlives an owner, as the attachment does.
			if p, ok := errors.AsType[*op.ProtocolError](err); ok && strings.Contains(p.Message, "already active") {
				return nil
			}
			return err
		})
	if err != nil {
		t.mu.Lock()
		t.leased = false
		t.mu.Unlock()
		return fmt.Errorf("leasing frames: %w", err)
	}
	return nil
}

// emulateFocus turns focus emulation on or off for the tab and for each of
// its frames that lives in another process: such a frame has a focus of its
// own. That a frame goes meanwhile is no failure.
func (t *Tab) emulateFocus(ctx context.Context, on bool) error {
	t.mu.Lock()
	var frames []cdp.Session
	for _, c := range t.children {
		if c.frameID != "" {
			frames = append(frames, c.session)
		}
	}
	t.mu.Unlock()
	fns := []func() error{func() error {
		_, err := call(ctx, t.conn, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: on})
		return err
	}}
	for _, s := range frames {
		fns = append(fns, func() error {
			t.focusFrame(ctx, s, on)
			return nil
		})
	}
	return together(fns...)
}

// focusBound is how long a frame may take to turn its focus emulation: one
// that does not answer must not hold up the tab.
const focusBound = time.Second

func (t *Tab) focusFrame(ctx context.Context, s cdp.Session, on bool) {
	ctx, cancel := context.WithTimeout(ctx, focusBound)
	defer cancel()
	if _, err := call(ctx, s, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: on}); err != nil {
		t.log.Debug("emulating the focus of a frame", "on", on, "error", err)
	}
}

// releaseFrames undoes leaseFrames.
func (t *Tab) releaseFrames(ctx context.Context) error {
	t.mu.Lock()
	leased := t.leased
	t.leased = false
	t.mu.Unlock()
	if !leased {
		return nil
	}
	return together(
		func() error {
			_, err := call(ctx, t.conn, page.StopScreencast, cdp.Empty{})
			return err
		},
		func() error { return t.emulateFocus(ctx, false) })
}
