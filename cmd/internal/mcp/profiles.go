package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// ParseProfiles reads a list such as "core,tabs", or "all". The error is an
// *op.Error of kind invalid.
func ParseProfiles(list string) ([]string, error) {
	if strings.TrimSpace(list) == "all" {
		return owner.Profiles(), nil
	}
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if !slices.Contains(owner.Profiles(), name) {
			return nil, op.Invalidf("profiles has %q; allowed: %s, or all", name, strings.Join(owner.Profiles(), ", ")).WithDetail("field", "profiles")
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// dormant are the profiles whose tools are not offered yet.
func (f *face) dormant() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, p := range owner.Profiles() {
		if !slices.Contains(f.active, p) {
			out = append(out, p)
		}
	}
	return out
}

// toolsOf are the names of a profile's tools.
func (f *face) toolsOf(profile string) []string {
	var out []string
	for _, d := range f.tools {
		if d.Profile == profile {
			out = append(out, d.Tool)
		}
	}
	return out
}

func (f *face) addEnable() {
	names := f.dormant()
	var b strings.Builder
	b.WriteString("Offer more tools:")
	for _, p := range names {
		var short []string
		for _, t := range f.toolsOf(p) {
			short = append(short, strings.TrimPrefix(t, "chrome_"))
		}
		fmt.Fprintf(&b, " %s (%s);", p, strings.Join(short, ", "))
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"profile"},
		"properties": map[string]any{"profile": map[string]any{"type": "string", "enum": names}},
	})
	if err != nil {
		panic(err) // strings only
	}
	f.server.AddTool(&sdk.Tool{
		Name: op.EnableTool, Description: strings.TrimSuffix(b.String(), ";") + ".", InputSchema: json.RawMessage(schema),
		Annotations: &sdk.ToolAnnotations{DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(false)},
	}, f.enable)
}

// enable activates a profile. The client is told that its list has changed.
func (f *face) enable(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Profile string `json:"profile"`
	}
	// What is not an object has no profile, and is refused below.
	_ = json.Unmarshal(req.Params.Arguments, &in)
	profile := in.Profile
	if !slices.Contains(owner.Profiles(), profile) {
		return failed("", op.Invalidf("%s: field %q is %q; allowed: %s", op.EnableTool, "profile", profile, strings.Join(owner.Profiles()[1:], ", ")).WithDetail("field", "profile")), nil
	}
	f.mu.Lock()
	known := slices.Contains(f.active, profile)
	if !known {
		f.active = append(f.active, profile)
	}
	f.mu.Unlock()
	tools := f.toolsOf(profile)
	if known {
		return said(fmt.Sprintf("Chrome %s capabilities are already enabled.", profile)), nil
	}
	for _, d := range f.tools {
		if d.Profile == profile {
			f.addTool(d)
		}
	}
	text := fmt.Sprintf("Enabled Chrome %s capabilities: %s", profile, strings.Join(tools, ", "))
	if d, ok := f.find(op.DoName); ok {
		text += "\nA client that does not show them can run them as steps of " + d.Tool + "."
	}
	return said(text), nil
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
