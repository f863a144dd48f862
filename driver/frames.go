package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/op"
)

// frame is one frame of the tab, in whichever process it lives.
type frame struct {
	id      cdp.FrameID
	parent  cdp.FrameID // "" for the main frame
	loader  cdp.LoaderID
	url     string
	session string // the session that runs it: "" for the tab's own
	order   int    // in which the frames appeared

	reached map[string]bool // lifecycle milestones of the present document
	parsed  cdp.LoaderID    // the document that was parsed last
	loaded  cdp.LoaderID    // the document that was loaded last

	world       runtime.ExecutionContextID // our isolated world, 0 for none
	worldLoader cdp.LoaderID               // the document that world belongs to
	telling     runtime.ExecutionContextID // the world that has the binding for long walks
}

// frameRef is a frame as an operation uses it: a copy, safe without the lock.
type frameRef struct {
	id      cdp.FrameID
	parent  cdp.FrameID
	loader  cdp.LoaderID
	url     string
	session string
	s       cdp.Session
}

// addTreeLocked takes a session's frame tree in.
func (t *Tab) addTreeLocked(tree *page.FrameTree, session string) {
	if tree == nil || tree.Frame == nil {
		return
	}
	t.putFrameLocked(tree.Frame, session)
	for _, c := range tree.ChildFrames {
		t.addTreeLocked(c, session)
	}
}

func (t *Tab) putFrameLocked(f *cdp.Frame, session string) {
	old := t.frames[f.ID]
	if old == nil {
		old = &frame{id: f.ID, order: len(t.frames)}
		t.frames[f.ID] = old
	}
	if f.ParentID != "" {
		old.parent = f.ParentID
	}
	if old.parent == "" && session == "" {
		t.main = f.ID
	}
	old.loader, old.session = f.LoaderID, session
	old.url = f.URL + f.URLFragment
}

// dialogLocked notes the dialog that is open now, nil for none. Without the
// debugger nobody could tell or answer it.
func (t *Tab) dialogLocked(d *Dialog) {
	t.dialog = d
	t.pinLocked("dialog", d != nil)
}

// applyLocked is the reducer over the tab's events: frames, child sessions,
// the dialog, the end of the debugger session.
func (t *Tab) applyLocked(ev op.Event) {
	if ev.Detached != "" {
		t.detached, t.leased = ev.Detached, false
		t.dialogLocked(nil)
		return
	}
	if ev.Method == runtime.BindingCalled.Method {
		t.toldLocked(ev)
		return
	}
	if t.captureLocked(ev) {
		return
	}
	switch ev.Method {
	case page.FrameNavigated.Method:
		if e, ok := decode[page.EventFrameNavigated](ev); ok && e.Frame != nil {
			t.putFrameLocked(e.Frame, ev.SessionID)
			if e.Frame.ID == t.main {
				t.crashed = false
			} else if c := t.children[ev.SessionID]; c != nil {
				c.crashed = false
			}
		}
	case page.NavigatedWithinDocument.Method:
		if e, ok := decode[page.EventNavigatedWithinDocument](ev); ok {
			if f := t.frames[e.FrameID]; f != nil {
				f.url = e.URL
			}
		}
	case page.FrameAttached.Method:
		if e, ok := decode[page.EventFrameAttached](ev); ok && t.frames[e.FrameID] == nil {
			t.frames[e.FrameID] = &frame{id: e.FrameID, parent: e.ParentFrameID, session: ev.SessionID, order: len(t.frames)}
		}
	case page.FrameDetached.Method:
		// A swap moves the frame to another process: its new session says
		// the rest.
		if e, ok := decode[page.EventFrameDetached](ev); ok && e.Reason != page.FrameDetachedReasonSwap {
			t.dropFrameLocked(e.FrameID)
		}
	case target.AttachedToTarget.Method:
		if e, ok := decode[target.EventAttachedToTarget](ev); ok && e.TargetInfo != nil {
			t.captureChildLocked(e)
			if e.TargetInfo.Type == "iframe" {
				t.addChildLocked(string(e.SessionID), ev.SessionID, cdp.FrameID(e.TargetInfo.TargetID))
			}
		}
	case target.DetachedFromTarget.Method:
		if e, ok := decode[target.EventDetachedFromTarget](ev); ok {
			t.dropChildLocked(string(e.SessionID))
		}
	case page.JavascriptDialogOpening.Method:
		if e, ok := decode[page.EventJavascriptDialogOpening](ev); ok {
			d := dialogOf(e)
			t.dialogLocked(&d)
		}
	case page.JavascriptDialogClosed.Method:
		t.dialogLocked(nil)
		t.closed++
	case downloadWillBegin:
		t.downloads++
	case inspector.TargetCrashed.Method:
		if c := t.children[ev.SessionID]; c != nil {
			c.crashed = true // a frame of another process leaves the rest alive
		} else if ev.SessionID == "" {
			t.crashed = true
		}
	case page.LifecycleEvent.Method:
		if e, ok := decode[page.EventLifecycleEvent](ev); ok {
			t.reachLocked(e.FrameID, e.LoaderID, e.Name)
		}
	case page.LoadEventFired.Method, page.ScreencastFrame.Method, toldOfAnswer:
	default:
		t.unknown++
	}
}

// reachLocked notes a milestone of a frame's document. A document begins with
// init, which may come before the frame's navigation is told.
func (t *Tab) reachLocked(id cdp.FrameID, loader cdp.LoaderID, name string) {
	f := t.frames[id]
	if f == nil {
		return
	}
	if name == "init" || f.reached == nil {
		f.reached = map[string]bool{}
	}
	f.reached[name] = true
	switch name {
	case parsedEvent:
		f.parsed = loader
	case "load":
		f.loaded = loader
	}
}

// addChildLocked takes in a child session and has the loop set it up. A
// child's own cross-origin frames are announced on its session, so each child
// asks for them again.
func (t *Tab) addChildLocked(id, parent string, frameID cdp.FrameID) {
	c := &childSession{id: id, parent: parent, frameID: frameID, session: t.conn.Child(id)}
	t.children[id] = c
	t.enqueueLocked(func(ctx context.Context) {
		if err := t.enableSession(ctx, c.session, id); err != nil {
			t.log.Debug("preparing a frame", "frame", string(frameID), "error", err)
		}
	})
}

func (t *Tab) dropChildLocked(id string) {
	delete(t.children, id)
	for fid, f := range t.frames {
		if f.session == id {
			delete(t.frames, fid)
		}
	}
}

func (t *Tab) dropFrameLocked(id cdp.FrameID) {
	delete(t.frames, id)
	for cid, f := range t.frames {
		if f.parent == id {
			t.dropFrameLocked(cid)
		}
	}
}

// mainFrame returns the tab's main frame.
func (t *Tab) mainFrame() (frameRef, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames[t.main]
	if f == nil {
		return frameRef{}, op.Reject(op.BrowserOperation, "tab %d shows no page", t.conn.Key().TabID).WithHint("navigate to a page")
	}
	return t.refLocked(f), nil
}

func (t *Tab) refLocked(f *frame) frameRef {
	var s cdp.Session = t.conn
	if c := t.children[f.session]; c != nil {
		s = c.session
		if c.crashed {
			s = crashedSession{}
		}
	}
	return frameRef{id: f.id, parent: f.parent, loader: f.loader, url: f.url, session: f.session, s: s}
}

// crashedSession stands for the session of a frame whose process has crashed:
// Chrome would answer nothing on it.
type crashedSession struct{}

func (crashedSession) Call(context.Context, string, any, any) error {
	return errors.New("the frame's renderer crashed")
}

func (crashedSession) Subscribe(string) (<-chan jsonv2.Value, func()) {
	events := make(chan jsonv2.Value)
	close(events)
	return events, func() {}
}

// runsFrame reports whether the session is the one that is known to run the
// frame.
func (t *Tab) runsFrame(id cdp.FrameID, session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames[id]
	return f != nil && f.session == session
}

// frameByID returns a frame of the tab.
func (t *Tab) frameByID(id cdp.FrameID) (frameRef, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames[id]
	if f == nil {
		return frameRef{}, false
	}
	return t.refLocked(f), true
}

// allFrames returns the frames, a parent before its children, in the order in
// which they appeared.
func (t *Tab) allFrames(ctx context.Context) []frameRef {
	t.settled(ctx, 300*time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	byParent := map[cdp.FrameID][]*frame{}
	for _, f := range t.frames {
		if f.id != t.main {
			byParent[f.parent] = append(byParent[f.parent], f)
		}
	}
	var out []frameRef
	var add func(f *frame)
	add = func(f *frame) {
		out = append(out, t.refLocked(f))
		kids := byParent[f.id]
		for i := 1; i < len(kids); i++ {
			for j := i; j > 0 && kids[j].order < kids[j-1].order; j-- {
				kids[j], kids[j-1] = kids[j-1], kids[j]
			}
		}
		for _, k := range kids {
			add(k)
		}
	}
	if m := t.frames[t.main]; m != nil {
		add(m)
	}
	return out
}

// worldName names our isolated worlds in DevTools.
const worldName = "pi-chrome"

// world returns our isolated world in the frame's present document, made where
// there is none yet. It does not need Runtime.enable, which a page can notice.
func (t *Tab) world(ctx context.Context, f frameRef) (runtime.ExecutionContextID, error) {
	t.mu.Lock()
	if cur := t.frames[f.id]; cur != nil && cur.world != 0 && cur.worldLoader == f.loader && cur.session == f.session {
		id := cur.world
		t.mu.Unlock()
		return id, nil
	}
	t.mu.Unlock()
	res, err := call(ctx, f.s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.id, WorldName: worldName})
	if err != nil {
		return 0, fmt.Errorf("making an isolated world: %w", err)
	}
	t.mu.Lock()
	if cur := t.frames[f.id]; cur != nil && cur.loader == f.loader {
		// Its number may be that of a world of another process before.
		cur.world, cur.worldLoader, cur.telling = res.ExecutionContextID, f.loader, 0
	}
	t.mu.Unlock()
	return res.ExecutionContextID, nil
}

// dropWorld forgets a world that Chrome no longer knows.
func (t *Tab) dropWorld(f frameRef) {
	t.mu.Lock()
	if cur := t.frames[f.id]; cur != nil {
		cur.world = 0
	}
	t.mu.Unlock()
}

// downloadWillBegin is an event that cdproto has only for the Browser domain,
// which an extension cannot reach; the Page domain still sends it.
const downloadWillBegin = "Page.downloadWillBegin"
