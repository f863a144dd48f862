package relaytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
)

func TestHeadful(t *testing.T) {
	t.Parallel()
	l := Start(t, true)
	d := &desktop{t: t, lane: l, worker: &worker{browser: l.Browser}}
	d.open()
	pageTests(t, l)
	t.Run("page cases", func(t *testing.T) { headfulCases(t, l, d) })
	t.Run("no operation takes the focus", func(t *testing.T) { keepsFocus(t, l, d) })
	t.Run("windows", func(t *testing.T) { windows(t, l, d) })
	t.Run("the user cancels the debugger", func(t *testing.T) { cancelDebugger(t, l, d) })
}

// cancelDebugger presses Cancel on Chrome's own banner: every session of the
// profile is locked, and nothing is attached until the user has authorized one,
// also when no owner is there to hear it.
func cancelDebugger(t *testing.T, l *Lane, d *desktop) {
	s, other := l.Session(t), l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	other.Open(l.URL + "/counter/click.html?id=" + other.Key)
	locked := func() { // one after the other: the debugger is refused meanwhile
		t.Helper()
		for _, each := range []*Session{s, other} {
			until(t, 10*time.Second, "a session is not locked", func() bool {
				st, err := owner.Status(t.Context(), each.Client, each.Key)
				assert.NilError(t, err)
				return st.Session.Authorization == bridge.Locked
			})
		}
	}
	d.pressCancel(t)
	locked()
	for _, each := range []*Session{s, other} {
		assert.Equal(t, each.Fail("page.snapshot", map[string]any{}).Code, op.SessionLocked)
	}
	// One that has not worked here yet gets nothing either.
	stranger := l.Session(t)
	e := stranger.Fail("page.snapshot", map[string]any{})
	assert.Equal(t, e.Code, op.DebuggerCanceled)
	assert.Assert(t, strings.Contains(e.Message, "Cancel") && strings.Contains(e.Hint, "authorize"), "%s %s", e.Message, e.Hint)
	_, err := owner.Authorize(t.Context(), s.Client, s.Key, 0)
	assert.NilError(t, err)
	s.Do("input.click", map[string]any{"selector": "#count"})
	waitCount(t, l, s.Key, 1)
	assert.Equal(t, other.Fail("page.snapshot", map[string]any{}).Code, op.SessionLocked)

	assert.NilError(t, l.KillOwner())
	d.pressCancel(t)
	assert.NilError(t, l.StartOwner())
	locked()
	assert.Equal(t, s.Fail("page.snapshot", map[string]any{}).Code, op.SessionLocked)
	assert.Equal(t, l.Session(t).Fail("page.snapshot", map[string]any{}).Code, op.DebuggerCanceled)
	_, err = owner.Authorize(t.Context(), s.Client, s.Key, 0)
	assert.NilError(t, err)
	s.Do("input.click", map[string]any{"selector": "#count"})
	waitCount(t, l, s.Key, 2)
}

// pressCancel presses Cancel on the banner as a person does.
func (d *desktop) pressCancel(t *testing.T) {
	t.Helper()
	d.show(d.user)
	d.must("xdotool", "windowactivate", "--sync", d.window)
	focused := func() bool { return drivertest.Eval(t, d.page, "document.hasFocus()") == "true" }
	until(t, 10*time.Second, "the user's page does not get the focus", focused)
	// Chrome's shortcut into its info bars, whose first button is Cancel. The
	// page sees the keys first: before it has handed the shortcut back, Return
	// would go to it as well.
	d.must("xdotool", "key", "--clearmodifiers", "alt+shift+a")
	until(t, 10*time.Second, "the info bar does not get the focus", func() bool { return !focused() })
	d.must("xdotool", "key", "Return")
	until(t, 10*time.Second, "the debugger's banner keeps the focus", focused)
}

// headfulOnly are the cases that a window may change: input, frames, pictures,
// and what makes tabs and documents.
var headfulCaseNames = []string{
	"input--click-lands", "input--click-effects", "input--click-frames", "input--click-new-tab", "input--fill-kinds", "input--fill-frames",
	"input--press-effects", "screenshot--viewport", "screenshot--quadrants", "screenshot--keeps-scroll", "screenshot--long",
	"wait--selector", "wait--visible-then-hidden", "navigate--load", "navigate--with-snapshot", "dialog--blocks-until-answered",
}

// opensTabs are the cases in which the page, not an operation, opens a tab that
// Chrome shows.
var opensTabs = []string{"input--click-new-tab"}

// headfulCases runs them one after the other: none moves the focus of the
// display or shows another tab.
func headfulCases(t *testing.T, l *Lane, d *desktop) {
	lane := relayLane(t, l, drivertest.NewServer(t))
	var ran []string
	for _, c := range pagecases.All() {
		if !slices.Contains(headfulCaseNames, c.Name) {
			continue
		}
		ran = append(ran, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			before := d.state()
			s := drivertest.Start(t, lane, c.Name)
			if c.Page != "" {
				s.Goto(c.Page)
			}
			c.Do(s)
			if slices.Contains(opensTabs, c.Name) {
				d.show(d.user)
				return
			}
			assert.Equal(t, d.state(), before)
		})
	}
	assert.Equal(t, len(ran), len(headfulCaseNames), "%v", ran)
}

// desktop is what stands on the lane's display: the browser's first window,
// which shows a page of the user, and the tools of X to see and do what a user
// does.
type desktop struct {
	t      *testing.T
	lane   *Lane
	worker *worker
	user   int          // the tab that the user looks at
	page   *direct.Page // that tab, over the browser's pipe
	window string       // its X window
}

// open shows a page of the user in the browser's window and gives it the focus.
func (d *desktop) open() {
	p, err := d.lane.Browser.NewPage(d.t.Context(), &direct.NewPageOptions{URL: d.lane.URL + "/counter/form.html?id=user", Foreground: true})
	assert.NilError(d.t, err)
	assert.NilError(d.t, p.Activate(d.t.Context()))
	d.page = p
	until(d.t, 10*time.Second, "the user's page does not show", func() bool {
		assert.NilError(d.t, d.worker.eval(d.t.Context(), `chrome.tabs.query({active: true}).then((all) => all.find((x) => x.url.endsWith("id=user"))?.id ?? 0)`, &d.user))
		return d.user != 0
	})
	until(d.t, 10*time.Second, "no window has the focus", func() bool {
		d.window = d.focus()
		return d.window != ""
	})
}

// x runs a tool of X on the lane's display.
func (d *desktop) x(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), d.lane.Display.Env()...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must is x that must succeed.
func (d *desktop) must(name string, args ...string) string {
	d.t.Helper()
	out, err := d.x(name, args...)
	assert.NilError(d.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return out
}

// focus is the X window that the window manager says is active, "" for none.
func (d *desktop) focus() string {
	out, err := d.x("xdotool", "getactivewindow")
	if err != nil {
		return ""
	}
	return out
}

// state says which window has the focus, by the window manager and by X
// itself, and which tab each window shows.
func (d *desktop) state() string {
	d.t.Helper()
	var tabs []string
	assert.NilError(d.t, d.worker.eval(d.t.Context(),
		`chrome.tabs.query({active: true}).then((all) => all.map((x) => "tab " + x.id + " in window " + x.windowId).sort())`, &tabs))
	input, _ := d.x("xdotool", "getwindowfocus") // with a minimized window there is none
	return fmt.Sprintf("active %s, input %s, %s", d.focus(), input, strings.Join(tabs, ", "))
}

// show activates a tab as the user does.
func (d *desktop) show(tab int) {
	d.t.Helper()
	assert.NilError(d.t, d.worker.eval(d.t.Context(), fmt.Sprintf("chrome.tabs.update(%d, {active: true}).then(() => null)", tab), nil))
}

// settled is the state as soon as it is the wanted one, or as it is a little
// later: the window manager answers Chrome in its own time.
func (d *desktop) settled(want string) string {
	d.t.Helper()
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got := d.state(); got == want || time.Now().After(deadline) {
			return got
		}
	}
}

// program opens a window of another program, gives it the focus and returns
// its id. It is closed with the test.
func (d *desktop) program() string {
	d.t.Helper()
	cmd := exec.Command("xmessage", "-name", "program", "of the user")
	cmd.Env = append(os.Environ(), d.lane.Display.Env()...)
	assert.NilError(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it ends by a signal
		_ = cmd.Wait()
	})
	id := ""
	until(d.t, 10*time.Second, "the program shows no window", func() bool {
		out, err := d.x("xdotool", "search", "--classname", "^program$")
		id = out
		return err == nil && out != ""
	})
	d.must("xdotool", "windowactivate", "--sync", id)
	return id
}

// minimized says whether the window manager has put the window away.
func (d *desktop) minimized(window string) bool {
	return strings.Contains(d.must("xprop", "-id", window, "WM_STATE"), "Iconic")
}

// keepsFocus compares what has the focus and which tab is shown before and
// after every kind of operation.
func keepsFocus(t *testing.T, l *Lane, d *desktop) {
	s := l.Session(t)
	steps := []struct {
		name string
		do   func()
	}{
		{"tab.new", func() { s.Do("tab.new", map[string]any{"url": l.URL + "/counter/form.html?id=" + s.Key}) }},
		{"navigate", func() { s.Open(l.URL + "/counter/form.html?id=" + s.Key) }},
		{"snapshot", func() { s.Do("page.snapshot", map[string]any{}) }},
		{"read", func() { s.Do("page.read", map[string]any{}) }},
		{"evaluate", func() { s.Do("page.evaluate", map[string]any{"expression": "document.title"}) }},
		{"evaluate that asks for the focus", func() {
			s.Do("page.evaluate", map[string]any{"expression": "(window.focus(), document.getElementById('note').focus())"})
		}},
		{"wait", func() {
			s.Do("page.wait", map[string]any{"condition": map[string]any{"by": "visible", "value": "#note"}, "timeoutMs": 3000})
		}},
		{"fill", func() { s.Do("input.fill", map[string]any{"selector": "#note", "text": "quiet"}) }},
		{"press", func() { s.Do("input.key", map[string]any{"selector": "#keys", "key": "a"}) }},
		{"viewport", func() {
			s.Do("page.screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "viewport"}})
		}},
		{"tiles", func() {
			s.Do("page.screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "full-page-tiles"}})
		}},
		{"click", func() { s.Do("input.click", map[string]any{"selector": "#submit"}) }},
		{"status", func() { s.Do("system.status", map[string]any{}) }},
		{"tab.list", func() { s.Do("tab.list", map[string]any{}) }},
		{"tab.close", func() { s.Do("tab.close", map[string]any{}) }},
	}
	before := d.state()
	for _, step := range steps {
		step.do()
		assert.Equal(t, d.state(), before, "after %s", step.name)
	}
	waitCount(t, l, s.Key, 2) // the press and the form
}

// Bounds of what works without frames of a screen. Without the frame lease a
// click takes five seconds and a picture three, or for ever.
const (
	hiddenClick   = 2 * time.Second
	hiddenPicture = 2 * time.Second
)

// windows clicks and takes pictures in tabs that nobody sees: hidden in a
// window, shown in a window behind another, and in a minimized window.
func windows(t *testing.T, l *Lane, d *desktop) {
	s := l.Session(t)
	s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
	tab := 0
	for _, x := range Value[[]op.Tab](t, s.Do("tab.list", map[string]any{})) {
		if x.Owned {
			tab = x.ID
		}
	}
	click := func(t *testing.T) {
		count := l.Site.Counter.Count(s.Key)
		began := time.Now()
		s.Do("input.click", map[string]any{"selector": "#count"})
		took := time.Since(began)
		assert.Equal(t, l.Site.Counter.Count(s.Key), count+1)
		assert.Assert(t, took < hiddenClick, "the click took %s", took)
		t.Logf("click %s", took.Round(time.Millisecond))
	}
	picture := func(t *testing.T) {
		for _, kind := range []string{"viewport", "full-page-tiles"} {
			began := time.Now()
			r := s.Do("page.screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": kind}})
			took := time.Since(began)
			assert.Assert(t, took < hiddenPicture, "the picture took %s", took)
			got := Value[struct {
				DataURL string `json:"dataUrl"`
				Tiles   []struct {
					DataURL string `json:"dataUrl"`
				} `json:"tiles"`
			}](t, r)
			if kind != "viewport" {
				assert.Equal(t, len(got.Tiles), 1)
				got.DataURL = got.Tiles[0].DataURL
			}
			size := drivertest.Picture(t, got.DataURL).Bounds().Size()
			assert.Assert(t, size.X > 300 && size.Y > 200, "%v", size)
			t.Logf("%s %s, %v", kind, took.Round(time.Millisecond), size)
		}
	}
	// The presses, and what each of their receipts says of the window.
	presses := func(t *testing.T, want string) {
		window := func(r op.Result) {
			t.Helper()
			var out struct {
				Window string
				Action struct{ Window string }
			}
			assert.NilError(t, json.Unmarshal(r.Value, &out))
			got := out.Action.Window + out.Window
			assert.Equal(t, got, want, r.Text)
			assert.Equal(t, strings.Contains(r.Text, "window: "), want != "", r.Text)
		}
		before, count := d.state(), l.Site.Counter.Count(s.Key)
		window(s.Do("input.click", map[string]any{"selector": "#count"}))
		assert.Equal(t, l.Site.Counter.Count(s.Key), count+1)
		assert.Equal(t, d.settled(before), before, "after a click")
		window(s.Do("input.tap", map[string]any{"at": map[string]any{"by": "selector", "value": "#count"}}))
		assert.Equal(t, l.Site.Counter.Count(s.Key), count+2)
		assert.Equal(t, d.settled(before), before, "after a tap")
		window(s.Do("input.drag", map[string]any{"from": map[string]any{"by": "selector", "value": "h1"}, "to": map[string]any{"by": "selector", "value": "#counted"}}))
		assert.Equal(t, d.settled(before), before, "after a drag")
	}
	act := func(t *testing.T) {
		before := d.state()
		click(t)
		picture(t)
		presses(t, "")
		assert.Equal(t, d.state(), before)
	}
	t.Run("a hidden tab", act)

	front, err := l.Browser.NewPage(t.Context(), &direct.NewPageOptions{URL: l.URL + "/counter/click.html", Foreground: true, NewWindow: true})
	assert.NilError(t, err)
	var other string
	until(t, 10*time.Second, "the window in front has no focus", func() bool {
		other = d.focus()
		return other != "" && other != d.window
	})
	// It covers the first one.
	d.must("xdotool", "windowmove", other, "0", "0")
	d.must("xdotool", "windowsize", other, "100%", "100%")
	t.Run("a hidden tab in a window behind", act)
	// A press on a tab that its window shows makes Chrome bring that window to
	// the front, minimized or not. It is put back.
	d.show(tab)
	quiet := func(t *testing.T) {
		before := d.state()
		picture(t)
		s.Do("page.snapshot", map[string]any{})
		s.Do("input.key", map[string]any{"key": "a"})
		assert.Equal(t, d.state(), before)
	}
	t.Run("a shown tab in a window behind", func(t *testing.T) {
		quiet(t)
		presses(t, "Chrome raised it for the press; the window before has the focus again")
	})
	minimize := func() {
		had := d.focus()
		d.must("xdotool", "windowminimize", d.window)
		until(t, 10*time.Second, "the window is not minimized", func() bool { return d.minimized(d.window) && d.focus() == had })
	}
	minimize()
	t.Run("a shown tab in a minimized window", func(t *testing.T) {
		quiet(t)
		presses(t, "Chrome restored it for the press; it is minimized again")
		assert.Assert(t, d.minimized(d.window))
	})
	t.Run("while another program has the focus", func(t *testing.T) {
		d.must("xdotool", "windowactivate", "--sync", d.window)
		program := d.program()
		before := d.state()
		s.Do("input.click", map[string]any{"selector": "#count"})
		assert.Equal(t, d.settled(before), before)
		assert.Equal(t, d.focus(), program)
		// Chrome cannot give the focus to it other than by putting its own
		// window away.
		assert.Assert(t, d.minimized(d.window))
		presses(t, "Chrome restored it for the press; it is minimized again")
		assert.Assert(t, d.minimized(d.window))
		d.must("xdotool", "windowactivate", "--sync", other)
	})
	d.show(d.user)
	minimize()
	t.Run("a hidden tab in a minimized window", func(t *testing.T) {
		act(t)
		assert.Assert(t, d.minimized(d.window))
	})
	t.Run("a new tab in a minimized window", func(t *testing.T) {
		n := l.Session(t)
		before := d.state()
		n.Open(l.URL + "/counter/blocking.html?id=" + n.Key)
		n.again(l, n.Key)
		assert.Equal(t, d.state(), before)
		assert.Assert(t, d.minimized(d.window))
	})
	assert.NilError(t, front.Close(t.Context()))
}
