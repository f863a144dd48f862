package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

func serveCommand() *command {
	return &command{
		name: "serve", stream: always, group: groupOwner, summary: "Be the owner of the port, in the foreground.",
		doc: "Every command that needs an owner starts one in the background when none answers; serve is for looking at it. It ends with an interrupt, with pi-chrome stop, or after 30 minutes without use.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			idle := set.Duration("idle", 0, "end after this `time` without use; negative is never (default 30m)")
			origins := set.StringArray("web-origin", nil, "`origin` of a page that may offer its profile to a session; may be given several times, none allows no page (PI_CHROME_WEB_ORIGINS, else http://localhost:30141 and http://127.0.0.1:30141)")
			verbose := set.Bool("verbose", false, "log every step")
			background := set.Bool("background", false, "log to owner.log of the state folder")
			untilStdin := set.Bool("until-stdin-ends", false, "end when stdin does")
			for _, name := range []string{"background", "until-stdin-ends"} {
				set.Lookup(name).Hidden = true
			}
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("serve", args); err != nil {
					return output{}, err
				}
				level := slog.LevelInfo
				if *verbose || a.env.Getenv("PI_CHROME_LOG") == "debug" {
					level = slog.LevelDebug
				}
				if a.globals.quiet {
					level = slog.LevelError
				}
				var logTo io.Writer = a.stderr
				if *background {
					if _, err := bridge.PrepareStateDir(a.globals.stateDir); err != nil {
						return output{}, err
					}
					log, err := owner.OpenLog(a.globals.stateDir)
					if err != nil {
						return output{}, op.NotAvailable(op.StateUnreadable, "%s", err)
					}
					defer log.Close()
					logTo = log
				}
				if *untilStdin {
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx)
					defer cancel()
					// Ends with the process: a blocked read of stdin has no
					// other end.
					go func() {
						_, _ = io.Copy(io.Discard, a.env.Stdin)
						cancel()
					}()
				}
				return a.serve(ctx, owner.Options{
					Port: a.globals.portNumber, StateDir: a.globals.stateDir, IdleTimeout: *idle, WebOrigins: webOrigins(*origins, a.env.Getenv("PI_CHROME_WEB_ORIGINS")),
					Logger: slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: level})),
				})
			}
		},
	}
}

// webOrigins are those of the flag, else of the variable, which separates them
// with commas, else nil. "none" is none.
func webOrigins(flag []string, variable string) []string {
	list := flag
	if len(list) == 0 {
		list = strings.FieldsFunc(variable, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(list) == 1 && list[0] == "none" {
		return []string{}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func (a *app) serve(ctx context.Context, o owner.Options) (output, error) {
	var printed error
	o.Ready = func(port int) {
		if a.globals.json {
			printed = writeJSON(a.env.Stdout, success{OK: true, Value: map[string]any{"port": port, "stateDir": o.StateDir}, Text: "ready"})
			return
		}
		_, printed = fmt.Fprintf(a.env.Stdout, "pi-chrome owner on 127.0.0.1:%d, state in %s\n", port, o.StateDir)
	}
	if err := owner.Run(ctx, o); err != nil {
		return output{}, a.explainTaken(err)
	}
	return output{done: true}, printed
}

// explainTaken tells a second owner from a stranger on the port.
func (a *app) explainTaken(err error) error {
	e, ok := errors.AsType[*op.Error](err)
	if !ok || e.Code != op.PortTaken {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, dialErr := a.dialRunning(ctx)
	if dialErr != nil {
		e.Message += " by another program, which is not the owner of this state folder"
		return e
	}
	defer c.Close()
	return op.NotAvailable(op.PortTaken, "an owner runs already on port %d (process %d)", a.globals.portNumber, c.Owner().PID).
		WithHint("use it, or end it with pi-chrome stop").WithDetail("port", a.globals.portNumber)
}

func statusCommand() *command {
	return &command{
		name: "status", group: groupOwner, summary: "Show the running owner, the browsers and the session; start nothing.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("status", args); err != nil {
					return output{}, err
				}
				ctx, cancel := a.bounded(ctx, 5*time.Second)
				defer cancel()
				c, err := a.dialRunning(ctx)
				if err != nil {
					return output{}, a.notRunning(err)
				}
				defer c.Close()
				st, err := owner.Status(ctx, c, a.globals.session)
				if err != nil {
					return output{}, err
				}
				return output{value: st, text: statusText(st)}, nil
			}
		},
	}
}

// bounded limits a command that has no deadline of its own.
func (a *app) bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if a.globals.timeout > 0 {
		limit = a.globals.timeout
	}
	return context.WithTimeout(ctx, limit)
}

// notRunning adds to a failed connection what to do.
func (a *app) notRunning(err error) error {
	e := asError(err)
	if e.Code == op.BridgeUnavailable {
		e.Message = fmt.Sprintf("no owner runs on port %d", a.globals.portNumber)
		e.Hint = "any command that needs one starts it; pi-chrome serve runs one in the foreground; pi-chrome doctor looks at everything"
	}
	return e
}

func stopCommand() *command {
	return &command{
		name: "stop", group: groupOwner, summary: "End the running owner after its commands; tabs and pairings stay.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("stop", args); err != nil {
					return output{}, err
				}
				ctx, cancel := a.bounded(ctx, 40*time.Second)
				defer cancel()
				c, err := a.dialRunning(ctx)
				if err != nil {
					return output{}, a.notRunning(err)
				}
				defer c.Close()
				pid := c.Owner().PID
				if err := owner.Shutdown(ctx, c, "pi-chrome stop"); err != nil {
					return output{}, err
				}
				return output{value: map[string]any{"pid": pid}, text: fmt.Sprintf("the owner (process %d) ends", pid)}, nil
			}
		},
	}
}

func (a *app) version(_ context.Context, args []string) (output, error) {
	if err := noArgs("version", args); err != nil {
		return output{}, err
	}
	ext := extension.Version()
	operations, err := owner.Fingerprint()
	if err != nil {
		return output{}, err
	}
	value := map[string]any{
		"version": owner.Version, "build": owner.Build().Format(time.RFC3339), "extension": ext,
		"protocol": wire.Version, "fingerprint": wire.Fingerprint(), "operations": operations, "go": runtime.Version(),
	}
	text := fmt.Sprintf("pi-chrome %s (built %s, %s)\nextension %s\nprotocol %d, contract %s, operations %s\n",
		owner.Version, owner.Build().Format("2006-01-02"), runtime.Version(), ext, wire.Version, wire.Fingerprint()[:12], operations[:12])
	return output{value: value, text: text}, nil
}

func (a *app) help(_ context.Context, args []string) (output, error) {
	switch len(args) {
	case 0:
		return a.overview()
	case 1:
		c, err := findCommand(args[0])
		if err == nil {
			return a.helpOf(c)
		}
		if d, derr := owner.Find(args[0]); derr == nil {
			return a.helpOf(operationCommand(d))
		}
		if out, ok := helpOfCode(args[0]); ok {
			return out, nil
		}
		return output{}, err
	}
	return output{}, usageError("help", "pi-chrome help takes one command or code, but got %q", strings.Join(args, " "))
}
