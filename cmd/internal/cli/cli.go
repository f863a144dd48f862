package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/near"
	"pi-chrome/driver/op"
)

// Environment is what a command sees of its process. All fields are required.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	StderrTerminal bool                // progress may be shown
	Getenv         func(string) string // of the process environment
	Dir            string              // working directory; pictures are saved below it
	Executable     string              // path of this program
}

// Main runs the command line of the process and returns the exit code. The
// first SIGINT or SIGTERM cancels the command, which then says what became of
// it; a second one ends the process.
func Main() int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pi-chrome: error: reading the working directory: %s\n", err)
		return exitRejected
	}
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pi-chrome: error: finding this program: %s\n", err)
		return exitRejected
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The default action comes back with the first signal, so that a second
	// one ends a process that does not finish.
	release := context.AfterFunc(ctx, stop)
	defer release()
	return Run(ctx, Environment{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StderrTerminal: isTerminal(os.Stderr),
		Getenv:         os.Getenv, Dir: dir, Executable: exe,
	}, os.Args[1:])
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// command is one command of the command line.
type command struct {
	name    string
	group   string // heading in the help
	args    string // of the usage line, such as "TOOL [JSON|-]"
	summary string // one sentence
	doc     string // more for `help NAME`
	// prepare adds the command's own flags to set and returns what runs with
	// the positional arguments.
	prepare func(a *app, set *pflag.FlagSet) runFunc
	// raw commands take everything after "--" as it is.
	raw bool
	// hidden commands are for programs: no list names them.
	hidden bool
	// stream reports whether the command speaks on stdout for as long as it
	// runs, and has no result for --output; nil for never.
	stream func(args []string) bool
	// operation is what the command runs; nil for one of ours.
	operation *op.Descriptor
}

func always([]string) bool { return true }

type runFunc func(ctx context.Context, args []string) (output, error)

// output is what a command printed at its end. The zero value prints nothing.
type output struct {
	value     any    // the value of --json
	text      string // what readers see
	commandID string
	elapsedMs *int64
	pictures  []artifact.Picture // of the result, which names their files
	done      bool               // the command has printed everything itself
	code      int                // exit code of a command that has done its work
}

// app is one run of the command line.
type app struct {
	env     Environment // with --quiet its stderr leads nowhere, with --output its stdout into the file
	stdout  io.Writer   // the process's own, for the object of an error
	stderr  io.Writer   // likewise, for errors and for what another program says
	file    *resultFile // of --output; nil without
	globals globals
	title   string                             // of the session's tab group; "" for one made of its name
	tell    func(done, total int, note string) // told how far a command is; nil for the terminal

	barShown bool // a line of the terminal is the bar's
}

// Run runs one command line, without the program's name, and returns the exit
// code.
func Run(ctx context.Context, env Environment, args []string) int {
	a := &app{env: env, stdout: env.Stdout, stderr: env.Stderr}
	name, out, err := a.dispatch(ctx, args)
	return a.finish(ctx, name, out, err)
}

func (a *app) dispatch(ctx context.Context, args []string) (string, output, error) {
	front := a.newFlagSet("pi-chrome")
	front.SetInterspersed(false)
	a.globals.register(front)
	if err := front.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			out, err := a.overview()
			return "help", out, err
		}
		// --json decides the form of the error, even of this one.
		a.globals.json = a.globals.json || slices.Contains(args, "--json")
		return "", output{}, a.flagError(front, "", err)
	}
	rest := front.Args()
	if len(rest) == 0 {
		out, err := a.overview()
		return "help", out, err
	}
	name, rest := rest[0], rest[1:]
	cmd, err := findCommand(name)
	if err != nil {
		a.globals.json = a.globals.json || slices.Contains(rest, "--json")
		return "", output{}, err
	}
	return a.runCommand(ctx, cmd, rest)
}

// runCommand runs one command with what stands after its name.
func (a *app) runCommand(ctx context.Context, cmd *command, rest []string) (string, output, error) {
	name := cmd.name
	set := a.newFlagSet(name)
	// What another program is told may look like flags of ours.
	set.SetInterspersed(!cmd.raw)
	a.globals.register(set)
	run := cmd.prepare(a, set)
	if err := set.Parse(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			out, err := a.helpOf(cmd)
			return "help", out, err
		}
		a.globals.json = a.globals.json || slices.Contains(rest, "--json")
		return name, output{}, a.flagError(set, name, err)
	}
	if err := a.globals.resolve(a.env); err != nil {
		return name, output{}, err
	}
	if cmd.raw && set.ArgsLenAtDash() != 0 && set.NArg() > 0 {
		return name, output{}, usageError(name, "give the command after --, as in: pi-chrome %s -- %s", name, strings.Join(set.Args(), " "))
	}
	if a.globals.quiet {
		a.env.Stderr, a.env.StderrTerminal = io.Discard, false
	}
	if a.globals.output != "" {
		if cmd.stream != nil && cmd.stream(set.Args()) {
			return name, output{}, usageError(name, "pi-chrome %s speaks on stdout for as long as it runs; --output does not go with it", name)
		}
		var err error
		if a.file, err = createResult(a.globals.output); err != nil {
			return name, output{}, err
		}
		a.env.Stdout = a.file
	}
	out, err := run(ctx, set.Args())
	return name, out, err
}

func (a *app) newFlagSet(name string) *pflag.FlagSet {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.SortFlags = false
	return set
}

// flagError says what is wrong with a flag, and what flag was meant.
func (a *app) flagError(set *pflag.FlagSet, command string, err error) error {
	if e, ok := errors.AsType[*op.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		flag := "--" + e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			flag = "-" + e.GetSpecifiedShortnames()
		}
		var names []string
		set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		out := usageError(command, "unknown flag %s", flag)
		if meant := near.Of(e.GetSpecifiedName(), names); meant != "" {
			out.Hint = "did you mean --" + meant + "? " + out.Hint
		}
		return out.WithDetail("flag", flag)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		reason := errors.Unwrap(e)
		return usageError(command, "flag --%s is %q: %s", e.GetFlag().Name, e.GetValue(), reason).
			WithDetail("flag", "--"+e.GetFlag().Name).WithDetail("value", e.GetValue())
	}
	return usageError(command, "%s", err)
}

// usageError is bad usage of a command; its hint names the command's help.
func usageError(command, format string, args ...any) *op.Error {
	e := op.Invalidf(format, args...)
	if command == "" {
		return e.WithHint("pi-chrome help lists the commands and flags")
	}
	return e.WithHint("pi-chrome help %s shows its usage", command)
}

// noArgs refuses positional arguments.
func noArgs(command string, args []string) error {
	if len(args) > 0 {
		return usageError(command, "pi-chrome %s takes no argument, but got %q", command, args[0])
	}
	return nil
}
