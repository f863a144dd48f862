package drivertest

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
	"pi-chrome/fixtures"
)

// Conn has the methods of driver.Conn.
type Conn interface {
	cdp.Session
	Child(sessionID string) cdp.Session
	Listen(fn func(op.Event)) (stop func())
	Key() op.TabKey
	Info(ctx context.Context) (op.Tab, error)
	Attach(ctx context.Context) error
	Detach(ctx context.Context) error
	ResetSession(ctx context.Context, cause error) error
	Pin(what string) (unpin func())
	Attachment() int
}

var _ Conn = (*direct.Page)(nil)

var shared struct {
	mu      sync.Mutex
	browser *direct.Browser
	site    *Site
	running bool
}

// Main is the body of a TestMain: it runs the tests, ends the shared browser
// and server, and fails a full and successful run that left a golden unused.
//
//	func TestMain(m *testing.M) { drivertest.Main(m) }
func Main(m *testing.M) {
	shared.running = true
	code := m.Run()
	if shared.browser != nil {
		if err := shared.browser.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the browser:", err)
			code = 1
		}
	}
	if shared.site != nil {
		shared.site.server.Close()
	}
	if code == 0 && everything() {
		for _, name := range orphans("testdata") {
			fmt.Fprintf(os.Stderr, "%s: no test compares with this golden; remove it\n", name)
			code = 1
		}
	}
	os.Exit(code)
}

// everything reports whether this run was of every test.
func everything() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	f := flag.Lookup("test.list")
	fuzz := flag.Lookup("test.fuzz")
	return (f == nil || f.Value.String() == "") && (fuzz == nil || fuzz.Value.String() == "")
}

// Chrome returns the test binary's one browser.
func Chrome(t testing.TB) *direct.Browser {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		t.Fatal("the package has no TestMain that calls drivertest.Main")
	}
	if shared.browser == nil {
		b, err := direct.Launch(t.Context(), nil)
		assert.NilError(t, err)
		shared.browser = b
	}
	return shared.browser
}

// Page returns a new hidden tab at about:blank, closed when the test ends.
func Page(t testing.TB) *direct.Page {
	t.Helper()
	p, err := Chrome(t).NewPage(t.Context(), nil)
	assert.NilError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// The test may have closed it, or the browser with it.
		_ = p.Close(ctx)
	})
	return p
}

// Site is the fixtures, served under three sites: the pages of one site see
// those of another as cross-origin, in another process.
type Site struct {
	Origin string // http://127.0.0.1:PORT
	Cross  string // http://localhost:PORT
	Third  string // http://third.localhost:PORT
	Server *fixtures.Server

	server *httptest.Server
}

// URL is the address of a fixture, such as "input/click.html", or of a helper,
// such as "_/slow?ms=100".
func (s *Site) URL(path string) string { return s.Origin + "/" + strings.TrimPrefix(path, "/") }

// Neutral replaces what differs between runs in a text: the origins.
func (s *Site) Neutral(text string) string {
	return strings.NewReplacer(s.Origin, "http://site", s.Cross, "http://cross", s.Third, "http://third").Replace(text)
}

// Server returns the test binary's one site. Tests that count share it: use
// keys of your own, or [NewServer].
func Server(t testing.TB) *Site {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		t.Fatal("the package has no TestMain that calls drivertest.Main")
	}
	if shared.site == nil {
		shared.site = newSite()
	}
	return shared.site
}

// NewServer returns a site of its own, closed when the test ends.
func NewServer(t testing.TB) *Site {
	t.Helper()
	s := newSite()
	t.Cleanup(s.server.Close)
	return s
}

func newSite() *Site {
	f := fixtures.New()
	srv := httptest.NewServer(f)
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	return &Site{Origin: srv.URL, Cross: "http://localhost:" + port, Third: "http://third.localhost:" + port, Server: f, server: srv}
}

// Goto loads the URL with plain commands and waits for its load event.
func Goto(t testing.TB, c cdp.Session, url string) {
	t.Helper()
	res, err := cdp.Call(t.Context(), c, page.Navigate, page.NavigateParams{URL: url})
	assert.NilError(t, err)
	assert.Equal(t, res.ErrorText, "", url)
	Eval(t, c, "new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', () => r()))")
}

// Eval evaluates the expression in the page and returns its value as JSON;
// undefined is "". A promise is awaited. It looks at a page without the
// driver's help.
func Eval(t testing.TB, c cdp.Session, expression string) string {
	t.Helper()
	yes := true
	res, err := cdp.Call(t.Context(), c, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes})
	assert.NilError(t, err)
	if d := res.ExceptionDetails; d != nil {
		text := d.Text
		if d.Exception != nil {
			text = d.Exception.Description
		}
		t.Fatalf("evaluating %s: %s", expression, text)
	}
	return string(res.Result.Value)
}
