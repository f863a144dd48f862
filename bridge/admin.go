package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// SessionStatus is how one session stands.
type SessionStatus struct {
	Key           string            `json:"key"`
	Title         string            `json:"title,omitempty"`
	Authorization AuthorizationMode `json:"authorization"`
	ExpiresAt     time.Time         `json:"expiresAt,omitzero"`
	Policy        *Policy           `json:"policy,omitempty"`
	Generation    int               `json:"authorizationGeneration"` // rises with each change of it
	ConnectorID   string            `json:"connectorId,omitempty"`
	Targets       []OwnedTarget     `json:"targets"`
	Released      []ReleasedTab     `json:"released,omitempty"` // tabs that it left to the user, the latest last
	Queued        int               `json:"queued"`
	Executing     int               `json:"executing"`
	LastUsedAt    time.Time         `json:"lastUsedAt,omitzero"`
	Web           *WebRoute         `json:"web,omitempty"`  // a page attached it to a profile
	Last          *LastCommand      `json:"last,omitempty"` // that this owner saw
}

// LastCommand is the latest command of a session that is over.
type LastCommand struct {
	Operation string    `json:"operation"`
	Outcome   string    `json:"outcome"` // ok, or kind/code
	At        time.Time `json:"at"`
}

// Requirement is one thing that must hold before a session can act.
type Requirement struct {
	Name string `json:"name"` // Paired, ConnectorLive, Authorized
	OK   bool   `json:"ok"`
	Mend string `json:"mend,omitempty"`
}

// Status is the answer of chrome_status and of the request "status".
type Status struct {
	Kind         string          `json:"kind"` // pi-chrome/status
	Version      int             `json:"version"`
	Readiness    string          `json:"readiness"`  // ready, offline, locked, unpaired
	Connection   string          `json:"connection"` // connected, offline, unpaired
	Bridge       OwnerInfo       `json:"bridge"`
	Profiles     []ProfileStatus `json:"profiles"`
	Session      SessionStatus   `json:"session"`
	Requirements []Requirement   `json:"requirements"`
}

// ProfileStatus is one paired profile, seen by this owner or not.
type ProfileStatus struct {
	ConnectorInfo
	PairedAt      time.Time `json:"pairedAt,omitzero"`
	AdmittedCount int       `json:"admittedCommands"`
	OwnedTabs     int       `json:"ownedTabs"`
	// Compatible is false when the extension of the profile was refused for
	// its version; Refused says why.
	Compatible bool           `json:"compatible"`
	Refused    *RefusalRecord `json:"refused,omitempty"`
}

// DoctorFacts is what the owner knows for a diagnosis.
type DoctorFacts struct {
	Owner    OwnerInfo       `json:"owner"`
	Profiles []ProfileStatus `json:"profiles"`
	Refusals []RefusalRecord `json:"refusals"` // the latest, newest first
	Attaches []AttachRefusal `json:"attaches"` // that Chrome refused: tabs that stay so, by profile, the latest first
	Sessions []SessionStatus `json:"sessions"`
	Clients  []ClientInfo    `json:"clients"`
	Pairing  PairingStatus   `json:"pairing"`
	Draining bool            `json:"draining"`
	Audit    string          `json:"audit,omitempty"`   // why the audit log takes no entry, and so nothing with an effect is done
	Journal  string          `json:"journal,omitempty"` // why state.db takes no write, and so neither is it
}

// CommandOutcome is what became of a command, asked by its id.
type CommandOutcome struct {
	ID string `json:"id"`
	// State is unknown (never started here: safe to send again, unless it was
	// read-only or is older than the journal), queued, executing or done.
	State     string          `json:"state"`
	Operation string          `json:"operation,omitempty"`
	Session   string          `json:"session,omitempty"`
	StartedAt time.Time       `json:"startedAt,omitzero"`
	Result    json.RawMessage `json:"result,omitempty"` // the result frame, when done
}

// SessionParams name a session in a request.
type SessionParams struct {
	Session string `json:"session"`
}

// CleanupParams are of the request "cleanup".
type CleanupParams struct {
	Session string `json:"session"`
	Keep    bool   `json:"keep,omitempty"` // leave the tabs to the user instead of closing them
}

// CleanupAllParams are of the request "cleanup-all".
type CleanupAllParams struct {
	Keep bool `json:"keep,omitempty"`
}

// AuthorizeParams are of the request "authorize".
type AuthorizeParams struct {
	Session string            `json:"session"`
	Mode    AuthorizationMode `json:"mode"`              // until or indefinite
	Minutes int               `json:"minutes,omitempty"` // of until
	// IfGeneration is the generation that the change is for; after another
	// change it is refused.
	IfGeneration *int `json:"ifGeneration,omitempty"`
	// Policy replaces the session's policy; null takes it away, and without it
	// the policy stays.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Automatic says that no person asked for this now: it is refused while
	// everything is stopped or the session is locked by a person, and lifts
	// neither a stop nor a Cancel on the debugger banner.
	Automatic bool `json:"automatic,omitempty"`
}

// ConnectorParams name a profile, by id or label, in a request.
type ConnectorParams struct {
	Connector string `json:"connector"`
}

// PickParams choose one of several offered profiles, by label or id.
type PickParams struct {
	Label string `json:"label"`
}

// OutcomeParams are of the request "outcome".
type OutcomeParams struct {
	ID string `json:"id"`
}

// ShutdownParams are of the request "shutdown".
type ShutdownParams struct {
	Reason string `json:"reason,omitempty"`
}

// admin answers one request of a program. Errors are *op.Error.
func (s *Server) admin(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch method {
	case "owner":
		return reply(s.info, nil)
	case "status":
		in, err := decodeParams[SessionParams](method, params)
		if err != nil {
			return nil, err
		}
		st, err := s.status(ctx, in.Session)
		return reply(st, err)
	case "sessions":
		return reply(s.sessionList(ctx), nil)
	case "running":
		return reply(s.running(), nil)
	case "doctor":
		return s.doctor(ctx)
	case "outcome":
		in, err := decodeParams[OutcomeParams](method, params)
		if err != nil {
			return nil, err
		}
		out, oerr := s.outcomeOf(in.ID)
		return reply(out, nilable(oerr))
	case "refs":
		in, err := decodeParams[RefsParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.refs(in), nil)
	case "authorize":
		in, err := decodeParams[AuthorizeParams](method, params)
		if err != nil {
			return nil, err
		}
		return s.authorizeRequest(ctx, in)
	case "revoke":
		in, err := decodeParams[SessionParams](method, params)
		if err != nil {
			return nil, err
		}
		a, oerr := s.authorize(in.Session, authorizationChange{mode: Locked})
		return reply(a, nilable(oerr))
	case "cleanup":
		in, err := decodeParams[CleanupParams](method, params)
		if err != nil {
			return nil, err
		}
		done, oerr := s.cleanup(ctx, in.Session, in.Keep)
		return reply(done, nilable(oerr))
	case "cleanup-all":
		in, err := decodeParams[CleanupAllParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.cleanupAll(ctx, in.Keep), nil)
	case "unpair", "forget":
		in, err := decodeParams[ConnectorParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.unpair(ctx, in.Connector, method == "forget"))
	case "web.claim":
		in, err := decodeParams[ClaimParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.claimOffer(ctx, in))
	case "web.detach":
		in, err := decodeParams[SessionParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.detach(in.Session))
	case "extension.reload":
		in, err := decodeParams[ConnectorParams](method, params)
		if err != nil {
			return nil, err
		}
		return reply(s.reloadExtension(ctx, in.Connector))
	case "shutdown":
		// Only checked here: the end begins when the answer is on its way, or
		// it would overtake it.
		if _, err := decodeParams[ShutdownParams](method, params); err != nil {
			return nil, err
		}
		return reply(s.info, nil)
	}
	if rest, ok := strings.CutPrefix(method, "pairing."); ok {
		return s.pairing(ctx, rest, params)
	}
	e := op.Invalidf("unknown request %q", method)
	return nil, e
}

func (s *Server) pairing(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	p := s.relay.Pairing()
	switch method {
	case "start":
		in, err := decodeParams[PairingOptions]("pairing.start", params)
		if err != nil {
			return nil, err
		}
		return reply(p.Start(in))
	case "status":
		return reply(p.Status(), nil)
	case "wait":
		return reply(p.Wait(ctx))
	case "pick":
		in, err := decodeParams[PickParams]("pairing.pick", params)
		if err != nil {
			return nil, err
		}
		if err := p.Pick(in.Label); err != nil {
			return nil, err
		}
		return reply(p.Status(), nil)
	case "cancel":
		p.Cancel()
		return reply(p.Status(), nil)
	}
	return nil, op.Invalidf("unknown request %q", "pairing."+method)
}

func decodeParams[T any](method string, raw json.RawMessage) (T, error) {
	var v T
	if len(raw) == 0 || string(raw) == "null" {
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, op.Invalidf("request %s: %s", method, err)
	}
	return v, nil
}

func reply[T any](v T, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return wire.Encode(v)
}

// nilable keeps a nil *op.Error from becoming a non-nil error.
func nilable(e *op.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func (s *Server) authorizeRequest(ctx context.Context, in AuthorizeParams) (json.RawMessage, error) {
	var until time.Time
	switch in.Mode {
	case AuthorizedIndefinite:
		if in.Minutes != 0 {
			return nil, op.Invalidf("authorize: minutes go with the mode until")
		}
	case AuthorizedUntil:
		if in.Minutes < 1 || in.Minutes > 7*24*60 {
			return nil, op.Invalidf("authorize: minutes is %d; allowed: 1 to %d", in.Minutes, 7*24*60)
		}
		until = time.Now().Add(time.Duration(in.Minutes) * time.Minute)
	default:
		return nil, op.Invalidf("authorize: mode is %q; allowed: until, indefinite", in.Mode)
	}
	change := authorizationChange{mode: in.Mode, until: until, automatic: in.Automatic, ifGeneration: in.IfGeneration}
	if len(in.Policy) > 0 {
		var policy *Policy // null for none
		if string(in.Policy) != "null" {
			var err error
			if policy, err = ParsePolicy(in.Policy, func(tool string) bool { _, ok := s.opts.Handler.Describe(tool); return ok }); err != nil {
				return nil, err
			}
		}
		change.more = func(r *sessionRecord) { r.Policy = policy }
	}
	var canceled []*Connector
	if s.relay != nil && !in.Automatic {
		canceled = slices.DeleteFunc(s.relay.Connectors(), func(c *Connector) bool { return !c.Info().Canceled })
	}
	a, oerr := s.authorize(in.Session, change)
	if oerr == nil {
		s.allowDebugger(ctx, in.Session, canceled)
	}
	return reply(a, nilable(oerr))
}

// status says how everything stands for one session.
func (s *Server) status(ctx context.Context, key string) (Status, error) {
	if key == "" {
		key = "default"
	}
	profiles, err := s.profileList(ctx)
	if err != nil {
		return Status{}, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err)
	}
	st := Status{Kind: "pi-chrome/status", Version: 3, Bridge: s.info, Profiles: profiles, Session: s.sessionStatus(ctx, key)}
	live := slices.ContainsFunc(profiles, func(p ProfileStatus) bool { return p.Live })
	authorized := st.Session.Authorization != Locked
	st.Requirements = []Requirement{
		{Name: "Paired", OK: len(profiles) > 0, Mend: mend(len(profiles) > 0, "Run pi-chrome onboard.")},
		// Without a paired browser there is none to open.
		{Name: "ConnectorLive", OK: live, Mend: mend(live || len(profiles) == 0, "Open the paired browser; its pi-chrome popup says why it is not connected. pi-chrome doctor explains more.")},
		{Name: "Authorized", OK: authorized, Mend: mend(authorized, lockedError(key, Authorization{}).Hint)},
	}
	switch {
	case len(profiles) == 0:
		st.Readiness, st.Connection = "unpaired", "unpaired"
	case !live:
		st.Readiness, st.Connection = "offline", "offline"
	case !authorized:
		st.Readiness, st.Connection = "locked", "connected"
	default:
		st.Readiness, st.Connection = "ready", "connected"
	}
	return st, nil
}

func mend(ok bool, how string) string {
	if ok {
		return ""
	}
	return how
}

func (s *Server) profileList(ctx context.Context) ([]ProfileStatus, error) {
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]ProfileStatus, 0, len(refs))
	for _, ref := range refs {
		p := ProfileStatus{ConnectorInfo: ConnectorInfo{ID: ref.ID, Label: ref.Label, Live: ref.Live}, Compatible: true}
		if b, ok, err := s.store.Binding(ctx, ref.ID); err == nil && ok {
			p.PairedAt, p.ExtensionID, p.DisplayVersion = b.PairedAt, b.ExtensionID, b.DisplayVersion
		}
		if s.relay != nil {
			if c, ok := s.relay.Connector(ref.ID); ok {
				p.ConnectorInfo = c.Info()
			}
		}
		if p.Refused = ref.refused; p.Refused != nil {
			p.Compatible = p.Refused.Code != wire.RefuseVersion && p.Refused.Code != wire.RefuseFingerprint
		}
		s.mu.Lock()
		if box := s.boxes[ref.ID]; box != nil {
			p.AdmittedCount = box.admitted
		}
		for _, r := range s.records {
			if r.ConnectorID == ref.ID && r.State == targetOwned {
				p.OwnedTabs++
			}
		}
		s.mu.Unlock()
		list = append(list, p)
	}
	return list, nil
}

// sessionStatus describes one session. Its tabs are shown with title and
// address where the browser is connected and answers in time.
func (s *Server) sessionStatus(ctx context.Context, key string) SessionStatus {
	return s.withTabs(ctx, s.sessionFacts(key))
}

// withTabs adds title and address to the tabs of a session, where the browser
// is connected and answers in time.
func (s *Server) withTabs(ctx context.Context, st SessionStatus) SessionStatus {
	if records := s.sessionRecords(st.Key, ""); len(records) > 0 {
		st.Targets = summaries(records, s.tabsIfLive(ctx, st.ConnectorID, records), true)
	}
	return st
}

// sessionFacts is how one session stands, without asking its browser.
func (s *Server) sessionFacts(key string) SessionStatus {
	records := s.sessionRecords(key, "")
	web := s.routeOf(key)
	s.mu.Lock()
	st := SessionStatus{Key: key, Web: web, Authorization: s.modeLocked(key, time.Now()), Targets: []OwnedTarget{}}
	if ses := s.sessions[key]; ses != nil {
		a := ses.record.Authorized
		st.Title, st.ConnectorID, st.LastUsedAt = ses.title, ses.record.ConnectorID, ses.record.LastUsed
		if st.Title == "" {
			st.Title = ses.record.Title
		}
		st.Generation = a.Generation
		st.Policy = ses.record.Policy
		st.Released = slices.Clone(ses.record.Released)
		if ses.last.Operation != "" {
			last := ses.last
			st.Last = &last
		}
		if st.Authorization == AuthorizedUntil {
			st.ExpiresAt = a.Until
		}
	}
	for _, c := range s.commands {
		if c.session.Key != key || c.free {
			continue
		}
		if c.state == stateQueued {
			st.Queued++
		} else {
			st.Executing++
		}
	}
	s.mu.Unlock()
	if len(records) > 0 {
		st.ConnectorID = records[0].ConnectorID
		st.Targets = summaries(records, nil, true)
	}
	return st
}

// tabsIfLive reads the tabs of the records where their profile is connected
// and answers at once. It asks for each tab: a list of hundreds would take
// longer than the whole status may.
func (s *Server) tabsIfLive(ctx context.Context, connectorID string, records []targetRecord) []op.Tab {
	refs, err := s.profiles.bound(ctx)
	if err != nil || !slices.ContainsFunc(refs, func(r profileRef) bool { return r.ID == connectorID && r.Live }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	p, err := s.profiles.wait(ctx, connectorID)
	if err != nil {
		return nil
	}
	var tabs []op.Tab
	for _, r := range records {
		if r.State != targetOwned {
			continue
		}
		if tab, err := p.TabInfo(ctx, r.TabID); err == nil {
			tabs = append(tabs, tab)
		}
	}
	return tabs
}

// statusPatience bounds what a status asks the browser.
const statusPatience = 2 * time.Second

// sessionList is every session. The browsers are asked side by side and under
// one deadline, so that those that do not answer cost it once.
func (s *Server) sessionList(ctx context.Context) []SessionStatus {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	s.mu.Lock()
	keys := map[string]bool{}
	for k := range s.sessions {
		keys[k] = true
	}
	for _, r := range s.records {
		keys[r.Session] = true
	}
	s.mu.Unlock()
	list := make([]SessionStatus, 0, len(keys))
	for k := range keys {
		list = append(list, s.sessionFacts(k))
	}
	slices.SortFunc(list, func(a, b SessionStatus) int { return strings.Compare(a.Key, b.Key) })
	var asking sync.WaitGroup
	for i := range list {
		if len(list[i].Targets) > 0 { // at most maxTabsPerProfile for each profile
			asking.Go(func() { list[i] = s.withTabs(ctx, list[i]) })
		}
	}
	asking.Wait()
	return list
}

func (s *Server) doctor(ctx context.Context) (json.RawMessage, error) {
	profiles, err := s.profileList(ctx)
	if err != nil {
		return nil, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err)
	}
	f := DoctorFacts{Owner: s.info, Profiles: profiles, Refusals: []RefusalRecord{}, Attaches: []AttachRefusal{}, Sessions: s.sessionList(ctx), Clients: s.clientInfos()}
	if s.relay != nil {
		f.Refusals = append(f.Refusals, s.relay.Refusals()...)
		for _, c := range s.relay.Connectors() {
			f.Attaches = append(f.Attaches, c.AttachRefusals()...)
		}
		f.Pairing = s.relay.Pairing().Status()
		f.Pairing.Token = ""
	}
	s.mu.Lock()
	f.Draining = s.draining
	s.mu.Unlock()
	// Both are tried now: what failed a while ago may be mended, and an effect
	// would find out in the same way.
	if err := s.auditReady(); err != nil {
		f.Audit = err.Unwrap().Error()
	}
	if err := s.store.writable(); err != nil {
		f.Journal = err.Error()
	}
	return reply(f, nil)
}

// outcomeOf says what became of a command.
func (s *Server) outcomeOf(id string) (CommandOutcome, *op.Error) {
	out := CommandOutcome{ID: id, State: "unknown"}
	s.mu.Lock()
	if c := s.commands[id]; c != nil {
		out.State, out.Operation, out.Session = "executing", c.desc.Name, c.session.Key
		if c.state == stateQueued {
			out.State = "queued"
		}
		s.mu.Unlock()
		return out, nil
	}
	s.mu.Unlock()
	e, found, err := s.store.entry(id)
	if err != nil {
		return out, op.NotAvailable(op.StateUnreadable, "the journal cannot be read: %s", err)
	}
	if !found {
		return s.outcomeOfStep(out)
	}
	out.State, out.Operation, out.Session, out.StartedAt = "done", e.Operation, e.Session, e.StartedAt
	raw, err := wire.Encode(e.answer())
	if err != nil {
		return out, op.Reject(op.Internal, "encoding the outcome: %s", err)
	}
	out.Result = raw
	return out, nil
}

// unpair gives a profile up: its sessions' tabs are closed, then the binding
// is cleared. forget clears without asking the browser.
func (s *Server) unpair(ctx context.Context, name string, forget bool) (profileRef, error) {
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		return profileRef{}, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err)
	}
	if len(refs) == 0 {
		return profileRef{}, op.NotAvailable(op.ConnectorNotBound, "no browser profile is paired")
	}
	ref, oerr := refs[0], (*op.Error)(nil)
	if name != "" || len(refs) > 1 {
		if ref, oerr = named(name, refs); oerr != nil {
			return ref, oerr
		}
	}
	if !forget {
		if !ref.Live {
			return ref, op.NotAvailable(op.ConnectorOffline, "the browser %q is not connected, so its tabs cannot be closed; nothing was done", ref.Label).
				WithHint("Open it and try again, or use pi-chrome forget to clear the pairing without it.")
		}
		// From here on no command enters, so that what is closed below is all.
		if !s.leave(ref.ID) {
			return ref, op.Reject(op.ConnectorBusy, "the browser %q is being unpaired already", ref.Label)
		}
		defer s.stay(ref.ID)
		s.mu.Lock()
		keys := map[string]bool{}
		for _, r := range s.records {
			if r.ConnectorID == ref.ID {
				keys[r.Session] = true
			}
		}
		for _, c := range s.commands {
			if c.box != nil && c.box == s.boxes[ref.ID] {
				keys[c.session.Key] = true
			}
		}
		s.mu.Unlock()
		for key := range keys {
			if _, err := s.authorize(key, authorizationChange{mode: Locked}); err != nil {
				return ref, err
			}
			if _, err := s.cleanup(ctx, key, false); err != nil {
				return ref, err
			}
		}
	}
	if err := s.store.RemoveBinding(ctx, ref.ID); err != nil {
		return ref, writeFailed(err)
	}
	s.mu.Lock()
	for nonce, r := range s.records {
		if r.ConnectorID == ref.ID {
			delete(s.records, nonce)
			delete(s.making, nonce)
		}
	}
	for _, ses := range s.sessions {
		if ses.record.ConnectorID == ref.ID {
			ses.record.ConnectorID = ""
		}
	}
	s.mu.Unlock()
	if s.relay != nil {
		s.relay.Forget(ref.ID)
	}
	s.log.Info("profile unpaired", "connector", ref.ID, "label", ref.Label, "forget", forget)
	return ref, nil
}

// leave lets no further command enter the profile; false when it is so
// already.
func (s *Server) leave(connectorID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving[connectorID] {
		return false
	}
	s.leaving[connectorID] = true
	return true
}

func (s *Server) stay(connectorID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, connectorID)
}

// reloadExtension has the extension load itself again from its folder.
func (s *Server) reloadExtension(ctx context.Context, name string) (profileRef, error) {
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		return profileRef{}, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err)
	}
	ref, oerr := profileRef{}, (*op.Error)(nil)
	if name == "" && len(refs) == 1 {
		ref = refs[0]
	} else if ref, oerr = named(name, refs); oerr != nil {
		return ref, oerr
	}
	c, ok := s.relay.Connector(ref.ID)
	if !ok || !c.Live() {
		return ref, op.NotAvailable(op.ConnectorOffline, "the browser %q is not connected; nothing was done", ref.Label)
	}
	// The worker ends before it can answer.
	if _, err := c.Chrome(ctx, "runtime.reload"); err != nil && ctx.Err() != nil {
		return ref, noEffect(ctx, err, "the extension of %q did not reload", ref.Label)
	}
	return ref, nil
}
