package bridge_test

import (
	"context"
	"encoding/json"
	"log"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// layout is a handler with one operation of its own, which reads how large the
// page of the session's tab is.
type layout struct{}

func (layout) Describe(name string) (op.Descriptor, bool) {
	return op.Descriptor{Name: "page.size", Tool: "page_size", Effect: op.ReadOnly, Tab: op.PageTab, Deadline: op.DefaultDeadline}, name == "page.size"
}

func (layout) EffectOf(string, json.RawMessage) op.Effect { return op.ReadOnly }
func (layout) Validate(string, json.RawMessage) error     { return nil }
func (layout) Forget(op.TabKey)                           {}

// Run gets the tab that the session owns, attached. It is a cdp.Session, so
// that every command of cdproto is typed.
func (layout) Run(ctx context.Context, call *bridge.Call) (op.Result, error) {
	metrics, err := cdp.Call(ctx, call.Tab, page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return op.Result{}, op.Reject(op.BrowserOperation, "the page's size cannot be read: %s", err)
	}
	return op.NewResult(metrics.CSSContentSize)
}

// An owner with operations of one's own: pairing, sessions, authorization and
// the journal are those of pi-chrome, and the handler sends typed commands to
// the tab of each call. Programs use it through bridge/client.
func ExampleListen() {
	dir, err := bridge.DefaultStateDir()
	if err != nil {
		log.Fatal(err)
	}
	owner, err := bridge.Listen(bridge.Options{
		Port: bridge.DefaultPort, StateDir: dir, ExtensionID: "the id of the extension", Handler: layout{}, Version: "1.0.0",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := owner.Serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}
