package relaytest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/popup"
	"pi-chrome/driver/op"
)

// TestPopup presses the buttons of the real popup against a real owner, while
// sessions work in the same browser.
func TestPopup(t *testing.T) {
	t.Parallel()
	l := Start(t, false)
	p, err := popup.Open(t.Context(), l.Browser)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, p.Close(context.Background())) })
	t.Run("take over and hand back", func(t *testing.T) { takesOver(t, l, p) })
	t.Run("stop", func(t *testing.T) { stops(t, l, p) })
}

// sees waits until the popup's text matches.
func sees(t *testing.T, p *popup.Popup, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := p.Wait(ctx, regexp.MustCompile(want))
	assert.NilError(t, err)
	return text
}

// forever is an expression that ends with the test's patience only.
const forever = "new Promise(() => {})"

// begin sends a command and returns once the owner has it in hand, as queued or
// executing; the channel gives what came of it.
func (s *Session) begin(id, operation string, input string, state string) <-chan *op.Error {
	s.t.Helper()
	done := make(chan *op.Error, 1)
	c := wire.Command{Type: wire.TypeCommand, ID: id, Operation: operation, Session: wire.Session{Key: s.Key}, Input: []byte(input)}
	go func() {
		var err error
		_, err = s.Client.Command(s.t.Context(), c, nil)
		if err == nil {
			done <- nil
			return
		}
		done <- op.AsError(err)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := owner.Outcome(s.t.Context(), s.Client, id)
		assert.NilError(s.t, err)
		if out.State == state {
			return done
		}
		select {
		case err := <-done:
			s.t.Fatalf("%s is over already: %v", operation, err)
		case <-tick.C:
		}
	}
}

func evaluation(expression string) string { return fmt.Sprintf(`{"expression":%q}`, expression) }

// takesOver: the user takes a tab over while a command runs in it and another
// waits. From then on nothing of the session reaches it, and the debugger is
// gone; after the tab is handed back the session goes on in the same document.
func takesOver(t *testing.T, l *Lane, p *popup.Popup) {
	s, other := l.Session(t), l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	tab := 0
	for _, x := range Value[[]op.Tab](t, s.Do("tab.list", map[string]any{})) {
		if x.Owned {
			tab = x.ID
		}
	}
	s.Do("page.evaluate", map[string]any{"expression": "window.mark = 7"})
	sees(t, p, "(?s)"+s.Key+".*Take over")
	running := s.begin(wire.NewSecret(), "page.evaluate", evaluation(forever), "executing")
	waiting := s.begin(wire.NewSecret(), "page.evaluate", evaluation("window.mark = 8"), "queued")
	assert.NilError(t, p.Press(t.Context(), fmt.Sprintf("hand-%d", tab)))
	sees(t, p, "(?s)You have it.*Hand back")
	e := <-running
	assert.Equal(t, e.Code, op.TabHeld)
	assert.Equal(t, e.Kind, op.OutcomeUnknown)
	held := func(e *op.Error) {
		t.Helper()
		assert.Equal(t, e.Code, op.TabHeld)
		assert.Equal(t, e.Kind, op.Rejected)
		assert.Equal(t, e.Details["holder"], "user")
		assert.Assert(t, strings.Contains(e.Message, fmt.Sprintf("the user has taken tab %d over", tab)), e.Message)
	}
	held(<-waiting)
	held(s.Fail("page.snapshot", map[string]any{}))
	held(s.Fail("page.evaluate", map[string]any{"expression": "1"}))
	target := map[string]any{"target": map[string]any{"by": "id", "value": fmt.Sprint(tab)}}
	held(s.Fail("tab.close", target))
	held(other.Fail("page.snapshot", target))
	var attached bool
	w := &worker{browser: l.Browser}
	assert.NilError(t, w.eval(t.Context(), fmt.Sprintf("chrome.debugger.getTargets().then((all) => all.some((x) => x.attached && x.tabId === %d))", tab), &attached))
	assert.Assert(t, !attached, "the banner is above the user's tab")

	assert.NilError(t, p.Press(t.Context(), fmt.Sprintf("hand-%d", tab)))
	sees(t, p, "(?s)"+s.Key+".*Take over")
	r := s.Do("page.evaluate", map[string]any{"expression": "window.mark"})
	assert.Assert(t, strings.Contains(r.Text, "7"), "%s", r.Text)
	s.Do("input.click", map[string]any{"ref": s.Ref("Count")})
	waitCount(t, l, s.Key, 1)
}

// stops: a command in flight, one that waits and the next one of two sessions,
// and of a session that nobody has seen, are refused; the page's server counts
// no click. Afterwards one session is authorized, and works.
func stops(t *testing.T, l *Lane, p *popup.Popup) {
	a, b, fresh := l.Session(t), l.Session(t), l.Session(t)
	for _, s := range []*Session{a, b} {
		s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	}
	ref := a.Ref("Count")
	sees(t, p, "(?s)"+b.Key)
	running := a.begin(wire.NewSecret(), "page.evaluate", evaluation(forever), "executing")
	waiting := a.begin(wire.NewSecret(), "input.click", fmt.Sprintf(`{"ref":%q}`, ref), "queued")
	elsewhere := b.begin(wire.NewSecret(), "page.evaluate", evaluation(forever), "executing")
	assert.NilError(t, p.Press(t.Context(), "stop"))
	stopped := func(e *op.Error, kind op.Kind) {
		t.Helper()
		assert.Equal(t, e.Code, op.SessionLocked)
		assert.Equal(t, e.Kind, kind)
		assert.Assert(t, strings.Contains(e.Message, "the user has stopped every session"), e.Message)
	}
	stopped(<-running, op.OutcomeUnknown)
	stopped(<-elsewhere, op.OutcomeUnknown)
	stopped(<-waiting, op.Rejected)
	for _, s := range []*Session{a, b, fresh} {
		stopped(s.Fail("page.snapshot", map[string]any{}), op.Rejected)
		stopped(s.Fail("page.navigate", map[string]any{"url": l.URL + "/counter/click.html?id=" + s.Key}), op.Rejected)
	}
	sees(t, p, "(?s)Everything is stopped.*pi-chrome authorize --session.*Locked")
	assert.Equal(t, l.Site.Counter.Count(a.Key), 0)

	_, err := owner.Authorize(t.Context(), a.Client, a.Key, 0)
	assert.NilError(t, err)
	a.Do("input.click", map[string]any{"ref": a.Ref("Count")})
	waitCount(t, l, a.Key, 1)
	stopped(b.Fail("page.snapshot", map[string]any{}), op.Rejected)
	text := sees(t, p, "(?s)Ready.*Allowed.*Last commands")
	assert.Assert(t, !strings.Contains(text, "Everything is stopped"), text)
}
