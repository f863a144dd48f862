package chromedptab_test

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"pi-chrome/driver/chromedptab"
	"pi-chrome/driver/drivertest"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

// TestActions runs actions of several kinds, and leaves the tab open.
func TestActions(t *testing.T) {
	site, p := drivertest.Server(t), drivertest.Page(t)
	ctx, cancel := chromedptab.NewContext(t.Context(), p)
	assert.NilError(t, chromedp.Do(ctx,
		chromedp.Navigate(site.URL("counter/click.html?id=chromedp")),
		chromedp.WaitVisible(chromedp.CSS("#count")),
		chromedp.Click(chromedp.CSS("#count")),
		chromedp.Click(chromedp.CSS("#count")),
	))
	title, err := chromedp.Run(ctx, chromedp.Title())
	assert.NilError(t, err)
	assert.Equal(t, title, "Click")
	seen, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("#seen")))
	assert.NilError(t, err)
	assert.Equal(t, seen, "2")
	// Errors are Chrome's own, and what is of the browser is refused.
	_, err = chromedp.Run(ctx, chromedp.Evaluate[int]("missing()"))
	assert.ErrorContains(t, err, "missing is not defined")
	_, err = chromedp.Call(ctx, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: 1 << 20})
	assert.ErrorContains(t, err, "No entry with passed id")
	_, err = chromedp.CallBrowser(ctx, target.CreateTarget, target.CreateTargetParams{URL: "about:blank"})
	assert.ErrorContains(t, err, "only one of its tabs")
	cancel()
	_, err = chromedp.Run(ctx, chromedp.Title())
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, drivertest.Eval(t, p, "document.title"), `"Click"`)

	// A second context on the same tab finds what the first one left.
	ctx, cancel = chromedptab.NewContext(t.Context(), p)
	defer cancel()
	seen, err = chromedp.Run(ctx, chromedp.Text(chromedp.CSS("#seen")))
	assert.NilError(t, err)
	assert.Equal(t, seen, "2")
}

// TestTheTabGoes: what runs ends, and the context does.
func TestTheTabGoes(t *testing.T) {
	p := drivertest.Page(t)
	ctx, cancel := chromedptab.NewContext(t.Context(), p)
	defer cancel()
	assert.NilError(t, chromedp.Do(ctx))
	forever := make(chan error, 1)
	go func() {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[int]("globalThis.begun = 1, new Promise(() => {})", chromedp.EvalAwaitPromise))
		forever <- err
	}()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if drivertest.Eval(t, p, "globalThis.begun") != "1" {
			return poll.Continue("the script has not begun")
		}
		return poll.Success()
	})
	assert.NilError(t, p.Detach(t.Context()))
	assert.Assert(t, <-forever != nil)
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the context goes on")
	}
}

// TestNothingWasRun: a context that was never used ends at once.
func TestNothingWasRun(t *testing.T) {
	_, cancel := chromedptab.NewContext(t.Context(), drivertest.Page(t))
	cancel()
}

var _ cdp.Session = chromedptab.Tab(nil)
