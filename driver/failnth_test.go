package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// endingContext ends as at a deadline when end is called.
type endingContext struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func newEnding(parent context.Context) *endingContext {
	return &endingContext{Context: parent, done: make(chan struct{})}
}

func (c *endingContext) end()                  { c.once.Do(func() { close(c.done) }) }
func (c *endingContext) Done() <-chan struct{} { return c.done }
func (c *endingContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The ways in which one call fails. The last one does not answer until the
// deadline of the operation.
var failureWays = []struct {
	name  string
	cause error
}{
	{"refused", &op.ProtocolError{Method: "any", Message: "made to fail"}},
	{"reply lost", op.ErrReplyLost},
	{"not delivered", op.ErrNotDelivered},
	{"hangs", nil},
}

// failBrowser is the browser of operations on tabs; it has one tab.
type failBrowser struct {
	conn Conn
	err  error
}

func (b *failBrowser) Tabs(ctx context.Context) ([]op.Tab, error) {
	tab, err := b.conn.Info(ctx)
	return []op.Tab{tab}, errors.Join(err, b.err)
}
func (b *failBrowser) NewTab(context.Context, string) (Conn, error) { return b.conn, b.err }
func (b *failBrowser) CloseTab(context.Context, op.Target) (int, error) {
	return b.conn.Key().TabID, b.err
}
func (b *failBrowser) ActivateTab(ctx context.Context, _ op.Target) (op.Tab, error) {
	return op.Tab{}, b.err
}
func (b *failBrowser) GroupTab(context.Context, op.Target, string) (op.Tab, error) {
	return op.Tab{}, b.err
}
func (b *failBrowser) UngroupTab(context.Context, op.Target) (op.Tab, error) { return op.Tab{}, b.err }
func (b *failBrowser) ClaimTab(context.Context, op.Target, op.TabDetails) (op.Tab, error) {
	return op.Tab{}, b.err
}
func (b *failBrowser) ReleaseTab(context.Context, op.Target, bool) (op.ReleasedTab, error) {
	return op.ReleasedTab{}, b.err
}
func (b *failBrowser) Targets(context.Context) ([]op.Profile, error) { return nil, b.err }
func (b *failBrowser) Ask(context.Context, string, time.Duration) (bool, error) {
	return true, b.err
}
func (b *failBrowser) Status(context.Context) (json.RawMessage, error) {
	return json.RawMessage(`{}`), b.err
}

// failCase is how an operation is run for TestFailNth, where its own example
// does not stand by itself.
type failCase struct {
	page, input string
	// before runs in the page before each run; a dialog that it opens is open
	// then.
	before string
	dialog bool
	// first are calls that are made before each run.
	first [][2]string
	// fresh has a new driver for each run, so that what a first call sets up is
	// among the calls.
	fresh bool
	// front has a session that works in the foreground.
	front bool
	// quiet allows that the operation makes no call at all.
	quiet bool
}

var failCases = map[string]failCase{
	"page.dialog": {page: "input/click-log.html", input: `{"action":"accept"}`, before: `setTimeout(() => alert("Stop"), 0)`, dialog: true},
	"page.network-get": {page: "network/kinds.html", input: `{"requestId":"req-1"}`, quiet: true, // it was read when it came
		first: [][2]string{{"page.network-list", `{}`}, {"page.evaluate", `{"expression":"fetch('/_/frame?text=x').then(r => r.text())"}`}}},
	"page.console":      {fresh: true},
	"page.network-list": {fresh: true},
	"page.read":         {fresh: true},
	"page.wait":         {page: "input/click-log.html", input: `{"condition":{"by":"visible","value":"#button"},"timeoutMs":1500}`},
	"page.history":      {page: "navigate/plain.html", input: `{"action":"reload","waitUntilLoad":true}`},
}

// failVariants are further ways to use an operation, whose calls are others
// than those of its case above. Pictures and the ways of input have tables of
// their own.
var failVariants = []struct {
	name, operation string
	failCase
}{
	{"a load with script and snapshot", "page.navigate", failCase{input: `{"url":"{{base}}/navigate/plain.html","waitUntilLoad":true,"initScript":"1","snapshot":{"mode":"interactive"}}`}},
	{"back", "page.history", failCase{page: "navigate/plain.html", input: `{"action":"back"}`, first: [][2]string{{"page.navigate", `{"url":"{{base}}/navigate/hash.html","waitUntilLoad":true}`}}}},
	{"of frames", "page.snapshot", failCase{page: "frames/cross-origin.html", input: `{"mode":"full"}`, fresh: true}},
	{"in a frame, with a snapshot", "input.click", failCase{page: "frames/cross-origin.html", input: `{"selector":"iframe >> #button","includeSnapshot":true}`}},
	{"in the foreground", "input.click", failCase{input: `{"selector":"#button"}`, front: true}},
	{"a policy", "page.dialog", failCase{input: `{"action":"policy","dialogs":"leave"}`, quiet: true}},
	{"a directory", "input.upload", failCase{page: "input/upload.html", input: `{"selector":"#directory","paths":["testdata/page.read"]}`}},
	{"until something goes", "page.wait", failCase{input: `{"condition":{"by":"textGone","value":"nowhere"},"timeoutMs":1500}`}},
}

// failer runs one operation with calls that fail.
type failer struct {
	t *testing.T
	s *drivertest.Scenario
	d *Driver
	o op.Operation[*Call]
	c failCase
}

func (f *failer) run(ctx context.Context, operation, input string) (op.Result, error) {
	rec := recorded(f.s)
	return f.d.Run(ctx, operation, &Call{ID: "test", Session: op.Session{Key: "test", Foreground: f.c.front}, Conn: rec, Browser: &failBrowser{conn: rec}}, json.RawMessage(input))
}

var refPlace = regexp.MustCompile(`\{\{ref:(.*?)\}\}`)

// here is an input for the site and the machine as they are.
func (f *failer) here(input string) string {
	dir, err := filepath.Abs("testdata")
	assert.NilError(f.t, err)
	return strings.NewReplacer("{{base}}", f.s.Site.Origin, `"testdata/`, `"`+filepath.ToSlash(dir)+"/").Replace(input)
}

// input is the operation's input with the refs of the page as it is.
func (f *failer) input() string {
	text := f.here(f.c.input)
	return refPlace.ReplaceAllStringFunc(text, func(m string) string {
		words := strings.ReplaceAll(refPlace.FindStringSubmatch(m)[1], `\"`, `"`)
		res, err := f.run(f.t.Context(), "page.snapshot", `{"mode":"interactive"}`)
		assert.NilError(f.t, err)
		for line := range strings.Lines(res.Text) {
			if strings.Contains(line, words) {
				return regexp.MustCompile(`el-\d+`).FindString(line)
			}
		}
		f.t.Fatalf("no %q in %s", words, res.Text)
		return ""
	})
}

// watchEffects counts what a person's press or key would do to the page.
const watchEffects = `void (globalThis.effects = [], ["click", "input", "change", "keydown", "submit", "drop", "beforeunload"].forEach((type) =>
	addEventListener(type, (e) => effects.push(type), {capture: true})))`

// ready loads the page anew and does what comes before the operation.
func (f *failer) ready() (input string) {
	f.t.Helper()
	rec := recorded(f.s)
	if f.c.fresh {
		f.d.Close()
		f.d = New(nil)
	}
	drivertest.Goto(f.t, rec.Conn, f.s.Site.URL(f.c.page))
	f.s.Eval(watchEffects)
	for _, first := range f.c.first {
		_, err := f.run(f.t.Context(), first[0], f.here(first[1]))
		assert.NilError(f.t, err)
	}
	input = f.input()
	if f.c.before != "" {
		opened := make(chan struct{}, 1)
		stop := rec.Listen(func(ev op.Event) {
			if ev.Method == page.JavascriptDialogOpening.Method {
				opened <- struct{}{}
			}
		})
		f.s.Eval(f.c.before)
		if f.c.dialog {
			<-opened
		}
		stop()
	}
	rec.Reset()
	return input
}

// fail runs the operation with its n-th call failing and checks the error and
// the tab.
func (f *failer) fail(n int, way string, cause error) {
	t, rec := f.t, recorded(f.s)
	input := f.ready()
	ctx := newEnding(t.Context())
	defer ctx.end()
	if cause != nil {
		rec.FailNth("", n, cause)
	} else {
		rec.BeforeNth("", n, func() {
			time.Sleep(20 * time.Millisecond)
			ctx.end()
		})
	}
	began := time.Now()
	var res op.Result
	var err error
	labeled(t, func() { res, err = f.run(ctx, f.o.Name(), input) })
	took := time.Since(began)
	calls := rec.Calls()
	rec.Reset()
	method := "none"
	if n <= len(calls) {
		method = calls[n-1].Method
	}
	what := fmt.Sprintf("%s, call %d (%s) %s", f.o.Tool(), n, method, way)
	if took > 6*time.Second {
		t.Errorf("%s: it took %s", what, took)
	}
	if f.c.dialog {
		// What failed may have been the answer, and a dialog blocks all else.
		_, _ = cdp.Call(t.Context(), rec.Conn, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
	}
	if err == nil {
		if res.Text == "" && len(res.Value) == 0 {
			t.Errorf("%s: success without a result", what)
		}
	} else {
		f.checkError(what, n, cause, input, err)
	}
	if left := leftBy(t); left != "" {
		t.Errorf("%s: it left a goroutine\n%s", what, left)
	}
	f.works(what)
}

func (f *failer) checkError(what string, n int, cause error, input string, err error) {
	t := f.t
	e, ok := errors.AsType[*op.Error](err)
	if !ok {
		t.Errorf("%s: %v is no *op.Error", what, err)
		return
	}
	if e.Message == "" || e.Hint == "" {
		t.Errorf("%s: message %q, hint %q", what, e.Message, e.Hint)
	}
	if e.Kind == op.OutcomeUnknown && f.o.EffectOf(json.RawMessage(input)) == op.ReadOnly {
		t.Errorf("%s: a read is %s: %s", what, e.Kind, e.Message)
	}
	if n == 1 && errors.Is(cause, op.ErrNotDelivered) && e.Kind == op.OutcomeUnknown && !f.c.dialog {
		t.Errorf("%s: nothing was sent, and it is %s: %s", what, e.Kind, e.Message)
	}
	if cause == nil && e.Code != op.DeadlineExceeded {
		t.Errorf("%s: code %s: %s", what, e.Code, e.Message)
	}
	if e.Kind != op.OutcomeUnknown && !f.c.dialog {
		if seen := f.s.Eval("globalThis.effects"); seen != "[]" {
			t.Errorf("%s: it is %s, and the page saw %s: %s", what, e.Kind, seen, e.Message)
		}
	}
}

// works does what comes next on the tab: a snapshot, and a click that is
// counted once.
func (f *failer) works(what string) {
	t := f.t
	res, err := f.run(t.Context(), "page.snapshot", `{"mode":"interactive"}`)
	if err != nil || res.Text == "" {
		t.Errorf("%s: the next snapshot: %v", what, err)
	}
	f.s.Eval(`void (() => {
		globalThis.probed = 0;
		const b = document.createElement("button");
		b.id = "probe-of-test";
		b.style = "position: fixed; inset: 0 auto auto 0; width: 80px; height: 30px; z-index: 2147483647";
		b.addEventListener("click", () => probed++);
		document.body.append(b);
	})()`)
	if _, err := f.run(t.Context(), "input.click", `{"selector":"#probe-of-test"}`); err != nil {
		t.Errorf("%s: the next click: %v", what, err)
	}
	if n := f.s.Eval("globalThis.probed"); n != "1" {
		t.Errorf("%s: the next click was counted %s times", what, n)
	}
}

// labeled runs fn with goroutines that bear the test's name, and so do those
// that they start: other tests run at the same time.
func labeled(t *testing.T, fn func()) {
	pprof.Do(t.Context(), pprof.Labels("test", t.Name()), func(context.Context) { fn() })
}

// leftBy waits until the driver's goroutines of the test have ended, beside the
// loop of its tab, and returns the stack of those that do not.
func leftBy(t *testing.T) string {
	label := fmt.Sprintf("%q:%q", "test", t.Name())
	left := func() string {
		var all strings.Builder
		assert.NilError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(stack, label) && strings.Contains(stack, "pi-chrome/driver.") && !strings.Contains(stack, "(*Tab).loop+") && !strings.Contains(stack, "leftBy") {
				return stack
			}
		}
		return ""
	}
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if stack := left(); stack == "" || time.Now().After(end) {
			return stack
		}
	}
}

// The look for what is left sees what is left.
func TestLeftBy(t *testing.T) {
	end, running := make(chan struct{}), make(chan struct{})
	labeled(t, func() {
		go func() {
			close(running)
			(&failer{}).wait(end)
		}()
	})
	<-running
	assert.Assert(t, leftBy(t) != "")
	close(end)
	assert.Equal(t, leftBy(t), "")
}

func (*failer) wait(end chan struct{}) { <-end }

// Every CDP call of every operation fails once, in each way a call can: the
// error is typed and tells the truth about the effect, nothing is left behind,
// and the tab works. A short run takes one way for every third call.
func TestFailNth(t *testing.T) {
	for index, o := range Operations() {
		t.Run(o.Tool(), func(t *testing.T) {
			t.Parallel()
			failEverywhere(t, index, o, failCases[o.Name()])
		})
	}
	for index, v := range failVariants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			o, ok := New(nil).Operation(v.operation)
			assert.Assert(t, ok, v.operation)
			failEverywhere(t, index, o, v.failCase)
		})
	}
}

// failEverywhere fails each call of the operation.
func failEverywhere(t *testing.T, index int, o op.Operation[*Call], c failCase) {
	desc, err := o.Descriptor()
	assert.NilError(t, err)
	for _, e := range desc.Examples {
		if c.input == "" {
			c.input = string(e.Input)
			if c.page == "" {
				c.page = e.Page
			}
		}
	}
	if c.page == "" {
		c.page = "input/click-log.html"
	}
	s := start(t, c.page)
	f := &failer{t, s, New(nil), o, c}
	defer func() { f.d.Close() }()
	f.works("at first")
	input := f.ready()
	_, err = f.run(t.Context(), o.Name(), input)
	assert.NilError(t, err)
	n := len(recorded(s).Calls())
	assert.Assert(t, n > 0 || desc.Tab != op.PageTab || c.quiet, "it makes no call")
	for i := 1; i <= n; i++ {
		for k, way := range failureWays {
			if thorough() || (i+index)%3 == 0 && k == (i+index)/3%len(failureWays) {
				f.fail(i, way.name, way.cause)
			}
		}
	}
	t.Logf("%d calls", n)
}

// Where one of the input functions' files did not arrive, they are put into
// the page anew.
func TestInputFunctionsArriveInPart(t *testing.T) {
	for n := range 6 {
		s := start(t, "input/click-log.html")
		recorded(s).FailNth("Runtime.callFunctionOn", n+1, op.ErrNotDelivered)
		_, _ = s.Run("input.click", `{"selector":"#button"}`) // whether it fails depends on the call
		recorded(s).Reset()
		s.Call("input.click", `{"selector":"#button"}`)
	}
}
