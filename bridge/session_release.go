package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"pi-chrome/driver/op"
)

// sessionMemory is how long a session lives without a command.
const sessionMemory = 24 * time.Hour

// quietMemory is how long what somebody decided about a session is remembered
// without a command, where a new session would be treated the same.
const quietMemory = 30 * 24 * time.Hour

// releaseTime bounds what the end of one unused session asks of its browser.
const releaseTime = 20 * time.Second

// releaseUnused releases the sessions that nobody has used for a day, by the
// wall clock: a night that the machine slept counts.
func (s *Server) releaseUnused(now time.Time) {
	s.releaseSessions(s.ctx, now.Round(0).Add(-sessionMemory))
}

// releaseSessions ends the sessions whose last command came before the time.
// Their tabs are left to the user, ungrouped, as soon as their browser is
// there. What somebody decided about a session it keeps: a policy and a lock of
// what would be free without it for ever, the rest for quietMemory.
func (s *Server) releaseSessions(ctx context.Context, before time.Time) {
	for _, key := range s.unused(before) {
		s.releaseSession(ctx, key)
	}
	if err := s.forgetSessions(before.Add(sessionMemory)); err != nil {
		s.log.Warn("forgetting sessions", "err", err)
	}
}

// forgetSessions drops the sessions of which nothing would be lost, in memory and on
// the disk.
func (s *Server) forgetSessions(now time.Time) error {
	s.mu.Lock()
	gone := s.forgettableLocked(now)
	s.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	return s.store.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketSessions)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range s.forgettableLocked(now) {
			ses := s.sessions[key]
			var disk sessionRecord
			if raw := b.Get([]byte(key)); raw != nil {
				if err := json.Unmarshal(raw, &disk); err != nil {
					return fmt.Errorf("record %q of %s: %w", key, bucketSessions, err)
				}
			}
			if disk.Authorized.Generation > ses.record.Authorized.Generation {
				continue // an authorization comes to memory in this moment
			}
			if err := b.Delete([]byte(key)); err != nil {
				return err
			}
			ses.record.Authorized.Generation++ // for one that has the session in hand: it changed
			delete(s.sessions, key)
		}
		return nil
	})
}

// forgettableLocked are the keys of the sessions that own nothing, run nothing
// and have no policy, and that a new session would stand for.
func (s *Server) forgettableLocked(now time.Time) []string {
	busy := map[string]bool{}
	for _, r := range s.records {
		busy[r.Session] = true
	}
	for _, c := range s.commands {
		busy[c.session.Key] = true
	}
	for key := range s.webRoutes {
		busy[key] = true
	}
	var keys []string
	for key, ses := range s.sessions {
		r := &ses.record
		if busy[key] || ses.running || ses.locking > 0 || r.Policy != nil || !r.LastUsed.Before(now.Add(-sessionMemory)) {
			continue
		}
		if r.Authorized == (Authorization{}) && len(r.Released) == 0 || r.isDefault(now) && r.quietSince(s.info.StartedAt).Before(now.Add(-quietMemory)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// isDefault reports whether the session may do what a new one of its name may,
// now and after whatever somebody decides next. A lock is told from a default:
// it must hold for a session that would be free without it, and for a named one
// of MCP, whose program may authorize itself where nobody has locked it.
func (r *sessionRecord) isDefault(now time.Time) bool {
	if r.Authorized.Mode == Locked && strings.HasPrefix(r.Key, "mcp:") && !ownSession.MatchString(r.Key) {
		return false
	}
	return r.Authorized.effective(r.Key, now) == Authorization{}.effective(r.Key, now)
}

// ownSession matches the sessions that one connection of an MCP client has for
// itself. No other connection gets the name again.
var ownSession = regexp.MustCompile(`^mcp:[0-9a-f]{8}$`)

// quietSince is when something was last heard of the session. Of one that has
// had no command only this owner's life counts: a lock has no time of its own.
func (r *sessionRecord) quietSince(started time.Time) time.Time {
	since := r.LastUsed
	if since.IsZero() {
		since = started.Round(0)
	}
	if since.Before(r.Authorized.Until) {
		since = r.Authorized.Until
	}
	for _, t := range r.Released {
		if since.Before(t.At) {
			since = t.At
		}
	}
	return since
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
