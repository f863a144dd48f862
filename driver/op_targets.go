package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pi-chrome/driver/op"
)

// TargetsIn is the input of chrome_targets: nothing.
type TargetsIn struct{}

// TargetList is the result of chrome_targets: the paired browser profiles by
// label.
type TargetList []op.Profile

// Text is one line a profile.
func (l TargetList) Text() string {
	if len(l) == 0 {
		return "no browser is paired; the user runs pi-chrome onboard"
	}
	var b strings.Builder
	for _, p := range l {
		state := "not connected"
		if p.Connected {
			state = strings.TrimSpace("connected, " + p.Browser + " " + p.BrowserVersion)
		}
		fmt.Fprintf(&b, "%s (%s): %s", p.Label, p.ID, state)
		if p.Current {
			fmt.Fprintf(&b, "; this session works in it, with %d tabs", p.SessionTabs)
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

var opTargets = op.Define(op.Spec{
	Name: "system.targets", Tool: "chrome_targets", Profile: "tabs", Title: "Targets",
	Summary: "List the paired browser profiles and say which are connected.",
	Doc: "One row a profile: its label and id, either of which names it (--browser on a command line), whether it is connected, and which one this session works in. " +
		"A session works in one profile; it can change after its tabs there are closed or released. It changes nothing and needs neither a tab nor authorization.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.NoTab,
	Examples: []op.Example{{Title: "Ask", Input: json.RawMessage(`{}`)}},
	Errors:   []op.Code{op.Unsupported, op.StateUnreadable},
}, targets)

func targets(ctx context.Context, c *Call, _ TargetsIn) (TargetList, error) {
	if c.Browser == nil {
		return nil, unsupported("chrome_targets")
	}
	list, err := c.Browser.Targets(ctx)
	return list, err
}
