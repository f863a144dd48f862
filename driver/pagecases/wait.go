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
	} `json:"observation"`
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
