package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabCloseIn is the input of chrome_tab_close.
type TabCloseIn struct {
	Target op.Target `json:"target,omitzero" brief:"" jsonschema:"the tab; without it the session's only tab"`
}

// TabClosed is the result of chrome_tab_close.
type TabClosed struct {
	Closed int `json:"closed" jsonschema:"id of the tab that was closed"`
}

var opTabClose = op.Define(op.Spec{
	Name: "tab.close", Tool: "chrome_tab_close", Profile: "tabs", Title: "Tab Close",
	Summary: "Close a tab of this session.",
	Brief:   "Close a tab of yours.",
	Doc:     "Closes one tab: the given one, or the session's only tab. A tab of another session is refused and its holder named.",
	Effect:  op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab,
	Examples: []op.Example{{Title: "Close the session's tab", Input: json.RawMessage(`{}`)}},
	Errors:   []op.Code{op.AutomationTargetRequired, op.AmbiguousOwnedTarget, op.AmbiguousTabTarget, op.TabNotFound, op.TabHeld},
}, tabClose)

func tabClose(ctx context.Context, c *Call, in TabCloseIn) (TabClosed, error) {
	if c.Browser == nil {
		return TabClosed{}, unsupported("chrome_tab_close")
	}
	c.begin()
	id, err := c.Browser.CloseTab(ctx, in.Target)
	return TabClosed{Closed: id}, err
}
