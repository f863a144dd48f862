package relaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
	"pi-chrome/extension"
)

// TestTabs drives tabs, groups, the popup's question and lists of steps in a
// browser with windows: what is shown, and what has the focus, exists only
// there.
func TestTabs(t *testing.T) {
	t.Parallel()
	l := Start(t, true)
	t.Run("activate", func(t *testing.T) { activates(t, l) })
	t.Run("background", func(t *testing.T) { backgrounds(t, l) })
	t.Run("group", func(t *testing.T) { groups(t, l) })
	t.Run("conflict", func(t *testing.T) { conflicts(t, l) })
	t.Run("claim", func(t *testing.T) { claims(t, l) })
	t.Run("claim what a click opened", func(t *testing.T) { claimsOpened(t, l) })
	t.Run("policy", func(t *testing.T) { policies(t, l) })
	t.Run("discard", func(t *testing.T) { discards(t, l) })
	t.Run("ask", func(t *testing.T) { asks(t, l) })
	t.Run("do", func(t *testing.T) { lists(t, l) })
	t.Run("examples", func(t *testing.T) {
		descs, err := owner.Descriptors()
		assert.NilError(t, err)
		lane := relayLane(t, l, drivertest.NewServer(t))
		drivertest.RunCases(t, lane, pagecases.Examples(descs, true))
	})
}

// as runs one operation as a session that may take the focus.
func (s *Session) as(foreground bool, operation string, input any) (client.Outcome, error) {
	raw, err := json.Marshal(input)
	assert.NilError(s.t, err)
	return s.Client.Command(s.t.Context(), wire.Command{
		Operation: operation, Session: wire.Session{Key: s.Key, Foreground: foreground}, Input: raw,
	}, nil)
}

func (s *Session) tab(operation string, input any) op.Tab {
	s.t.Helper()
	return valueOf[op.Tab](s.t, s.Do(operation, input))
}

func valueOf[T any](t testing.TB, r op.Result) T {
	t.Helper()
	var v T
	assert.NilError(t, json.Unmarshal(r.Value, &v))
	return v
}

func (s *Session) activeTab() int {
	s.t.Helper()
	for _, tab := range valueOf[[]op.Tab](s.t, s.Do("tab.list", map[string]any{})) {
		if tab.Active {
			return tab.ID
		}
	}
	return -1
}

func activates(t *testing.T, l *Lane) {
	s := l.Session(t)
	e := s.Fail("tab.activate", map[string]any{})
	assert.Equal(t, e.Code, op.AutomationTargetRequired)
	tab := s.tab("tab.new", map[string]any{"url": l.URL + "/counter/click.html"})
	before := s.activeTab()
	assert.Assert(t, before != tab.ID)
	e = s.Fail("tab.activate", map[string]any{})
	assert.Equal(t, e.Code, op.BackgroundMode)
	assert.Equal(t, e.Kind, op.Rejected)
	assert.Equal(t, s.activeTab(), before)
	out, err := s.as(true, "tab.activate", map[string]any{"target": map[string]any{"by": "id", "value": tab.ID}})
	assert.NilError(t, err)
	shown := valueOf[op.Tab](t, out.Result)
	assert.Assert(t, shown.Active && shown.Owned, "%s", out.Result.Value)
	assert.Equal(t, s.activeTab(), tab.ID)
	// It goes back to what the user had.
	_, err = s.as(true, "tab.activate", map[string]any{"target": map[string]any{"by": "id", "value": before}})
	assert.NilError(t, err)
	assert.Equal(t, s.activeTab(), before)
}

// backgrounds: a call shows its tab only where the session may take the focus,
// and may say otherwise for itself.
func backgrounds(t *testing.T, l *Lane) {
	s := l.Session(t)
	tab := s.tab("tab.new", map[string]any{"url": l.URL + "/counter/click.html?id=" + s.Key})
	before := s.activeTab()
	assert.Assert(t, before != tab.ID)
	for name, input := range map[string]map[string]any{
		"page.snapshot": {"background": false},
		"input.click":   {"background": false, "selector": "#count"},
		"tab.new":       {"background": false},
	} {
		e := s.Fail(name, input)
		assert.Equal(t, e.Code, op.BackgroundMode)
		assert.Equal(t, e.Kind, op.Rejected)
	}
	s.Do("page.snapshot", map[string]any{"background": true})
	_, err := s.as(true, "input.click", map[string]any{"background": true, "selector": "#count"})
	assert.NilError(t, err)
	_, err = s.as(true, "page.dialog", map[string]any{"action": "inspect"})
	assert.NilError(t, err)
	_, err = s.as(true, "page.snapshot", map[string]any{"mode": "none"})
	assert.Equal(t, op.AsError(err).Kind, op.Invalid)
	assert.Equal(t, s.activeTab(), before)
	out, err := s.as(true, "input.click", map[string]any{"selector": "#count"})
	assert.NilError(t, err)
	assert.Equal(t, s.activeTab(), tab.ID, "%s", out.Result.Text)
	waitCount(t, l, s.Key, 2)

	out, err = s.as(true, "tab.new", map[string]any{"background": true})
	assert.NilError(t, err)
	assert.Equal(t, s.activeTab(), tab.ID)
	out, err = s.as(true, "tab.new", map[string]any{})
	assert.NilError(t, err)
	shown := valueOf[op.Tab](t, out.Result)
	assert.Assert(t, shown.Active && shown.Owned, "%s", out.Result.Value)
	assert.Equal(t, s.activeTab(), shown.ID)
	_, err = s.as(true, "tab.activate", map[string]any{"target": map[string]any{"by": "id", "value": before}})
	assert.NilError(t, err)
}

func groups(t *testing.T, l *Lane) {
	s := l.Session(t)
	a := s.tab("tab.new", map[string]any{"groupColor": "pink"})
	b := s.tab("tab.new", map[string]any{})
	onA := map[string]any{"by": "id", "value": a.ID}
	e := s.Fail("tab.group", map[string]any{})
	assert.Equal(t, e.Code, op.AmbiguousOwnedTarget)
	got := s.tab("tab.group", map[string]any{"target": onA, "groupColor": "green"})
	assert.Assert(t, got.Group != nil)
	assert.Equal(t, got.Group.Color, "green")
	other := s.tab("tab.group", map[string]any{"target": map[string]any{"by": "id", "value": b.ID}})
	assert.Equal(t, other.GroupID, got.GroupID)
	got = s.tab("tab.ungroup", map[string]any{"target": onA})
	assert.Equal(t, got.GroupID, -1)
	assert.Assert(t, got.Group == nil && got.Owned)
	got = s.tab("tab.ungroup", map[string]any{"target": onA}) // it stays as it is
	assert.Equal(t, got.GroupID, -1)
	got = s.tab("tab.group", map[string]any{"target": onA})
	assert.Equal(t, got.GroupID, other.GroupID)
	assert.Equal(t, got.Group.Color, "green")
	closed := valueOf[map[string]int](t, s.Do("tab.close", map[string]any{"target": onA}))
	assert.Equal(t, closed["closed"], a.ID)
	// One is left, so that no target is needed.
	closed = valueOf[map[string]int](t, s.Do("tab.close", map[string]any{}))
	assert.Equal(t, closed["closed"], b.ID)
	e = s.Fail("tab.close", map[string]any{})
	assert.Equal(t, e.Code, op.AutomationTargetRequired)
}

func conflicts(t *testing.T, l *Lane) {
	a, b := l.Session(t), l.Session(t)
	tab := a.tab("tab.new", map[string]any{})
	for _, name := range []string{"tab.activate", "tab.group", "tab.ungroup", "tab.close", "page.history"} {
		in := map[string]any{"target": map[string]any{"by": "id", "value": tab.ID}}
		if name == "page.history" {
			in["action"] = "reload"
		}
		e := b.Fail(name, in)
		assert.Equal(t, e.Code, op.TabHeld, name)
		assert.Equal(t, e.Details["holder"], a.Key, name)
	}
	assert.Equal(t, len(valueOf[[]op.Tab](t, a.Do("tab.list", map[string]any{}))) > 1, true)
}

// asks plays the user: it looks into the popup and presses Done there.
func asks(t *testing.T, l *Lane) {
	s := l.Session(t)
	w := &worker{browser: l.Browser}
	badge := func() string {
		var text string
		assert.NilError(t, w.eval(t.Context(), `chrome.action.getBadgeText({})`, &text))
		return text
	}
	asked := func() string {
		var text string
		assert.NilError(t, w.eval(t.Context(), `chrome.storage.session.get("ask").then((all) => all.ask?.text ?? "")`, &text))
		return text
	}
	type answer struct {
		out client.Outcome
		err error
	}
	ask := func(ctx context.Context, timeoutMs int) <-chan answer {
		done := make(chan answer, 1)
		raw := json.RawMessage(fmt.Sprintf(`{"message":"Please log in.","timeoutMs":%d}`, timeoutMs))
		go func() {
			out, err := s.Client.Command(ctx, wire.Command{Operation: "ask", Session: wire.Session{Key: s.Key}, Input: raw}, nil)
			done <- answer{out, err}
		}()
		until(t, 10*time.Second, "the question is shown", func() bool { return asked() == "Please log in." && badge() == "ask" })
		return done
	}
	done := ask(t.Context(), 60_000)
	// Everything else works meanwhile, but one question is enough.
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	e := s.Fail("ask", map[string]any{"message": "And this?"})
	assert.Equal(t, e.Code, op.AskPending)
	popup, err := l.Browser.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	drivertest.Goto(t, popup, "chrome-extension://"+extension.ID+"/popup.html")
	until(t, 10*time.Second, "the popup shows the question", func() bool {
		return pageEval(t, popup, `document.getElementById("asked").hidden ? "" : document.getElementById("asked-text").textContent`) == "Please log in."
	})
	drivertest.Eval(t, popup, `document.getElementById("asked-done").click()`)
	got := <-done
	assert.NilError(t, got.err)
	var res struct {
		Answered  bool
		ElapsedMs int64
	}
	assert.NilError(t, json.Unmarshal(got.out.Result.Value, &res))
	assert.Assert(t, res.Answered && res.ElapsedMs > 0)
	assert.Equal(t, asked(), "")
	assert.Equal(t, badge(), "on")
	assert.NilError(t, popup.Close(t.Context()))

	// The time being over is no error.
	got = <-ask(t.Context(), 1000)
	assert.NilError(t, got.err)
	assert.NilError(t, json.Unmarshal(got.out.Result.Value, &res))
	assert.Assert(t, !res.Answered && res.ElapsedMs >= 1000)
	assert.Equal(t, asked(), "")

	// A canceled question is taken away.
	ctx, cancel := context.WithCancel(t.Context())
	done = ask(ctx, 60_000)
	cancel()
	assert.Assert(t, (<-done).err != nil)
	until(t, 10*time.Second, "the question is taken away", func() bool { return asked() == "" && badge() == "on" })
}

// lists runs a list of steps over the relay and counts its effects.
func lists(t *testing.T, l *Lane) {
	s := l.Session(t)
	click := map[string]any{"tool": "chrome_click", "input": map[string]any{"find": map[string]any{"role": "button", "name": "Count"}}}
	res := s.Do("do", map[string]any{"steps": []any{
		map[string]any{"tool": "chrome_navigate", "input": map[string]any{"url": l.URL + "/counter/click.html?id=" + s.Key, "waitUntilLoad": true}},
		click, click,
		map[string]any{"tool": "chrome_read"},
	}})
	out := valueOf[op.DoOut](t, res)
	assert.Equal(t, out.Done, 4, res.Text)
	waitCount(t, l, s.Key, 2)
	assert.Assert(t, strings.Contains(out.Steps[3].Text, "Counter") || out.Steps[3].Text != "", res.Text)
	st, err := owner.Outcome(t.Context(), s.Client, out.Steps[1].ID)
	assert.NilError(t, err)
	assert.Equal(t, st.State, "done")
	assert.Equal(t, st.Operation, "input.click")

	res = s.Do("do", map[string]any{"steps": []any{click, map[string]any{"tool": "chrome_click", "input": map[string]any{"selector": "#nothing"}}, click}})
	out = valueOf[op.DoOut](t, res)
	assert.Equal(t, out.Done, 1)
	assert.Equal(t, out.Steps[1].Error.Code, op.InvalidActionTarget)
	waitCount(t, l, s.Key, 3)
}
