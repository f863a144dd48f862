package bridge

import (
	"context"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// holderUser is the holder of a tab that the user has taken over.
const holderUser = "user"

// popup does what the user asks in the popup of a profile, and tells how things
// stand then.
func (s *Server) popup(ctx context.Context, c *Connector, ask wire.PopupAsk) (*wire.Projection, *op.Error) {
	var err *op.Error
	switch ask.Do {
	case wire.PopupStop:
		err = s.stopAll(c.ID())
	case wire.PopupTake:
		err = s.takeTab(ctx, c.ID(), ask.TabID)
	case wire.PopupGive:
		err = s.giveTab(c.ID(), ask.TabID)
	}
	if err != nil {
		return nil, err
	}
	p := project(s.popupFacts(ctx, c))
	return &p, nil
}

// stopAll locks every session of the owner in one moment, before the disk has
// taken it: what waits is withdrawn, what runs is canceled. Until somebody
// authorizes a session, new ones are locked too.
func (s *Server) stopAll(connectorID string) *op.Error {
	at := time.Now().Round(0)
	s.mu.Lock()
	s.stopped = at
	for _, r := range s.records {
		s.sessionLocked(r.Session)
	}
	locks := make([]*sessionLock, 0, len(s.sessions))
	mine := map[string]Authorization{}
	for key, ses := range s.sessions {
		l := s.beginLock(ses, true)
		locks = append(locks, l)
		mine[key] = l.mine
	}
	hit := s.commandsOfLocked(func(c *command) bool { return !c.free })
	s.mu.Unlock()
	defer s.endLocks(locks...)
	s.end(hit, func(c *command) *op.Error { return lockedError(c.session.Key, mine[c.session.Key]) })
	edits := make([]*sessionEdit, len(locks))
	for i, l := range locks {
		edits[i] = l.edit(s)
	}
	err := s.store.saveStop(at, edits)
	s.record(AuditEntry{Event: "stopped", Connector: connectorID, Outcome: "ok"})
	s.log.Warn("the user stopped everything", "connector", connectorID, "sessions", len(locks), "commands", len(hit))
	if err != nil {
		e := writeFailed(err)
		e.Message = "everything is stopped, but only while this owner lives: " + e.Message
		return e
	}
	return nil
}

// takeTab gives the user a tab of a session until giveTab: it counts in this
// moment, so that what waits for the tab is withdrawn and what runs in it is
// canceled. The debugger is given back, and with it all that was turned on. The
// tab stays the session's own.
func (s *Server) takeTab(ctx context.Context, connectorID string, tabID int) *op.Error {
	at := time.Now().Round(0)
	s.mu.Lock()
	r := s.ownedLocked(connectorID, tabID)
	if r == nil {
		s.mu.Unlock()
		return noSessionsTab(tabID)
	}
	if r.TakenAt.IsZero() {
		r.TakenAt = at
	}
	taken := *r
	hit := s.commandsOfLocked(func(c *command) bool { return c.target.nonce == taken.Nonce })
	s.mu.Unlock()
	s.end(hit, func(*command) *op.Error { return heldError(taken) })
	if err := s.saveTaken(taken, "taken", taken.TakenAt); err != nil {
		return err
	}
	awaitSettled(ctx, hit)
	if err := s.letGo(ctx, taken); err != nil {
		// The session reaches the tab no more; the banner may stay a while.
		s.log.Warn("giving the debugger of a taken tab back", "connector", connectorID, "tab", tabID, "err", err)
	}
	return nil
}

// letGo gives the debugger of a taken tab back, where its browser is there.
func (s *Server) letGo(ctx context.Context, r targetRecord) error {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	p, err := s.profiles.wait(ctx, r.ConnectorID)
	if err != nil {
		return err
	}
	t, err := p.Tab(ctx, r.TabID)
	if err != nil {
		return err
	}
	if s.tabs.key(t).TargetID != r.TargetID {
		return nil // another tab by now
	}
	return s.tabs.detach(ctx, t)
}

// giveTab hands a tab that the user has taken over back to its session. One
// that was not taken stays as it is.
func (s *Server) giveTab(connectorID string, tabID int) *op.Error {
	s.mu.Lock()
	r := s.ownedLocked(connectorID, tabID)
	if r == nil {
		s.mu.Unlock()
		return noSessionsTab(tabID)
	}
	given := *r
	s.mu.Unlock()
	if given.TakenAt.IsZero() {
		return nil
	}
	// The disk first: a session must not act in a tab that a crash would take
	// from it again.
	return s.saveTaken(given, "handed-back", time.Time{})
}

func (s *Server) saveTaken(r targetRecord, event string, at time.Time) *op.Error {
	if err := s.store.saveTaken(r.Nonce, at); err != nil {
		return writeFailed(err)
	}
	s.mu.Lock()
	if now := s.records[r.Nonce]; now != nil {
		now.TakenAt = at
	}
	s.mu.Unlock()
	s.record(AuditEntry{Event: event, Session: r.Session, Connector: r.ConnectorID, TabID: r.TabID, Outcome: "ok"})
	s.log.Info("tab "+event, "session", r.Session, "connector", r.ConnectorID, "tab", r.TabID)
	return nil
}

// ownedLocked is the record of a tab that a session owns, nil for none.
func (s *Server) ownedLocked(connectorID string, tabID int) *targetRecord {
	for _, r := range s.records {
		if r.ConnectorID == connectorID && r.TabID == tabID && r.State == targetOwned {
			return r
		}
	}
	return nil
}

func noSessionsTab(tabID int) *op.Error {
	return op.Reject(op.TabNotFound, "no session has the tab %d any more; nothing was done", tabID).WithDetail("tabId", tabID)
}
