package cli

import (
	"context"
	_ "embed"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/near"
)

// The scripts know nothing of commands and flags: they ask `__complete` at
// each press of the key.
var (
	//go:embed shell/bash.bash
	bashCompletion string
	//go:embed shell/zsh.zsh
	zshCompletion string
	//go:embed shell/fish.fish
	fishCompletion string
	//go:embed shell/powershell.ps1
	powershellCompletion string
)

var completionScripts = map[string]string{
	"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion, "powershell": powershellCompletion,
}

func shells() []string { return slices.Sorted(maps.Keys(completionScripts)) }

func completionCommand() *command {
	return &command{
		name: "completion", group: groupSetup, args: "bash|fish|powershell|zsh", summary: "Print what makes a shell complete commands, flags, values, tabs and refs.",
		doc: "Tabs, refs, sessions and browsers are those of the owner that runs; completing a line starts none, waits for it 300 ms at most, and changes nothing.\n\n" +
			"  bash        source <(pi-chrome completion bash), in ~/.bashrc\n" +
			"  zsh         source <(pi-chrome completion zsh), in ~/.zshrc after compinit\n" +
			"  fish        pi-chrome completion fish > ~/.config/fish/completions/pi-chrome.fish\n" +
			"  PowerShell  pi-chrome completion powershell | Out-String | Invoke-Expression, in $PROFILE",
		prepare: func(_ *app, _ *pflag.FlagSet) runFunc {
			return func(_ context.Context, args []string) (output, error) {
				if len(args) != 1 {
					return output{}, usageError("completion", "give one shell: %s", strings.Join(shells(), ", "))
				}
				script, ok := completionScripts[args[0]]
				if !ok {
					e := usageError("completion", "unknown shell %q; allowed: %s", args[0], strings.Join(shells(), ", "))
					if meant := near.Of(args[0], shells()); meant != "" {
						e.Hint = "did you mean " + meant + "? " + e.Hint
					}
					return output{}, e.WithDetail("shell", args[0])
				}
				return output{value: map[string]any{"shell": args[0], "script": script}, text: script}, nil
			}
		},
	}
}

// completeCommand is what the scripts ask. It prints one candidate a line, and
// for shells that show it its meaning after a tab; ":files" and ":folders" ask
// the shell for its own. Whatever goes wrong, it prints nothing and is done: a
// person at a prompt must not read errors of ours.
func completeCommand() *command {
	return &command{
		name: "__complete", hidden: true, raw: true, args: "-- SHELL WORD… =CURRENT", summary: "Complete a line for a shell.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) < 2 || completionScripts[args[0]] == "" {
					return output{done: true}, nil
				}
				current, ok := strings.CutPrefix(args[len(args)-1], "=")
				if !ok {
					return output{done: true}, nil
				}
				text := completeLine(ctx, a.env, args[0], args[1:len(args)-1], current)
				_, _ = io.WriteString(a.env.Stdout, text) // a shell that has gone needs no answer
				return output{done: true}, nil
			}
		},
	}
}

// completeLine is the answer to a shell.
func completeLine(ctx context.Context, env Environment, shell string, words []string, current string) string {
	quoted, strip := false, ""
	if shell == "bash" {
		words, current, quoted, strip = bashWords(words, current)
	}
	list := complete(ctx, env, words, current)
	var b strings.Builder
	for _, c := range list {
		switch {
		case c.value == askFiles || c.value == askFolders:
			b.WriteString(c.value + "\n")
		case !strings.HasPrefix(c.value, current) || strings.ContainsAny(c.value, "\n\t"):
		case shell == "bash":
			value := strings.TrimPrefix(c.value, strip)
			if !quoted {
				value = bashEscape(value)
			}
			b.WriteString(value + "\n")
		case c.about != "":
			b.WriteString(c.value + "\t" + oneLine(c.about, 90) + "\n")
		default:
			b.WriteString(c.value + "\n")
		}
	}
	return b.String()
}

// bashWords puts together what bash has split at "=" and ":", and takes the
// quotes off. strip is the part of the current word that bash keeps by itself;
// quoted says that the current word has an open quote.
func bashWords(words []string, current string) (out []string, cur string, quoted bool, strip string) {
	glue := false
	for _, w := range append(slices.Clone(words), current) {
		breaks := w != "" && strings.Trim(w, "=:") == ""
		if len(out) > 0 && (glue || breaks) {
			out[len(out)-1] += w
		} else {
			out = append(out, w)
		}
		glue = breaks
	}
	last := len(out) - 1
	for i, w := range out {
		out[i], quoted = bashUnquote(w)
	}
	cur = out[last]
	if i := strings.LastIndexAny(cur, "=:"); i >= 0 && !quoted {
		strip = cur[:i+1]
	}
	return out[:last], cur, quoted, strip
}

// bashUnquote takes quotes and backslashes off a word; open says that a quote
// was not closed.
func bashUnquote(word string) (text string, open bool) {
	var b strings.Builder
	var quote, before rune
	for _, r := range word {
		switch {
		case before == '\\':
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				b.WriteRune('\\')
			}
			b.WriteRune(r)
			before = 0
			continue
		case r == '\\' && quote != '\'':
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote && quote != 0:
			quote = 0
		default:
			b.WriteRune(r)
		}
		before = r
	}
	return b.String(), quote != 0
}

// bashEscape makes a word of a text.
func bashEscape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(" !\"#$&'()*;<>?[\\]^`{|}~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// oneLine is a text on one line, cut to so many characters.
func oneLine(text string, max int) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) > max {
		return string(r[:max-1]) + "…"
	}
	return string(r)
}
