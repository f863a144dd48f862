package pagecases

import (
	"encoding/json"
	"regexp"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var refCases = []drivertest.Case{
	{Name: "input--by-ref", Page: "input/click-log.html", Do: inputByRef},
	{Name: "input--ref-refuses", Page: "input/click-log.html", Do: inputRefRefuses},
	{Name: "input--snapshot-after", Page: "input/disabled.html", Do: inputSnapshotAfter},
}

// refOf takes a snapshot and returns the ref of the action whose line has the
// words.
func refOf(s *drivertest.Scenario, words string) string {
	s.T.Helper()
	text := s.Call("page.snapshot", `{"mode":"interactive"}`).Text
	for line := range strings.Lines(text) {
		if strings.Contains(line, words) {
			if ref := regexp.MustCompile(`@el-\d+`).FindString(line); ref != "" {
				return ref
			}
		}
	}
	s.T.Fatalf("no %q in %s", words, text)
	return ""
}

func inputByRef(s *drivertest.Scenario) {
	t := s.T
	ref := refOf(s, `button "Click me"`)
	for _, in := range []string{ref, strings.TrimPrefix(ref, "@")} {
		var out clickOut
		s.Value("input.click", map[string]any{"ref": in}, &out)
		assert.Equal(t, "@"+out.Action.ResolvedUID, ref)
	}
	assert.Equal(t, textOf(s, "count"), "2")

	s.Goto("input/fill-kinds.html")
	s.Fail("input.click", map[string]any{"ref": ref}, op.Rejected, op.StaleActionRef)
	assert.Equal(t, s.Eval("lines"), "[]")
	field := refOf(s, `textbox "Text"`)
	var filled fillOut
	s.Value("input.fill", map[string]any{"ref": field, "text": "by ref"}, &filled)
	assert.Assert(t, filled.Action.Matches)
	s.Call("input.key", map[string]any{"ref": field, "key": "End"})
	s.Call("input.key", map[string]any{"ref": field, "key": "!"})
	assert.Equal(t, value(s, "text"), "by ref!")
}

// A ref is good for its own element and the verbs that it was granted only.
func inputRefRefuses(s *drivertest.Scenario) {
	t := s.T
	ref := refOf(s, `button "Click me"`)
	e := s.Fail("input.fill", map[string]any{"ref": ref, "text": "x"}, op.Rejected, op.ActionVerbMismatch)
	assert.Equal(t, e.Details["ref"], strings.TrimPrefix(ref, "@"))
	s.Fail("input.click", `{"ref":"el-9999"}`, op.Rejected, op.StaleActionRef)
	// Its like in the same place is another element.
	s.Eval(`(() => { const old = document.getElementById("button"); old.replaceWith(old.cloneNode(true)); })()`)
	e = s.Fail("input.click", map[string]any{"ref": ref}, op.Rejected, op.StaleActionRef)
	assert.Assert(t, strings.Contains(e.Message, "nothing was done"), e.Message)
	assert.Equal(t, textOf(s, "count"), "0")

	s.Goto("input/replaced.html")
	e = s.Fail("input.click", map[string]any{"ref": refOf(s, `button "Shifty"`)}, op.Rejected, op.StaleActionRef)
	assert.Assert(t, e.Details["ref"] != nil && e.Details["url"] != nil)
	assert.Equal(t, textOf(s, "hits"), "0")

	s.Goto("input/disabled.html")
	ref = refOf(s, `button "Enable"`)
	s.Eval(`document.getElementById("enable").disabled = true`)
	e = s.Fail("input.click", map[string]any{"ref": ref}, op.Rejected, op.InvalidActionTarget)
	assert.Equal(t, e.Details["reason"], "disabled")
	assert.Equal(t, s.Eval("lines"), "[]")
}

// The snapshot afterwards comes with the result, and refs of it work at once.
func inputSnapshotAfter(s *drivertest.Scenario) {
	t := s.T
	res := s.Call("input.click", `{"selector":"#enable","includeSnapshot":true}`)
	var out struct {
		Verification struct {
			Status   string
			Snapshot json.RawMessage
		}
	}
	assert.NilError(t, json.Unmarshal(res.Value, &out))
	assert.Equal(t, out.Verification.Status, "observed")
	assert.Assert(t, strings.Contains(res.Text, "\n\n# Chrome snapshot"), res.Text)
	assert.Assert(t, strings.Contains(res.Text, `button "Enabled by the other"`), res.Text)
	ref := regexp.MustCompile(`@el-\d+`).FindString(res.Text[strings.Index(res.Text, `@`):])
	assert.Assert(t, ref != "")

	// After a navigation the snapshot is of the new page.
	s.Goto("input/effects.html")
	res = s.Call("input.click", `{"selector":"#link","includeSnapshot":true}`)
	assert.Assert(t, strings.Contains(res.Text, "/navigate/plain.html\n"), res.Text)

	// A dialog makes it unavailable, and the click stays done.
	s.Goto("input/dialogs.html")
	res = s.Call("input.click", `{"selector":"#alert","includeSnapshot":true}`)
	assert.Assert(t, strings.Contains(res.Text, "Post-action snapshot unavailable; the action result was preserved: a dialog (alert) is open"), res.Text)
	closeDialog(s)
}
