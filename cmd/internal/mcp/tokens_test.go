package mcp

import (
	"context"
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tiktoken-go/tokenizer"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/driver/op"
)

// noOwner is for what needs no owner.
func noOwner(context.Context) (*client.Client, error) {
	return nil, op.NotAvailable(op.BridgeUnavailable, "no owner in this test")
}

// connect serves a connection in memory and returns its client.
func connect(t *testing.T, o Options, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	if o.Connect == nil {
		o.Connect = noOwner
	}
	f, err := newFace(o, newLink(o.Connect))
	assert.NilError(t, err)
	near, far := sdk.NewInMemoryTransports()
	server, err := f.server.Connect(t.Context(), near, nil)
	assert.NilError(t, err)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), far, nil)
	assert.NilError(t, err)
	t.Cleanup(func() {
		assert.Check(t, c.Close())
		_ = server.Wait() // the client has ended it
	})
	return c
}

// TestTokenPrice: the answer to tools/list, all of it, is what a client may
// put before its model in every conversation.
func TestTokenPrice(t *testing.T) {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	assert.NilError(t, err)
	for _, tt := range []struct {
		profiles string
		limit    int
	}{{"core", 2500}, {"all", 8000}} {
		profiles, err := ParseProfiles(tt.profiles)
		assert.NilError(t, err)
		c := connect(t, Options{Profiles: profiles}, nil)
		list, err := c.ListTools(t.Context(), nil)
		assert.NilError(t, err)
		raw, err := json.Marshal(list)
		assert.NilError(t, err)
		n, err := enc.Count(string(raw))
		assert.NilError(t, err)
		t.Logf("%s: %d tools, %d tokens, %d bytes", tt.profiles, len(list.Tools), n, len(raw))
		for _, tool := range list.Tools {
			raw, err := json.Marshal(tool)
			assert.NilError(t, err)
			n, err := enc.Count(string(raw))
			assert.NilError(t, err)
			t.Logf("  %4d %s", n, tool.Name)
		}
		assert.Assert(t, n <= tt.limit, "the tools of %s cost %d tokens, more than %d", tt.profiles, n, tt.limit)
	}
}
