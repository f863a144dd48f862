package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/guide"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// TestSchemasForModels: what a model is told of an input is a flat object
// whose fields are fields of the published schema, with the same types and
// choices; what is required is told.
func TestSchemasForModels(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	for _, d := range list {
		var short jsonschema.Schema
		assert.NilError(t, json.Unmarshal(d.ModelInput, &short), d.Tool)
		assert.Equal(t, short.Type, "object", d.Tool)
		sameFields(t, d.Tool, &short, d.Input, list)
		assert.DeepEqual(t, short.Required, d.Input.Required)
		assert.Assert(t, d.ModelText != "", d.Tool)
	}
}

func sameFields(t *testing.T, at string, short, full *jsonschema.Schema, list []op.Descriptor) {
	t.Helper()
	if short.Type == "object" && strings.ContainsAny(at, ".[") {
		assert.Assert(t, len(short.Properties) > 0, "%s has no fields, which some providers refuse", at)
	}
	if full.Type == "object" && full.Properties == nil && full.AdditionalProperties == nil {
		// The input of another tool: the fields that are shown are texts of some.
		for name, p := range short.Properties {
			assert.Assert(t, slices.ContainsFunc(list, func(d op.Descriptor) bool {
				f := d.Input.Properties[name]
				return f != nil && f.Type == p.Type && p.Type == "string"
			}), "no tool has a text %s.%s", at, name)
		}
		return
	}
	assert.Assert(t, len(short.Types) == 0 && len(short.AnyOf) == 0 && short.Ref == "" && short.Type != "", "%s is no plain schema", at)
	if full.Type != "" {
		assert.Equal(t, short.Type, full.Type, at)
	}
	assert.DeepEqual(t, short.Enum, full.Enum)
	for name, p := range short.Properties {
		assert.Assert(t, full.Properties[name] != nil, "%s.%s is no field", at, name)
		sameFields(t, at+"."+name, p, full.Properties[name], list)
	}
	if short.Items != nil {
		sameFields(t, at+"[]", short.Items, full.Items, list)
	}
}

// TestAnnotations: a tool is said to only read when no call of it can change
// anything.
func TestAnnotations(t *testing.T) {
	c := connect(t, Options{Profiles: op.Profiles}, nil)
	list, err := c.ListTools(t.Context(), nil)
	assert.NilError(t, err)
	hints := map[string]*sdk.ToolAnnotations{}
	for _, tool := range list.Tools {
		hints[tool.Name] = tool.Annotations
	}
	for tool, reads := range map[string]bool{
		"chrome_snapshot": true, "chrome_read": true, "chrome_screenshot": true, "chrome_tab_list": true,
		"chrome_click": false, "chrome_evaluate": false, "chrome_do": false,
		"chrome_wait": false, "chrome_inspect": false, "chrome_dialog": false, // some calls of these may
	} {
		h := hints[tool]
		assert.Assert(t, h != nil, tool)
		assert.Equal(t, h.ReadOnlyHint, reads, tool)
		assert.Equal(t, *h.DestructiveHint, !reads, tool)
		assert.Equal(t, h.IdempotentHint, reads, tool)
		assert.Equal(t, *h.OpenWorldHint, true, tool)
	}
	_, offered := hints[op.EnableTool]
	assert.Assert(t, !offered, "there is nothing left to enable")
}

// TestNoOwner: without an owner a call fails as a result that a model sees.
func TestNoOwner(t *testing.T) {
	c := connect(t, Options{}, nil)
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "chrome_status"})
	assert.NilError(t, err)
	assert.Equal(t, res.IsError, true)
	assert.Equal(t, res.Content[0].(*sdk.TextContent).Text, "error: no owner in this test")
	raw, err := json.Marshal(res.StructuredContent)
	assert.NilError(t, err)
	assert.Assert(t, bytes.Contains(raw, []byte(`"code":"bridge-unavailable"`)), string(raw))
}

// TestToolsThatAreNotOffered: a tool that can be enabled says how, where the
// model sees it; one that there is not is refused as on every surface.
func TestToolsThatAreNotOffered(t *testing.T) {
	c := connect(t, Options{}, nil)
	call := func(tool string) (*op.Error, error) {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool})
		if err != nil {
			return nil, err
		}
		assert.Equal(t, res.IsError, true)
		raw, err := json.Marshal(res.StructuredContent)
		assert.NilError(t, err)
		var told failure
		assert.NilError(t, json.Unmarshal(raw, &told))
		assert.Equal(t, res.Content[0].(*sdk.TextContent).Text, told.Error.Text())
		return told.Error, nil
	}
	e, err := call("chrome_screenshot")
	assert.NilError(t, err)
	assert.Equal(t, e.Code, op.UnknownTool)
	assert.Equal(t, e.Hint, "call chrome_enable with the profile capture, then call it again")
	_, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: op.EnableTool, Arguments: map[string]any{"profile": "capture"}})
	assert.NilError(t, err)
	e, err = call("chrome_screenshot")
	assert.NilError(t, err)
	assert.Equal(t, e.Code, op.BridgeUnavailable, "it is called now")

	_, err = call("chrome_fly")
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	assert.Assert(t, ok, "%v", err)
	assert.Equal(t, wire.Code, int64(jsonrpc.CodeInvalidParams))
	_, want := owner.Find("chrome_fly")
	var told failure
	assert.NilError(t, json.Unmarshal(wire.Data, &told))
	assert.Equal(t, told.Error.Text(), op.AsError(want).Text())
	assert.Equal(t, wire.Message, want.Error())
	_, err = call("page.snapshot")
	assert.ErrorContains(t, err, "unknown tool", "a model is told one name")
}

// TestGuard: only a client on this machine that knows the token gets through.
func TestGuard(t *testing.T) {
	token := strings.Repeat("ab", 32)
	h := guard("127.0.0.1:17319", token, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, tt := range []struct {
		name, host, auth string
		origin           *string
		want             int
	}{
		{"good", "127.0.0.1:17319", "Bearer " + token, nil, 204},
		{"by name", "LocalHost:17319", "Bearer " + token, nil, 204},
		{"no token", "127.0.0.1:17319", "", nil, 401},
		{"wrong token", "127.0.0.1:17319", "Bearer " + strings.Repeat("ac", 32), nil, 401},
		{"part of the token", "127.0.0.1:17319", "Bearer ab", nil, 401},
		{"another scheme", "127.0.0.1:17319", "Basic " + token, nil, 401},
		{"a page", "127.0.0.1:17319", "Bearer " + token, new("https://example.org"), 403},
		{"a page of this machine", "127.0.0.1:17319", "Bearer " + token, new("http://localhost:17319"), 403},
		{"an opaque page", "127.0.0.1:17319", "Bearer " + token, new("null"), 403},
		{"an empty origin", "127.0.0.1:17319", "Bearer " + token, new(""), 403},
		{"another name for us", "evil.example:17319", "Bearer " + token, nil, 403},
		{"another port", "127.0.0.1:80", "Bearer " + token, nil, 403},
		{"no port", "127.0.0.1", "Bearer " + token, nil, 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host = tt.host
		if tt.auth != "" {
			r.Header.Set("Authorization", tt.auth)
		}
		if tt.origin != nil {
			r.Header["Origin"] = []string{*tt.origin}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, w.Code, tt.want, tt.name)
	}
}

// TestToken: everybody gets the same token, also when several start at once.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	tokens := make([]string, 8)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			token, err := Token(dir)
			assert.Check(t, err)
			tokens[i] = token
		})
	}
	wg.Wait()
	assert.Equal(t, len(slices.Compact(tokens)), 1, "%q", tokens)
	assert.Equal(t, len(tokens[0]), 64)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, tokenFile), []byte("short"), 0o600))
	_, err := Token(dir)
	assert.ErrorContains(t, err, "does not hold 64 hex digits")
}

// TestShotsAreBounded: what is kept pushes out the oldest.
func TestShotsAreBounded(t *testing.T) {
	var s shots
	for i := range maxShots {
		n, gone := s.add(artifact.Picture{MIMEType: "image/png", Data: make([]byte, 10)})
		assert.Equal(t, n, i+1)
		assert.Equal(t, len(gone), 0)
	}
	n, gone := s.add(artifact.Picture{MIMEType: "image/png", Data: make([]byte, maxShotBytes)})
	assert.Equal(t, n, maxShots+1)
	assert.Equal(t, len(gone), maxShots, "a large one pushes out all others, and stays itself")
}

// TestConfigurations writes every client's configuration, for a program and
// for an address.
func TestConfigurations(t *testing.T) {
	var b strings.Builder
	for _, id := range Clients() {
		for _, s := range []Server{
			{Command: `/opt/my tools/pi-chrome`, Args: []string{"mcp", "--session=it's"}},
			{URL: "http://127.0.0.1:17319/mcp", Token: "TOKEN"},
		} {
			c, err := Configure(id, s)
			if err != nil {
				b.WriteString("# " + id + "\n" + op.AsError(err).Text() + "\n\n")
				continue
			}
			b.WriteString("# " + c.Title + ": " + c.Where + "\n" + c.Text + "\n\n")
		}
	}
	golden.Assert(t, b.String(), "configurations.golden")
}

func TestParseProfiles(t *testing.T) {
	got, err := ParseProfiles(" core, tabs ,tabs,")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []string{"core", "tabs"})
	got, err = ParseProfiles("all")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, op.Profiles)
	_, err = ParseProfiles("core,x")
	assert.ErrorContains(t, err, `profiles has "x"; allowed: core, tabs`)
}

// TestPromptIsTheGuide: the prompt is the text of `pi-chrome skill`, and the
// task after it.
func TestPromptIsTheGuide(t *testing.T) {
	want, err := guide.Text()
	assert.NilError(t, err)
	c := connect(t, Options{}, nil)
	for task, end := range map[string]string{"": "", "  ": "", " buy a lamp ": "\n\nThe task: buy a lamp"} {
		res, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "chrome_guide", Arguments: map[string]string{"task": task}})
		assert.NilError(t, err)
		assert.Equal(t, len(res.Messages), 1)
		assert.Equal(t, res.Messages[0].Content.(*sdk.TextContent).Text, want+end)
	}
}
