package pihost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"pi-chrome/driver/op"
)

// tool is one tool as Pi registers it.
type tool struct {
	Name          string `json:"name"`
	Label         string `json:"label"`
	Profile       string `json:"profile"`
	Description   string `json:"description"`
	PromptSnippet string `json:"promptSnippet"`
	Parameters    any    `json:"parameters"`
}

type enableTool struct {
	tool
	Already string `json:"already"` // text when a profile is active; {profile}
	Enabled string `json:"enabled"` // text when it becomes so; {profile}, {tools}
}

type opened struct {
	Version     string       `json:"version"`
	Tools       []tool       `json:"tools"`
	Enable      enableTool   `json:"enable"`
	Subcommands []subcommand `json:"subcommands"`
}

func (h *host) open(params json.RawMessage) (any, error) {
	var in struct {
		Protocol int     `json:"protocol"`
		Session  Session `json:"session"`
		Dir      string  `json:"cwd"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, op.Invalidf("open cannot be read: %s", err)
	}
	if in.Protocol != Protocol {
		return nil, op.NotAvailable(op.VersionMismatch, "the Pi package speaks version %d, this pi-chrome %s version %d; nothing was sent", in.Protocol, h.o.Version, Protocol).
			WithHint("run pi-chrome pi install, then /reload in Pi")
	}
	if !strings.HasPrefix(in.Session.Key, "session:") || in.Session.Key == "session:" {
		return nil, op.Invalidf("session.key is %q; it must be session: and Pi's id", in.Session.Key)
	}
	list, err := h.o.Backend.Tools()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.session, h.dir, h.opened = in.Session, in.Dir, true
	h.mu.Unlock()
	out := opened{Version: h.o.Version, Enable: enable(list), Subcommands: subcommands}
	for _, d := range list {
		out.Tools = append(out.Tools, tool{Name: d.Tool, Label: label(d.Tool), Profile: d.Profile, Description: d.ModelText, PromptSnippet: d.Summary, Parameters: d.ModelInput})
	}
	return out, nil
}

// label is the name of a tool as a person reads it: "Tab List".
func label(name string) string {
	words := strings.Split(strings.TrimPrefix(name, "chrome_"), "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

// enable describes chrome_enable: every profile but the core with its tools.
func enable(list []op.Descriptor) enableTool {
	var profiles []any
	var lines []string
	for _, p := range op.Profiles {
		if p == "core" {
			continue
		}
		var names []string
		for _, d := range list {
			if d.Profile == p {
				names = append(names, d.Tool)
			}
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		profiles = append(profiles, p)
		lines = append(lines, fmt.Sprintf("%s: %s", p, strings.Join(names, ", ")))
	}
	return enableTool{
		tool: tool{
			Name: op.EnableTool, Label: label(op.EnableTool), PromptSnippet: "Make more Chrome tools available.",
			Description: "Make a profile of further Chrome tools available at once. " + strings.Join(lines, "; ") + ".",
			Parameters: &jsonschema.Schema{
				Type: "object", Required: []string{"profile"}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
				Properties: map[string]*jsonschema.Schema{"profile": {Type: "string", Enum: profiles, Description: "the profile to make available"}},
			},
		},
		Already: "Chrome {profile} capabilities are already enabled.",
		Enabled: "Enabled Chrome {profile} capabilities: {tools}",
	}
}
