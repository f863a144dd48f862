package relaytest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

// userTab opens a hidden tab as the user has one, which the tests reach beside
// the relay too.
func (l *Lane) userTab(t *testing.T, s *Session, path string) (*direct.Page, op.Tab) {
	t.Helper()
	page, err := l.Browser.NewPage(t.Context(), &direct.NewPageOptions{URL: l.URL + path})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = page.Close(context.WithoutCancel(t.Context())) }) // it may be gone by then
	var found op.Tab
	until(t, 10*time.Second, "the user's tab has loaded", func() bool {
		for _, tab := range valueOf[[]op.Tab](t, s.Do("tab.list", map[string]any{})) {
			if tab.URL == l.URL+path && tab.Status == "complete" && tab.Title != "" {
				found = tab
				return true
			}
		}
		return false
	})
	return page, found
}

func (s *Session) listed(id int) op.Tab {
	s.t.Helper()
	for _, tab := range valueOf[[]op.Tab](s.t, s.Do("tab.list", map[string]any{})) {
		if tab.ID == id {
			return tab
		}
	}
	return op.Tab{ID: -1}
}

type claimed struct {
	Tab  op.Tab
	Note string
}

// The receipt of a click says which tab came of it, and its id claims it. The
// user goes on seeing the tab before, unless the session may change that.
func claimsOpened(t *testing.T, l *Lane) {
	s := l.Session(t)
	s.Open(l.URL + "/input/new-tab.html?opener")
	before := s.activeTab()
	for _, id := range []string{"stays", "window"} {
		out := valueOf[struct {
			Action struct {
				Window  string
				NewTabs []struct {
					TabID int    `json:"tabId"`
					URL   string `json:"url"`
				}
			}
		}](t, s.Do("input.click", map[string]any{"selector": "#" + id}))
		assert.Assert(t, len(out.Action.NewTabs) == 1 && out.Action.NewTabs[0].TabID != 0, "%+v", out.Action.NewTabs)
		opened := out.Action.NewTabs[0]
		if id == "stays" {
			assert.Equal(t, s.activeTab(), before)
			assert.Equal(t, out.Action.Window, "Chrome showed the new tab; the one before is shown again")
		}
		on := map[string]any{"by": "id", "value": opened.TabID}
		claimed := valueOf[claimed](t, s.Do("tab.claim", map[string]any{"target": on}))
		assert.Equal(t, claimed.Tab.ID, opened.TabID)
		res := s.Do("page.evaluate", map[string]any{"target": on, "expression": "location.href"})
		assert.Assert(t, strings.Contains(string(res.Value), opened.URL), "%s is not at %s", res.Value, opened.URL)
		s.Do("tab.close", map[string]any{"target": on})
	}
	_, err := s.as(true, "input.click", map[string]any{"selector": "#stays"})
	assert.NilError(t, err)
	shown := s.listed(s.activeTab())
	assert.Equal(t, shown.URL, l.URL+"/navigate/plain.html?opened")
	on := map[string]any{"by": "id", "value": shown.ID}
	s.Do("tab.claim", map[string]any{"target": on})
	s.Do("tab.close", map[string]any{"target": on})
}

func claims(t *testing.T, l *Lane) {
	a, b := l.Session(t), l.Session(t)
	page, tab := l.userTab(t, a, "/navigate/plain.html?claimed")
	before := a.activeTab()
	on := map[string]any{"by": "id", "value": tab.ID}
	expect := map[string]any{"url": tab.URL, "title": "Plain", "windowId": tab.WindowID, "groupId": -1, "active": false, "pinned": false}
	e := a.Fail("tab.claim", map[string]any{"target": on, "expect": map[string]any{"title": "Another"}})
	assert.Equal(t, e.Code, op.TabChanged)
	got := valueOf[claimed](t, a.Do("tab.claim", map[string]any{"target": on, "expect": expect}))
	assert.Assert(t, got.Tab.Owned && got.Tab.Group != nil && got.Note != "", "%+v", got)
	assert.Equal(t, a.activeTab(), before) // nothing was shown
	e = b.Fail("tab.claim", map[string]any{"target": on})
	assert.Equal(t, e.Code, op.TabHeld)
	assert.Equal(t, e.Details["holder"], a.Key)

	// Without a target it is the session's only tab, and the page believes that
	// it is looked at.
	assert.Equal(t, pageEval(t, page, "document.visibilityState"), "hidden")
	a.Do("input.hover", map[string]any{"at": map[string]any{"by": "selector", "value": "body"}})
	assert.Equal(t, pageEval(t, page, "document.visibilityState"), "visible")

	// The end of the session gives it back: open, ungrouped, as the user has it.
	done, err := owner.Cleanup(t.Context(), a.Client, a.Key)
	assert.NilError(t, err)
	assert.Equal(t, len(done.ClosedTabIDs), 0)
	assert.DeepEqual(t, done.ReleasedTabIDs, []int{tab.ID})
	now := a.listed(tab.ID)
	assert.Equal(t, now.URL, tab.URL)
	assert.Assert(t, !now.Owned && now.GroupID == -1 && !now.Active)
	until(t, 10*time.Second, "the page is hidden again", func() bool { return pageEval(t, page, "document.visibilityState") == "hidden" })

	// Another session may have it now, and leaves it to the user itself.
	b.Do("tab.claim", map[string]any{"target": on})
	b.Do("page.snapshot", map[string]any{})
	left := valueOf[op.ReleasedTab](t, b.Do("tab.release", map[string]any{}))
	assert.Assert(t, left.ID == tab.ID && left.GroupID == -1 && !left.Owned && !left.Kept)
	e = b.Fail("tab.release", map[string]any{})
	assert.Equal(t, e.Code, op.AutomationTargetRequired)

	// A tab that the session made is left in the same way.
	made := a.tab("tab.new", map[string]any{"url": l.URL + "/navigate/plain.html?made"})
	left = valueOf[op.ReleasedTab](t, a.Do("tab.release", map[string]any{"atEnd": true}))
	assert.Assert(t, left.Kept && left.Owned)
	a.Do("page.snapshot", map[string]any{})
	done, err = owner.Cleanup(t.Context(), a.Client, a.Key)
	assert.NilError(t, err)
	assert.DeepEqual(t, done.ReleasedTabIDs, []int{made.ID})
	now = a.listed(made.ID)
	assert.Assert(t, now.ID == made.ID && !now.Owned && now.GroupID == -1)
	a.Do("tab.close", map[string]any{"target": map[string]any{"by": "id", "value": made.ID}})

	list := valueOf[[]op.Profile](t, a.Do("system.targets", map[string]any{}))
	assert.Equal(t, len(list), 1)
	assert.Assert(t, list[0].Connected && list[0].Browser != "" && list[0].SessionTabs == 0, "%+v", list)
}

// executing reports whether a command of the session runs.
func (s *Session) executing(t *testing.T) bool {
	st, err := owner.Status(t.Context(), s.Client, s.Key)
	assert.NilError(t, err)
	return st.Session.Executing == 1
}

// discards throws tabs out of memory, which gives each a new id: the session's
// right, and the user's claim, go along.
func discards(t *testing.T, l *Lane) {
	w := &worker{browser: l.Browser}
	discard := func(s *Session, id int) int {
		var now int
		assert.NilError(t, w.eval(t.Context(), fmt.Sprintf(`chrome.tabs.discard(%d).then((tab) => tab.id)`, id), &now))
		return now
	}
	for name, c := range map[string]struct {
		operation string
		input     map[string]any
		kind      op.Kind
	}{
		"a script":  {"page.evaluate", map[string]any{"expression": "document.title = 'under way', new Promise(() => {})"}, op.OutcomeUnknown},
		"a reading": {"page.wait", map[string]any{"condition": map[string]any{"by": "textContains", "value": "never"}, "timeoutMs": 60_000}, op.Rejected},
	} {
		t.Run("midway "+name, func(t *testing.T) {
			s := l.Session(t)
			tab := s.tab("tab.new", map[string]any{"url": l.URL + "/navigate/plain.html?midway"})
			s.Do("page.snapshot", map[string]any{}) // the debugger is attached
			done := make(chan error, 1)
			go func() {
				_, err := s.Run(c.operation, c.input)
				done <- err
			}()
			until(t, 10*time.Second, "the command is under way", func() bool {
				return s.executing(t) && (c.kind == op.Rejected || s.listed(tab.ID).Title == "under way")
			})
			id := discard(s, tab.ID)
			e := op.AsError(<-done)
			assert.Equal(t, e.Kind, c.kind, e.Message)
			if c.kind == op.OutcomeUnknown {
				assert.Equal(t, e.Code, op.DebuggerDetached, e.Message)
				assert.Assert(t, strings.Contains(e.Hint, "discards"), e.Hint)
			}
			// The tab is the session's still, and works: no command gets
			// between the new id and its record.
			assert.Equal(t, s.Do("page.evaluate", map[string]any{"expression": "document.title"}).Text, "Plain")
			assert.Assert(t, s.listed(id).Owned)
		})
	}
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			s := l.Session(t)
			path := fmt.Sprintf("/navigate/plain.html?discarded-%v", own)
			var tab op.Tab
			if own {
				tab = s.tab("tab.new", map[string]any{"url": l.URL + path})
			} else {
				_, tab = l.userTab(t, s, path)
				s.Do("tab.claim", map[string]any{"target": map[string]any{"by": "id", "value": tab.ID}})
			}
			s.Do("page.snapshot", map[string]any{}) // the debugger is attached
			id := discard(s, tab.ID)
			assert.Assert(t, id != tab.ID)
			until(t, 10*time.Second, "the session has the tab under its new id", func() bool { return s.listed(id).Owned })
			now := s.listed(id)
			assert.Equal(t, now.Status, "unloaded") // listing wakes nothing
			st, err := owner.Status(t.Context(), s.Client, s.Key)
			assert.NilError(t, err)
			assert.Equal(t, len(st.Session.Targets), 1)
			assert.Equal(t, *st.Session.Targets[0].TabID, id)
			assert.Equal(t, st.Session.Targets[0].Claimed, !own)
			// The next command without a target has it, and wakes it.
			s.Open(l.URL + path + "-again")
			assert.Equal(t, s.listed(id).URL, l.URL+path+"-again")
			done, err := owner.Cleanup(t.Context(), s.Client, s.Key)
			assert.NilError(t, err)
			if own {
				assert.DeepEqual(t, done.ClosedTabIDs, []int{id})
			} else {
				assert.DeepEqual(t, done.ReleasedTabIDs, []int{id})
				s.Do("tab.close", map[string]any{"target": map[string]any{"by": "id", "value": id}})
			}
		})
	}
}
