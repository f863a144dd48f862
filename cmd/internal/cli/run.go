package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// Bounds of the results that a report of a script holds.
const (
	maxRunValue  = 4 << 20
	maxRunValues = 32 << 20
)

const runDoc = "Each line is a command as after pi-chrome, or a JSON object {\"tool\":…,\"input\":…}. All lines are checked before the first one runs. " +
	"They share one connection and the session; the first that is not done, or is not as expected, ends the script with its exit code, a picture of the tab and the trace. " +
	"docs/run.md tells the whole form.\n\n" +
	"  # fill in the form, and see that it was taken\n" +
	"  navigate https://example.org/order?item=$item\n" +
	"  find --role textbox --name Email => as email ref textbox Email\n" +
	"  fill $email \"$address\"\n" +
	"  click --selector '#send' => text contains Thanks"

// runFlags are the flags of run.
type runFlags struct {
	vars, env  []string
	results    bool
	evidence   string
	noEvidence bool
}

func runScriptCommand() *command {
	return &command{
		name: "run", group: groupBrowser, args: "[FLAGS] FILE|-", summary: "Run a script: one command a line, with variables and expectations.", doc: runDoc,
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			var f runFlags
			set.StringArrayVar(&f.vars, "var", nil, "set a variable: `name=value`; may be given several times")
			set.StringArrayVar(&f.env, "env", nil, "take the variable of this `name` from the environment; may be given several times")
			set.BoolVar(&f.results, "results", false, "print the text of each result below its line")
			set.StringVar(&f.evidence, "evidence", "pi-chrome-run", "`folder` below the working directory for the picture and the trace of a failure")
			set.BoolVar(&f.noEvidence, "no-evidence", false, "keep neither picture nor trace of a failure")
			return func(ctx context.Context, args []string) (output, error) {
				return a.runScript(ctx, f, args, a.scriptOwner)
			}
		},
	}
}

// scriptOwner is what a script needs of an owner.
type scriptOwner interface {
	run(ctx context.Context, as *app, desc op.Descriptor, input json.RawMessage) (output, error)
	close()
}

// sharedOwner runs every line over one connection.
type sharedOwner struct{ c *client.Client }

func (a *app) scriptOwner(ctx context.Context) (scriptOwner, error) {
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	return sharedOwner{c}, nil
}

func (o sharedOwner) run(ctx context.Context, as *app, desc op.Descriptor, input json.RawMessage) (output, error) {
	return as.operateOn(ctx, func(context.Context) (*client.Client, func(), error) { return o.c, func() {}, nil }, desc, input)
}

func (o sharedOwner) close() { _ = o.c.Close() } // every outcome has arrived by then

// runStep is what became of one line that was begun.
type runStep struct {
	Line       int             `json:"line"`
	Command    string          `json:"command"` // as written
	Tool       string          `json:"tool"`
	OK         bool            `json:"ok"` // done, and as expected
	Value      json.RawMessage `json:"value,omitempty"`
	ValueBytes int             `json:"valueBytes,omitempty"` // size of a value that was too large to be told
	Text       string          `json:"text,omitempty"`
	Error      *op.Error       `json:"error,omitempty"` // of the command, also one that was expected
	Unmet      string          `json:"unmet,omitempty"` // the expectation that was not met
	CommandID  string          `json:"commandId,omitempty"`
	ElapsedMs  int64           `json:"elapsedMs"`
}

// runReport is the object of --json.
type runReport struct {
	OK        bool      `json:"ok"`
	Error     *op.Error `json:"error,omitempty"` // of the command that ended the script
	Unmet     string    `json:"unmet,omitempty"` // the expectation that ended the script
	Script    string    `json:"script"`
	Done      int       `json:"done"`
	Of        int       `json:"of"`
	ElapsedMs int64     `json:"elapsedMs"`
	Picture   string    `json:"picture,omitempty"`
	Trace     string    `json:"trace,omitempty"`
	Missing   []string  `json:"missing,omitempty"` // why there is no picture or trace
	Steps     []runStep `json:"steps"`

	bytes int
}

// scriptRun is one run of a script.
type scriptRun struct {
	a      *app
	flags  runFlags
	owner  scriptOwner
	vars   map[string]scriptValue
	trace  string // where the lines are traced; "" for nowhere
	report runReport
}

func (a *app) runScript(ctx context.Context, f runFlags, args []string, reach func(context.Context) (scriptOwner, error)) (output, error) {
	if len(args) != 1 {
		return output{}, usageError("run", "give one script: pi-chrome run FILE, or - for stdin")
	}
	if err := op.CheckPortablePath(filepath.ToSlash(f.evidence)); err != nil && !f.noEvidence {
		return output{}, usageError("run", "--evidence: %s", err)
	}
	vars, err := a.runVariables(f)
	if err != nil {
		return output{}, err
	}
	name, text, err := a.readScript(args[0])
	if err != nil {
		return output{}, err
	}
	lines, err := a.parseScript(name, text, vars)
	if err != nil {
		return output{}, err
	}
	r := &scriptRun{a: a, flags: f, vars: vars, trace: a.globals.trace, report: runReport{Script: name, Of: len(lines), Steps: []runStep{}}}
	if r.trace == "" && !f.noEvidence {
		dir, err := os.MkdirTemp("", "pi-chrome-run-")
		if err != nil {
			return output{}, op.Reject(op.Internal, "making a folder for the trace: %s; nothing was run", err).WithHint("free space, or use --no-evidence")
		}
		defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for such files
		r.trace = filepath.Join(dir, "trace.jsonl")
	}
	if r.owner, err = reach(ctx); err != nil {
		return output{}, err
	}
	defer r.owner.close()
	return r.run(ctx, lines)
}

// runVariables are those of --var and --env.
func (a *app) runVariables(f runFlags) (map[string]scriptValue, error) {
	vars := map[string]scriptValue{}
	set := func(flag, name, value string) error {
		if !isName(name) {
			return usageError("run", "%s: %q is no name of a variable: letters, digits and _, not a digit first", flag, name)
		}
		if _, twice := vars[name]; twice {
			return usageError("run", "%s: $%s is set twice", flag, name)
		}
		if len(value) > maxSaved {
			return usageError("run", "%s: the value of $%s has %d bytes; allowed: %d", flag, name, len(value), maxSaved)
		}
		vars[name] = textValue(value)
		return nil
	}
	for _, v := range f.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, usageError("run", "--var is %q; give it as name=value", v)
		}
		if err := set("--var", name, value); err != nil {
			return nil, err
		}
	}
	for _, name := range f.env {
		value := a.env.Getenv(name)
		if value == "" {
			return nil, usageError("run", "--env: the environment has no %s, or an empty one", name)
		}
		if err := set("--env", name, value); err != nil {
			return nil, err
		}
	}
	return vars, nil
}

// readScript reads a file, or stdin.
func (a *app) readScript(file string) (name, text string, err error) {
	in := a.env.Stdin
	if name = file; file == "-" {
		name = "the script on stdin"
	} else {
		f, err := os.Open(absolute(a.env.Dir, file))
		if err != nil {
			return "", "", usageError("run", "the script cannot be read: %s", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxScript+1))
	if err != nil {
		return "", "", usageError("run", "reading %s: %s", name, err)
	}
	return name, strings.TrimPrefix(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\ufeff"), nil
}

func (r *scriptRun) run(ctx context.Context, lines []scriptLine) (output, error) {
	start := time.Now()
	for i := range lines {
		l := &lines[i]
		step, input := r.line(ctx, l)
		r.add(step)
		if err := r.tell(step); err != nil {
			return output{}, err
		}
		if step.OK {
			r.report.Done++
			continue
		}
		r.fail(ctx, l, step, input)
		break
	}
	r.report.ElapsedMs = time.Since(start).Milliseconds()
	r.report.OK = r.report.Done == r.report.Of
	return r.end(ctx)
}

// line runs one line, and returns its input too.
func (r *scriptRun) line(ctx context.Context, l *scriptLine) (step runStep, input json.RawMessage) {
	step = runStep{Line: l.number, Command: l.shown, Tool: l.desc.Tool}
	start := time.Now()
	as, input, err := r.a.lineInput(l, r.vars, owner.Validate)
	var out output
	if err == nil {
		if as.globals.trace == "" {
			as.globals.trace = r.trace
		}
		out, err = r.owner.run(ctx, as, l.desc, input)
	}
	step.ElapsedMs = time.Since(start).Milliseconds()
	step.CommandID = out.commandID
	res := lineResult{text: out.text}
	if out.value != nil {
		raw, ok := out.value.(json.RawMessage)
		if !ok {
			raw, _ = json.Marshal(out.value)
		}
		res.value = raw
	}
	if err == nil && out.code != exitDone {
		err = stoppedList(res.value)
	}
	if err != nil {
		res.err = asError(err)
		res.text = res.err.Message
		step.Error = res.err
	}
	step.Value, step.Text = res.value, out.text
	if res.err != nil && l.want == nil {
		return step, input
	}
	if step.Unmet = l.unmet(res, r.vars); step.Unmet == "" && res.err == nil {
		if err := l.keep(res, r.vars); err != nil {
			step.Unmet = err.Error()
		}
	}
	step.OK = step.Unmet == ""
	return step, input
}

// stoppedList is the error of a list of steps that stopped on its way.
func stoppedList(value json.RawMessage) error {
	var out op.DoOut
	if err := json.Unmarshal(value, &out); err != nil {
		return err
	}
	for _, s := range out.Steps {
		if s.Error != nil {
			return s.Error
		}
	}
	return errors.New("the list of steps stopped on its way")
}

// add takes a step into the report, without a value that is too large.
func (r *scriptRun) add(s runStep) {
	if n := len(s.Value); n > maxRunValue || r.report.bytes+n > maxRunValues {
		s.Value, s.ValueBytes = nil, n
	}
	r.report.bytes += len(s.Value)
	r.report.Steps = append(r.report.Steps, s)
}

// tell prints a line that is over.
func (r *scriptRun) tell(s runStep) error {
	if r.a.globals.json {
		return nil
	}
	state := "ok"
	if !s.OK {
		state = "FAILED"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%4d %6d ms  %-6s  %s\n", s.Line, s.ElapsedMs, state, clip(s.Command, 160))
	if text := strings.TrimRight(s.Text, "\n"); r.flags.results && text != "" {
		b.WriteString("      " + strings.ReplaceAll(text, "\n", "\n      ") + "\n")
	}
	_, err := io.WriteString(r.a.env.Stdout, b.String())
	if err != nil {
		return op.Unknown(op.Internal, "the script was stopped after line %d, since its output could not be written: %s", s.Line, err)
	}
	return nil
}

// fail keeps what helps to understand a failure.
func (r *scriptRun) fail(ctx context.Context, l *scriptLine, s runStep, input json.RawMessage) {
	if s.Unmet != "" {
		r.report.Unmet = fmt.Sprintf("line %d: %s", l.number, s.Unmet)
	} else {
		e := *s.Error
		e.Message = fmt.Sprintf("line %d: %s", l.number, e.Message)
		r.report.Error = &e
	}
	if r.flags.noEvidence {
		return
	}
	stem := time.Now().Format("20060102-150405.000") + fmt.Sprintf("-line-%d", l.number)
	r.report.Picture = r.missing("picture", func() (string, error) { return r.picture(ctx, s, input, stem+".png") })
	r.report.Trace = r.missing("trace", func() (string, error) { return r.keepTrace(stem + ".jsonl") })
}

// missing notes why a piece of evidence is not there.
func (r *scriptRun) missing(what string, get func() (string, error)) string {
	path, err := get()
	if err != nil {
		r.report.Missing = append(r.report.Missing, fmt.Sprintf("no %s: %s", what, err))
	}
	return path
}

// picture shows the tab of the line that failed.
func (r *scriptRun) picture(ctx context.Context, s runStep, input json.RawMessage, name string) (string, error) {
	switch {
	case ctx.Err() != nil:
		return "", errors.New("the script was interrupted")
	case s.Error != nil && s.Error.Kind == op.Unavailable:
		return "", errors.New("the browser is not available")
	}
	desc, err := owner.Find(screenshotTool)
	if err != nil {
		return "", err
	}
	var line struct {
		Target json.RawMessage `json:"target"`
	}
	_ = json.Unmarshal(input, &line) // input of another form has no target
	path := filepath.ToSlash(filepath.Join(r.flags.evidence, name))
	raw, err := json.Marshal(struct {
		Format  string          `json:"format"`
		Capture map[string]any  `json:"capture"`
		Target  json.RawMessage `json:"target,omitempty"`
	}{"png", map[string]any{"kind": "viewport", "path": path}, line.Target})
	if err != nil {
		return "", err
	}
	as := *r.a
	as.globals.timeout, as.globals.trace, as.globals.front = 10*time.Second, "", false
	if _, err := r.owner.run(ctx, &as, desc, raw); err != nil {
		return "", err
	}
	return filepath.Join(r.a.env.Dir, filepath.FromSlash(path)), nil
}

// keepTrace moves the trace to where it stays.
func (r *scriptRun) keepTrace(name string) (string, error) {
	if r.a.globals.trace != "" {
		return r.a.globals.trace, nil // where the user wants it
	}
	if _, err := os.Stat(r.trace); errors.Is(err, os.ErrNotExist) {
		return "", errors.New("no command of the script reached a tab")
	}
	dir := filepath.Join(r.a.env.Dir, r.flags.evidence)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	to := filepath.Join(dir, name)
	return to, moveFile(r.trace, to)
}

// moveFile moves a file, also to another file system.
func moveFile(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// end tells how the script ended and with which exit code.
func (r *scriptRun) end(ctx context.Context) (output, error) {
	rep := &r.report
	code := exitDone
	switch {
	case rep.Error != nil && ctx.Err() != nil && rep.Error.Kind != op.Invalid:
		code = exitInterrupted
	case rep.Error != nil:
		code = exitOf(rep.Error)
	case rep.Unmet != "":
		code = exitUnmet
	}
	out := output{done: true, code: code}
	if r.a.globals.json {
		return out, writeJSON(r.a.env.Stdout, rep)
	}
	last := fmt.Sprintf("%d of %s done in %d ms\n", rep.Done, counted(rep.Of, "command"), rep.ElapsedMs)
	if _, err := io.WriteString(r.a.env.Stdout, last); err != nil {
		return out, err
	}
	switch {
	case rep.Error != nil:
		printError(r.a.stderr, rep.Error)
	case rep.Unmet != "":
		fmt.Fprintf(r.a.stderr, "pi-chrome: error: %s\n", rep.Unmet)
	default:
		return out, nil
	}
	for _, e := range slices.Concat(evidence("picture: ", rep.Picture), evidence("trace: ", rep.Trace), rep.Missing) {
		fmt.Fprintf(r.a.stderr, "pi-chrome: %s\n", e)
	}
	return out, nil
}

func evidence(what, path string) []string {
	if path == "" {
		return nil
	}
	return []string{what + path}
}
