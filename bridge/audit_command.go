package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// record appends to the audit log. An entry that cannot be written stops
// every later effect until one can be; before the next one stands that some are
// missing.
func (s *Server) record(e AuditEntry) {
	var err error
	if oerr := s.auditReady(); oerr != nil {
		err = oerr
	} else if err = s.audit.add(e); err != nil {
		s.auditDown.Store(true)
	}
	if err == nil {
		s.meter.auditLines.Add(1)
	} else {
		s.meter.auditErrors.Add(1)
		s.log.Error("writing the audit log", "event", e.Event, "command", e.ID, "err", err)
	}
}

// auditReady refuses effects while the audit log takes no entry.
func (s *Server) auditReady() *op.Error {
	if !s.auditDown.Load() {
		return nil
	}
	if err := s.audit.add(AuditEntry{Event: "resumed", Note: "entries before this one may be missing: they could not be written"}); err != nil {
		return op.NotAvailable(op.StateUnreadable, "the audit log in %s cannot be written: %s. Nothing was done, and nothing that may have an effect is done before it can", s.opts.StateDir, err).
			WithHint("Make the folder and its audit*.log files yours, and see that their disk has space; then send it again. What only reads works meanwhile.").WithCause(err)
	}
	s.auditDown.Store(false)
	return nil
}

// auditCommand notes a command that is over.
func (s *Server) auditCommand(c *command, r wire.Result, code string, watchers map[*client]int) {
	e := AuditEntry{Event: "command", ID: c.id, Session: c.session.Key, Operation: c.desc.Name, Input: auditInput(c.input), Outcome: code, ElapsedMs: r.ElapsedMs}
	s.mu.Lock()
	profile, target, page := c.profile, c.target, c.page
	s.mu.Unlock()
	e.Origin = auditOrigin(c, r, page)
	if profile != nil {
		e.Connector = profile.ID()
	}
	if c.desc.Tab != op.NoTab && target.tab != nil {
		e.TabID = target.id
	}
	for w := range watchers {
		e.Client = append(e.Client, w.name)
	}
	slices.Sort(e.Client)
	s.record(e)
}

// auditRefused notes a command that does not enter. What the caller made up,
// such as a name that no operation has, is not kept.
func (s *Server) auditRefused(from *client, w wire.Command, operation string, why *op.Error) {
	e := AuditEntry{Event: "command", ID: clipText(w.ID, maxAuditID), Client: []string{from.name}, Operation: operation, Outcome: string(why.Kind) + "/" + string(why.Code)}
	if ses, err := checkSession(w.Session); err == nil {
		e.Session = ses.Key
	}
	if why.Kind != op.Invalid && operation != "unknown" && s.opts.Handler.Validate(operation, w.Input) == nil {
		e.Input = auditInput(w.Input)
	}
	s.record(e)
}

// maxAuditID bounds a caller's text in the log, in characters.
const maxAuditID = 100

// auditedRequests are the requests that change something, and whether they may
// change a page: those need a log that takes entries. An authorization that
// succeeds has an entry of its own.
var auditedRequests = map[string]struct{ page bool }{
	"authorize": {}, "revoke": {},
	"cleanup": {true}, "cleanup-all": {true}, "unpair": {true}, "forget": {},
	"web.claim": {}, "web.detach": {}, "extension.reload": {}, "shutdown": {},
	"pairing.start": {}, "pairing.pick": {}, "pairing.cancel": {},
}

// admitted answers a request, and notes one that changes something before its
// answer is told.
func (s *Server) admitted(ctx context.Context, from *client, r wire.Request) (json.RawMessage, error) {
	kind, audited := auditedRequests[r.Method]
	if !audited {
		return s.admin(ctx, r.Method, r.Params)
	}
	if kind.page {
		if err := s.auditReady(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	value, err := s.admin(ctx, r.Method, r.Params)
	if err == nil && (r.Method == "authorize" || r.Method == "revoke") {
		return value, nil
	}
	e := AuditEntry{Event: "request", ID: clipText(r.ID, maxAuditID), Client: []string{from.name}, Operation: r.Method, Outcome: "ok", ElapsedMs: time.Since(start).Milliseconds()}
	var about struct {
		Session   string `json:"session"`
		Connector string `json:"connector"` // an id, or the name that the user gave the profile
	}
	if json.Unmarshal(r.Params, &about) == nil {
		e.Session, e.Connector = clipText(about.Session, maxSessionKey), clipText(about.Connector, maxAuditID)
	}
	if err != nil {
		why := op.AsError(err)
		e.Outcome = string(why.Kind) + "/" + string(why.Code)
	}
	e.Note = requestNote(r.Method, value)
	s.record(e)
	return value, err
}

// requestNote says what the answer to a request tells beyond "ok".
func requestNote(method string, value json.RawMessage) string {
	switch method {
	case "cleanup", "cleanup-all":
		var done Cleanup
		if json.Unmarshal(value, &done) == nil {
			return fmt.Sprintf("closed %s, left %s to the user, cleared %s", tabsText(done.ClosedTabIDs), tabsText(done.ReleasedTabIDs), plural(done.StaleOwnershipsCleared, "stale record"))
		}
	case "unpair", "forget":
		var ref profileRef
		if json.Unmarshal(value, &ref) == nil {
			return "profile " + ref.ID
		}
	}
	return ""
}

// tabsText is "2 tabs (3, 4)".
func tabsText(ids []int) string {
	if len(ids) == 0 {
		return "no tab"
	}
	var list []string
	for _, id := range ids {
		list = append(list, strconv.Itoa(id))
	}
	return plural(len(ids), "tab") + " (" + strings.Join(list, ", ") + ")"
}
