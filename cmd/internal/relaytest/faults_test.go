package relaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// faultLane is a lane whose every socket goes through a tap, so that a test
// chooses the frame at which something breaks.
type faultLane struct {
	*Lane
	tap   *tap
	popup *direct.Page // the extension's popup, in a tab of its own
}

func startFaults(t *testing.T) *faultLane {
	l := &faultLane{Lane: Start(t, false)}
	l.tap = newTap(t, l.Lane)
	l.popup = l.openPopup(t)
	l.reconnect(t)
	return l
}

// openPopup opens the extension's popup as a page.
func (l *Lane) openPopup(t testing.TB) *direct.Page { return popupOf(t, l.Browser, extension.ID) }

func popupOf(t testing.TB, b *direct.Browser, id string) *direct.Page {
	t.Helper()
	p, err := b.NewPage(t.Context(), &direct.NewPageOptions{URL: "chrome-extension://" + id + "/popup.html"})
	assert.NilError(t, err)
	until(t, 10*time.Second, "the popup has not loaded", func() bool {
		return pageEval(t, p, "document.readyState + (globalThis.chrome?.runtime?.id ?? '')") == "complete"+id
	})
	return p
}

// reconnect presses "Try again" in the popup: the worker drops its socket,
// forgets its failures and connects anew, where bridge.json says.
func (l *faultLane) reconnect(t testing.TB) {
	t.Helper()
	_, before := l.tap.live()
	pageEval(t, l.popup, `chrome.runtime.sendMessage({do: "connect"}).then(() => "")`)
	until(t, 10*time.Second, "the extension has not connected", func() bool {
		now, ever := l.tap.live()
		return now == 1 && ever > before
	})
	l.live(t)
}

// live waits until the owner would take a command.
func (l *Lane) live(t testing.TB) {
	t.Helper()
	c, err := l.Dial(t.Context())
	assert.NilError(t, err)
	defer c.Close()
	until(t, 20*time.Second, "the profile is not live", func() bool {
		st, err := owner.Status(t.Context(), c, "")
		assert.NilError(t, err)
		return len(st.Profiles) == 1 && st.Profiles[0].Live
	})
}

// stopWorker stops the extension's worker as Chrome does with an idle one.
func (l *Lane) stopWorker() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return l.Browser.StopWorker(ctx, "chrome-extension://"+extension.ID)
}

// newOwner kills the owner at once and starts the next.
func (l *Lane) newOwner() error {
	if err := l.KillOwner(); err != nil {
		return err
	}
	return l.StartOwner()
}

// through opens a session whose client speaks to the owner through the tap.
func (l *faultLane) through(t testing.TB) *Session {
	s := l.Session(t)
	c, err := client.Dial(t.Context(), client.Options{Port: l.tap.port, StateDir: l.StateDir, Name: "relaytest", Version: owner.Version, Build: owner.Build(), EffectOf: owner.EffectOf,
		Start: func(context.Context) error { return nil }, ReadyTimeout: 15 * time.Second})
	assert.NilError(t, err)
	direct := s.Client
	s.Client = c
	t.Cleanup(func() {
		// Before the session's own clean-up, which needs an owner.
		assert.Check(t, c.Close())
		s.Client = direct
	})
	return s
}

// once is a hook that does something at the n-th frame that matches.
func once(n int, match func(*frame) bool, do func() verdict) (hook func(*frame) verdict, fired *atomic.Bool) {
	var mu sync.Mutex
	fired = &atomic.Bool{}
	return func(f *frame) verdict {
		mu.Lock()
		defer mu.Unlock()
		if fired.Load() || !match(f) {
			return pass
		}
		if n--; n > 0 {
			return pass
		}
		fired.Store(true)
		return do()
	}, fired
}

func kind(want string) func(*frame) bool {
	return func(f *frame) bool { return f.kind == want }
}

const (
	press   = "Input.dispatchMouseEvent mousePressed"
	release = "Input.dispatchMouseEvent mouseReleased"
)

// truthful checks what a click's caller was told against what the server
// counted. The page has had its turn since: nothing is on its way any more.
func truthful(t testing.TB, l *Lane, id string, err error) {
	t.Helper()
	count := l.Site.Counter.Count(id)
	if err == nil {
		assert.Equal(t, count, 1, "the click was done")
		return
	}
	e := op.AsError(err)
	assert.Assert(t, e.Message != "" && e.Hint != "", "%+v", e)
	if e.Kind == op.OutcomeUnknown {
		assert.Assert(t, count <= 1, "%d clicks were counted: %v", count, e)
		return
	}
	assert.Equal(t, count, 0, "%s %s: %s", e.Kind, e.Code, e.Message)
}

// again clicks once more after a fault: it must work and count once.
func (s *Session) again(l *Lane, id string) {
	s.t.Helper()
	before := l.Site.Counter.Count(id)
	s.Do("input.click", map[string]any{"selector": "#count"})
	assert.Equal(s.t, l.Site.Counter.Count(id), before+1)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	l := startFaults(t)
	t.Run("the journal answers", func(t *testing.T) { journalAnswers(t, l) })
	t.Run("owner killed at many frames", func(t *testing.T) { killEverywhere(t, l) })
	t.Run("click", func(t *testing.T) { clickFaults(t, l) })
	t.Run("socket cut at many frames", func(t *testing.T) { cutEverywhere(t, l) })
	t.Run("worker stopped at many frames", func(t *testing.T) { stopEverywhere(t, l) })
	t.Run("evaluate over a lost socket", func(t *testing.T) { evaluateOverCut(t, l) })
	t.Run("connect and disconnect", func(t *testing.T) { connectRounds(t, l) })
	t.Run("worker stopped while nothing runs", func(t *testing.T) { workerIdle(t, l) })
	t.Run("browser closed", func(t *testing.T) { browserClosed(t, l) })
}

// clickFaults breaks each part of the path at each part of a click.
func clickFaults(t *testing.T, l *faultLane) {
	points := []struct {
		name  string
		match func(*frame) bool // nil: when the server has counted
		path  string
	}{
		{"before the press", kind("call " + press), ""},
		{"before the answer to the press", kind("reply " + press), ""},
		{"before the release", kind("call " + release), ""},
		{"after the effect", nil, ""},
		{"before the answer to the release", kind("reply " + release), ""},
		{"before the result", func(f *frame) bool { return f.path == "/owner" && f.kind == "result" }, ""},
	}
	breaks := []struct {
		name string
		do   func() error
		sure bool   // the click must be done all the same
		says string // what an unknown outcome is told with
	}{
		{"socket", func() error { return nil }, true, ""},
		{"worker", l.stopWorker, false, "the extension's worker ended"},
		{"owner", l.newOwner, false, "the owner"},
	}
	for _, b := range breaks {
		for _, p := range points {
			t.Run(b.name+" "+p.name, func(t *testing.T) {
				l.reconnect(t)
				s := l.through(t)
				id := wire.NewSecret()[:16]
				s.Open(l.URL + "/counter/blocking.html?id=" + id)
				ref := s.Ref("Count")
				var fired *atomic.Bool
				broken := make(chan error, 1)
				if p.match == nil {
					fired = &atomic.Bool{}
					l.onHit(func(hit string) {
						if hit == id && !fired.Swap(true) {
							broken <- b.do()
							l.tap.cut()
						}
					})
					defer l.onHit(nil)
				} else {
					var hook func(*frame) verdict
					hook, fired = once(1, p.match, func() verdict {
						broken <- b.do()
						return drop
					})
					l.tap.on(hook)
					defer l.tap.on(nil)
				}
				_, err := s.Run("input.click", map[string]any{"ref": ref})
				assert.Assert(t, fired.Load(), "it never came so far; the click: %v", err)
				assert.NilError(t, <-broken)
				s.Do("page.evaluate", map[string]any{"expression": "1"})
				truthful(t, l.Lane, id, err)
				if e := op.AsError(err); e != nil && e.Kind == op.OutcomeUnknown {
					assert.Assert(t, strings.Contains(e.Message, b.says), e.Message)
				}
				if b.sure {
					assert.NilError(t, err)
				}
				s.again(l.Lane, id)
			})
		}
	}
}

// clickFrames is how many frames of the extension one click takes.
func (l *faultLane) clickFrames(t *testing.T) int {
	s := l.Session(t)
	s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
	ref := s.Ref("Count")
	var n atomic.Int64
	l.tap.on(func(f *frame) verdict {
		if f.path == wire.ScopeConnector.Path() {
			n.Add(1)
		}
		return pass
	})
	defer l.tap.on(nil)
	s.Do("input.click", map[string]any{"ref": ref})
	assert.Assert(t, n.Load() >= 10, "a click takes %d frames", n.Load())
	return int(n.Load())
}

// everywhere clicks again and again and breaks something at another frame each
// time, count times in all.
func (l *faultLane) everywhere(t *testing.T, count int, do func() error, check func(err error)) {
	total := l.clickFrames(t)
	step := (total + count - 1) / count
	for n := 1; n <= total; n += step {
		l.reconnect(t)
		s := l.Session(t)
		id := wire.NewSecret()[:16]
		s.Open(l.URL + "/counter/blocking.html?id=" + id)
		ref := s.Ref("Count")
		at := ""
		broken := make(chan error, 1)
		hook, fired := once(n, func(f *frame) bool {
			at = f.kind
			return f.path == wire.ScopeConnector.Path()
		}, func() verdict {
			broken <- do()
			return drop
		})
		l.tap.on(hook)
		_, err := s.Run("input.click", map[string]any{"ref": ref})
		l.tap.on(nil)
		if !fired.Load() {
			break // this click took fewer frames
		}
		assert.NilError(t, <-broken)
		t.Logf("frame %d of %d, %s: %v", n, total, at, err)
		s.Do("page.evaluate", map[string]any{"expression": "1"})
		truthful(t, l.Lane, id, err)
		check(err)
		s.again(l.Lane, id)
	}
}

// cutEverywhere: a lost socket loses nothing. The worker and the owner keep
// what was on its way, so the click is done whichever frame was lost.
func cutEverywhere(t *testing.T, l *faultLane) {
	l.everywhere(t, 20, func() error { return nil }, func(err error) { assert.NilError(t, err) })
}

func stopEverywhere(t *testing.T, l *faultLane) {
	l.everywhere(t, 8, l.stopWorker, func(error) {})
}

func killEverywhere(t *testing.T, l *faultLane) {
	l.everywhere(t, 6, l.newOwner, func(error) {})
}

// journalAnswers: the same command asked again is never run again, whether its
// outcome was told, or its owner killed in the middle of it.
func journalAnswers(t *testing.T, l *faultLane) {
	s := l.Session(t)
	for _, killed := range []bool{false, true} {
		id := wire.NewSecret()[:16]
		s.Open(l.URL + "/counter/blocking.html?id=" + id)
		input, err := json.Marshal(map[string]any{"ref": s.Ref("Count")})
		assert.NilError(t, err)
		command := wire.Command{ID: client.NewID(), Operation: "input.click", Session: wire.Session{Key: s.Key}, Input: input}
		if killed {
			var fired atomic.Bool
			l.onHit(func(hit string) {
				if hit == id && !fired.Swap(true) {
					assert.Check(t, l.newOwner())
				}
			})
		}
		first, err1 := s.Client.Command(t.Context(), command, nil)
		l.onHit(nil)
		for range 2 {
			again, err2 := s.Client.Command(t.Context(), command, nil)
			assert.Equal(t, told(err2), told(err1))
			assert.Equal(t, string(again.Result.Value), string(first.Result.Value))
			assert.Equal(t, again.Result.Text, first.Result.Text)
		}
		if killed {
			e := op.AsError(err1)
			assert.Equal(t, fmt.Sprint(e.Kind, " ", e.Code), "outcome-unknown bridge-stopped", e.Message)
			// A new program asks, and another command cannot have the id.
			c, err := l.Dial(t.Context())
			assert.NilError(t, err)
			known, err := owner.Outcome(t.Context(), c, command.ID)
			assert.NilError(t, err)
			assert.Equal(t, known.State, "done")
			assert.NilError(t, c.Close())
		} else {
			assert.NilError(t, err1)
		}
		other := command
		other.Input = json.RawMessage(`{"selector":"#count"}`)
		_, err = s.Client.Command(t.Context(), other, nil)
		assert.Equal(t, op.AsError(err).Kind, op.Invalid)
		s.Do("page.evaluate", map[string]any{"expression": "1"})
		assert.Equal(t, l.Site.Counter.Count(id), 1)
	}
}

// told is what the caller was told, without what only its own process knows.
func told(err error) string {
	if err == nil {
		return "done"
	}
	e := op.AsError(err)
	return fmt.Sprintf("%s %s %s %s %s", e.Kind, e.Code, e.Message, e.Hint, e.MarshalDetails())
}

// evaluateOverCut: what runs for two seconds is not lost with a socket that is
// lost meanwhile.
func evaluateOverCut(t *testing.T, l *faultLane) {
	l.reconnect(t)
	s := l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	_, before := l.tap.live()
	hook, fired := once(1, kind("call Runtime.evaluate"), func() verdict {
		time.AfterFunc(500*time.Millisecond, l.tap.cut) // while it runs
		return pass
	})
	l.tap.on(hook)
	defer l.tap.on(nil)
	r := s.Do("page.evaluate", map[string]any{"expression": "(globalThis.runs = (globalThis.runs ?? 0) + 1, new Promise((done) => setTimeout(() => done('late ' + runs), 2000)))"})
	assert.Assert(t, fired.Load())
	assert.Equal(t, string(r.Value), `"late 1"`)
	_, after := l.tap.live()
	assert.Assert(t, after > before, "the socket was not lost")
}

// connectRounds has the worker drop its socket and connect anew ten times in
// two seconds.
func connectRounds(t *testing.T, l *faultLane) {
	_, before := l.tap.live()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		pageEval(t, l.popup, `chrome.runtime.sendMessage({do: "connect"}).then(() => "")`)
		<-tick.C
	}
	l.reconnect(t)
	now, ever := l.tap.live()
	assert.Equal(t, now, 1)
	assert.Assert(t, ever-before >= 10, "%d connections were made", ever-before)
	s := l.Session(t)
	st, err := owner.Status(t.Context(), s.Client, s.Key)
	assert.NilError(t, err)
	assert.Equal(t, len(st.Profiles), 1)
	s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
	s.again(l.Lane, s.Key)
}

// workerIdle stops the worker while nothing runs. Nobody who sends a command
// then sees anything of it.
func workerIdle(t *testing.T, l *faultLane) {
	t.Run("no tab is attached", func(t *testing.T) {
		assert.NilError(t, l.stopWorker())
		s := l.Session(t)
		s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
		s.again(l.Lane, s.Key)
	})
	t.Run("a tab is attached", func(t *testing.T) {
		s := l.Session(t)
		s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
		ref := s.Ref("Count")
		for i := range 2 {
			assert.NilError(t, l.stopWorker())
			s.Do("input.click", map[string]any{"ref": ref})
			assert.Equal(t, l.Site.Counter.Count(s.Key), i+1)
		}
	})
}

// browserClosed closes the browser while commands run, and after that.
func browserClosed(t *testing.T, l *faultLane) {
	s := l.Session(t)
	s.cleanup = false // there will be no browser
	s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
	ref := s.Ref("Count")
	closed := make(chan error, 1)
	var fired atomic.Bool
	l.onHit(func(string) {
		if !fired.Swap(true) {
			closed <- l.Browser.Close()
		}
	})
	defer l.onHit(nil)
	began := time.Now()
	_, err := s.Run("input.click", map[string]any{"ref": ref})
	assert.NilError(t, <-closed)
	e := op.AsError(err)
	assert.Equal(t, e.Kind, op.OutcomeUnknown, e.Message)
	// Chrome tells the end of the window or that of the debugger first.
	if e.Code != op.DebuggerDetached {
		assert.Equal(t, e.Code, op.TabGone)
		assert.Assert(t, strings.Contains(e.Message, "it was closed with its window"), e.Message)
		assert.Assert(t, strings.Contains(e.Hint, "list the tabs"), e.Hint)
	}
	assert.Assert(t, e.Hint != "")
	assert.Assert(t, time.Since(began) < 20*time.Second, "it took %s", time.Since(began))
	t.Logf("in the middle: %s: %s (%s)", e.Code, e.Message, e.Hint)
	assert.Equal(t, l.Site.Counter.Count(s.Key), 1)

	began = time.Now()
	e = s.Fail("page.snapshot", map[string]any{})
	assert.Equal(t, fmt.Sprint(e.Kind, " ", e.Code), "unavailable connector-offline", e.Message)
	assert.Assert(t, time.Since(began) < 15*time.Second, "it took %s", time.Since(began))
	assert.Assert(t, strings.Contains(e.Message, "was closed; the command was not started"), e.Message)
	assert.Assert(t, strings.Contains(e.Hint, "Open that browser again"), e.Hint)
	t.Logf("after it, after %s: %s (%s)", time.Since(began).Round(time.Millisecond), e.Message, e.Hint)
}
