package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func init() {
	fakeOps["ask"] = op.Descriptor{Name: "ask", Tool: "chrome_ask", Effect: op.MayMutate, Tab: op.NoTab, Deadline: op.AskDeadline, PassesBy: true}
}

func (b *fakeBrowser) ShowAsk(ctx context.Context, id, text string) error {
	return b.do(ctx, "ask.show", func() error { b.asked = id + " " + text; return nil })
}

func (b *fakeBrowser) HideAsk(ctx context.Context) error {
	return b.do(ctx, "ask.hide", func() error { b.asked = ""; return nil })
}

// asking is a handler that asks for 60 s.
func asking(ctx context.Context, call *Call) (op.Result, error) {
	if call.Operation != "ask" {
		return op.NewResult("ok")
	}
	answered, err := call.Browser.Ask(ctx, "log in", time.Minute)
	if err != nil {
		return op.Result{}, err
	}
	return op.NewResult(answered)
}

func (b *fakeBrowser) question() (id, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Sscanf(b.asked, "%s", &id)
	if id != "" {
		text = b.asked[len(id)+1:]
	}
	return id, text
}

func press(r *rig, id string) {
	r.srv.popupRequest(r.browser.id, []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"kind":"done","id":%q}`, id))})
}

func TestAskEndsWhenTheUserPressesDone(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = asking
		p := r.dial()
		defer p.close()
		p.send(cmd("a", "ask", `{}`))
		synctest.Wait()
		id, text := r.browser.question()
		assert.Equal(t, text, "log in")
		// It blocks nothing, of its own session either.
		wantOK(t, p.do(cmd("b", "page.click", `{}`)))
		wantOK(t, p.do(cmd("c", "tab.new", `{}`)))
		// A second question is refused, whoever asks.
		other := cmd("d", "ask", `{}`)
		other.Session.Key = "other"
		f := wantError(t, p.do(other), op.Rejected, op.AskPending)
		assert.Equal(t, f.Details["holder"], "default")
		press(r, "of another question")
		r.srv.popupRequest(r.browser.id, nil)
		r.srv.popupRequest(r.browser.id, []json.RawMessage{json.RawMessage(`"?"`)})
		synctest.Wait()
		assert.Assert(t, !p.answered("a"))
		press(r, id)
		press(r, id)
		assert.Equal(t, string(p.wait("a", 1).Value), "true")
		id, _ = r.browser.question()
		assert.Equal(t, id, "")
		press(r, "late")
	})
}

func TestAskEndsWithItsTime(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = asking
		p := r.dial()
		defer p.close()
		began := time.Now()
		assert.Equal(t, string(p.do(cmd("a", "ask", `{}`)).Value), "false")
		assert.Equal(t, time.Since(began), time.Minute)
		id, _ := r.browser.question()
		assert.Equal(t, id, "")
	})
}

func TestACanceledAskIsTakenBack(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = asking
		p := r.dial()
		defer p.close()
		for i, end := range []func(id string){
			func(id string) { p.send(wire.Cancel{Type: wire.TypeCancel, ID: id}) },
			func(string) { assert.NilError(t, p.ask("revoke", SessionParams{"default"}, nil)) },
		} {
			id := fmt.Sprint("a", i)
			p.send(cmd(id, "ask", `{}`))
			synctest.Wait()
			end(id)
			f := wantError(t, p.wait(id, 1), op.Rejected, []op.Code{op.Canceled, op.SessionLocked}[i])
			assert.Assert(t, f.Message != "")
			shown, _ := r.browser.question()
			assert.Equal(t, shown, "")
		}
	})
}

func TestAskThatCannotBeShown(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = asking
		r.browser.fail = func(call string) (error, bool) {
			if call == "ask.show" {
				return op.ErrNotDelivered, false
			}
			return nil, false
		}
		p := r.dial()
		defer p.close()
		wantError(t, p.do(cmd("a", "ask", `{}`)), op.Unavailable, op.ConnectorOffline)
		// A lost answer is no reason to give up: it may be shown.
		r.browser.fail = func(call string) (error, bool) {
			if call == "ask.show" {
				return errLostForTest, true
			}
			return nil, false
		}
		p.send(cmd("b", "ask", `{}`))
		synctest.Wait()
		id, _ := r.browser.question()
		press(r, id)
		assert.Equal(t, string(p.wait("b", 1).Value), "true")
	})
}

// TestAskIsShownAgain loses the popup's contents, as a new start of the
// browser does, while a question is open.
func TestAskIsShownAgain(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = asking
		p := r.dial()
		defer p.close()
		r.srv.askAgain(t.Context(), r.browser) // nothing to show
		p.send(cmd("a", "ask", `{}`))
		synctest.Wait()
		before, _ := r.browser.question()
		r.browser.mu.Lock()
		r.browser.asked = ""
		r.browser.mu.Unlock()
		r.srv.askAgain(t.Context(), r.browser)
		again, text := r.browser.question()
		assert.Equal(t, again, before)
		assert.Equal(t, text, "log in")
		press(r, again)
		wantOK(t, p.wait("a", 1))
	})
}
