package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pi-chrome/driver/op"
)

// name is how clients call the server.
const name = "pi-chrome"

// Server is what a client's configuration leads to: a program that it starts,
// or the address of one that runs.
type Server struct {
	Command string // absolute path
	Args    []string
	URL     string // set for HTTP
	Token   string // with URL
}

// ClientConfig is the ready configuration of one client.
type ClientConfig struct {
	Client string `json:"client"`
	Title  string `json:"title"`
	Where  string `json:"where"` // the file, or how to run it
	Text   string `json:"text"`  // what stands there
}

// layout says how a client writes a server down.
type layout struct {
	id, title string
	where     string
	// write returns the text; an *op.Error where the client cannot do it.
	write func(s Server) (string, error)
}

// layouts are the known clients. The facts are those of the clients' own
// documentation in November 2026.
var layouts = []layout{
	{"claude-desktop", "Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config); then quit Claude Desktop and start it again",
		func(s Server) (string, error) {
			if s.URL != "" {
				return "", op.Invalidf("Claude Desktop starts its servers itself and takes no address").WithHint("leave out --http")
			}
			return under("mcpServers", fields{{"command", s.Command}, {"args", s.Args}})
		}},
	{"claude-code", "Claude Code", "run this in a shell", claudeCode},
	{"cursor", "Cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", json1("mcpServers", "url")},
	{"vscode", "VS Code", ".vscode/mcp.json of a workspace, or the command MCP: Open User Configuration",
		func(s Server) (string, error) {
			if s.URL != "" {
				return under("servers", fields{{"type", "http"}, {"url", s.URL}, {"headers", bearer(s)}})
			}
			return under("servers", fields{{"type", "stdio"}, {"command", s.Command}, {"args", s.Args}})
		}},
	{"codex", "Codex", "~/.codex/config.toml", codex},
	{"gemini", "Gemini CLI", "~/.gemini/settings.json, or .gemini/settings.json of a project", json1("mcpServers", "httpUrl")},
	{"zed", "Zed", "settings.json (the command zed: open settings file)", json1("context_servers", "url")},
	{"windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", json1("mcpServers", "serverUrl")},
	{"opencode", "OpenCode", "opencode.json of a project, or ~/.config/opencode/opencode.json",
		func(s Server) (string, error) {
			if s.URL != "" {
				return under("mcp", fields{{"type", "remote"}, {"url", s.URL}, {"headers", bearer(s)}, {"enabled", true}})
			}
			return under("mcp", fields{{"type", "local"}, {"command", append([]string{s.Command}, s.Args...)}, {"enabled", true}})
		}},
	{"cline", "Cline", "cline_mcp_settings.json (MCP Servers, Configure)",
		func(s Server) (string, error) {
			if s.URL != "" {
				return under("mcpServers", fields{{"type", "streamableHttp"}, {"url", s.URL}, {"headers", bearer(s)}})
			}
			return under("mcpServers", fields{{"command", s.Command}, {"args", s.Args}})
		}},
}

// Clients are the names of the known clients.
func Clients() []string {
	var out []string
	for _, l := range layouts {
		out = append(out, l.id)
	}
	return out
}

// Configure returns the configuration of a client. An unknown one is an
// *op.Error that lists the known.
func Configure(client string, s Server) (ClientConfig, error) {
	id := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(client)), " ", "-")
	i := slices.IndexFunc(layouts, func(l layout) bool { return l.id == id || strings.ReplaceAll(strings.ToLower(l.title), " ", "-") == id })
	if i < 0 {
		return ClientConfig{}, op.Invalidf("unknown client %q; known: %s", client, strings.Join(Clients(), ", ")).
			WithDetail("clients", Clients()).WithHint("other clients take the form of one of these, most often that of cursor")
	}
	l := layouts[i]
	text, err := l.write(s)
	if err != nil {
		return ClientConfig{}, err
	}
	return ClientConfig{Client: l.id, Title: l.title, Where: l.where, Text: text}, nil
}

// fields are a JSON object in their order.
type fields []struct {
	name  string
	value any
}

// MarshalJSON writes the object.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, e := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := plainJSON(e.value)
		if err != nil {
			return nil, err
		}
		b.WriteString(strconv.Quote(e.name) + ":")
		b.Write(value)
	}
	return append(append([]byte("{"), b.Bytes()...), '}'), nil
}

// plainJSON is JSON as a person writes it, with < and > as they are.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// under is a server as the one entry of a top-level key.
func under(key string, server fields) (string, error) {
	raw, err := plainJSON(fields{{key, fields{{name, server}}}})
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", err
	}
	return b.String(), nil
}

func bearer(s Server) fields { return fields{{"Authorization", "Bearer " + s.Token}} }

// json1 is the form that most clients share; urlField names an address.
func json1(key, urlField string) func(Server) (string, error) {
	return func(s Server) (string, error) {
		if s.URL != "" {
			return under(key, fields{{urlField, s.URL}, {"headers", bearer(s)}})
		}
		return under(key, fields{{"command", s.Command}, {"args", s.Args}})
	}
}

func claudeCode(s Server) (string, error) {
	if s.URL != "" {
		return fmt.Sprintf("claude mcp add --scope user --transport http %s %s --header %s", name, s.URL, quote("Authorization: Bearer "+s.Token)), nil
	}
	words := []string{"claude", "mcp", "add", "--scope", "user", "--transport", "stdio", name, "--", quote(s.Command)}
	for _, a := range s.Args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " "), nil
}

func codex(s Server) (string, error) {
	// A basic string of TOML and a string of JSON are written alike.
	text := func(v any) (string, error) {
		raw, err := plainJSON(v)
		return string(raw), err
	}
	if s.URL != "" {
		url, err := text(s.URL)
		if err != nil {
			return "", err
		}
		header, err := text("Bearer " + s.Token)
		return fmt.Sprintf("[mcp_servers.%s]\nurl = %s\nhttp_headers = { Authorization = %s }", name, url, header), err
	}
	command, err := text(s.Command)
	if err != nil {
		return "", err
	}
	args, err := text(s.Args)
	return fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = %s", name, command, args), err
}

// quote makes one word of a shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
