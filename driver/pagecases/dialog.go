package pagecases

import (
	"fmt"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var dialogCases = []drivertest.Case{
	{Name: "dialog--blocks-until-answered", Page: "input/dialogs.html", Do: func(s *drivertest.Scenario) {
		waitFor(s, "load", "", 5000)
		// A script opens it, so that no command waits for it.
		s.Eval("void setTimeout(() => { window.answer = prompt('Your name?', 'nobody') }, 0)")
		waitDialog(s)
		e := s.Fail("page.wait", `{"condition":{"by":"load"}}`, op.Rejected, op.DialogOpen)
		assert.Equal(s.T, e.Details["type"], "prompt")
		res := s.Call("page.dialog", `{"action":"inspect"}`)
		assert.Assert(s.T, strings.Contains(res.Text, `prompt "Your name?"`), res.Text)
		s.Call("page.dialog", `{"action":"accept","text":"Ada"}`)
		assert.Equal(s.T, s.Eval("window.answer"), `"Ada"`)
		res = s.Call("page.dialog", `{"action":"inspect"}`)
		assert.Equal(s.T, res.Text, "No dialog is open.")
		s.Fail("page.dialog", `{"action":"dismiss"}`, op.Rejected, op.InvalidActionTarget)
	}},
	{Name: "dialog--text-only-for-a-prompt", Page: "input/dialogs.html", Do: func(s *drivertest.Scenario) {
		waitFor(s, "load", "", 5000)
		s.Eval("void setTimeout(() => { window.answer = confirm('Sure?') }, 0)")
		waitDialog(s)
		s.Fail("page.dialog", `{"action":"accept","text":"x"}`, op.Invalid, op.InvalidInput)
		s.Call("page.dialog", `{"action":"dismiss"}`)
		assert.Equal(s.T, s.Eval("window.answer"), "false")
	}},
	{Name: "dialog--policy-answers", Page: "input/dialogs.html", Do: dialogPolicyAnswers},
	{Name: "dialog--policy-between-commands", Page: "input/dialogs.html", Do: func(s *drivertest.Scenario) {
		res := s.Call("page.dialog", `{"action":"policy","dialogs":"accept"}`)
		assert.Equal(s.T, res.Text, "Dialog policy of the session: dialogs accept, beforeunload leave")
		s.Eval("new Promise((done) => setTimeout(() => done(window.answer = confirm('Nobody is here?')), 0))")
		assert.Equal(s.T, s.Eval("window.answer"), "true")
		res = s.Call("page.dialog", `{"action":"inspect"}`)
		assert.Equal(s.T, res.Text, "No dialog is open.\nbefore: confirm \"Nobody is here?\" was accepted by the session's dialog policy")
		// What an evaluation opens is answered in it.
		assert.Equal(s.T, s.Call("page.evaluate", `{"expression":"confirm('And now?')"}`).Text, "true")
	}},
	{Name: "dialog--policy-before-unload", Page: "navigate/plain.html", Do: dialogPolicyBeforeUnload},
	{Name: "dialog--policy-is-bounded", Page: "input/dialogs-endless.html", Do: func(s *drivertest.Scenario) {
		s.Call("page.dialog", `{"action":"policy","dialogs":"accept"}`)
		var out clickOut
		res := s.Value("input.click", `{"selector":"#ask"}`, &out)
		assert.Assert(s.T, out.Action.Dialog != nil, res.Text)
		assert.Assert(s.T, strings.Contains(res.Text, `dialog open: confirm "Once more?"`), res.Text)
		s.Call("page.dialog", `{"action":"policy","dialogs":"leave"}`)
		s.Call("page.dialog", `{"action":"dismiss"}`)
		assert.Equal(s.T, s.Eval("window.asked"), "51")
	}},
	{Name: "dialog--while-loading", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		page := "navigate/alert-while-loading.html"
		for _, wait := range []bool{false, true} {
			_, res := navigateTo(s, page, map[string]any{"waitUntilLoad": wait})
			if !strings.Contains(res.Text, `confirm dialog is open: "Still loading?"`) {
				waitDialog(s) // the document was there before the script ran
			}
			s.Fail("page.snapshot", `{}`, op.Rejected, op.DialogOpen)
			s.Call("page.dialog", `{"action":"accept"}`)
			s.Call("input.click", `{"selector":"#below"}`)
			assert.Equal(s.T, s.Eval("window.said"), "true")
			s.Call("page.navigate", map[string]any{"url": s.Site.URL("navigate/plain.html")})
		}
		s.Call("page.dialog", `{"action":"policy","dialogs":"dismiss"}`)
		got, res := navigateTo(s, page, map[string]any{"waitUntilLoad": true})
		assert.Equal(s.T, got.Title, "Alert while loading")
		assert.Equal(s.T, got.Status, "complete")
		assert.Assert(s.T, strings.Contains(res.Text, `note: confirm "Still loading?" was dismissed by the session's dialog policy`), res.Text)
		assert.Equal(s.T, s.Eval("window.said"), "false")
	}},
	{Name: "dialog--policy-input", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		for _, in := range []string{`{"action":"policy"}`, `{"action":"inspect","dialogs":"accept"}`, `{"action":"accept","beforeunload":"accept"}`,
			`{"action":"policy","dialogs":"maybe"}`, `{"action":"policy","dialogs":"dismiss","text":"x"}`, `{"action":"policy","text":"x"}`} {
			s.Fail("page.dialog", in, op.Invalid, op.InvalidInput)
		}
		res := s.Call("page.dialog", `{"action":"inspect"}`)
		assert.Assert(s.T, strings.Contains(string(res.Value), `"policy":{"dialogs":"leave","beforeunload":"leave"}`), "%s", res.Value)
	}},
}

// waitDialog returns when the driver knows of an open dialog.
func waitDialog(s *drivertest.Scenario) {
	s.T.Helper()
	for s.T.Context().Err() == nil {
		var got struct{ Open bool }
		s.Value("page.dialog", `{"action":"inspect"}`, &got)
		if got.Open {
			return
		}
	}
}

// A policy answers each kind of dialog in the middle of a command, which goes
// on; the receipt tells. Set back, a dialog is left open again.
func dialogPolicyAnswers(s *drivertest.Scenario) {
	t := s.T
	for _, c := range []struct{ policy, button, answer, told string }{
		{`"dialogs":"accept"`, "confirm", "true", `confirm "Really?" was accepted`},
		{`"dialogs":"accept"`, "prompt", "nobody", `prompt "Your name?" was accepted`},
		{`"dialogs":"accept","text":"Ada"`, "prompt", "Ada", `prompt "Your name?" was accepted`},
		{`"dialogs":"dismiss"`, "confirm", "false", `confirm "Really?" was dismissed`},
		{`"dialogs":"dismiss"`, "prompt", "null", `prompt "Your name?" was dismissed`},
		{`"dialogs":"accept"`, "alert", "closed", `alert "An alert" was accepted`},
		{`"dialogs":"dismiss"`, "twice", "both closed", `alert "Second" was dismissed`},
	} {
		s.Call("page.dialog", `{"action":"policy",`+c.policy+`}`)
		var out clickOut
		res := s.Value("input.click", map[string]any{"selector": "#" + c.button}, &out)
		assert.Assert(t, out.Action.Dialog == nil, res.Text)
		assert.Assert(t, changed(out.Action.receipt, "dialog") && changed(out.Action.receipt, "page"), res.Text)
		assert.Assert(t, strings.Contains(res.Text, "dialog: "+c.told+" by the session's dialog policy"), res.Text)
		assert.Equal(t, s.Eval(`document.getElementById("answer").textContent`), fmt.Sprintf("%q", c.answer))
	}
	s.Call("page.dialog", `{"action":"policy","dialogs":"leave"}`)
	var out clickOut
	s.Value("input.click", `{"selector":"#confirm"}`, &out)
	assert.Equal(t, out.Action.Dialog.Type, "confirm")
	s.Fail("page.snapshot", `{}`, op.Rejected, op.DialogOpen)
	s.Call("page.dialog", `{"action":"dismiss"}`)
}

// Dismissing keeps the page: the command that would have left it is rejected at
// once, and says why. Accepting leaves it.
func dialogPolicyBeforeUnload(s *drivertest.Scenario) {
	t := s.T
	navigateTo(s, "navigate/before-unload.html", map[string]any{"waitUntilLoad": true})
	s.Call("input.key", `{"key":"a"}`) // Chrome asks only after that
	s.Call("page.dialog", `{"action":"policy","beforeunload":"dismiss"}`)
	for _, c := range [][2]string{
		{"page.navigate", `{"url":"` + s.Site.URL("navigate/links.html") + `"}`},
		{"page.history", `{"action":"reload"}`},
		{"page.history", `{"action":"back"}`},
	} {
		e := s.Fail(c[0], c[1], op.Rejected, op.NavigationInterrupted)
		assert.Equal(t, e.Details["type"], "beforeunload", e.Message)
		assert.Equal(t, s.Eval("location.pathname"), `"/navigate/before-unload.html"`)
		s.Call("input.key", `{"key":"a"}`)
	}
	// A link is followed no further; nothing blocks.
	res := s.Call("input.click", `{"selector":"a"}`)
	assert.Assert(t, strings.Contains(res.Text, `beforeunload "" was dismissed`), res.Text)
	assert.Equal(t, s.Eval("location.pathname"), `"/navigate/before-unload.html"`)

	s.Call("page.dialog", `{"action":"policy","beforeunload":"accept"}`)
	_, res = goHistory(s, `{"action":"reload","waitUntilLoad":true}`)
	assert.Assert(t, strings.Contains(res.Text, `note: beforeunload "" was accepted by the session's dialog policy`), res.Text)
	s.Call("input.key", `{"key":"a"}`)
	s.Call("input.click", `{"selector":"a"}`)
	waitFor(s, "urlIncludes", "plain.html", 5000)
	navigateTo(s, "navigate/before-unload.html", map[string]any{"waitUntilLoad": true})
	s.Call("input.key", `{"key":"a"}`)
	got, res := navigateTo(s, "navigate/links.html", nil)
	assert.Equal(t, got.URL, s.Site.URL("navigate/links.html"))
	assert.Assert(t, strings.Contains(res.Text, "was accepted by the session's dialog policy"), res.Text)
}
