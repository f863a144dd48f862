package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// SnapshotIn is the input of chrome_snapshot.
type SnapshotIn struct {
	SnapshotOptions
	op.TabInput
}

var opSnapshot = op.Define(op.Spec{
	Name: "page.snapshot", Tool: "chrome_snapshot", Profile: "core", Title: "Snapshot",
	Summary: "See what can be done on the page: actions with refs and verbs, contexts, text.",
	Brief:   "See what can be done on the page: one line for each action with its ref (el-N) and the verbs that take it: [click] is chrome_click. A ref stays with its element; frontier-N leads to what did not fit. mode interactive: actions only; forms; pageMap: landmarks and headings; text: content; changes: since the last snapshot; full: JSON.",
	Doc: "Lists what can be clicked, filled, pressed or uploaded to on the whole page, in frames and shadow roots too, what is in the viewport first. " +
		"Each line has a ref such as `@el-13` that stays with its element, and the verbs that may be used with it: `click` is `chrome_click`, and so on. " +
		"What does not fit is counted, and a `@frontier-N` leads to it; expand that, or a context, with `ref`. " +
		"Values of secret fields are never told. It changes nothing in the page.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "See the page", Input: json.RawMessage(`{}`), Page: "snapshot/labels.html"},
		{Title: "Find a button", Input: json.RawMessage(`{"query":"save draft","role":"button"}`), Page: "snapshot/search.html"},
		{Title: "See what changed", Input: json.RawMessage(`{"mode":"changes"}`), Page: "snapshot/changes.html"},
	},
	Errors: []op.Code{op.StaleObservationRef, op.StaleObservationFrontier, op.DialogOpen, op.DocumentChanged, op.InvalidInput},
}, func(ctx context.Context, c *Call, in SnapshotIn) (SnapshotOut, error) {
	return c.tab.snapshot(ctx, c, in.SnapshotOptions)
})
