package relaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
	"pi-chrome/extension"
)

// driverTestdata holds the goldens of the driver's own lane: the same files
// must hold here.
const driverTestdata = "../../../driver/testdata"

// worker is the extension's worker, reached over the browser's pipe: with it a
// test does to the worker, and to a tab's debugger session, what no program
// can ask of the owner.
type worker struct {
	browser *direct.Browser

	mu   sync.Mutex
	page *direct.Page
}

// eval evaluates the expression in the running worker and decodes its value,
// which may be a promise. out may be nil.
func (w *worker) eval(ctx context.Context, expression string, out any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.page == nil {
		info, err := w.browser.Worker(ctx, "chrome-extension://"+extension.ID)
		if err != nil {
			return err
		}
		if w.page, err = w.browser.AttachPage(ctx, info.TargetID); err != nil {
			return err
		}
	}
	yes := true
	res, err := cdp.Call(ctx, w.page, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes})
	if err != nil {
		return err
	}
	if d := res.ExceptionDetails; d != nil {
		text := d.Text
		if d.Exception != nil {
			text = d.Exception.Description
		}
		return fmt.Errorf("in the worker: %s", text)
	}
	if out == nil || len(res.Result.Value) == 0 {
		return nil
	}
	return jsonv2.Unmarshal(res.Result.Value, out)
}

// tabConn is the owner's debugger session on a tab, as the worker holds it:
// what a case does with plain commands goes beside the owner, on the session
// that the owner has.
type tabConn struct {
	drivertest.Conn // nil: no case uses the rest
	session         *Session
	worker          *worker
	tab             int
}

// Attach does nothing: the owner attached when the tab was made.
func (c *tabConn) Attach(context.Context) error { return nil }

// Detach ends the debugger session as Chrome does for a reason of its own: the
// extension hears of it.
func (c *tabConn) Detach(ctx context.Context) error {
	return errors.Join(
		c.worker.eval(ctx, fmt.Sprintf(`chrome.debugger.detach({tabId: %[1]d}).then(() => chrome.debugger.onDetach.dispatch({tabId: %[1]d}, "target_closed"))`, c.tab), nil),
		c.heard())
}

// heard returns when the owner has heard of everything that the worker has
// sent: the worker sends in order, and the reply of this stands behind it.
func (c *tabConn) heard() error {
	_, err := c.session.Run("tab.list", map[string]any{})
	return err
}

// Call returns when the owner has heard of every event before the reply, as a
// caller of the owner's own session would.
func (c *tabConn) Call(ctx context.Context, method string, params, result any) error {
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return err
	}
	err = c.worker.eval(ctx, fmt.Sprintf("chrome.debugger.sendCommand({tabId: %d}, %q, %s)", c.tab, method, raw), result)
	if err != nil {
		return err
	}
	return c.heard()
}

// open makes a tab of the session and attaches to it.
func (l *Lane) open(t testing.TB, w *worker) *tabConn {
	s := l.Session(t)
	tab := Value[op.Tab](t, s.Do("tab.new", map[string]any{}))
	s.Do("page.evaluate", map[string]any{"expression": "1"}) // attaches
	return &tabConn{session: s, worker: w, tab: tab.ID}
}

// relayLane runs cases over the whole path, each with a session of its own.
func relayLane(t *testing.T, l *Lane, site *drivertest.Site) drivertest.Lane {
	w := &worker{browser: l.Browser}
	return drivertest.Lane{
		Name: "relay", Testdata: driverTestdata, Site: site,
		Open: func(t testing.TB) drivertest.Conn { return l.open(t, w) },
		Run: func(ctx context.Context, c drivertest.Conn, operation string, input json.RawMessage) (op.Result, error) {
			out, err := c.(*tabConn).session.Client.Command(ctx, wire.Command{
				Operation: operation, Session: wire.Session{Key: c.(*tabConn).session.Key}, Input: input,
			}, nil)
			return out.Result, err
		},
	}
}

// pageCases runs the driver's cases over the relay.
func pageCases(t *testing.T, l *Lane, cases []drivertest.Case) {
	cases = slices.DeleteFunc(cases, func(c drivertest.Case) bool { return slices.Contains(pagecases.DirectOnly, c.Name) })
	drivertest.RunCases(t, relayLane(t, l, drivertest.NewServer(t)), cases)
}

// dataAddress: Chrome refuses the address to an extension, and the error says
// so. The tab shows what it did before and can be used.
func dataAddress(t *testing.T, l *Lane) {
	s := l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	e := s.Fail("page.navigate", map[string]any{"url": "data:text/html,<title>Data</title>hello"})
	assert.Equal(t, e.Kind, op.Rejected)
	assert.Equal(t, e.Code, op.NavigationFailed)
	assert.Assert(t, strings.Contains(e.Hint, "data:"), e.Hint)
	s.Do("input.click", map[string]any{"ref": s.Ref("Count")})
	waitCount(t, l, s.Key, 1)
	s.Do("page.navigate", map[string]any{"url": "about:blank"})
}

// until waits for the condition, looking every few milliseconds.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		assert.Assert(t, time.Now().Before(deadline), "after %s: %s", limit, what)
		time.Sleep(5 * time.Millisecond)
	}
}

// pageEval evaluates the expression in a page of the pipe and returns its
// value, a text.
func pageEval(t testing.TB, p *direct.Page, expression string) string {
	t.Helper()
	var text string
	assert.NilError(t, json.Unmarshal([]byte(drivertest.Eval(t, p, expression)), &text))
	return text
}
