package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/sandbox"
)

func sandboxCommand() *command {
	return &command{
		name: "sandbox", group: groupTry, args: "[--headful] [--url URL] [--keep] -- CMD ARGS…", raw: true,
		summary: "Run a program with an owner and a throw-away browser of its own.",
		doc: "Starts an owner on a free port with a private state folder and a Chromium with the extension paired, runs the program so that pi-chrome in it just works, " +
			"ends everything it started, however the program ends, and exits with the program's exit code.\n\n" +
			"  pi-chrome sandbox -- sh -c 'pi-chrome navigate https://example.org && pi-chrome snapshot'",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			headful := set.Bool("headful", false, "show the browser's window, on a display of its own where there is none")
			url := set.String("url", "", "`page` of the browser's first tab")
			keep := set.Bool("keep", false, "keep the folder with state, log and browser profile, and say where it is")
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) == 0 {
					return output{}, usageError("sandbox", "give a program: pi-chrome sandbox -- CMD ARGS…")
				}
				signals, stop := sandbox.Signals()
				defer stop()
				s, err := sandbox.Start(ctx, sandbox.Options{
					Executable: a.env.Executable, Headful: *headful, URL: *url, Keep: *keep,
					Note: func(format string, args ...any) { a.note("pi-chrome: "+format, args...) },
				})
				if err != nil {
					return output{}, err
				}
				code, err := s.Run(sandbox.Command{
					Args: args, Dir: a.env.Dir, Stdin: a.env.Stdin, Stdout: a.env.Stdout, Stderr: a.stderr,
					Terminal: a.stdinTerminal(), Signals: signals,
				})
				err = errors.Join(err, s.Close())
				if *keep {
					fmt.Fprintf(a.env.Stderr, "pi-chrome: the sandbox's folder is %s\n", s.Dir)
				}
				return output{done: true, code: code}, err
			}
		},
	}
}

// stdinTerminal reports whether a child shares a terminal with us, which then
// sends it the interrupt itself.
func (a *app) stdinTerminal() bool {
	f, ok := a.env.Stdin.(*os.File)
	return ok && isTerminal(f) && f.Name() != os.DevNull
}
