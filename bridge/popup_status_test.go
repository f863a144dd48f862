package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// projections are what owners tell their popups, from none at all to more than
// is shown. The extension's tests and its pictures read the same frames.
func projections() map[string]popupFacts {
	at := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	base := popupFacts{extensionDir: "/state/pi-chrome/extension",
		connector: ConnectorInfo{ID: "11111111-2222-4333-8444-555555555555", Label: "Work", Live: true, LastSeenAt: at}}
	tab := func(id int, title, url string) OwnedTarget {
		return OwnedTarget{State: "owned", TabID: &id, Title: title, URL: url}
	}
	rec := func(ago time.Duration, session, operation, title string, tabID int, fault *op.Error) wire.ProjectedReceipt {
		r := wire.ProjectedReceipt{At: at.Add(-ago), Session: session, Operation: operation, Title: title, TabID: tabID, Outcome: "done", ElapsedMs: 84}
		if fault != nil {
			r.Outcome, r.Code, r.Message = string(fault.Kind), string(fault.Code), fault.Message
		}
		return r
	}
	with := func(change func(f *popupFacts)) popupFacts {
		f := base
		change(&f)
		return f
	}
	taken := tab(12, "Sign in to your account", "https://login.example.com/authorize?client=9")
	taken.TakenAt = at
	claimed := tab(13, "Inbox (4) – ann@example.com", "https://mail.example.com/u/0/")
	claimed.Claimed = true
	lost := 14
	sessions := []SessionStatus{
		{Key: "session:0f3c", Title: "Find a flight to Lisbon", Authorization: AuthorizedUntil, ExpiresAt: at.Add(22 * time.Minute), Executing: 1, Queued: 2, LastUsedAt: at,
			Targets: []OwnedTarget{tab(11, "Flights to Lisbon – Compare 214 offers from Berlin and all airports near it", "https://flights.example.com/search?to=LIS"), taken}},
		{Key: "default", Authorization: AuthorizedIndefinite, LastUsedAt: at.Add(-time.Minute), Targets: []OwnedTarget{claimed,
			{State: "stale", TabID: &lost, Reason: staleMissing}, {State: "allocating"}}},
		{Key: "mcp:desktop", Authorization: Locked, LastUsedAt: at.Add(-time.Hour), Targets: []OwnedTarget{}},
	}
	receipts := []wire.ProjectedReceipt{
		rec(2*time.Second, "session:0f3c", "page.click", "Click", 11, nil),
		rec(4*time.Second, "session:0f3c", "page.snapshot", "Snapshot", 12, heldError(targetRecord{TabID: 12, Session: "session:0f3c", TakenAt: at})),
		rec(9*time.Second, "default", "page.navigate", "Navigate", 13, op.Unknown(op.DeadlineExceeded, "chrome_navigate did not end in its 17s; it had begun and may have had its effect. It was not sent again")),
		rec(71*time.Second, "mcp:desktop", "page.screenshot", "Screenshot", 0, lockedError("mcp:desktop", Authorization{})),
	}
	return map[string]popupFacts{
		"zero": base,
		"one": with(func(f *popupFacts) {
			s := sessions[0]
			s.Executing, s.Queued, s.Authorization, s.ExpiresAt, s.Targets = 0, 0, AuthorizedIndefinite, time.Time{}, s.Targets[:1]
			f.sessions, f.receipts = []SessionStatus{s}, receipts[:1]
		}),
		"many": with(func(f *popupFacts) {
			f.sessions, f.receipts, f.elsewhere = append([]SessionStatus{}, sessions...), receipts, 2
			for i := range 2 * shownSessions {
				f.sessions = append(f.sessions, SessionStatus{Key: fmt.Sprintf("run-%02d", i+1), Authorization: AuthorizedIndefinite,
					LastUsedAt: at.Add(-time.Duration(i+2) * time.Hour), Targets: []OwnedTarget{}})
			}
		}),
		"stopped": with(func(f *popupFacts) {
			f.stopped = at
			for _, s := range sessions {
				s.Authorization, s.ExpiresAt, s.Executing, s.Queued = Locked, time.Time{}, 0, 0
				f.sessions = append(f.sessions, s)
			}
			f.receipts = append([]wire.ProjectedReceipt{rec(time.Second, "session:0f3c", "page.click", "Click", 11, lockedError("session:0f3c", Authorization{Stopped: true}))}, receipts...)
		}),
		"canceled": with(func(f *popupFacts) {
			f.connector.Canceled = true
			f.sessions = sessions[2:]
		}),
		"waiting": with(func(f *popupFacts) { f.connector.Live = false }),
		"refused": with(func(f *popupFacts) {
			f.connector.Live = false
			f.refused = &RefusalRecord{Code: wire.RefuseFingerprint, Message: "The extension and pi-chrome are of different builds. Run pi-chrome extension install and reload the extension."}
		}),
		"error": with(func(f *popupFacts) {
			f.broken = "The audit log cannot be written, so that nothing with an effect is done. Run pi-chrome doctor."
			f.sessions = sessions[:1]
		}),
		"ending": with(func(f *popupFacts) { f.draining = true }),
	}
}

func TestProjections(t *testing.T) {
	const dir = "../fixtures/wire"
	all := projections()
	for name, facts := range all {
		t.Run(name, func(t *testing.T) {
			p := project(facts)
			var b strings.Builder
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			assert.NilError(t, enc.Encode(map[string]any{"name": name, "direction": "bridge2popup",
				"frame": wire.PopupAnswer{Type: wire.TypeAnswer, ID: 1, Status: &p}}))
			path, err := filepath.Abs(filepath.Join(dir, "bridge2popup-"+name+".json"))
			assert.NilError(t, err)
			golden.Assert(t, b.String(), path)
		})
	}
	files, err := filepath.Glob(filepath.Join(dir, "bridge2popup-*.json"))
	assert.NilError(t, err)
	for _, f := range files {
		_, ok := all[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "bridge2popup-"), ".json")]
		assert.Check(t, ok, "%s is the golden of no projection", f)
	}
}

// TestPopupFacts: a profile's popup knows its own sessions, tabs and receipts,
// and of the others only how many may act.
func TestPopupFacts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work, home := newFakeBrowser("11111111-2222-4333-8444-555555555555", "Work"), newFakeBrowser("99999999-2222-4333-8444-555555555555", "Home")
		r := newRig(t, work, home)
		defer r.close()
		p := r.dial()
		defer p.close()
		in := func(b *fakeBrowser, session, id, operation string) *wire.Result {
			c := by(session, cmd(id, operation, `{"text":"hunter2"}`))
			c.Browser = b.id
			return p.do(c)
		}
		wantOK(t, in(work, "a", "1", "page.click"))
		wantOK(t, in(home, "b", "2", "page.click"))
		wantOK(t, in(home, "c", "3", "page.click"))
		r.handler.run = func(context.Context, *Call) (op.Result, error) {
			return op.Result{}, op.Reject(op.ClickIntercepted, "%s", strings.Repeat("ä", 500))
		}
		wantError(t, in(work, "a", "4", "page.click"), op.Rejected, op.ClickIntercepted)
		assert.NilError(t, p.ask("revoke", SessionParams{Session: "c"}, nil))
		assert.NilError(t, p.ask("revoke", SessionParams{Session: "a"}, nil))
		wantError(t, p.do(by("a", cmd("5", "page.snapshot", `{}`))), op.Rejected, op.SessionLocked)
		for range 2 * keptReceipts {
			wantError(t, p.do(by("c", cmd(wire.NewSecret(), "page.snapshot", `{}`))), op.Rejected, op.SessionLocked)
		}
		assert.Equal(t, len(r.srv.receipts), keptReceipts)

		b, _, err := r.srv.store.Binding(t.Context(), work.id)
		assert.NilError(t, err)
		b.ConnectorID, b.Label, b.Secret = work.id, "Work", wire.NewSecret()
		c, err := r.srv.relay.bind(b)
		assert.NilError(t, err)
		got := project(r.srv.popupFacts(t.Context(), c))
		assert.Equal(t, got.State, "waiting-for-extension") // the relay has no socket of it
		assert.Equal(t, got.Elsewhere, 1)                   // b; c is locked
		assert.Equal(t, len(got.Sessions), 1)
		assert.Equal(t, got.Sessions[0].Key, "a")
		assert.Equal(t, got.Sessions[0].Authorization, "locked")
		assert.Equal(t, len(got.Sessions[0].Tabs), 1)
		assert.Equal(t, got.Sessions[0].Tabs[0].URL, "about:blank")
		raw, err := wire.Encode(got)
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(raw), "hunter2") && !strings.Contains(string(raw), home.id), "%s", raw)
	})
}
