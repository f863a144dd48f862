package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabUngroupIn is the input of chrome_tab_ungroup.
type TabUngroupIn struct {
	Target op.Target `json:"target,omitzero" brief:"" jsonschema:"the tab; without it the session's only tab"`
}

var opTabUngroup = op.Define(op.Spec{
	Name: "tab.ungroup", Tool: "chrome_tab_ungroup", Profile: "tabs", Title: "Tab Ungroup",
	Summary: "Take a tab out of its tab group; it stays open and whose it is.",
	Brief:   "Take a tab out of its tab group.",
	Doc:     "Takes the tab out of the tab group that it is in. A tab in no group stays as it is. Returns the tab.",
	Effect:  op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab,
	Examples: []op.Example{{Title: "Take the session's tab out of its group", Input: json.RawMessage(`{}`)}},
	Errors:   []op.Code{op.AutomationTargetRequired, op.AmbiguousOwnedTarget, op.AmbiguousTabTarget, op.TabNotFound, op.TabHeld, op.TabGone},
}, tabUngroup)

func tabUngroup(ctx context.Context, c *Call, in TabUngroupIn) (op.Tab, error) {
	if c.Browser == nil {
		return op.Tab{}, unsupported("chrome_tab_ungroup")
	}
	c.begin()
	return c.Browser.UngroupTab(ctx, in.Target)
}
