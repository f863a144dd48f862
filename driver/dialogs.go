package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// DialogPolicy is what a session does with JavaScript dialogs by itself. The
// zero policy leaves every dialog to chrome_dialog.
type DialogPolicy struct {
	Dialogs      string `json:"dialogs" enum:"leave|accept|dismiss" jsonschema:"what is done with alert, confirm and prompt"`
	BeforeUnload string `json:"beforeunload" enum:"leave|accept|dismiss" jsonschema:"what is done when a page asks whether it may be left; accept leaves it"`
	Text         string `json:"text,omitempty" jsonschema:"the answer to an accepted prompt; empty takes what the page proposes"`
}

// Answers of a policy.
const (
	leaveDialog   = "leave"
	acceptDialog  = "accept"
	dismissDialog = "dismiss"
)

// answer is what the policy does with a dialog of the type.
func (p DialogPolicy) answer(kind string) string {
	a := p.Dialogs
	if kind == string(page.DialogTypeBeforeunload) {
		a = p.BeforeUnload
	}
	if a == "" {
		return leaveDialog
	}
	return a
}

// AnsweredDialog is a dialog that the session's policy answered.
type AnsweredDialog struct {
	Dialog
	Answer string `json:"answer" enum:"accept|dismiss"`
}

func (a AnsweredDialog) String() string {
	return fmt.Sprintf("%s %q was %s by the session's dialog policy", a.Type, cut(a.Message, 200), map[string]string{acceptDialog: "accepted", dismissDialog: "dismissed"}[a.Answer])
}

// Bounds of what a policy does.
const (
	maxPolicies  = 256             // sessions whose policy is kept; the oldest goes
	maxAnswers   = 50              // dialogs answered during one command: a page may ask without end
	keptAnswers  = 10              // of a tab, for chrome_dialog inspect
	answerBound  = 5 * time.Second // for Chrome to take an answer
	toldOfAnswer = "piChrome.dialogAnswered"
)

// policies are the dialog policies by session.
type policies struct {
	mu    sync.Mutex
	of    map[string]DialogPolicy
	order []string // oldest first
}

func (p *policies) get(session string) DialogPolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[session]
}

func (p *policies) set(session string, policy DialogPolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]DialogPolicy{}
	}
	p.order = append(slices.DeleteFunc(p.order, func(s string) bool { return s == session }), session)
	p.of[session] = policy
	if len(p.order) > maxPolicies {
		delete(p.of, p.order[0])
		p.order = p.order[1:]
	}
}

// serve notes whose command the tab runs now: that session's policy holds for
// its dialogs, also between commands.
func (t *Tab) serve(session string, p *policies) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.policy = func() DialogPolicy { return p.get(session) }
	t.answers = 0
}

// policed takes in the opening of a dialog that the session's policy answers,
// and returns the event that is told in its stead. The answer is sent beside
// the events, and where it cannot be, the dialog is told as open after all.
func (t *Tab) policed(ev op.Event) op.Event {
	e, ok := decode[page.EventJavascriptDialogOpening](ev)
	t.mu.Lock()
	policy := t.policy
	t.mu.Unlock()
	if !ok || policy == nil {
		return ev
	}
	p := policy()
	done := AnsweredDialog{Dialog: dialogOf(e), Answer: p.answer(string(e.Type))}
	if done.Answer == leaveDialog {
		return ev
	}
	text := p.Text
	if text == "" {
		text = e.DefaultPrompt
	}
	params, err := json.Marshal(done)
	if err != nil {
		return ev
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answers >= maxAnswers || t.policy == nil {
		return ev
	}
	t.answers++
	closed := t.closed
	t.answered = append(t.answered, done)
	t.answered = t.answered[max(0, len(t.answered)-keptAnswers):]
	t.answering.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, answerBound)
		defer cancel()
		_, err := call(ctx, t.conn, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: done.Answer == acceptDialog, PromptText: text})
		if _, gone := errors.AsType[*op.ProtocolError](err); err == nil || gone {
			return // answered, by us or by the user
		}
		t.log.Debug("answering a dialog", "error", err)
		t.mu.Lock()
		open := t.closed == closed // only the reply may have been lost
		t.mu.Unlock()
		if open {
			t.take(ev)
		}
	})
	return op.Event{SessionID: ev.SessionID, Method: toldOfAnswer, Params: params}
}

// answeredIn reads the event of an answer.
func answeredIn(ev op.Event) (AnsweredDialog, bool) {
	var a AnsweredDialog
	ok := ev.Method == toldOfAnswer && json.Unmarshal(ev.Params, &a) == nil
	return a, ok
}

// dialogOf is the dialog that an event announces.
func dialogOf(e page.EventJavascriptDialogOpening) Dialog {
	return Dialog{Type: string(e.Type), Message: e.Message, DefaultPrompt: e.DefaultPrompt, URL: e.URL}
}

// staysError says that the policy kept the page from being left.
func staysError(t *Tab, a AnsweredDialog, what string) *op.Error {
	return op.Reject(op.NavigationInterrupted, "tab %d did not %s: %s; it shows what it did before", t.conn.Key().TabID, what, a).
		WithHint("to leave the page, set the policy with chrome_dialog: action policy, beforeunload accept").
		WithDetail("type", a.Type).WithDetail("message", cut(a.Message, 1000))
}
