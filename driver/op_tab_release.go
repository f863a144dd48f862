package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabReleaseIn is the input of chrome_tab_release.
type TabReleaseIn struct {
	Target op.Target `json:"target,omitzero" brief:"" jsonschema:"the tab; without it the session's only tab"`
	AtEnd  bool      `json:"atEnd,omitzero" brief:"keep using it; leave it to the user at the end" jsonschema:"go on using the tab, and leave it to the user when the session ends instead of closing it"`
}

var opTabRelease = op.Define(op.Spec{
	Name: "tab.release", Tool: "chrome_tab_release", Profile: "tabs", Title: "Tab Release",
	Summary: "Leave a tab of this session to the user, open and out of the session's group.",
	Brief:   "Leave a tab of yours to the user.",
	Doc: "Gives a claimed tab back, or leaves one that the session opened to the user, as with a result that they shall read. " +
		"The debugger is detached, so that the page is visible or hidden as the user has it; the tab is taken out of the session's group and stays open. " +
		"With `atEnd` the session goes on using it, and its end (pi-chrome cleanup, or 24 hours without a command) leaves the tab instead of closing it. " +
		"pi-chrome sessions shows what was left.",
	Effect: op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab,
	Examples: []op.Example{
		{Title: "Leave the tab to the user when the session ends", Input: json.RawMessage(`{"atEnd":true}`)},
		{Title: "Leave the session's tab to the user", Input: json.RawMessage(`{}`)},
	},
	Errors: []op.Code{op.AutomationTargetRequired, op.AmbiguousOwnedTarget, op.AmbiguousTabTarget, op.TabNotFound, op.TabHeld},
}, tabRelease)

func tabRelease(ctx context.Context, c *Call, in TabReleaseIn) (op.ReleasedTab, error) {
	if c.Browser == nil {
		return op.ReleasedTab{}, unsupported("chrome_tab_release")
	}
	c.begin()
	return c.Browser.ReleaseTab(ctx, in.Target, in.AtEnd)
}
