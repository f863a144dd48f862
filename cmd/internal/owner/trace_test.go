package owner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

// echo answers every call with its own parameters.
type echo struct{ err error }

func (e echo) Call(_ context.Context, _ string, params, result any) error {
	if e.err != nil {
		return e.err
	}
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return err
	}
	return jsonv2.Unmarshal(raw, result)
}

func (echo) Subscribe(string) (<-chan jsonv2.Value, func()) { return nil, func() {} }

func newRecorder(t *testing.T, redact *redactor) (*recorder, func() []traceLine) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	f, err := os.Create(path)
	assert.NilError(t, err)
	r := &recorder{redact: *redact, file: f, w: bufio.NewWriter(f)}
	return r, func() []traceLine {
		assert.NilError(t, r.close())
		data, err := os.ReadFile(path)
		assert.NilError(t, err)
		var lines []traceLine
		for text := range strings.Lines(string(data)) {
			var l traceLine
			assert.NilError(t, json.Unmarshal([]byte(text), &l))
			lines = append(lines, l)
		}
		return lines
	}
}

func TestCallsAndEventsAreRecordedInOrder(t *testing.T) {
	var s recorders
	r, lines := newRecorder(t, &redactor{})
	s.add(r)
	var out struct{ A int }
	assert.NilError(t, s.call(t.Context(), echo{}, "child", "Page.one", map[string]int{"A": 7}, &out))
	assert.Equal(t, out.A, 7)
	s.event(op.Event{SessionID: "child", Method: "Page.two", Params: json.RawMessage(`{"b":1}`)})
	err := s.call(t.Context(), echo{errors.New("gone")}, "", "Page.three", struct{}{}, nil)
	assert.Error(t, err, "gone")
	s.event(op.Event{Detached: "target_closed"})
	s.remove(r)
	assert.NilError(t, s.call(t.Context(), echo{}, "", "Page.after", struct{}{}, &out))

	var got []string
	for i, l := range lines() {
		assert.Equal(t, l.Seq, i+1)
		got = append(got, strings.Join([]string{l.Kind, l.Session, l.Method, string(l.Params), string(l.Result), l.Error, l.Note}, "|"))
	}
	assert.DeepEqual(t, got, []string{
		`call|child|Page.one|{"A":7}|||`,
		`reply|child|Page.one||{"A":7}||`,
		`event|child|Page.two|{"b":1}|||`,
		`call||Page.three|{}|||`,
		`reply||Page.three|||gone|`,
		`detached||||||target_closed`,
	})
}

func TestConcurrentCallsKeepTheirIDs(t *testing.T) {
	var s recorders
	r, lines := newRecorder(t, &redactor{})
	s.add(r)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			var out struct{ N int }
			assert.Check(t, s.call(t.Context(), echo{}, "", "X.y", map[string]int{"N": i}, &out))
			assert.Check(t, out.N == i)
		})
	}
	wg.Wait()
	sent := map[int]string{}
	for _, l := range lines() {
		switch l.Kind {
		case "call":
			sent[l.ID] = string(l.Params)
		case "reply":
			assert.Equal(t, string(l.Result), sent[l.ID])
			delete(sent, l.ID)
		}
	}
	assert.Equal(t, len(sent), 0)
}

func TestTraceIsBounded(t *testing.T) {
	r, lines := newRecorder(t, &redactor{})
	r.size = maxTrace - 10
	r.write(traceLine{Kind: "call", At: time.Now(), Method: "Big.call"})
	r.write(traceLine{Kind: "call", At: time.Now(), Method: "Later.call"})
	got := lines()
	assert.Equal(t, len(got), 1)
	assert.Equal(t, got[0].Kind, "end")
	assert.Assert(t, strings.Contains(got[0].Note, "later frames are not in it"))
}

func TestSecretsAreRedacted(t *testing.T) {
	fill := &redactor{typed: typedIn("input.fill", json.RawMessage(`{"ref":"el-1","text":"hunter2"}`))}
	for name, c := range map[string]struct {
		r                *redactor
		method, in, want string
	}{
		"headers":            {&redactor{}, "Network.requestWillBeSent", `{"request":{"headers":{"Authorization":"Bearer x","Accept":"*/*","COOKIE":"a=b"}}}`, `{"request":{"headers":{"Accept":"*/*","Authorization":"[redacted]","COOKIE":"[redacted]"}}}`},
		"header list":        {&redactor{}, "Fetch.requestPaused", `[{"name":"Set-Cookie","value":"a=b"},{"name":"Date","value":"now"}]`, `[{"name":"Set-Cookie","value":"[redacted]"},{"name":"Date","value":"now"}]`},
		"cookies":            {&redactor{}, "Network.getCookies", `{"cookies":[{"name":"sid","value":"1234","httpOnly":true}]}`, `{"cookies":[{"httpOnly":true,"name":"sid","value":"[redacted]"}]}`},
		"body":               {&redactor{}, "Network.requestWillBeSent", `{"postData":"password=x"}`, `{"postData":"[redacted]"}`},
		"body in parts":      {&redactor{}, "Network.requestWillBeSent", `{"request":{"postDataEntries":[{"bytes":"cGFzc3dvcmQ9eA=="}]}}`, `{"request":{"postDataEntries":"[redacted]"}}`},
		"blocked cookie":     {&redactor{}, "Network.responseReceivedExtraInfo", `{"blockedCookies":[{"blockedReasons":["SecureOnly"],"cookieLine":"sid=1"}]}`, `{"blockedCookies":[{"blockedReasons":["SecureOnly"],"cookieLine":"[redacted]"}]}`},
		"typed":              {fill, "Input.insertText", `{"text":"hunter2"}`, `{"text":"[redacted]"}`},
		"typed in a value":   {fill, "Runtime.callFunctionOn", `{"arguments":[{"value":"hunter2"}],"result":"is hunter2!"}`, `{"arguments":[{"value":"[redacted]"}],"result":"is [redacted]!"}`},
		"letter":             {&redactor{}, "Input.dispatchKeyEvent", `{"type":"keyDown","key":"h","code":"KeyH","text":"h","windowsVirtualKeyCode":72}`, `{"code":"[redacted]","key":"[redacted]","text":"[redacted]","type":"keyDown","windowsVirtualKeyCode":"[redacted]"}`},
		"shortcut":           {&redactor{}, "Input.dispatchKeyEvent", `{"type":"keyDown","key":"k","modifiers":2}`, `{"key":"k","modifiers":2,"type":"keyDown"}`},
		"named key":          {&redactor{}, "Input.dispatchKeyEvent", `{"key":"Enter"}`, `{"key":"Enter"}`},
		"not JSON":           {&redactor{}, "X.y", `{broken`, `"[redacted]"`},
		"big number":         {&redactor{}, "X.y", `{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
		"markup":             {&redactor{}, "X.y", `"<b>&"`, `"<b>&"`},
		"lines":              {&redactor{typed: typedIn("input.fill", json.RawMessage(`{"text":"one\r\ntwo"}`))}, "X.y", `["one\r\ntwo","is one\ntwo"]`, `["[redacted]","is [redacted]"]`},
		"answer of a dialog": {&redactor{typed: typedIn("page.dialog", json.RawMessage(`{"accept":true,"text":"hunter2"}`))}, "Page.handleJavaScriptDialog", `{"promptText":"hunter2"}`, `{"promptText":"[redacted]"}`},
		"read is not typing": {&redactor{typed: typedIn("page.read", json.RawMessage(`{"text":"a"}`))}, "X.y", `"a"`, `"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, string(c.r.json(c.method, json.RawMessage(c.in))), c.want)
		})
	}
}

// What was typed is in no frame, wherever it stood in it.
func TestTypedTextNeverEntersATrace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringMatching(`[A-Z0-9]{6,12}`).Draw(r, "text")
		input, err := json.Marshal(map[string]string{"text": text})
		assert.NilError(r, err)
		redact := &redactor{typed: typedIn("input.fill", input)}
		value := map[string]any{"a": text, "b": []any{"x" + text + "y", map[string]any{"c": text + text}}}
		raw, err := json.Marshal(value)
		assert.NilError(r, err)
		assert.Assert(r, !strings.Contains(string(redact.json("Any.thing", raw)), text))
	})
}

// A trace has the frames of every command of its tab: what another one types
// is in it as little as what its own does, whichever began first.
func TestWhatAnotherCommandTypesIsInNoTrace(t *testing.T) {
	secret := json.RawMessage(`{"arguments":[{"value":"hunter2"}]}`)
	for name, first := range map[string]bool{"it began before": true, "it began after": false} {
		t.Run(name, func(t *testing.T) {
			r, lines := newRecorder(t, &redactor{})
			var s recorders
			texts := typedIn("input.fill", json.RawMessage(`{"text":"hunter2"}`))
			over := func() {}
			if first {
				over = s.typing(texts)
			}
			s.add(r)
			if !first {
				over = s.typing(texts)
			}
			s.event(op.Event{Method: "X.y", Params: secret})
			over()
			s.event(op.Event{Method: "X.z", Params: secret}) // what the page still says of it
			written := lines()
			assert.Equal(t, len(written), 2)
			for _, l := range written {
				assert.Assert(t, !strings.Contains(string(l.Params), "hunter2"), "%s", l.Params)
			}
			assert.Equal(t, len(s.typed), 0)
		})
	}
}

func TestLogIsSetAside(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(dir)
	assert.NilError(t, err)
	line := []byte(strings.Repeat("x", 64<<10))
	for range 16 << 20 / len(line) {
		_, err := l.Write(line)
		assert.NilError(t, err)
	}
	assert.NilError(t, l.Close())
	var total int64
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		assert.NilError(t, err)
		total += info.Size()
	}
	assert.Assert(t, total < 12<<20, "the logs hold %d bytes", total)
}
