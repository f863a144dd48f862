package mcp

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
)

// startOwner runs an owner without a browser, and returns what connects to it.
func startOwner(t *testing.T) func(context.Context) (*client.Client, error) {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan int, 1), make(chan error, 1)
	go func() {
		done <- owner.Run(ctx, owner.Options{StateDir: dir, Ready: func(port int) { ready <- port }})
	}()
	t.Cleanup(func() {
		stop()
		assert.Check(t, <-done)
	})
	select {
	case port := <-ready:
		return func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, client.Options{Port: port, StateDir: dir, Name: "test"})
		}
	case err := <-done:
		done <- nil
		t.Fatal(err)
		return nil
	}
}

// TestPolicyIsSetWithTheAuthorization: the first call gives the session its
// policy; a policy that the owner does not take leaves the session locked.
func TestPolicyIsSetWithTheAuthorization(t *testing.T) {
	dial := startOwner(t)
	stands := func(session string) bridge.SessionStatus {
		c, err := dial(t.Context())
		assert.NilError(t, err)
		defer c.Close()
		st, err := owner.Status(t.Context(), c, session)
		assert.NilError(t, err)
		return st.Session
	}
	call := func(session, policy string) string {
		o := Options{Connect: dial, Session: session, Authorize: &Authorization{Minutes: 5}}
		if policy != "" {
			o.Authorize.Policy = []byte(policy)
		}
		res, err := connect(t, o, nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "chrome_status"})
		assert.NilError(t, err)
		return res.Content[0].(*sdk.TextContent).Text
	}
	call("good", `{"version":1,"readOnly":true}`)
	st := stands("mcp:good")
	assert.Equal(t, st.Authorization, bridge.AuthorizedUntil)
	assert.Assert(t, st.Policy != nil && st.Policy.ReadOnly)

	call("good", "")
	assert.Assert(t, stands("mcp:good").Policy != nil, "a later connection without one took it away")

	call("none", "")
	st = stands("mcp:none")
	assert.Equal(t, st.Authorization, bridge.AuthorizedUntil)
	assert.Assert(t, st.Policy == nil)

	text := call("bad", `{"version":1,"readOnly":"yes"}`)
	assert.Assert(t, strings.HasPrefix(text, "error: "), text)
	assert.Equal(t, stands("mcp:bad").Authorization, bridge.Locked)
}

// TestRestartUndoesNoLock: what the user took away stays away from a client
// that starts again, is told with the way out, and what they then allow is not
// replaced by what --authorize says.
func TestRestartUndoesNoLock(t *testing.T) {
	dial := startOwner(t)
	c, err := dial(t.Context())
	assert.NilError(t, err)
	defer c.Close()
	o := Options{Connect: dial, Session: "work", Authorize: &Authorization{Policy: []byte(`{"version":1,"readOnly":true}`)}}
	call := func(s *sdk.ClientSession, tool string) string {
		res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool})
		assert.NilError(t, err)
		return res.Content[0].(*sdk.TextContent).Text
	}
	stands := func() bridge.AuthorizationMode {
		st, err := owner.Status(t.Context(), c, "mcp:work")
		assert.NilError(t, err)
		return st.Session.Authorization
	}
	call(connect(t, o, nil), "chrome_status")
	assert.Equal(t, stands(), bridge.AuthorizedIndefinite)
	_, err = owner.Revoke(t.Context(), c, "mcp:work")
	assert.NilError(t, err)

	again := connect(t, o, nil)
	text := call(again, "chrome_status") // needs no authorization
	assert.Assert(t, !strings.HasPrefix(text, "error: "), text)
	assert.Equal(t, stands(), bridge.Locked)
	text = call(again, "chrome_snapshot")
	for _, part := range []string{`error: session "mcp:work" may not use the browser`, "pi-chrome authorize --session mcp:work", "--policy FILE"} {
		assert.Assert(t, strings.Contains(text, part), text)
	}
	_, err = owner.Authorize(t.Context(), c, "mcp:work", 5)
	assert.NilError(t, err)
	text = call(again, "chrome_snapshot")
	assert.Assert(t, strings.Contains(text, "no browser profile is paired"), text)
	assert.Equal(t, stands(), bridge.AuthorizedUntil, "the user's five minutes are replaced")
}
