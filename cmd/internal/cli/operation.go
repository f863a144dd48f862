package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// maxStdin bounds what a command reads from stdin.
const maxStdin = 16 << 20

// operationCommand is the command of one operation.
func operationCommand(desc op.Descriptor) *command {
	name := desc.Command()
	args := argList(desc)
	if args != "" {
		args = " " + args
	}
	return &command{
		name: name, group: groupBrowser, args: strings.TrimSpace("[FLAGS]" + args), summary: desc.Summary, doc: operationDoc(desc), operation: &desc,
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			in := newInput(desc)
			in.register(set)
			return func(ctx context.Context, args []string) (output, error) {
				if err := in.positional(args, a.stdin); err != nil {
					return output{}, err
				}
				raw, err := in.build()
				if err != nil {
					return output{}, err
				}
				return a.operate(ctx, desc, raw)
			}
		},
	}
}

// operationDoc is the help text of an operation: what it does and examples.
func operationDoc(desc op.Descriptor) string {
	var b strings.Builder
	b.WriteString(desc.Doc)
	if len(desc.Examples) > 0 {
		b.WriteString("\n\nExamples, as pi-chrome call " + desc.Tool + ":\n")
		for _, e := range desc.Examples {
			fmt.Fprintf(&b, "  %s\n      '%s'\n", e.Title, e.Shown())
		}
	}
	return strings.TrimSpace(b.String())
}

// operate checks the input, runs one operation and returns its output.
func (a *app) operate(ctx context.Context, desc op.Descriptor, raw json.RawMessage) (output, error) {
	return a.operateOn(ctx, func(ctx context.Context) (*client.Client, func(), error) {
		c, err := a.dial(ctx)
		if err != nil {
			return nil, nil, err
		}
		// The outcome has arrived by then: how the socket ends tells nothing.
		return c, func() { _ = c.Close() }, nil
	}, desc, raw)
}

// operateOn is operate over a connection of the caller's choice; it is asked
// for one only when the input is good.
func (a *app) operateOn(ctx context.Context, connect func(context.Context) (*client.Client, func(), error), desc op.Descriptor, raw json.RawMessage) (output, error) {
	raw = absolutePaths(a.env.Dir, desc.Tool, raw)
	if err := owner.Validate(desc.Name, raw); err != nil {
		return output{}, err
	}
	if err := artifact.Check(desc.Tool, raw); err != nil {
		return output{}, err
	}
	c, done, err := connect(ctx)
	if err != nil {
		return output{}, err
	}
	defer done()
	cmd := wire.Command{
		Type: wire.TypeCommand, ID: client.NewID(), Operation: desc.Name, Browser: a.globals.browser, Input: raw,
		Session: a.sessionOf(), Trace: a.globals.trace, DeadlineMs: int(a.globals.timeout.Milliseconds()),
	}
	res, err := c.Command(ctx, cmd, a.progress)
	a.clearBar()
	out := output{commandID: cmd.ID}
	if err != nil {
		return out, a.told(ctx, c, cmd.ID, desc, err)
	}
	result, pictures, err := artifact.Keep(a.env.Dir, desc.Tool, raw, res.Result)
	if err != nil {
		return out, err
	}
	ms := res.Elapsed.Milliseconds()
	out.value, out.text, out.elapsedMs, out.pictures = result.Value, result.Text, &ms, pictures
	if desc.Name == op.DoName {
		out.code = stepsCode(result.Value)
	}
	return out, nil
}

// sessionOf is the session that the commands of this run belong to.
func (a *app) sessionOf() wire.Session {
	title := a.title
	if title == "" {
		title = sessionTitle(a.globals.session)
	}
	return wire.Session{Key: a.globals.session, Title: title, Pace: a.globals.pace, Foreground: a.globals.front}
}

// stepsCode is the exit code of a list of steps: that of the step that was not
// done, so that a script does not take a list for done that stopped on its way.
func stepsCode(value json.RawMessage) int {
	var out op.DoOut
	if json.Unmarshal(value, &out) != nil || len(out.Steps) == 0 {
		return exitDone
	}
	if last := out.Steps[len(out.Steps)-1]; last.Error != nil {
		return exitOf(last.Error)
	}
	return exitDone
}

// afterInterrupt is how long an interrupted command may take to tell what
// became of it.
const afterInterrupt = 2 * time.Second

// told says what became of a command; an interrupted one is asked after.
func (a *app) told(ctx context.Context, c *client.Client, id string, desc op.Descriptor, err error) error {
	e := asError(err)
	if ctx.Err() == nil {
		return e
	}
	if e.Kind != op.OutcomeUnknown && e.Code != op.Canceled {
		e.Message = "interrupted; " + e.Message
		return e
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterInterrupt)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := owner.Outcome(ctx, c, id)
		if err != nil {
			break // the first answer stands
		}
		if out.State == "done" {
			var r wire.Result
			if json.Unmarshal(out.Result, &r) == nil {
				return interruptedOutcome(desc, e, r)
			}
			break
		}
		if out.State == "unknown" {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	e.Message = "interrupted; " + e.Message
	return e
}

// interruptedOutcome tells the outcome that came after the interrupt.
func interruptedOutcome(desc op.Descriptor, e *op.Error, r wire.Result) *op.Error {
	switch {
	case r.OK:
		done := op.Unknown(op.Canceled, "interrupted, but %s had done its work by then", desc.Tool).WithHint("take a snapshot to see the page as it is now")
		if len(r.Value) > 0 {
			done.WithDetail("value", r.Value)
		}
		return done
	case r.Error != nil:
		return &op.Error{Kind: op.Kind(r.Error.Kind), Code: op.Code(r.Error.Code), Message: "interrupted; " + r.Error.Message, Hint: r.Error.Hint, Details: r.Error.Details}
	}
	return e
}

// sessionTitle is the title of a session's tab group.
func sessionTitle(session string) string {
	if session == "default" {
		return "pi-chrome"
	}
	return "pi-chrome: " + session
}

// dial connects to the owner, starting one when none answers.
func (a *app) dial(ctx context.Context) (*client.Client, error) {
	if err := a.refusePortZero(); err != nil {
		return nil, err
	}
	if _, err := bridge.PrepareStateDir(a.globals.stateDir); err != nil {
		return nil, err
	}
	operations, err := owner.Fingerprint()
	if err != nil {
		return nil, err
	}
	opts := a.clientOptions()
	opts.Operations = operations
	opts.Start = func(context.Context) error {
		a.note("starting an owner on port %d", a.globals.portNumber)
		return owner.Start(a.env.Executable, a.globals.portNumber, a.globals.stateDir)
	}
	if a.globals.timeout > 0 {
		opts.ReadyTimeout = max(a.globals.timeout, time.Second)
	}
	return client.Dial(ctx, opts)
}

// dialRunning connects to a running owner of any release.
func (a *app) dialRunning(ctx context.Context) (*client.Client, error) {
	if err := a.refusePortZero(); err != nil {
		return nil, err
	}
	return client.Dial(ctx, a.clientOptions())
}

// refusePortZero is for what connects to an owner. Port 0 is one that an owner may be given and nobody can connect
// to: one that was started for a command would stay where no command finds it.
func (a *app) refusePortZero() error {
	if a.globals.portNumber == 0 {
		return usageError("", "port is 0, which only serve and sandbox take: name the port that the owner has, 1 to 65535; serve says which")
	}
	return nil
}

// clientOptions name the owner. Without a fingerprint of operations one of any
// release will do.
func (a *app) clientOptions() client.Options {
	return client.Options{
		Port: a.globals.portNumber, StateDir: a.globals.stateDir, Name: owner.Name,
		Version: owner.Version, Build: owner.Build(), EffectOf: owner.EffectOf,
	}
}

// stdin reads all of stdin as text.
func (a *app) stdin() (string, error) {
	raw, err := io.ReadAll(io.LimitReader(a.env.Stdin, maxStdin+1))
	if err != nil {
		return "", op.Invalidf("reading stdin: %s", err)
	}
	if len(raw) > maxStdin {
		return "", op.Invalidf("stdin holds more than %d bytes", maxStdin)
	}
	return string(bytes.TrimRight(raw, "\r\n")), nil
}

// callCommand is `call TOOL [JSON|-]`.
func callCommand() *command {
	return &command{
		name: "call", group: groupBrowser, args: "TOOL [JSON|-]", summary: "Run a tool with its input as one JSON object.",
		doc: "TOOL is a tool's name (chrome_snapshot), its wire name (page.snapshot) or its command (snapshot). Without JSON the input is {}; with - it is read from stdin.\n\n" +
			"  pi-chrome call chrome_snapshot '{\"mode\":\"interactive\"}'\n" +
			"  echo '{\"url\":\"https://example.org\"}' | pi-chrome call chrome_navigate -",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) == 0 {
					return output{}, usageError("call", "give a tool: pi-chrome call TOOL [JSON|-]")
				}
				if len(args) > 2 {
					return output{}, usageError("call", "pi-chrome call takes a tool and one JSON object, but got %q too", args[2])
				}
				desc, err := owner.Find(args[0])
				if err != nil {
					return output{}, err
				}
				text := "{}"
				if len(args) == 2 {
					text = args[1]
				}
				if text == "-" {
					if text, err = a.stdin(); err != nil {
						return output{}, err
					}
				}
				if strings.TrimSpace(text) == "" {
					text = "{}"
				}
				return a.operate(ctx, desc, json.RawMessage(text))
			}
		},
	}
}
