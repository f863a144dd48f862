package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// soon waits until something has come true.
func soon(t testing.TB, what string, come func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !come() {
		select {
		case <-deadline:
			t.Fatal(what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// attachedIn says whether Chrome has a debugger on the tab, whoever's.
func attachedIn(t testing.TB, c *Connector, tab int) bool {
	t.Helper()
	targets, err := c.Targets(t.Context())
	assert.NilError(t, err)
	return slices.ContainsFunc(targets, func(d DebugTarget) bool { return d.TabID == tab && d.Attached })
}

// TestRealLeases is what happens to the debugger of a tab in a real browser.
func TestRealLeases(t *testing.T) {
	times := defaultTiming
	times.lease.Idle = 2 * time.Second
	store, leases := &memBindings{}, &memLeases{}
	opts := RelayOptions{Bindings: store, Leases: leases, time: &times}
	other, err := filepath.Abs("testdata/other-extension")
	assert.NilError(t, err)
	b := startChromiumWith(t, opts, other)
	pages := newCounter(t)
	c := b.connector(t)
	// tell opens an address without the debugger, for the other extension.
	n := 0
	tell := func(t *testing.T, tab int, deed string) {
		t.Helper()
		n++
		_, err := c.NavigateTab(t.Context(), tab, fmt.Sprintf("%s/#other-%s-%d", pages.URL, deed, n))
		assert.NilError(t, err)
	}

	t.Run("idle", func(t *testing.T) {
		tab := b.open(t, pages.URL)
		unpin := tab.Pin("a test")
		type context struct {
			ID int `json:"executionContextId"`
		}
		var tree struct {
			FrameTree struct {
				Frame struct {
					ID string `json:"id"`
				} `json:"frame"`
			} `json:"frameTree"`
		}
		assert.NilError(t, tab.Call(t.Context(), "Page.getFrameTree", nil, &tree))
		var world context
		assert.NilError(t, tab.Call(t.Context(), "Page.createIsolatedWorld", map[string]any{"frameId": tree.FrameTree.Frame.ID, "worldName": "kept"}, &world))
		assert.NilError(t, tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "globalThis.kept = 7", "contextId": world.ID}, nil))
		time.Sleep(2 * times.lease.Idle)
		assert.Check(t, tab.Attached(), "given back although something depends on it")
		unpin()
		// Chrome has detached before the owner hears of it.
		soon(t, "not given back", func() bool { return tab.leaseState() == cdpmodel.LeaseFree })
		assert.Check(t, !attachedIn(t, c, tab.Key().TabID))

		assert.NilError(t, tab.Attach(t.Context()))
		var res struct {
			Result struct {
				Value int `json:"value"`
			} `json:"result"`
		}
		assert.NilError(t, tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "kept", "contextId": world.ID}, &res))
		assert.Equal(t, res.Result.Value, 7, "what was shown before is worth nothing any more")
	})

	t.Run("another extension's debugger", func(t *testing.T) {
		made, err := c.CreateTab(t.Context(), CreateTab{URL: pages.URL})
		assert.NilError(t, err)
		// What they do to a page before this one would go with it.
		soon(t, "the page does not load", func() bool {
			tabs, err := c.Tabs(t.Context())
			assert.NilError(t, err)
			return slices.ContainsFunc(tabs, func(o op.Tab) bool { return o.ID == made.ID && o.Title == "page" && o.Status == "complete" })
		})
		tell(t, made.ID, "attach")
		soon(t, "the other extension does not attach", func() bool { return attachedIn(t, c, made.ID) })
		tab, err := c.Tab(t.Context(), made.ID)
		assert.NilError(t, err)
		unpin := tab.Pin("a test")
		assert.NilError(t, tab.Attach(t.Context()))
		title := func() string { return value[string](t, tab, "document.title") }
		// Chrome tells of their attachment before it does what they do with it.
		soon(t, "the other extension does nothing", func() bool { return title() == "theirs" })
		_ = tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "location.hash = 'other-again-0'"}, nil)
		soon(t, "we are in the way of the other extension", func() bool { return title() == "still theirs" })
		_ = tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "location.hash = 'other-release-0'"}, nil)
		unpin()
		assert.NilError(t, tab.Detach(t.Context()))
		soon(t, "somebody has not let go", func() bool { return !attachedIn(t, c, made.ID) })
	})

	t.Run("a discard", func(t *testing.T) {
		tab := b.open(t, pages.URL)
		before := tab.Key()
		tell(t, before.TabID, "discard")
		soon(t, "not discarded", func() bool { k := tab.Key(); return k.TabID != before.TabID && k.TargetID != "" })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		defer tab.Pin("a test")() // as a command does: the debugger must not be given back meanwhile
		assert.NilError(t, tab.Attach(ctx))
		assert.Equal(t, value[string](t, tab, "document.readyState + document.body.textContent"), "completehello")
		assert.Check(t, tab.Key().TargetID != before.TargetID)
	})

	t.Run("an owner dies while a frame waits for it", func(t *testing.T) {
		tab := b.open(t, pages.URL)
		defer tab.Pin("a test")()
		waiting, stop := tab.Subscribe("Target.attachedToTarget")
		defer stop()
		assert.NilError(t, tab.Call(t.Context(), "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}, nil))
		assert.NilError(t, tab.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": `{
			const f = document.createElement("iframe");
			f.src = location.href.replace("127.0.0.1", "localhost") + "hit";
			document.body.append(f);
			new Promise((r) => f.onload = () => r(window.framed = true)) }`}, nil))
		var ev struct{ WaitingForDebugger bool }
		assert.NilError(t, json.Unmarshal(<-waiting, &ev))
		assert.Check(t, ev.WaitingForDebugger)
		id := tab.Key().TabID
		assert.NilError(t, b.relay.Close())

		b.own(t, opts)
		c = b.connector(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		assert.NilError(t, c.WaitLive(ctx))
		soon(t, "the frame waits for ever", func() bool { return pages.count() > 0 })
		next, err := c.Tab(ctx, id)
		assert.NilError(t, err)
		assert.Equal(t, next.leaseState(), cdpmodel.LeaseLeft)
		assert.NilError(t, next.Attach(ctx))
		assert.Check(t, value[bool](t, next, "new Promise((r) => { const look = () => window.framed ? r(true) : setTimeout(look, 20); look() })"))

		// And one whose tabs nobody uses any more gives them back.
		soon(t, "never given back", func() bool { return !attachedIn(t, c, id) })
		soon(t, "remembered", func() bool { return !slices.Contains(leases.targets(), next.Key().TargetID) })
	})

	t.Run("the extension is turned off and on", func(t *testing.T) {
		tab := b.open(t, pages.URL)
		id := tab.Key().TabID
		made, err := c.CreateTab(t.Context(), CreateTab{URL: pages.URL})
		assert.NilError(t, err)
		generation := c.Info().Generation
		tell(t, made.ID, "restart")
		soon(t, "it does not come back", func() bool { return c.Live() && c.Info().Generation > generation })
		again, err := c.Tab(t.Context(), id)
		assert.NilError(t, err)
		assert.NilError(t, again.Attach(t.Context()))
		assert.Equal(t, value[int](t, again, "1+1"), 2)
	})
}

// TestRealDevTools: Chrome's own developer tools beside us are no conflict.
func TestRealDevTools(t *testing.T) {
	b := startChromiumWith(t, RelayOptions{Bindings: &memBindings{}}, "", "--auto-open-devtools-for-tabs")
	pages := newCounter(t)
	tab := b.open(t, pages.URL)
	tools := func() bool {
		var targets struct {
			TargetInfos []struct{ Type, URL string }
		}
		b.command(t, "Target.getTargets", struct{}{}, &targets)
		n := 0
		for _, x := range targets.TargetInfos {
			if len(x.URL) > 9 && x.URL[:9] == "devtools:" {
				n++
			}
		}
		return n >= 2 // of the first tab, and of ours
	}
	soon(t, "no developer tools", tools)
	assert.Equal(t, value[int](t, tab, "1+1"), 2)
	assert.NilError(t, tab.Detach(t.Context()))
	assert.Check(t, tools(), "the tools have let go")
	assert.NilError(t, tab.Attach(t.Context()))
	assert.Equal(t, value[int](t, tab, "2+2"), 4)
	assert.Equal(t, tab.Attachment(), 2)
}
