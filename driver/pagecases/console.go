package pagecases

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type consoleMessage struct {
	ID          string            `json:"id"`
	Level       string            `json:"level"`
	Timestamp   int64             `json:"timestamp"`
	URL         string            `json:"url"`
	Args        []json.RawMessage `json:"args"`
	ArgsOmitted int               `json:"argsOmitted"`
	Method      string            `json:"method"`
	Source      string            `json:"source"`
	From        string            `json:"from"`
	RequestID   string            `json:"requestId"`
	Stack       []string          `json:"stack"`
	Location    struct {
		URL  string `json:"url"`
		Line int    `json:"line"`
	} `json:"location"`
}

// text is a message's values as one JSON text.
func (m consoleMessage) text() string {
	b, err := json.Marshal(m.Args)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

type consoleOut struct {
	Messages   []consoleMessage `json:"messages"`
	Count      int              `json:"count"`
	Omitted    int              `json:"omitted"`
	Before     string           `json:"before"`
	Dropped    int              `json:"dropped"`
	Enabled    bool             `json:"enabled"`
	Started    bool             `json:"started"`
	Since      int64            `json:"since"`
	Detectable bool             `json:"detectable"`
	Note       string           `json:"note"`
}

func readConsole(s *drivertest.Scenario, input string) consoleOut {
	s.T.Helper()
	var out consoleOut
	res := s.Value("page.console", input, &out)
	assert.Equal(s.T, out.Count, len(out.Messages))
	var shown consoleOut
	assert.NilError(s.T, json.Unmarshal([]byte(res.Text), &shown), "the text is not JSON: %.2000s", res.Text)
	assert.Assert(s.T, len([]rune(res.Text)) <= op.MaxText)
	assert.Equal(s.T, shown.Count+shown.Omitted, out.Count+out.Omitted, "what the text leaves out is not counted")
	return out
}

// said finds the message with this first value.
func (o consoleOut) said(s *drivertest.Scenario, first string) consoleMessage {
	s.T.Helper()
	i := slices.IndexFunc(o.Messages, func(m consoleMessage) bool { return len(m.Args) > 0 && string(m.Args[0]) == `"`+first+`"` })
	assert.Assert(s.T, i >= 0, "no message says %q: %+v", first, o.Messages)
	return o.Messages[i]
}

// until waits until the expression holds in the page.
func until(s *drivertest.Scenario, expression string) {
	s.T.Helper()
	got, _ := waitFor(s, "expression", expression, 10_000)
	assert.Assert(s.T, got.Satisfied, expression)
}

// heard waits until the console has told what is wanted.
func heard(s *drivertest.Scenario, enough func(o consoleOut) bool) consoleOut {
	s.T.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		out := readConsole(s, `{}`)
		if enough(out) {
			return out
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.T.Fatalf("it never came: %s", s.Call("page.console", `{}`).Text)
	return consoleOut{}
}

var consoleCases = []drivertest.Case{
	{Name: "console--levels", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		out := readConsole(s, `{}`)
		assert.Assert(s.T, out.Started && out.Enabled && out.Detectable && out.Since > 0 && out.Note != "")
		for _, want := range []struct{ first, level, method string }{
			{"a debug message", "debug", ""}, {"a log message", "log", ""}, {"an info message", "info", ""}, {"a warning", "warn", ""}, {"an error", "error", ""},
			{"an assertion", "error", "assert"}, {"a trace", "log", "trace"}, {"a group", "log", "startGroup"}, {"counter: 1", "log", "count"},
		} {
			m := out.said(s, want.first)
			assert.Equal(s.T, m.Level, want.level, want.first)
			assert.Equal(s.T, m.Method, want.method, want.first)
			assert.Equal(s.T, m.URL, s.Site.URL("console/levels.html"))
			assert.Equal(s.T, m.Location.URL, m.URL)
			assert.Assert(s.T, m.Location.Line > 0 && m.Timestamp > 1e12)
		}
		assert.Equal(s.T, out.said(s, "a log message").text(), `["a log message",1,true]`)
		assert.Assert(s.T, !readConsole(s, `{}`).Started)
	}},
	{Name: "console--filters-and-pages", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		all := readConsole(s, `{"textContains":"console/levels.html"}`)
		errors := readConsole(s, `{"level":"error","textContains":"AN "}`)
		assert.Equal(s.T, len(errors.Messages), 2)
		two := readConsole(s, `{"limit":2,"textContains":"console/levels.html"}`)
		assert.Equal(s.T, len(two.Messages), 2)
		assert.Equal(s.T, two.Omitted, len(all.Messages)-2)
		older := readConsole(s, `{"textContains":"console/levels.html","before":"`+two.Before+`"}`)
		assert.Equal(s.T, len(older.Messages), two.Omitted)
		assert.Equal(s.T, older.Messages[0].ID, all.Messages[0].ID)
		s.Fail("page.console", `{"limit":0}`, op.Invalid, op.InvalidInput)
		s.Fail("page.console", `{"level":"fatal"}`, op.Invalid, op.InvalidInput)
		s.Fail("page.console", `{"before":"7"}`, op.Invalid, op.InvalidInput)
		s.Fail("page.console", `{"before":"msg-99999999999999999999"}`, op.Invalid, op.InvalidInput)
	}},
	{Name: "console--clear", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		assert.Assert(s.T, len(readConsole(s, `{"clear":true}`).Messages) > 8)
		assert.Equal(s.T, len(readConsole(s, `{"textContains":"levels.html"}`).Messages), 0)
		s.Eval("console.log('after')")
		readConsole(s, `{}`).said(s, "after")
	}},
	{Name: "console--off-and-on", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		first := readConsole(s, `{}`)
		off := readConsole(s, `{"enable":false}`)
		assert.Assert(s.T, !off.Enabled && !off.Detectable)
		assert.Equal(s.T, len(off.Messages), len(first.Messages))
		s.Eval("console.log('while it was off')")
		on := readConsole(s, `{}`)
		assert.Assert(s.T, on.Started && on.Enabled)
		// Chrome kept what came meanwhile, and what it tells again counts once.
		assert.Equal(s.T, len(on.Messages), len(first.Messages)+1)
		on.said(s, "while it was off")
	}},
	{Name: "console--values", Page: "console/values.html", Do: func(s *drivertest.Scenario) {
		// Live values have a preview, kept ones have none: both are told alike.
		readConsole(s, `{"clear":true}`)
		s.Call("page.navigate", map[string]any{"url": s.Site.URL("console/values.html?live"), "waitUntilLoad": true})
		for _, out := range []consoleOut{readConsole(s, `{}`), readConsole(s, `{"clear":true}`)} {
			assert.Equal(s.T, out.said(s, "nested").text(), `["nested",{"user":{"id":1,"roles":["admin","staff"],"deep":{"er":{"still":1}}}}]`)
			assert.Equal(s.T, out.said(s, "many").text(), `["many",{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}]`)
			array := out.said(s, "array").text()
			assert.Assert(s.T, strings.HasPrefix(array, `["array",[1,{"_tag":"PiChromeEvaluationMarker","kind":"ArrayHole","index":1},3],[0,1,2,`), array)
			assert.Assert(s.T, strings.HasSuffix(array, `"kind":"CollectionLimit","collection":"Array","omitted":200,"limit":100}]]`), array)
			for _, kind := range []string{"Undefined", "NonFiniteNumber", "NegativeZero", "BigInt", "Symbol"} {
				assert.Assert(s.T, strings.Contains(out.said(s, "primitives").text(), `"kind":"`+kind+`"`), kind)
			}
			classes := out.said(s, "classes").text()
			for _, part := range []string{`"constructorName":"Order"`, `"properties":{"id":7}`, `[["key",{"v":1}]]`, `"[[Entries]]":[1,2]`, `"constructorName":"Date"`, `"[[Description]]":"/x/g"`, `"[[Description]]":"body"`} {
				assert.Assert(s.T, strings.Contains(classes, part), "%s: %s", part, classes)
			}
			assert.Assert(s.T, strings.Contains(out.said(s, "errors").text(), `"kind":"Error","referenceId":1,"name":"TypeError","message":"wrong type","stack":"TypeError: wrong type`))
			assert.Assert(s.T, strings.Contains(out.said(s, "circle").text(), `"kind":"CircularReference"`))
			assert.Equal(s.T, out.said(s, "guarded").text(), `["guarded",{"plain":1,"secretive":"(a getter, which is not run)"}]`)
			assert.Assert(s.T, strings.Contains(out.said(s, "long").text(), `"originalLength":5000`))
			secret := out.said(s, "secret").text()
			assert.Assert(s.T, strings.Contains(secret, `"user":"ada","password":"[redacted]","deep":{"apiKey":"[redacted]","tokens":12,"pins":[{"otp":"[redacted]"}]},"authToken":"[redacted]"`), secret)
			many := out.said(s, "args")
			assert.Equal(s.T, len(many.Args), 20)
			assert.Equal(s.T, many.ArgsOmitted, 6)
			for _, m := range out.Messages {
				for _, a := range m.Args {
					assert.Assert(s.T, len(a) <= 4000, "a value of %d characters", len(a))
				}
			}
		}
		assert.Equal(s.T, s.Eval("window.ran"), "0", "a getter or a trap of the page was run")
	}},
	{Name: "console--hostile-page", Page: "", Do: func(s *drivertest.Scenario) {
		readConsole(s, `{}`)
		s.Goto("console/hostile.html")
		text := heard(s, func(o consoleOut) bool { return strings.Contains(toText(o), "hostile") }).said(s, "hostile").text()
		assert.Assert(s.T, !strings.Contains(text, "forged"), text)
	}},
	{Name: "console--errors", Page: "console/errors.html", Do: func(s *drivertest.Scenario) {
		readConsole(s, `{}`)
		s.Eval("setTimeout(() => document.getElementById('throw').click())")
		out := heard(s, func(o consoleOut) bool { return strings.Contains(toText(o), "out of range") })
		levels := map[string]int{}
		for _, m := range out.Messages {
			levels[m.Level]++
		}
		assert.Equal(s.T, levels["pageerror"], 3, toText(out))
		assert.Equal(s.T, levels["unhandledrejection"], 3, toText(out))
		out.said(s, "a thrown text")
		out.said(s, "a text")
		i := slices.IndexFunc(out.Messages, func(m consoleMessage) bool { return strings.Contains(m.text(), "out of range") })
		thrown := out.Messages[i]
		assert.Assert(s.T, strings.Contains(thrown.text(), `"name":"RangeError"`), thrown.text())
		assert.Assert(s.T, len(thrown.Stack) >= 2 && strings.HasPrefix(thrown.Stack[0], "inner ") && strings.HasPrefix(thrown.Stack[1], "outer "), "%q", thrown.Stack)
	}},
	{Name: "console--flood", Page: "console/flood.html", Do: func(s *drivertest.Scenario) {
		out := readConsole(s, `{}`)
		assert.Assert(s.T, len(out.Messages) <= 500 && len(out.Messages) > 480, "%d messages", len(out.Messages))
		assert.Assert(s.T, out.Dropped >= 200, "%d dropped", out.Dropped)
		assert.Equal(s.T, string(out.said(s, "flood").Args[0]), `"flood"`)
		assert.Assert(s.T, strings.Contains(toText(out), `["flood",700]`))
		assert.Assert(s.T, !strings.Contains(toText(out), `["flood",1]`))
	}},
	{Name: "console--frames", Page: "", Do: func(s *drivertest.Scenario) {
		readConsole(s, `{}`)
		s.Goto("console/frames.html")
		out := heard(s, func(o consoleOut) bool { return strings.Count(toText(o), "a frame says") == 2 })
		assert.Equal(s.T, out.said(s, "the page says").From, "")
		var from []string
		for _, m := range out.Messages {
			if m.From == "iframe" {
				from = append(from, s.Site.Neutral(m.URL)+m.text())
			}
		}
		slices.Sort(from)
		assert.DeepEqual(s.T, from, []string{`http://cross/console/says.html?cross["a frame says","cross"]`, `http://site/console/says.html?same["a frame says","same"]`})
	}},
	{Name: "console--workers", Page: "", Do: func(s *drivertest.Scenario) {
		readConsole(s, `{}`)
		s.Goto("console/workers.html")
		until(s, "document.getElementById('said').textContent.includes('nested')")
		s.Eval("worker.postMessage('fail')")
		out := heard(s, func(o consoleOut) bool { return strings.Contains(toText(o), "a worker failed") })
		n := 0
		for _, m := range out.Messages {
			if string(m.Args[0]) == `"a worker says"` {
				n++
				assert.Equal(s.T, m.From, "worker")
				assert.Equal(s.T, m.URL, s.Site.URL("lib/console-worker.js"))
				assert.Equal(s.T, m.text(), `["a worker says",{"worker":{"nested":true}}]`)
			}
		}
		assert.Equal(s.T, n, 2, "a message of a worker is told %d times", n)
	}},
	{Name: "console--browser-messages", Page: "", Do: func(s *drivertest.Scenario) {
		readConsole(s, `{}`)
		var list networkOut
		s.Value("page.network-list", `{}`, &list)
		s.Goto("console/browser.html")
		until(s, "document.title === 'Browser: refused'")
		out := heard(s, func(o consoleOut) bool { return strings.Contains(toText(o), "status of 404") })
		assert.Assert(s.T, strings.Contains(toText(out), "Content Security Policy"), toText(out))
		assert.Assert(s.T, strings.Contains(toText(out), "secret=[redacted]") && !strings.Contains(toText(out), "sc-of-ada"), toText(out))
		i := slices.IndexFunc(out.Messages, func(m consoleMessage) bool {
			return m.Source == "network" && strings.Contains(m.Location.URL, "code=404")
		})
		assert.Assert(s.T, i >= 0, toText(out))
		assert.Equal(s.T, out.Messages[i].Level, "error")
		assert.Equal(s.T, out.Messages[i].Location.URL, s.Site.URL("_/status?code=404&token=[redacted]"))
		got := getRequest(s, out.Messages[i].RequestID, 0)
		assert.Equal(s.T, string(got.Status), "404")
	}},
	{Name: "console--after-a-detach", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		before := readConsole(s, `{}`)
		assert.NilError(s.T, s.Conn.Detach(s.T.Context()))
		after := readConsole(s, `{}`)
		assert.Assert(s.T, after.Enabled && !after.Started)
		assert.Equal(s.T, len(after.Messages), len(before.Messages), "what Chrome tells again counts once")
		s.Eval("console.log('attached again')")
		readConsole(s, `{}`).said(s, "attached again")
	}},
	{Name: "console--is-not-on-before-it-is-asked", Page: "console/levels.html", Do: func(s *drivertest.Scenario) {
		// Chrome describes an error for a debugger with its stack, which it makes then.
		const probe = `(() => { let seen = 0; Error.prepareStackTrace = () => { seen++; return ""; }; console.debug(new Error("probe")); delete Error.prepareStackTrace; return seen; })()`
		s.Call("page.snapshot", `{}`)
		s.Call("page.network-list", `{}`)
		assert.Equal(s.T, s.Eval(probe), "0", "a page can notice the debugger although nobody asked for the console")
		s.Call("page.console", `{}`)
		assert.Assert(s.T, s.Eval(probe) != "0", "the probe notices nothing")
		s.Call("page.console", `{"enable":false}`)
		assert.Equal(s.T, s.Eval(probe), "0", "the capture is off, and a page can notice it still")
	}},
}

func toText(o consoleOut) string {
	var b strings.Builder
	for _, m := range o.Messages {
		b.WriteString(m.text() + "\n")
	}
	return b.String()
}
