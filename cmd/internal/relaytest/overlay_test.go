package relaytest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/direct"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// A password manager shows a frame of its own in the page while a password has
// the focus, and Chrome refuses each command for as long.
func TestOtherExtensionsFrame(t *testing.T) {
	t.Parallel()
	l := startBeside(t, false, "testdata/overlay-extension")
	s := l.Session(t)
	s.Open(l.URL + "/frames/overlay.html")
	user := l.userPage(t, l.URL+"/frames/overlay.html")
	shown := func() bool {
		all, err := l.Browser.Targets(t.Context())
		assert.NilError(t, err)
		return slices.ContainsFunc(all, func(i *target.Info) bool { return strings.HasSuffix(i.URL, "/panel.html") })
	}
	show := func() {
		drivertest.Eval(t, user, "document.getElementById('password').focus()")
		until(t, 10*time.Second, "the frame of the other extension is shown", shown)
	}
	const hide = "document.activeElement.blur()"
	log := func() string { return drivertest.Eval(t, user, "document.getElementById('log').textContent") }
	s.Do("input.fill", map[string]any{"selector": "#name", "text": "ada"})

	// A command that comes while the frame is there waits for its end.
	show()
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := s.Run("input.click", map[string]any{"selector": "#enter"})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v after %s", err, time.Since(began))
	case <-time.After(500 * time.Millisecond):
	}
	drivertest.Eval(t, user, hide)
	assert.NilError(t, <-done)
	assert.Equal(t, strings.Count(log(), "click enter"), 1, log())

	// One that stays is told by its cause, and nothing is done, not later either.
	show()
	for _, operation := range []string{"page.snapshot", "input.click", "page.evaluate"} {
		in := map[string]map[string]any{"input.click": {"selector": "#enter"}, "page.evaluate": {"expression": "document.title = 'late'"}}[operation]
		e := s.Fail(operation, in)
		assert.Equal(t, e.Kind, op.Rejected, "%s: %s", operation, e.Message)
		assert.Equal(t, e.Code, op.DebuggerBusy, "%s: %s", operation, e.Message)
		assert.Assert(t, strings.Contains(e.Message, "another extension shows a frame") && strings.Contains(strings.ToLower(e.Hint), "close"), "%s: %s (%s)", operation, e.Message, e.Hint)
		assert.Equal(t, strings.Count(e.Message, "another extension"), 1, e.Message)
	}
	told := l.doctor(t)
	assert.Assert(t, strings.Contains(told, "a part of another extension") && strings.Contains(told, "close that extension's overlay"), told)
	drivertest.Eval(t, user, hide)
	assert.Equal(t, s.Do("page.evaluate", map[string]any{"expression": "document.title"}).Text, "Sign in")
	s.Do("input.click", map[string]any{"selector": "#enter"})
	assert.Equal(t, strings.Count(log(), "click enter"), 2, log())

	// The click that brings the frame: Chrome may end the debugger session in
	// the middle of it.
	if _, err := s.Run("input.click", map[string]any{"selector": "#password"}); err != nil {
		e := op.AsError(err)
		assert.Equal(t, e.Kind, op.OutcomeUnknown, e.Message)
		assert.Assert(t, strings.Contains(e.Message+e.Hint, "another extension"), "%s (%s)", e.Message, e.Hint)
	}
	drivertest.Eval(t, user, hide)
	assert.Equal(t, strings.Count(log(), "focusin password"), 3, log())
	s.Do("input.fill", map[string]any{"selector": "#name", "text": "grace"})
	assert.Equal(t, s.Do("page.evaluate", map[string]any{"expression": "document.getElementById('name').value"}).Text, "grace")
}

// userPage is a tab of the lane's browser as its user has it, beside the owner.
func (l *Lane) userPage(t testing.TB, url string) *direct.Page {
	t.Helper()
	all, err := l.Browser.Targets(t.Context())
	assert.NilError(t, err)
	i := slices.IndexFunc(all, func(info *target.Info) bool { return info.URL == url })
	assert.Assert(t, i >= 0, "no tab shows %s", url)
	p, err := l.Browser.AttachPage(t.Context(), all[i].TargetID)
	assert.NilError(t, err)
	return p
}
