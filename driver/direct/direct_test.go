package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func launch(t *testing.T, opts *Options) *Browser {
	t.Helper()
	b, err := Launch(t.Context(), opts)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, b.Close()) })
	return b
}

func evaluate(t *testing.T, s cdp.Session, expression string) string {
	t.Helper()
	yes := true
	res, err := cdp.Call(t.Context(), s, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes})
	assert.NilError(t, err)
	assert.Assert(t, res.ExceptionDetails == nil, "%v", res.ExceptionDetails)
	return string(res.Result.Value)
}

// TestBrowser checks the life of a browser: it answers, a page runs script,
// its errors are typed, and its end leaves neither process nor profile.
func TestBrowser(t *testing.T) {
	b, err := Launch(t.Context(), nil)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, b.Close()) })
	assert.Assert(t, strings.Contains(b.Version().Product, "Chrome/"), b.Version().Product)

	p, err := b.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	assert.Equal(t, evaluate(t, p, "6*7"), "42")
	assert.Equal(t, evaluate(t, p, "document.visibilityState"), `"hidden"`)
	assert.Equal(t, p.Attachment(), 1)
	info, err := p.Info(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, info.URL, "about:blank")
	assert.Equal(t, info.ID, p.Key().TabID)

	err = p.Call(t.Context(), "Page.noSuchCommand", nil, nil)
	var pe *op.ProtocolError
	assert.Assert(t, errors.As(err, &pe), "%v", err)
	assert.Equal(t, pe.Method, "Page.noSuchCommand")
	assert.Assert(t, pe.Code != 0)

	// A call in flight when the browser goes has been delivered.
	lost := make(chan error, 1)
	go func() {
		yes := true
		_, err := cdp.Call(context.Background(), p, runtime.Evaluate, runtime.EvaluateParams{Expression: "new Promise(() => {})", AwaitPromise: &yes})
		lost <- err
	}()
	assert.Equal(t, evaluate(t, p, "1"), "1") // so the one before has been sent
	pid, dir := b.PID(), b.UserDataDir()
	assert.NilError(t, b.Close())
	err = <-lost
	assert.Assert(t, errors.Is(err, op.ErrReplyLost), "%v", err)
	err = p.Call(t.Context(), "Page.enable", nil, nil)
	assert.Assert(t, errors.Is(err, op.ErrNotDelivered), "%v", err)
	assert.Assert(t, !groupAlive(pid))
	_, err = os.Stat(dir)
	assert.Assert(t, os.IsNotExist(err), "%v", err)
	select {
	case <-b.Done():
	default:
		t.Fatal("Done is open after Close")
	}
}

// TestOrder checks that a reply never overtakes an event before it, that a
// canceled caller returns at once, and that many calls at once keep their
// replies apart.
func TestOrder(t *testing.T) {
	b := launch(t, nil)
	p, err := b.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	var mu sync.Mutex
	var seen []string
	stop := p.Listen(func(ev op.Event) {
		time.Sleep(20 * time.Millisecond) // a slow listener must hold replies back
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, ev.Method)
	})
	defer stop()
	_, err = cdp.Call(t.Context(), p, page.Enable, page.EnableParams{})
	assert.NilError(t, err)
	for i := range 5 {
		before := count(&mu, &seen, page.NavigatedWithinDocument.Method)
		evaluate(t, p, fmt.Sprintf("location.hash = 'h%d'", i))
		assert.Equal(t, count(&mu, &seen, page.NavigatedWithinDocument.Method), before+1)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	yes := true
	start := time.Now()
	_, err = cdp.Call(ctx, p, runtime.Evaluate, runtime.EvaluateParams{Expression: "new Promise(() => {})", AwaitPromise: &yes})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Assert(t, time.Since(start) < 2*time.Second)

	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			res, err := cdp.Call(t.Context(), p, runtime.Evaluate, runtime.EvaluateParams{Expression: fmt.Sprint(i), ReturnByValue: &yes})
			if assert.Check(t, err) {
				assert.Check(t, string(res.Result.Value) == fmt.Sprint(i))
			}
		})
	}
	wg.Wait()
}

func count(mu *sync.Mutex, list *[]string, want string) int {
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, s := range *list {
		if s == want {
			n++
		}
	}
	return n
}

// TestChildSessions checks that the events of a cross-origin frame arrive
// under its session, and what becomes of calls when frame and tab go.
func TestChildSessions(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/inner", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<title>inner</title>inner") })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	cross := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>outer</title><iframe src=%q></iframe>", cross+"/inner")
	})
	b := launch(t, nil)
	p, err := b.NewPage(t.Context(), &NewPageOptions{URL: srv.URL + "/"})
	assert.NilError(t, err)
	events := make(chan op.Event, 1000)
	p.Listen(func(ev op.Event) { events <- ev })
	yes := true
	_, err = cdp.Call(t.Context(), p, target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true, Flatten: &yes})
	assert.NilError(t, err)
	attached := next(t, events, target.AttachedToTarget.Method)
	assert.Equal(t, attached.SessionID, "")
	var e target.EventAttachedToTarget
	assert.NilError(t, json.Unmarshal(attached.Params, &e))
	child := p.Child(string(e.SessionID))
	assert.Equal(t, evaluate(t, child, "location.pathname"), `"/inner"`)
	_, err = cdp.Call(t.Context(), child, page.Enable, page.EnableParams{})
	assert.NilError(t, err)
	evaluate(t, child, "location.hash = 'x'")
	assert.Equal(t, next(t, events, page.NavigatedWithinDocument.Method).SessionID, string(e.SessionID))

	hanging := make(chan error, 2)
	hang := func(s cdp.Session) {
		_, err := cdp.Call(context.Background(), s, runtime.Evaluate, runtime.EvaluateParams{Expression: "new Promise(() => {})", AwaitPromise: &yes})
		hanging <- err
	}
	go hang(child)
	evaluate(t, child, "1")
	evaluate(t, p, "document.querySelector('iframe').remove()")
	assert.ErrorContains(t, <-hanging, "") // whatever Chrome says, it must not hang
	next(t, events, target.DetachedFromTarget.Method)
	err = child.Call(t.Context(), "Runtime.evaluate", runtime.EvaluateParams{Expression: "1"}, nil)
	assert.ErrorContains(t, err, "Session with given id not found")

	// Detached by somebody else, then attached anew.
	go hang(p)
	evaluate(t, p, "1")
	assert.NilError(t, p.Detach(t.Context()))
	err = <-hanging
	assert.Assert(t, errors.Is(err, op.ErrDetached) && errors.Is(err, op.ErrReplyLost), "%v", err)
	for ev := range events {
		if ev.Detached != "" {
			break
		}
	}
	err = p.Call(t.Context(), "Runtime.evaluate", runtime.EvaluateParams{Expression: "1"}, nil)
	assert.Assert(t, errors.Is(err, op.ErrDetached) && errors.Is(err, op.ErrNotDelivered), "%v", err)
	assert.NilError(t, p.Attach(t.Context()))
	assert.Equal(t, p.Attachment(), 2)
	assert.Equal(t, evaluate(t, p, "2"), "2")

	assert.NilError(t, p.Close(t.Context()))
	for ev := range events {
		if ev.Detached != "" {
			assert.Equal(t, ev.Detached, "target_closed")
			break
		}
	}
	assert.ErrorContains(t, p.Attach(t.Context()), "No target with given id")
}

func next(t *testing.T, events <-chan op.Event, method string) op.Event {
	t.Helper()
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	for {
		select {
		case ev := <-events:
			if ev.Method == method {
				return ev
			}
		case <-timer.C:
			t.Fatalf("no %s within 10s", method)
		}
	}
}

// TestStopWorker checks that the extension's worker really ends and that its
// next event starts another one.
func TestStopWorker(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("manifest.json", `{"manifest_version":3,"name":"w","version":"1","background":{"service_worker":"w.js"},"permissions":["alarms"]}`)
	write("w.js", `globalThis.born = performance.timeOrigin; chrome.tabs.onCreated.addListener(() => {});`)
	b := launch(t, &Options{ExtensionDir: dir})
	first := worker(t, b)
	assert.NilError(t, b.StopWorker(t.Context(), "chrome-extension://"))
	// An event of the start-up may have started the next one already.
	if w, err := b.Worker(t.Context(), "chrome-extension://"); err == nil {
		assert.Assert(t, w.TargetID != first, "the worker lives on")
	} else {
		assert.ErrorIs(t, err, ErrNoWorker)
	}
	_, err := b.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	assert.Assert(t, worker(t, b) != first, "the same worker lives on")
	assert.ErrorIs(t, b.StopWorker(t.Context(), "chrome-extension://none/"), ErrNoWorker)
}

func worker(t *testing.T, b *Browser) target.ID {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		w, err := b.Worker(t.Context(), "chrome-extension://")
		if err == nil {
			return w.TargetID
		}
		assert.ErrorIs(t, err, ErrNoWorker)
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no worker within 15s")
	return ""
}

// TestHeadful checks a browser with a window on a display of its own.
func TestHeadful(t *testing.T) {
	d, err := StartDisplay(t.Context())
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	b := launch(t, &Options{Headful: true, Env: d.Env(), Width: 900, Height: 700})
	p, err := b.NewPage(t.Context(), &NewPageOptions{Foreground: true})
	assert.NilError(t, err)
	assert.Equal(t, evaluate(t, p, "document.visibilityState"), `"visible"`)
	assert.Equal(t, evaluate(t, p, "outerWidth"), "900")
}

// TestNoBrowser checks the messages of a browser that cannot be started.
func TestNoBrowser(t *testing.T) {
	t.Setenv("PI_CHROME_BROWSER", filepath.Join(t.TempDir(), "nothing"))
	_, err := Launch(t.Context(), nil)
	assert.ErrorIs(t, err, ErrNoBrowser)
	assert.ErrorContains(t, err, "PI_CHROME_BROWSER is")
	t.Setenv("PI_CHROME_BROWSER", "")
	t.Setenv("PATH", t.TempDir())
	_, err = Launch(t.Context(), nil)
	assert.ErrorIs(t, err, ErrNoBrowser)
	assert.ErrorContains(t, err, "set PI_CHROME_BROWSER")

	dir := t.TempDir()
	bad := filepath.Join(dir, "browser")
	assert.NilError(t, os.WriteFile(bad, []byte("#!/bin/sh\necho no display >&2\nexit 1\n"), 0o700))
	_, err = Launch(t.Context(), &Options{Binary: bad})
	assert.ErrorContains(t, err, "no display")
}
