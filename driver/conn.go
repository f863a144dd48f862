package driver

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/cdp"

	"pi-chrome/driver/op"
)

// Conn is one debugged tab.
type Conn interface {
	// Session runs commands on the tab's root session.
	cdp.Session
	// Child is the session of a child target of the tab (a cross-origin
	// frame), as Target.attachedToTarget named it.
	Child(sessionID string) cdp.Session
	// Listen calls fn for every event of the tab and its child sessions, in
	// order, on one goroutine. A reply reaches its caller only after fn has
	// returned for the events before it. fn must not block or call Chrome.
	Listen(fn func(op.Event)) (stop func())
	// Key is the tab's fence.
	Key() op.TabKey
	// Info reads the tab as the browser shows it now.
	Info(ctx context.Context) (op.Tab, error)
	// Attach attaches the debugger where it is not attached.
	Attach(ctx context.Context) error
	// Detach detaches the debugger, so that nothing it had enabled or
	// registered is left.
	Detach(ctx context.Context) error
	// ResetSession is Detach because something could not be undone: cause says what.
	// Where it fails the tab is quarantined, and the error tells everything
	// that failed: Attach fails until a reset has worked.
	ResetSession(ctx context.Context, cause error) error
	// Pin keeps the debugger from being given back while nobody uses the tab,
	// until unpin is called. It does not block.
	Pin(what string) (unpin func())
	// Attachment rises each time the debugger is attached anew: whatever was
	// enabled before is off again.
	Attachment() int
}

// WindowHolder is a Conn whose browser has windows that a press could raise.
type WindowHolder interface {
	// HoldWindow prepares for a press on the tab. putBack is to be called when
	// the press was answered; it puts back what Chrome did to the windows and
	// says in words what that was. It is nil where a press moves nothing.
	HoldWindow(ctx context.Context) (putBack func(context.Context) (did string, err error), err error)
}

// TabTeller is a Conn whose browser tells which tabs were opened.
type TabTeller interface {
	// OpenedTabs are the tabs that came since of what this one asked for, and
	// whether there are more that may be its own: see [op.OpenedTabs.From].
	OpenedTabs(since time.Time, asked []string) (found []op.OpenedTab, inDoubt bool)
	// PutBehind shows again what the window of a tab that was opened showed
	// before the tab came up in front. It reports false where there is nothing
	// to do.
	PutBehind(ctx context.Context, opened op.OpenedTab) (bool, error)
}

// Browser is the session's view of the browser's tabs.
type Browser interface {
	// Tabs lists the tabs of the profile; Owned marks the session's own.
	Tabs(ctx context.Context) ([]op.Tab, error)
	// NewTab makes a tab owned by the session, at about:blank, in the
	// background.
	NewTab(ctx context.Context, groupColor string) (Conn, error)
	// CloseTab closes the tab of the target, or the session's only tab, and
	// returns its id.
	CloseTab(ctx context.Context, target op.Target) (int, error)
	// ActivateTab shows the tab of the target in its window and gives the
	// window the focus. It is refused as background-mode unless the session
	// may take the focus.
	ActivateTab(ctx context.Context, target op.Target) (op.Tab, error)
	// GroupTab puts the tab of the target into the session's tab group, whose
	// color it sets; "" keeps it.
	GroupTab(ctx context.Context, target op.Target, color string) (op.Tab, error)
	// UngroupTab takes the tab of the target out of its group.
	UngroupTab(ctx context.Context, target op.Target) (op.Tab, error)
	// ClaimTab makes the user's tab of the target the session's own, where
	// every detail in want is true of it now.
	ClaimTab(ctx context.Context, target op.Target, want op.TabDetails) (op.Tab, error)
	// ReleaseTab leaves the tab of the target, or the session's only tab, to
	// the user: now, or with atEnd when the session ends.
	ReleaseTab(ctx context.Context, target op.Target, atEnd bool) (op.ReleasedTab, error)
	// Targets lists the paired profiles.
	Targets(ctx context.Context) ([]op.Profile, error)
	// Ask shows the user a sentence until they press Done or the time is over;
	// neither is an error.
	Ask(ctx context.Context, message string, timeout time.Duration) (answered bool, err error)
	// Status says how the bridge, the profiles and the session stand.
	Status(ctx context.Context) (json.RawMessage, error)
}

// Call is one admitted call of an operation.
type Call struct {
	ID       string
	Session  op.Session
	Conn     Conn    // nil for an operation without a tab
	Browser  Browser // nil where only a page is reachable (a direct session)
	Progress func(done, total int, note string)

	driver  *Driver
	tab     *Tab
	effects atomic.Bool  // something that may have had an effect was sent
	begun   atomic.Int32 // how many such things
}

// begin records that the call is about to send something that may have an
// effect: from here on an unexpected failure is outcome-unknown.
// Each further effect of a call says so again: only the first can be excused
// by never having been delivered.
func (c *Call) begin() {
	c.begun.Add(1)
	c.effects.Store(true)
}

// landed records that what was begun was delivered: no later failure, such as
// a tab that cannot be read any more, makes it undone.
func (c *Call) landed() { c.begun.Add(1) }

// noEffect takes back begin, when it is known that nothing was done.
func (c *Call) noEffect() {
	c.begun.Store(0)
	c.effects.Store(false)
}

func (c *Call) progress(done, total int, note string) {
	if c.Progress != nil {
		c.Progress(done, total, note)
	}
}
