package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// ConsoleIn is the input of chrome_console.
type ConsoleIn struct {
	Clear        bool   `json:"clear,omitzero" brief:"forget them afterwards" jsonschema:"whether the messages are forgotten once they are told"`
	Level        string `json:"level,omitzero" enum:"debug|log|info|warn|error" brief:"this and worse" jsonschema:"tell only messages of this level and worse; uncaught errors and rejections are errors"`
	TextContains string `json:"textContains,omitzero" maxLength:"1000" brief:"" jsonschema:"tell only messages whose values or address contain this, in any case"`
	Limit        int    `json:"limit,omitzero" min:"1" max:"500" brief:"the newest" jsonschema:"tell at most so many, the newest; all when absent"`
	Before       string `json:"before,omitzero" pattern:"^msg-[0-9]+$" brief:"msg-N: go on with older ones" jsonschema:"tell only messages before this one, to go on where an answer was cut"`
	Enable       *bool  `json:"enable,omitempty" brief:"false ends the capture" jsonschema:"false ends the capture after this answer; true when absent"`
	op.TabInput
}

// ConsoleOut is the result of chrome_console: the messages in the order in
// which they came.
type ConsoleOut struct {
	Messages []ConsoleMessage `json:"messages"`
	ConsoleInfo
}

// ConsoleInfo says what stands beside the messages.
type ConsoleInfo struct {
	Count       int      `json:"count" jsonschema:"how many messages are told"`
	Omitted     int      `json:"omitted,omitempty" jsonschema:"older messages that match and are not told here"`
	Before      string   `json:"before,omitempty" jsonschema:"give this as before to see the older ones"`
	Dropped     int      `json:"dropped,omitempty" jsonschema:"messages that the bounded buffer has lost"`
	Enabled     bool     `json:"enabled" jsonschema:"whether the capture is on"`
	Started     bool     `json:"started,omitempty" jsonschema:"this call turned it on"`
	Since       int64    `json:"since" jsonschema:"when it was turned on, in ms since 1970"`
	Detectable  bool     `json:"detectable" jsonschema:"while it is on, a page can notice that it is debugged"`
	Interrupted int      `json:"interrupted,omitempty" jsonschema:"how often the debugger was detached meanwhile; messages of that time may be missing"`
	NotCaptured []string `json:"notCaptured,omitempty" jsonschema:"frames and workers that are not captured, and why"`
	Note        string   `json:"note,omitempty"`
}

// Text is the result as JSON, one message a line. When not all fit, the
// newest stand there.
func (o ConsoleOut) Text() string {
	items := make([]json.RawMessage, len(o.Messages))
	for i, m := range o.Messages {
		items[i] = compact(m)
	}
	return listText("messages", items, func(omitted int) any {
		info := o.ConsoleInfo
		info.Count -= omitted
		info.Omitted += omitted
		if omitted > 0 {
			info.Before = o.Messages[min(omitted, len(o.Messages)-1)].ID
		}
		return info
	})
}

// opConsole tells the console of the tab. The capture listens to Chrome's own
// events and changes nothing in the page; the values of arguments need
// Runtime.enable, which a page can notice, so it is on only while asked for.
var opConsole = op.Define(op.Spec{
	Name: "page.console", Tool: "chrome_console", Profile: "network", Title: "Console",
	Summary: "Read what the page logged: console messages, uncaught errors, and the browser's own messages about it.",
	Brief:   "Read the page's console messages and errors. The first call starts the capture.",
	Doc: "The first call on a tab turns the capture on, says so (`started`), and tells what Chrome had kept of the present documents. From then on all of the tab's " +
		"documents, frames and workers are captured, until `enable` is false or the tab is given back.\n\n" +
		"Each message has its level, time, place and up to 20 values of at most 2,000 characters, as JSON with the markers of chrome_evaluate; no getter is run. " +
		"At most 500 messages (1 MB) are kept, and `dropped` counts those that were lost. Nothing is changed in the page, but while the capture is on a page can notice that it is debugged.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "Read the console", Input: json.RawMessage(`{}`), Page: "console/levels.html"},
		{Title: "Read errors only, then forget them", Input: json.RawMessage(`{"level":"error","clear":true}`), Page: "console/levels.html"},
	},
	Errors: []op.Code{op.DialogOpen, op.InvalidInput},
}, console)

func console(ctx context.Context, c *Call, in ConsoleIn) (ConsoleOut, error) {
	t := c.tab
	before := 0
	if in.Before != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(in.Before, "msg-"))
		if err != nil {
			return ConsoleOut{}, op.Invalidf("chrome_console: field %q is %q; give an id that an answer told", "before", in.Before)
		}
		before = n
	}
	stop := in.Enable != nil && !*in.Enable
	started := false
	if !stop {
		var err error
		if started, err = t.startCapture(ctx, true); err != nil {
			return ConsoleOut{}, err
		}
	}
	// Values that are still being read belong to what was logged.
	t.captureSettled(ctx, 500*time.Millisecond)
	out := t.consoleNow(in, before)
	if stop {
		if err := t.stopCapture(ctx, true); err != nil {
			return ConsoleOut{}, fmt.Errorf("turning the capture off: %w", err)
		}
		out.Enabled, out.Detectable = false, false
		out.Note = "the capture is off; the next call turns it on again"
	}
	if started {
		out.Started = true
		out.Note = "the capture is on from now on; what Chrome had kept of the present documents is told too"
	}
	return out, nil
}

// levelRank orders the levels.
var levelRank = map[string]int{"debug": 0, "log": 1, "info": 2, "warn": 3, "error": 4, "pageerror": 4, "unhandledrejection": 4}

// consoleNow tells the messages that match, and clears them where asked.
func (t *Tab) consoleNow(in ConsoleIn, before int) ConsoleOut {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.capture
	out := ConsoleOut{Messages: []ConsoleMessage{}}
	want := strings.ToLower(in.TextContains)
	for _, e := range c.console.list {
		if e.msg.URL == "" {
			// The frame logged before it told its address.
			if f := t.frames[e.frame]; f != nil {
				e.msg.URL = shownURL(f.url)
			}
			if e.msg.URL == "" && e.msg.Location != nil {
				e.msg.URL = e.msg.Location.URL
			}
		}
		if before > 0 && e.number >= before || levelRank[e.msg.Level] < levelRank[in.Level] || !e.contains(want) {
			continue
		}
		m := e.msg
		if e.request != "" {
			if r := c.network.lastLocked(e.request); r != nil && !r.gone {
				m.RequestID = r.req.ID
			}
		}
		out.Messages = append(out.Messages, m)
	}
	if in.Limit > 0 && len(out.Messages) > in.Limit {
		out.Omitted = len(out.Messages) - in.Limit
		out.Messages = out.Messages[out.Omitted:]
		out.Before = out.Messages[0].ID
	}
	out.Count, out.Dropped, out.Since = len(out.Messages), c.console.dropped, c.consoleSince
	out.Enabled, out.Detectable, out.Interrupted = c.wantConsole, c.wantConsole, c.lost
	out.NotCaptured = t.notCapturedLocked()
	if in.Clear {
		c.console.clear()
	}
	return out
}

// contains reports whether the text, in lower case, stands in the message.
func (m *consoleEntry) contains(want string) bool {
	if want == "" {
		return true
	}
	if strings.Contains(strings.ToLower(m.msg.URL), want) || m.msg.Location != nil && strings.Contains(strings.ToLower(m.msg.Location.URL), want) {
		return true
	}
	for _, a := range m.msg.Args {
		if strings.Contains(strings.ToLower(string(a)), want) {
			return true
		}
	}
	return false
}
