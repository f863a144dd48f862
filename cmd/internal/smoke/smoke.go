// Package smoke tries a browser out as a user or a CI would before trusting
// it: it starts the browser with a throw-away profile, and goes the whole way
// from an unpaired extension to a page that was used and cleaned up, with
// strangers, older releases and lost answers on the way.
//
// Nothing is simulated on either side: the owner is a process of this program,
// the extension is the one that is installed, the popup is its page. Only the
// line between the two is ours, so that frames can be changed and lost on it.
package smoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/op"
	"pi-chrome/fixtures"
)

// Bounds.
const (
	stepTimeout     = 45 * time.Second
	evidenceTimeout = 15 * time.Second
)

// Options say what to try. Executable and Dir are required.
type Options struct {
	Executable string // of pi-chrome
	Browser    string // path of the browser; "" looks for one
	Headful    bool
	// Dir is a folder for the trace and, after a failure, the pictures and
	// the owner's log.
	Dir string
	// Begin and End are told of each step; nil for nobody.
	Begin func(number, of int, name string)
	End   func(Step)

	// before is called when a step begins, so that a test can break it.
	before func(r *run, step string) error
}

// Report is what trying one browser came to.
type Report struct {
	Browser   string `json:"browser"`           // its path
	Product   string `json:"product,omitempty"` // what it says of itself, such as Chrome/156.0.8078.114
	Passed    bool   `json:"passed"`
	ElapsedMs int64  `json:"elapsedMs"`
	Steps     []Step `json:"steps"`
	// Trace holds the frames between extension and owner, as JSON lines.
	Trace string `json:"trace,omitempty"`
}

// Evidence lists the files that were kept of a failure.
func (f *Failure) Evidence() []string { return evidenceOf(f) }

// StepState says how a step came out.
type StepState string

// The states.
const (
	Passed StepState = "passed"
	Failed StepState = "failed"
	NotRun StepState = "not-run" // a step before it failed
)

// Step is one step of trying a browser.
type Step struct {
	Number    int       `json:"number"` // from 1
	Name      string    `json:"name"`
	State     StepState `json:"state"`
	ElapsedMs int64     `json:"elapsedMs"`
	Proved    []string  `json:"proved"` // sentences, also of a step that failed later
	Failure   *Failure  `json:"failure,omitempty"`
}

// Failure says why and where a step failed.
type Failure struct {
	While    string   `json:"while"` // what was being done
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Trace    string   `json:"trace,omitempty"`    // the frames between extension and owner
	Tabs     string   `json:"tabs,omitempty"`     // the frames of the tabs
	Pictures []string `json:"pictures,omitempty"` // of the open pages
	Log      string   `json:"log,omitempty"`      // of the owner
}

// run is one browser being tried.
type run struct {
	opts   Options
	report Report
	step   *Step
	while  string

	site    *fixtures.Server
	base    string // its address
	line    *between
	box     *sandbox.Sandbox
	client  *client.Client
	session string

	connector string // the id of the paired profile
	label     string
	generation,
	firstTab int
	tabs []int // what the session owns
}

// step is one entry of the list of steps.
type step struct {
	name string
	do   func(*run, context.Context) error
}

// steps is the order in which a browser is tried.
func steps() []step {
	return []step{
		{"install", (*run).install},
		{"refuse strangers", (*run).strangers},
		{"an owner of another release", (*run).otherOwner},
		{"pair in the popup", (*run).pairByPopup},
		{"refuse a forged profile", (*run).forged},
		{"navigate", (*run).navigate},
		{"restart the worker", (*run).restartWorker},
		{"an owner without the secret", (*run).badServerProof},
		{"an extension of another release", (*run).otherExtension},
		{"a second tab", (*run).secondTab},
		{"wait", (*run).wait},
		{"click", (*run).click},
		{"lose an answer", (*run).loseAnswer},
		{"read", (*run).read},
		{"clean up", (*run).cleanUp},
		{"unpair", (*run).unpair},
		{"pair by the folder", (*run).pairByFolder},
		{"end", (*run).end},
	}
}

// Run tries one browser. The error is only of what is not the browser's, such
// as a folder that cannot be written; a step that failed is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Begin == nil {
		o.Begin = func(int, int, string) {}
	}
	if o.End == nil {
		o.End = func(Step) {}
	}
	began := time.Now()
	r := &run{opts: o, session: "smoke", report: Report{Browser: o.Browser, Passed: true, Trace: filepath.Join(o.Dir, "wire.jsonl")}}
	stop, err := r.serve()
	if err != nil {
		return r.report, err
	}
	all := steps()
	for i, s := range all {
		st := Step{Number: i + 1, Name: s.name, State: NotRun, Proved: []string{}}
		if r.report.Passed && ctx.Err() == nil {
			o.Begin(i+1, len(all), s.name)
			r.take(ctx, s, &st)
		}
		r.report.Steps = append(r.report.Steps, st)
		o.End(st)
	}
	if ctx.Err() != nil {
		r.report.Passed = false
	}
	// After the last step there is nothing left to close.
	err = errors.Join(r.close(), stop())
	r.report.ElapsedMs = time.Since(began).Milliseconds()
	return r.report, err
}

// serve starts what is not the browser's: the pages and the line to the owner.
func (r *run) serve() (stop func() error, err error) {
	if err := os.MkdirAll(r.opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the evidence: %w", err)
	}
	trace, err := os.OpenFile(r.report.Trace, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the trace: %w", err)
	}
	if r.line, err = newBetween(trace); err != nil {
		return nil, errors.Join(err, trace.Close())
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving the pages: %w", err), r.line.close())
	}
	r.site = fixtures.New()
	r.base = "http://" + l.Addr().String()
	server := &http.Server{Handler: r.site, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		err := errors.Join(r.line.close(), server.Close())
		if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return err
	}, nil
}

// take makes one step.
func (r *run) take(ctx context.Context, s step, st *Step) {
	began := time.Now()
	r.step, r.while = st, "beginning"
	sctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("the step took longer than %s", stepTimeout))
	defer cancel()
	var err error
	if r.opts.before != nil {
		err = r.opts.before(r, s.name)
	}
	if err == nil {
		err = s.do(r, sctx)
	}
	if err != nil && sctx.Err() != nil && !errors.Is(err, context.Cause(sctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(sctx), err)
	}
	st.ElapsedMs = time.Since(began).Milliseconds()
	st.State = Passed
	if err != nil {
		st.State = Failed
		st.Failure = &Failure{While: r.while, Message: err.Error(), Trace: r.report.Trace}
		if e, ok := errors.AsType[*op.Error](err); ok {
			st.Failure.Hint = e.Hint
		}
		r.report.Passed = false
		r.evidence(ctx, st.Failure)
	}
}

// doing says what is done now, for a failure to tell.
func (r *run) doing(format string, args ...any) { r.while = fmt.Sprintf(format, args...) }

// proved adds a sentence to the step.
func (r *run) proved(format string, args ...any) {
	r.step.Proved = append(r.step.Proved, fmt.Sprintf(format, args...))
}

// close ends what is still running.
func (r *run) close() error {
	var err error
	if r.client != nil {
		err = r.client.Close()
		r.client = nil
	}
	if r.box != nil {
		err = errors.Join(err, r.box.Close())
		r.box = nil
	}
	return err
}

// end checks that everything that was started ends.
func (r *run) end(ctx context.Context) error {
	r.doing("unpairing and ending owner and browser")
	if _, err := owner.Unpair(ctx, r.client, r.connector, false); err != nil {
		return err
	}
	port, dir, pid := r.box.Port, r.box.Dir, r.box.Browser.PID()
	if err := r.close(); err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the throw-away folder %s is still there", dir)
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("the owner's port %d is not free again: %w", port, err)
	}
	r.proved("browser (process %d), owner and profile are gone, port %d is free", pid, port)
	return l.Close()
}

func one(line string) string { return strings.Join(strings.Fields(line), " ") }
