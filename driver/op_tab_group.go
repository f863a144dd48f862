package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabGroupIn is the input of chrome_tab_group.
type TabGroupIn struct {
	GroupColor string    `json:"groupColor,omitzero" enum:"grey|blue|red|yellow|green|pink|purple|cyan|orange" brief:"" jsonschema:"color of the session's tab group; it stays as it is when absent"`
	Target     op.Target `json:"target,omitzero" brief:"" jsonschema:"the tab; without it the session's only tab"`
}

var opTabGroup = op.Define(op.Spec{
	Name: "tab.group", Tool: "chrome_tab_group", Profile: "tabs", Title: "Tab Group",
	Summary: "Put a tab into this session's tab group, or change the group's color.",
	Brief:   "Put a tab into your tab group, or set its color.",
	Doc: "Puts the tab into the one tab group of the session, making the group when there is none. A tab of another window moves to the group's window. " +
		"A group only shows the user which tabs are whose: it gives no right to a tab and takes none. Returns the tab with its group.",
	Effect: op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab, Args: []string{"groupColor"},
	Examples: []op.Example{{Title: "Make the session's group green", Input: json.RawMessage(`{"groupColor":"green"}`)}},
	Errors:   []op.Code{op.AutomationTargetRequired, op.AmbiguousOwnedTarget, op.AmbiguousTabTarget, op.TabNotFound, op.TabHeld, op.TabGone},
}, tabGroup)

func tabGroup(ctx context.Context, c *Call, in TabGroupIn) (op.Tab, error) {
	if c.Browser == nil {
		return op.Tab{}, unsupported("chrome_tab_group")
	}
	c.begin()
	return c.Browser.GroupTab(ctx, in.Target, in.GroupColor)
}
