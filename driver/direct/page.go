package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

// Page is one debugged tab, with the methods of driver.Conn.
type Page struct {
	b      *Browser
	key    op.TabKey
	target target.ID

	attach sync.Mutex // held by the one Attach at a time

	mu         sync.Mutex // taken after Browser.mu where both are needed
	root       string     // session of the present attachment, "" for none
	attachment int
	listeners  []listener // replaced, never changed in place
	next       int
	loading    bool
}

// NewPageOptions say how a page is made. Nil means a page at about:blank in
// the background.
type NewPageOptions struct {
	URL        string
	Foreground bool // the page is shown; otherwise it is a hidden tab
	NewWindow  bool
}

// NewPage makes a tab and attaches to it.
func (b *Browser) NewPage(ctx context.Context, opts *NewPageOptions) (*Page, error) {
	var o NewPageOptions
	if opts != nil {
		o = *opts
	}
	if o.URL == "" {
		o.URL = "about:blank"
	}
	background := !o.Foreground
	res, err := cdp.Call(ctx, b, target.CreateTarget, target.CreateTargetParams{URL: o.URL, Background: &background, NewWindow: &o.NewWindow})
	if err != nil {
		return nil, fmt.Errorf("making a tab: %w", err)
	}
	return b.AttachPage(ctx, res.TargetID)
}

// AttachPage attaches to a tab that is there.
func (b *Browser) AttachPage(ctx context.Context, id target.ID) (*Page, error) {
	b.mu.Lock()
	n := b.tabIDLocked(id)
	b.mu.Unlock()
	p := &Page{b: b, target: id, key: op.TabKey{BrowserEpoch: b.epoch, TabID: n, TargetID: string(id)}}
	if err := p.Attach(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Attach implements driver.Conn.
func (p *Page) Attach(ctx context.Context) error {
	p.attach.Lock()
	defer p.attach.Unlock()
	if p.session() != "" {
		return nil
	}
	// The session is entered by the reader, when the browser announces it:
	// entered after the reply it could miss its first events.
	p.b.mu.Lock()
	p.b.attaching[p.target] = p
	p.b.mu.Unlock()
	defer func() {
		p.b.mu.Lock()
		delete(p.b.attaching, p.target)
		p.b.mu.Unlock()
	}()
	flat := true
	if _, err := cdp.Call(ctx, p.b, target.AttachToTarget, target.AttachToTargetParams{TargetID: p.target, Flatten: &flat}); err != nil {
		return fmt.Errorf("attaching to tab %d: %w", p.key.TabID, err)
	}
	if p.session() == "" {
		return fmt.Errorf("attaching to tab %d: %w: it was detached at once", p.key.TabID, op.ErrDetached)
	}
	return nil
}

// enterLocked makes session the page's own. Browser.mu is held.
func (b *Browser) enterLocked(p *Page, session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.sessions[session] = p
	p.root = session
	p.attachment++
}

// detached tells the listeners that the page's session has ended.
func (p *Page) detached(reason string) {
	p.mu.Lock()
	p.root, p.loading = "", false
	p.mu.Unlock()
	p.emit(op.Event{Detached: reason})
}

func (p *Page) session() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.root
}

// Detach ends the debugger session, as a user does who presses Cancel. The
// tab stays.
func (p *Page) Detach(ctx context.Context) error {
	id := target.SessionID(p.session())
	if id == "" {
		return nil
	}
	_, err := cdp.Call(ctx, p.b, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: id})
	return err
}

// ResetSession implements driver.Conn.
func (p *Page) ResetSession(ctx context.Context, cause error) error {
	if err := p.Detach(ctx); err != nil {
		return errors.Join(cause, err)
	}
	return nil
}

// Pin implements driver.Conn. The debugger of a page stays attached anyway.
func (p *Page) Pin(string) (unpin func()) { return func() {} }

// Close closes the tab.
func (p *Page) Close(ctx context.Context) error {
	_, err := cdp.Call(ctx, p.b, target.CloseTarget, target.CloseTargetParams{TargetID: p.target})
	return err
}

// Activate shows the tab, as a user does who clicks on it.
func (p *Page) Activate(ctx context.Context) error {
	_, err := cdp.Call(ctx, p.b, target.ActivateTarget, target.ActivateTargetParams{TargetID: p.target})
	return err
}

// Browser is the browser of the tab.
func (p *Page) Browser() *Browser { return p.b }

// Key implements driver.Conn. The tab's id is a number of this Browser only.
func (p *Page) Key() op.TabKey { return p.key }

// Attachment implements driver.Conn.
func (p *Page) Attachment() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attachment
}

// Info implements driver.Conn. Window, group and activity are the relay's to
// know: here the tab is in no group, and its window is 0.
func (p *Page) Info(ctx context.Context) (op.Tab, error) {
	res, err := cdp.Call(ctx, p.b, target.GetTargetInfo, target.GetTargetInfoParams{TargetID: p.target})
	if err != nil {
		return op.Tab{}, err
	}
	tab := op.Tab{ID: p.key.TabID, GroupID: -1, Status: "complete", Owned: true}
	if res.TargetInfo != nil {
		tab.Title, tab.URL = res.TargetInfo.Title, res.TargetInfo.URL
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loading {
		tab.Status = "loading"
	}
	return tab, nil
}

// OpenedTabs implements driver.TabTeller.
func (p *Page) OpenedTabs(since time.Time, asked []string) (found []op.OpenedTab, inDoubt bool) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return p.b.opened.From(p.key.TabID, since, asked)
}

// PutBehind implements driver.TabTeller. What windows show is the relay's to
// know.
func (p *Page) PutBehind(context.Context, op.OpenedTab) (bool, error) { return false, nil }

// Listen implements driver.Conn. The function runs on the browser's reader.
func (p *Page) Listen(fn func(op.Event)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	p.listeners = append(slices.Clone(p.listeners), listener{id, fn})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.listeners = slices.DeleteFunc(slices.Clone(p.listeners), func(l listener) bool { return l.id == id })
	}
}

type listener struct {
	id int
	fn func(op.Event)
}

func (p *Page) emit(ev op.Event) {
	p.mu.Lock()
	p.followLocked(ev)
	listeners := p.listeners
	p.mu.Unlock()
	for _, l := range listeners {
		l.fn(ev)
	}
}

// followLocked keeps what Info says of loading. The main frame's id is the
// target's.
func (p *Page) followLocked(ev op.Event) {
	if ev.SessionID != "" {
		return
	}
	started := ev.Method == page.FrameStartedLoading.Method
	if !started && ev.Method != page.FrameStoppedLoading.Method {
		return
	}
	var e struct {
		FrameID string `json:"frameId"`
	}
	if json.Unmarshal(ev.Params, &e) == nil && e.FrameID == string(p.target) {
		p.loading = started
	}
}

// Call implements [cdp.Session] on the tab. Besides the errors of
// [Browser.Call] it returns op.ErrDetached.
func (p *Page) Call(ctx context.Context, method string, params, result any) error {
	id := p.session()
	if id == "" {
		return fmt.Errorf("%s: %w: %w", method, op.ErrDetached, op.ErrNotDelivered)
	}
	return p.b.call(ctx, id, method, params, result)
}

// Subscribe implements [cdp.Session] for the present attachment.
func (p *Page) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return p.b.subscribe(p.session(), method)
}

// Child implements driver.Conn.
func (p *Page) Child(sessionID string) cdp.Session { return &child{p, sessionID} }

// child is the session of a child target.
type child struct {
	p  *Page
	id string
}

var _ cdp.Session = (*child)(nil)

func (c *child) Call(ctx context.Context, method string, params, result any) error {
	if c.p.session() == "" {
		return fmt.Errorf("%s: %w: %w", method, op.ErrDetached, op.ErrNotDelivered)
	}
	return c.p.b.call(ctx, c.id, method, params, result)
}

func (c *child) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return c.p.b.subscribe(c.id, method)
}
