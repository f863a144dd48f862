package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/demo"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/op"
)

func demoCommand() *command {
	return &command{
		name: "demo", group: groupTry, summary: "Buy a lamp in the bundled shop, in a throw-away browser, and show every step.",
		doc: "Starts a sandbox, serves the shop that this program holds, and through the extension searches, opens a product, fills the checkout form, submits it and verifies the order. " +
			"Then it takes pictures of the tab, which nobody has looked at. Only refs of snapshots are used. The exit code is not 0 when the order is not verified.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			headful := set.Bool("headful", false, "show the browser's window")
			full := set.Bool("full", false, "print whole snapshots")
			out := set.String("out", "", "`folder` for pictures and trace (default a new one of the system's temporary folder)")
			svg := set.String("svg", "", "`file` to draw the run into, as an SVG that moves")
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("demo", args); err != nil {
					return output{}, err
				}
				return a.demo(ctx, *headful, *full, *out, *svg)
			}
		},
	}
}

func (a *app) demo(ctx context.Context, headful, full bool, out, svg string) (output, error) {
	dir := absolute(a.env.Dir, out)
	var err error
	if out == "" {
		dir, err = os.MkdirTemp("", "pi-chrome-demo-")
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return output{}, op.Invalidf("the demo's folder cannot be made: %s", err).WithHint("give another with --out")
	}
	started := time.Now()
	view := &demoView{a: a, full: full, color: a.color(), dir: dir, started: started}
	view.line("", "pi-chrome demo: an owner and a throw-away browser of its own")
	s, err := sandbox.Start(ctx, sandbox.Options{Executable: a.env.Executable, Headful: headful})
	if err != nil {
		return output{}, err
	}
	view.line(fmt.Sprintf("%d ms", time.Since(started).Milliseconds()), "%s, extension paired, owner on port %d", s.Browser.Version().Product, s.Port)
	report, err := a.shop(ctx, s, dir, view)
	if err = errors.Join(err, s.Close()); err != nil {
		e := asError(err)
		if e.Hint == "" {
			e.Hint = "what crossed the tab is in " + filepath.Join(dir, "trace.jsonl")
		}
		return output{}, e
	}
	view.end(report)
	if svg != "" {
		if err := view.draw(absolute(a.env.Dir, svg), report); err != nil {
			return output{}, err
		}
	}
	if a.globals.json {
		return output{value: report, text: "order " + report.Order + " verified"}, nil
	}
	return output{done: true}, nil
}

// shop runs the demo in the sandbox.
func (a *app) shop(ctx context.Context, s *sandbox.Sandbox, dir string, view *demoView) (demo.Report, error) {
	c, err := s.Dial(ctx)
	if err != nil {
		return demo.Report{}, err
	}
	defer c.Close()
	shop := *a
	shop.globals.session, shop.globals.browser, shop.globals.timeout = "demo", "", 0
	shop.globals.trace = filepath.Join(dir, "trace.jsonl")
	shop.env.Dir = dir
	report, err := demo.Run(ctx, shop.caller(c), view.step)
	report.Trace = shop.globals.trace
	return report, err
}

// caller runs operations over one connection.
func (a *app) caller(c *client.Client) demo.Caller {
	return func(ctx context.Context, tool string, input any) (op.Result, time.Duration, error) {
		desc, err := owner.Find(tool)
		if err != nil {
			return op.Result{}, 0, err
		}
		raw, err := json.Marshal(input)
		if err != nil {
			return op.Result{}, 0, fmt.Errorf("encoding the input of %s: %w", tool, err)
		}
		started := time.Now()
		out, err := a.operateOn(ctx, func(context.Context) (*client.Client, func(), error) { return c, func() {}, nil }, desc, raw)
		if err != nil {
			return op.Result{}, time.Since(started), err
		}
		value, _ := out.value.(json.RawMessage)
		return op.Result{Value: value, Text: out.text}, time.Since(started), nil
	}
}

func (a *app) color() bool {
	f, ok := a.env.Stdout.(*os.File)
	return ok && isTerminal(f) && a.env.Getenv("NO_COLOR") == ""
}
