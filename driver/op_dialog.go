package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// DialogIn is the input of chrome_dialog.
type DialogIn struct {
	Action       string `json:"action" enum:"inspect|accept|dismiss|policy" brief:"" jsonschema:"what to do: look at the open dialog, answer it, or set how the session's dialogs are answered from now on"`
	Text         string `json:"text,omitzero" maxLength:"2000" brief:"answer to a prompt" jsonschema:"the answer to a prompt, with accept; with policy to each accepted prompt"`
	Dialogs      string `json:"dialogs,omitzero" enum:"leave|accept|dismiss" brief:"policy for alert, confirm, prompt" jsonschema:"with policy: what is done with alert, confirm and prompt"`
	BeforeUnload string `json:"beforeunload,omitzero" enum:"leave|accept|dismiss" brief:"policy for leaving a page" jsonschema:"with policy: what is done when a page asks whether it may be left; accept leaves it"`
	op.TabInput
}

// EffectOf says that only looking has no effect.
func (in DialogIn) EffectOf() op.Effect {
	if in.Action == "inspect" {
		return op.ReadOnly
	}
	return op.MayMutate
}

// DialogOut is the result of chrome_dialog.
type DialogOut struct {
	Open     bool             `json:"open" jsonschema:"whether a dialog is open now"`
	Dialog   *Dialog          `json:"dialog,omitempty" jsonschema:"the dialog that was inspected or answered"`
	Action   string           `json:"action"`
	Policy   DialogPolicy     `json:"policy" jsonschema:"how the session's dialogs are answered"`
	Answered []AnsweredDialog `json:"answered,omitempty" jsonschema:"with inspect: the last dialogs of the tab that the policy answered, at most 10"`
}

// Text says what the dialog is, or how it was answered.
func (o DialogOut) Text() string {
	var lines []string
	switch {
	case o.Action == "policy":
		lines = append(lines, fmt.Sprintf("Dialog policy of the session: dialogs %s, beforeunload %s", o.Policy.Dialogs, o.Policy.BeforeUnload))
		if o.Open {
			lines = append(lines, "a dialog is open already; answer it with chrome_dialog accept or dismiss")
		}
	case o.Dialog == nil:
		lines = append(lines, "No dialog is open.")
	default:
		did := map[string]string{"inspect": "is open", "accept": "accepted", "dismiss": "dismissed"}[o.Action]
		lines = append(lines, fmt.Sprintf("Dialog %s: %s %q", did, o.Dialog.Type, o.Dialog.Message))
		if o.Action == "inspect" {
			lines = append(lines, "answer it with chrome_dialog accept or dismiss")
		}
	}
	for _, a := range o.Answered {
		lines = append(lines, "before: "+a.String())
	}
	return strings.Join(lines, "\n")
}

var opDialog = op.Define(op.Spec{
	Name: "page.dialog", Tool: "chrome_dialog", Profile: "interaction", Title: "Dialog",
	Summary: "Look at or answer the JavaScript dialog that blocks the tab, or set how the session answers dialogs.",
	Brief:   "Look at or answer the JavaScript dialog that blocks the tab, or set how the session answers dialogs.",
	Doc: "An alert, confirm, prompt or beforeunload dialog blocks its page: every other command on the tab says `dialog-open` until it is answered. " +
		"`inspect` tells what it says; `accept` presses OK (with `text` for a prompt), `dismiss` presses Cancel. " +
		"`policy` sets what is done with dialogs from now on, on every tab of the session, until it is set anew or the owner ends: `dialogs` for alert, confirm and prompt, `beforeunload` for leaving a page; what is not given stays. " +
		"At first both are `leave`. What the policy answered stands in the receipt of the command, in the notes of a navigation, and in `inspect`.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, PassesBy: true, Args: []string{"action"},
	Examples: []op.Example{
		{Title: "See whether a dialog is open", Input: json.RawMessage(`{"action":"inspect"}`)},
		{Title: "Leave pages that ask, and press Cancel in every other dialog", Input: json.RawMessage(`{"action":"policy","dialogs":"dismiss","beforeunload":"accept"}`)},
	},
	Errors: []op.Code{op.InvalidInput},
}, dialog)

// Check refuses fields that do not go with the action.
func (in DialogIn) Check() error {
	switch {
	case in.Action == "policy" && in.Dialogs == "" && in.BeforeUnload == "":
		return op.Invalidf("chrome_dialog: the action policy needs dialogs, beforeunload or both")
	case in.Action != "policy" && in.Dialogs != "":
		return op.Invalidf("chrome_dialog: field %q goes only with the action policy", "dialogs").WithDetail("field", "dialogs")
	case in.Action != "policy" && in.BeforeUnload != "":
		return op.Invalidf("chrome_dialog: field %q goes only with the action policy", "beforeunload").WithDetail("field", "beforeunload")
	}
	return nil
}

// setPolicy changes what the input names of the session's policy.
func (in DialogIn) setPolicy(c *Call) error {
	if in.Action != "policy" {
		return nil
	}
	p := c.driver.dialogs.get(c.Session.Key)
	if in.Dialogs != "" {
		p.Dialogs, p.Text = in.Dialogs, in.Text
	}
	if in.BeforeUnload != "" {
		p.BeforeUnload = in.BeforeUnload
	}
	if p.Text != "" && p.Dialogs != acceptDialog {
		return op.Invalidf("chrome_dialog: field %q goes only with accepted dialogs", "text").WithDetail("field", "text")
	}
	c.driver.dialogs.set(c.Session.Key, p)
	return nil
}

func dialog(ctx context.Context, c *Call, in DialogIn) (DialogOut, error) {
	t := c.tab
	if err := in.setPolicy(c); err != nil {
		return DialogOut{}, err
	}
	p := c.driver.dialogs.get(c.Session.Key)
	d := t.openDialog()
	out := DialogOut{Open: d != nil, Dialog: d, Action: in.Action,
		Policy: DialogPolicy{Dialogs: p.answer(""), BeforeUnload: p.answer(string(page.DialogTypeBeforeunload)), Text: p.Text}}
	if in.Action == "policy" {
		return out, nil
	}
	if in.Action == "inspect" {
		t.mu.Lock()
		out.Answered = slices.Clone(t.answered)
		t.mu.Unlock()
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
		t.mu.Lock()
		if t.dialog == d {
			t.dialog = nil
		}
		t.mu.Unlock()
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
