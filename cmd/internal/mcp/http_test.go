package mcp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/driver/op"
)

// served is an HTTP server of tools in this process.
type served struct {
	url, token string
	end        func() error
}

func serve(t *testing.T, connect func(context.Context) (*client.Client, error)) served {
	t.Helper()
	l, err := Listen(0)
	assert.NilError(t, err)
	s := served{url: URL(l), token: strings.Repeat("ab", 32)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeHTTP(ctx, Options{Connect: connect, Dir: t.TempDir()}, l, s.token) }()
	ended := false
	s.end = func() error {
		cancel()
		ended = true
		return <-done
	}
	t.Cleanup(func() {
		if !ended {
			assert.Check(t, s.end())
		}
	})
	return s
}

// withToken shows the token with every request.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

func (s served) connect(t *testing.T, opts *sdk.ClientOptions) (*sdk.ClientSession, error) {
	t.Helper()
	return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: withToken(s.token)}, MaxRetries: -1}, nil)
}

// TestHTTPEndsAtOnce: a server that is told to end waits neither for open
// streams nor for the call of a client that waits for its owner.
func TestHTTPEndsAtOnce(t *testing.T) {
	reached := make(chan struct{})
	s := serve(t, func(ctx context.Context) (*client.Client, error) {
		close(reached)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c, err := s.connect(t, nil)
	assert.NilError(t, err)
	called := make(chan struct{})
	go func() {
		defer close(called)
		_, _ = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "chrome_status"}) // its connection ends
	}()
	<-reached
	began := time.Now()
	assert.NilError(t, s.end())
	assert.Assert(t, time.Since(began) < 10*time.Second)
	<-called
	_ = c.Close() // the server has gone
}

// TestHTTPConnectionsAreApart: each connection has its own session and its own
// tools, and there is a bound to their number.
func TestHTTPConnectionsAreApart(t *testing.T) {
	s := serve(t, noOwner)
	var all []*sdk.ClientSession
	for range maxConnections {
		c, err := s.connect(t, nil)
		assert.NilError(t, err)
		all = append(all, c)
	}
	_, err := s.connect(t, nil)
	assert.ErrorContains(t, err, "Service Unavailable")

	_, err = all[0].CallTool(t.Context(), &sdk.CallToolParams{Name: op.EnableTool, Arguments: map[string]any{"profile": "tabs"}})
	assert.NilError(t, err)
	count := func(c *sdk.ClientSession) int {
		list, err := c.ListTools(t.Context(), nil)
		assert.NilError(t, err)
		return len(list.Tools)
	}
	assert.Assert(t, count(all[0]) > count(all[1]))

	// One that ends makes room.
	assert.NilError(t, all[1].Close())
	deadline := time.Now().Add(10 * time.Second)
	for {
		if c, err := s.connect(t, nil); err == nil {
			all[1] = c
			break
		}
		assert.Assert(t, time.Now().Before(deadline), "an ended connection still counts")
	}
	for _, c := range all {
		assert.Check(t, c.Close())
	}
}

// TestHTTPRefusals: what is no conversation opens none.
func TestHTTPRefusals(t *testing.T) {
	s := serve(t, noOwner)
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200}, // refused in the protocol
		{http.MethodPost, "/mcp", `no JSON`, 400},
		{http.MethodGet, "/mcp", "", 400},
		{http.MethodGet, "/", "", 404},
		{http.MethodPut, "/mcp", "", 405},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, strings.TrimSuffix(s.url, Endpoint)+tt.path, strings.NewReader(tt.body))
		assert.NilError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := (&http.Client{Transport: withToken(s.token)}).Do(r)
		assert.NilError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.NilError(t, err)
		assert.NilError(t, resp.Body.Close())
		assert.Equal(t, resp.StatusCode, tt.want, "%s %s: %s", tt.method, tt.path, body)
		assert.Assert(t, !strings.Contains(string(body), "chrome_click"), "%s", body)
	}
	// None of them is kept as a connection.
	for range maxConnections {
		c, err := s.connect(t, nil)
		assert.NilError(t, err)
		defer func() { assert.Check(t, c.Close()) }()
	}
}
