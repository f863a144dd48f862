package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// AskIn is the input of chrome_ask.
type AskIn struct {
	Message   string `json:"message" minLength:"1" maxLength:"500" brief:"what the user is to do" jsonschema:"one or two sentences that say what the user is to do, such as solving a captcha"`
	TimeoutMs int    `json:"timeoutMs,omitzero" min:"1000" max:"300000" brief:"default 120000" jsonschema:"how long to wait for them, in milliseconds; 120000 when absent"`
}

// AskOut is the result of chrome_ask.
type AskOut struct {
	Answered  bool  `json:"answered" jsonschema:"whether the user pressed Done; false when the time was over"`
	ElapsedMs int64 `json:"elapsedMs"`
}

// Text says it in a sentence.
func (o AskOut) Text() string {
	if o.Answered {
		return fmt.Sprintf("The user pressed Done after %.1f s. Take a snapshot to see what they did.", float64(o.ElapsedMs)/1000)
	}
	return fmt.Sprintf("The user did not press Done within %.1f s. They may still be at it: look at the page, or ask again.", float64(o.ElapsedMs)/1000)
}

var opAsk = op.Define(op.Spec{
	Name: "ask", Tool: "chrome_ask", Profile: "interaction", Title: "Ask",
	Summary: "Show the user a sentence, such as to log in, and wait until they press Done.",
	Brief:   "Show the user a sentence and wait until they press Done.",
	Doc: "Shows `message` in the popup of the extension, marked by a badge on its icon, with a Done button, and waits until the user presses it or the time is over; neither is an error. " +
		"It opens no window and takes no focus, so tell the user by your own means too. It is for what only a person can do: a login, a captcha, a payment. " +
		"Meanwhile every other tool works. One question at a time is shown in a profile; one that is canceled is taken away.",
	Effect: op.MayMutate, Verb: op.VerbUser, Deadline: op.AskDeadline, Tab: op.NoTab, PassesBy: true, Args: []string{"message"},
	Examples: []op.Example{{Title: "Have the user log in", Input: json.RawMessage(`{"message":"Please log in to the shop, then press Done.","timeoutMs":1000}`)}},
	Errors:   []op.Code{op.AskPending, op.Canceled, op.ConnectorOffline},
}, ask)

// Check refuses a question without words.
func (in AskIn) Check() error {
	if strings.TrimSpace(in.Message) == "" {
		return op.Invalidf("chrome_ask: field %q is blank", "message").WithDetail("field", "message")
	}
	return nil
}

func ask(ctx context.Context, c *Call, in AskIn) (AskOut, error) {
	if c.Browser == nil {
		return AskOut{}, unsupported("chrome_ask")
	}
	timeout := 120 * time.Second
	if in.TimeoutMs > 0 {
		timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	}
	start := time.Now()
	answered, err := c.Browser.Ask(ctx, strings.TrimSpace(in.Message), timeout)
	return AskOut{Answered: answered, ElapsedMs: time.Since(start).Milliseconds()}, err
}
