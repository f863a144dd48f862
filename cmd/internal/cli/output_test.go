package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// files lists a folder, so that what is left behind is seen.
func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	assert.NilError(t, err)
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestOutputFile: the result goes into the file and nowhere else; a file of
// that name is replaced, with its mode; a link stays a link.
func TestOutputFile(t *testing.T) {
	env, out, _ := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"version"}), exitDone)
	text := out.String()
	for name, args := range map[string][]string{
		"short":   {"version", "-o", "v.txt"},
		"long":    {"--output=v.txt", "version"},
		"quietly": {"-q", "-o", "v.txt", "version"},
	} {
		env, out, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, args), exitDone, name)
		assert.Equal(t, out.String(), "", name)
		raw, err := os.ReadFile(filepath.Join(env.Dir, "v.txt"))
		assert.NilError(t, err, name)
		assert.Equal(t, string(raw), text, name)
		assert.DeepEqual(t, files(t, env.Dir), []string{"v.txt"})
		told := "written to " + filepath.Join(env.Dir, "v.txt") + "\n"
		if name == "quietly" {
			told = ""
		}
		assert.Equal(t, errs.String(), told, name)
	}

	env, out, _ = testEnv(t, nil)
	target := filepath.Join(env.Dir, "target")
	assert.NilError(t, os.WriteFile(target, []byte("a longer text than that of the version, to see that it goes\n"+strings.Repeat("x", 4096)), 0o600))
	assert.NilError(t, os.Chmod(target, 0o606)) // more than a mask leaves
	assert.NilError(t, os.Symlink(target, filepath.Join(env.Dir, "link")))
	assert.Equal(t, Run(t.Context(), env, []string{"--json", "version", "-o", "link"}), exitDone)
	assert.Equal(t, out.String(), "")
	var got success
	raw, err := os.ReadFile(target)
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(raw, &got))
	assert.Equal(t, got.OK, true)
	info, err := os.Lstat(filepath.Join(env.Dir, "link"))
	assert.NilError(t, err)
	assert.Assert(t, info.Mode()&os.ModeSymlink != 0)
	info, err = os.Stat(target)
	assert.NilError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o606))
	}

	env, out, _ = testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"version", "-o", "-"}), exitDone)
	assert.Equal(t, out.String(), text)
	env, out, _ = testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"version", "-o", os.DevNull}), exitDone)
	assert.Equal(t, out.String(), "")
}

// TestOutputFileOfAFailure: a command that fails leaves the file as it was,
// and tells its error where it does without a file.
func TestOutputFileOfAFailure(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		env, out, errs := testEnv(t, nil)
		file := filepath.Join(env.Dir, "old")
		assert.NilError(t, os.WriteFile(file, []byte("old"), 0o600))
		args := []string{"status", "-o", "old"}
		if asJSON {
			args = append(args, "--json")
		}
		assert.Equal(t, Run(t.Context(), env, args), exitUnavailable)
		raw, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Equal(t, string(raw), "old")
		assert.DeepEqual(t, files(t, env.Dir), []string{"old"})
		assert.Equal(t, strings.Contains(out.String(), "bridge-unavailable"), asJSON, out.String())
		assert.Equal(t, strings.Contains(errs.String(), "no owner runs"), !asJSON, errs.String())
	}
}

// TestOutputFileRefused: what cannot be written to is told before anything is
// done.
func TestOutputFileRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version", "-o", "no/such/v"}, "there is no folder"},
		{[]string{"version", "-o", "."}, "it is a folder; nothing was done"},
		{[]string{"version", "-o"}, "flag needs an argument"},
		{[]string{"serve", "-o", "x"}, "pi-chrome serve speaks on stdout for as long as it runs"},
		{[]string{"mcp", "-o", "x"}, "pi-chrome mcp speaks on stdout"},
		{[]string{"pi-host", "-o", "x"}, "pi-chrome pi-host speaks on stdout"},
	} {
		env, out, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, c.args), exitUsage, "%q", c.args)
		assert.Assert(t, strings.Contains(errs.String(), c.want), errs.String())
		assert.Equal(t, out.String(), "")
		assert.Equal(t, len(files(t, env.Dir)), 0)
	}
	env, _, errs := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"mcp", "config", "zed", "-o", "zed.json"}), exitDone, errs)
	assert.DeepEqual(t, files(t, env.Dir), []string{"zed.json"})
}

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// TestResultLost: a command that has done its work and cannot tell it is no
// command that did nothing.
func TestResultLost(t *testing.T) {
	env, _, errs := testEnv(t, nil)
	env.Stdout = full{}
	assert.Equal(t, Run(t.Context(), env, []string{"version"}), exitUnknown)
	assert.Equal(t, errs.String(), "pi-chrome: error: the command was done, but its result could not be written to stdout: the disk is full\npi-chrome: code: internal (see pi-chrome help internal)\n")

	env, _, errs = testEnv(t, nil)
	a := &app{env: env, stdout: env.Stdout, stderr: env.Stderr}
	a.globals.output = filepath.Join(env.Dir, "sub", "v")
	assert.NilError(t, os.Mkdir(filepath.Join(env.Dir, "sub"), 0o700))
	var err error
	a.file, err = createResult(a.globals.output)
	assert.NilError(t, err)
	a.env.Stdout = a.file
	assert.NilError(t, os.Remove(a.file.temp.Name())) // what becomes of a folder that is cleaned up meanwhile
	assert.Equal(t, a.finish(t.Context(), "click", output{text: "clicked", commandID: "c-1"}, nil), exitUnknown)
	assert.Assert(t, strings.Contains(errs.String(), "the command was done, but its result could not be written to "+a.globals.output), errs)
	assert.Assert(t, strings.Contains(errs.String(), "pi-chrome outcome c-1"), errs)
	assert.Equal(t, len(files(t, filepath.Join(env.Dir, "sub"))), 0)
}

// TestQuiet: notes, progress and instructions are gone, errors are not.
func TestQuiet(t *testing.T) {
	talk := func(a *app) runFunc {
		return func(context.Context, []string) (output, error) {
			a.note("a note")
			a.progress(1, 2, "tiles")
			(&onboarding{a: a}).say("an instruction")
			return output{text: "the result"}, op.Reject(op.Internal, "it failed")
		}
	}
	for _, quiet := range []bool{false, true} {
		env, out, errs := testEnv(t, nil)
		a := &app{env: env, stdout: env.Stdout, stderr: env.Stderr}
		a.globals.quiet = quiet
		cmd := &command{name: "talk", prepare: func(a *app, _ *pflag.FlagSet) runFunc { return talk(a) }}
		_, res, err := a.runCommand(t.Context(), cmd, nil)
		assert.Equal(t, a.finish(t.Context(), "talk", res, err), exitRejected)
		assert.Equal(t, out.String(), "")
		want := "pi-chrome: error: it failed\npi-chrome: code: internal (see pi-chrome help internal)\n"
		if !quiet {
			want = "a note\n\r\x1b[K[============>           ] 1/2 tiles\r\x1b[Kan instruction\n" + want
		}
		assert.Equal(t, errs.String(), want)
	}
}
