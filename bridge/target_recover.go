package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// hookTime bounds what a hook of the relay may ask the browser.
const hookTime = 10 * time.Second

// reconcile compares the records of a profile with its tabs, after events may
// have been lost. Commands of the profile wait for it.
func (s *Server) reconcile(ctx context.Context, p profile, reason ResetReason) {
	ctx, cancel := context.WithTimeoutCause(ctx, hookTime, endsWith(context.DeadlineExceeded, op.Reject(op.DeadlineExceeded, "Chrome did not list its tabs in %s", hookTime)))
	defer cancel()
	if err := s.recover(ctx, p, func(targetRecord) bool { return true }); err != nil {
		// Every command checks its own tab again before it uses it.
		s.log.Warn("comparing owned tabs", "connector", p.ID(), "reason", reason, "err", err)
	}
	tabs, err := p.Tabs(ctx)
	if err != nil && reason != ResetBrowser {
		s.log.Debug("listing tabs", "connector", p.ID(), "err", err)
		return // a tab that is used again is compared then
	}
	s.sweep(ctx, p, tabs)
	s.forgetLost(p, tabs, reason)
}

// forgetLost forgets the tabs that went while nobody listened.
func (s *Server) forgetLost(p profile, tabs []op.Tab, reason ResetReason) {
	s.mu.Lock()
	var ids []int
	for ref := range s.seen {
		if ref.connector == p.ID() {
			ids = append(ids, ref.id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		// After another browser a tab's id means nothing.
		if reason == ResetBrowser || !slices.ContainsFunc(tabs, func(t op.Tab) bool { return t.ID == id }) {
			s.forget(p.ID(), id)
		}
	}
}

// recover checks the chosen records of a profile against its tabs:
// half-made ones are found again by their nonce, or cleared when no tab can
// come any more, owned ones are
// taken up when both their ids still match, and are stale otherwise. It
// adopts and closes nothing else; what nobody waits for is sweep's.
func (s *Server) recover(ctx context.Context, p profile, chosen func(targetRecord) bool) *op.Error {
	s.mu.Lock()
	var records []targetRecord
	for _, r := range s.records {
		if r.ConnectorID == p.ID() && r.State != targetStale && chosen(*r) && !s.making[r.Nonce].underWay {
			records = append(records, *r)
		}
	}
	s.mu.Unlock()
	if len(records) == 0 {
		return nil
	}
	tabs, err := p.Tabs(ctx)
	if err != nil {
		return listFailed(ctx, err)
	}
	targets, err := p.Targets(ctx)
	if err != nil {
		return listFailed(ctx, err)
	}
	epoch := p.BrowserEpoch()
	var put []targetRecord
	var del []string
	open := false
	for _, r := range records {
		switch next, keep := s.examine(p, r, epoch, tabs, targets); {
		case !s.still(r):
			// It was used, found or ended since: what was seen here is older.
		case !keep:
			del = append(del, r.Nonce)
		case next != r:
			put = append(put, next)
		case r.State == targetAllocating && r.Reason == "":
			open = true
		}
	}
	if open {
		s.lookLater(p)
	}
	if err := s.put(nil, put...); err != nil {
		return writeFailed(err)
	}
	if err := s.drop(del); err != nil {
		return writeFailed(err)
	}
	if len(put)+len(del) > 0 {
		s.log.Info("owned tabs compared", "connector", p.ID(), "changed", len(put), "cleared", len(del))
	}
	for _, r := range put {
		if r.State == targetAllocating {
			return op.Reject(op.InvalidAutomationState, "several tabs carry the mark of one new tab of session %q; none is used", r.Session).
				WithHint("Close the blank pi-chrome tabs, or run pi-chrome cleanup --session %s.", r.Session)
		}
	}
	return nil
}

// still reports whether a record is as it was.
func (s *Server) still(r targetRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.records[r.Nonce]
	return now != nil && *now == r
}

// examine is the decision about one record. keep is false for a record that
// nothing stands behind.
func (s *Server) examine(p profile, r targetRecord, epoch string, tabs []op.Tab, targets []DebugTarget) (next targetRecord, keep bool) {
	if r.State == targetAllocating {
		var hits []op.Tab
		for _, t := range tabs {
			if strings.HasSuffix(t.URL, "#"+r.Nonce) && strings.HasPrefix(t.URL, s.bootstrapURL("")) {
				hits = append(hits, t)
			}
		}
		switch len(hits) {
		case 0:
			return r, s.mayAppear(r.Nonce, tabs)
		case 1:
			r.State, r.TabID, r.Epoch, r.TargetID = targetOwned, hits[0].ID, epoch, targetOf(targets, hits[0].ID)
			return r, true
		}
		r.Reason = "duplicate-nonce"
		return r, true
	}
	now := time.Now().Round(0)
	r = moveRecord(p, r)
	i := slices.IndexFunc(tabs, func(t op.Tab) bool { return t.ID == r.TabID })
	same := i >= 0 && r.TargetID != "" && targetOf(targets, r.TabID) == r.TargetID
	switch {
	case same && tabs[i].Incognito:
		r.State, r.Reason, r.LostAt = targetStale, staleOutside, now
	case same:
		r.Epoch = epoch
	case r.Epoch != epoch:
		r.State, r.Reason, r.LostAt = targetStale, staleEpoch, now
	case i >= 0 && r.TargetID == "":
		r.TargetID = targetOf(targets, r.TabID) // a discard that was announced
	default:
		r.State, r.Reason, r.LostAt = targetStale, staleMissing, now
	}
	return r, true
}

func targetOf(targets []DebugTarget, tabID int) string {
	for _, t := range targets {
		if t.TabID == tabID {
			return t.ID
		}
	}
	return ""
}

// tabRemoved clears the record of a tab that was closed.
func (s *Server) tabRemoved(connector string, tabID int) {
	s.mu.Lock()
	var del []string
	for _, r := range s.records {
		if r.ConnectorID == connector && r.TabID == tabID && r.State != targetAllocating {
			del = append(del, r.Nonce)
		}
	}
	s.mu.Unlock()
	if err := s.drop(del); err != nil {
		s.log.Error("clearing the record of a closed tab", "tab", tabID, "err", err)
	}
	s.forget(connector, tabID)
}

// tabReplaced carries ownership over to the new id of a discarded tab.
func (s *Server) tabReplaced(p profile, oldID, newID int) {
	ctx, cancel := context.WithTimeout(s.ctx, hookTime)
	defer cancel()
	s.mu.Lock()
	var moved []targetRecord
	for _, r := range s.records {
		if r.ConnectorID == p.ID() && r.TabID == oldID && r.State == targetOwned {
			m := *r
			m.TabID, m.TargetID = newID, ""
			moved = append(moved, m)
		}
	}
	s.mu.Unlock()
	if len(moved) > 0 {
		if targets, err := p.Targets(ctx); err == nil {
			for i := range moved {
				moved[i].TargetID = targetOf(targets, newID)
			}
		} else {
			// The target is read when the tab is used next.
			s.log.Debug("reading the target of a replaced tab", "tab", newID, "err", err)
		}
		if err := s.put(nil, moved...); err != nil {
			s.log.Error("moving the record of a replaced tab", "from", oldID, "to", newID, "err", err)
		}
	}
	s.forget(p.ID(), oldID)
}
