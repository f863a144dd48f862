package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of sessions.
const (
	maxSessionKey   = 200
	maxSessionTitle = 80
	maxSessionQueue = 64
)

// session is an agent's session. Its fields are guarded by Server.mu.
//
// Commands enter one after the other, in the order in which they arrived: the
// profile is chosen and the tab resolved for one before the next is looked at.
// From then on commands of different tabs run side by side.
type session struct {
	record  sessionRecord
	title   string         // the latest
	groups  map[string]int // tab group by connector id
	queue   []*command
	running bool      // a goroutine works on the queue
	listed  int       // lists of steps under way
	waits   bool      // the head of the queue waits for a place, and nothing in it changes the set of tabs
	noted   time.Time // the LastUsed that is on the disk
	last    LastCommand
	acted   []time.Time // when it acted in the last minute, where its policy counts
	locking int         // locks that the disk has not taken yet

	authorizedAt time.Time // by a person, in this owner's time, and not locked since
}

// sessionLocked returns the session with the key, making it when it is new.
func (s *Server) sessionLocked(key string) *session {
	ses := s.sessions[key]
	if ses == nil {
		ses = &session{record: sessionRecord{Key: key}, groups: map[string]int{}}
		s.sessions[key] = ses
	}
	return ses
}

// lockedError says how to unlock the session.
func lockedError(key string, a Authorization) *op.Error {
	command := "pi-chrome authorize --session " + shellWord(key)
	how := command + " on a command line"
	if strings.HasPrefix(key, "session:") {
		how = "/chrome authorize in Pi, or " + how
	}
	e := op.Reject(op.SessionLocked, "session %q may not use the browser; nothing was done", key)
	if a.Stopped {
		e = op.Reject(op.SessionLocked, "the user has stopped every session, and with them %q; nothing was done", key).WithDetail("stopped", true)
	}
	return e.WithHint("The user unlocks it: %s.", how).WithDetail("session", key).WithDetail("command", command)
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@", r))
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func checkSession(w wire.Session) (op.Session, *op.Error) {
	switch {
	case strings.TrimSpace(w.Key) == "":
		return op.Session{}, op.Reject(op.MissingSessionKey, "the command names no session; nothing was done").WithHint("Give a session with --session NAME.")
	case len(w.Key) > maxSessionKey || strings.ContainsFunc(w.Key, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return op.Session{}, op.Invalidf("session key must be one line of at most %d bytes", maxSessionKey)
	case w.Pace != "" && w.Pace != "fast" && w.Pace != "human":
		return op.Session{}, op.Invalidf("pace is %q; allowed: fast, human", w.Pace)
	}
	title := []rune(strings.TrimSpace(w.Title))
	if len(title) > maxSessionTitle {
		title = title[:maxSessionTitle]
	}
	return op.Session{Key: w.Key, Title: string(title), Foreground: w.Foreground, Pace: w.Pace}, nil
}

// enqueue puts a command at the end of its session's queue.
func (s *Server) enqueue(c *command) *op.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessionLocked(c.session.Key)
	if len(ses.queue) >= maxSessionQueue {
		return busyError(c.session.Key, len(ses.queue))
	}
	ses.record.LastUsed = c.entered
	if c.session.Title != "" {
		ses.title = c.session.Title
	}
	if c.desc.PassesBy && (ses.listed > 0 || ses.waits) {
		// What holds the queue may be waiting for it.
		s.overtake(c)
		return nil
	}
	ses.queue = append(ses.queue, c)
	ses.waits = ses.waits && !c.changesTabs()
	if !ses.running {
		ses.running = true
		s.wg.Go(func() { s.runSession(ses) })
	}
	return nil
}

func busyError(where string, n int) *op.Error {
	return op.Reject(op.ConnectorBusy, "%d commands wait for %s already; this one was not taken", n, where).WithHint("Wait for some of them to end, then send it again.")
}

// runSession lets the queued commands of a session enter, until none is left.
func (s *Server) runSession(ses *session) {
	for {
		s.mu.Lock()
		if len(ses.queue) == 0 {
			ses.running, ses.queue = false, nil
			s.mu.Unlock()
			return
		}
		c := ses.queue[0]
		ses.queue = ses.queue[1:]
		s.mu.Unlock()
		err := s.enter(c)
		s.mu.Lock()
		ses.waits = false
		s.mu.Unlock()
		if err != nil {
			s.withdraw(c, err)
			continue
		}
		// What changes the session's set of tabs is over before the next
		// command looks for its tab.
		if c.changesTabs() {
			<-c.settled
		}
	}
}

// enter binds a command to a profile and a tab, and hands it to the mailbox.
func (s *Server) enter(c *command) *op.Error {
	if c.ctx.Err() != nil {
		return causeOf(c.ctx)
	}
	p, err := s.chooseProfile(c.ctx, c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	c.profile = p // under the lock: a withdrawal may note the command at this moment
	s.mu.Unlock()
	s.startClock(c)
	if err := s.place(c, p.ID()); err != nil {
		return err
	}
	if c.desc.Tab == op.NoTab {
		s.launch(c)
		return nil
	}
	target, err := s.resolve(c, p)
	s.mu.Lock()
	c.target = target
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.line(c)
	return nil
}

// profiles are the paired browsers. The relay is one; tests bring their own.
type profiles interface {
	bound(ctx context.Context) ([]profileRef, error) // sorted by label
	anyLive() bool
	// wait returns the profile as soon as it is live, or an *op.Error
	// (connector-offline) when ctx ends first.
	wait(ctx context.Context, id string) (profile, error)
	changed() <-chan struct{}
}

// profileRef is one bound profile, live or not.
type profileRef struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Live  bool   `json:"live"`

	lost    time.Time      // when its connection ended; zero for one that never was
	refused *RefusalRecord // the latest refusal since it is not connected; nil for none
	closed  bool           // with its browser
}

// profile is what sessions need of a [Connector].
type profile interface {
	ID() string
	Label() string
	BrowserEpoch() string
	Tabs(ctx context.Context) ([]op.Tab, error)
	TabInfo(ctx context.Context, tabID int) (op.Tab, error)
	Tab(ctx context.Context, tabID int) (*Tab, error)
	MovedTo(tabID int) int
	Targets(ctx context.Context) ([]DebugTarget, error)
	Windows(ctx context.Context) ([]Window, error)
	CreateTab(ctx context.Context, o CreateTab) (op.Tab, error)
	RemoveTabs(ctx context.Context, tabIDs ...int) error
	ActivateTab(ctx context.Context, tabID int) (op.Tab, error)
	ReloadTab(ctx context.Context, tabID int, bypassCache bool) error
	ShowAsk(ctx context.Context, id, text string) error
	HideAsk(ctx context.Context) error
	GroupTabs(ctx context.Context, groupID, windowID int, tabIDs ...int) (int, error)
	UngroupTabs(ctx context.Context, tabIDs ...int) error
	UpdateGroup(ctx context.Context, groupID int, u GroupUpdate) (op.Group, error)
}

var _ profile = (*Connector)(nil)

type relayProfiles struct {
	relay *Relay
	store BindingStore
}

func (r relayProfiles) bound(ctx context.Context) ([]profileRef, error) {
	bindings, err := r.store.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	refs := make([]profileRef, 0, len(bindings))
	for _, b := range bindings {
		ref := profileRef{ID: b.ConnectorID, Label: b.Label}
		if c, ok := r.relay.Connector(b.ConnectorID); ok {
			ref.Label, ref.Live, ref.lost, ref.refused = c.Label(), c.Live(), c.lostAt(), c.refusal()
			ref.closed = c.browserClosed()
		}
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b profileRef) int {
		return strings.Compare(a.Label+"\x00"+a.ID, b.Label+"\x00"+b.ID)
	})
	return refs, nil
}

func (r relayProfiles) anyLive() bool {
	return slices.ContainsFunc(r.relay.Connectors(), (*Connector).Live)
}

func (r relayProfiles) wait(ctx context.Context, id string) (profile, error) {
	for {
		changed := r.relay.Changed()
		if c, ok := r.relay.Connector(id); ok {
			if err := c.WaitLive(ctx); err != nil {
				return nil, err
			}
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, op.NotAvailable(op.ConnectorOffline, "the browser has not connected")
		}
	}
}

func (r relayProfiles) changed() <-chan struct{} { return r.relay.Changed() }

// How long a command waits for its profile. A worker that nothing keeps alive
// wakes up every 30 s, so that a young owner must be patient, and so must who
// has just lost it; later a profile that is not there is not there.
const (
	awaitReady     = 8 * time.Second
	awaitWorker    = 35 * time.Second
	settleProfiles = 6 * time.Second
)

// chooseProfile returns the one live profile that the command is for.
func (s *Server) chooseProfile(ctx context.Context, c *command) (profile, *op.Error) {
	began := time.Now()
	for {
		changed := s.profiles.changed()
		refs, err := s.profiles.bound(ctx)
		if err != nil {
			return nil, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err).WithCause(err)
		}
		ref, again, oerr := s.pick(c, refs)
		if oerr != nil {
			return nil, oerr
		}
		if again > 0 {
			// The browsers come back one by one after the owner was started;
			// the first is not the only one because it is first.
			t := time.NewTimer(again)
			select {
			case <-changed:
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			if ctx.Err() != nil {
				return nil, causeOf(ctx)
			}
			continue
		}
		if !ref.Live {
			s.progress(c, 0, 0, "waiting for the browser "+ref.Label)
		}
		until := began.Add(awaitReady)
		// One that was refused is awake, and one that was closed does not sleep.
		for _, from := range []time.Time{s.info.StartedAt, ref.lost} {
			if back := from.Add(awaitWorker); back.After(until) && ref.refused == nil && !ref.closed {
				until = back
			}
		}
		wctx, cancel := context.WithDeadline(ctx, until)
		p, err := s.profiles.wait(wctx, ref.ID)
		cancel()
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, causeOf(ctx)
		}
		return nil, s.offline(ctx, c, ref).WithCause(err)
	}
}

// offline says why a command did not find its profile.
func (s *Server) offline(ctx context.Context, c *command, ref profileRef) *op.Error {
	refs, err := s.profiles.bound(ctx) // as they are after the wait
	if i := slices.IndexFunc(refs, func(r profileRef) bool { return r.ID == ref.ID }); err == nil && i >= 0 {
		ref = refs[i]
	}
	e := op.NotAvailable(op.ConnectorOffline, "the browser %q is not connected; the command was not started", ref.Label).
		WithHint("Open that browser and check that the pi-chrome extension is on (its popup says why it is not connected), then send the command again. pi-chrome doctor explains more.").
		WithDetail("connectorId", ref.ID).WithDetail("label", ref.Label)
	if ref.closed {
		e.Message = fmt.Sprintf("the browser %q was closed; the command was not started", ref.Label)
		e.WithHint("Open that browser again, then send the command again.")
	}
	if r := ref.refused; r != nil {
		e.Message = fmt.Sprintf("the browser %q is there, but its extension was refused: %s The command was not started", ref.Label, r.Message)
		e.WithDetail("refused", string(r.Code))
		switch r.Code {
		case wire.RefuseVersion, wire.RefuseFingerprint:
			e.WithHint("Bring the extension to this release with pi-chrome upgrade-extension, or reload it in chrome://extensions, then send the command again.")
		case wire.RefuseUnknown, wire.RefuseProof:
			e.WithHint("Pair that profile again with pi-chrome onboard --another, then send the command again.")
		}
	}
	if live := liveOf(refs); len(live) > 0 && c.browser == "" && ref.refused == nil {
		e.WithHint("Open that browser (its pi-chrome popup says why it is not connected), or move the session: pi-chrome cleanup --session %s, then name another with --browser: %s.", c.session.Key, listLabels(live)).
			WithDetail("browsers", refs)
	}
	return e
}

// pick decides which bound profile a command is for. A positive duration says
// to look again then, or when a profile comes or goes.
func (s *Server) pick(c *command, refs []profileRef) (profileRef, time.Duration, *op.Error) {
	if ref, attached, err := s.attached(c, refs); attached {
		return ref, 0, err
	}
	if len(refs) == 0 {
		return profileRef{}, 0, op.NotAvailable(op.ConnectorNotBound, "no browser profile is paired; the command was not started").
			WithHint("Run pi-chrome onboard and follow what it says.")
	}
	home, owns := s.home(c.session.Key)
	if c.browser != "" {
		ref, err := named(c.browser, refs)
		if err != nil {
			return ref, 0, err
		}
		if owns && home != ref.ID {
			return ref, 0, op.Reject(op.BrowserRequired, "session %q works in the browser %q and still has tabs there; nothing was done", c.session.Key, labelOf(home, refs)).
				WithHint("Close its tabs first (pi-chrome cleanup --session %s), or use another session for %q.", c.session.Key, ref.Label).
				WithDetail("browsers", refs)
		}
		return ref, 0, nil
	}
	// A session stays where it is, connected or not: another browser would not
	// be the one that its user chose.
	if i := slices.IndexFunc(refs, func(r profileRef) bool { return r.ID == home }); i >= 0 {
		return refs[i], 0, nil
	}
	if len(refs) == 1 {
		return refs[0], 0, nil
	}
	live := liveOf(refs)
	if len(live) < len(refs) && len(live) < 2 {
		if left := settleProfiles - time.Since(s.info.StartedAt); left > 0 {
			return profileRef{}, left, nil
		}
	}
	if len(live) == 1 {
		return live[0], 0, nil
	}
	return profileRef{}, 0, op.Reject(op.BrowserRequired, "%s are paired and %s; nothing was done", plural(len(refs), "browser"), liveWords(len(live))).
		WithHint("Name one with --browser: %s.", listLabels(refs)).WithDetail("browsers", refs)
}

func liveOf(refs []profileRef) []profileRef {
	return slices.DeleteFunc(slices.Clone(refs), func(r profileRef) bool { return !r.Live })
}

func liveWords(n int) string {
	if n == 0 {
		return "none is connected"
	}
	return fmt.Sprintf("%d are connected", n)
}

// home is the profile that a session talks to and whether it has tabs there.
func (s *Server) home(key string) (id string, owns bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.Session == key {
			return r.ConnectorID, true
		}
	}
	if ses := s.sessions[key]; ses != nil {
		return ses.record.ConnectorID, false
	}
	return "", false
}

// named finds a profile by its id or label.
func named(name string, refs []profileRef) (profileRef, *op.Error) {
	var hits []profileRef
	for _, r := range refs {
		if r.ID == name {
			return r, nil
		}
		if strings.EqualFold(r.Label, name) {
			hits = append(hits, r)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return profileRef{}, op.Reject(op.BrowserRequired, "no paired browser is called %q; nothing was done", name).
			WithHint("Name one of: %s.", listLabels(refs)).WithDetail("browsers", refs)
	}
	return profileRef{}, op.Reject(op.BrowserRequired, "%d paired browsers are called %q; nothing was done", len(hits), name).
		WithHint("Give the id: %s.", listLabels(hits)).WithDetail("browsers", hits)
}

func labelOf(id string, refs []profileRef) string {
	for _, r := range refs {
		if r.ID == id {
			return r.Label
		}
	}
	return id
}

func listLabels(refs []profileRef) string {
	parts := make([]string, 0, len(refs))
	for _, r := range refs {
		state := "offline"
		if r.Live {
			state = "connected"
		}
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", r.Label, r.ID, state))
	}
	return strings.Join(parts, ", ")
}

// debuggerCanceled locks every session that works in the profile: the user
// pressed Cancel on the banner of the debugger. What a person has authorized
// since then stands, as when a Cancel is told late.
func (s *Server) debuggerCanceled(c *Connector, at time.Time) {
	s.mu.Lock()
	var keys, since []string
	for key, ses := range s.sessions {
		if ses.authorizedAt.After(at) {
			since = append(since, key)
		} else if ses.record.ConnectorID == c.ID() {
			keys = append(keys, key)
		}
	}
	for _, r := range s.records {
		if r.ConnectorID == c.ID() && !slices.Contains(keys, r.Session) && !slices.Contains(since, r.Session) {
			keys = append(keys, r.Session)
		}
	}
	s.mu.Unlock()
	for _, key := range keys {
		if _, err := s.authorize(key, authorizationChange{mode: Locked}); err != nil {
			s.log.Error("locking a session after the debugger was canceled", "session", key, "err", err)
		}
	}
	s.log.Warn("the user canceled the debugger: sessions locked", "connector", c.ID(), "at", at, "sessions", len(keys))
	// A session of no browser begins in any that is connected, as this one is.
	for _, key := range since {
		if home := s.workplace(key); home == "" || home == c.ID() {
			c.AllowDebugger()
		}
	}
}

// sessionRecordFor makes the profile the session's own and returns the change
// to store.
func (s *Server) sessionRecordFor(key, connectorID string) *sessionEdit {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessionLocked(key)
	ses.record.ConnectorID = connectorID
	if ses.title != "" {
		ses.record.Title = ses.title
	}
	title, used := ses.record.Title, ses.record.LastUsed
	return &sessionEdit{key: key, apply: func(r *sessionRecord) error {
		r.ConnectorID, r.Title, r.LastUsed = connectorID, title, used
		return nil
	}}
}

func asOpError(err error) *op.Error {
	if err == nil {
		return nil
	}
	return op.AsError(err)
}
