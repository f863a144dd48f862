package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"
)

// gone are operations of each kind: one of many, a whole profile, one with a
// resource, ones that surfaces treat specially.
var gone = map[string]string{
	"opHover": "chrome_hover", "opConsole": "chrome_console", "opNetworkList": "chrome_network_list", "opNetworkGet": "chrome_network_get",
	"opScreenshot": "chrome_screenshot", "opTabList": "chrome_tab_list", "opSelect": "chrome_select", "opDo": "chrome_do",
}

// TestRemovedOperations builds the program with some operations struck from the
// list, and nothing else changed: no surface offers one, and no text names one.
func TestRemovedOperations(t *testing.T) {
	p := without(t, gone)
	named := regexp.MustCompile(`\b(` + strings.Join(values(gone), "|") + `)\b`)
	check := func(what, text string) {
		t.Helper()
		assert.Assert(t, len(text) > 50, "%s says only %q", what, text)
		if found := named.FindAllString(text, -1); found != nil {
			t.Errorf("%s names %q", what, found)
		}
	}
	for _, args := range [][]string{
		{"help"}, {"operations"}, {"operations", "--markdown"}, {"--json", "operations"}, {"man"}, {"skill"}, {"help", "mcp"},
		{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
		{"__complete", "--", "zsh", "="}, {"__complete", "--", "zsh", "call", "="}, {"__complete", "--", "zsh", "operations", "="}, {"mcp", "config", "cursor"},
	} {
		check(strings.Join(args, " "), p.run(t, args...))
	}

	// Each command, and what completes after it.
	var help struct{ Value struct{ Commands []string } }
	assert.NilError(t, json.Unmarshal([]byte(p.run(t, "--json", "help")), &help))
	assert.Assert(t, slices.Contains(help.Value.Commands, "click"))
	completed := p.run(t, "__complete", "--", "zsh", "=")
	for _, tool := range values(gone) {
		command := strings.ReplaceAll(strings.TrimPrefix(tool, "chrome_"), "_", "-")
		assert.Assert(t, !slices.Contains(help.Value.Commands, command), "there is a command %s", command)
		assert.Assert(t, !regexp.MustCompile(`(?m)^`+command+`\b`).MatchString(completed), "%s is completed", command)
		for _, args := range [][]string{{command}, {"call", tool}, {"help", command}, {"man", command}, {"operations", tool}} {
			_, err := p.output(args...)
			exit, ok := err.(*exec.ExitError)
			assert.Assert(t, ok, "%q works", args)
			assert.Equal(t, exit.ExitCode(), 2, "%q", args)
		}
	}
	for _, command := range help.Value.Commands {
		check("help "+command, p.run(t, "help", command))
	}

	check("pi-host", p.piHost(t))
	for _, profiles := range []string{"core", "all"} {
		check("mcp --profiles "+profiles, p.mcp(t, profiles))
	}
	// A profile without a tool is none.
	assert.Assert(t, !strings.Contains(p.run(t, "help", "mcp"), "network"))
	assert.Assert(t, !strings.Contains(p.run(t, "__complete", "--", "zsh", "mcp", "=--profiles="), "capture"))
	_, err := p.output("mcp", "--profiles", "capture")
	assert.Assert(t, err != nil)
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// program is a build of pi-chrome without some operations.
type program struct{ path, dir string }

// without builds the program with lines struck from the list of operations.
func without(t *testing.T, vars map[string]string) program {
	t.Helper()
	dir := t.TempDir()
	const list = "driver/operations.go"
	source := string(read(t, list))
	for v := range vars {
		line := "\t\t" + v + ",\n"
		assert.Equal(t, strings.Count(source, line), 1, "%s lists %s", list, v)
		source = strings.Replace(source, line, "", 1)
	}
	changed := filepath.Join(dir, "operations.go")
	assert.NilError(t, os.WriteFile(changed, []byte(source), 0o600))
	original, err := filepath.Abs(filepath.Join(root, list))
	assert.NilError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	p := program{filepath.Join(dir, "pi-chrome"), dir}
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", p.path, "./cmd/pi-chrome")
	build.Dir = root
	out, err := build.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return p
}

func (p program) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.path, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PI_CHROME_STATE_DIR="+filepath.Join(p.dir, "state"), "PI_CHROME_PORT=1")
	return cmd
}

func (p program) output(args ...string) (string, error) {
	out, err := p.command(args...).Output()
	return string(out), err
}

func (p program) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.output(args...)
	assert.NilError(t, err, "%q", args)
	return out
}

// piHost is what the Pi package is told when a session begins.
func (p program) piHost(t *testing.T) string {
	t.Helper()
	cmd := p.command("pi-host")
	cmd.Stdin = strings.NewReader(`{"id":1,"method":"open","params":{"protocol":1,"session":{"key":"session:s","title":"Pi"},"cwd":"/"}}` + "\n")
	out, err := cmd.Output()
	assert.NilError(t, err)
	var opened struct {
		Result struct {
			Tools  []struct{ Name string }
			Enable struct {
				Parameters struct {
					Properties struct{ Profile struct{ Enum []string } }
				}
			}
		}
	}
	assert.NilError(t, json.Unmarshal(out, &opened))
	assert.Assert(t, len(opened.Result.Tools) > 20)
	assert.DeepEqual(t, opened.Result.Enable.Parameters.Properties.Profile.Enum, []string{"tabs", "page", "interaction"})
	return string(out)
}

// mcp is all that a client is told before it calls anything.
func (p program) mcp(t *testing.T, profiles string) string {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: p.command("mcp", "--profiles", profiles)}, nil)
	assert.NilError(t, err)
	defer func() { assert.Check(t, c.Close()) }()
	tools, err := c.ListTools(t.Context(), nil)
	assert.NilError(t, err)
	assert.Assert(t, len(tools.Tools) > 5)
	resources, err := c.ListResources(t.Context(), nil)
	assert.NilError(t, err)
	for _, r := range resources.Resources {
		assert.Assert(t, r.URI != "pi-chrome://tabs", "the resource has no tool any more")
	}
	guide, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "chrome_guide"})
	assert.NilError(t, err)
	all, err := json.Marshal([]any{c.InitializeResult(), tools, resources, guide})
	assert.NilError(t, err)
	return string(all)
}

// TestRepoNamedToolsExist holds that no document names a tool that there is not.
func TestRepoNamedToolsExist(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	assert.NilError(t, err)
	known := map[string]bool{"chrome_enable": true, "chrome_guide": true}
	for _, m := range regexp.MustCompile(`(?m)^## (chrome_\w+)$`).FindAllStringSubmatch(string(list), -1) {
		known[m[1]] = true
	}
	assert.Assert(t, len(known) > 30)
	for _, name := range tracked(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		for _, m := range regexp.MustCompile("`(?:pi-chrome call )?(chrome_[a-z_]+)\\b[^`]*`").FindAllStringSubmatch(string(read(t, name)), -1) {
			if !known[m[1]] && !strings.HasPrefix(m[1], "chrome_loop") {
				t.Errorf("%s names %s, which is no tool", name, m[1])
			}
		}
	}
}
