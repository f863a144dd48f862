package bridge

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of what a popup is told.
const (
	shownSessions = 10
	shownReceipts = 12
	keptReceipts  = 256 // of all profiles together
)

// receipt is a command that is over, with the profile that it was for.
type receipt struct {
	connectorID string
	wire.ProjectedReceipt
}

// receiptLocked notes a command that is over. Of a list its steps are noted.
func (s *Server) receiptLocked(c *command, r wire.Result) {
	if len(c.steps) > 0 {
		return
	}
	rec := receipt{ProjectedReceipt: wire.ProjectedReceipt{At: time.Now().Round(time.Millisecond).UTC(), Session: c.session.Key,
		Operation: c.desc.Name, Title: c.desc.Title, Outcome: "done", ElapsedMs: r.ElapsedMs}}
	if c.profile != nil {
		rec.connectorID = c.profile.ID()
	} else if ses := s.sessions[c.session.Key]; ses != nil {
		rec.connectorID = ses.record.ConnectorID
	}
	if c.target.tab != nil {
		rec.TabID = c.target.id
	}
	if r.Error != nil {
		rec.Outcome, rec.Code, rec.Message = r.Error.Kind, r.Error.Code, clipText(r.Error.Message, 200)
	}
	s.receipts = append(s.receipts, rec)
	s.receipts = s.receipts[max(0, len(s.receipts)-keptReceipts):]
}

// receiptRefused notes a command that did not enter.
func (s *Server) receiptRefused(w wire.Command, err *op.Error) {
	desc, known := s.opts.Handler.Describe(w.Operation)
	ses, oerr := checkSession(w.Session)
	if !known || oerr != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiptLocked(&command{desc: desc, session: ses}, wire.Result{Error: failureOf(err)})
}

// popupFacts is what a projection is made of, read in one moment.
type popupFacts struct {
	connector    ConnectorInfo
	refused      *RefusalRecord // of the connector's worker, the latest, while it is not connected
	draining     bool
	broken       string // why nothing that has an effect is done; "" for nothing
	extensionDir string
	stopped      time.Time
	sessions     []SessionStatus // of the profile
	elsewhere    int             // sessions of other profiles that may act
	receipts     []wire.ProjectedReceipt
}

// popupFacts reads what the popup of a profile may know. Tabs have their titles
// where the browser tells them at once.
func (s *Server) popupFacts(ctx context.Context, c *Connector) popupFacts {
	f := popupFacts{connector: c.Info(), extensionDir: s.opts.ExtensionDir}
	id := f.connector.ID
	if !f.connector.Live {
		for _, r := range s.relay.Refusals() {
			if r.ConnectorID == id && r.Path == wire.ScopeConnector.Path() && r.At.After(f.connector.LastSeenAt) {
				f.refused = &r
				break
			}
		}
	}
	if s.auditDown.Load() {
		f.broken = "The audit log cannot be written, so that nothing with an effect is done. Run pi-chrome doctor."
	}
	now := time.Now()
	s.mu.Lock()
	f.draining, f.stopped = s.draining, s.stopped
	homes := map[string]string{} // of each session
	for key, ses := range s.sessions {
		homes[key] = ses.record.ConnectorID
	}
	for _, r := range s.records {
		homes[r.Session] = r.ConnectorID
	}
	var mine []string
	for key, home := range homes {
		switch {
		case home == id:
			mine = append(mine, key)
		case home != "" && s.modeLocked(key, now) != Locked:
			f.elsewhere++
		}
	}
	for _, r := range slices.Backward(s.receipts) {
		if r.connectorID == id && len(f.receipts) < shownReceipts {
			f.receipts = append(f.receipts, r.ProjectedReceipt)
		}
	}
	s.mu.Unlock()
	for _, key := range mine {
		f.sessions = append(f.sessions, s.sessionFacts(key))
	}
	slices.SortFunc(f.sessions, func(a, b SessionStatus) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Targets)), min(1, len(a.Targets))), b.LastUsedAt.Compare(a.LastUsedAt), strings.Compare(a.Key, b.Key))
	})
	// Titles only of what is shown, and all of them together in a short time.
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	for i := range f.sessions[:min(len(f.sessions), shownSessions)] {
		f.sessions[i] = s.withTabs(ctx, f.sessions[i])
	}
	return f
}

// project is the status of the owner as the popup of one profile sees it.
func project(f popupFacts) wire.Projection {
	p := wire.Projection{
		Kind: wire.ProjectionKind, Version: wire.ProjectionVersion, State: "ready", Bridge: "running",
		Connector:          &wire.ProjectedConnector{ID: f.connector.ID, Label: f.connector.Label, Connected: f.connector.Live},
		ExtensionDirectory: f.extensionDir, StoppedAt: f.stopped.UTC(), DebuggerCanceled: f.connector.Canceled,
		Sessions: []wire.ProjectedSession{}, Elsewhere: f.elsewhere, Receipts: []wire.ProjectedReceipt{},
	}
	switch {
	case f.draining:
		p.State, p.Bridge = "offline", "stopped"
	case f.broken != "":
		p.State, p.Bridge, p.ErrorMessage = "error", "error", f.broken
	case f.connector.Live:
	case f.refused != nil:
		p.State, p.ErrorMessage = "error", f.refused.Message
	default:
		p.State = "waiting-for-extension"
	}
	if !f.connector.Live {
		p.Connector.LastSeenAt = f.connector.LastSeenAt.UTC()
	}
	shown := f.sessions[:min(len(f.sessions), shownSessions)]
	p.MoreSessions = len(f.sessions) - len(shown)
	for _, st := range shown {
		p.Sessions = append(p.Sessions, projectSession(st))
	}
	p.Receipts = append(p.Receipts, f.receipts...)
	return p
}

func projectSession(st SessionStatus) wire.ProjectedSession {
	out := wire.ProjectedSession{Key: st.Key, Title: st.Title, Authorization: string(st.Authorization), ExpiresAt: st.ExpiresAt.UTC(),
		Queued: st.Queued, Executing: st.Executing, LastUsedAt: st.LastUsedAt.UTC(), Tabs: []wire.ProjectedTab{}}
	for _, t := range st.Targets {
		tab := wire.ProjectedTab{ID: -1, State: t.State, Holder: "session", Title: clipText(t.Title, 120), URL: clipText(t.URL, 300), Claimed: t.Claimed}
		if t.TabID != nil {
			tab.ID = *t.TabID
		}
		if !t.TakenAt.IsZero() {
			tab.Holder = holderUser
		}
		out.Tabs = append(out.Tabs, tab)
	}
	return out
}
