package bridge

import (
	"context"
	"errors"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Authorization says whether a session may use the browser. The zero value is
// the default of the session's kind.
type Authorization struct {
	Mode       AuthorizationMode `json:"mode,omitempty"`
	Until      time.Time         `json:"until,omitzero"`       // of AuthorizedUntil
	Generation int               `json:"generation,omitempty"` // rises with each change
}

// AuthorizationMode is the state of an authorization.
type AuthorizationMode string

// The modes.
const (
	Locked               AuthorizationMode = "locked"
	AuthorizedUntil      AuthorizationMode = "until"
	AuthorizedIndefinite AuthorizationMode = "indefinite"
)

// allows reports whether a session with this key may act at the time.
// Somebody typed the commands of the command line; agents inside other
// programs (Pi, MCP) ask first.
func (a Authorization) allows(key string, now time.Time) bool {
	switch a.effective(key, now) {
	case AuthorizedUntil, AuthorizedIndefinite:
		return true
	}
	return false
}

func (a Authorization) effective(key string, now time.Time) AuthorizationMode {
	switch a.Mode {
	case AuthorizedIndefinite:
		return AuthorizedIndefinite
	case AuthorizedUntil:
		// Both by the wall clock: a machine that slept has used the time up.
		if now.Round(0).Before(a.Until) {
			return AuthorizedUntil
		}
		return Locked
	case Locked:
		return Locked
	}
	if strings.HasPrefix(key, "session:") || strings.HasPrefix(key, "mcp:") {
		return Locked
	}
	return AuthorizedIndefinite
}

// authorizationChange is one request to change what a session may do.
type authorizationChange struct {
	mode  AuthorizationMode
	until time.Time
	// ifGeneration, where it is given, is the generation that the change is
	// for: after another change it is refused.
	ifGeneration *int
	// more changes the session's record in the same transaction; nil for
	// nothing. It is called under Server.mu for the record in memory, and
	// inside the transaction for the one on the disk.
	more func(*sessionRecord)
}

func changedError(key string, now Authorization) *op.Error {
	return op.Reject(op.AuthorizationChanged, "the authorization of session %q was changed by somebody else meanwhile (it is %s, generation %d); nothing was changed", key, now.effective(key, time.Now()), now.Generation).
		WithHint("Look at pi-chrome sessions, then authorize again if that is still wanted.").
		WithDetail("session", key).WithDetail("generation", now.Generation)
}

// authorize changes a session's authorization, durably. A lock wins every
// race: it counts in this moment, before the disk has taken it; commands look
// again before they start, its queued ones are withdrawn and the executing
// ones canceled. An authorization that was asked for before a lock, and comes
// to the disk after it, is refused.
func (s *Server) authorize(key string, change authorizationChange) (Authorization, *op.Error) {
	if _, err := checkSession(wire.Session{Key: key}); err != nil {
		return Authorization{}, err
	}
	if change.mode == Locked {
		return s.lock(key, change)
	}
	s.mu.Lock()
	ses := s.sessionLocked(key)
	old, locking := ses.record.Authorized, ses.locking > 0
	s.mu.Unlock()
	if locking || change.ifGeneration != nil && *change.ifGeneration != old.Generation {
		return old, changedError(key, old)
	}
	next := Authorization{Mode: change.mode, Until: change.until.Round(0), Generation: old.Generation + 1}
	raced := errors.New("the authorization was changed")
	err := s.store.save(&sessionEdit{key: key, apply: func(r *sessionRecord) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		// Another one may be on the disk and not yet in memory.
		if ses.locking > 0 || ses.record.Authorized.Generation != old.Generation || r.Authorized.Generation > old.Generation {
			return raced
		}
		r.Authorized = next
		if change.more != nil {
			change.more(r)
		}
		return nil
	}}, nil, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, raced):
		return ses.record.Authorized, changedError(key, ses.record.Authorized)
	case err != nil:
		return old, writeFailed(err)
	case ses.locking > 0 || ses.record.Authorized.Generation != old.Generation:
		// A lock came while the disk took this. The lock writes after it.
		return ses.record.Authorized, changedError(key, ses.record.Authorized)
	}
	ses.record.Authorized = next
	defer s.record(AuditEntry{Event: "authorize", Session: key, Outcome: string(next.Mode)}) // its lock is a leaf
	if change.more != nil {
		change.more(&ses.record)
	}
	return next, nil
}

func (s *Server) lock(key string, change authorizationChange) (Authorization, *op.Error) {
	s.mu.Lock()
	ses := s.sessionLocked(key)
	if old := ses.record.Authorized; change.ifGeneration != nil && *change.ifGeneration != old.Generation {
		s.mu.Unlock()
		return old, changedError(key, old)
	}
	ses.locking++
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		ses.locking--
	}()
	ses.record.Authorized = Authorization{Mode: Locked, Generation: ses.record.Authorized.Generation + 1}
	mine := ses.record.Authorized
	var hit []*command
	for _, c := range s.commands {
		if c.session.Key == key {
			hit = append(hit, c)
		}
	}
	s.mu.Unlock()
	for _, c := range hit {
		if !s.withdraw(c, lockedError(key)) {
			c.cancel(endsWith(context.Canceled, lockedError(key)))
		}
	}
	stored := mine
	err := s.store.save(&sessionEdit{key: key, apply: func(r *sessionRecord) error {
		// The disk may have taken an authorization that this lock overtook.
		s.mu.Lock()
		defer s.mu.Unlock()
		stored.Generation = max(mine.Generation, r.Authorized.Generation+1)
		if now := ses.record.Authorized.Generation; now > mine.Generation {
			stored.Generation = max(stored.Generation, now+1) // of another lock
		}
		ses.record.Authorized = stored
		r.Authorized = stored
		return nil
	}}, nil, nil)
	if err != nil {
		e := writeFailed(err)
		e.Message = "session " + key + " is locked, but only while this owner lives: " + e.Message
		return mine, e
	}
	s.record(AuditEntry{Event: "authorize", Session: key, Outcome: string(Locked)})
	return stored, nil
}
