package bridge

import (
	"context"
	"errors"
	"slices"

	"pi-chrome/driver/op"
)

// Cleanup is what the end of a session did.
type Cleanup struct {
	ClosedTabIDs           []int `json:"closedTabIds"`
	ReleasedTabIDs         []int `json:"releasedTabIds"` // left to the user: claimed ones, and those to be kept
	StaleOwnershipsCleared int   `json:"staleOwnershipsCleared"`
}

// CleanupAll is what the end of every session did.
type CleanupAll struct {
	Cleanup
	ClearedSessionCount int           `json:"clearedSessionCount"`
	Left                []CleanupLeft `json:"left"` // sessions whose tabs are as they were, or partly so
}

// CleanupLeft is a session that could not be ended.
type CleanupLeft struct {
	Session string    `json:"session"`
	Error   *op.Error `json:"error"`
}

// cleanup closes exactly the tabs that the session made and clears its
// records. Tabs that it claimed, that are to be kept, or that the user has taken
// over, are left to the user, with keep all of them. A tab that is not the recorded one any more is left
// alone.
func (s *Server) cleanup(ctx context.Context, key string, keep bool) (Cleanup, *op.Error) {
	done := Cleanup{ClosedTabIDs: []int{}, ReleasedTabIDs: []int{}}
	var ids []string
	for _, r := range s.sessionRecords(key, "") {
		if !slices.Contains(ids, r.ConnectorID) {
			ids = append(ids, r.ConnectorID)
		}
	}
	for _, id := range ids {
		wctx, cancel := context.WithTimeout(ctx, awaitReady)
		p, err := s.profiles.wait(wctx, id)
		cancel()
		if err != nil {
			return done, noEffect(ctx, err, "the browser of session %q is not connected", key)
		}
		if err := s.settleTabs(ctx, p, key); err != nil && err.Code != op.InvalidAutomationState {
			return done, err
		}
		if ctx.Err() != nil {
			// A tab that is being made would stay behind without its record.
			return done, noEffect(ctx, ctx.Err(), "looking for the tabs of session %q", key)
		}
		for _, r := range s.sessionRecords(key, id) {
			if err := s.endRecord(ctx, p, r, keep, &done); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// endRecord ends one record of a session, and what it has under way there.
func (s *Server) endRecord(ctx context.Context, p profile, r targetRecord, keep bool, done *Cleanup) *op.Error {
	defer s.vacate(ctx, r)()
	switch {
	case r.State != targetOwned:
		done.StaleOwnershipsCleared++
	case keep || r.Claimed || r.Keep || !r.TakenAt.IsZero():
		if _, err := s.release(ctx, p, r, "cleanup"); err != nil {
			return err
		}
		done.ReleasedTabIDs = append(done.ReleasedTabIDs, r.TabID)
		return nil
	default:
		if err := p.RemoveTabs(ctx, r.TabID); err != nil && !errors.Is(err, &op.Error{Code: op.TabGone}) {
			return op.Unknown(op.BrowserOperation, "closing tab %d of session %q: %s; %s closed before", r.TabID, r.Session, err, plural(len(done.ClosedTabIDs), "tab")).WithCause(err)
		}
		done.ClosedTabIDs = append(done.ClosedTabIDs, r.TabID)
		s.tabRemoved(r.ConnectorID, r.TabID)
	}
	if err := s.drop([]string{r.Nonce}); err != nil {
		return writeFailed(err)
	}
	return nil
}

// cleanupAll ends every session that has tabs. One that cannot be ended does
// not keep the others.
func (s *Server) cleanupAll(ctx context.Context, keep bool) CleanupAll {
	all := CleanupAll{Cleanup: Cleanup{ClosedTabIDs: []int{}, ReleasedTabIDs: []int{}}, Left: []CleanupLeft{}}
	for _, key := range s.holders() {
		done, err := s.cleanup(ctx, key, keep)
		all.ClosedTabIDs = append(all.ClosedTabIDs, done.ClosedTabIDs...)
		all.ReleasedTabIDs = append(all.ReleasedTabIDs, done.ReleasedTabIDs...)
		all.StaleOwnershipsCleared += done.StaleOwnershipsCleared
		if err != nil {
			all.Left = append(all.Left, CleanupLeft{Session: key, Error: err})
			continue
		}
		all.ClearedSessionCount++
	}
	return all
}

// holders are the sessions that have records, sorted.
func (s *Server) holders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, r := range s.records {
		if !slices.Contains(keys, r.Session) {
			keys = append(keys, r.Session)
		}
	}
	slices.Sort(keys)
	return keys
}
