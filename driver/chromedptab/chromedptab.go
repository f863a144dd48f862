// Package chromedptab runs actions of chromedp on a tab that is there already:
// one of the user's browser that a bridge reaches through the extension, or a
// page of driver/direct. chromedp sees a browser that has this one tab.
//
// What chromedp turns on in the tab, Runtime.enable among it, which a page can
// notice, stays on until its debugger is given back. Frames of other sites are
// not reached: their sessions are the owner's.
package chromedptab

import (
	"context"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"pi-chrome/driver/op"
)

// Tab is an attached tab: a *bridge.Tab, a driver.Conn, or a *direct.Page.
type Tab interface {
	cdp.Session
	// Listen calls fn for every event of the tab, in order.
	Listen(fn func(op.Event)) (stop func())
	// Key names the tab; chromedp knows it by the TargetID.
	Key() op.TabKey
}

// NewContext returns a context in which chromedp.Run and chromedp.Do act on the
// tab. cancel ends it and waits for all that was started; it leaves the tab open
// and attached. The first Run begins the connection, which lives as long as the
// context of that call. When the tab's debugger session ends, the context does.
// A call of the tab that Chrome refuses is a *cdproto.Error with Chrome's code and
// words; one that the tab's transport lost has the code -32000 and tells how.
//
// Options that choose another target or another browser do not belong here.
func NewContext(parent context.Context, tab Tab, opts ...chromedp.ContextOption) (ctx context.Context, cancel context.CancelFunc) {
	a := &allocator{tab: tab}
	actx, acancel := chromedp.NewAllocatorContext(parent, a)
	ctx, leave := chromedp.NewContext(actx, append([]chromedp.ContextOption{
		chromedp.WithTargetID(target.ID(tab.Key().TargetID)), chromedp.WithDetachOnCancel(),
	}, opts...)...)
	return ctx, func() {
		leave()
		acancel()
		a.Wait()
	}
}

// allocator is a chromedp.Allocator that starts no browser.
type allocator struct {
	tab Tab
	wg  sync.WaitGroup
}

func (a *allocator) Allocate(ctx context.Context, opts ...chromedp.BrowserOption) (*chromedp.Browser, error) {
	if chromedp.FromContext(ctx) == nil {
		return nil, chromedp.ErrInvalidContext
	}
	// The connection outlives ctx: chromedp detaches through it.
	open, end := context.WithCancel(context.WithoutCancel(ctx))
	t := newTransport(open, a.tab)
	b, err := chromedp.NewBrowserTransport(open, t, opts...)
	if err != nil {
		end()
		t.wait()
		return nil, err
	}
	a.wg.Go(func() {
		<-ctx.Done()
		_ = chromedp.Cancel(ctx) // its errors are those of a tab that has gone
		end()
		<-b.LostConnection
		t.wait()
	})
	return b, nil
}

// Wait implements chromedp.Allocator.
func (a *allocator) Wait() { a.wg.Wait() }

// Attaches implements chromedp.Attacher: the browser runs already.
func (a *allocator) Attaches() bool { return true }
