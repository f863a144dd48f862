package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// DialogIn is the input of chrome_dialog.
type DialogIn struct {
	Action string `json:"action" enum:"inspect|accept|dismiss" jsonschema:"what to do with the open dialog"`
	Text   string `json:"text,omitzero" maxLength:"2000" jsonschema:"the answer to a prompt, with accept"`
	op.TabInput
}

// EffectOf says that only an answer has an effect.
func (in DialogIn) EffectOf() op.Effect {
	if in.Action == "inspect" {
		return op.ReadOnly
	}
	return op.MayMutate
}

// DialogOut is the result of chrome_dialog.
type DialogOut struct {
	Open   bool    `json:"open" jsonschema:"whether a dialog is open now"`
	Dialog *Dialog `json:"dialog,omitempty" jsonschema:"the dialog that was inspected or answered"`
	Action string  `json:"action"`
}

// Text says what the dialog is, or how it was answered.
func (o DialogOut) Text() string {
	if o.Dialog == nil {
		return "No dialog is open."
	}
	did := map[string]string{"inspect": "is open", "accept": "accepted", "dismiss": "dismissed"}[o.Action]
	s := fmt.Sprintf("Dialog %s: %s %q", did, o.Dialog.Type, o.Dialog.Message)
	if o.Action == "inspect" {
		s += "\nanswer it with chrome_dialog accept or dismiss"
	}
	return s
}

var opDialog = op.Define(op.Spec{
	Name: "page.dialog", Tool: "chrome_dialog", Profile: "interaction", Title: "Dialog",
	Summary: "Look at or answer the JavaScript dialog that blocks the tab.",
	Doc: "An alert, confirm, prompt or beforeunload dialog blocks its page: every other command on the tab says `dialog-open` until it is answered. " +
		"`inspect` tells what it says; `accept` presses OK (with `text` for a prompt), `dismiss` presses Cancel.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, PassesBy: true, Args: []string{"action"},
	Examples: []op.Example{{Title: "See whether a dialog is open", Input: json.RawMessage(`{"action":"inspect"}`)}},
	Errors:   []op.Code{op.InvalidInput},
}, dialog)

func dialog(ctx context.Context, c *Call, in DialogIn) (DialogOut, error) {
	t := c.tab
	d := t.openDialog()
	out := DialogOut{Open: d != nil, Dialog: d, Action: in.Action}
	if in.Action == "inspect" {
		return out, nil
	}
	if d == nil {
		return out, op.Reject(op.InvalidActionTarget, "no dialog is open on tab %d; nothing was done", t.conn.Key().TabID).
			WithHint("take a snapshot to see how the page stands")
	}
	if in.Text != "" && (d.Type != "prompt" || in.Action != "accept") {
		return out, op.Invalidf("chrome_dialog: field %q goes only with accepting a prompt; this is a %s", "text", d.Type)
	}
	closed := make(chan struct{}, 1)
	stop := t.watch(func(ev op.Event) {
		if ev.Method == page.JavascriptDialogClosed.Method || ev.Detached != "" {
			select {
			case closed <- struct{}{}:
			default:
			}
		}
	})
	defer stop()
	c.begin()
	_, err := call(ctx, t.conn, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: in.Action == "accept", PromptText: in.Text})
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		c.noEffect()
		return out, op.Reject(op.InvalidActionTarget, "the dialog of tab %d is not open any more: %s", t.conn.Key().TabID, p.Message).
			WithHint("take a snapshot to see how the page stands")
	}
	if err != nil {
		return out, err
	}
	// The next dialog may come at once: what counts is that this one closed.
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	out.Open = t.openDialog() != nil
	return out, nil
}
