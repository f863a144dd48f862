package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

// The operations run on a page of a throw-away browser as they do in the
// user's own, and typed commands of the protocol go to the same page.
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

	d := driver.New(nil)
	defer d.Close()
	run := func(operation, input string) op.Result {
		res, err := d.Run(ctx, operation, &driver.Call{Session: op.Session{Key: "example"}, Conn: tab}, json.RawMessage(input))
		if err != nil {
			log.Fatal(err) // an *op.Error, which says whether it had an effect
		}
		return res
	}
	run("page.navigate", `{"url":"https://example.com/","waitUntilLoad":true}`)
	fmt.Println(run("page.snapshot", `{"mode":"interactive"}`).Text)

	// A driver.Conn is a cdp.Session: every command of cdproto is typed.
	metrics, err := cdp.Call(ctx, tab, page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(metrics.CSSContentSize.Width, metrics.CSSContentSize.Height)
}

// The list that every surface is made of.
func ExampleOperations() {
	for _, o := range driver.Operations() {
		d, err := o.Descriptor()
		if err != nil {
			log.Fatal(err)
		}
		if d.Name == "page.navigate" {
			fmt.Println(d.Tool, d.Profile, d.Effect == op.MayMutate)
		}
	}
	// Output: chrome_navigate core true
}
