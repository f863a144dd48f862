package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func init() {
	for _, name := range []string{"tab.claim", "tab.release"} {
		fakeOps[name] = op.Descriptor{Name: name, Tool: "chrome_" + name, Effect: op.MayMutate, Tab: op.OwnedTab, Deadline: op.DefaultDeadline}
	}
}

// runClaims runs the operations that take and give tabs as the driver does.
func runClaims(ctx context.Context, call *Call) (op.Result, error) {
	var in struct {
		Target op.Target     `json:"target"`
		Expect op.TabDetails `json:"expect"`
		AtEnd  bool          `json:"atEnd"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return op.Result{}, err
	}
	switch call.Operation {
	case "tab.claim":
		tab, err := call.Browser.ClaimTab(ctx, in.Target, in.Expect)
		if err != nil {
			return op.Result{}, err
		}
		return op.NewResult(tab)
	case "tab.release":
		tab, err := call.Browser.ReleaseTab(ctx, in.Target, in.AtEnd)
		if err != nil {
			return op.Result{}, err
		}
		return op.NewResult(tab)
	}
	return op.NewResult("done")
}

func by(session string, c wire.Command) wire.Command {
	c.Session.Key = session
	return c
}

func (b *fakeBrowser) change(id int, fn func(t *op.Tab)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn(&b.tabs[b.indexLocked(id)])
}

func (b *fakeBrowser) info(id int) op.Tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tabs[b.indexLocked(id)]
}

func TestAClaimChecksEveryDetail(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runClaims
		p := r.dial()
		defer p.close()
		mine := r.browser.open("https://mine.test/")
		for i, c := range []struct{ expect, field string }{
			{`{"url":"https://mine.test/other"}`, "url"},
			{`{"title":"another"}`, "title"},
			{`{"windowId":2}`, "windowId"},
			{`{"groupId":7}`, "groupId"},
			{`{"active":true}`, "active"},
			{`{"pinned":true}`, "pinned"},
		} {
			res := p.do(cmd(fmt.Sprint("bad", i), "tab.claim", fmt.Sprintf(`{"target":{"by":"id","value":%d},"expect":%s}`, mine.ID, c.expect)))
			f := wantError(t, res, op.Rejected, op.TabChanged)
			diffs := f.Details["differences"].([]any)
			assert.Equal(t, len(diffs), 1)
			assert.Equal(t, diffs[0].(map[string]any)["field"], c.field)
			assert.Assert(t, strings.Contains(f.Message, c.field+" is "), f.Message)
			assert.Equal(t, len(recordsOf(r.srv)), 0)
		}
		all := fmt.Sprintf(`{"target":{"by":"id","value":%d},"expect":{"url":%q,"title":%q,"windowId":1,"groupId":-1,"active":false,"pinned":false}}`, mine.ID, mine.URL, mine.Title)
		wantOK(t, p.do(cmd("1", "tab.claim", all)))
		rec := recordsOf(r.srv)[0]
		assert.Assert(t, rec.Claimed && rec.Grouped && rec.State == targetOwned && rec.TargetID != "")
		assert.Assert(t, r.browser.info(mine.ID).GroupID >= 0)
		// It is the session's tab now: used without target, and claimed again
		// without effect.
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		wantOK(t, p.do(cmd("3", "tab.claim", forTab(mine.ID))))
		assert.Equal(t, len(recordsOf(r.srv)), 1)
		f := wantError(t, p.do(by("b", cmd("4", "tab.claim", forTab(mine.ID)))), op.Rejected, op.TabHeld)
		assert.Equal(t, f.Details["holder"], "default")
		assert.Equal(t, len(tabsOf(r.browser)), 1)
	})
}

func TestWhatCannotBeClaimed(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runClaims
		p := r.dial()
		defer p.close()
		own, secret := r.browser.open("chrome://settings/"), r.browser.open("https://secret.test/")
		r.browser.change(secret.ID, func(t *op.Tab) { t.Incognito = true })
		wantError(t, p.do(cmd("1", "tab.claim", forTab(own.ID))), op.Rejected, op.ProtectedTabURL)
		wantError(t, p.do(cmd("2", "tab.claim", forTab(secret.ID))), op.Rejected, op.Unsupported)
		wantError(t, p.do(cmd("3", "tab.claim", forTab(999))), op.Rejected, op.TabNotFound)
		for i := range maxTabsPerSession {
			wantOK(t, p.do(cmd(fmt.Sprint("new", i), "tab.claim", forTab(r.browser.open("https://x.test/").ID))))
		}
		more := r.browser.open("https://more.test/")
		wantError(t, p.do(cmd("4", "tab.claim", forTab(more.ID))), op.Rejected, op.AutomationTargetLimit)
		wantError(t, p.do(cmd("5", "tab.release", forTab(more.ID))), op.Rejected, op.AutomationTargetRequired)
	})
}

func TestClaimedTabsAreGivenBack(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runClaims
		p := r.dial()
		defer p.close()
		free, grouped, pinned := r.browser.open("https://a.test/"), r.browser.open("https://b.test/"), r.browser.open("https://c.test/")
		r.browser.change(grouped.ID, func(t *op.Tab) { t.GroupID = 77 })
		r.browser.change(pinned.ID, func(t *op.Tab) { t.Pinned = true })
		for i, tab := range []op.Tab{free, grouped, pinned} {
			wantOK(t, p.do(cmd(fmt.Sprint(i), "tab.claim", forTab(tab.ID))))
			time.Sleep(time.Second) // records are ordered by their time
		}
		// What the user arranged stays.
		assert.Assert(t, r.browser.info(free.ID).GroupID >= 0)
		assert.Equal(t, r.browser.info(grouped.ID).GroupID, 77)
		assert.Equal(t, r.browser.info(pinned.ID).GroupID, -1)
		wantOK(t, p.do(cmd("new", "tab.new", `{}`)))
		time.Sleep(time.Second)
		wantOK(t, p.do(cmd("end", "tab.new", `{}`)))
		made := recordsOf(r.srv)[3].TabID
		keep := recordsOf(r.srv)[4].TabID
		wantOK(t, p.do(cmd("kept", "tab.release", fmt.Sprintf(`{"target":{"by":"id","value":%d},"atEnd":true}`, keep))))
		assert.Equal(t, len(recordsOf(r.srv)), 5)

		wantOK(t, p.do(cmd("back", "tab.release", forTab(free.ID))))
		assert.Equal(t, r.browser.info(free.ID).GroupID, -1)
		assert.DeepEqual(t, r.browser.detached, []int{free.ID})
		assert.Assert(t, slices.ContainsFunc(r.handler.forgot, func(k op.TabKey) bool { return k.TabID == free.ID }))

		var done Cleanup
		assert.NilError(t, p.ask("cleanup", CleanupParams{Session: "default"}, &done))
		assert.DeepEqual(t, done.ClosedTabIDs, []int{made})
		assert.DeepEqual(t, done.ReleasedTabIDs, []int{grouped.ID, pinned.ID, keep})
		assert.Equal(t, r.browser.info(grouped.ID).GroupID, 77)
		assert.Equal(t, r.browser.info(keep).GroupID, -1)
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		var st Status
		assert.NilError(t, p.ask("status", SessionParams{}, &st))
		assert.Equal(t, len(st.Session.Released), 4)
		assert.Equal(t, st.Session.Released[0].Why, "released")
		assert.Assert(t, st.Session.Released[0].Claimed && st.Session.Released[3].Why == "cleanup" && !st.Session.Released[3].Claimed)
	})
}

// TestAReleaseThatACrashCutsShortIsDoneAgain: the record goes last.
func TestAReleaseThatACrashCutsShortIsDoneAgain(t *testing.T) {
	for _, call := range []string{"detach", "tabs.ungroup"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.handler.run = runClaims
				p := r.dial()
				mine := r.browser.open("https://mine.test/")
				wantOK(t, p.do(cmd("1", "tab.claim", forTab(mine.ID))))
				r.browser.fail = func(c string) (error, bool) {
					if c != call {
						return nil, false
					}
					r.freeze()
					return errLostForTest, true
				}
				assert.Assert(t, !p.do(cmd("2", "tab.release", `{}`)).OK)
				r.browser.fail = nil
				p.close()
				r.crash()
				r.start()
				defer r.close()
				r.srv.reconcile(t.Context(), r.browser, ResetFirst)
				p = r.dial()
				defer p.close()
				assert.Equal(t, len(recordsOf(r.srv)), 1)
				wantOK(t, p.do(cmd("3", "tab.release", `{}`)))
				assert.Equal(t, r.browser.info(mine.ID).GroupID, -1)
				assert.Equal(t, len(recordsOf(r.srv)), 0)
			})
		})
	}
}

func TestCleanupAllEndsWhatItCan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		away := newFakeBrowser("99999999-2222-4333-8444-555555555555", "Away")
		r := newRig(t, newFakeBrowser("11111111-2222-4333-8444-555555555555", "Work"), away)
		defer r.close()
		r.handler.run = runClaims
		p := r.dial()
		defer p.close()
		in := func(browser string, c wire.Command) wire.Command { c.Browser = browser; return c }
		wantOK(t, p.do(in("Work", by("a", cmd("1", "tab.new", `{}`)))))
		wantOK(t, p.do(in("Work", by("b", cmd("2", "tab.new", `{}`)))))
		wantOK(t, p.do(in("Away", by("c", cmd("3", "tab.new", `{}`)))))
		mine := r.browser.open("https://mine.test/")
		wantOK(t, p.do(in("Work", by("b", cmd("4", "tab.claim", forTab(mine.ID))))))
		r.profiles.setLive(away, false)
		var all CleanupAll
		assert.NilError(t, p.ask("cleanup-all", CleanupAllParams{}, &all))
		assert.Equal(t, len(all.ClosedTabIDs), 2)
		assert.DeepEqual(t, all.ReleasedTabIDs, []int{mine.ID})
		assert.Equal(t, all.ClearedSessionCount, 2)
		assert.Equal(t, len(all.Left), 1)
		assert.Equal(t, all.Left[0].Session, "c")
		assert.DeepEqual(t, tabsOf(r.browser), []string{mine.URL})
		r.profiles.setLive(away, true)
		assert.NilError(t, p.ask("cleanup-all", CleanupAllParams{Keep: true}, &all))
		assert.Equal(t, len(tabsOf(away)), 1) // kept, without a record
		assert.Equal(t, len(r.srv.holders()), 0)
	})
}

// TestAnUnusedSessionIsReleased: tabs kept, ungrouped, recorded.
func TestAnUnusedSessionIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantOK(t, p.do(cmd("1", "tab.new", `{}`)))
		wantOK(t, p.do(by("busy", cmd("2", "tab.new", `{}`))))
		id := recordsOf(r.srv)[0].TabID
		look := func() {
			r.srv.noteUses()
			r.srv.releaseSessions(t.Context(), time.Now().Add(-sessionMemory))
		}
		time.Sleep(sessionMemory - time.Minute)
		look()
		assert.Equal(t, len(recordsOf(r.srv)), 1)
		wantOK(t, p.do(by("busy", cmd("3", "page.click", `{}`))))
		r.srv.noteUses()
		// The next owner knows when the last command was.
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		time.Sleep(2 * time.Minute)
		r.profiles.setLive(r.browser, false)
		look()
		assert.Equal(t, len(recordsOf(r.srv)), 1) // its browser is away
		r.profiles.setLive(r.browser, true)
		look()
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		assert.Equal(t, len(r.srv.sessionRecords("busy", "")), 1)
		assert.Equal(t, r.browser.info(id).GroupID, -1)
		assert.Equal(t, r.srv.sessionStatus(t.Context(), "default").Released[0].Why, "unused")
		// The session may start anew, in a tab of its own.
		wantOK(t, p.do(cmd("4", "page.click", `{}`)))
		assert.Assert(t, recordsOf(r.srv)[0].TabID != id)
	})
}

// TestACommandThatComesDuringTheReleaseGetsANewTab: it waits for its turn.
func TestACommandThatComesDuringTheReleaseGetsANewTab(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "tab.new", `{}`)))
		id := recordsOf(r.srv)[0].TabID
		time.Sleep(sessionMemory + time.Minute)
		r.browser.fail = func(call string) (error, bool) {
			if call == "detach" {
				p.send(cmd("2", "page.click", `{}`))
			}
			return nil, false
		}
		r.srv.releaseSessions(t.Context(), time.Now().Add(-sessionMemory))
		wantOK(t, p.wait("2", 1))
		assert.Assert(t, recordsOf(r.srv)[0].TabID != id)
	})
}

// TestOneGroupASession: an owner that was started again finds the group that
// the one before it made.
func TestOneGroupASession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		wantOK(t, p.do(cmd("1", "tab.new", `{}`)))
		time.Sleep(time.Second)
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		wantOK(t, p.do(cmd("2", "tab.new", `{}`)))
		recs := recordsOf(r.srv)
		assert.Equal(t, r.browser.info(recs[0].TabID).GroupID, r.browser.info(recs[1].TabID).GroupID)
	})
}
