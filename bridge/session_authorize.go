package bridge

import (
	"context"
	"errors"
	"slices"
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
	Stopped    bool              `json:"stopped,omitempty"`    // locked, by a press of Stop in a popup
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
	// automatic is an authorization that a program asks for by itself, such as
	// pi-chrome mcp --authorize. It undoes nothing that a person did.
	automatic bool
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
// to the disk after it, is refused. An automatic one is refused while the
// session is locked by a person, or everything is.
func (s *Server) authorize(key string, change authorizationChange) (Authorization, *op.Error) {
	if _, err := checkSession(wire.Session{Key: key}); err != nil {
		return Authorization{}, err
	}
	if change.mode == Locked {
		return s.lock(key, change)
	}
	asked := time.Now()
	s.mu.Lock()
	if change.automatic {
		if err := s.heldLocked(key); err != nil {
			s.mu.Unlock()
			return Authorization{}, err
		}
	}
	ses := s.sessionLocked(key)
	old, locking := ses.record.Authorized, ses.locking > 0
	s.mu.Unlock()
	if locking || change.ifGeneration != nil && *change.ifGeneration != old.Generation {
		return old, changedError(key, old)
	}
	next := Authorization{Mode: change.mode, Until: change.until.Round(0), Generation: old.Generation + 1}
	raced := errors.New("the authorization was changed")
	err := s.store.save(&sessionEdit{key: key, resume: !change.automatic, apply: func(r *sessionRecord) error {
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
	entry := AuditEntry{Event: "authorize", Session: key, Outcome: string(next.Mode)}
	if change.automatic {
		entry.Note = "automatic"
	} else {
		s.stopped = time.Time{} // a stop since would have locked this session
		ses.authorizedAt = asked
	}
	defer s.record(entry) // its lock is a leaf
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
	l := s.beginLock(ses, false)
	hit := s.commandsOfLocked(func(c *command) bool { return c.session.Key == key })
	s.mu.Unlock()
	defer s.endLocks(l)
	s.end(hit, func(*command) *op.Error { return lockedError(key, l.mine) })
	if err := s.store.save(l.edit(s), nil, nil); err != nil {
		e := writeFailed(err)
		e.Message = "session " + key + " is locked, but only while this owner lives: " + e.Message
		return l.mine, e
	}
	s.record(AuditEntry{Event: "authorize", Session: key, Outcome: string(Locked)})
	return l.stored, nil
}

// sessionLock is a lock that counts already and is on its way to the disk.
type sessionLock struct {
	ses    *session
	mine   Authorization
	stored Authorization // what the disk took
}

// beginLock locks the session in this moment; Server.mu is held. endLocks must
// follow.
func (s *Server) beginLock(ses *session, stopped bool) *sessionLock {
	ses.locking++
	ses.record.Authorized = Authorization{Mode: Locked, Generation: ses.record.Authorized.Generation + 1, Stopped: stopped}
	ses.authorizedAt = time.Time{}
	return &sessionLock{ses: ses, mine: ses.record.Authorized, stored: ses.record.Authorized}
}

func (s *Server) endLocks(locks ...*sessionLock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range locks {
		l.ses.locking--
	}
}

// edit is the change of the session's record on the disk.
func (l *sessionLock) edit(s *Server) *sessionEdit {
	return &sessionEdit{key: l.ses.record.Key, apply: func(r *sessionRecord) error {
		// The disk may have taken an authorization that this lock overtook.
		s.mu.Lock()
		defer s.mu.Unlock()
		l.stored.Generation = max(l.mine.Generation, r.Authorized.Generation+1)
		if now := l.ses.record.Authorized.Generation; now > l.mine.Generation {
			l.stored.Generation = max(l.stored.Generation, now+1) // of another lock
		}
		l.ses.record.Authorized = l.stored
		r.Authorized = l.stored
		return nil
	}}
}

// commandsOfLocked are the commands in hand that are meant.
func (s *Server) commandsOfLocked(meant func(*command) bool) []*command {
	var hit []*command
	for _, c := range s.commands {
		if meant(c) {
			hit = append(hit, c)
		}
	}
	return hit
}

// end withdraws the commands that wait and cancels those that run. why is asked
// for the error of each.
func (s *Server) end(commands []*command, why func(*command) *op.Error) {
	for _, c := range commands {
		if !s.withdraw(c, why(c)) {
			c.cancel(endsWith(context.Canceled, why(c)))
		}
	}
}

// modeLocked is what a session may do at the time. While everything is stopped
// a session that nobody has authorized or locked by itself is locked, whatever
// its kind.
func (s *Server) modeLocked(key string, at time.Time) AuthorizationMode {
	a := s.authorizationLocked(key)
	if a.Mode == "" && !s.stopped.IsZero() {
		return Locked
	}
	return a.effective(key, at)
}

func (s *Server) authorizationLocked(key string) Authorization {
	if ses := s.sessions[key]; ses != nil {
		return ses.record.Authorized
	}
	return Authorization{}
}

// heldLocked refuses an automatic authorization of a session that a person has
// locked: by itself, with everything, or by Cancel on the debugger banner. One
// whose time is up was not locked by anybody.
func (s *Server) heldLocked(key string) *op.Error {
	a := s.authorizationLocked(key)
	if stopped := !s.stopped.IsZero(); stopped || a.Mode == Locked {
		a.Stopped = a.Stopped || stopped
		return lockedError(key, a)
	}
	return nil
}

// allowDebugger lifts the user's Cancel on the debugger banner after a person
// authorized the session, in the profile where it works, else in those that its
// first command can go to. Only one of canceled, which were so before the
// authorization: a Cancel since then stands.
func (s *Server) allowDebugger(ctx context.Context, key string, canceled []*Connector) {
	if len(canceled) == 0 {
		return
	}
	home := s.workplace(key)
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		s.log.Warn("looking for the browsers of an authorized session", "session", key, "err", err)
		return // the lock wins; the next authorization tries again
	}
	if home == "" || !slices.ContainsFunc(refs, func(r profileRef) bool { return r.ID == home }) {
		if len(refs) > 1 {
			refs = liveOf(refs)
		}
	} else {
		refs = slices.DeleteFunc(refs, func(r profileRef) bool { return r.ID != home })
	}
	for _, c := range canceled {
		if slices.ContainsFunc(refs, func(r profileRef) bool { return r.ID == c.ID() }) {
			c.AllowDebugger()
		}
	}
}

// workplace is the browser where the session works, "" for none yet.
func (s *Server) workplace(key string) string {
	if route := s.routeOf(key); route != nil {
		return route.ConnectorID
	}
	home, _ := s.home(key)
	return home
}

// refusedLocked says why the session may not act at the time, nil when it may.
func (s *Server) refusedLocked(key string, at time.Time) *op.Error {
	if s.modeLocked(key, at) != Locked {
		return nil
	}
	a := s.authorizationLocked(key)
	if a.Mode == "" {
		a.Stopped = !s.stopped.IsZero()
	}
	return lockedError(key, a)
}
