package bridge

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"pi-chrome/driver/op"
)

// guardTime bounds the answer to one paused request.
const guardTime = 10 * time.Second

// guard keeps the main frame of a tab from requesting what a policy does not
// allow, each address of a redirect included: the request is paused before it
// leaves the browser, and fails or goes on by the policy of that moment.
type guard struct {
	tab    *Tab
	policy func() *Policy
	stop   func()

	mu         sync.Mutex
	attachment int // for which the domain is on
	blocked    string
}

// take returns what was blocked since the last take.
func (g *guard) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	to := g.blocked
	g.blocked = ""
	return to
}

// guarded turns the guard of a command's tab on where the session's policy
// limits origins. The debugger is attached.
func (s *Server) guarded(ctx context.Context, c *command) (blocked func() string, err error) {
	none := func() string { return "" }
	if c.desc.Tab != op.PageTab || !s.policyOf(c.session.Key).limitsOrigins() {
		return none, nil
	}
	return s.tabs.guard(ctx, s, c.target.tab, c.session.Key)
}

func (relayTabs) guard(ctx context.Context, s *Server, t *Tab, key string) (func() string, error) {
	s.mu.Lock()
	g := s.guards[t]
	if g == nil {
		g = &guard{tab: t}
		s.guards[t] = g
		g.stop = t.Listen(func(ev op.Event) { g.event(s, ev) })
	}
	s.mu.Unlock()
	g.mu.Lock()
	g.policy = func() *Policy { return s.policyOf(key) }
	on := g.attachment == t.Attachment()
	g.blocked = ""
	g.mu.Unlock()
	if on {
		return g.take, nil
	}
	type pattern struct {
		URLPattern   string `json:"urlPattern"`
		ResourceType string `json:"resourceType"`
	}
	n := t.Attachment()
	if err := t.Call(ctx, "Fetch.enable", map[string]any{"patterns": []pattern{{"*", "Document"}}}, &struct{}{}); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.attachment = n
	g.mu.Unlock()
	return g.take, nil
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
	g.mu.Lock()
	policy := g.policy()
	_, ok := policy.allowsURL(p.Request.URL)
	// The main frame of a tab has the id of its target.
	stop := !ok && p.FrameID == g.tab.Key().TargetID
	if stop {
		g.blocked = p.Request.URL
	}
	g.mu.Unlock()
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
