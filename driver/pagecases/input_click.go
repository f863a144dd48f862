package pagecases

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var clickCases = []drivertest.Case{
	{Name: "input--click-events", Page: "input/click-log.html", Do: clickEvents},
	{Name: "input--click-twice-and-other-buttons", Page: "input/click-log.html", Do: clickTwiceAndOtherButtons},
	{Name: "input--click-point", Page: "input/click-log.html", Do: clickPoint},
	{Name: "input--click-input", Page: "input/click-log.html", Do: clickInput},
	{Name: "input--click-refuses", Do: clickRefuses},
	{Name: "input--click-lands", Do: clickLands},
	{Name: "input--click-parts", Page: "input/inert-text.html", Do: clickParts},
	{Name: "input--click-label", Page: "input/label-click.html", Do: clickLabel},
	{Name: "input--click-frames", Page: "input/frames.html", Do: clickFrames},
	{Name: "input--click-turned-frames", Page: "input/turned-frame.html", Do: clickTurnedFrames},
	{Name: "input--click-shadow", Page: "input/shadow.html", Do: clickShadow},
	{Name: "input--click-dialogs", Page: "input/dialogs.html", Do: clickDialogs},
	{Name: "input--click-dialog-on-mousedown", Page: "input/early-dialogs.html", Do: clickDialogOnMousedown},
	{Name: "input--click-effects", Page: "input/effects.html", Do: clickEffects},
	{Name: "input--click-new-tab", Page: "input/new-tab.html", Do: clickNewTab},
	{Name: "input--click-navigation-pending", Page: "input/effects.html", Do: clickNavigationPending},
	{Name: "input--click-prevented", Page: "input/prevented.html", Do: clickPrevented},
	{Name: "input--click-counts-once", Page: "input/click-log.html", Do: clickCountsOnce},
	{Name: "input--click-text", Page: "input/effects.html", Do: clickText},
	{Name: "input--click-dialog-while-aiming", Page: "input/moving-forever.html", Do: clickDialogWhileAiming},
}

// The results of the input operations, as far as the cases look at them.
type (
	receipt struct {
		Outcome         string
		ObservedChanges []string
		URLChanged      bool
		URLAfter        string
		Focus, FocusRef string
		ObservedAfterMs int64
		Changes         []struct{ What, Of, Ref, Before, After string }
		Appeared        []thing
		Vanished        []thing
		Opened          []string
		More            int
		MoreChanges     int
		Frames          []struct {
			URL     string
			Pending bool
		}
		Unlisted   string
		Text       []string
		Dialog     *struct{ Type, Message string }
		Navigating string
		NewTabs    []newTab
		Downloads  []string
	}
	newTab struct {
		TabID           int
		URL             string
		Missing, Closed bool
	}
	clickOut struct {
		Action struct {
			receipt
			Input, Tag, RequestedTag, PromotedFromTag, ResolvedUID, Button string
			Clicks                                                         int
		}
		Verification struct{ Status string }
	}
	fillOut struct {
		Action struct {
			receipt
			Matches, ValueRedacted, Submitted, Unread bool
			Value                                     string
			ValueLength                               int
		}
	}
	pressOut struct {
		Action struct {
			receipt
			Key, Chord string
		}
	}
)

// Outcomes of an input.
const (
	observed = "effect-observed"
	nothing  = "input-dispatched-no-observable-effect"
)

// clickOn clicks the element that the selector finds.
func clickOn(s *drivertest.Scenario, selector string) clickOut {
	s.T.Helper()
	var out clickOut
	s.Value("input.click", map[string]any{"selector": selector}, &out)
	return out
}

// text is the text of the page's element with that id.
func textOf(s *drivertest.Scenario, id string) string {
	s.T.Helper()
	var text string
	assert.NilError(s.T, json.Unmarshal([]byte(s.Eval("document.getElementById('"+id+"').textContent")), &text))
	return text
}

// logged is what the page has logged.
func logged(s *drivertest.Scenario) []string {
	s.T.Helper()
	var list []string
	assert.NilError(s.T, json.Unmarshal([]byte(s.Eval("lines")), &list))
	return list
}

// closeDialog accepts the open dialog.
func closeDialog(s *drivertest.Scenario) {
	s.T.Helper()
	_, err := cdp.Call(s.T.Context(), s.Conn, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
	assert.NilError(s.T, err)
}

func changed(r receipt, what string) bool { return slices.Contains(r.ObservedChanges, what) }

func clickEvents(s *drivertest.Scenario) {
	t := s.T
	out := clickOn(s, "#button")
	assert.Equal(t, out.Action.Input, "chrome")
	assert.Equal(t, out.Action.Tag, "button")
	assert.Equal(t, out.Action.Outcome, observed)
	assert.Equal(t, out.Verification.Status, "not-requested")
	assert.Equal(t, textOf(s, "count"), "1")
	var kinds []string
	for _, line := range logged(s) {
		assert.Assert(t, strings.Contains(line, " trusted "), line)
		kind, rest, _ := strings.Cut(line, " ")
		assert.Assert(t, strings.Contains(rest, "x=78 y=23") || strings.Contains(rest, "x=80 y=25"), line)
		kinds = append(kinds, kind)
	}
	assert.DeepEqual(t, kinds, []string{"pointerdown", "mousedown", "pointerup", "mouseup", "click"})
}

func clickTwiceAndOtherButtons(s *drivertest.Scenario) {
	t := s.T
	count := func(prefix string) int {
		n := 0
		for _, l := range logged(s) {
			if strings.HasPrefix(l, prefix) {
				n++
			}
		}
		return n
	}
	var out clickOut
	s.Value("input.click", `{"selector":"#button","clicks":2}`, &out)
	assert.Equal(t, out.Action.Clicks, 2)
	assert.Equal(t, count("click "), 2)
	assert.Equal(t, count("dblclick "), 1)
	s.Value("input.click", `{"selector":"#button","button":"right"}`, &out)
	assert.Equal(t, out.Action.Button, "right")
	assert.Equal(t, count("contextmenu "), 1)
	assert.Equal(t, count("click "), 2)
}

func clickPoint(s *drivertest.Scenario) {
	t := s.T
	var out clickOut
	s.Value("input.click", `{"x":60,"y":30}`, &out)
	assert.Equal(t, out.Action.Tag, "button")
	assert.Equal(t, textOf(s, "count"), "1")
	e := s.Fail("input.click", `{"x":60,"y":90000}`, op.Rejected, op.InvalidActionTarget)
	assert.Assert(t, strings.Contains(e.Message, "outside the viewport"), e.Message)
}

func clickInput(s *drivertest.Scenario) {
	t := s.T
	for _, in := range []string{`{}`, `{"ref":"el-1","selector":"#button"}`, `{"x":1}`, `{"selector":""}`, `{"ref":"button"}`, `{"selector":"#button","clicks":4}`,
		`{"selector":"#button","button":"back"}`, `{"selector":"#button","pace":"slow"}`, `{"selector":"#button","maxElements":81}`, `{"selector":"#button","force":true}`} {
		s.Fail("input.click", in, op.Invalid, op.InvalidInput)
	}
	assert.Equal(t, textOf(s, "count"), "0")
}

// clickRefuses: what cannot be clicked is refused before anything is pressed,
// with its reason.
func clickRefuses(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		page, selector string
		code           op.Code
		words          string
	}{
		{"input/disabled.html", "#disabled", op.InvalidActionTarget, "disabled"},
		{"input/disabled.html", "#fieldset", op.InvalidActionTarget, "disabled"},
		{"input/disabled.html", "#aria", op.InvalidActionTarget, "disabled"},
		{"input/disabled.html", "#inert", op.InvalidActionTarget, "inert"},
		{"input/overlay.html", "#covered", op.ClickIntercepted, "div#overlay"},
		{"input/overlay-appears.html", "#bait", op.ClickIntercepted, "div#veil"},
		{"input/replaced.html", "#b", op.StaleActionRef, "gone"},
		{"input/moving-forever.html", "#mover", op.TargetUnstable, "stand still"},
		{"input/inert-text.html", "#heading", op.InvalidActionTarget, "nothing listens"},
		{"input/inert-text.html", "#file", op.InvalidActionTarget, "file dialog"},
		{"input/ambiguous.html", ".go", op.InvalidActionTarget, "matches"},
		{"input/ambiguous.html", "#none", op.InvalidActionTarget, "nothing"},
		{"input/ambiguous.html", "##", op.ActionTargetNotFound, "no selector"},
	} {
		s.Goto(tt.page)
		// A listener of our own would make the heading one to click.
		listened := tt.selector != "#heading"
		if listened {
			s.Eval(`window.heard = []; for (const type of ["pointerdown", "mousedown", "mouseup", "click"]) addEventListener(type, (e) => heard.push(type), true)`)
		}
		e := s.Fail("input.click", map[string]any{"selector": tt.selector}, op.Rejected, tt.code)
		assert.Assert(t, strings.Contains(e.Message, tt.words), e.Message)
		assert.Assert(t, e.Hint != "", e.Message)
		if listened {
			assert.Equal(t, s.Eval("heard"), "[]", tt.selector)
		}
		if tt.code == op.ClickIntercepted {
			assert.Equal(t, e.Details["blocker"], tt.words)
			assert.Assert(t, e.Details["point"] != nil)
		}
	}
}

// clickLands: a click lands on what was asked for, however it is laid out.
func clickLands(s *drivertest.Scenario) {
	for _, tt := range []struct {
		page      string
		selectors []string
		want      string // an expression of what was hit last, by id
	}{
		{"input/odd-boxes.html", []string{"#wrapped", "#sizeless", "#pixel", "#rotated", "#zoomed", "#display-contents", "#huge"}, "document.getElementById('hit').textContent"},
		{"input/scrollers.html", []string{"#deep", "#right"}, "document.getElementById('hit').textContent"},
		{"input/sticky-header.html", []string{"#target"}, "hits.at(-1)"},
		{"input/overlay.html", []string{"#through", "#partly"}, "hits.at(-1)"},
		{"input/moving.html", []string{"#mover"}, "document.getElementById('hit').textContent"},
		{"input/inert-text.html", []string{"#card", "#button"}, "document.getElementById('hit').textContent"},
		{"input/inert-text.html", []string{"#west", "#east"}, "location.hash.slice(1)"},
	} {
		s.Goto(tt.page)
		for _, sel := range tt.selectors {
			clickOn(s, sel)
			assert.Equal(s.T, s.Eval(tt.want), fmt.Sprintf("%q", strings.TrimPrefix(sel, "#")))
		}
	}
}

// A part of a control stands for the control, and a listener above counts.
func clickParts(s *drivertest.Scenario) {
	t := s.T
	out := clickOn(s, "#dot")
	assert.Equal(t, out.Action.Tag, "button")
	assert.Equal(t, out.Action.RequestedTag, "circle")
	assert.Equal(t, textOf(s, "hit"), "button")
	clickOn(s, "#inside")
	assert.Equal(t, textOf(s, "hit"), "card")
}

// Invisible boxes are worked through their labels, once.
func clickLabel(s *drivertest.Scenario) {
	t := s.T
	out := clickOn(s, "#box")
	assert.Assert(t, changed(out.Action.receipt, "checked"))
	assert.Equal(t, out.Action.Changes[0].After, "true")
	s.Eval(`document.getElementById("radio").style.display = "none"`)
	out = clickOn(s, "#radio")
	assert.Equal(t, out.Action.Tag, "label")
	assert.Equal(t, out.Action.PromotedFromTag, "input")
	assert.Equal(t, textOf(s, "changes"), "2")
}

func clickFrames(s *drivertest.Scenario) {
	t := s.T
	for i, id := range []string{"same", "cross", "scaled", "below"} {
		for _, button := range []string{"button", "low"} {
			s.Eval("lines.length = 0")
			clickOn(s, "#"+id+" >> #"+button)
			assert.DeepEqual(t, logged(s), []string{fmt.Sprintf("%d click %s true", i, button)})
		}
	}
	s.Goto("frames/nested.html")
	out := clickOn(s, "iframe >> iframe >> #low")
	assert.Assert(t, changed(out.Action.receipt, "page"))
	s.Goto("frames/scrolled.html")
	clickOn(s, "#frame >> #low")
	assert.Equal(t, textOf(s, "told"), "click low true;")
}

func clickTurnedFrames(s *drivertest.Scenario) {
	t := s.T
	for _, sel := range []string{"#turned >> #button", "#turned >> #low", "#nest >> iframe >> #button", "#nest >> iframe >> #low"} {
		out := clickOn(s, sel)
		assert.Assert(t, slices.ContainsFunc(out.Action.Text, func(s string) bool { return strings.HasPrefix(s, "clicked ") }) || changed(out.Action.receipt, "focus"), "%s: %v", sel, out.Action)
	}
	// What lies over the frame is named, in the page that holds it.
	s.Eval(`document.body.insertAdjacentHTML("beforeend", '<div id="veil" style="position: fixed; inset: 0"></div>')`)
	e := s.Fail("input.click", `{"selector":"#turned >> #button"}`, op.Rejected, op.ClickIntercepted)
	assert.Equal(t, e.Details["blocker"], "div#veil")
}

func clickShadow(s *drivertest.Scenario) {
	t := s.T
	for _, mode := range []string{"open", "closed"} {
		clickOn(s, "#"+mode+" >>> .go")
		assert.Equal(t, textOf(s, "hit"), mode)
	}
}

func clickDialogs(s *drivertest.Scenario) {
	t := s.T
	for _, kind := range []string{"alert", "confirm", "prompt"} {
		began := time.Now()
		out := clickOn(s, "#"+kind)
		assert.Assert(t, time.Since(began) < 2*time.Second, "it waited for the dialog")
		assert.Equal(t, out.Action.Dialog.Type, kind)
		assert.Assert(t, changed(out.Action.receipt, "dialog"))
		s.Fail("input.click", `{"selector":"#alert"}`, op.Rejected, op.DialogOpen)
		closeDialog(s)
	}
	clickOn(s, "#arm")
	out := clickOn(s, "#leave")
	assert.Equal(t, out.Action.Dialog.Type, "beforeunload")
}

// A dialog in the middle of a press: told, and nothing stays pressed.
func clickDialogOnMousedown(s *drivertest.Scenario) {
	t := s.T
	began := time.Now()
	out := clickOn(s, "#down")
	assert.Assert(t, time.Since(began) < 2*time.Second)
	assert.Equal(t, out.Action.Dialog.Message, "mousedown")
	closeDialog(s)
	clickOn(s, "#plain")
	lines := logged(s)
	assert.Equal(t, lines[0], "mousemove plain trusted buttons=0 modifiers=false")
	assert.Equal(t, lines[len(lines)-1], "click plain trusted buttons=0 modifiers=false")
}

func clickEffects(s *drivertest.Scenario) {
	t := s.T
	for _, tt := range []struct {
		id   string
		want []string
	}{
		{"nothing", []string{"focus"}},
		{"nothing", []string{}},
		{"hash", []string{"url", "focus", "scroll"}},
		{"push", []string{"url", "focus", "scroll"}},
		{"title", []string{"title", "focus"}},
		{"scroll", []string{"focus", "scroll"}},
		{"focus", []string{"focus"}},
		{"value", []string{"focus", "page", "value"}},
		{"check", []string{"focus", "page", "checked"}},
		{"page", []string{"focus", "page"}},
		{"download", []string{"focus", "download"}},
	} {
		out := clickOn(s, "#"+tt.id)
		got := out.Action.ObservedChanges
		// The fragment may or may not have scrolled the button out of view.
		if tt.id == "hash" || tt.id == "push" {
			got = slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == "scroll" || s == "focus" })
			tt.want = []string{"url"}
		}
		assert.DeepEqual(t, got, tt.want)
		if len(tt.want) == 0 {
			assert.Equal(t, out.Action.Outcome, nothing)
		}
		if tt.id == "download" {
			assert.DeepEqual(t, out.Action.Downloads, []string{"report.csv"})
		}
	}
	out := clickOn(s, "#link")
	if to := out.Action.Navigating; to != "" {
		// A receipt does not wait for ever, and says where the tab goes.
		assert.Equal(t, to, s.Site.URL("navigate/plain.html"))
		assert.Assert(t, out.Action.ObservedAfterMs >= 250, "it did not wait: %+v", out.Action)
		return
	}
	assert.Assert(t, out.Action.URLChanged)
	assert.Equal(t, out.Action.URLAfter, s.Site.URL("navigate/plain.html"))
}

func clickNewTab(s *drivertest.Scenario) {
	t := s.T
	seen := map[int]bool{}
	fresh := func(n newTab) {
		t.Helper()
		assert.Assert(t, n.TabID != 0 && !seen[n.TabID] && !n.Missing, "%+v", n)
		seen[n.TabID] = true
	}
	for _, id := range []string{"blank", "open", "popup", "later"} {
		out := clickOn(s, "#"+id)
		assert.Equal(t, len(out.Action.NewTabs), 1, "#%s: %+v", id, out.Action)
		fresh(out.Action.NewTabs[0])
		if id != "later" {
			assert.Equal(t, out.Action.NewTabs[0].URL, s.Site.URL("navigate/closes.html?now"), "#%s", id)
		}
		assert.Assert(t, changed(out.Action.receipt, "new-tab"))
		assert.Assert(t, !out.Action.URLChanged)
	}
	out := clickOn(s, "#closes")
	assert.Assert(t, len(out.Action.NewTabs) == 1 && out.Action.NewTabs[0].Closed, "%+v", out.Action.NewTabs)
	fresh(out.Action.NewTabs[0])

	// What Chrome blocks is not told as opened.
	out = clickOn(s, "#three")
	assert.Equal(t, len(out.Action.NewTabs), 3, "%+v", out.Action.NewTabs)
	fresh(out.Action.NewTabs[0])
	for _, n := range out.Action.NewTabs[1:] {
		assert.Assert(t, n.Missing && n.TabID == 0, "%+v", n)
	}
	text := s.Call("input.click", `{"selector":"#three"}`).Text
	assert.Assert(t, strings.Contains(text, "closes.html?now#2 was asked for and did not come; Chrome blocks"), "%s", text)
}

// A navigation that does not come at once is told as on its way.
func clickNavigationPending(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`document.getElementById("link").href = "/_/slow?ms=1500"`)
	out := clickOn(s, "#link")
	assert.Assert(t, changed(out.Action.receipt, "navigation-pending"))
	assert.Equal(t, out.Action.Navigating, s.Site.URL("_/slow?ms=1500"))
	assert.Assert(t, !out.Action.URLChanged)
}

func clickPrevented(s *drivertest.Scenario) {
	t := s.T
	out := clickOn(s, "#button")
	assert.Equal(t, out.Action.Outcome, nothing)
	assert.DeepEqual(t, out.Action.ObservedChanges, []string{})
	assert.Equal(t, s.Eval("events"), "2") // preventing pointerdown keeps the mouse events away
}

// Every click counts once on the server, in a hidden tab, at both paces.
func clickCountsOnce(s *drivertest.Scenario) {
	t := s.T
	for i := range 12 {
		clickOn(s, "#button")
		assert.Equal(t, textOf(s, "count"), fmt.Sprint(i+1))
	}
	s.Call("input.click", `{"selector":"#button","pace":"human"}`)
	assert.Equal(t, textOf(s, "count"), "13")
}

// Text of the receipt as contract §1.11 has it.
func clickText(s *drivertest.Scenario) {
	t := s.T
	res := s.Call("input.click", `{"selector":"#nothing"}`)
	assert.Equal(t, res.Text, "click completed: focus\nfocus: button \"Nothing\"")
	res = s.Call("input.click", `{"selector":"#nothing"}`)
	assert.Equal(t, res.Text, "click completed")
	res = s.Call("input.click", `{"selector":"#check"}`)
	assert.Equal(t, res.Text, "click completed: focus, page, checked\nchecked of checkbox \"Box\": false → true\nfocus: button \"Check the box\"")
}

// A dialog that opens while the page is only looked at ends the call at once.
func clickDialogWhileAiming(s *drivertest.Scenario) {
	t := s.T
	s.Eval(`setTimeout(() => alert("Meanwhile"), 300)`)
	began := time.Now()
	e := s.Fail("input.click", `{"selector":"#mover"}`, op.Rejected, op.DialogOpen)
	assert.Assert(t, strings.Contains(e.Message, "Meanwhile"), e.Message)
	assert.Assert(t, time.Since(began) < 1500*time.Millisecond)
	closeDialog(s)
	s.Goto("input/early-dialogs.html")
	s.Eval(`document.getElementById("plain").addEventListener("mousemove", () => alert("Moved"), {once: true})`)
	s.Fail("input.click", `{"selector":"#plain"}`, op.Rejected, op.DialogOpen)
	closeDialog(s)
	clickOn(s, "#plain")
}
