package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	err := together(
		func() error {
			_, err := call(ctx, t.conn, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
			return err
		},
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
		return fmt.Errorf("leasing frames: %w", err)
	}
	t.mu.Lock()
	t.leased = true
	t.mu.Unlock()
	return nil
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
		func() error {
			_, err := call(ctx, t.conn, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: false})
			return err
		})
}
