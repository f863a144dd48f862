package pagecases

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// crash ends the page's renderer and returns when the driver has heard of it.
// Chrome does not answer a call whose process it takes away.
func crash(s *drivertest.Scenario) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 10*time.Second)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = cdp.Call(ctx, s.Conn, page.Crash, cdp.Empty{})
	}()
	for ctx.Err() == nil {
		_, err := s.Run("page.snapshot", `{"mode":"interactive"}`)
		if err != nil && op.AsError(err).Code == op.RendererCrashed {
			break
		}
	}
	cancel()
	<-over
}

// crashCases are of a renderer that crashes: what is under way says so, other
// operations are refused until a page is loaded again, and then all is as it
// was, the frame lease too.
var crashCases = []drivertest.Case{
	{Name: "crash--reload-revives", Page: "input/click-log.html", Do: func(s *drivertest.Scenario) {
		ref := refOf(s, "button")
		s.Call("input.click", map[string]any{"ref": ref})
		for _, revive := range []string{`{"action":"reload","waitUntilLoad":true}`, `{"action":"reload","snapshot":{"mode":"interactive"}}`} {
			crash(s)
			e := s.Fail("page.snapshot", `{}`, op.Rejected, op.RendererCrashed)
			assert.Assert(s.T, strings.Contains(e.Hint, "chrome_history"), e.Hint)
			s.Fail("input.click", map[string]any{"ref": ref}, op.Rejected, op.RendererCrashed)
			got, _ := goHistory(s, revive)
			assert.Equal(s.T, got.URL, s.Site.URL("input/click-log.html"))
			worksAfterCrash(s, ref)
		}
	}},
	{Name: "crash--navigation-revives", Page: "input/click-log.html", Do: func(s *drivertest.Scenario) {
		ref := refOf(s, "button")
		crash(s)
		s.Fail("page.read", `{}`, op.Rejected, op.RendererCrashed)
		navigateTo(s, "input/click-log.html", map[string]any{"waitUntilLoad": true})
		worksAfterCrash(s, ref)
	}},
	{Name: "crash--back-revives", Page: "input/click-log.html", Do: func(s *drivertest.Scenario) {
		ref := refOf(s, "button")
		navigateTo(s, "navigate/plain.html", map[string]any{"waitUntilLoad": true})
		crash(s)
		s.Fail("page.evaluate", `{"expression":"1"}`, op.Rejected, op.RendererCrashed)
		got, _ := goHistory(s, `{"action":"back","waitUntilLoad":true}`)
		assert.Equal(s.T, got.URL, s.Site.URL("input/click-log.html"))
		worksAfterCrash(s, ref)
	}},
	{Name: "crash--mid-evaluate", Page: "input/click-log.html", Do: func(s *drivertest.Scenario) {
		done := make(chan error, 1)
		go func() {
			_, err := s.Run("page.evaluate", `{"expression":"new Promise(() => globalThis.waiting = 1)"}`)
			done <- err
		}()
		for s.Eval("globalThis.waiting") != "1" {
			time.Sleep(5 * time.Millisecond)
		}
		crash(s)
		e := op.AsError(<-done)
		assert.Equal(s.T, e.Code, op.RendererCrashed, "%s", e.Message)
		assert.Equal(s.T, e.Kind, op.OutcomeUnknown, "%s", e.Message)
		goHistory(s, `{"action":"reload","waitUntilLoad":true}`)
		worksAfterCrash(s, "")
	}},
}

// worksAfterCrash: the page takes input and shows itself; the old ref is told
// as stale.
func worksAfterCrash(s *drivertest.Scenario, old string) {
	s.T.Helper()
	if old != "" {
		s.Fail("input.click", map[string]any{"ref": old}, op.Rejected, op.StaleActionRef)
	}
	var out json.RawMessage
	s.Value("input.click", map[string]any{"ref": refOf(s, "button")}, &out)
	assert.Assert(s.T, strings.Contains(s.Eval(`document.getElementById("log").textContent`), "click"), "%s", out)
	s.Call("page.screenshot", `{"capture":{"kind":"viewport"},"format":"jpeg"}`)
	// A hidden tab without our frames has one a second, or none: sixty of them
	// would take longer than an expression may.
	s.Call("page.evaluate", `{"expression":"new Promise((done) => { let left = 60; const frame = () => left-- ? requestAnimationFrame(frame) : done(1); frame(); })"}`)
}
