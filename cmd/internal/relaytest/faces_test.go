package relaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/demo"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// TestFaces: a job has the same results on every surface, and the same fault
// the same error.
func TestFaces(t *testing.T) {
	t.Parallel()
	l := Start(t, false)
	list := faces(t, l)
	t.Run("job", func(t *testing.T) { sameJob(t, list) })
	t.Run("results", func(t *testing.T) { sameResults(t, list) })
	t.Run("faults", func(t *testing.T) {
		for _, c := range faults {
			t.Run(c.name, func(t *testing.T) { sameFault(t, list, c) })
		}
	})
	t.Run("the browser has ended", func(t *testing.T) {
		assert.NilError(t, l.Browser.Close())
		sameFault(t, list, fault{
			want: op.ConnectorOffline, tool: "chrome_snapshot", input: none,
		})
		for _, f := range list {
			f.cleanup = false // its tabs are gone
		}
	})
}

// sameJob does the demo's job on each face: search, open a product, fill the
// checkout, submit, verify, picture.
func sameJob(t *testing.T, list []*face) {
	var first []string
	for _, f := range list {
		var seen []string
		report, err := demo.Run(t.Context(), func(_ context.Context, tool string, input any) (op.Result, time.Duration, error) {
			began := time.Now()
			a, e := f.call(tool, input)
			if e != nil {
				return op.Result{}, time.Since(began), e
			}
			seen = append(seen, tool+"\n"+settled(tool, f.plain(a.Text)))
			return a.Result, time.Since(began), nil
		}, func(demo.Step) {})
		assert.NilError(t, err, f.name)
		assert.Assert(t, report.Order != "" && len(report.Pictures) == 2)
		assert.Assert(t, len(seen) > 25, "%d calls", len(seen))
		if first == nil {
			first = seen
		}
		same(t, f, strings.Join(seen, "\n\n"), strings.Join(first, "\n\n"), list[0])
		f.reset()
	}
}

// settled is a text of the job without what depends on how fast the page was:
// what a receipt has seen, how far a page had loaded when a wait was over, and
// whether the shop's button, which is disabled for a moment, lost the focus by
// that, which Chrome decides frame by frame. Whole texts of receipts and waits
// are compared where the page stands still.
func settled(tool, text string) string {
	if tool == "chrome_wait" {
		text, _, _ = strings.Cut(text, "\n")
	}
	if receipt.MatchString(text) {
		return receipt.FindString(text)
	}
	return focused.ReplaceAllString(text, "")
}

var (
	receipt = regexp.MustCompile(`^\w+ completed`)
	focused = regexp.MustCompile(`\n+focused: .*| focused\b`)
)

// same fails with the first line that differs.
func same(t *testing.T, f *face, got, want string, first *face) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s differs from %s in line %d:\n%s\nnot\n%s", f.name, first.name, i+1, g[i], w[i])
			return
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s tells %d lines, %s %d", f.name, len(g), first.name, len(w))
	}
}

// sameResults compares results whose forms the faces could get wrong: no input,
// a wait that is over, lists that stop, and the pictures of a list.
func sameResults(t *testing.T, list []*face) {
	step := func(tool string, input map[string]any) map[string]any {
		return map[string]any{"tool": tool, "input": input}
	}
	for _, c := range []struct {
		name, page, tool string
		input            any
		want             string
		images           int // where a caller may look at them
	}{
		{"no input", "/counter/click.html", "chrome_read", nil, "# Chrome read", 0},
		{"a click", "/counter/click.html?id=FACE", "chrome_click", map[string]any{"selector": "#count", "includeSnapshot": true}, "click completed", 0},
		{"a fill", "/counter/form.html", "chrome_fill", map[string]any{"selector": "input", "text": "two\nlines"}, "fill completed", 0},
		{"a wait that is over", "/counter/click.html", "chrome_wait", map[string]any{"condition": map[string]any{"by": "textContains", "value": "never"}, "timeoutMs": 300}, "never", 0},
		{"a list that stops", "/counter/click.html", "chrome_do", map[string]any{"steps": []any{
			step("chrome_evaluate", map[string]any{"expression": "1+1"}), step("chrome_click", map[string]any{"ref": "el-99999"}), map[string]any{"tool": "read"},
		}}, "Stopped at step 2 of 3", 0},
		{"pictures of a list", "/counter/click.html", "chrome_do", map[string]any{"steps": []any{
			step("chrome_screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "viewport", "path": "in/list.png"}}),
			step("chrome_screenshot", map[string]any{"fullPage": true}),
			step("chrome_screenshot", map[string]any{"capture": map[string]any{"kind": "full-page-tiles", "directory": "in"}}),
		}}, "Saved Chrome screenshot image to DIR/in/list.png", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := ""
			for _, f := range list {
				f.open(strings.ReplaceAll(c.page, "FACE", f.name)) // the server counts for each
				a := f.do(c.tool, c.input)
				text := strings.ReplaceAll(f.plain(a.Text), "id="+f.name, "id=FACE")
				assert.Assert(t, strings.Contains(text, c.want), "%s: %s", f.name, text)
				if first == "" {
					first = text
				}
				same(t, f, text, first, list[0])
				if c.images > 0 && (f.name == "MCP" || f.name == "Pi") {
					assert.Equal(t, a.images, c.images, f.name)
				}
				assert.Assert(t, !strings.Contains(string(a.Value), "base64"), "%s: %.300s", f.name, a.Value)
				f.reset()
			}
		})
	}
}

// fault is one thing that goes wrong, and how each face is brought to it.
type fault struct {
	name string
	want op.Code
	// before brings the session to where the fault is.
	before func(f *face)
	tool   string
	input  func(f *face) any
	not    []string // faces that it cannot happen on, with the reason beside it
	// alone is a fault of the session or its tabs: it gets a session without
	// any, and leaves none. The others go on in the tab of the one before.
	alone bool
}

func none(*face) any { return map[string]any{} }

// with is an input that is the same on each face.
func with(input string) func(*face) any {
	return func(*face) any { return json.RawMessage(input) }
}

func onPage(path string) func(*face) { return func(f *face) { f.open(path) } }

var faults = []fault{
	{name: "a value that is not allowed", want: op.InvalidInput, tool: "chrome_snapshot", input: with(`{"mode":"fancy"}`)},
	{name: "an unknown field", want: op.InvalidInput, tool: "chrome_click", input: with(`{"reff":"el-1"}`)},
	{name: "a field too few", want: op.InvalidInput, tool: "chrome_navigate", input: none},
	{name: "a wrong type", want: op.InvalidInput, tool: "chrome_snapshot", input: with(`{"maxElements":"5"}`)},
	{name: "a number too large", want: op.InvalidInput, tool: "chrome_snapshot", input: with(`{"maxElements":500}`)},
	{name: "one of several", want: op.InvalidInput, tool: "chrome_click", input: none},
	{name: "two of several", want: op.InvalidInput, tool: "chrome_click", input: with(`{"ref":"el-1","selector":"a"}`)},
	{name: "an address that is none", want: op.InvalidInput, tool: "chrome_navigate", input: with(`{"url":"example.com"}`)},
	{name: "an unknown tool", want: op.UnknownTool, tool: "chrome_snapshat", input: none},
	{name: "an unknown tool of a step", want: op.UnknownTool, tool: "chrome_do", input: with(`{"steps":[{"tool":"chrome_read"},{"tool":"chrome_fly"}]}`)},
	{name: "bad input of a step", want: op.InvalidInput, tool: "chrome_do", input: with(`{"steps":[{"tool":"chrome_read"},{"tool":"chrome_read","input":{"maxChars":0}}]}`)},
	{name: "a list in a list", want: op.InvalidInput, tool: "chrome_do", input: with(`{"steps":[{"tool":"chrome_do","input":{"steps":[{"tool":"chrome_read"}]}}]}`)},

	{name: "an unknown ref", want: op.StaleActionRef, before: onPage("/counter/click.html"), tool: "chrome_click", input: with(`{"ref":"el-99999"}`)},
	{name: "a ref of the page before", alone: true, want: op.StaleActionRef, before: func(f *face) {
		f.open("/counter/click.html")
		assert.Equal(f.t, f.ref("Count"), "el-1")
		f.open("/counter/form.html")
	}, tool: "chrome_click", input: with(`{"ref":"el-1"}`)},
	{name: "a verb that was not shown", alone: true, want: op.ActionVerbMismatch, before: func(f *face) {
		f.open("/counter/click.html")
		assert.Equal(f.t, f.ref("Count"), "el-1")
	}, tool: "chrome_fill", input: with(`{"ref":"el-1","text":"x"}`)},
	{name: "nothing there", want: op.InvalidActionTarget, before: onPage("/counter/click.html"), tool: "chrome_click", input: with(`{"selector":"#nothing"}`)},
	{name: "several there", want: op.InvalidActionTarget, before: onPage("/input/ambiguous.html"), tool: "chrome_click", input: with(`{"selector":".go"}`)},
	{name: "no selector", want: op.ActionTargetNotFound, before: onPage("/counter/click.html"), tool: "chrome_click", input: with(`{"selector":"##"}`)},
	{name: "disabled", want: op.InvalidActionTarget, before: onPage("/input/disabled.html"), tool: "chrome_click", input: with(`{"selector":"#disabled"}`)},
	{name: "covered", want: op.ClickIntercepted, before: onPage("/input/overlay.html"), tool: "chrome_click", input: with(`{"selector":"#covered"}`)},
	{name: "an unknown key", want: op.KeyUnknown, before: onPage("/counter/click.html"), tool: "chrome_press", input: with(`{"key":"Anykey"}`)},
	{name: "a script that throws", want: op.EvaluationFailed, before: onPage("/counter/click.html"), tool: "chrome_evaluate", input: with(`{"expression":"nothing.here"}`)},
	{name: "an unknown request", want: op.RequestNotFound, before: onPage("/counter/click.html"), tool: "chrome_network_get", input: with(`{"requestId":"req-1"}`)},
	{name: "no page to go to", want: op.HistoryUnavailable, before: onPage("/counter/click.html"), tool: "chrome_history", input: with(`{"action":"forward"}`)},
	{name: "a file that is not there", want: op.InvalidInput, before: onPage("/input/upload.html"), tool: "chrome_upload", input: func(f *face) any {
		return map[string]any{"selector": "#plain", "paths": []string{f.path("none.txt")}}
	}},
	{name: "an open dialog", alone: true, want: op.DialogOpen, before: func(f *face) {
		f.open("/input/dialogs.html")
		f.do("chrome_click", map[string]any{"selector": "#alert"}) // it returns with the dialog
	}, tool: "chrome_snapshot", input: none},

	{name: "a page of the browser", want: op.ProtectedTabURL, tool: "chrome_navigate", input: with(`{"url":"chrome://settings"}`)},
	{name: "a server that hangs up", want: op.NavigationFailed, tool: "chrome_navigate", input: func(f *face) any { return map[string]any{"url": f.lane.URL + "/_/close"} }},
	{name: "a server that is slow", alone: true, want: op.DeadlineExceeded, tool: "chrome_navigate", input: func(f *face) any {
		return map[string]any{"url": f.lane.URL + "/_/slow?ms=5000", "timeoutMs": 300}
	}},
	{name: "a download", want: op.NavigationDownload, before: onPage("/counter/click.html"), tool: "chrome_navigate", input: func(f *face) any {
		return map[string]any{"url": f.lane.URL + "/_/download?name=a.bin"}
	}},

	{name: "several own tabs", alone: true, want: op.AmbiguousOwnedTarget, before: func(f *face) {
		f.newTab("/counter/click.html")
		f.newTab("/counter/form.html")
	}, tool: "chrome_snapshot", input: none},
	{name: "several tabs of that address", alone: true, want: op.AmbiguousTabTarget, before: func(f *face) {
		f.newTab("/counter/click.html?id=one")
		f.newTab("/counter/click.html?id=two")
	}, tool: "chrome_snapshot", input: with(`{"target":{"by":"url","value":"/counter/click.html"}}`)},
	{name: "no such tab", alone: true, want: op.TabNotFound, before: onPage("/counter/click.html"), tool: "chrome_snapshot", input: with(`{"target":{"by":"id","value":999999999}}`)},
	{name: "a tab that was closed", alone: true, want: op.TabNotFound, before: func(f *face) { f.newTab("/counter/click.html") }, tool: "chrome_snapshot", input: func(f *face) any {
		closed := f.newTab("/counter/form.html").ID
		target := map[string]any{"target": map[string]any{"by": "id", "value": closed}}
		f.do("chrome_tab_close", target)
		return target
	}},
	{name: "no own tab", alone: true, want: op.AutomationTargetRequired, tool: "chrome_tab_close", input: none},
	{name: "the tab of another session", alone: true, want: op.TabHeld, tool: "chrome_snapshot", input: func(f *face) any {
		other := f.lane.Session(f.t)
		other.Key = "another"
		tab := other.tab("tab.new", map[string]any{"url": f.lane.URL + "/counter/click.html"})
		return map[string]any{"target": map[string]any{"by": "id", "value": tab.ID}}
	}},
	{name: "the focus", want: op.BackgroundMode, before: onPage("/counter/click.html"), tool: "chrome_tab_activate", input: none},

	{name: "a locked session", alone: true, want: op.SessionLocked, before: func(f *face) {
		_, err := owner.Revoke(f.t.Context(), f.Client, f.Key)
		assert.NilError(f.t, err)
	}, tool: "chrome_snapshot", input: none},
	{name: "a verb of no policy", alone: true, want: op.PolicyDenied, before: func(f *face) {
		f.open("/counter/click.html")
		policy(f, `{"version":1,"readOnly":true}`)
	}, tool: "chrome_click", input: with(`{"selector":"#count"}`)},
	{name: "an origin of no policy", alone: true, want: op.OriginDenied, before: func(f *face) {
		policy(f, `{"version":1,"origins":{"allow":["https://example.org"]}}`)
	}, tool: "chrome_navigate", input: func(f *face) any { return map[string]any{"url": f.lane.URL + "/counter/click.html"} }},

	{name: "a picture outside the workspace", want: op.InvalidInput, before: onPage("/counter/click.html"), tool: "chrome_screenshot", input: with(`{"format":"png","capture":{"kind":"viewport","path":"../x.png"}}`),
		not: []string{"Go"}}, // which has no workspace
	{name: "a picture of another kind", want: op.InvalidInput, before: onPage("/counter/click.html"), tool: "chrome_screenshot", input: with(`{"format":"png","capture":{"kind":"viewport","path":"x.jpeg"}}`),
		not: []string{"Go"}},
	{name: "a picture of another kind in a list", want: op.InvalidInput, before: onPage("/counter/click.html"), tool: "chrome_do", input: with(`{"steps":[{"tool":"chrome_screenshot","input":{"format":"png","capture":{"kind":"viewport","path":"x.jpeg"}}}]}`),
		not: []string{"Go"}},
	{name: "a folder of tiles that is there", want: op.ScreenshotFailure, before: func(f *face) {
		f.open("/counter/click.html")
		f.do("chrome_screenshot", map[string]any{"format": "png", "capture": map[string]any{"kind": "full-page-tiles", "directory": "taken"}})
	}, tool: "chrome_screenshot", input: with(`{"format":"png","capture":{"kind":"full-page-tiles","directory":"taken"}}`),
		not: []string{"Go"}}, // which keeps its pictures as it likes
}

func policy(f *face, text string) {
	_, err := owner.AuthorizeWith(f.t.Context(), f.Client, f.Key, 0, []byte(text))
	assert.NilError(f.t, err)
}

// sameFault brings each face to the fault and compares what it says.
func sameFault(t *testing.T, list []*face, c fault) {
	told := func(f *face) string {
		if c.before != nil {
			c.before(f)
		}
		a, e := f.call(c.tool, c.input(f))
		assert.Assert(t, e != nil, "%s: %s succeeded: %s", f.name, c.tool, a.Text)
		assert.Equal(t, e.Code, c.want, "%s: %s", f.name, e.Message)
		assert.Assert(t, e.Message != "")
		return f.plain(fmt.Sprintf("%s %s\n%s\nhint: %s\ndetails: %s", e.Kind, e.Code, e.Message, e.Hint, strings.Join(detailNames(e), " ")))
	}
	if c.alone {
		for _, f := range list {
			f.reset() // what is there is told, also of other sessions' tabs
		}
	}
	var first *face
	want := ""
	for _, f := range list {
		if slices.Contains(c.not, f.name) {
			continue
		}
		got := told(f)
		if first == nil {
			first, want = f, got
			t.Log(got)
		}
		same(t, f, got, want, first)
		if c.alone {
			f.reset()
		}
	}
}

func detailNames(e *op.Error) []string {
	var names []string
	for name := range e.Details {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
