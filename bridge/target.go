package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Limits of owned tabs and of what errors list.
const (
	maxTabsPerSession = 5
	maxTabsPerProfile = 256
	maxListedTabs     = 20
	browserCallTime   = 20 * time.Second // for one step of a tab's allocation
)

// Reasons of stale records (contract §1.6).
const (
	staleEpoch   = "epoch-changed"
	staleMissing = "tab-missing"
	staleOutside = "tab-outside-regular-profile"
)

// tabRef names a tab within one owner.
type tabRef struct {
	connector string
	id        int
}

// resolvedTab is the tab of one command, resolved once when it entered.
type resolvedTab struct {
	id    int // -1 for none
	tab   *Tab
	given op.Target
	nonce string // of the session's own record; "" for a tab of the user
}

// tabPort is what target.go does with a debugged tab; tests bring their own.
type tabPort interface {
	key(t *Tab) op.TabKey
	attach(ctx context.Context, t *Tab) error
	// pin keeps the debugger of the tab until unpin is called.
	pin(t *Tab, what string) (unpin func())
	// detach gives the debugger back, and with it all that was turned on.
	detach(ctx context.Context, t *Tab) error
	// guard keeps the tab from what the policy of the command's session does
	// not allow, until the command has ended, and returns what tells the
	// address that was blocked since.
	guard(ctx context.Context, s *Server, t *Tab, c *command) (blocked func() string, err error)
	// leave takes a new tab from the bootstrap page to about:blank, and the
	// bootstrap page out of its history.
	leave(ctx context.Context, t *Tab) error
}

// resolve returns the tab that a command is for. Nothing after it looks at
// the selector again.
func (s *Server) resolve(c *command, p profile) (resolvedTab, *op.Error) {
	ctx, cancel := context.WithDeadlineCause(c.ctx, c.deadline, endsWith(context.DeadlineExceeded, overdue(c)))
	defer cancel()
	var in struct {
		Target op.Target `json:"target"`
	}
	if err := json.Unmarshal(c.input, &in); err != nil {
		return resolvedTab{}, op.Invalidf("%s: %s", c.desc.Tool, err)
	}
	if in.Target.IsZero() {
		return s.resolveOwn(ctx, c, p)
	}
	if id, err := in.Target.ID(); in.Target.By == "id" && err == nil {
		// The session's own tab needs no look at the browser's list.
		if own, _ := s.holder(p.ID(), id, c.session.Key); own != nil {
			t, err := s.ready(ctx, p, *own)
			t.given = in.Target
			return t, err
		}
	}
	tab, err := s.find(ctx, p, in.Target, s.policyOf(c.session.Key))
	if err != nil {
		return resolvedTab{}, err
	}
	own, other := s.holder(p.ID(), tab.ID, c.session.Key)
	switch {
	case other != nil:
		return resolvedTab{}, heldError(*other)
	case own != nil:
		t, err := s.ready(ctx, p, *own)
		t.given = in.Target
		return t, err
	case c.desc.Tab == op.PageTab && protected(tab.URL):
		return resolvedTab{}, op.Reject(op.ProtectedTabURL, "tab %d shows %s, which Chrome lets nobody debug; nothing was done", tab.ID, tab.URL).
			WithHint("Open a web page in another tab and use that one.").WithDetail("url", tab.URL)
	}
	t, err2 := p.Tab(ctx, tab.ID)
	if err2 != nil {
		return resolvedTab{}, noEffect(ctx, err2, "reading tab %d", tab.ID)
	}
	s.remember(p.ID(), tab.ID, s.tabs.key(t))
	return resolvedTab{id: tab.ID, tab: t, given: in.Target}, nil
}

// find returns the one tab that the selector names.
func (s *Server) find(ctx context.Context, p profile, target op.Target, policy *Policy) (op.Tab, *op.Error) {
	if target.By == "id" {
		id, err := target.ID()
		if err != nil {
			return op.Tab{}, asOpError(err)
		}
		tab, err := p.TabInfo(ctx, id)
		if err == nil {
			return tab, nil
		}
		if !errors.Is(err, &op.Error{Code: op.TabGone}) {
			return op.Tab{}, noEffect(ctx, err, "reading tab %d", id)
		}
		tabs, err := p.Tabs(ctx)
		if err != nil {
			return op.Tab{}, listFailed(ctx, err)
		}
		policy.mask(tabs)
		return op.Tab{}, notFound(target, fmt.Sprintf("no tab has the id %d", id), tabs)
	}
	tabs, err := p.Tabs(ctx)
	if err != nil {
		return op.Tab{}, listFailed(ctx, err)
	}
	policy.mask(tabs)
	var hits []op.Tab
	for _, t := range tabs {
		if target.By == "url" && strings.Contains(t.URL, string(target.Value)) ||
			target.By == "title" && strings.Contains(t.Title, string(target.Value)) {
			hits = append(hits, t)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return op.Tab{}, notFound(target, fmt.Sprintf("no tab's %s has %q in it", target.By, string(target.Value)), tabs)
	}
	ids := make([]int, len(hits))
	for i, t := range hits {
		ids[i] = t.ID
	}
	return op.Tab{}, op.Reject(op.AmbiguousTabTarget, "%d tabs have %q in their %s; nothing was done:%s", len(hits), string(target.Value), target.By, listTabs(hits)).
		WithHint("Give the id of one, or a longer part that only it has.").WithDetail("target", target).WithDetail("matchingTabIds", ids)
}

func listFailed(ctx context.Context, err error) *op.Error {
	e := noEffect(ctx, err, "the tabs could not be listed")
	if e.Code == op.BrowserOperation {
		e.Code = op.TabListFailed
	}
	return e
}

func notFound(target op.Target, why string, tabs []op.Tab) *op.Error {
	shown := tabs[:min(len(tabs), maxListedTabs)]
	type row struct {
		ID     int    `json:"id"`
		Title  string `json:"title"`
		URL    string `json:"url"`
		Active bool   `json:"active"`
	}
	rows := make([]row, len(shown))
	for i, t := range shown {
		rows[i] = row{t.ID, t.Title, t.URL, t.Active}
	}
	e := op.Reject(op.TabNotFound, "%s; nothing was done. Current tabs:%s", why, listTabs(shown)).
		WithHint("Use one of these ids, or leave target out for the session's own tab.").
		WithDetail("target", target).WithDetail("currentTabs", rows)
	if n := len(tabs) - len(shown); n > 0 {
		e.Message += fmt.Sprintf("\n(%d more)", n)
		e = e.WithDetail("moreTabs", n)
	}
	return e
}

func listTabs(tabs []op.Tab) string {
	if len(tabs) == 0 {
		return " none."
	}
	var b strings.Builder
	for _, t := range tabs {
		mark := " "
		if t.Active {
			mark = "*"
		}
		fmt.Fprintf(&b, "\n%s %d  %s  %s", mark, t.ID, clipText(t.Title, 60), clipText(t.URL, 100))
	}
	return b.String()
}

func clipText(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}

// protected reports whether Chrome refuses a debugger on the page.
func protected(url string) bool {
	for _, p := range []string{"chrome:", "chrome-extension:", "chrome-untrusted:", "chrome-search:", "devtools:", "edge:", "brave:", "vivaldi:", "opera:"} {
		if strings.HasPrefix(url, p) {
			return true
		}
	}
	return false
}

// holder returns the session's own record of a tab, or that of another session
// which has one.
func (s *Server) holder(connector string, tabID int, key string) (own, other *targetRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.ConnectorID != connector || r.TabID != tabID || r.State != targetOwned {
			continue
		}
		rec := *r
		if r.Session == key {
			return &rec, nil
		}
		other = &rec
	}
	return nil, other
}

// sessionRecords returns the session's records in a profile, oldest first.
func (s *Server) sessionRecords(key, connector string) []targetRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []targetRecord
	for _, r := range s.records {
		if r.Session == key && (connector == "" || r.ConnectorID == connector) {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b targetRecord) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.Nonce, b.Nonce)
	})
	return all
}

// resolveOwn finds the tab of a command without a target: the session's only
// one, or a new one where the operation may have one.
func (s *Server) resolveOwn(ctx context.Context, c *command, p profile) (resolvedTab, *op.Error) {
	records := s.sessionRecords(c.session.Key, p.ID())
	if slices.ContainsFunc(records, func(r targetRecord) bool { return r.State == targetAllocating }) {
		if err := s.settleTabs(ctx, p, c.session.Key); err != nil {
			return resolvedTab{}, err
		}
		records = s.sessionRecords(c.session.Key, p.ID())
	}
	var owned, lost []targetRecord
	for _, r := range records {
		switch r.State {
		case targetStale:
			lost = append(lost, r)
		case targetAllocating:
			return resolvedTab{}, op.Reject(op.AllocationPending, "a tab of session %q is half made; nothing was done", c.session.Key).
				WithHint("Send the command again in a moment; if it stays so, run pi-chrome cleanup --session %s.", c.session.Key)
		default:
			owned = append(owned, r)
		}
	}
	switch {
	case len(lost) > 0:
		return resolvedTab{}, s.tellLost(c.session.Key, lost)
	case len(owned) > 1:
		return resolvedTab{}, s.ambiguous(ctx, c.session.Key, p, owned)
	case len(owned) == 1:
		return s.ready(ctx, p, owned[0])
	case c.desc.Tab == op.OwnedTab:
		return resolvedTab{}, op.Reject(op.AutomationTargetRequired, "session %q owns no tab; nothing was done", c.session.Key).
			WithHint("Give target, or open a tab first (chrome_tab_new, chrome_navigate).")
	}
	t, _, err := s.allocate(c.session, p, "")
	return t, err
}

// tellLost says once that tabs of the session are gone, and clears their
// records: the next command gets a new tab.
func (s *Server) tellLost(key string, lost []targetRecord) *op.Error {
	r := lost[0]
	ids := make([]int, len(lost))
	nonces := make([]string, len(lost))
	for i, l := range lost {
		ids[i], nonces[i] = l.TabID, l.Nonce
	}
	if err := s.drop(nonces); err != nil {
		return writeFailed(err)
	}
	why := map[string]string{
		staleEpoch:   "Chrome or the extension was started again",
		staleMissing: "it is not there any more",
		staleOutside: "it is not in a regular window any more",
	}[r.Reason]
	return op.Reject(op.AutomationOwnershipLost, "session %q has lost its tab %d (%s); nothing was done", key, r.TabID, why).
		WithHint("Send the command again: it gets a new tab. The lost tab, if it still shows, is the user's now.").
		WithDetail("reason", r.Reason).WithDetail("recordedTabId", r.TabID).WithDetail("recordedTabIds", ids)
}

// OwnedTarget is one tab of a session as status and errors show it.
type OwnedTarget struct {
	State  string `json:"state"` // allocating, owned, stale
	TabID  *int   `json:"tabId"` // null while allocating
	Title  string `json:"title,omitempty"`
	URL    string `json:"url,omitempty"`
	Reason string `json:"reason,omitempty"`
	// LostAt is when a stale one was seen to be lost.
	LostAt time.Time `json:"lostAt,omitzero"`
	Tab    *op.Tab   `json:"tab,omitempty"`

	Claimed bool `json:"claimed,omitempty"` // the user made it
	Keep    bool `json:"keep,omitempty"`    // left to the user at the end
	// TakenAt is since when the user has taken it over.
	TakenAt time.Time `json:"takenAt,omitzero"`
}

func summaries(records []targetRecord, tabs []op.Tab, whole bool) []OwnedTarget {
	list := []OwnedTarget{}
	for _, r := range records {
		t := OwnedTarget{State: string(r.State), Reason: r.Reason, LostAt: r.LostAt, Claimed: r.Claimed, Keep: r.Keep, TakenAt: r.TakenAt}
		if r.State != targetAllocating {
			id := r.TabID
			t.TabID = &id
		}
		if i := slices.IndexFunc(tabs, func(tab op.Tab) bool { return tab.ID == r.TabID }); i >= 0 && r.State == targetOwned {
			t.Title, t.URL = tabs[i].Title, tabs[i].URL
			if whole {
				tab := tabs[i]
				tab.Owned = true
				t.Tab = &tab
			}
		}
		list = append(list, t)
	}
	return list
}

func (s *Server) ambiguous(ctx context.Context, key string, p profile, owned []targetRecord) *op.Error {
	tabs, err := p.Tabs(ctx)
	if err != nil {
		return listFailed(ctx, err)
	}
	s.policyOf(key).mask(tabs)
	list := summaries(owned, tabs, false)
	var b strings.Builder
	for _, t := range list {
		fmt.Fprintf(&b, "\n  %d  %s  %s", *t.TabID, clipText(t.Title, 60), clipText(t.URL, 100))
	}
	return op.Reject(op.AmbiguousOwnedTarget, "session %q owns %d tabs and the command names none; nothing was done:%s", key, len(owned), b.String()).
		WithHint("Give target {by:\"id\", value:…}, on a command line --target id=…").WithDetail("ownedTargets", list)
}

// ready checks that an owned record still is the tab that it says, and
// returns it, out of its bootstrap page.
func (s *Server) ready(ctx context.Context, p profile, r targetRecord) (resolvedTab, *op.Error) {
	t, err := p.Tab(ctx, r.TabID)
	if errors.Is(err, &op.Error{Code: op.TabGone}) {
		if now, moved := s.follow(p, r); moved {
			return s.ready(ctx, p, now)
		}
		return resolvedTab{}, s.lose(r, staleMissing)
	}
	if err != nil {
		return resolvedTab{}, noEffect(ctx, err, "reading tab %d", r.TabID)
	}
	key := s.tabs.key(t)
	if r.TargetID == "" {
		// A discard gave the tab new ids; its target is read now.
		r.TargetID, r.Epoch = key.TargetID, key.BrowserEpoch
		if err := s.put(nil, r); err != nil {
			return resolvedTab{}, writeFailed(err)
		}
	}
	switch {
	case key.TargetID != r.TargetID:
		return resolvedTab{}, s.lose(r, staleMissing)
	case key.BrowserEpoch != r.Epoch:
		return resolvedTab{}, s.lose(r, staleEpoch)
	}
	if !r.TakenAt.IsZero() {
		return resolvedTab{}, heldError(r)
	}
	if !r.Prepared {
		if err := s.prepare(ctx, p, t, r); err != nil {
			return resolvedTab{}, err
		}
	}
	s.remember(p.ID(), r.TabID, key)
	return resolvedTab{id: r.TabID, tab: t, nonce: r.Nonce}, nil
}

// follow returns an owned record as its tab is now: one that Chrome has
// discarded has another id, of which its record hears a moment later.
func (s *Server) follow(p profile, r targetRecord) (now targetRecord, moved bool) {
	now = r
	s.mu.Lock()
	if told := s.records[r.Nonce]; told != nil && told.State == targetOwned {
		now = *told
	}
	s.mu.Unlock()
	now = moveRecord(p, now)
	return now, now.TabID != r.TabID
}

// moveRecord returns a record with the id that its tab has now. The target of
// a new id is not known: it is read when the tab is used.
func moveRecord(p profile, r targetRecord) targetRecord {
	if to := p.MovedTo(r.TabID); to != r.TabID {
		r.TabID, r.TargetID = to, ""
	}
	return r
}

func (s *Server) lose(r targetRecord, reason string) *op.Error {
	r.State, r.Reason, r.LostAt = targetStale, reason, time.Now().Round(0)
	if err := s.put(nil, r); err != nil {
		return writeFailed(err)
	}
	return s.tellLost(r.Session, []targetRecord{r})
}

// prepare takes a new tab out of its bootstrap page.
func (s *Server) prepare(ctx context.Context, p profile, t *Tab, r targetRecord) *op.Error {
	if err := s.tabs.leave(ctx, t); err != nil {
		return noEffect(ctx, err, "the new tab %d could not be prepared", r.TabID)
	}
	r.Prepared = true
	if err := s.put(nil, r); err != nil {
		return writeFailed(err)
	}
	return nil
}

// put stores records durably and then in memory.
func (s *Server) put(ses *sessionEdit, records ...targetRecord) error {
	if err := s.store.save(ses, records, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if now := s.records[r.Nonce]; now != nil {
			r.TakenAt = now.TakenAt // as on the disk
		}
		s.records[r.Nonce] = &r
		if r.State != targetAllocating {
			delete(s.making, r.Nonce)
		}
	}
	return nil
}

// drop deletes records durably and then from memory.
func (s *Server) drop(nonces []string) error {
	if len(nonces) == 0 {
		return nil
	}
	if err := s.store.save(nil, nil, nonces); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nonces {
		delete(s.records, n)
		delete(s.making, n)
	}
	return nil
}

// remember notes a tab that the handler gets, for Handler.Forget.
func (s *Server) remember(connector string, tabID int, key op.TabKey) {
	ref := tabRef{connector, tabID}
	s.mu.Lock()
	old, known := s.seen[ref]
	s.seen[ref] = key
	s.mu.Unlock()
	if known && old != key {
		s.opts.Handler.Forget(old)
	}
}

func (s *Server) forget(connector string, tabID int) {
	s.unguard(connector, tabID)
	ref := tabRef{connector, tabID}
	s.mu.Lock()
	key, known := s.seen[ref]
	delete(s.seen, ref)
	s.mu.Unlock()
	if known {
		s.opts.Handler.Forget(key)
	}
}

// bootstrapURL is the page of the extension on which a new tab opens. The
// nonce in its fragment finds the tab again after a crash.
func (s *Server) bootstrapURL(nonce string) string {
	return "chrome-extension://" + s.opts.ExtensionID + "/bootstrap.html#" + nonce
}

// reserve counts a new tab against the limits and makes its record durable,
// before there is a tab.
func (s *Server) reserve(session op.Session, p profile) (targetRecord, *op.Error) {
	r := targetRecord{Nonce: wire.NewSecret()[:32], Session: session.Key, ConnectorID: p.ID(), State: targetAllocating,
		Epoch: p.BrowserEpoch(), TabID: -1, CreatedAt: time.Now()}
	s.mu.Lock()
	if err := s.limitLocked(session.Key, p.ID()); err != nil {
		s.mu.Unlock()
		return r, err
	}
	s.records[r.Nonce] = &r
	s.making[r.Nonce] = making{underWay: true}
	s.mu.Unlock()
	ses := s.sessionRecordFor(session.Key, p.ID())
	if err := s.put(ses, r); err != nil {
		s.mu.Lock()
		delete(s.records, r.Nonce)
		delete(s.making, r.Nonce)
		s.mu.Unlock()
		return r, writeFailed(err)
	}
	return r, nil
}

// limitLocked refuses one more tab beyond the limits of the session and of the
// profile.
func (s *Server) limitLocked(key, connector string) *op.Error {
	mine, all := 0, 0
	for _, o := range s.records {
		if o.State == targetStale {
			continue
		}
		if o.ConnectorID == connector {
			all++
		}
		if o.Session == key {
			mine++
		}
	}
	limit := func(scope string, limit, current int, hint string) *op.Error {
		return op.Reject(op.AutomationTargetLimit, "no more than %d tabs a %s; nothing was done", limit, scope).WithHint("%s", hint).
			WithDetail("scope", scope).WithDetail("limit", limit).WithDetail("current", current)
	}
	if mine >= maxTabsPerSession {
		return limit("session", maxTabsPerSession, mine, "Close or release one of the session's tabs first (chrome_tab_close, chrome_tab_release), or reuse one.")
	}
	if all >= maxTabsPerProfile {
		return limit("profile", maxTabsPerProfile, all, "Close tabs of sessions that are over: pi-chrome sessions lists them, pi-chrome cleanup --session closes them.")
	}
	return nil
}

// allocate makes a new tab for the session: hidden, at about:blank, with
// nothing behind its Back button. The command that asked may end meanwhile;
// the tab is the session's then all the same.
func (s *Server) allocate(session op.Session, p profile, color string) (resolvedTab, op.Tab, *op.Error) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, browserCallTime,
		endsWith(context.DeadlineExceeded, op.Reject(op.DeadlineExceeded, "Chrome did not open a new tab in %s", browserCallTime)))
	defer cancel()
	if oerr := s.auditReady(); oerr != nil {
		return resolvedTab{}, op.Tab{}, oerr
	}
	r, oerr := s.reserve(session, p)
	if oerr != nil {
		return resolvedTab{}, op.Tab{}, oerr
	}
	defer s.made(p, r.Nonce)
	window, oerr := s.window(ctx, p, session.Key)
	if oerr != nil {
		return resolvedTab{}, op.Tab{}, s.undo(r, oerr)
	}
	if oerr := s.stillAllowed(session.Key); oerr != nil {
		return resolvedTab{}, op.Tab{}, s.undo(r, oerr)
	}
	info, err := p.CreateTab(ctx, CreateTab{URL: s.bootstrapURL(r.Nonce), WindowID: window})
	if err != nil {
		if errors.Is(err, op.ErrReplyLost) || ctx.Err() != nil && !errors.Is(err, op.ErrNotDelivered) {
			// There may be a tab. Its record stays until recover has found the
			// tab by its nonce, or none can come any more.
			return resolvedTab{}, op.Tab{}, op.Reject(op.AllocationPending, "the browser did not say whether it opened a new tab: %s; the page was not touched", err).
				WithHint("Send the command again: the tab is found again by its mark.").WithCause(err)
		}
		return resolvedTab{}, op.Tab{}, s.undo(r, noEffect(ctx, err, "a new tab could not be opened"))
	}
	t, r, oerr := s.own(ctx, p, r, info.ID)
	if oerr != nil {
		return resolvedTab{id: info.ID}, op.Tab{}, oerr
	}
	if oerr := s.stillAllowed(session.Key); oerr != nil {
		return resolvedTab{id: info.ID}, op.Tab{}, oerr // who uses the tab next prepares it
	}
	if oerr := s.prepare(ctx, p, t, r); oerr != nil {
		return resolvedTab{id: info.ID}, op.Tab{}, oerr
	}
	s.remember(p.ID(), r.TabID, s.tabs.key(t))
	if err := s.group(ctx, session.Key, p, info.WindowID, info.ID, color); err != nil {
		// A group is only for the eye.
		s.log.Warn("grouping a new tab", "session", session.Key, "tab", info.ID, "err", err)
	}
	return resolvedTab{id: r.TabID, tab: t, nonce: r.Nonce}, info, nil
}

// stillAllowed refuses to go on for a session that was locked meanwhile: an
// allocation does not end with the command that asked for it.
func (s *Server) stillAllowed(key string) *op.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusedLocked(key, time.Now())
}

// own makes the record of an allocated tab durable as owned.
func (s *Server) own(ctx context.Context, p profile, r targetRecord, tabID int) (*Tab, targetRecord, *op.Error) {
	t, err := p.Tab(ctx, tabID)
	if err != nil {
		return nil, r, noEffect(ctx, err, "the new tab %d could not be read", tabID)
	}
	key := s.tabs.key(t)
	r.State, r.TabID, r.TargetID, r.Epoch = targetOwned, tabID, key.TargetID, key.BrowserEpoch
	if err := s.put(nil, r); err != nil {
		return nil, r, writeFailed(err)
	}
	return t, r, nil
}

// undo clears the record of a tab that was not made.
func (s *Server) undo(r targetRecord, why *op.Error) *op.Error {
	if err := s.drop([]string{r.Nonce}); err != nil {
		s.log.Error("clearing the record of a tab that was not made", "err", err)
	}
	return why
}

// window chooses where a new tab opens: beside the session's other tabs, else
// in the focused window, else in any normal one. Never in an incognito window.
func (s *Server) window(ctx context.Context, p profile, key string) (int, *op.Error) {
	windows, err := p.Windows(ctx)
	if err != nil {
		return 0, noEffect(ctx, err, "the windows could not be listed")
	}
	usable := windows[:0:0]
	for _, w := range windows {
		if w.Type == "normal" && !w.Incognito {
			usable = append(usable, w)
		}
	}
	if len(usable) == 0 {
		return 0, op.Reject(op.ChromeWindowRequired, "Chrome has no normal window that is not incognito; nothing was done").
			WithHint("Open a normal window of that profile and send the command again.")
	}
	if len(usable) == 1 {
		return usable[0].ID, nil
	}
	for _, r := range s.sessionRecords(key, p.ID()) {
		if r.State != targetOwned {
			continue
		}
		tab, err := p.TabInfo(ctx, r.TabID)
		if err == nil && slices.ContainsFunc(usable, func(w Window) bool { return w.ID == tab.WindowID }) {
			return tab.WindowID, nil
		}
	}
	if i := slices.IndexFunc(usable, func(w Window) bool { return w.Focused }); i >= 0 {
		return usable[i].ID, nil
	}
	return usable[0].ID, nil
}
