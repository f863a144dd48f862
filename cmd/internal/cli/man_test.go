package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// manual prints a manual page.
func manual(t *testing.T, args ...string) string {
	t.Helper()
	env, out, errs := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, append([]string{"man"}, args...)), exitDone)
	assert.Equal(t, errs.String(), "")
	return out.String()
}

// TestManOfACommand: the page of a command with every kind of flag and text.
func TestManOfACommand(t *testing.T) {
	c := operationCommand(testDescriptor(t))
	c.summary = "Write a text."
	c.doc = ".dots and \\backslashes stay; so do 'quotes', `ticks` and -- dashes…\n\n  $ as it is\n      indented\nA paragraph."
	prepare := c.prepare
	c.prepare = func(a *app, set *pflag.FlagSet) runFunc {
		run := prepare(a, set)
		set.BoolP("quick", "q", false, "with a short name")
		set.String("secret", "", "not told")
		set.Lookup("secret").Hidden = true
		return run
	}
	env, _, _ := testEnv(t, nil)
	text := (&app{env: env}).manOf(c)
	before, _, ok := strings.Cut(text, ".SH FLAGS OF EVERY COMMAND")
	assert.Assert(t, ok)
	golden.Assert(t, before, "man_command.golden")
}

// TestManHasEverything: every command and every flag of it, and nothing that
// a troff would stumble over.
func TestManHasEverything(t *testing.T) {
	all := manual(t)
	list, err := commands()
	assert.NilError(t, err)
	a := &app{}
	for _, c := range list {
		heading := "\n.SS " + roff("pi-chrome "+c.name)
		assert.Equal(t, strings.Contains(all, heading+"\n") || strings.Contains(all, heading+" "), !c.hidden, c.name)
		if c.hidden {
			continue
		}
		page := a.manOf(c)
		set := a.newFlagSet(c.name)
		c.prepare(a, set)
		set.VisitAll(func(f *pflag.Flag) {
			told := strings.Contains(page, `\fB`+roff("--"+f.Name)+`\fR`)
			assert.Equal(t, told, !f.Hidden, "%s --%s", c.name, f.Name)
		})
	}
	for line := range strings.Lines(all) {
		if strings.HasPrefix(line, ".") {
			request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			assert.Assert(t, strings.Contains(" .TH .SH .SS .TP .PP .EX .EE .B .BR .nh .ad ", " "+request+" "), line)
		}
		for _, r := range line {
			assert.Assert(t, r < 0x7f, "%q", line)
		}
	}
	// Where there is a formatter, it must have nothing to say.
	if groff, err := exec.LookPath("groff"); err == nil {
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(all)
		said, err := cmd.CombinedOutput()
		assert.NilError(t, err)
		assert.Equal(t, string(said), "")
	}
}

func TestManOfNothing(t *testing.T) {
	for want, args := range map[string][]string{
		"did you mean snapshot?":         {"sanpshot"},
		`takes one command, but got "b"`: {"snapshot", "b"},
	} {
		env, _, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, append([]string{"man"}, args...)), exitUsage)
		assert.Assert(t, strings.Contains(errs.String(), want), errs.String())
	}
}
