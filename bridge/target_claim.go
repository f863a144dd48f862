package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// ClaimTab makes a tab of the user the session's own. Every detail that the
// caller gave must be true of the tab now, or it is refused as tab-changed. A
// tab that the session has already stays as it is.
func (b *SessionBrowser) ClaimTab(ctx context.Context, target op.Target, want op.TabDetails) (op.Tab, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return op.Tab{}, oerr
	}
	tab, err := p.TabInfo(ctx, t.id)
	if err != nil {
		return op.Tab{}, noEffect(ctx, err, "reading tab %d", t.id)
	}
	if rule, ok := b.srv.policyOf(b.session.Key).allowsURL(tab.URL); !ok && want != (op.TabDetails{}) {
		// The differences would tell what it shows.
		return op.Tab{}, originDenied(b.command.desc.Tool, tab.URL, rule)
	}
	if diffs := want.Differences(tab); len(diffs) > 0 {
		return op.Tab{}, op.Reject(op.TabChanged, "tab %d is not what was described: its %s; it was not claimed", tab.ID, op.DifferenceText(diffs)).
			WithHint("List the tabs (chrome_tab_list) and claim with what they show now.").
			WithDetail("tabId", tab.ID).WithDetail("differences", diffs)
	}
	own, other := b.srv.holder(p.ID(), tab.ID, b.session.Key)
	switch {
	case own != nil:
		return b.mark(tab), nil
	case other != nil:
		return op.Tab{}, heldError(*other)
	case tab.Incognito:
		return op.Tab{}, op.Reject(op.Unsupported, "tab %d is an incognito tab, and none of those is claimed; nothing was done", tab.ID).WithDetail("tabId", tab.ID)
	case protected(tab.URL):
		return op.Tab{}, op.Reject(op.ProtectedTabURL, "tab %d shows %s, which Chrome lets nobody debug; it was not claimed", tab.ID, tab.URL).
			WithHint("Claim a tab with a web page.").WithDetail("url", tab.URL)
	}
	key := b.srv.tabs.key(t.tab)
	// Said before it is done: what a crash leaves grouped is ungrouped all the
	// same when the tab is given back.
	grouped := tab.GroupID < 0 && !tab.Pinned
	r := targetRecord{Nonce: wire.NewSecret()[:32], Session: b.session.Key, ConnectorID: p.ID(), State: targetOwned, Epoch: key.BrowserEpoch,
		TabID: tab.ID, TargetID: key.TargetID, Prepared: true, Claimed: true, Grouped: grouped, CreatedAt: time.Now()}
	if oerr := b.srv.claim(r); oerr != nil {
		return op.Tab{}, oerr
	}
	b.srv.passOn(ctx, r)
	if grouped && !b.srv.groupClaimed(ctx, p, r, tab) {
		r.Grouped = false
		if err := b.srv.put(nil, r); err != nil {
			// The tab is claimed, and ungrouping it later does no harm.
			b.srv.log.Warn("noting the group of a claimed tab", "tab", tab.ID, "err", err)
		}
	}
	b.srv.log.Info("tab claimed", "session", r.Session, "connector", r.ConnectorID, "tab", r.TabID)
	if now, err := p.TabInfo(ctx, tab.ID); err == nil {
		tab = now
	}
	return b.mark(tab), nil
}

// claim counts the record of a claimed tab against the limits and makes it
// durable. Of two sessions that claim one tab in the same moment, one is
// refused.
func (s *Server) claim(r targetRecord) *op.Error {
	s.mu.Lock()
	for _, o := range s.records {
		if o.ConnectorID == r.ConnectorID && o.TabID == r.TabID && o.State == targetOwned {
			s.mu.Unlock()
			return heldError(*o)
		}
	}
	if err := s.limitLocked(r.Session, r.ConnectorID); err != nil {
		s.mu.Unlock()
		return err
	}
	s.records[r.Nonce] = &r
	s.mu.Unlock()
	ses := s.sessionRecordFor(r.Session, r.ConnectorID)
	if err := s.put(ses, r); err != nil {
		s.mu.Lock()
		delete(s.records, r.Nonce)
		s.mu.Unlock()
		return writeFailed(err)
	}
	return nil
}

// groupClaimed puts a claimed tab, which is in no group and not pinned, into
// the session's group, unless it would go to another window by that.
func (s *Server) groupClaimed(ctx context.Context, p profile, r targetRecord, tab op.Tab) bool {
	if id, known := s.groupOf(ctx, r.Session, p, tab.ID); known {
		for _, o := range s.sessionRecords(r.Session, p.ID()) {
			other, err := p.TabInfo(ctx, o.TabID)
			if err == nil && other.GroupID == id && other.WindowID != tab.WindowID {
				return false
			}
		}
	}
	if err := s.group(ctx, r.Session, p, tab.WindowID, tab.ID, ""); err != nil {
		s.log.Warn("grouping a claimed tab", "session", r.Session, "tab", tab.ID, "err", err)
		return false
	}
	return true
}

// heldError says who has the tab of the record: another session, or the user,
// who has taken it over from the session.
func heldError(r targetRecord) *op.Error {
	if !r.TakenAt.IsZero() {
		return op.Reject(op.TabHeld, "the user has taken tab %d over from session %q; nothing was done", r.TabID, r.Session).
			WithHint("Leave it to them until they hand it back in the popup of the extension; meanwhile work in another tab (chrome_tab_new). chrome_ask asks them for it.").
			WithDetail("tabId", r.TabID).WithDetail("holder", holderUser).WithDetail("session", r.Session)
	}
	return op.Reject(op.TabHeld, "tab %d belongs to session %q; nothing was done", r.TabID, r.Session).
		WithHint("Use a tab of your own (leave target out), have that session give it back (pi-chrome tab-release --session %s), or end its work with pi-chrome cleanup --session %s.", r.Session, r.Session).
		WithDetail("tabId", r.TabID).WithDetail("holder", r.Session)
}

// ReleaseTab leaves the call's tab to the user. With atEnd the session goes on
// using it, and its end leaves the tab instead of closing it.
func (b *SessionBrowser) ReleaseTab(ctx context.Context, target op.Target, atEnd bool) (op.ReleasedTab, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return op.ReleasedTab{}, oerr
	}
	own, _ := b.srv.holder(p.ID(), t.id, b.session.Key)
	if own == nil {
		return op.ReleasedTab{}, op.Reject(op.AutomationTargetRequired, "tab %d is the user's already: session %q does not own it; nothing was done", t.id, b.session.Key).
			WithDetail("tabId", t.id)
	}
	if atEnd {
		own.Keep = true
		if err := b.srv.put(nil, *own); err != nil {
			return op.ReleasedTab{}, writeFailed(err)
		}
		tab, err := p.TabInfo(ctx, t.id)
		if err != nil {
			return op.ReleasedTab{}, noEffect(ctx, err, "reading tab %d", t.id)
		}
		return op.ReleasedTab{Tab: b.mark(tab), Kept: true}, nil
	}
	tab, oerr := b.srv.release(ctx, p, *own, "released")
	if oerr != nil {
		return op.ReleasedTab{}, oerr
	}
	return op.ReleasedTab{Tab: b.mark(tab)}, nil
}

// maxReleased is how many released tabs a session remembers.
const maxReleased = 10

// release leaves a tab to the user: the debugger is given back, and with it
// what the page was made to believe, the tab leaves the session's group, and
// its record goes last, so that a release which a crash cuts short is done
// again. A tab that is not the recorded one any more is left alone.
func (s *Server) release(ctx context.Context, p profile, r targetRecord, why string) (op.Tab, *op.Error) {
	tab, err := p.TabInfo(ctx, r.TabID)
	gone := errors.Is(err, &op.Error{Code: op.TabGone})
	if err != nil && !gone {
		return tab, noEffect(ctx, err, "reading tab %d", r.TabID)
	}
	if !gone {
		t, err := p.Tab(ctx, r.TabID)
		if err != nil && !errors.Is(err, &op.Error{Code: op.TabGone}) {
			return tab, noEffect(ctx, err, "reading tab %d", r.TabID)
		}
		if err == nil && s.tabs.key(t).TargetID == r.TargetID {
			if err := s.giveBack(ctx, p, t, r, tab); err != nil {
				return tab, err
			}
			if now, err := p.TabInfo(ctx, r.TabID); err == nil {
				tab = now
			}
		}
	}
	ses := s.noteReleased(r.Session, gone, ReleasedTab{ConnectorID: r.ConnectorID, TabID: r.TabID, Title: clipText(tab.Title, 120), URL: clipText(tab.URL, 400), Claimed: r.Claimed, Why: why, At: time.Now()})
	if err := s.store.save(ses, nil, []string{r.Nonce}); err != nil {
		return tab, op.NotAvailable(op.StateUnreadable, "tab %d was given back, but that could not be stored: %s", r.TabID, err).
			WithHint("Check that the disk of the state folder has space, then release it again.").WithCause(err)
	}
	s.mu.Lock()
	delete(s.records, r.Nonce)
	s.mu.Unlock()
	s.forget(r.ConnectorID, r.TabID)
	s.log.Info("tab left to the user", "session", r.Session, "connector", r.ConnectorID, "tab", r.TabID, "why", why)
	tab.Owned = false
	return tab, nil
}

// noteReleased has the session remember a tab that it left to the user.
func (s *Server) noteReleased(key string, gone bool, note ReleasedTab) *sessionEdit {
	return &sessionEdit{key: key, apply: func(rec *sessionRecord) error {
		if gone {
			return nil
		}
		rec.Released = append(rec.Released, note)
		rec.Released = rec.Released[max(0, len(rec.Released)-maxReleased):]
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessionLocked(key).record.Released = slices.Clone(rec.Released)
		return nil
	}}
}

// giveBack undoes what the session's use left on the tab.
func (s *Server) giveBack(ctx context.Context, p profile, t *Tab, r targetRecord, tab op.Tab) *op.Error {
	if err := s.tabs.detach(ctx, t); err != nil {
		return op.Reject(op.BrowserOperation, "tab %d was not given back: its debugger could not be detached: %s", r.TabID, err).
			WithHint("Send it again.").WithDetail("tabId", r.TabID).WithCause(err)
	}
	if tab.GroupID < 0 || r.Claimed && !r.Grouped {
		return nil
	}
	if err := p.UngroupTabs(ctx, r.TabID); err != nil {
		return op.Reject(op.BrowserOperation, "tab %d still belongs to session %q: it could not be taken out of its group: %s", r.TabID, r.Session, err).
			WithHint("Send it again.").WithDetail("tabId", r.TabID).WithCause(err)
	}
	return nil
}

// Targets lists the paired profiles, as one session sees them.
func (b *SessionBrowser) Targets(ctx context.Context) ([]op.Profile, error) {
	list, err := b.srv.profileList(ctx)
	if err != nil {
		return nil, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err).WithCause(err)
	}
	home, _ := b.srv.home(b.session.Key)
	out := make([]op.Profile, 0, len(list))
	for _, p := range list {
		mine := 0
		for _, r := range b.srv.sessionRecords(b.session.Key, p.ID) {
			if r.State == targetOwned {
				mine++
			}
		}
		out = append(out, op.Profile{ID: p.ID, Label: p.Label, Connected: p.Live, Browser: p.Browser.Family, BrowserVersion: p.Browser.Version,
			OwnedTabs: p.OwnedTabs, SessionTabs: mine, Current: p.ID == home})
	}
	return out, nil
}
