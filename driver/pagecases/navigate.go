package pagecases

import (
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// tab is what the cases look at of a navigation's result.
type tab struct {
	URL    string `json:"url"`
	Title  string `json:"title"`
	Status string `json:"status"`
}

func navigateTo(s *drivertest.Scenario, path string, more map[string]any) (tab, op.Result) {
	s.T.Helper()
	in := map[string]any{"url": s.Site.URL(path)}
	for k, v := range more {
		in[k] = v
	}
	var out tab
	res := s.Value("page.navigate", in, &out)
	return out, res
}

var navigateCases = []drivertest.Case{
	{Name: "navigate--load", Do: func(s *drivertest.Scenario) {
		got, res := navigateTo(s, "navigate/plain.html", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
		assert.Equal(s.T, got.Title, "Plain")
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Navigated to "+got.URL+"\ntitle: Plain\nstatus: "), res.Text)
	}},
	{Name: "navigate--title-of-this-page", Do: func(s *drivertest.Scenario) {
		// Again and again: the title comes with the end of the parsing or from
		// the page, and never from the page before or from the address.
		for range 15 {
			for _, want := range []tab{{URL: "navigate/plain.html", Title: "Plain"}, {URL: "navigate/other.html", Title: "Other"}, {URL: "snapshot/empty.html"}} {
				got, _ := navigateTo(s, want.URL, nil)
				assert.Equal(s.T, got.URL, s.Site.URL(want.URL))
				assert.Equal(s.T, got.Title, want.Title, "the title of %s", got.URL)
			}
		}
		got, _ := navigateTo(s, "navigate/plain.html", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, got.Status, "complete")
		// One whose second half comes later answers in the middle.
		start := time.Now()
		got, _ = navigateTo(s, "_/drip?ms=5000", nil)
		assert.Equal(s.T, got.Title, "Drip")
		assert.Equal(s.T, got.Status, "loading")
		assert.Assert(s.T, time.Since(start) < 4*time.Second, "it took %s", time.Since(start))
	}},
	{Name: "navigate--commit-does-not-wait", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		start := time.Now()
		navigateTo(s, "navigate/slow-image.html", nil)
		assert.Assert(s.T, time.Since(start) < 1200*time.Millisecond, "commit waited %s for an image of 1.5 s", time.Since(start))
		assert.Equal(s.T, s.Eval("document.readyState === 'complete'"), "false")
	}},
	{Name: "navigate--load-waits", Do: func(s *drivertest.Scenario) {
		navigateTo(s, "navigate/slow-image.html", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, s.Eval("document.readyState"), `"complete"`)
	}},
	{Name: "navigate--never-loads", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.navigate", map[string]any{"url": s.Site.URL("navigate/never-loads.html"), "waitUntilLoad": true, "timeoutMs": 2500},
			op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Assert(s.T, strings.Contains(e.Message, "shows the new page"), e.Message)
	}},
	{Name: "navigate--server-is-slow", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.navigate", map[string]any{"url": s.Site.URL("_/slow?ms=5000"), "timeoutMs": 300}, op.OutcomeUnknown, op.DeadlineExceeded)
		assert.Assert(s.T, strings.Contains(e.Message, "did not get an answer"), e.Message)
		// The next navigation of the tab is not held up by the one before.
		got, _ := navigateTo(s, "navigate/plain.html", nil)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
	}},
	{Name: "navigate--hash", Page: "navigate/hash.html", Do: func(s *drivertest.Scenario) {
		s.Eval("window.kept = 1")
		got, _ := navigateTo(s, "navigate/hash.html#part", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/hash.html#part"))
		assert.Equal(s.T, s.Eval("window.kept"), "1")
	}},
	{Name: "navigate--redirect", Do: func(s *drivertest.Scenario) {
		got, res := navigateTo(s, "_/redirect?to=/navigate/plain.html&n=3", nil)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
		assert.Assert(s.T, strings.Contains(res.Text, "requested: "+s.Site.URL("_/redirect")), res.Text)
	}},
	{Name: "navigate--script-redirect", Do: func(s *drivertest.Scenario) {
		got, res := navigateTo(s, "navigate/script-redirect.html", map[string]any{"waitUntilLoad": true})
		assert.Assert(s.T, strings.Contains(res.Text, "navigated on by itself"), res.Text)
		assert.Assert(s.T, got.URL != "", got)
	}},
	{Name: "navigate--frame-noise", Do: func(s *drivertest.Scenario) {
		got, _ := navigateTo(s, "navigate/frame-noise.html", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/frame-noise.html"))
		got, _ = navigateTo(s, "navigate/plain.html", nil)
		assert.Equal(s.T, got.URL, s.Site.URL("navigate/plain.html"))
	}},
	{Name: "navigate--no-content", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.navigate", map[string]any{"url": s.Site.URL("_/204")}, op.Rejected, op.NavigationFailed)
		assert.Equal(s.T, e.Details["errorText"], "net::ERR_ABORTED")
		assert.Equal(s.T, s.Eval("document.title"), `"Plain"`)
	}},
	{Name: "navigate--download", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		s.Fail("page.navigate", map[string]any{"url": s.Site.URL("_/download?name=a.bin")}, op.OutcomeUnknown, op.NavigationDownload)
		assert.Equal(s.T, s.Eval("document.title"), `"Plain"`)
	}},
	{Name: "navigate--refused", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.navigate", `{"url":"http://127.0.0.1:9/"}`, op.OutcomeUnknown, op.NavigationFailed)
		assert.Assert(s.T, strings.Contains(e.Message, "net::ERR_"), e.Message)
	}},
	{Name: "navigate--closed-connection", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.navigate", map[string]any{"url": s.Site.URL("_/close")}, op.OutcomeUnknown, op.NavigationFailed)
		assert.Equal(s.T, e.Details["errorText"], "net::ERR_EMPTY_RESPONSE")
	}},
	{Name: "navigate--error-page-has-a-status", Do: func(s *drivertest.Scenario) {
		got, _ := navigateTo(s, "_/status?code=404", nil)
		assert.Equal(s.T, got.URL, s.Site.URL("_/status?code=404"))
	}},
	{Name: "navigate--init-script", Do: func(s *drivertest.Scenario) {
		navigateTo(s, "navigate/init-script.html", map[string]any{"initScript": "window.fromInit = 'set before'", "waitUntilLoad": true})
		assert.Equal(s.T, s.Eval("window.seenFirst"), `"set before"`)
		navigateTo(s, "navigate/init-script.html?again", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, s.Eval("window.seenFirst"), `"nothing"`)
	}},
	{Name: "navigate--init-script-of-a-failed-navigation", Do: func(s *drivertest.Scenario) {
		s.Fail("page.navigate", map[string]any{"url": s.Site.URL("_/close"), "initScript": "window.fromInit = 'left over'"}, op.OutcomeUnknown, op.NavigationFailed)
		navigateTo(s, "navigate/init-script.html", map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, s.Eval("window.seenFirst"), `"nothing"`)
	}},
	{Name: "navigate--init-script-same-document", Page: "navigate/hash.html", Do: func(s *drivertest.Scenario) {
		_, res := navigateTo(s, "navigate/hash.html#part", map[string]any{"initScript": "window.fromInit = 1"})
		assert.Assert(s.T, strings.Contains(res.Text, "initScript was not run"), res.Text)
		assert.Equal(s.T, s.Eval("'fromInit' in window"), "false")
	}},
	{Name: "navigate--before-unload", Page: "navigate/before-unload.html", Do: func(s *drivertest.Scenario) {
		// Chrome asks only after the user has touched the page.
		s.Call("input.key", `{"key":"a"}`)
		e := s.Fail("page.navigate", map[string]any{"url": s.Site.URL("navigate/plain.html")}, op.Rejected, op.DialogOpen)
		assert.Equal(s.T, e.Details["type"], "beforeunload")
		s.Call("page.dialog", `{"action":"dismiss"}`)
		assert.Equal(s.T, s.Eval("location.pathname"), `"/navigate/before-unload.html"`)
	}},
	{Name: "navigate--protected", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		for _, url := range []string{"chrome://version", "chrome-extension://abc/x.html", "devtools://devtools", "view-source:http://x"} {
			s.Fail("page.navigate", map[string]any{"url": url}, op.Rejected, op.ProtectedTabURL)
		}
		s.Fail("page.navigate", `{"url":"example.com"}`, op.Invalid, op.InvalidInput)
		s.Fail("page.navigate", `{"url":"javascript:alert(1)"}`, op.Invalid, op.InvalidInput)
		assert.Equal(s.T, s.Eval("document.title"), `"Plain"`)
	}},
	{Name: "navigate--data-and-blank", Do: func(s *drivertest.Scenario) {
		var got tab
		s.Value("page.navigate", `{"url":"data:text/html,<title>Data</title>hello","waitUntilLoad":true}`, &got)
		assert.Equal(s.T, s.Eval("document.title"), `"Data"`)
		s.Value("page.navigate", `{"url":"about:blank"}`, &got)
		assert.Equal(s.T, got.URL, "about:blank")
	}},
	{Name: "navigate--unknown-scheme-frame", Do: func(s *drivertest.Scenario) {
		navigateTo(s, "navigate/unknown-scheme.html", map[string]any{"waitUntilLoad": true})
		// The frame may cost the tab its debugger session; the next command
		// works all the same.
		s.Call("page.wait", `{"condition":{"by":"textContains","value":"scheme"},"timeoutMs":3000}`)
	}},
	{Name: "navigate--with-snapshot", Do: func(s *drivertest.Scenario) {
		var got struct {
			Tab      tab            `json:"tab"`
			Snapshot map[string]any `json:"snapshot"`
		}
		res := s.Value("page.navigate", map[string]any{"url": s.Site.URL("navigate/links.html"), "waitUntilLoad": true, "snapshot": map[string]any{"mode": "interactive"}}, &got)
		assert.Equal(s.T, got.Tab.URL, s.Site.URL("navigate/links.html"))
		assert.Equal(s.T, got.Snapshot["mode"], "interactive")
		assert.Assert(s.T, strings.Contains(res.Text, "\n\n# Chrome snapshot (interactive)\n"), res.Text)
	}},
}
