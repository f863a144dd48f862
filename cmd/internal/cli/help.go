package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/near"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// Headings of the help.
const (
	groupBrowser = "See and act in a page"
	groupSetup   = "Set up"
	groupOwner   = "The owner in the background"
	groupTry     = "Try it, with a throw-away browser"
	groupMore    = "More"
)

var groups = []string{groupBrowser, groupSetup, groupOwner, groupTry, groupMore}

// commands lists every command: one for each operation whose name is not
// taken by one of ours, then ours. (Functions, since a command's help reaches
// the list again.)
func commands() ([]*command, error) {
	list := ownCommands()
	descs, err := owner.Descriptors()
	if err != nil {
		return nil, err
	}
	var all []*command
	for _, d := range descs {
		name := d.Command()
		if !slices.ContainsFunc(list, func(c *command) bool { return c.name == name }) {
			all = append(all, operationCommand(d))
		}
	}
	return append(all, list...), nil
}

// ownCommands are the commands that are not an operation's.
func ownCommands() []*command {
	return []*command{
		callCommand(), runScriptCommand(), mcpCommand(), onboardCommand(), extensionCommand(), upgradeExtensionCommand(), piCommand(), piHostCommand(), doctorCommand(), unpairCommand(), forgetCommand(),
		attachCommand(), detachCommand(),
		statusCommand(), authorizeCommand(), revokeCommand(), cleanupCommand(), cleanupAllCommand(), sessionsCommand(), outcomeCommand(), logCommand(), watchCommand(), serveCommand(), stopCommand(),
		demoCommand(), sandboxCommand(), smokeCommand(), operationsCommand(), versionCommand(), helpCommand(),
		completionCommand(), completeCommand(), skillCommand(), manCommand(),
	}
}

func findCommand(name string) (*command, error) {
	// Ours first: to describe every operation takes longer than `status`.
	for _, c := range ownCommands() {
		if c.name == name {
			return c, nil
		}
	}
	list, err := commands()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range list {
		if c.name == name {
			return c, nil
		}
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	e := usageError("", "unknown command %q", name).WithDetail("command", name)
	plain := strings.ReplaceAll(strings.TrimPrefix(name, "chrome_"), "_", "-")
	if meant := near.Of(plain, names); meant != "" {
		e.Hint = "did you mean " + meant + "? " + e.Hint
	}
	return nil, e
}

func helpCommand() *command {
	return &command{
		name: "help", group: groupMore, args: "[COMMAND|CODE|errors]", summary: "Show the commands, the usage of one, or what the code of an error means.",
		doc:     "pi-chrome help stale-action-ref says what that error means, whether it had an effect, and what to do; pi-chrome help errors says it of every code.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc { return a.help },
	}
}

const aboutProgram = "pi-chrome lets an agent see and act in pages of your browser, through its extension."

// exitMeanings are told by the help and the manual page.
var exitMeanings = []struct {
	code    int
	meaning string
}{
	{exitDone, "done"},
	{exitUnmet, "a script's expectation was not met"},
	{exitUsage, "usage or invalid input"},
	{exitRejected, "rejected (nothing happened)"},
	{exitUnknown, "outcome unknown (it may have happened)"},
	{exitUnavailable, "owner or browser unavailable"},
	{exitInterrupted, "interrupted"},
}

func (a *app) overview() (output, error) {
	list, err := commands()
	if err != nil {
		return output{}, err
	}
	var b strings.Builder
	b.WriteString(aboutProgram + "\n\n")
	b.WriteString("  pi-chrome COMMAND [FLAGS] [ARGUMENTS]\n\n")
	b.WriteString("First time: pi-chrome onboard. Only looking: pi-chrome demo.\n")
	for _, group := range groups {
		fmt.Fprintf(&b, "\n%s\n", group)
		for _, c := range list {
			if c.group == group {
				fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.summary)
			}
		}
	}
	b.WriteString("\nFlags of every command\n")
	b.WriteString(a.globalUsages())
	var codes []string
	for _, e := range exitMeanings {
		codes = append(codes, fmt.Sprintf("%d %s", e.code, e.meaning))
	}
	b.WriteString("\n" + wrap("Exit codes: "+strings.Join(codes, ", ")+".", 100) + "\n")
	return output{value: map[string]any{"commands": names(list)}, text: b.String()}, nil
}

func names(list []*command) []string {
	out := make([]string, 0, len(list))
	for _, c := range list {
		if !c.hidden {
			out = append(out, c.name)
		}
	}
	return out
}

func (a *app) globalUsages() string { return a.globalSet().FlagUsagesWrapped(100) }

// globalSet has the flags of every command, without values.
func (a *app) globalSet() *pflag.FlagSet {
	set := a.newFlagSet("globals")
	var g globals
	g.register(set)
	return set
}

func (a *app) helpOf(c *command) (output, error) {
	set := a.newFlagSet(c.name)
	c.prepare(&app{env: a.env}, set)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n  pi-chrome %s", c.summary, c.name)
	if c.args != "" {
		b.WriteString(" " + c.args)
	}
	b.WriteString("\n")
	if c.doc != "" {
		b.WriteString("\n" + wrap(c.doc, 100) + "\n")
	}
	if set.HasFlags() {
		b.WriteString("\nFlags\n" + set.FlagUsagesWrapped(100))
	}
	b.WriteString("\nFlags of every command: pi-chrome help\n")
	return output{value: map[string]any{"command": c.name, "usage": b.String()}, text: b.String()}, nil
}

// wrap breaks the lines of prose; indented lines stay as they are.
func wrap(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") || len(line) <= width {
			out = append(out, line)
			continue
		}
		current := ""
		for word := range strings.FieldsSeq(line) {
			if current != "" && len(current)+1+len(word) > width {
				out = append(out, current)
				current = ""
			}
			if current != "" {
				current += " "
			}
			current += word
		}
		out = append(out, current)
	}
	return strings.Join(out, "\n")
}

func versionCommand() *command {
	return &command{
		name: "version", group: groupMore, summary: "Show the versions of program, extension and protocol.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc { return a.version },
	}
}

func operationsCommand() *command {
	return &command{
		name: "operations", group: groupMore, args: "[--markdown] [TOOL]", summary: "Describe the operations: what each does, takes and returns.",
		doc: "With --json the descriptors with their schemas, as every other surface sees them; with --markdown the text of docs/operations.md.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			return a.operations(set.Bool("markdown", false, "print docs/operations.md"))
		},
	}
}

// operationsText is the short list for a terminal.
func operationsText(list []op.Descriptor) string {
	var b strings.Builder
	for _, profile := range op.Profiles {
		first := true
		for _, d := range list {
			if d.Profile != profile {
				continue
			}
			if first {
				fmt.Fprintf(&b, "%s\n", profile)
				first = false
			}
			fmt.Fprintf(&b, "  %-18s %s\n", d.Tool, d.Summary)
		}
	}
	return b.String()
}
