package relaytest

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

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
}

// Start starts a lane for the length of the test. The test's binary must act
// as pi-chrome when it is called so.
func Start(t *testing.T, headful bool) *Lane {
	t.Helper()
	exe, err := owner.Executable()
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{Executable: exe, Headful: headful, Note: t.Logf})
	assert.NilError(t, err)
	l := &Lane{Sandbox: box, Site: fixtures.New()}
	server := httptest.NewServer(l.Site)
	l.URL = server.URL
	l.Cross = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	t.Cleanup(func() {
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

	t *testing.T
}

// Session opens a session for the test.
func (l *Lane) Session(t *testing.T) *Session {
	t.Helper()
	c, err := l.Dial(t.Context())
	assert.NilError(t, err)
	s := &Session{Key: "test-" + string(rune('a'+l.sessions.Add(1)%26)) + wire.NewSecret()[:8], Client: c, t: t}
	t.Cleanup(func() {
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
func Value[T any](t *testing.T, r op.Result) T {
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
