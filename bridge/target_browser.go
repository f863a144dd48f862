package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// SessionBrowser is what a session may see and do in its profile besides the
// one tab of a call. It belongs to one call.
type SessionBrowser struct {
	srv     *Server
	profile profile // nil when no profile is connected
	session op.Session
	command *command
}

func (b *SessionBrowser) live() (profile, *op.Error) {
	if b.profile == nil {
		return nil, op.NotAvailable(op.ConnectorOffline, "no browser is connected; nothing was done").
			WithHint("Open the browser with the pi-chrome extension, or run pi-chrome onboard.")
	}
	return b.profile, nil
}

// Tabs lists all tabs of the profile. Owned marks those of this session.
func (b *SessionBrowser) Tabs(ctx context.Context) ([]op.Tab, error) {
	p, oerr := b.live()
	if oerr != nil {
		return nil, oerr
	}
	tabs, err := p.Tabs(ctx)
	if err != nil {
		return nil, listFailed(ctx, err)
	}
	b.srv.policyOf(b.session.Key).mask(tabs)
	for i := range tabs {
		own, _ := b.srv.holder(p.ID(), tabs[i].ID, b.session.Key)
		tabs[i].Owned = own != nil
	}
	return tabs, nil
}

// NewTab makes a hidden tab at about:blank that the session owns, attached,
// in the session's tab group. groupColor "" keeps the group's color.
func (b *SessionBrowser) NewTab(ctx context.Context, groupColor string) (*Tab, op.Tab, error) {
	p, oerr := b.live()
	if oerr != nil {
		return nil, op.Tab{}, oerr
	}
	t, info, oerr := b.srv.allocate(b.session, p, groupColor)
	if oerr != nil {
		return nil, op.Tab{}, afterOpening(t.id, oerr)
	}
	if err := b.srv.tabs.attach(ctx, t.tab); err != nil {
		return nil, op.Tab{}, afterOpening(t.id, op.AsError(err))
	}
	if _, err := b.srv.tabs.guard(ctx, b.srv, t.tab, b.command); err != nil {
		return nil, op.Tab{}, afterOpening(t.id, op.AsError(err))
	}
	info.Owned, info.URL, info.Title = true, "about:blank", ""
	return t.tab, info, nil
}

// afterOpening is the error of a command that was to open a tab, when it has,
// or may have: sent again it would open a second one. Id 0 is a tab that
// nobody has seen.
func afterOpening(id int, err *op.Error) *op.Error {
	switch {
	case id != 0:
		return op.Unknown(err.Code, "tab %d was opened for the session, but then: %s", id, strings.TrimSuffix(err.Message, ". Nothing was done")).
			WithHint("Look before you repeat it: a second chrome_tab_new opens a second tab. chrome_tab_list tells which tabs there are.").
			WithDetail("tabId", id).WithCause(err)
	case err.Code == op.AllocationPending:
		return op.Unknown(err.Code, "%s", err.Message).
			WithHint("Look before you repeat it: chrome_tab_list tells whether there is a new tab.").WithCause(err)
	}
	return err
}

// CloseTab closes the tab that the call's target was resolved to when it
// entered, and returns its id. target must be the call's own.
func (b *SessionBrowser) CloseTab(ctx context.Context, target op.Target) (int, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return 0, oerr
	}
	if err := p.RemoveTabs(ctx, t.id); err != nil {
		if _, ok := errors.AsType[*op.ProtocolError](err); ok {
			return 0, op.Reject(op.TabGone, "tab %d could not be closed: %s", t.id, err).WithCause(err)
		}
		if errors.Is(err, op.ErrNotDelivered) || errors.Is(err, &op.Error{Code: op.TabGone}) {
			return 0, noEffect(ctx, err, "tab %d could not be closed", t.id)
		}
		return 0, err // it may be closed
	}
	b.srv.tabRemoved(p.ID(), t.id)
	return t.id, nil
}

// Status says how the bridge, the profiles and the session stand: a [Status]
// as JSON, without the pages that the session's policy does not allow.
func (b *SessionBrowser) Status(ctx context.Context) (json.RawMessage, error) {
	st, err := b.srv.status(ctx, b.session.Key)
	if err != nil {
		return nil, err
	}
	b.srv.policyOf(b.session.Key).maskSession(&st.Session)
	return json.Marshal(st)
}

// anyProfile is the profile that a command without need of one would get, or
// nil. It does not wait.
func (s *Server) anyProfile(c *command) profile {
	refs, err := s.profiles.bound(c.ctx)
	if err != nil {
		return nil
	}
	ref, again, oerr := s.pick(c, refs)
	if oerr != nil || again > 0 || !ref.Live {
		return nil
	}
	// It was live a moment ago; where it has just gone, nobody waits for it.
	ctx, cancel := context.WithTimeout(c.ctx, 50*time.Millisecond)
	defer cancel()
	p, err := s.profiles.wait(ctx, ref.ID)
	if err != nil {
		return nil
	}
	return p
}

var groupColors = []string{"blue", "green", "purple", "cyan", "orange", "pink", "yellow", "red", "grey"}

func groupColor(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return groupColors[h.Sum32()%uint32(len(groupColors))]
}

// group puts a tab into the session's tab group, making the group when there
// is none. Groups are for the eye only: nothing is decided by them.
func (s *Server) group(ctx context.Context, key string, p profile, windowID, tabID int, color string) error {
	s.mu.Lock()
	ses := s.sessionLocked(key)
	id, known := ses.groups[p.ID()]
	title := ses.title
	s.mu.Unlock()
	if !known {
		// An owner before this one may have made it.
		id, known = s.groupOf(ctx, key, p, tabID)
	}
	if title == "" {
		title = "pi-chrome"
		if key != "default" {
			title += ": " + clipText(strings.TrimPrefix(key, "session:"), 40)
		}
	}
	if known {
		if _, err := p.GroupTabs(ctx, id, windowID, tabID); err == nil {
			s.mu.Lock()
			ses.groups[p.ID()] = id
			s.mu.Unlock()
			if color == "" {
				return nil
			}
			_, err = p.UpdateGroup(ctx, id, GroupUpdate{Color: color})
			return err
		}
		// The user dissolved it, or moved it to another window.
	}
	id, err := p.GroupTabs(ctx, -1, windowID, tabID)
	if err != nil {
		return fmt.Errorf("making the group: %w", err)
	}
	s.mu.Lock()
	ses.groups[p.ID()] = id
	s.mu.Unlock()
	if color == "" {
		color = groupColor(key)
	}
	if _, err := p.UpdateGroup(ctx, id, GroupUpdate{Title: title, Color: color}); err != nil {
		return fmt.Errorf("naming the group: %w", err)
	}
	return nil
}

// groupOf finds the session's group by a tab that the session made, other than
// the given one.
func (s *Server) groupOf(ctx context.Context, key string, p profile, except int) (id int, known bool) {
	for _, r := range s.sessionRecords(key, p.ID()) {
		if r.State != targetOwned || r.Claimed || r.TabID == except {
			continue
		}
		if tab, err := p.TabInfo(ctx, r.TabID); err == nil && tab.GroupID >= 0 {
			return tab.GroupID, true
		}
	}
	return -1, false
}

// relayTabs is the tabPort of real tabs.
type relayTabs struct{}

func (relayTabs) key(t *Tab) op.TabKey                     { return t.Key() }
func (relayTabs) attach(ctx context.Context, t *Tab) error { return t.Attach(ctx) }
func (relayTabs) pin(t *Tab, what string) (unpin func())   { return t.Pin(what) }
func (relayTabs) detach(ctx context.Context, t *Tab) error { return t.Detach(ctx) }

func (relayTabs) leave(ctx context.Context, t *Tab) error {
	if err := t.Attach(ctx); err != nil {
		return err
	}
	// The history may be cut only after the blank page has committed.
	arrived := make(chan struct{}, 1)
	stop := t.Listen(func(ev op.Event) {
		if ev.SessionID != "" || ev.Method != "Page.frameNavigated" {
			return
		}
		var p struct {
			Frame struct {
				ParentID string `json:"parentId"`
				URL      string `json:"url"`
			} `json:"frame"`
		}
		if json.Unmarshal(ev.Params, &p) == nil && p.Frame.ParentID == "" && p.Frame.URL == "about:blank" {
			select {
			case arrived <- struct{}{}:
			default:
			}
		}
	})
	defer stop()
	type none struct{}
	if err := t.Call(ctx, "Page.enable", none{}, &none{}); err != nil {
		return err
	}
	var nav struct {
		ErrorText string `json:"errorText"`
	}
	if err := t.Call(ctx, "Page.navigate", map[string]string{"url": "about:blank"}, &nav); err != nil {
		return err
	}
	if nav.ErrorText != "" {
		return fmt.Errorf("opening about:blank: %s", nav.ErrorText)
	}
	select {
	case <-arrived:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// The renderer tells of the new page a moment before the browser has made
	// it the tab's own; until then Chrome refuses to touch the history.
	for {
		err := t.Call(ctx, "Page.resetNavigationHistory", none{}, &none{})
		if p, ok := errors.AsType[*op.ProtocolError](err); !ok || !strings.Contains(p.Message, "Not attached to an active page") {
			return err
		}
		pause := time.NewTimer(swapPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// swapPause is between two looks at whether a tab has taken its new page over.
const swapPause = 5 * time.Millisecond
