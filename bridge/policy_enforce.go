package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pi-chrome/driver/op"
)

// policyOf returns the policy of a session, or nil. Policies are never changed
// in place.
func (s *Server) policyOf(key string) *Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[key]; ses != nil {
		return ses.record.Policy
	}
	return nil
}

func originDenied(tool, raw, rule string) *op.Error {
	o := originOf(raw).String()
	return op.Reject(op.OriginDenied, "the policy of this session does not allow %s (%s): %s was not started", o, rule, tool).
		WithHint("Open an allowed address (chrome_navigate), or close or release the tab. Only the user can change the policy: pi-chrome authorize --policy FILE.").
		WithDetail("origin", o).WithDetail("rule", rule)
}

func policyDenied(d op.Descriptor, rule, why string) *op.Error {
	return op.Reject(op.PolicyDenied, "the policy of this session does not allow %s: %s; nothing was done", d.Tool, why).
		WithHint("Go on without it. Only the user can change the policy: pi-chrome authorize --policy FILE.").
		WithDetail("tool", d.Tool).WithDetail("verb", string(d.Verb)).WithDetail("rule", rule)
}

// permit asks the session's policy, at the last moment before a command has an
// effect. The steps of a list are asked for one by one.
func (s *Server) permit(ctx context.Context, c *command) *op.Error {
	p := s.policyOf(c.session.Key)
	if p == nil || c.free || c.steps != nil {
		return nil
	}
	if p.ReadOnly {
		if why := c.touches(); why != "" {
			return policyDenied(c.desc, "readOnly", "the session only looks, and "+why)
		}
	}
	at, err := s.address(ctx, c, p)
	if err != nil {
		return err
	}
	if err := c.irregular(p); err != nil {
		return err
	}
	if at != "" {
		s.mu.Lock()
		c.page = auditAddress(at)
		s.mu.Unlock()
		if rule, ok := p.allowsURL(at); !ok {
			return originDenied(c.desc.Tool, at, rule)
		}
	}
	if rule, ok := p.allowsVerb(c.desc, at); !ok {
		return policyDenied(c.desc, rule, fmt.Sprintf("%q is not among what it may do on %s", c.desc.Verb, originOf(at)))
	}
	return s.pace(c, p)
}

// touches says why a command is more than looking, or "".
func (c *command) touches() string {
	switch c.desc.Verb {
	case op.VerbInput, op.VerbScript:
		return "this acts on the page"
	case op.VerbOpen:
		var in struct {
			InitScript string `json:"initScript"`
		}
		if json.Unmarshal(c.input, &in) != nil || in.InitScript != "" {
			return "initScript runs code in the page"
		}
	case op.VerbTab:
		if c.desc.Tab == op.OwnedTab && c.target.nonce == "" && c.desc.Name != "tab.claim" {
			return "this changes a tab of the user"
		}
	case op.VerbRead:
		if c.effect != op.ReadOnly {
			return "this call may change the page"
		}
	}
	return ""
}

// opened is the address that a command asks for, or "".
func (c *command) opened() (to string) {
	var in map[string]json.RawMessage
	if c.desc.Opens == "" || json.Unmarshal(c.input, &in) != nil || json.Unmarshal(in[c.desc.Opens], &to) != nil {
		return ""
	}
	return to
}

// irregular refuses an address that the browser reads otherwise than it is
// written: a pattern could be evaded by its spelling.
func (c *command) irregular(p *Policy) *op.Error {
	to := c.opened()
	if to == "" || !p.judgesAddresses() {
		return nil
	}
	_, why := parseOrigin(to)
	if why == "" {
		return nil
	}
	return policyDenied(c.desc, "address", fmt.Sprintf("the address %q cannot be judged: %s", clipText(to, 200), why)).
		WithHint("Write it as the browser would show it: https://host/path, the host in plain letters (xn--… for others), an IPv4 address as four decimal numbers, no dot at the end of the host.")
}

// address is the one that the policy looks at: what the command opens, or what
// its tab shows now. It is "" where no page is concerned.
func (s *Server) address(ctx context.Context, c *command, p *Policy) (string, *op.Error) {
	if to := c.opened(); to != "" {
		return to, nil
	}
	if c.desc.Tab == op.NoTab || c.target.id < 0 || c.desc.Tab == op.OwnedTab && c.target.nonce != "" {
		return "", nil
	}
	if !p.judgesAddresses() {
		return "", nil
	}
	tab, err := c.profile.TabInfo(ctx, c.target.id)
	if err != nil {
		return "", noEffect(ctx, err, "reading where tab %d is", c.target.id)
	}
	return tab.URL, nil
}

// pace counts the actions of the last minute. What only reads is free.
func (s *Server) pace(c *command, p *Policy) *op.Error {
	if p.ActionsPerMinute == 0 || c.effect == op.ReadOnly {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessionLocked(c.session.Key)
	ses.acted = slices.DeleteFunc(ses.acted, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if n := len(ses.acted); n >= p.ActionsPerMinute {
		wait := ses.acted[n-p.ActionsPerMinute].Add(time.Minute).Sub(now)
		return op.NotAvailable(op.RateLimited, "the policy of this session allows %d actions a minute; %s was not started", p.ActionsPerMinute, c.desc.Tool).
			WithHint("Send it again in %s.", wait.Round(time.Second)+time.Second).
			WithDetail("limit", p.ActionsPerMinute).WithDetail("retryAfterMs", wait.Milliseconds())
	}
	ses.acted = append(ses.acted, now)
	return nil
}

// checked looks where the tab is after a command. What a page that is not
// allowed shows is withheld, whatever the handler returned; a page that was
// kept from opening is told.
func (s *Server) checked(ctx context.Context, c *command, blocked func() string, res op.Result, err *op.Error) (op.Result, *op.Error) {
	p := s.policyOf(c.session.Key)
	if c.steps != nil || c.desc.Tab != op.PageTab {
		return res, err
	}
	kind := func(e *op.Error) *op.Error {
		if c.effect != op.ReadOnly {
			e.Kind = op.OutcomeUnknown
		}
		return e
	}
	if p.limitsOrigins() {
		tab, terr := s.settled(context.WithoutCancel(ctx), c, p)
		if errors.Is(terr, &op.Error{Code: op.TabGone}) {
			return res, err
		}
		if terr != nil {
			e := op.Reject(op.OriginDenied, "where tab %d is now could not be read (%s), so that what %s returned is withheld", c.target.id, terr, c.desc.Tool)
			return op.Result{}, kind(e.WithHint("Send a read (chrome_snapshot) to go on."))
		}
		if rule, ok := p.allowsURL(tab.URL); !ok {
			e := originDenied(c.desc.Tool, tab.URL, rule)
			e.Message = fmt.Sprintf("tab %d is on %s now, which the policy of this session does not allow (%s); what %s returned is withheld", c.target.id, originOf(tab.URL), rule, c.desc.Tool)
			return op.Result{}, kind(e)
		}
	}
	to := blocked()
	if to == "" {
		return res, err
	}
	rule, allowed := p.allowsURL(to)
	whose, hint := "the policy of this session", ""
	if allowed {
		whose, rule, hint = "the policy of another session that works in this tab", "of another session", "Open it in a tab of your own (chrome_tab_new), or send it again when that session's commands have ended."
	}
	if err != nil && c.desc.Verb == op.VerbOpen {
		e := originDenied(c.desc.Tool, to, rule)
		e.Message = fmt.Sprintf("%s was led on to %s, which %s does not allow (%s): that was not requested, and tab %d shows what it showed before", c.desc.Tool, originOf(to), whose, rule, c.target.id)
		e.Hint = cmp.Or(hint, e.Hint)
		return op.Result{}, kind(e)
	}
	if err == nil {
		res.Text = op.CapText(res.Text+fmt.Sprintf("\n\nThe page tried to open %s, which %s does not allow; it was kept from it.", originOf(to), whose), op.MaxText)
	}
	return res, err
}

// settleTime is how long a tab may show its former address after the page
// itself has told of the new one: the browser takes it over a moment later.
const settleTime = 500 * time.Millisecond

// settled reads where a command's tab is. A denied address is believed only
// when it stays.
func (s *Server) settled(ctx context.Context, c *command, p *Policy) (op.Tab, error) {
	for end := time.Now().Add(settleTime); ; {
		tab, err := c.profile.TabInfo(ctx, c.target.id)
		if err != nil || time.Now().After(end) {
			return tab, err
		}
		if _, ok := p.allowsURL(tab.URL); ok {
			return tab, nil
		}
		pause := time.NewTimer(swapPause)
		select {
		case <-pause.C:
		case <-s.done:
			pause.Stop()
			return tab, nil
		}
	}
}

// mask hides what a policy keeps from a session in a list of tabs.
func (p *Policy) mask(tabs []op.Tab) {
	for i := range tabs {
		p.maskPage(&tabs[i].Title, &tabs[i].URL)
	}
}

// maskPage hides the title and the address of a page that is not allowed.
func (p *Policy) maskPage(title, address *string) {
	if rule, ok := p.allowsURL(*address); !ok {
		*title, *address = "(not allowed: "+rule+")", ""
	}
}

// maskSession hides what a policy keeps from a session in what it is told of
// itself.
func (p *Policy) maskSession(st *SessionStatus) {
	for i := range st.Targets {
		t := &st.Targets[i]
		p.maskPage(&t.Title, &t.URL)
		if t.Tab != nil {
			p.maskPage(&t.Tab.Title, &t.Tab.URL)
		}
	}
	for i := range st.Released {
		p.maskPage(&st.Released[i].Title, &st.Released[i].URL)
	}
}
