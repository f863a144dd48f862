package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// StatusIn is the input of chrome_status: nothing.
type StatusIn struct{}

var opStatus = op.Define(op.Spec{
	Name: "system.status", Tool: "chrome_status", Profile: "core", Title: "Status",
	Summary: "Say whether the browser can be used now, and which tabs this session owns.",
	Brief:   "Say whether the browser can be used and which tabs are yours.",
	Doc:     "Tells how the bridge, the paired profiles and the session stand, and what to do when something is missing. It changes nothing and needs no tab.",
	Effect:  op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.NoTab,
	Examples: []op.Example{{Title: "Ask", Input: json.RawMessage(`{}`)}},
	Errors:   []op.Code{op.Unsupported},
}, status)

func status(ctx context.Context, c *Call, _ StatusIn) (json.RawMessage, error) {
	if c.Browser == nil {
		return nil, unsupported("chrome_status")
	}
	return c.Browser.Status(ctx)
}
