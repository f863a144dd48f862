package relaytest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/chromedptab"
	"pi-chrome/driver/drivertest"
)

// TestChromedp runs actions of chromedp on a tab behind the extension.
func TestChromedp(t *testing.T) {
	t.Parallel()
	site := drivertest.NewServer(t)
	tab, _, _ := relayTab(t)
	ctx, cancel := chromedptab.NewContext(t.Context(), tab)
	assert.NilError(t, chromedp.Do(ctx,
		chromedp.Navigate(site.URL("counter/click.html?id=chromedp")),
		chromedp.Click(chromedp.CSS("#count")),
		chromedp.WaitVisible(chromedp.CSS("#seen")),
	))
	seen, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("#seen")))
	assert.NilError(t, err)
	assert.Equal(t, seen, "1")
	cancel()
	// The tab is the owner's still, attached as it was.
	assert.Equal(t, evaluateOn(t, tab, "document.title"), `"Click"`)
	assert.Equal(t, tab.Attachment(), 1)
}
