package bridge

import (
	"slices"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// record appends to the audit log. An entry that cannot be written stops
// every later effect until one can be.
func (s *Server) record(e AuditEntry) {
	err := s.audit.add(e)
	s.auditDown.Store(err != nil)
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
		return writeFailed(err)
	}
	s.auditDown.Store(false)
	return nil
}

// auditCommand notes a command that is over.
func (s *Server) auditCommand(c *command, r wire.Result, code string, watchers map[*client]int) {
	e := AuditEntry{Event: "command", ID: c.id, Session: c.session.Key, Operation: c.desc.Name, Input: auditInput(c.input), Outcome: code, ElapsedMs: r.ElapsedMs}
	if c.profile != nil {
		e.Connector = c.profile.ID()
	}
	if c.desc.Tab != op.NoTab && c.target.tab != nil {
		e.TabID = c.target.id
	}
	for w := range watchers {
		e.Client = append(e.Client, w.name)
	}
	slices.Sort(e.Client)
	s.record(e)
}
