package pagecases

import (
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type stepped struct {
	URL, Title, Status, Action string
	Restored                   bool
	CanGoBack, CanGoForward    bool
	Snapshot                   map[string]any
}

func goHistory(s *drivertest.Scenario, input string) (stepped, op.Result) {
	s.T.Helper()
	var out stepped
	res := s.Value("page.history", input, &out)
	return out, res
}

var historyCases = []drivertest.Case{
	{Name: "history--back-and-forward", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		navigateTo(s, "navigate/links.html", nil)
		got, res := goHistory(s, `{"action":"back"}`)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
		assert.Equal(s.T, got.Title, "Plain")
		assert.Assert(s.T, got.CanGoForward)
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Went back to "+got.URL+"\ntitle: Plain\nstatus: "), res.Text)
		got, _ = goHistory(s, `{"action":"forward","waitUntilLoad":true,"snapshot":{"mode":"interactive"}}`)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/links.html"))
		assert.Equal(s.T, got.Status, "complete")
		assert.Equal(s.T, got.Snapshot["mode"], "interactive")
		assert.Assert(s.T, got.CanGoBack && !got.CanGoForward)
		e := s.Fail("page.history", `{"action":"forward"}`, op.Rejected, op.HistoryUnavailable)
		assert.Equal(s.T, e.Details["action"], "forward")
		assert.Equal(s.T, s.Eval("document.title"), `"Links"`)
	}},
	{Name: "history--none-before", Do: func(s *drivertest.Scenario) {
		s.Fail("page.history", `{"action":"back"}`, op.Rejected, op.HistoryUnavailable)
	}},
	{Name: "history--within-the-document", Page: "navigate/hash.html", Do: func(s *drivertest.Scenario) {
		s.Eval("window.kept = 1")
		navigateTo(s, "navigate/hash.html#part", nil)
		got, _ := goHistory(s, `{"action":"back","waitUntilLoad":true}`)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/hash.html"))
		got, _ = goHistory(s, `{"action":"forward"}`)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/hash.html#part"))
		assert.Equal(s.T, s.Eval("window.kept"), "1")
	}},
	{Name: "history--reload", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		for _, in := range []string{`{"action":"reload"}`, `{"action":"reload","bypassCache":true,"waitUntilLoad":true}`} {
			s.Eval("window.old = 1")
			got, res := goHistory(s, in)
			assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
			assert.Assert(s.T, strings.HasPrefix(res.Text, "Reloaded "), res.Text)
			assert.Equal(s.T, s.Eval("'old' in window"), "false")
		}
	}},
	{Name: "history--restores-from-the-cache", Page: "_/cached", Do: func(s *drivertest.Scenario) {
		// A page that may not be stored is not always kept; this one may.
		s.Eval(`new Promise((r) => {
			document.body.innerHTML = "<button>Stays</button><iframe></iframe><iframe></iframe>";
			const [same, cross] = document.querySelectorAll("iframe");
			cross.onload = r;
			same.src = "/_/frame?text=same";
			cross.src = "` + s.Site.Cross + `/find/inner.html";
			window.state = "as it was";
		})`)
		ref := refOf(s, "button")
		// Another site, so that the page before is kept whole.
		s.Call("page.navigate", map[string]any{"url": s.Site.Cross + "/navigate/plain.html", "waitUntilLoad": true})
		s.Fail("input.click", map[string]any{"ref": ref}, op.Rejected, op.StaleActionRef)
		got, res := goHistory(s, `{"action":"back","waitUntilLoad":true}`)
		assert.Equal(s.T, got.URL, s.Site.URL("_/cached"))
		assert.Assert(s.T, got.Restored, res.Text)
		assert.Assert(s.T, strings.Contains(res.Text, "restored from the back-forward cache"), res.Text)
		assert.Equal(s.T, s.Eval("window.state"), `"as it was"`)
		s.Call("input.click", map[string]any{"ref": refOf(s, "button")})
		// With its frames, of this process and of another.
		assert.Equal(s.T, findOf(s, `{"role":"paragraph","text":"same"}`).Total, 1)
		s.Call("input.click", map[string]any{"ref": findOf(s, `{"name":"Save across"}`).Matches[0].UID})
	}},
	{Name: "history--frames", Page: "frames/cross-origin.html", Do: func(s *drivertest.Scenario) {
		before := findOf(s, `{"role":"button"}`).names()
		s.Call("page.navigate", map[string]any{"url": s.Site.Third + "/navigate/plain.html", "waitUntilLoad": true})
		goHistory(s, `{"action":"back","waitUntilLoad":true}`)
		assert.DeepEqual(s.T, findOf(s, `{"role":"button"}`).names(), before)
	}},
	{Name: "history--before-unload", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		navigateTo(s, "navigate/before-unload.html", map[string]any{"waitUntilLoad": true})
		s.Call("input.key", `{"key":"a"}`)
		for _, in := range []string{`{"action":"back"}`, `{"action":"reload"}`} {
			e := s.Fail("page.history", in, op.Rejected, op.DialogOpen)
			assert.Equal(s.T, e.Details["type"], "beforeunload")
			s.Call("page.dialog", `{"action":"dismiss"}`)
			assert.Equal(s.T, s.Eval("location.pathname"), `"/navigate/before-unload.html"`)
			s.Call("input.key", `{"key":"a"}`)
		}
		s.Fail("page.history", `{"action":"back"}`, op.Rejected, op.DialogOpen)
		s.Call("page.dialog", `{"action":"accept"}`)
		waitFor(s, "urlIncludes", "plain.html", 5000)
	}},
	{Name: "history--slow-server", Do: func(s *drivertest.Scenario) {
		s.Goto("_/slow?ms=600")
		start := time.Now()
		s.Fail("page.history", `{"action":"reload","timeoutMs":200}`, op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Assert(s.T, time.Since(start) < 550*time.Millisecond)
		got, _ := navigateTo(s, "navigate/plain.html", nil)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
	}},
	{Name: "history--bad-input", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		for _, in := range []string{`{}`, `{"action":"up"}`, `{"action":"back","bypassCache":true}`, `{"action":"back","timeoutMs":0}`} {
			s.Fail("page.history", in, op.Invalid, op.InvalidInput)
		}
	}},
}
