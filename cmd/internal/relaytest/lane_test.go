package relaytest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/op"
	"pi-chrome/fixtures"
)

// Lane is a sandbox with a server of fixtures, shared by the tests of a lane.
type Lane struct {
	*sandbox.Sandbox
	Site  *fixtures.Server
	URL   string // of the server, on 127.0.0.1
	Cross string // of the same server, under another site

	sessions atomic.Int64
	hit      atomic.Pointer[func(id string)] // called when the server has counted
}

// onHit has the function called when the server has counted a click, before it
// answers the page; nil ends that.
func (l *Lane) onHit(fn func(id string)) {
	if fn == nil {
		l.hit.Store(nil)
		return
	}
	l.hit.Store(&fn)
}

// ServeHTTP serves the fixtures.
func (l *Lane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	fn := l.hit.Load()
	if fn == nil || r.Method != http.MethodPost || len(parts) != 4 || parts[1] != "count" || parts[3] != "hit" {
		l.Site.ServeHTTP(w, r)
		return
	}
	// The answer is held back until the function has returned.
	answer := httptest.NewRecorder()
	l.Site.ServeHTTP(answer, r)
	(*fn)(parts[2])
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the page may have gone
}

// Start starts a lane for the length of the test. The test's binary must act
// as pi-chrome when it is called so.
func Start(t testing.TB, headful bool) *Lane {
	t.Helper()
	return startBeside(t, headful)
}

// startBeside starts a lane whose browser has other extensions too.
func startBeside(t testing.TB, headful bool, others ...string) *Lane {
	t.Helper()
	exe, err := owner.Executable()
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{Executable: exe, Headful: headful, OwnDisplay: true, Note: t.Logf, OtherExtensions: others})
	assert.NilError(t, err)
	l := &Lane{Sandbox: box, Site: fixtures.New()}
	server := httptest.NewServer(l)
	l.URL = server.URL
	l.Cross = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	t.Cleanup(func() {
		log, err := os.ReadFile(bridge.LogPath(box.StateDir))
		assert.Check(t, err)
		for _, word := range []string{"DATA RACE", "panic", "fatal error"} {
			assert.Check(t, !strings.Contains(string(log), word), "the owner's log says %q", word)
		}
		if t.Failed() {
			t.Logf("the owner's log ends:\n%s", log[max(0, len(log)-4096):])
		}
		assert.Check(t, box.Close())
		server.Close()
	})
	return l
}

// Session is an agent's session of its own; its tabs are closed at the end of
// the test.
type Session struct {
	Key    string
	Client *client.Client

	t       testing.TB
	cleanup bool // of its tabs, at the end
}

// Session opens a session for the test.
func (l *Lane) Session(t testing.TB) *Session {
	t.Helper()
	c, err := l.Dial(t.Context())
	assert.NilError(t, err)
	s := &Session{Key: "test-" + string(rune('a'+l.sessions.Add(1)%26)) + wire.NewSecret()[:8], Client: c, t: t, cleanup: true}
	t.Cleanup(func() {
		if !s.cleanup {
			assert.Check(t, c.Close())
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, err := owner.Cleanup(ctx, c, s.Key)
		assert.Check(t, err)
		assert.Check(t, c.Close())
	})
	return s
}

// Run runs one operation by its wire name and returns its outcome.
func (s *Session) Run(operation string, input any) (client.Outcome, error) {
	raw, err := json.Marshal(input)
	assert.NilError(s.t, err)
	return s.Client.Command(s.t.Context(), wire.Command{
		Type: wire.TypeCommand, ID: wire.NewSecret(), Operation: operation, Session: wire.Session{Key: s.Key}, Input: raw,
	}, nil)
}

// Do runs one operation that must succeed.
func (s *Session) Do(operation string, input any) op.Result {
	s.t.Helper()
	out, err := s.Run(operation, input)
	assert.NilError(s.t, err)
	return out.Result
}

// Fail runs one operation that must fail, and returns its error.
func (s *Session) Fail(operation string, input any) *op.Error {
	s.t.Helper()
	out, err := s.Run(operation, input)
	assert.Assert(s.t, err != nil, "%s succeeded: %s", operation, out.Result.Text)
	return op.AsError(err)
}

// Value decodes the value of a result.
func Value[T any](t testing.TB, r op.Result) T {
	t.Helper()
	var v T
	assert.NilError(t, json.Unmarshal(r.Value, &v))
	return v
}

// Snapshot is the part of a snapshot that tests read.
type Snapshot struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Actions []struct {
		ID    string   `json:"id"`
		Role  string   `json:"role"`
		Name  string   `json:"name"`
		Verbs []string `json:"verbs"`
	} `json:"actions"`
}

// Ref takes a snapshot and returns the ref of the one action with the name.
func (s *Session) Ref(name string) string {
	s.t.Helper()
	r := s.Do("page.snapshot", map[string]any{"mode": "interactive"})
	for _, a := range Value[Snapshot](s.t, r).Actions {
		if a.Name == name {
			return a.ID
		}
	}
	s.t.Fatalf("no action is called %q:\n%s", name, r.Text)
	return ""
}

// Open navigates the session's tab to a page of the lane's server.
func (s *Session) Open(url string) {
	s.t.Helper()
	s.Do("page.navigate", map[string]any{"url": url, "waitUntilLoad": true})
}
