package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// maxHookQueue bounds the events that wait for a slow hook. Beyond it they are
// dropped, and tabs and targets are read again.
const maxHookQueue = 10_000

// maxSpare bounds those of them that tell nothing of a tab. Beyond it they are
// lost, and nothing is read again for them.
const maxSpare = 100

// pageMessage is the event of a message that a page sends.
const pageMessage = "runtime.onMessageExternal"

// source is the first argument of the debugger's events.
type source struct {
	TabID     int    `json:"tabId"`
	SessionID string `json:"sessionId"`
}

// event routes one event of the worker. It runs on the connection's reader.
// An event that is not understood is only logged: Chrome may come to add
// arguments, and nothing depends on one event alone.
func (c *Connector) event(f *wire.EventFrame) {
	if err := c.route(f); err != nil {
		c.relay.log.Warn("passed over an event", "event", f.Event, "error", err)
	}
}

func (c *Connector) route(f *wire.EventFrame) error {
	hooks := &c.relay.opts.Hooks
	switch f.Event {
	case "debugger.onEvent":
		src, err := arg[source](f, 0)
		if err != nil {
			return err
		}
		method, err := arg[string](f, 1)
		if err != nil {
			return err
		}
		params := json.RawMessage("{}")
		if len(f.Args) > 2 && string(f.Args[2]) != "null" {
			params = f.Args[2]
		}
		c.mu.Lock()
		t := c.tabs[src.TabID]
		c.mu.Unlock()
		if t != nil && method != "" { // else it is not ours: attached by an earlier owner
			t.push(item{event: op.Event{SessionID: src.SessionID, Method: method, Params: params}})
		}
	case "debugger.onDetach":
		src, err := arg[source](f, 0)
		if err != nil {
			return err
		}
		reason, err := arg[string](f, 1)
		if err != nil {
			return err
		}
		if src.SessionID != "" {
			return nil // of a child; Target.detachedFromTarget tells it too
		}
		c.mu.Lock()
		t := c.tabs[src.TabID]
		if t == nil {
			t = c.former[src.TabID]
		}
		delete(c.former, src.TabID)
		c.mu.Unlock()
		at := time.Now()
		if ms, err := arg[int64](f, 2); err == nil {
			at = time.UnixMilli(ms) // by the browser's clock, as in a hello
		}
		switch {
		case t != nil && reason != "":
			t.push(item{event: op.Event{Detached: reason}, at: at})
		case reason == cdpmodel.UserCanceled: // of a tab that an owner before attached
			c.userCanceled(nil, at)
		}
	case "tabs.onRemoved":
		id, err := arg[int](f, 0)
		if err != nil {
			return err
		}
		// Only messages and waits read it, so that an older Chrome may leave it out.
		why, _ := arg[struct {
			WindowClosing bool `json:"isWindowClosing"`
		}](f, 1)
		c.mu.Lock()
		t := c.tabs[id]
		delete(c.tabs, id)
		delete(c.pages, id)
		c.opened.Close(id)
		if why.WindowClosing {
			c.closing = time.Now()
		}
		c.dropRefusalsLocked(id)
		c.mu.Unlock()
		if t != nil {
			t.end(map[bool]string{false: "it was closed", true: "it was closed with its window"}[why.WindowClosing])
		}
		if hooks.TabRemoved != nil {
			c.hook(func() { hooks.TabRemoved(c, id) })
		}
	case "tabs.onReplaced":
		added, err := arg[int](f, 0)
		if err != nil {
			return err
		}
		removed, err := arg[int](f, 1)
		if err != nil {
			return err
		}
		c.replaced(removed, added)
	case "tabs.onCreated":
		tab, err := arg[chromeTab](f, 0)
		if err != nil {
			return err
		}
		c.mu.Lock()
		opened := op.OpenedTab{TabID: tab.ID, URL: tab.tab().URL, At: time.Now()}
		if tab.Active {
			opened.Before = tab.OpenerTabID
		}
		c.opened.Add(opened)
		c.mu.Unlock()
		if hooks.TabCreated != nil {
			c.hook(func() { hooks.TabCreated(c, tab.tab()) })
		}
	case "tabs.onUpdated":
		c.unloaded(f)
		if tab, err := arg[chromeTab](f, 2); err == nil {
			c.mu.Lock()
			c.opened.Goes(tab.ID, tab.tab().URL)
			c.mu.Unlock()
			c.sawPages(tab.tab())
		}
		if hooks.TabUpdated != nil && len(f.Args) > 1 {
			tab, err := arg[chromeTab](f, 2)
			if err != nil {
				return err
			}
			c.hook(func() { hooks.TabUpdated(c, tab.ID, f.Args[1], tab.tab()) })
		}
	case "tabs.onActivated":
		if hooks.TabActive != nil {
			a, err := arg[struct {
				TabID    int `json:"tabId"`
				WindowID int `json:"windowId"`
			}](f, 0)
			if err != nil {
				return err
			}
			c.hook(func() { hooks.TabActive(c, a.TabID, a.WindowID) })
		}
	case pageMessage:
		// A page sends as many and as large ones as it likes. They are judged
		// here and now, so that none waits beside the events of tabs.
		if hooks.Other != nil {
			hooks.Other(c, f.Event, f.Args)
		}
	default:
		if hooks.Other != nil && !c.hooks.offer(func() { hooks.Other(c, f.Event, f.Args) }) {
			return fmt.Errorf("%d such events wait already", maxSpare)
		}
	}
	return nil
}

// unloaded notes that Chrome has discarded the page of a tab that keeps its id:
// what is attached to it is looked at, and the page loaded, before it is used.
// A tab whose renderer has crashed is called unloaded too. Its debugger hears of
// the crash, and whoever works with the tab decides whether it is loaded again.
func (c *Connector) unloaded(f *wire.EventFrame) {
	id, err := arg[int](f, 0)
	if err != nil {
		return
	}
	tab, err := arg[struct {
		Status    string
		Discarded bool
	}](f, 2)
	if err != nil || tab.Status != unloaded || !tab.Discarded {
		return
	}
	c.mu.Lock()
	t := c.tabs[id]
	c.mu.Unlock()
	if t != nil {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnseen})
	}
}

// replaced gives a tab its new id: a discard makes a new tab of it, with
// another target.
func (c *Connector) replaced(oldID, newID int) {
	c.mu.Lock()
	t := c.tabs[oldID]
	if t != nil {
		delete(c.tabs, oldID)
		c.tabs[newID] = t
		c.former[oldID] = t // its onDetach still comes with the old id
		t.mu.Lock()
		// The debugger stayed with the page that was thrown away, whose detach
		// is told next.
		t.stepLocked(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseUnseen})
		t.key.TabID, t.key.TargetID = newID, ""
		t.mu.Unlock()
	}
	if at, ok := c.pages[oldID]; ok {
		delete(c.pages, oldID)
		c.pages[newID] = at
	}
	if len(c.moved) == maxHookQueue {
		clear(c.moved) // of hooks that were dropped
	}
	c.moved[oldID] = newID
	c.mu.Unlock()
	h := c.relay.opts.Hooks.TabReplaced
	c.hook(func() {
		if t != nil {
			// It goes ahead of a reset, which waits for this hook.
			ctx, cancel := context.WithTimeout(context.WithValue(c.relay.ctx, resetKey{}, true), 5*time.Second)
			if err := c.reconcile(ctx); err != nil {
				c.relay.log.Warn("reading the target of a replaced tab", "tab", newID, "error", err)
			}
			cancel()
		}
		if h != nil {
			h(c, oldID, newID)
		}
		c.mu.Lock()
		delete(c.moved, oldID)
		c.mu.Unlock()
	})
}

// MovedTo returns the id that a tab has now when Chrome has told of a new one
// and the hook about it has not run to its end; else the id itself.
func (c *Connector) MovedTo(tabID int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range len(c.moved) { // it may have moved again
		to, ok := c.moved[tabID]
		if !ok {
			break
		}
		tabID = to
	}
	return tabID
}

// hook queues a hook. When too many wait, they are dropped and everything is
// read again.
func (c *Connector) hook(fn func()) {
	if c.hooks.len() < maxHookQueue {
		c.hooks.push(fn)
		return
	}
	c.hooks.clear()
	c.relay.log.Warn("hooks fell behind: reading tabs and targets again", "connector", c.ID())
	c.mu.Lock()
	reset := c.resetLocked(ResetGap, false)
	c.mu.Unlock()
	reset()
}

func arg[T any](f *wire.EventFrame, i int) (T, error) {
	var v T
	if i >= len(f.Args) {
		return v, fmt.Errorf("it has %d arguments", len(f.Args))
	}
	if err := json.Unmarshal(f.Args[i], &v); err != nil {
		return v, fmt.Errorf("argument %d: %w", i, err)
	}
	return v, nil
}

// reconcile reads the targets and ends the tabs that are not there any more.
func (c *Connector) reconcile(ctx context.Context) error {
	_, err := c.chrome(ctx, "debugger.getTargets", func(raw json.RawMessage, err error) {
		if err == nil {
			c.applyTargets(raw, func(int) bool { return true }, -1)
		}
	})
	return err
}

// resyncTargets is reconcile in a reset: what Chrome has attached is read too.
func (c *Connector) resyncTargets(ctx context.Context) error {
	_, err := c.chrome(ctx, "debugger.getTargets", func(raw json.RawMessage, err error) {
		if err == nil {
			c.applyTargets(raw, func(int) bool { return true }, -1)
			c.applyAttached(raw)
		}
	})
	return err
}

// applyTargets compares the known tabs that match with the targets that there
// are, and adds the tab want when it is among them. It runs on the reader, so
// the answer is of exactly this moment in the order of events.
func (c *Connector) applyTargets(raw json.RawMessage, match func(tabID int) bool, want int) {
	targets, err := decodeTargets(raw)
	if err != nil {
		c.relay.log.Warn("reading targets", "error", err)
		return
	}
	byTab := make(map[int]string, len(targets))
	for _, d := range targets {
		byTab[d.TabID] = d.ID
	}
	var ended []*Tab
	c.mu.Lock()
	for id, t := range c.tabs {
		if !match(id) {
			continue
		}
		target := byTab[id]
		t.mu.Lock()
		if t.key.TargetID == "" {
			t.key.TargetID = target
		}
		same := target != "" && t.key.TargetID == target
		t.mu.Unlock()
		if !same {
			delete(c.tabs, id)
			ended = append(ended, t)
		}
	}
	if target := byTab[want]; target != "" && c.tabs[want] == nil && c.closed == nil {
		c.addTabLocked(want, target)
	}
	c.mu.Unlock()
	for _, t := range ended {
		t.end("it is not there any more")
	}
}

// Tab returns the tab, the same object for as long as the tab lives. The error
// is an *op.Error tab-gone when there is none that can be debugged.
func (c *Connector) Tab(ctx context.Context, tabID int) (*Tab, error) {
	known := func() *Tab {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.resetting != 0 && ctx.Value(resetKey{}) == nil {
			return nil // it is not known whether it is still there
		}
		t := c.tabs[tabID]
		if t == nil {
			return nil
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.key.TargetID == "" {
			return nil
		}
		return t
	}
	if t := known(); t != nil {
		return t, nil
	}
	_, err := c.chrome(ctx, "debugger.getTargets", func(raw json.RawMessage, err error) {
		if err == nil {
			c.applyTargets(raw, func(id int) bool { return id == tabID }, tabID)
		}
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	t := c.tabs[tabID]
	c.mu.Unlock()
	if t == nil {
		return nil, tabGone(tabID)
	}
	return t, nil
}
