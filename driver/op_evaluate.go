package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// EvaluateIn is the input of chrome_evaluate.
type EvaluateIn struct {
	Expression   string `json:"expression" minLength:"1" maxLength:"1000000" pattern:"\\S" brief:"one expression; wrap statements as (() => { …; return v })()" jsonschema:"one JavaScript expression, evaluated in the page; wrap statements as (() => { …; return value })()"`
	AwaitPromise *bool  `json:"awaitPromise,omitempty" brief:"default true" jsonschema:"whether a promise is waited for, and await may be used; true when absent"`
	op.TabInput
}

// evaluated is the value of an expression as JSON with markers. It is an
// interface so that no output schema is published: any JSON may come.
type evaluated interface {
	op.Texter
	json.Marshaler
}

// projection is the one evaluated.
type projection json.RawMessage

// MarshalJSON returns the value as it is.
func (p projection) MarshalJSON() ([]byte, error) { return p, nil }

// Text is contract §1.11's form: a string verbatim, anything else indented.
func (p projection) Text() string {
	var s string
	if json.Unmarshal(p, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, p, "", "  ") != nil {
		return string(p)
	}
	return b.String()
}

// opEvaluate evaluates one expression, once, in the page's own world. The
// value is projected there (js/project.js), so that no more than the bounds of
// contract §1.12 ever crosses.
//
// An expression that does not parse is rejected: nothing ran. One that throws
// is outcome-unknown: what ran before may have had an effect.
var opEvaluate = op.Define(op.Spec{
	Name: "page.evaluate", Tool: "chrome_evaluate", Profile: "page", Title: "Evaluate",
	Summary: "Evaluate one JavaScript expression in the page and return its value.",
	Brief:   "Evaluate JavaScript in the page and return its value.",
	Doc: "Evaluates the expression once, in the page's own world, with the rights of a user's gesture. " +
		"A promise is awaited unless `awaitPromise` is false.\n\n" +
		"What JSON cannot say (undefined, functions, errors, circular references, …) and what was left out comes as an object with " +
		"`\"_tag\": \"" + cdpmodel.MarkerTag + "\"` and a `kind`. At most 512 values, 12 levels, 128 entries of a collection and 2,000 characters of a text are returned.\n\n" +
		"An expression that does not parse changes nothing and is rejected. One that throws, or runs longer than the deadline, may have had an effect. " +
		"It is never evaluated a second time.",
	Effect: op.MayMutate, Verb: op.VerbScript, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"expression"},
	Examples: []op.Example{
		{Title: "Read the title", Input: json.RawMessage(`{"expression":"document.title"}`)},
		{Title: "Await a request", Input: json.RawMessage(`{"expression":"(await fetch(location.href)).status"}`)},
		{Title: "Run statements", Input: json.RawMessage(`{"expression":"(() => { const n = document.links.length; return { links: n } })()"}`)},
	},
	Errors: []op.Code{op.EvaluationFailed, op.DialogOpen, op.DeadlineExceeded, op.DocumentChanged},
}, evaluate)

// around returns what stands before and after the expression in the script of
// an evaluation. The expression begins on the first line, so that places are
// told right, and a new line ends a comment in it.
func around(await bool) (head, tail string) {
	source := strings.NewReplacer("AWAITED", fmt.Sprint(await), "PROJECT", script("project")).Replace(script("evaluate"))
	head, tail, _ = strings.Cut(source, "EXPRESSION")
	if !await {
		head = strings.Replace(head, "async ", "", 1)
	}
	return head, tail
}

// evaluateMargin is left of the deadline for Chrome to stop the script and
// say so.
const evaluateMargin = 250 * time.Millisecond

func evaluate(ctx context.Context, c *Call, in EvaluateIn) (evaluated, error) {
	await := in.AwaitPromise == nil || *in.AwaitPromise
	head, tail := around(await)
	source := head + in.Expression + tail

	t := c.tab
	budget := op.DefaultDeadline.Budget(nil)
	ctx, cancelTime := context.WithTimeoutCause(ctx, budget, fmt.Errorf("it was not done after %s: %w", budget, context.DeadlineExceeded))
	defer cancelTime()
	if at, ok := ctx.Deadline(); ok {
		budget = time.Until(at)
	}
	waiting, opened := context.WithCancelCause(ctx)
	defer opened(nil)
	// A dialog stops the script until somebody answers it.
	stop := t.watch(func(ev op.Event) {
		if ev.Method == page.JavascriptDialogOpening.Method {
			opened(errDialogOpened)
		}
	})
	defer stop()

	yes := true
	timeout := runtime.TimeDelta(max(budget-evaluateMargin, time.Millisecond).Milliseconds())
	began := time.Now()
	c.begin()
	res, err := call(waiting, t.conn, runtime.Evaluate, runtime.EvaluateParams{Expression: source, ReturnByValue: &yes, AwaitPromise: &await,
		UserGesture: &yes, Silent: &yes, DisableBreaks: &yes, Timeout: timeout})
	if err != nil {
		return nil, t.evaluateError(ctx, waiting, budget, time.Since(began), err)
	}
	if d := res.ExceptionDetails; d != nil {
		return nil, t.notEvaluated(d, head, in.Expression)
	}
	var out struct {
		Thrown bool            `json:"thrown"`
		Value  json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(res.Result.Value, &out); err != nil {
		return nil, fmt.Errorf("decoding the value: %w", err)
	}
	value, err := unpacked(out.Value)
	if err == nil {
		_, err = cdpmodel.CheckProjection(value)
	}
	if err != nil {
		return nil, op.Unknown(op.EvaluationFailed, "chrome_evaluate on tab %d was done, but the page's own scripts garbled its value: %s", t.conn.Key().TabID, err).
			WithHint("take a snapshot and look; reduce the value to text or numbers in the expression")
	}
	if out.Thrown {
		return nil, t.threw(value, head)
	}
	return projection(plainJSON(value)), nil
}

// unpacked is a value of project.js as plain JSON: an object comes as the list
// of its keys and that of its values, since the relay keeps no other order.
func unpacked(raw json.RawMessage) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := unpack(&out, raw); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unpack(out *bytes.Buffer, raw json.RawMessage) error {
	comma := func(i int) {
		if i > 0 {
			out.WriteByte(',')
		}
	}
	switch {
	case len(raw) > 0 && raw[0] == '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		out.WriteByte('[')
		for i, item := range items {
			comma(i)
			if err := unpack(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case len(raw) > 0 && raw[0] == '{':
		var object struct {
			K []json.RawMessage `json:"k"`
			V []json.RawMessage `json:"v"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		if len(object.K) != len(object.V) {
			return fmt.Errorf("an object has %d keys and %d values", len(object.K), len(object.V))
		}
		out.WriteByte('{')
		for i, key := range object.K {
			if len(key) == 0 || key[0] != '"' {
				return fmt.Errorf("%.20s is a key", key)
			}
			comma(i)
			out.Write(key)
			out.WriteByte(':')
			if err := unpack(out, object.V[i]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	default:
		out.Write(raw)
	}
	return nil
}

// plainJSON writes the value with as few escapes as may be, so that it is the
// same over every transport. The order of the properties stays.
func plainJSON(raw json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			out.WriteByte(raw[i])
			i++
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(raw))
		var s string
		if json.Unmarshal(raw[i:end], &s) != nil {
			return raw
		}
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if enc.Encode(s) != nil {
			return raw
		}
		out.Truncate(out.Len() - 1) // the encoder ends with a new line
		i = end
	}
	return out.Bytes()
}

var errDialogOpened = errors.New("a dialog opened")

// evaluateError explains an evaluation without an answer.
func (t *Tab) evaluateError(ctx, waiting context.Context, budget, took time.Duration, err error) error {
	id := t.conn.Key().TabID
	if errors.Is(context.Cause(waiting), errDialogOpened) {
		e := op.Unknown(op.DialogOpen, "chrome_evaluate on tab %d opened a dialog, or one opened meanwhile: the script stands still until it is answered", id).
			WithHint("answer the dialog, then take a snapshot")
		if d := t.openDialog(); d != nil {
			e.Message = fmt.Sprintf("chrome_evaluate on tab %d: %s opened: %q; the script stands still until it is answered", id, d.called(), cut(d.Message, 300))
			e.WithDetail("type", d.Type).WithDetail("message", cut(d.Message, 1000))
		}
		return e
	}
	stopped := false
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		// Chrome calls a stopped script that had to be awaited an internal
		// error.
		stopped = strings.Contains(p.Message, "Execution was terminated") ||
			strings.Contains(p.Message, "Internal error") && took >= budget-evaluateMargin
	}
	if !stopped && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return err
	}
	if stopped {
		return op.Unknown(op.DeadlineExceeded, "chrome_evaluate on tab %d ran for %s and was stopped; what ran may have had an effect", id, budget.Round(time.Millisecond)).
			WithHint("take a snapshot and look; evaluate something that ends sooner").WithCause(err)
	}
	// Nobody waits for the script any more; one that loops would keep the
	// page from everybody.
	t.mu.Lock()
	t.enqueueLocked(t.stopRunaway)
	t.mu.Unlock()
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return op.Unknown(op.DeadlineExceeded, "chrome_evaluate on tab %d had no value after %s; what ran may have had an effect, and may still be running", id, budget.Round(time.Millisecond)).
		WithHint("take a snapshot and look; a promise that never settles keeps it waiting").WithCause(err)
}

// stopRunaway stops the running script of a page that does not answer. A page
// that answers runs none that could be meant.
func (t *Tab) stopRunaway(ctx context.Context) {
	probe, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := call(probe, t.conn, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
	if probe.Err() == nil {
		return
	}
	if err := t.conn.Call(ctx, runtime.CommandTerminateExecution, nil, nil); err != nil {
		t.log.Debug("stopping a script", "error", err)
	}
	t.log.Debug("stopped a script that held the page", "probe", err)
}

// notEvaluated explains an exception that the wrapper did not catch: the
// expression does not parse, or the page broke the projection itself.
func (t *Tab) notEvaluated(d *runtime.ExceptionDetails, head, expression string) error {
	text := exceptionText(d)
	syntax := d.Exception != nil && d.Exception.ClassName == "SyntaxError" && !strings.Contains(d.Exception.Description, "\n    at ")
	if !syntax {
		return op.Unknown(op.EvaluationFailed, "chrome_evaluate on tab %d was done, but its value cannot be read: %s", t.conn.Key().TabID, cut(text, 500)).
			WithHint("take a snapshot and look; reduce the value to text or numbers in the expression").WithDetail("exception", cut(text, 2000))
	}
	lines := strings.Count(expression, "\n") + 1
	line, column := position(int(d.LineNumber)+1, int(d.ColumnNumber)+1, head)
	if line > lines { // the end of the wrapper: the expression is not complete
		line = lines
		column = len([]rune(expression[strings.LastIndexByte(expression, '\n')+1:])) + 1
	}
	return op.Reject(op.EvaluationFailed, "chrome_evaluate on tab %d: the expression does not parse: %s (line %d, column %d); nothing ran", t.conn.Key().TabID, cut(text, 500), line, column).
		WithHint("give one expression; wrap statements as (() => { …; return value })(), and use await only with awaitPromise").
		WithDetail("exception", cut(text, 2000)).WithDetail("line", line).WithDetail("column", column)
}

// threw explains an exception of the expression.
func (t *Tab) threw(value json.RawMessage, head string) error {
	text, stack := thrownText(value)
	e := op.Unknown(op.EvaluationFailed, "chrome_evaluate on tab %d failed: %s; what ran before it threw may have had an effect", t.conn.Key().TabID, cut(text, 500)).
		WithHint("correct the expression; take a snapshot and look first if it changes the page").
		WithDetail("exception", cut(text, 2000)).WithDetail("value", value)
	if at := anonymousFrame.FindStringSubmatch(stack); at != nil {
		line, _ := strconv.Atoi(at[1])
		column, _ := strconv.Atoi(at[2])
		if line, column = position(line, column, head); column > 0 {
			e.WithDetail("line", line).WithDetail("column", column)
			e.Message = fmt.Sprintf("chrome_evaluate on tab %d failed: %s (line %d, column %d); what ran before it threw may have had an effect", t.conn.Key().TabID, cut(text, 500), line, column)
		}
	}
	return e
}

// anonymousFrame is a place in the evaluated source, which has no address.
var anonymousFrame = regexp.MustCompile(`<anonymous>:(\d+):(\d+)`)

// position turns a place in the source, counted from 1, into one in the
// expression.
func position(line, column int, head string) (int, int) {
	if line == 1 {
		column -= len(head)
	}
	return line, column
}

// thrownText is a projected thrown value as a person reads it, with its stack
// where it has one.
func thrownText(value json.RawMessage) (text, stack string) {
	plain := func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
		if m, err := cdpmodel.ParseMarker(raw); err == nil && m.Kind == cdpmodel.KindStringTruncated {
			return m.Prefix
		}
		return ""
	}
	m, err := cdpmodel.ParseMarker(value)
	if err != nil || m.Kind != cdpmodel.KindError {
		return "it threw " + cut(string(value), 500), ""
	}
	name, message := plain(m.Name), plain(m.Message)
	switch {
	case name == "":
		text = message
	case message == "":
		text = name
	default:
		text = name + ": " + message
	}
	return text, plain(m.Stack)
}
