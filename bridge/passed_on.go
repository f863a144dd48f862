package bridge

import (
	"context"
	"time"

	"pi-chrome/driver/op"
)

// passedOnLocked says why a command may not act on the tab that it was
// resolved to when it entered: the tab is not its session's any more, or came
// to another one, while the command waited for its turn. nil when all is as it
// was.
func (s *Server) passedOnLocked(c *command) *op.Error {
	t := c.target
	if t.tab == nil {
		return nil
	}
	if r := s.records[t.nonce]; r != nil {
		switch {
		case !r.TakenAt.IsZero():
			return heldError(*r)
		case s.ending[t.nonce]:
			return endedError(*r)
		}
		return nil // stale ones are told by the debugger session, with the reason
	}
	if r := s.ownedLocked(c.profile.ID(), t.id); r != nil && r.Session != c.session.Key {
		return heldError(*r)
	}
	if t.nonce == "" {
		return nil // of the user, then and now
	}
	return op.Reject(op.AutomationOwnershipLost, "tab %d was closed, or given back to the user, while %s waited for it; nothing was done", t.id, c.desc.Tool).
		WithHint("List the tabs (chrome_tab_list): claim it again where it is still there, or open another (chrome_tab_new).").
		WithDetail("reason", "released").WithDetail("recordedTabId", t.id)
}

// passOn ends what other sessions have under way on a tab that has come to the
// session of the record.
func (s *Server) passOn(ctx context.Context, r targetRecord) {
	s.endOn(ctx, heldError(r), func(c *command) bool {
		return c.target.tab != nil && c.target.id == r.TabID && c.session.Key != r.Session && c.profile.ID() == r.ConnectorID
	})
}

// vacate ends what a session has under way on a tab that it is made to leave.
// Until over is called, nothing of it begins there.
func (s *Server) vacate(ctx context.Context, r targetRecord) (over func()) {
	s.mu.Lock()
	s.ending[r.Nonce] = true
	s.mu.Unlock()
	s.endOn(ctx, endedError(r), func(c *command) bool { return c.target.nonce == r.Nonce })
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ending, r.Nonce)
	}
}

// endedError says that a session has to leave its tab.
func endedError(r targetRecord) *op.Error {
	return op.Reject(op.AutomationOwnershipLost, "the work of session %q was ended (cleanup), and it left tab %d; nothing was done", r.Session, r.TabID).
		WithHint("Open another tab (chrome_tab_new) if the work is to go on.").WithDetail("reason", "cleanup").WithDetail("recordedTabId", r.TabID)
}

// endOn ends the commands that are meant, and waits until nothing of them
// runs, but for endPatience at most.
func (s *Server) endOn(ctx context.Context, why *op.Error, meant func(*command) bool) {
	s.mu.Lock()
	hit := s.commandsOfLocked(meant)
	s.mu.Unlock()
	s.end(hit, func(*command) *op.Error { return why })
	awaitSettled(ctx, hit)
}

// endPatience is how long commands that were told to end may take: what they
// pressed is let go of meanwhile.
const endPatience = 5 * time.Second

// awaitSettled waits until nothing of the commands runs, or for endPatience.
func awaitSettled(ctx context.Context, commands []*command) {
	over := time.NewTimer(endPatience)
	defer over.Stop()
	for _, c := range commands {
		select {
		case <-c.settled:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
