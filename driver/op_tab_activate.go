package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabActivateIn is the input of chrome_tab_activate.
type TabActivateIn struct {
	Target op.Target `json:"target,omitzero" brief:"" jsonschema:"the tab; without it the session's only tab"`
}

var opTabActivate = op.Define(op.Spec{
	Name: "tab.activate", Tool: "chrome_tab_activate", Profile: "tabs", Title: "Tab Activate",
	Summary: "Show a tab to the user, where the session may take the focus.",
	Brief:   "Show a tab to the user, if allowed.",
	Doc: "Shows the tab in its window and gives that window the focus; a minimized window is restored. " +
		"A session works in the background unless the user has allowed otherwise: then this is refused as `background-mode`, and nothing is lost, since every tool works on a hidden tab. " +
		"Returns the tab. A tab of another session is refused and its holder named.",
	Effect: op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab,
	Examples: []op.Example{
		{Title: "Show the session's tab", Input: json.RawMessage(`{}`)},
		{Title: "Show a tab by a part of its address", Input: json.RawMessage(`{"target":{"by":"url","value":"/navigate/plain.html"}}`), Page: "navigate/plain.html"},
	},
	Errors: []op.Code{op.BackgroundMode, op.AutomationTargetRequired, op.AmbiguousOwnedTarget, op.AmbiguousTabTarget, op.TabNotFound, op.TabHeld, op.TabGone},
}, tabActivate)

func tabActivate(ctx context.Context, c *Call, in TabActivateIn) (op.Tab, error) {
	if c.Browser == nil {
		return op.Tab{}, unsupported("chrome_tab_activate")
	}
	c.begin()
	return c.Browser.ActivateTab(ctx, in.Target)
}
