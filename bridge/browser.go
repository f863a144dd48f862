package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"pi-chrome/driver/op"
)

// chromeTab is a tab as chrome.tabs gives it.
type chromeTab struct {
	ID          int    `json:"id"`
	WindowID    int    `json:"windowId"`
	Active      bool   `json:"active"`
	Highlighted bool   `json:"highlighted"`
	Title       string `json:"title"`
	URL         string `json:"url"`
	PendingURL  string `json:"pendingUrl"`
	Status      string `json:"status"`
	Pinned      bool   `json:"pinned"`
	Incognito   bool   `json:"incognito"`
	GroupID     *int   `json:"groupId"`
	OpenerTabID int    `json:"openerTabId"` // the tab that the window showed, not that of the page; 0 where there is none
}

func (t chromeTab) tab() op.Tab {
	o := op.Tab{
		ID: t.ID, WindowID: t.WindowID, Active: t.Active, Highlighted: t.Highlighted, Title: t.Title, URL: t.URL,
		Status: t.Status, Pinned: t.Pinned, Incognito: t.Incognito, GroupID: -1,
	}
	if o.URL == "" {
		o.URL = t.PendingURL // of a tab that was just made
	}
	if t.GroupID != nil {
		o.GroupID = *t.GroupID
	}
	return o
}

// Window is a browser window.
type Window struct {
	ID        int    `json:"id"`
	Focused   bool   `json:"focused"`
	Incognito bool   `json:"incognito"`
	Type      string `json:"type"`  // normal, popup, devtools and others
	State     string `json:"state"` // normal, minimized, maximized, fullscreen
}

// DebugTarget is one page that can be debugged.
type DebugTarget struct {
	ID       string `json:"id"`
	TabID    int    `json:"tabId"`
	Type     string `json:"type"`
	Title    string `json:"title"`
	URL      string `json:"url"`
	Attached bool   `json:"attached"` // by anyone
}

// CreateTab says which tab to make.
type CreateTab struct {
	URL      string // "" for about:blank
	WindowID int    // 0 for Chrome's choice
	Active   bool   // shown in its window
}

// GroupUpdate changes a group; zero fields stay.
type GroupUpdate struct {
	Title     string
	Color     string
	Collapsed *bool
}

// ask makes a call and decodes its result.
func ask[T any](ctx context.Context, c *Connector, name string, args ...any) (T, error) {
	var v T
	raw, err := c.Chrome(ctx, name, args...)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("decoding the result of %s: %w", name, err)
	}
	return v, nil
}

// onTab is for calls about one tab: that the tab is not there is an error of
// its own.
func onTab[T any](v T, err error, tabID int) (T, error) {
	if p, ok := errors.AsType[*op.ProtocolError](err); ok && strings.HasPrefix(p.Message, "No tab with id") {
		return v, tabGone(tabID).WithCause(err)
	}
	return v, err
}

// Tabs returns every tab of the profile with its group, as Chrome orders them.
func (c *Connector) Tabs(ctx context.Context) ([]op.Tab, error) {
	var groups []op.Group
	var groupsErr error
	var wg sync.WaitGroup
	wg.Go(func() { groups, groupsErr = c.Groups(ctx) })
	raw, err := ask[[]chromeTab](ctx, c, "tabs.query", struct{}{})
	wg.Wait()
	if err = errors.Join(err, groupsErr); err != nil {
		return nil, fmt.Errorf("listing tabs: %w", err)
	}
	byID := make(map[int]op.Group, len(groups))
	for _, g := range groups {
		byID[g.ID] = g
	}
	tabs := make([]op.Tab, len(raw))
	for i, t := range raw {
		tabs[i] = t.tab()
		if g, ok := byID[tabs[i].GroupID]; ok {
			tabs[i].Group = &g
		}
	}
	c.sawPages(tabs...)
	return tabs, nil
}

// TabInfo returns one tab with its group. The error is an *op.Error tab-gone
// when there is no such tab.
func (c *Connector) TabInfo(ctx context.Context, tabID int) (op.Tab, error) {
	raw, err := ask[chromeTab](ctx, c, "tabs.get", tabID)
	raw, err = onTab(raw, err, tabID)
	if err == nil {
		c.sawPages(raw.tab())
	}
	return c.grouped(ctx, raw, err)
}

// grouped adds the tab's group.
func (c *Connector) grouped(ctx context.Context, raw chromeTab, err error) (op.Tab, error) {
	if err != nil {
		return op.Tab{}, err
	}
	t := raw.tab()
	if t.GroupID < 0 {
		return t, nil
	}
	g, err := ask[op.Group](ctx, c, "tabGroups.get", t.GroupID)
	if _, ok := errors.AsType[*op.ProtocolError](err); ok {
		return t, nil // the group has gone since
	}
	if err != nil {
		return op.Tab{}, fmt.Errorf("reading the group of tab %d: %w", t.ID, err)
	}
	t.Group = &g
	return t, nil
}

// Targets returns the pages of tabs that can be debugged.
func (c *Connector) Targets(ctx context.Context) ([]DebugTarget, error) {
	raw, err := c.Chrome(ctx, "debugger.getTargets")
	if err != nil {
		return nil, err
	}
	return decodeTargets(raw)
}

func decodeTargets(raw json.RawMessage) ([]DebugTarget, error) {
	var all []struct {
		DebugTarget
		TabID *int `json:"tabId"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("decoding targets: %w", err)
	}
	var pages []DebugTarget
	for _, t := range all {
		if t.TabID != nil && t.Type == "page" && t.ID != "" {
			t.DebugTarget.TabID = *t.TabID
			pages = append(pages, t.DebugTarget)
		}
	}
	return pages, nil
}

// CreateTab makes a tab. Without Active nothing is shown and no focus moves.
func (c *Connector) CreateTab(ctx context.Context, o CreateTab) (op.Tab, error) {
	props := map[string]any{"active": o.Active, "url": "about:blank"}
	if o.URL != "" {
		props["url"] = o.URL
	}
	if o.WindowID != 0 {
		props["windowId"] = o.WindowID
	}
	raw, err := ask[chromeTab](ctx, c, "tabs.create", props)
	return raw.tab(), err
}

// RemoveTabs closes tabs. A page that asks whether to leave it is left: nobody
// else would answer, and the tab would stay.
func (c *Connector) RemoveTabs(ctx context.Context, tabIDs ...int) error {
	for _, id := range tabIDs {
		c.mu.Lock()
		t := c.tabs[id]
		c.mu.Unlock()
		if t != nil && t.Attached() {
			defer t.answerDialogs(ctx)()
		}
	}
	_, err := c.Chrome(ctx, "tabs.remove", tabIDs)
	if len(tabIDs) == 1 {
		_, err = onTab(struct{}{}, err, tabIDs[0])
	}
	return err
}

// ActivateTab shows a tab and gives its window the focus. Once the tab is shown
// an error is outcome-unknown, without its cause: that may be one that elsewhere
// means that nothing was done.
func (c *Connector) ActivateTab(ctx context.Context, tabID int) (op.Tab, error) {
	raw, err := ask[chromeTab](ctx, c, "tabs.update", tabID, map[string]any{"active": true})
	if raw, err = onTab(raw, err, tabID); err != nil {
		return op.Tab{}, err
	}
	if err := c.FocusWindow(ctx, raw.WindowID); err != nil {
		return op.Tab{}, op.Unknown(op.BrowserOperation, "tab %d is shown, but its window did not get the focus: %s", tabID, err).
			WithHint("List the tabs to see how it stands.")
	}
	tab, err := c.grouped(ctx, raw, nil)
	if err != nil {
		return op.Tab{}, op.Unknown(op.BrowserOperation, "tab %d is shown, but could not be read afterwards: %s", tabID, err).
			WithHint("List the tabs to see how it stands.")
	}
	return tab, nil
}

// FocusWindow gives a window the focus; a minimized one is restored.
func (c *Connector) FocusWindow(ctx context.Context, windowID int) error {
	_, err := c.Chrome(ctx, "windows.update", windowID, map[string]any{"focused": true})
	return err
}

// NavigateTab opens an address in a tab without its debugger.
func (c *Connector) NavigateTab(ctx context.Context, tabID int, url string) (op.Tab, error) {
	raw, err := ask[chromeTab](ctx, c, "tabs.update", tabID, map[string]any{"url": url})
	raw, err = onTab(raw, err, tabID)
	return raw.tab(), err
}

// GroupTabs puts tabs into a group, or into a new one of the window when
// groupID is negative, and returns the group's id.
func (c *Connector) GroupTabs(ctx context.Context, groupID, windowID int, tabIDs ...int) (int, error) {
	opts := map[string]any{"tabIds": tabIDs}
	switch {
	case groupID >= 0:
		opts["groupId"] = groupID
	case windowID != 0:
		opts["createProperties"] = map[string]any{"windowId": windowID}
	}
	return ask[int](ctx, c, "tabs.group", opts)
}

// UngroupTabs takes tabs out of their groups.
func (c *Connector) UngroupTabs(ctx context.Context, tabIDs ...int) error {
	_, err := c.Chrome(ctx, "tabs.ungroup", tabIDs)
	return err
}

// UpdateGroup changes a group's title, color or whether it is collapsed.
func (c *Connector) UpdateGroup(ctx context.Context, groupID int, u GroupUpdate) (op.Group, error) {
	props := map[string]any{}
	if u.Title != "" {
		props["title"] = u.Title
	}
	if u.Color != "" {
		props["color"] = u.Color
	}
	if u.Collapsed != nil {
		props["collapsed"] = *u.Collapsed
	}
	return ask[op.Group](ctx, c, "tabGroups.update", groupID, props)
}

// Groups returns every tab group of the profile.
func (c *Connector) Groups(ctx context.Context) ([]op.Group, error) {
	return ask[[]op.Group](ctx, c, "tabGroups.query", struct{}{})
}

// Windows returns every window of the profile.
func (c *Connector) Windows(ctx context.Context) ([]Window, error) {
	return ask[[]Window](ctx, c, "windows.getAll", struct{}{})
}

// ReloadTab loads the tab's page again.
func (c *Connector) ReloadTab(ctx context.Context, tabID int, bypassCache bool) error {
	_, err := c.Chrome(ctx, "tabs.reload", tabID, map[string]any{"bypassCache": bypassCache})
	_, err = onTab(struct{}{}, err, tabID)
	return err
}

// GoBack goes back in the tab's history.
func (c *Connector) GoBack(ctx context.Context, tabID int) error {
	_, err := c.Chrome(ctx, "tabs.goBack", tabID)
	_, err = onTab(struct{}{}, err, tabID)
	return err
}

// GoForward goes forward in the tab's history.
func (c *Connector) GoForward(ctx context.Context, tabID int) error {
	_, err := c.Chrome(ctx, "tabs.goForward", tabID)
	_, err = onTab(struct{}{}, err, tabID)
	return err
}

// ReloadExtension starts the extension again from its folder.
func (c *Connector) ReloadExtension(ctx context.Context) error {
	_, err := c.Chrome(ctx, "runtime.reload")
	return err
}
