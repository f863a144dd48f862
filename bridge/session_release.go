package bridge

import (
	"context"
	"slices"
	"time"

	"pi-chrome/driver/op"
)

// sessionMemory is how long a session lives without a command.
const sessionMemory = 24 * time.Hour

// releaseTime bounds what the end of one unused session asks of its browser.
const releaseTime = 20 * time.Second

// releaseUnused releases the sessions that nobody has used for a day, by the
// wall clock: a night that the machine slept counts.
func (s *Server) releaseUnused(now time.Time) {
	s.releaseSessions(s.ctx, now.Round(0).Add(-sessionMemory))
}

// releaseSessions ends the sessions whose last command came before the time.
// Their tabs are left to the user, ungrouped, as soon as their browser is
// there. A session that somebody authorized, locked or gave a policy keeps that.
func (s *Server) releaseSessions(ctx context.Context, before time.Time) {
	for _, key := range s.unused(before) {
		s.releaseSession(ctx, key)
	}
	s.mu.Lock()
	holds := map[string]bool{}
	for _, r := range s.records {
		holds[r.Session] = true
	}
	var gone []string
	for key, ses := range s.sessions {
		if !ses.running && !holds[key] && ses.record.plain() && ses.record.LastUsed.Before(before) {
			delete(s.sessions, key)
			gone = append(gone, key)
		}
	}
	s.mu.Unlock()
	for _, key := range gone {
		if err := s.store.deleteSession(key); err != nil {
			s.log.Warn("forgetting a session", "session", key, "err", err)
		}
	}
}

// plain reports whether nothing would be lost with the record.
func (r sessionRecord) plain() bool {
	return r.Authorized == (Authorization{}) && r.Policy == nil && len(r.Released) == 0
}

// unused takes the turn of every session with tabs that has had no command
// since the time: a command that comes now waits until the session's tabs are
// released, and then gets a new one. releaseSession gives the turn back.
func (s *Server) unused(before time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, r := range s.records {
		ses := s.sessionLocked(r.Session)
		if ses.running || !ses.record.LastUsed.Before(before) || !r.CreatedAt.Before(before) || slices.Contains(keys, r.Session) {
			continue
		}
		busy := false
		for _, c := range s.commands {
			busy = busy || c.session.Key == r.Session
		}
		if !busy {
			ses.running = true
			keys = append(keys, r.Session)
		}
	}
	return keys
}

func (s *Server) releaseSession(ctx context.Context, key string) {
	defer func() {
		s.mu.Lock()
		ses := s.sessionLocked(key)
		s.mu.Unlock()
		s.runSession(ses) // gives the turn back, after what came meanwhile
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, releaseTime, endsWith(context.DeadlineExceeded, op.Reject(op.DeadlineExceeded, "the browser did not answer in %s", releaseTime)))
	defer cancel()
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		s.log.Warn("releasing an unused session", "session", key, "err", err)
		return
	}
	for _, r := range s.sessionRecords(key, "") {
		if !slices.ContainsFunc(refs, func(ref profileRef) bool { return ref.ID == r.ConnectorID && ref.Live }) {
			continue // its browser is away: at the next look
		}
		p, err := s.profiles.wait(ctx, r.ConnectorID)
		if err != nil {
			continue
		}
		var oerr *op.Error
		switch r.State {
		case targetOwned:
			if _, oerr = s.release(ctx, p, r, "unused"); oerr == nil {
				s.record(AuditEntry{Event: "unused", Session: key, Connector: r.ConnectorID, TabID: r.TabID, Outcome: "ok", Note: "the tab was left to the user"})
			}
		case targetStale:
			oerr = asOpError(s.drop([]string{r.Nonce}))
		case targetAllocating:
			oerr = s.recover(ctx, p, func(o targetRecord) bool { return o.Nonce == r.Nonce })
		}
		if oerr != nil {
			s.log.Warn("releasing a tab of an unused session", "session", key, "tab", r.TabID, "err", oerr)
		}
	}
}

// noteUse is how far the time of a session's last command on the disk may be
// behind.
const noteUse = 5 * time.Minute

// noteUses makes the time of the last command durable for the sessions that own
// something, so that the next owner does not take a session for unused.
func (s *Server) noteUses() {
	type use struct {
		key string
		at  time.Time
	}
	s.mu.Lock()
	var uses []use
	for key, ses := range s.sessions {
		if ses.record.LastUsed.Sub(ses.noted) >= noteUse {
			ses.noted = ses.record.LastUsed
			uses = append(uses, use{key, ses.record.LastUsed})
		}
	}
	s.mu.Unlock()
	for _, u := range uses {
		err := s.store.save(&sessionEdit{key: u.key, apply: func(r *sessionRecord) error { r.LastUsed = u.at; return nil }}, nil, nil)
		if err != nil {
			s.log.Warn("noting the use of a session", "session", u.key, "err", err)
		}
	}
}
