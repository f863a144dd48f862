package driver

import (
	"context"
	"encoding/json"
	"fmt"

	"pi-chrome/driver/op"
)

// TabListIn is the input of chrome_tab_list: nothing.
type TabListIn struct{}

// maxTabRows bounds the rows of a tab list; the count says what is left out.
const maxTabRows = 200

// TabList is the result of chrome_tab_list: the session's own tabs first,
// then the others in the order of the browser.
type TabList struct {
	rows  []op.Tab
	total int
}

// MarshalJSON writes the rows as an array, as contract §1.4 has it.
func (l TabList) MarshalJSON() ([]byte, error) {
	if l.rows == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(l.rows)
}

// Text is the rows as indented JSON, with a last line for what was left out.
func (l TabList) Text() string {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err.Error()
	}
	if l.total > len(l.rows) {
		return fmt.Sprintf("%s\n%d of %d tabs shown; select another by target url or title", b, len(l.rows), l.total)
	}
	return string(b)
}

var opTabList = op.Define(op.Spec{
	Name: "tab.list", Tool: "chrome_tab_list", Profile: "tabs", Title: "Tab List",
	Summary: "List the tabs of the browser; owned ones belong to this session.",
	Brief:   "List the browser's tabs, yours first.",
	Doc: "Lists the tabs of the profile, the session's own (`owned`) first. It wakes no discarded tab and changes nothing. " +
		"At most 200 rows are shown, with a count of the rest.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.NoTab,
	Examples: []op.Example{{Title: "List the tabs", Input: json.RawMessage(`{}`)}},
	Errors:   []op.Code{op.TabListFailed},
}, tabList)

func tabList(ctx context.Context, c *Call, _ TabListIn) (TabList, error) {
	if c.Browser == nil {
		return TabList{}, unsupported("chrome_tab_list")
	}
	tabs, err := c.Browser.Tabs(ctx)
	if err != nil {
		return TabList{}, err
	}
	l := TabList{total: len(tabs)}
	for _, owned := range []bool{true, false} {
		for _, t := range tabs {
			if t.Owned == owned && len(l.rows) < maxTabRows {
				l.rows = append(l.rows, t)
			}
		}
	}
	return l, nil
}

// unsupported is the answer of a direct session to what only the extension
// can do.
func unsupported(tool string) *op.Error {
	return op.Reject(op.Unsupported, "%s needs the extension: a direct session has one tab and no groups", tool)
}
