package chromedptab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/chromedp/chromedp"

	"pi-chrome/bridge"
	"pi-chrome/driver/chromedptab"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

// A page of a throw-away browser, driven by actions of chromedp.
func Example() {
	ctx := context.Background()
	browser, err := direct.Launch(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer browser.Close()
	tab, err := browser.NewPage(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := chromedptab.NewContext(ctx, tab)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("data:text/html,<title>Order</title><button>Pay</button>")); err != nil {
		log.Fatal(err)
	}
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("button")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output: Pay
}

// heading is a handler of a bridge with one operation, which reads the heading
// of the page in the user's own browser with actions of chromedp.
type heading struct{}

func (heading) Describe(name string) (op.Descriptor, bool) {
	return op.Descriptor{Name: "page.heading", Tool: "page_heading", Effect: op.ReadOnly, Tab: op.PageTab, Deadline: op.DefaultDeadline}, name == "page.heading"
}

func (heading) EffectOf(string, json.RawMessage) op.Effect { return op.ReadOnly }
func (heading) Validate(string, json.RawMessage) error     { return nil }
func (heading) Forget(op.TabKey)                           {}

func (heading) Run(ctx context.Context, call *bridge.Call) (op.Result, error) {
	ctx, cancel := chromedptab.NewContext(ctx, call.Tab)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("h1")))
	if err != nil {
		return op.Result{}, op.Reject(op.BrowserOperation, "the heading cannot be read: %s", err)
	}
	return op.NewResult(text)
}

// The tab of a session in the user's browser: the handler of an owner gets it
// attached, and gives it to chromedp.
func ExampleNewContext() {
	var owner bridge.Options
	owner.Handler = heading{} // the rest as in the example of bridge.Listen
}
