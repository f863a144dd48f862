package main_test

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/cli"
)

// forms are uses of a command that are commands of their own to who types them.
var forms = []string{
	"mcp config", "pi install", "pi path", "extension install", "extension path", "extension info", "log verify", "log export",
	"authorize --policy", "cleanup --keep", "tab-release --at-end", "upgrade-extension --folder", "onboard --token", "onboard --pick",
}

// valued are the flags of every command that take the next word.
var valued = []string{"--output", "-o", "--session", "--browser", "--port", "--state-dir", "--pace", "--trace", "--timeout"}

var scriptLine = regexp.MustCompile(`(?m)^(?:\[[^\]]+\] )?(! )?exec (?:sh -c '(?:exec )?)?pi-chrome (.*?)(?: &\w*&?)?$`)

// TestRepoScriptsCoverEveryCommand holds that each command of the program is
// run by a script that expects it to succeed, and by one that expects it to
// fail.
func TestRepoScriptsCoverEveryCommand(t *testing.T) {
	var stdout bytes.Buffer
	code := cli.Run(t.Context(), cli.Environment{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stdout, Getenv: func(string) string { return "" }, Dir: t.TempDir(),
	}, []string{"--json", "--state-dir", t.TempDir(), "help"})
	assert.Equal(t, code, 0, stdout.String())
	var help struct{ Value struct{ Commands []string } }
	assert.NilError(t, json.Unmarshal(stdout.Bytes(), &help))
	assert.Assert(t, len(help.Value.Commands) > 60)

	good, bad := map[string]bool{}, map[string]bool{}
	for _, name := range tracked(t) {
		if path.Dir(name) != "cmd/pi-chrome/testdata/script" {
			continue
		}
		script, _, _ := strings.Cut(string(read(t, name)), "\n-- ")
		for _, m := range scriptLine.FindAllStringSubmatch(script, -1) {
			seen := good
			if m[1] != "" {
				seen = bad
			}
			words := commandWords(strings.Fields(m[2]))
			if len(words) == 0 {
				continue
			}
			seen[words[0]] = true
			for _, form := range forms {
				command, word, _ := strings.Cut(form, " ")
				if command == words[0] && slices.Contains(words, word) {
					seen[form] = true
				}
			}
		}
	}
	for _, command := range slices.Concat(help.Value.Commands, forms) {
		if !good[command] {
			t.Errorf("no script runs pi-chrome %s with success", command)
		}
		if !bad[command] {
			t.Errorf("no script has pi-chrome %s fail", command)
		}
	}
}

// commandWords are the words of a line from the command's name on.
func commandWords(words []string) []string {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		n := 1
		if slices.Contains(valued, words[0]) && len(words) > 1 {
			n = 2
		}
		words = words[n:]
	}
	return words
}
