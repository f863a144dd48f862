package relaytest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// policies keeps a session to the origins of its policy in a real browser:
// what is denied gets no request, neither by an address, nor by a redirect, nor
// by a link or a script of the page.
func policies(t *testing.T, l *Lane) {
	var asked atomic.Int64
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("<title>denied</title>secret"))
	}))
	defer denied.Close()
	allowed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, denied.URL, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<title>allowed</title><a href="` + denied.URL + `">away</a> <button onclick="document.title = 'pressed'">stay</button>`))
	}))
	defer allowed.Close()
	s := l.Session(t)
	_, err := owner.AuthorizeWith(t.Context(), s.Client, s.Key, 0, []byte(`{"version":1,"origins":{"allow":["`+allowed.URL+`"]}}`))
	assert.NilError(t, err)

	s.Open(allowed.URL + "/")
	e := s.Fail("page.navigate", map[string]any{"url": denied.URL})
	assert.Equal(t, e.Code, op.OriginDenied)
	assert.Equal(t, e.Kind, op.Rejected)
	e = s.Fail("page.navigate", map[string]any{"url": allowed.URL + "/redirect"})
	assert.Equal(t, e.Code, op.OriginDenied, e.Message)
	assert.Equal(t, e.Details["origin"], denied.URL)
	assert.Equal(t, asked.Load(), int64(0))

	// The page is where it was, and works.
	s.Do("input.click", map[string]any{"find": map[string]any{"role": "button", "name": "stay"}})
	s.Do("input.click", map[string]any{"find": map[string]any{"role": "link", "name": "away"}})
	s.Do("page.evaluate", map[string]any{"expression": "(location.href = '" + denied.URL + "', 1)"})
	until(t, 10*time.Second, "the page is still the allowed one", func() bool {
		r := s.Do("page.evaluate", map[string]any{"expression": "document.title"})
		return strings.Contains(string(r.Value), "pressed")
	})
	assert.Equal(t, asked.Load(), int64(0))
	e = s.Fail("tab.new", map[string]any{"url": denied.URL})
	assert.Equal(t, e.Code, op.OriginDenied)

	// The user leads the tab there.
	tabs := valueOf[[]op.Tab](t, s.Do("tab.list", map[string]any{}))
	w := &worker{browser: l.Browser}
	for _, tab := range tabs {
		if tab.Owned {
			assert.NilError(t, w.eval(t.Context(), `chrome.debugger.detach({tabId: `+strconv.Itoa(tab.ID)+`}).then(() => chrome.tabs.update(`+strconv.Itoa(tab.ID)+`, {url: "`+denied.URL+`"})).then(() => 1)`, nil))
		}
	}
	until(t, 10*time.Second, "the tab has drifted", func() bool { return asked.Load() > 0 })
	until(t, 10*time.Second, "its commands are refused", func() bool {
		_, err := s.Run("page.snapshot", map[string]any{})
		return err != nil && op.AsError(err).Code == op.OriginDenied
	})
	s.Open(allowed.URL + "/back")

	_, err = owner.AuthorizeWith(t.Context(), s.Client, s.Key, 0, []byte("null"))
	assert.NilError(t, err)
	s.Open(denied.URL)
}
