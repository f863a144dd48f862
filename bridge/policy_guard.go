package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"pi-chrome/driver/op"
)

// guardTime bounds the answer to one paused request.
const guardTime = 10 * time.Second

// guardLinger is how long a policy counts in a tab of the user after the
// command has ended: what the command began may be requested a moment later.
const guardLinger = 2 * time.Second

// maxGuardUses bounds the commands that one guard counts.
const maxGuardUses = 4 * maxAdmitted

// guard keeps the main frame of a tab from requesting what a policy does not
// allow, each address of a redirect included: the request is paused before it
// leaves the browser, and fails or goes on by the policies of that moment. They
// are those of the session that owns the tab, and of every session with a
// command in flight in it.
type guard struct {
	tab  *Tab
	stop func()

	mu         sync.Mutex
	attachment int // for which the domain is on
	uses       []*guardUse
}

// guardUse is one command that works in the tab, or did a moment ago. guard.mu
// guards it.
type guardUse struct {
	session string
	ended   bool // it only lingers
	blocked string
}

// take returns what was blocked since the last take.
func (g *guard) take(u *guardUse) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	to := u.blocked
	u.blocked = ""
	return to
}

// guarded has the guard of a command's tab count the command, and turns it on
// where a policy limits origins. The debugger is attached.
func (s *Server) guarded(ctx context.Context, c *command) (blocked func() string, err error) {
	if c.desc.Tab != op.PageTab {
		return func() string { return "" }, nil
	}
	return s.tabs.guard(ctx, s, c.target.tab, c)
}

func (relayTabs) guard(ctx context.Context, s *Server, t *Tab, c *command) (func() string, error) {
	limits := s.policyOf(c.session.Key).limitsOrigins()
	s.mu.Lock()
	g := s.guards[t]
	if g == nil && !limits {
		s.mu.Unlock()
		return func() string { return "" }, nil
	}
	if g == nil {
		g = &guard{tab: t}
		s.guards[t] = g
		g.stop = t.Listen(func(ev op.Event) { g.event(s, ev) })
	}
	s.mu.Unlock()
	u, err := g.enter(c.session.Key)
	if err != nil {
		return nil, err
	}
	s.wg.Go(func() {
		<-c.settled
		g.mu.Lock()
		u.ended = true
		g.mu.Unlock()
		linger := time.NewTimer(guardLinger)
		defer linger.Stop()
		select {
		case <-linger.C:
		case <-s.done:
		}
		g.leave(u)
	})
	blocked := func() string { return g.take(u) }
	n := t.Attachment()
	g.mu.Lock()
	on := g.attachment == n
	g.mu.Unlock()
	if on || !limits {
		return blocked, nil
	}
	type pattern struct {
		URLPattern   string `json:"urlPattern"`
		ResourceType string `json:"resourceType"`
	}
	if err := t.Call(ctx, "Fetch.enable", map[string]any{"patterns": []pattern{{"*", "Document"}}}, &struct{}{}); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.attachment = n
	g.mu.Unlock()
	return blocked, nil
}

// enter counts a command of the session until leave.
func (g *guard) enter(session string) (*guardUse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// The session counts by this one from now on.
	g.uses = slices.DeleteFunc(g.uses, func(o *guardUse) bool { return o.ended && o.session == session })
	if len(g.uses) >= maxGuardUses {
		return nil, fmt.Errorf("%d commands work in it already; send it again in a moment", len(g.uses))
	}
	u := &guardUse{session: session}
	g.uses = append(g.uses, u)
	return u, nil
}

func (g *guard) leave(u *guardUse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uses = slices.DeleteFunc(g.uses, func(o *guardUse) bool { return o == u })
}

// denies reports whether a policy that counts in the tab now does not allow
// the address.
func (g *guard) denies(s *Server, address string) bool {
	g.mu.Lock()
	sessions := make([]string, 0, len(g.uses)+1)
	for _, u := range g.uses {
		sessions = append(sessions, u.session)
	}
	g.mu.Unlock()
	sessions = append(sessions, s.ownerOf(g.tab)...)
	slices.Sort(sessions)
	return slices.ContainsFunc(slices.Compact(sessions), func(session string) bool {
		_, ok := s.policyOf(session).allowsURL(address)
		return !ok
	})
}

// ownerOf returns the session that owns the tab, if there is one.
func (s *Server) ownerOf(t *Tab) []string {
	connector, id := t.conn.ID(), t.Key().TabID
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		// Of a tab with a new id the record hears a moment later.
		if r.ConnectorID == connector && r.State == targetOwned && t.conn.MovedTo(r.TabID) == id {
			return []string{r.Session}
		}
	}
	return nil
}

// block notes for every command in the tab what it was kept from.
func (g *guard) block(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.uses {
		u.blocked = address
	}
}

func (g *guard) event(s *Server, ev op.Event) {
	if ev.Method != "Fetch.requestPaused" || ev.SessionID != "" {
		return
	}
	var p struct {
		RequestID string `json:"requestId"`
		FrameID   string `json:"frameId"`
		Request   struct {
			URL string `json:"url"`
		} `json:"request"`
	}
	if json.Unmarshal(ev.Params, &p) != nil {
		return
	}
	// The main frame of a tab has the id of its target.
	stop := p.FrameID == g.tab.Key().TargetID && g.denies(s, p.Request.URL)
	if stop {
		g.block(p.Request.URL)
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, guardTime)
		defer cancel()
		method, params := "Fetch.continueRequest", map[string]any{"requestId": p.RequestID}
		if stop {
			// The tab stays on the page that it shows.
			method, params["errorReason"] = "Fetch.failRequest", "Aborted"
			s.log.Info("kept a tab from an origin", "tab", g.tab.Key().TabID, "origin", originOf(p.Request.URL).String())
		}
		if err := g.tab.Call(ctx, method, params, &struct{}{}); err != nil {
			s.log.Debug("answering a paused request", "method", method, "err", err)
		}
	})
}

// unguard drops the guard of a tab that is forgotten.
func (s *Server) unguard(connector string, tabID int) {
	s.mu.Lock()
	var gone []*guard
	for t, g := range s.guards {
		if t.conn != nil && t.conn.ID() == connector && t.Key().TabID == tabID {
			gone = append(gone, g)
			delete(s.guards, t)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		g.stop()
	}
}
