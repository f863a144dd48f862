package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"pi-chrome/driver/op"
)

// Exit codes.
const (
	exitDone        = 0
	exitUnmet       = 1 // of a script only
	exitUsage       = 2
	exitRejected    = 3
	exitUnknown     = 4
	exitUnavailable = 5
	exitInterrupted = 130
)

// exitOf is the exit code of an error.
func exitOf(e *op.Error) int {
	switch e.Kind {
	case op.Invalid:
		return exitUsage
	case op.OutcomeUnknown:
		return exitUnknown
	case op.Unavailable:
		return exitUnavailable
	}
	return exitRejected
}

// success and failure are the two objects of --json.
type success struct {
	OK        bool   `json:"ok"`
	Value     any    `json:"value"`
	Text      string `json:"text"`
	CommandID string `json:"commandId,omitempty"`
	ElapsedMs *int64 `json:"elapsedMs,omitempty"`
}

type failure struct {
	OK        bool      `json:"ok"`
	Error     *op.Error `json:"error"`
	CommandID string    `json:"commandId,omitempty"`
}

// finish prints the end of a command and returns the exit code.
func (a *app) finish(ctx context.Context, _ string, out output, err error) int {
	a.clearBar()
	if err == nil {
		err = a.tellResult(out)
	} else if a.file != nil {
		a.file.discard()
	}
	if err == nil {
		return out.code
	}
	e := asError(err)
	code := exitOf(e)
	// A second look at the context: a command that fails because it was
	// interrupted tells so with its exit code; its message tells what
	// became of it.
	if ctx.Err() != nil && e.Kind != op.Invalid {
		code = exitInterrupted
	}
	if a.globals.json {
		if err := writeJSON(a.stdout, failure{Error: e, CommandID: out.commandID}); err != nil {
			fmt.Fprintf(a.stderr, "pi-chrome: error: %s\n", err)
		}
		return code
	}
	printError(a.stderr, e)
	return code
}

// tellResult writes the result of a command that has done its work. When that
// fails, the error does not read as if nothing had happened.
func (a *app) tellResult(out output) error {
	var err error
	switch {
	case out.done:
	case a.globals.json:
		err = writeJSON(a.env.Stdout, success{OK: true, Value: out.value, Text: out.text, CommandID: out.commandID, ElapsedMs: out.elapsedMs})
	case out.text != "":
		_, err = io.WriteString(a.env.Stdout, strings.TrimRight(out.text, "\n")+"\n")
	}
	where := "stdout"
	if a.file != nil {
		where = a.globals.output
		if err == nil {
			err = a.file.publish()
		} else {
			a.file.discard()
		}
	}
	if err != nil {
		e := op.Unknown(op.Internal, "the command was done, but its result could not be written to %s: %s", where, err)
		if out.commandID != "" {
			e.WithHint("where it may have changed something, pi-chrome outcome %s tells what it did", out.commandID)
		}
		return e
	}
	if a.file != nil {
		a.note("written to %s", where)
	}
	return nil
}

func printError(w io.Writer, e *op.Error) {
	fmt.Fprintf(w, "pi-chrome: error: %s\n", e.Message)
	if e.Hint != "" {
		fmt.Fprintf(w, "pi-chrome: hint: %s\n", e.Hint)
	}
	// What is wrong with an input the message says in full.
	if e.Kind != op.Invalid {
		fmt.Fprintf(w, "pi-chrome: code: %s (see pi-chrome help %[1]s)\n", e.Code)
	}
}

// asError returns err as the one error type. Errors of this machine (a file
// that cannot be written) become rejected ones.
func asError(err error) *op.Error {
	if e, ok := errors.AsType[*op.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return op.Reject(op.Canceled, "interrupted before anything was done")
	}
	return op.Reject(op.Internal, "%s", err)
}

func writeJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// note tells the person at the terminal what is going on; it is silent in
// scripts.
func (a *app) note(format string, args ...any) {
	if a.env.StderrTerminal && !a.globals.json {
		a.clearBar()
		fmt.Fprintf(a.env.Stderr, format+"\n", args...)
	}
}
