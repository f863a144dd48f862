package pagecases

import (
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type waited struct {
	Satisfied   bool  `json:"satisfied"`
	ElapsedMs   int64 `json:"elapsedMs"`
	Met         *struct{ By, Value string }
	Observation struct {
		URL        string `json:"url"`
		ReadyState string `json:"readyState"`
		MatchCount *int   `json:"matchCount"`
		InFlight   *int   `json:"requestsInFlight"`
	} `json:"observation"`
	Reason string `json:"reason"`
}

func waitFor(s *drivertest.Scenario, by, value string, timeoutMs int) (waited, op.Result) {
	s.T.Helper()
	cond := map[string]any{"by": by}
	if value != "" {
		cond["value"] = value
	}
	var out waited
	res := s.Value("page.wait", map[string]any{"condition": cond, "timeoutMs": timeoutMs}, &out)
	return out, res
}

var waitCases = []drivertest.Case{
	{Name: "wait--selector", Page: "wait/appears.html", Do: func(s *drivertest.Scenario) {
		got, res := waitFor(s, "selector", ".late", 5000)
		assert.Assert(s.T, got.Satisfied)
		assert.Equal(s.T, *got.Observation.MatchCount, 1)
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Wait condition satisfied\nselector: .late\nelapsed: "), res.Text)
		assert.Assert(s.T, strings.HasSuffix(res.Text, "\nselector matches: 1"), res.Text)
	}},
	{Name: "wait--visible-then-hidden", Page: "wait/appears.html", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "visible", ".late", 5000)
		assert.Assert(s.T, got.Satisfied)
		s.Eval("setTimeout(() => document.querySelector('.late').style.visibility = 'hidden', 50)")
		got, _ = waitFor(s, "hidden", ".late", 5000)
		assert.Assert(s.T, got.Satisfied)
		got, _ = waitFor(s, "hidden", ".never-was", 1000)
		assert.Assert(s.T, got.Satisfied)
	}},
	{Name: "wait--enabled", Page: "input/disabled.html", Do: func(s *drivertest.Scenario) {
		s.Eval("document.body.insertAdjacentHTML('beforeend', '<button id=later disabled>Later</button>'); setTimeout(() => document.getElementById('later').disabled = false, 200)")
		got, _ := waitFor(s, "enabled", "#later", 5000)
		assert.Assert(s.T, got.Satisfied)
		assert.Assert(s.T, got.ElapsedMs >= 100, "it was enabled after 200 ms, but satisfied after %d", got.ElapsedMs)
	}},
	{Name: "wait--text-everywhere", Page: "wait/text.html", Do: func(s *drivertest.Scenario) {
		for _, text := range []string{"Text in the page", "Text in a closed root", "Text in a frame"} {
			got, _ := waitFor(s, "textContains", text, 5000)
			assert.Assert(s.T, got.Satisfied, text)
		}
	}},
	{Name: "wait--text-gone", Page: "wait/appears.html?ms=1", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "textContains", "Here  now", 5000)
		assert.Assert(s.T, got.Satisfied)
		s.Eval("setTimeout(() => document.querySelector('.late').remove(), 100)")
		got, _ = waitFor(s, "textGone", "Here now", 5000)
		assert.Assert(s.T, got.Satisfied)
	}},
	{Name: "wait--url", Page: "wait/url.html", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "urlIncludes", "?done", 5000)
		assert.Assert(s.T, got.Satisfied)
		assert.Assert(s.T, strings.Contains(got.Observation.URL, "?done"))
	}},
	{Name: "wait--follows-a-navigation", Page: "wait/navigates.html", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "urlIncludes", "arrived", 5000)
		assert.Assert(s.T, got.Satisfied)
		got, _ = waitFor(s, "load", "", 5000)
		assert.Assert(s.T, got.Satisfied)
		assert.Equal(s.T, got.Observation.ReadyState, "complete")
	}},
	{Name: "wait--network-idle", Do: func(s *drivertest.Scenario) {
		s.Call("page.navigate", map[string]any{"url": s.Site.URL("navigate/slow-image.html")})
		got, _ := waitFor(s, "networkIdle", "", 8000)
		assert.Assert(s.T, got.Satisfied)
		assert.Equal(s.T, s.Eval("document.readyState"), `"complete"`)
	}},
	{Name: "wait--network-idle-of-a-loaded-page", Page: "wait/fetches.html", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "networkIdle", "", 8000)
		assert.Assert(s.T, got.Satisfied)
		// Each fetch begins when the one before has ended, so one begins after
		// the wait did.
		s.Eval("go(8, 300)")
		got, res := waitFor(s, "networkIdle", "", 15000)
		assert.Assert(s.T, got.Satisfied, res.Text)
		assert.Equal(s.T, s.Eval("window.left"), "0", res.Text)
		assert.Assert(s.T, strings.HasSuffix(res.Text, "\nrequests in flight: 0"), res.Text)
		// One that began before the wait is known where the network is captured.
		s.Call("page.network-list", map[string]any{})
		s.Eval("go(1, 2500)")
		got, _ = waitFor(s, "networkIdle", "", 15000)
		assert.Assert(s.T, got.Satisfied)
		assert.Equal(s.T, s.Eval("window.left"), "0")
		s.Eval("go(1, 20000)")
		got, res = waitFor(s, "networkIdle", "", 1500)
		assert.Assert(s.T, !got.Satisfied, res.Text)
		assert.Equal(s.T, *got.Observation.InFlight, 1)
		s.Call("page.navigate", map[string]any{"url": s.Site.URL("wait/never.html")})
		got, res = waitFor(s, "networkIdle", "", 8000)
		assert.Assert(s.T, got.Satisfied, res.Text)
	}},
	{Name: "wait--network-idle-with-a-stream", Page: "network/stream.html", Do: func(s *drivertest.Scenario) {
		// Chrome never calls this document idle. After its one event nothing
		// tells of the source.
		got, res := waitFor(s, "textContains", "heard once", 8000)
		assert.Assert(s.T, got.Satisfied, res.Text)
		got, res = waitFor(s, "networkIdle", "", 1500)
		assert.Assert(s.T, !got.Satisfied, res.Text)
		assert.Assert(s.T, strings.Contains(got.Reason, "event source"), res.Text)
		s.Call("page.network-list", map[string]any{})
		for _, page := range []string{"network/stream.html", "network/socket.html"} {
			s.Call("page.navigate", map[string]any{"url": s.Site.URL(page)})
			got, res = waitFor(s, "networkIdle", "", 8000)
			assert.Assert(s.T, got.Satisfied, "%s: %s", page, res.Text)
		}
	}},
	{Name: "wait--network-idle-with-workers-and-frames", Do: func(s *drivertest.Scenario) {
		for range 2 { // without and with the network's capture
			for _, page := range []string{"network/workers.html", "network/frames.html"} {
				s.Call("page.navigate", map[string]any{"url": s.Site.URL(page)})
				got, res := waitFor(s, "networkIdle", "", 8000)
				assert.Assert(s.T, got.Satisfied, "%s: %s", page, res.Text)
			}
			s.Call("page.network-list", map[string]any{})
		}
	}},
	{Name: "wait--busy-page", Page: "wait/never.html", Do: func(s *drivertest.Scenario) {
		// By a response, since timers of a hidden page come late, and not at
		// once, or the call itself would be answered late.
		s.Eval("fetch('/_/slow?ms=1000&type=json').then(() => { for (const end = performance.now() + 8000; performance.now() < end;); }); 1")
		var got waited
		res := s.Value("page.wait", `{"anyOf":[{"by":"visible","value":"#never"},{"by":"textContains","value":"nowhere"}],"timeoutMs":3000}`, &got)
		assert.Assert(s.T, !got.Satisfied)
		assert.Assert(s.T, got.ElapsedMs >= 3000 && got.ElapsedMs < 5000, "%d ms", got.ElapsedMs)
		assert.Assert(s.T, strings.Contains(got.Reason, "did not answer in time"), res.Text)
		assert.Assert(s.T, strings.Contains(res.Text, "\nreason: the page did not answer in time"), res.Text)
		assert.Assert(s.T, strings.HasSuffix(got.Observation.URL, "/wait/never.html"), got.Observation.URL)
		// What needs no answer of the page holds all the same.
		s.Value("page.wait", `{"anyOf":[{"by":"visible","value":"#never"},{"by":"urlIncludes","value":"never.html"}],"timeoutMs":300}`, &got)
		assert.Assert(s.T, got.Satisfied)
		got, _ = waitFor(s, "textContains", "Still waiting", 20000)
		assert.Assert(s.T, got.Satisfied)
	}},
	{Name: "wait--expression", Page: "wait/expression.html", Do: func(s *drivertest.Scenario) {
		got, _ := waitFor(s, "expression", "window.ready", 5000)
		assert.Assert(s.T, got.Satisfied)
	}},
	{Name: "wait--expression-syntax", Page: "wait/expression.html", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.wait", `{"condition":{"by":"expression","value":"window.("}}`, op.Rejected, op.EvaluationFailed)
		assert.Assert(s.T, strings.Contains(e.Message, "nothing was run"), e.Message)
		s.Fail("page.wait", `{"condition":{"by":"expression","value":"nowhere.x"}}`, op.OutcomeUnknown, op.EvaluationFailed)
	}},
	{Name: "wait--deadline-is-an-observation", Page: "wait/never.html", Do: func(s *drivertest.Scenario) {
		got, res := waitFor(s, "visible", "#never", 400)
		assert.Assert(s.T, !got.Satisfied)
		assert.Assert(s.T, got.ElapsedMs >= 400)
		assert.Equal(s.T, *got.Observation.MatchCount, 0)
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Wait condition not satisfied\n"), res.Text)
	}},
	{Name: "wait--any-of", Page: "wait/appears.html", Do: func(s *drivertest.Scenario) {
		var got waited
		s.Value("page.wait", `{"anyOf":[{"by":"visible","value":"#error"},{"by":"textContains","value":"Here now"}],"timeoutMs":5000}`, &got)
		assert.Assert(s.T, got.Satisfied)
		assert.Equal(s.T, got.Met.By, "textContains")
	}},
	{Name: "wait--bad-input", Page: "wait/never.html", Do: func(s *drivertest.Scenario) {
		s.Fail("page.wait", `{"condition":{"by":"visible","value":"##"}}`, op.Rejected, op.ActionTargetNotFound)
		s.Fail("page.wait", `{"condition":{"by":"visible"}}`, op.Invalid, op.InvalidInput)
		s.Fail("page.wait", `{"condition":{"by":"load","value":"x"}}`, op.Invalid, op.InvalidInput)
		s.Fail("page.wait", `{}`, op.Invalid, op.InvalidInput)
	}},
}
