package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// ReadIn is the input of chrome_read.
type ReadIn struct {
	ReadOptions
	op.TabInput
}

var opRead = op.Define(op.Spec{
	Name: "page.read", Tool: "chrome_read", Profile: "core", Title: "Read",
	Summary: "Read the page's content in order: headings, text, lists, tables, code, form values.",
	Brief:   "Read the page's content in order, as Markdown.",
	Doc: "Returns what a person would read on the whole page, in frames and shadow roots too, as compact Markdown: headings, paragraphs, list items, " +
		"table rows, code, quotes, and the values of fields but secrets. What does not fit is counted, and `more: @frontier-N` goes on with it. " +
		"It changes nothing in the page.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "Read the page", Input: json.RawMessage(`{}`), Page: "read/article.html"},
		{Title: "Only the headings", Input: json.RawMessage(`{"view":"outline"}`), Page: "read/outline.html"},
		{Title: "Only what contains a text", Input: json.RawMessage(`{"query":"total"}`), Page: "read/table.html"},
	},
	Errors: []op.Code{op.StaleContentRef, op.DialogOpen, op.DocumentChanged, op.InvalidInput},
}, func(ctx context.Context, c *Call, in ReadIn) (ReadOut, error) {
	return c.tab.read(ctx, in.ReadOptions)
})
