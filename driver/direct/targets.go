package direct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// Targets lists the browser's targets: pages, frames of other processes and
// workers.
func (b *Browser) Targets(ctx context.Context) ([]*target.Info, error) {
	// Without a filter Chrome takes the one of setDiscoverTargets.
	all := target.Filter{{Type: "browser", Exclude: true}, {Type: "tab", Exclude: true}, {}}
	res, err := cdp.Call(ctx, b, target.GetTargets, target.GetTargetsParams{Filter: all})
	if err != nil {
		return nil, fmt.Errorf("listing targets: %w", err)
	}
	return res.TargetInfos, nil
}

// ErrNoWorker means that no service worker runs under the given URL.
var ErrNoWorker = errors.New("no service worker runs there")

// Worker returns the running service worker whose URL starts with prefix, such
// as "chrome-extension://<id>/", or ErrNoWorker.
func (b *Browser) Worker(ctx context.Context, prefix string) (*target.Info, error) {
	list, err := b.Targets(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.Type == "service_worker" && strings.HasPrefix(t.URL, prefix) {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", prefix, ErrNoWorker)
}

// StopWorker stops the service worker whose URL starts with prefix, as Chrome
// does with an idle one, and waits until its target is gone. The extension
// stays loaded; its next event starts a new worker, which has another target.
func (b *Browser) StopWorker(ctx context.Context, prefix string) error {
	w, err := b.Worker(ctx, prefix)
	if err != nil {
		return err
	}
	if _, err := cdp.Call(ctx, b, target.CloseTarget, target.CloseTargetParams{TargetID: w.TargetID}); err != nil {
		return fmt.Errorf("stopping a worker: %w", err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := b.Targets(ctx)
		if err != nil {
			return err
		}
		alive := false
		for _, t := range list {
			alive = alive || t.TargetID == w.TargetID
		}
		if !alive {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("stopping a worker: %w", context.Cause(ctx))
		}
	}
}
