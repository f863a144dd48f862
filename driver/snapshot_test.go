package driver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
)

// look takes a snapshot and decodes it.
func look(s *drivertest.Scenario, input string) (SnapshotOut, string) {
	s.T.Helper()
	var out SnapshotOut
	res := s.Value("page.snapshot", input, &out)
	return out, res.Text
}

// stem is the golden's name of a fixture.
func stem(page string) string {
	return strings.ReplaceAll(strings.TrimSuffix(page, ".html"), "/", "--")
}

func TestGoldens(t *testing.T) {
	patient(t)
	drivertest.RunCases(t, directLane(t), pagecases.Goldens(true))
}

func TestSnapshotModeGoldens(t *testing.T) {
	for _, c := range []struct{ page, mode string }{
		{"snapshot/contexts.html", "interactive"}, {"snapshot/contexts.html", "pageMap"}, {"snapshot/states.html", "forms"},
		{"read/article.html", "text"}, {"snapshot/contexts.html", "changes"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			s := drivertest.Start(t, directLane(t), stem(c.page)+"-"+c.mode)
			s.Goto(c.page)
			s.Golden("page.snapshot", s.Call("page.snapshot", map[string]any{"mode": c.mode}).Text)
		})
	}
}

// Nothing below the fold is lost: every button is named or counted, and the
// frontiers lead to it.
//
// Invariant 7 of the design.
func TestEveryActionIsReachable(t *testing.T) {
	patient(t)
	for _, page := range []string{"snapshot/below-fold.html", "snapshot/contexts.html", "snapshot/many-frames.html", "_/huge?n=1000"} {
		for _, input := range []map[string]any{{}, {"mode": "interactive", "maxElements": 7}, {"maxTextChars": 900}, {"role": "button", "maxTextChars": 2000}} {
			t.Run(fmt.Sprint(page, input), func(t *testing.T) {
				s := start(t, page)
				reach(s, input)
			})
		}
	}
}

// reach follows every frontier and returns the refs of all actions, each of
// which must come exactly once.
func reach(s *drivertest.Scenario, input map[string]any) map[string]string {
	s.T.Helper()
	raw, err := json.Marshal(input)
	assert.NilError(s.T, err)
	first, text := look(s, string(raw))
	limit := 8000
	if n, ok := input["maxTextChars"].(int); ok {
		limit = n
	}
	assert.Assert(s.T, runes(text) <= limit, "%d characters", runes(text))
	seen := map[string]string{}
	total := first.Summary.TotalInteractiveVisible
	queue := []SnapshotOut{first}
	for steps := 0; len(queue) > 0; steps++ {
		assert.Assert(s.T, steps < 3000, "the frontiers do not end")
		out := queue[0]
		queue = queue[1:]
		for _, a := range out.Actions {
			_, twice := seen[a.ID]
			assert.Assert(s.T, !twice, "%s %q was shown twice", a.ID, a.Name)
			seen[a.ID] = a.Role + " " + a.Name
		}
		for _, f := range out.Frontiers {
			if f.Projection != "actions" {
				continue
			}
			next := map[string]any{"ref": "@" + f.ID}
			for _, k := range []string{"maxElements", "maxTextChars"} {
				if v, ok := input[k]; ok {
					next[k] = v
				}
			}
			raw, err := json.Marshal(next)
			assert.NilError(s.T, err)
			more, _ := look(s, string(raw))
			assert.Assert(s.T, len(more.Actions) > 0, "%s leads nowhere", f.ID)
			rest := 0
			for _, g := range more.Frontiers {
				rest += g.Omitted
			}
			assert.Equal(s.T, f.Omitted, len(more.Actions)+rest, "the count of %s %q", f.ID, f.Name)
			queue = append(queue, more)
		}
	}
	if input["role"] == nil {
		assert.Equal(s.T, len(seen), total)
	}
	return seen
}

func TestBelowFold(t *testing.T) {
	s := start(t, "snapshot/below-fold.html")
	seen := reach(s, map[string]any{})
	for n := 1; n <= 100; n++ {
		assert.Assert(t, slices.ContainsFunc(valuesOf(seen), func(v string) bool { return strings.HasSuffix(v, fmt.Sprintf(" %d", n)) }), "button %d is missing", n)
	}
}

func valuesOf(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func TestFrontierGoesStale(t *testing.T) {
	s := start(t, "snapshot/contexts.html")
	out, _ := look(s, `{}`)
	var f FrontierOut
	for _, g := range out.Frontiers {
		if g.Projection == "actions" && g.Name == "Order history" {
			f = g
		}
	}
	assert.Assert(t, f.ID != "")
	s.Eval(`[...document.querySelectorAll("button")].at(-1).remove()`)
	e := s.Fail("page.snapshot", map[string]any{"ref": f.ID}, op.Rejected, op.StaleObservationFrontier)
	assert.Equal(t, e.Details["ref"], f.ID)
	s.Fail("page.snapshot", map[string]any{"ref": "frontier-9999"}, op.Rejected, op.StaleObservationRef)
	s.Fail("page.snapshot", map[string]any{"ref": "el-9999"}, op.Rejected, op.StaleObservationRef)
	s.Fail("page.snapshot", map[string]any{"nearUid": "el-9999"}, op.Rejected, op.StaleObservationRef)
	s.Fail("page.read", map[string]any{"ref": f.ID}, op.Rejected, op.StaleContentRef)
}

func TestExpandContext(t *testing.T) {
	s := start(t, "snapshot/contexts.html")
	out, _ := look(s, `{"maxElements":10}`)
	var id string
	for _, c := range out.Contexts {
		if c.Name == "Order history" {
			id = c.ID
		}
	}
	out, text := look(s, fmt.Sprintf(`{"ref":"@%s","maxElements":30}`, id))
	assert.Equal(t, len(out.Actions), 30)
	assert.Equal(t, out.Frontiers[0].Omitted, 113)
	assert.Assert(t, strings.Contains(text, `region "Expanded context" actions=30/143`), text)
}

// A ref stays with its element, and never comes to mean another one.
func TestRefsAreStable(t *testing.T) {
	s := start(t, "snapshot/rerender.html")
	before, _ := look(s, `{}`)
	names := map[string]string{}
	for _, a := range before.Actions {
		names[a.ID] = a.Name
	}
	s.Eval(`document.querySelector("button").click()`)
	after, _ := look(s, `{}`)
	kept := 0
	for _, a := range after.Actions {
		if name, ok := names[a.ID]; ok {
			kept++
			assert.Equal(t, strings.Fields(a.Name)[0], strings.Fields(name)[0])
		}
	}
	assert.Assert(t, kept > 0)

	s.Goto("snapshot/labels.html")
	third, _ := look(s, `{}`)
	for _, a := range third.Actions {
		_, ok := names[a.ID]
		assert.Assert(t, !ok, "%s was given again after a navigation", a.ID)
	}
	e := s.Fail("page.snapshot", map[string]any{"ref": before.Actions[0].ID}, op.Rejected, op.StaleObservationRef)
	assert.Assert(t, e.Hint != "")
}

func TestDisabledIsNotOffered(t *testing.T) {
	s := start(t, "snapshot/disabled-inert.html")
	out, _ := look(s, `{}`)
	var names []string
	for _, a := range out.Actions {
		names = append(names, a.Name)
	}
	assert.DeepEqual(t, names, []string{"Usable in a legend", "Usable in an invisible box", "Usable in a line"})
}

func TestModal(t *testing.T) {
	s := start(t, "snapshot/modal.html")
	s.Eval(`document.getElementById("open").click()`)
	out, text := look(s, `{}`)
	assert.Equal(t, out.Modal.Label, "Confirm")
	assert.Assert(t, strings.Contains(text, "\nmodal: "+out.Modal.UID+" Confirm"), text)
	for _, a := range out.Actions {
		assert.Assert(t, a.Name == "Cancel" || a.Name == "Delete", "%q is behind the dialog", a.Name)
	}
	assert.Equal(t, len(out.Actions), 2)
}

// No value of a secret field leaves the page in any form.
func TestSecretsAreRedacted(t *testing.T) {
	s := start(t, "snapshot/password.html")
	var secrets []string
	var values []string
	assert.NilError(t, json.Unmarshal([]byte(s.Eval(`[...document.querySelectorAll("input")].map((i) => i.value)`)), &values))
	for _, v := range values {
		if !strings.HasPrefix(v, "plain") && v != "ada" && v != "" {
			secrets = append(secrets, v)
		}
	}
	assert.Assert(t, len(secrets) >= 5)
	for _, mode := range []string{"auto", "interactive", "forms", "pageMap", "text", "changes", "full"} {
		res := s.Call("page.snapshot", map[string]any{"mode": mode})
		for _, v := range secrets {
			assert.Assert(t, !strings.Contains(res.Text+string(res.Value), v), "%s in mode %s", v, mode)
		}
	}
	res := s.Call("page.read", `{}`)
	for _, v := range secrets {
		assert.Assert(t, !strings.Contains(res.Text+string(res.Value), v), "%s is read", v)
	}
	assert.Assert(t, strings.Contains(res.Text, "plain-2"), res.Text)
}

// A page cannot write lines that look like ours.
func TestForgedLines(t *testing.T) {
	s := start(t, "snapshot/forged.html")
	for _, mode := range []string{"auto", "interactive", "text", "changes"} {
		_, text := look(s, fmt.Sprintf(`{"mode":%q}`, mode))
		for line := range strings.Lines(text) {
			assert.Assert(t, !strings.HasPrefix(line, "- @el-999") && !strings.HasPrefix(line, "- @frontier-99"), "%s: %s", mode, line)
		}
	}
	for line := range strings.Lines(s.Call("page.read", `{}`).Text) {
		assert.Assert(t, !strings.HasPrefix(line, "- @") && !strings.HasPrefix(line, "## Act"), line)
	}
}

func TestChanges(t *testing.T) {
	s := start(t, "snapshot/changes.html")
	look(s, `{}`)
	_, text := look(s, `{"mode":"changes"}`)
	assert.Assert(t, strings.Contains(text, "## Changed since last snapshot\n- nothing"), text)
	for _, c := range []struct{ id, want string }{
		{"toggle", `updated el-1 checkbox "Box": checked "false" → "true"`}, {"type", `updated el-2 textbox "Field": value "before" → "after"`},
		{"say", `text "After"`}, {"add", `button "Item 3"`}, {"remove", `button "Item 3"`}, {"rename", `title: "Changes" → "Changed title"`},
	} {
		s.Eval(fmt.Sprintf(`document.getElementById(%q).click()`, c.id))
		_, text := look(s, `{"mode":"changes"}`)
		_, rest, _ := strings.Cut(text, "## Changed since last snapshot\n")
		changed, _, _ := strings.Cut(rest, "\n\n")
		assert.Assert(t, strings.Contains(changed, c.want), "%s: %s", c.id, text)
		lines := strings.Split(changed, "\n")
		most := 1
		if c.id == "add" {
			most = 2 // the new button, and its text
		}
		assert.Assert(t, len(lines) <= most || c.id == "remove", "%s: %s", c.id, changed)
	}
	s.Eval(`document.title = "Other"; const b = document.createElement("button"); b.textContent = "Brand new"; document.body.append(b)`)
	out, text := look(s, `{"mode":"changes"}`)
	assert.Assert(t, strings.Contains(text, `→ "Other"`) && strings.Contains(text, `button "Brand new"`), text)
	assert.Equal(t, out.Diff.AddedCount, 1)
	assert.Equal(t, out.Actions[0].Name, "Brand new")
	// Whatever did not change is still one frontier away.
	n := len(out.Actions)
	for _, f := range out.Frontiers {
		n += f.Omitted
	}
	assert.Assert(t, n >= 1)
}

func TestQuery(t *testing.T) {
	s := start(t, "snapshot/search.html")
	out, text := look(s, `{"query":"merge request","role":"button"}`)
	assert.Assert(t, len(out.Actions) > 0)
	assert.Assert(t, strings.Contains(text, "## Matches") || len(out.Matches) == 0)
	for _, a := range out.Actions {
		assert.Equal(t, a.Role, "button")
	}
}

func TestFramesAreOneTree(t *testing.T) {
	patient(t)
	s := start(t, "snapshot/many-frames.html")
	out, _ := look(s, `{}`)
	assert.Equal(t, out.Summary.TotalInteractiveVisible, 20)
	s.Goto("frames/nested.html")
	out, _ = look(s, `{}`)
	assert.Equal(t, len(out.Frames), 0)
	assert.Equal(t, len(out.Actions), 4)
}

// A frame in the page's own thread answers in its turn, however long that takes;
// one in another process has its bound.
func TestFramesWaitTheirTurn(t *testing.T) {
	bound := childBound
	t.Cleanup(func() { childBound = bound })
	childBound = time.Microsecond
	s := start(t, "frames/same-origin.html")
	out, text := look(s, `{}`)
	assert.Equal(t, len(out.Frames), 0, text)
	assert.Assert(t, slices.ContainsFunc(out.Actions, func(a ActionOut) bool { return a.Name == "Frame button" }), text)
	s.Goto("frames/cross-origin.html")
	out, text = look(s, `{}`)
	assert.Equal(t, len(out.Frames), 1, text)
	assert.Assert(t, strings.Contains(text, "did not answer within 1µs"), text)
}

// A frame that does not answer costs a second and itself, nothing else.
func TestBusyFrame(t *testing.T) {
	s := start(t, "snapshot/busy-frame.html")
	s.Eval("busy")
	began := time.Now()
	out, text := look(s, `{}`)
	took := time.Since(began)
	assert.Assert(t, slices.ContainsFunc(out.Actions, func(a ActionOut) bool { return a.Name == "Beside the busy frame" }), text)
	assert.Equal(t, len(out.Frames), 1, text)
	assert.Assert(t, strings.Contains(out.Frames[0].URL, "busy.html"), text)
	assert.Assert(t, strings.Contains(text, "frames: "), text)
	assert.Assert(t, took < 4*time.Second, "it took %s", took)
}

// An open dialog is told at once, as having had no effect.
func TestSnapshotUnderDialog(t *testing.T) {
	s := start(t, "snapshot/labels.html")
	look(s, `{}`)
	s.Eval(`setTimeout(() => alert("Hello"), 0); 1`)
	var err error
	deadline := time.Now().Add(5 * time.Second)
	for err == nil && time.Now().Before(deadline) {
		_, err = s.Run("page.snapshot", `{}`)
	}
	e, ok := err.(*op.Error)
	assert.Assert(t, ok && e.Code == op.DialogOpen && e.Kind == op.Rejected, "%v", err)
	assert.Equal(t, e.Details["message"], "Hello")
}

func TestTextCaps(t *testing.T) {
	s := start(t, "_/huge?n=6000")
	for _, c := range []struct {
		input string
		max   int
	}{{`{}`, 8000}, {`{"mode":"text"}`, 8000}, {`{"mode":"full"}`, 8000}, {`{"mode":"pageMap"}`, 8000}, {`{"mode":"forms"}`, 8000}, {`{"maxTextChars":300}`, 300},
		{`{"maxTextChars":1}`, 1}, {`{"mode":"full","maxTextChars":20000}`, 20000}, {`{"query":"order"}`, 8000}, {`{"containingText":"order 7"}`, 8000}} {
		out, text := look(s, c.input)
		assert.Assert(t, runes(text) <= c.max, "%s: %d characters", c.input, runes(text))
		assert.Equal(t, out.Cost.Characters, runes(text), c.input)
		assert.Assert(t, len(out.Actions) > 0, c.input)
	}
	res := s.Call("page.read", `{}`)
	assert.Assert(t, runes(res.Text) <= 12000)
	res = s.Call("page.read", `{"maxChars":500}`)
	assert.Assert(t, runes(res.Text) <= 500)
}

// More boxes within each other than a parser makes; Chrome itself crashes on
// a few thousand.
func TestDeepTree(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`let at = document.body; for (let i = 0; i < 1500; i++) { const d = document.createElement("div"); at.append(d); at = d; } at.innerHTML = "<button>At the bottom</button><p>Deep text</p>"; 1`)
	out, _ := look(s, `{}`)
	assert.Equal(t, out.Actions[0].Name, "At the bottom")
	_, text := readPage(s, `{}`)
	assert.Assert(t, strings.Contains(text, "Deep text"), text)
}

// A form's fields may be called like the properties that a walk asks for.
func TestClobberedForm(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = '<form aria-label="Odd form">' + ["firstChild", "attributes", "getAttributeNames", "localName", "shadowRoot", "nodeType", "querySelectorAll", "tabIndex", "isContentEditable", "checkVisibility", "getBoundingClientRect", "matches", "nextSibling", "open", "hasAttributes"].map((n) => '<input name="' + n + '" aria-label="' + n + '">').join("") + '</form><img name="title"><img name="activeElement"><img name="querySelectorAll"><button>After</button>'; 1`)
	out, text := look(s, `{}`)
	assert.Equal(t, len(out.Actions), 16, text)
	assert.Assert(t, len(out.Contexts) == 1, text)
	assert.Equal(t, out.Contexts[0].Name, "Odd form")
	assert.Equal(t, out.Contexts[0].Count, 15)
}

// A page whose listeners stand on thousands of elements is told all the same.
func TestManyListeners(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = Array.from({length: 800}, (_, i) => '<div class=row><button>Row ' + i + '</button></div>').join("") + '<div id=last>Listener only</div>'; for (const b of document.querySelectorAll("button, #last")) b.addEventListener("click", () => {}); 1`)
	var names []string
	for range 3 {
		out, _ := look(s, `{"query":"listener only"}`)
		names = nil
		for _, a := range out.Actions {
			names = append(names, a.Name)
		}
		if slices.Contains(names, "Listener only") {
			assert.Equal(t, len(out.Frames), 0)
			return
		}
		assert.Assert(t, len(out.Frames) == 1 && strings.Contains(out.Frames[0].Reason, "the next snapshot goes on"), "%v", out.Frames)
	}
	t.Fatalf("%v", names)
}

// The registry and the page keep no more after many snapshots than after few.
func TestNoGrowth(t *testing.T) {
	s, tab := refTab(t, "snapshot/contexts.html")
	call := &Call{Session: op.Session{Key: "growth"}}
	snap := func(n int) {
		for range n {
			_, err := tab.snapshot(t.Context(), call, SnapshotOptions{})
			assert.NilError(t, err)
		}
	}
	snap(20)
	tab.mu.Lock()
	known, last := len(tab.observed.byKey), len(tab.observed.last)
	tab.mu.Unlock()
	snap(200)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	assert.Equal(t, len(tab.observed.byKey), known)
	assert.Equal(t, len(tab.observed.last), last)
	assert.Assert(t, len(tab.observed.frontiers) <= maxFrontiers)
	_ = s
}

// Every published schema of the two operations can be made.
func TestObservationSchemas(t *testing.T) {
	for _, o := range []op.Operation[*Call]{opSnapshot, opRead} {
		d, err := o.Descriptor()
		assert.NilError(t, err)
		assert.Equal(t, d.Effect, op.ReadOnly)
		raw, err := json.Marshal(d.Input)
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(raw), `"anyOf":[{"type":"object"`), "%s", raw)
		for _, bad := range []string{`{"mode":"all"}`, `{"maxElements":0}`, `{"maxElements":81}`, `{"ref":"el"}`, `{"ref":"frontier-x"}`, `{"other":1}`, `{"maxTextChars":100001}`, `{"maxChars":24001}`, `{"view":"x"}`} {
			err := o.Validate(json.RawMessage(bad))
			e, ok := err.(*op.Error)
			assert.Assert(t, ok && e.Kind == op.Invalid, "%s %s: %v", o.Tool(), bad, err)
		}
	}
}
