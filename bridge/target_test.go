package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// tabsOf are the urls of a fake browser's tabs.
func tabsOf(b *fakeBrowser) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var urls []string
	for _, t := range b.tabs {
		urls = append(urls, t.URL)
	}
	return urls
}

func recordsOf(s *Server) []targetRecord { return s.sessionRecords("default", "") }

func TestImplicitTarget(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		// The user's own tab is never used, active or not.
		mine := r.browser.open("https://mine.test/")
		r.browser.tabs[0].Active = true
		wantError(t, p.do(cmd("0", "tab.close", `{}`)), op.Rejected, op.AutomationTargetRequired)
		// None: a read allocates too.
		wantOK(t, p.do(cmd("1", "page.snapshot", `{}`)))
		assert.DeepEqual(t, tabsOf(r.browser), []string{mine.URL, "about:blank"})
		assert.Equal(t, len(recordsOf(r.srv)), 1)
		rec := recordsOf(r.srv)[0]
		assert.Equal(t, rec.State, targetOwned)
		assert.Assert(t, rec.Prepared && rec.TargetID != "" && rec.Epoch == "epoch-1")
		assert.Equal(t, r.browser.grouped[rec.TabID], 100)
		// One: it again.
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.Equal(t, len(tabsOf(r.browser)), 2)
		// Many: neither.
		wantOK(t, p.do(cmd("3", "tab.new", `{}`)))
		f := wantError(t, p.do(cmd("4", "page.click", `{}`)), op.Rejected, op.AmbiguousOwnedTarget)
		assert.Equal(t, len(f.Details["ownedTargets"].([]any)), 2)
		wantError(t, p.do(cmd("5", "tab.close", `{}`)), op.Rejected, op.AmbiguousOwnedTarget)
		second := recordsOf(r.srv)[1]
		assert.Equal(t, r.browser.grouped[second.TabID], 100) // one group a session
		wantOK(t, p.do(cmd("6", "tab.close", forTab(second.TabID))))
		wantOK(t, p.do(cmd("7", "page.click", `{}`)))
		wantOK(t, p.do(cmd("8", "tab.close", `{}`)))
		assert.DeepEqual(t, tabsOf(r.browser), []string{mine.URL})
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		assert.Assert(t, slices.ContainsFunc(r.handler.forgot, func(k op.TabKey) bool { return k.TabID == rec.TabID }))
	})
}

func TestExplicitTarget(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		a := r.browser.open("https://shop.test/cart")
		b := r.browser.open("https://shop.test/help")
		c := r.browser.open("chrome://settings/")
		by := func(by string, value any) string {
			raw, err := json.Marshal(map[string]any{"target": map[string]any{"by": by, "value": value}})
			assert.NilError(t, err)
			return string(raw)
		}
		n := 0
		click := func(input string) *wire.Result {
			n++
			return p.do(cmd(fmt.Sprint(n), "page.click", input))
		}
		wantOK(t, click(by("id", a.ID)))
		wantOK(t, click(by("url", "/cart")))
		wantOK(t, click(by("title", fmt.Sprintf("tab %d", b.ID))))
		f := wantError(t, click(by("url", "shop.test")), op.Rejected, op.AmbiguousTabTarget)
		assert.DeepEqual(t, f.Details["matchingTabIds"], []any{float64(a.ID), float64(b.ID)})
		f = wantError(t, click(by("url", "nowhere")), op.Rejected, op.TabNotFound)
		assert.Equal(t, len(f.Details["currentTabs"].([]any)), 3)
		f = wantError(t, click(by("id", 9999)), op.Rejected, op.TabNotFound)
		assert.Assert(t, strings.Contains(f.Message, "shop.test/cart"))
		wantError(t, click(by("id", "seven")), op.Invalid, op.InvalidInput)
		f = wantError(t, click(by("id", c.ID)), op.Rejected, op.ProtectedTabURL)
		assert.Equal(t, f.Details["url"], "chrome://settings/")
		// Using a user's tab does not make it ours.
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		for range 30 {
			r.browser.open("https://many.test/")
		}
		f = wantError(t, click(by("id", 9999)), op.Rejected, op.TabNotFound)
		assert.Equal(t, len(f.Details["currentTabs"].([]any)), maxListedTabs)
		assert.Equal(t, f.Details["moreTabs"], float64(13)) // nothing is cut silently
	})
}

func TestATabOfAnotherSessionIsRefused(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		id := recordsOf(r.srv)[0].TabID
		other := func(n, operation string) wire.Command {
			c := cmd(n, operation, forTab(id))
			c.Session.Key = "other"
			return c
		}
		for i, operation := range []string{"page.click", "page.snapshot", "tab.close"} {
			f := wantError(t, p.do(other(fmt.Sprint("o", i), operation)), op.Rejected, op.TabHeld)
			assert.Equal(t, f.Details["holder"], "default")
		}
		assert.Equal(t, len(tabsOf(r.browser)), 1)
		// Owned marks the asking session's tabs only.
		var tabs []op.Tab
		assert.NilError(t, json.Unmarshal(p.do(cmd("2", "tab.list", `{}`)).Value, &tabs))
		assert.Assert(t, tabs[0].Owned)
		c := cmd("3", "tab.list", `{}`)
		c.Session.Key = "other"
		tabs = nil
		assert.NilError(t, json.Unmarshal(p.do(c).Value, &tabs))
		assert.Assert(t, !tabs[0].Owned)
	})
}

func TestLimitsOfOwnedTabs(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		for i := range maxTabsPerSession {
			wantOK(t, p.do(cmd(fmt.Sprint(i), "tab.new", `{}`)))
		}
		f := wantError(t, p.do(cmd("x", "tab.new", `{}`)), op.Rejected, op.AutomationTargetLimit)
		assert.Equal(t, f.Details["scope"], "session")
		assert.Equal(t, len(tabsOf(r.browser)), maxTabsPerSession) // checked before a tab is made
		// The profile's limit counts all sessions. The records are set by hand:
		// 256 tabs take 52 sessions.
		r.srv.mu.Lock()
		for i := len(r.srv.records); i < maxTabsPerProfile; i++ {
			n := fmt.Sprintf("nonce-%d", i)
			r.srv.records[n] = &targetRecord{Nonce: n, Session: fmt.Sprint("s", i), ConnectorID: r.browser.id, State: targetOwned, TabID: 5000 + i}
		}
		r.srv.mu.Unlock()
		c := cmd("y", "page.click", `{}`)
		c.Session.Key = "late"
		f = wantError(t, p.do(c), op.Rejected, op.AutomationTargetLimit)
		assert.Equal(t, f.Details["scope"], "profile")
		assert.Equal(t, len(tabsOf(r.browser)), maxTabsPerSession)
	})
}

func TestNoWindowForANewTab(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.windows = []Window{{ID: 1, Type: "popup"}, {ID: 2, Type: "normal", Incognito: true}}
		wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.ChromeWindowRequired)
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		r.browser.windows = append(r.browser.windows, Window{ID: 3, Type: "normal"})
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
	})
}

// TestAllocationSurvivesACrashAtEachStep kills the owner after each step of
// an allocation. Afterwards no tab is leaked, none is made twice, and the
// session works.
func TestAllocationSurvivesACrashAtEachStep(t *testing.T) {
	for _, step := range []struct {
		call  string
		after bool // the call is made, its answer is lost
		tabs  int  // that must be there after the next command
	}{
		{"windows.getAll", false, 1}, {"tabs.create", false, 1}, {"tabs.create", true, 1}, {"tab", false, 1},
		{"leave", false, 1}, {"leave", true, 1}, {"tabs.group", false, 1},
	} {
		t.Run(fmt.Sprintf("%s after=%v", step.call, step.after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				p := r.dial()
				// The disk as it is at that moment is what the next owner finds.
				r.browser.fail = func(call string) (error, bool) {
					if call != step.call {
						return nil, false
					}
					if r.disk == nil {
						r.freeze()
					}
					return errLostForTest, step.after
				}
				res := p.do(cmd("1", "page.click", `{}`))
				if step.call != "tabs.group" { // a group is only for the eye
					assert.Assert(t, !res.OK)
					assert.Assert(t, res.Error.Kind != string(op.OutcomeUnknown), "%v", res.Error)
				}
				r.browser.fail = nil
				p.close()
				r.crash()
				r.start()
				defer r.close()
				r.srv.reconcile(t.Context(), r.browser, ResetFirst)
				p = r.dial()
				defer p.close()
				wantOK(t, p.do(cmd("2", "page.click", `{}`)))
				assert.Equal(t, len(tabsOf(r.browser)), step.tabs, "%v", tabsOf(r.browser))
				assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
				assert.Equal(t, len(recordsOf(r.srv)), 1)
			})
		})
	}
}

func TestALostAnswerIsFoundAgainWithoutACrash(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.fail = func(call string) (error, bool) {
			if call == "tabs.create" {
				return errLostForTest, true
			}
			return nil, false
		}
		wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.AllocationPending)
		r.browser.fail = nil
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
	})
}

func TestTwoTabsWithOneMarkAreNotUsed(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.fail = func(call string) (error, bool) {
			if call == "tabs.create" {
				return errLostForTest, true
			}
			return nil, false
		}
		wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.AllocationPending)
		r.browser.fail = nil
		r.browser.open(tabsOf(r.browser)[0]) // the user duplicates the tab
		wantError(t, p.do(cmd("2", "page.click", `{}`)), op.Rejected, op.InvalidAutomationState)
		assert.Equal(t, len(r.handler.order()), 0)
	})
}

func TestOwnershipAfterABrowserRestart(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		id := recordsOf(r.srv)[0].TabID
		// The extension was loaded again: another epoch, both ids still match.
		r.browser.mu.Lock()
		r.browser.epoch = "epoch-2"
		r.browser.mu.Unlock()
		r.srv.reconcile(t.Context(), r.browser, ResetBrowser)
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.Equal(t, recordsOf(r.srv)[0].Epoch, "epoch-2")
		assert.Equal(t, len(tabsOf(r.browser)), 1)
		// The browser was started again: the same tab id is another tab.
		r.browser.restart()
		r.srv.reconcile(t.Context(), r.browser, ResetBrowser)
		f := wantError(t, p.do(cmd("3", "page.click", `{}`)), op.Rejected, op.AutomationOwnershipLost)
		assert.Equal(t, f.Details["reason"], staleEpoch)
		assert.Equal(t, f.Details["recordedTabId"], float64(id))
		assert.Equal(t, len(tabsOf(r.browser)), 1) // never adopted, never closed
		// It was told once.
		wantOK(t, p.do(cmd("4", "page.click", `{}`)))
		assert.Equal(t, len(tabsOf(r.browser)), 2)
	})
}

func TestAStaleTabIsLeftAloneByCleanup(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "tab.new", `{}`)))
		r.browser.restart()
		r.srv.reconcile(t.Context(), r.browser, ResetBrowser)
		wantOK(t, p.do(cmd("2", "tab.new", `{}`)))
		mine := r.browser.open("https://mine.test/")
		var done Cleanup
		assert.NilError(t, p.ask("cleanup", SessionParams{"default"}, &done))
		assert.Equal(t, len(done.ClosedTabIDs), 1)
		assert.Equal(t, done.StaleOwnershipsCleared, 1)
		assert.Assert(t, slices.Contains(tabsOf(r.browser), mine.URL))
		assert.Equal(t, len(tabsOf(r.browser)), 2)
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		assert.NilError(t, p.ask("cleanup", SessionParams{"default"}, &done))
		assert.Equal(t, len(done.ClosedTabIDs), 0)
	})
}

func TestTabEvents(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		old := recordsOf(r.srv)[0]
		// A discard gives the tab new ids: ownership goes with it.
		r.browser.discard(old.TabID, 77)
		r.srv.tabReplaced(r.browser, old.TabID, 77)
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		now := recordsOf(r.srv)[0]
		assert.Equal(t, now.TabID, 77)
		assert.Equal(t, now.TargetID, "TARGET-of-77")
		assert.Assert(t, slices.ContainsFunc(r.handler.forgot, func(k op.TabKey) bool { return k.TabID == old.TabID }))
		// A command that comes before its record has heard of another discard
		// finds it all the same, and so does a comparison of all tabs.
		r.browser.discard(77, 78)
		wantOK(t, p.do(cmd("2b", "page.click", `{}`)))
		assert.Equal(t, recordsOf(r.srv)[0].TabID, 78)
		r.browser.discard(78, 77)
		r.srv.reconcile(t.Context(), r.browser, ResetGap)
		now = recordsOf(r.srv)[0]
		assert.Equal(t, fmt.Sprint(now.State, now.TabID, now.TargetID), "owned77TARGET-of-77")
		// The user closes it: the next command gets a new one, silently.
		r.browser.mu.Lock()
		r.browser.tabs = nil
		r.browser.mu.Unlock()
		r.srv.tabRemoved(r.browser.id, 77)
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		wantOK(t, p.do(cmd("3", "page.click", `{}`)))
		// Closed while nobody listened: told once.
		r.browser.mu.Lock()
		r.browser.tabs = nil
		r.browser.mu.Unlock()
		f := wantError(t, p.do(cmd("4", "page.click", `{}`)), op.Rejected, op.AutomationOwnershipLost)
		assert.Equal(t, f.Details["reason"], staleMissing)
		wantOK(t, p.do(cmd("5", "page.click", `{}`)))
	})
}

// Invariant 3 of the design: the tab is resolved once, whatever becomes of the
// command.
func TestACanceledCommandKeepsTheTabThatItWasGiven(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		hold := make(chan struct{})
		r.browser.fail = func(call string) (error, bool) {
			if call == "leave" {
				r.browser.mu.Unlock()
				<-hold
				r.browser.mu.Lock()
			}
			return nil, false
		}
		p.send(cmd("1", "page.click", `{}`))
		synctest.Wait()
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: "1"})
		wantError(t, p.wait("1", 1), op.Rejected, op.Canceled)
		close(hold)
		synctest.Wait()
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
		assert.DeepEqual(t, r.handler.order(), []string{"2"})
	})
}

func TestStatusTellsHowTheSessionStands(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		var st Status
		assert.NilError(t, p.ask("status", SessionParams{"default"}, &st))
		assert.Equal(t, st.Readiness, "ready")
		assert.Equal(t, len(st.Session.Targets), 1)
		assert.Equal(t, st.Session.Targets[0].URL, "about:blank")
		assert.Equal(t, st.Profiles[0].OwnedTabs, 1)
		var list []SessionStatus
		assert.NilError(t, p.ask("sessions", nil, &list))
		assert.Equal(t, len(list), 1)
		var facts DoctorFacts
		assert.NilError(t, p.ask("doctor", nil, &facts))
		assert.Equal(t, len(facts.Clients), 1)
		assert.Equal(t, facts.Clients[0].Name, "test")
		r.profiles.setLive(r.browser, false)
		assert.NilError(t, p.ask("status", SessionParams{"session:x"}, &st))
		assert.Equal(t, st.Readiness, "offline")
		assert.Equal(t, st.Session.Authorization, Locked)
		assert.Assert(t, p.ask("nonsense", nil, nil) != nil)
		assert.Assert(t, p.ask("status", map[string]int{"x": 1}, nil) != nil)
	})
}

func TestUnpairClosesTabsAndForgetDoesNot(t *testing.T) {
	for _, method := range []string{"unpair", "forget"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				assert.NilError(t, r.srv.store.SaveBinding(t.Context(), Binding{ConnectorID: r.browser.id, Label: "Work", Secret: wire.NewSecret()}))
				p := r.dial()
				defer p.close()
				wantOK(t, p.do(cmd("1", "page.click", `{}`)))
				if method == "unpair" {
					r.profiles.setLive(r.browser, false)
					assert.ErrorContains(t, p.ask("unpair", ConnectorParams{}, nil), "not connected")
					assert.Equal(t, len(recordsOf(r.srv)), 1)
					r.profiles.setLive(r.browser, true)
				}
				assert.NilError(t, p.ask(method, ConnectorParams{"Work"}, nil))
				assert.Equal(t, len(tabsOf(r.browser)) == 0, method == "unpair")
				assert.Equal(t, len(recordsOf(r.srv)), 0)
				all, err := r.srv.store.Bindings(t.Context())
				assert.NilError(t, err)
				assert.Equal(t, len(all), 0)
			})
		})
	}
}

// TestTabsThatCannotBeListed: what Chrome says is told, and nothing is done.
func TestTabsThatCannotBeListed(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.fail = func(call string) (error, bool) {
			if call == "tabs.query" {
				return &op.ProtocolError{Method: call, Message: "Tabs cannot be queried right now."}, false
			}
			return nil, false
		}
		f := wantError(t, p.do(cmd("click", "page.click", `{"target":{"by":"url","value":"shop"}}`)), op.Rejected, op.TabListFailed)
		assert.Assert(t, strings.Contains(f.Message, "right now") && strings.Contains(f.Message, "Nothing was done"), f.Message)
		wantError(t, p.do(cmd("list", "tab.list", `{}`)), op.Rejected, op.TabListFailed)
		assert.DeepEqual(t, r.handler.order(), []string{"list"})
	})
}

// TestATargetIsNotResolvedAgain: an operation that names another target than
// the command's own gets none.
func TestATargetIsNotResolvedAgain(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		mine, other := r.browser.open("https://shop.test/"), r.browser.open("https://mail.test/")
		r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
			_, err := call.Browser.CloseTab(ctx, op.Target{By: "id", Value: op.TargetValue(fmt.Sprint(other.ID))})
			return op.Result{}, err
		}
		wantError(t, p.do(cmd("click", "page.click", forTab(mine.ID))), op.Rejected, op.Internal)
		assert.Equal(t, len(r.browser.tabs), 2)
	})
}
