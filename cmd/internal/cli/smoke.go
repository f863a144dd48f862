package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/smoke"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

func smokeCommand() *command {
	return &command{
		name: "smoke", group: groupTry, args: "[--browser PATH]… [--junit FILE] [--out DIR] [--headful]",
		summary: "Try a browser out before trusting it: pairing, strangers, lost answers, tabs, clean-up.",
		doc: "Starts each browser with a throw-away profile and goes the whole way: install, refuse strangers, pair in the popup and by the extension's folder, restart the worker, " +
			"meet owners and extensions of other releases, navigate, wait, click, lose answers, read, clean up, unpair. Each step says what it proved and how long it took. " +
			"A step that fails says where and keeps the trace and pictures of the pages; the steps after it are not run. " +
			"Without --browser it takes the Chromium that sandbox takes, and Edge and Brave where they are installed. " +
			"The exit code is 0 when every browser passed, 3 when one did not.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			var browsers []string
			if a.globals.browser != "" {
				browsers = append(browsers, a.globals.browser)
			}
			// Here it is a path, may be given several times, and takes the
			// place of the flag that every command has.
			const usage = "`path` of a browser to try; may be given several times"
			if flag := set.Lookup("browser"); flag != nil {
				flag.Value, flag.DefValue, flag.Usage = &paths{&browsers}, "", usage
			} else {
				set.Var(&paths{&browsers}, "browser", usage)
			}
			junit := set.String("junit", "", "`file` for the report as JUnit XML")
			out := set.String("out", "", "`folder` for traces and pictures, kept in any case (default a new one of the system's temporary folder, kept after a failure)")
			headful := set.Bool("headful", false, "show the browser's window, on a display of its own where there is none")
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("smoke", args); err != nil {
					return output{}, err
				}
				return a.smoke(ctx, browsers, absoluteOr(a.env.Dir, *junit), absoluteOr(a.env.Dir, *out), *headful)
			}
		},
	}
}

// paths is a flag that collects.
type paths struct{ list *[]string }

func (p *paths) String() string {
	if p.list == nil {
		return "" // pflag makes one to learn the zero value
	}
	return strings.Join(*p.list, ",")
}

func (p *paths) Type() string { return "path" }

func (p *paths) Set(v string) error {
	if v == "" {
		return errors.New("give a path")
	}
	*p.list = append(*p.list, v)
	return nil
}

func absoluteOr(dir, name string) string {
	if name == "" {
		return ""
	}
	return absolute(dir, name)
}

func (a *app) smoke(ctx context.Context, browsers []string, junit, out string, headful bool) (output, error) {
	if len(browsers) == 0 {
		var err error
		if browsers, err = direct.FindAll(); err != nil {
			return output{}, op.NotAvailable(op.BrowserNotFound, "%s", err).WithHint("install Chromium, or give a browser with --browser PATH")
		}
	}
	kept := out != ""
	if !kept {
		var err error
		if out, err = os.MkdirTemp("", "pi-chrome-smoke-"); err != nil {
			return output{}, op.Invalidf("the folder of the evidence cannot be made: %s", err).WithHint("give another with --out")
		}
	}
	view := &smokeView{demoView: demoView{a: a, color: a.color()}}
	var reports []smoke.Report
	passed := true
	for i, path := range browsers {
		report, err := a.smokeOne(ctx, view, path, filepath.Join(out, fmt.Sprintf("browser-%d", i+1)), headful)
		if err != nil {
			return output{}, err
		}
		reports = append(reports, report)
		passed = passed && report.Passed
		if ctx.Err() != nil {
			break
		}
	}
	if passed && !kept {
		for i := range reports {
			reports[i].Trace = ""
		}
		if err := os.RemoveAll(out); err != nil {
			return output{}, fmt.Errorf("removing the evidence: %w", err)
		}
	}
	if err := writeReport(junit, reports); err != nil {
		return output{}, err
	}
	if err := ctx.Err(); err != nil {
		return output{}, err
	}
	result := output{value: map[string]any{"passed": passed, "browsers": reports}, text: "every browser passed", done: !a.globals.json}
	if !passed {
		result.code, result.text = exitRejected, "not every browser passed"
	}
	return result, nil
}

func (a *app) smokeOne(ctx context.Context, view *smokeView, path, dir string, headful bool) (smoke.Report, error) {
	view.line("", "pi-chrome smoke: %s", path)
	report, err := smoke.Run(ctx, smoke.Options{
		Executable: a.env.Executable, Browser: path, Dir: dir, Headful: headful, Begin: view.begin, End: view.end,
	})
	if err != nil {
		return report, err
	}
	view.total(report)
	return report, nil
}

func writeReport(file string, reports []smoke.Report) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	err := smoke.WriteJUnit(&b, reports)
	if err == nil {
		err = os.WriteFile(file, b.Bytes(), 0o644)
	}
	if err != nil {
		return op.Invalidf("the report cannot be written: %s", err).WithHint("give another file with --junit")
	}
	return nil
}

// smokeView shows the steps on stdout, and the one that runs on a terminal.
type smokeView struct {
	demoView
}

func (v *smokeView) begin(number, of int, name string) {
	v.a.progress(number-1, of, name+"…")
}

func (v *smokeView) end(s smoke.Step) {
	v.a.clearBar()
	if v.a.globals.json {
		return
	}
	mark, color := "✓", "32"
	switch s.State {
	case smoke.Failed:
		mark, color = "✗", "1;31"
	case smoke.NotRun:
		mark, color = "-", "2"
	}
	time := fmt.Sprintf("%d ms", s.ElapsedMs)
	if s.State == smoke.NotRun {
		time = "not run"
	}
	fmt.Fprintf(v.a.env.Stdout, "%s %2d %-55s %s\n", v.style(color, mark), s.Number, s.Name, v.style("2", fmt.Sprintf("%9s", time)))
	for _, line := range s.Proved {
		fmt.Fprintln(v.a.env.Stdout, v.style("2", "  │ "+line))
	}
	if f := s.Failure; f != nil {
		w := v.a.env.Stdout
		fmt.Fprintf(w, "  %s while %s\n", v.style("1;31", "failed"), f.While)
		for line := range strings.Lines(f.Message) {
			fmt.Fprintf(w, "    %s\n", strings.TrimRight(line, "\n"))
		}
		if f.Hint != "" {
			fmt.Fprintf(w, "    hint: %s\n", f.Hint)
		}
		for _, line := range f.Evidence() {
			kind, name, _ := strings.Cut(line, " ")
			fmt.Fprintf(w, "    %-8s %s\n", kind, name)
		}
	}
}

func (v *smokeView) total(r smoke.Report) {
	if v.a.globals.json {
		return
	}
	product := r.Product
	if product == "" {
		product = r.Browser
	}
	i := slices.IndexFunc(r.Steps, func(s smoke.Step) bool { return s.State != smoke.Passed })
	text, color := fmt.Sprintf("%s passed all %d steps in %.1f s", product, len(r.Steps), float64(r.ElapsedMs)/1000), "1;32"
	if i >= 0 {
		text, color = fmt.Sprintf("%s passed %d of %d steps; step %d, %s, %s", product, i, len(r.Steps), i+1, r.Steps[i].Name, r.Steps[i].State), "1;31"
	}
	fmt.Fprintf(v.a.env.Stdout, "\n%s\n", v.style(color, text))
}
