package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// WaitCondition is one thing to wait for.
type WaitCondition struct {
	By    string `json:"by" enum:"selector|visible|hidden|enabled|textContains|textGone|urlIncludes|load|networkIdle|expression" brief:"" jsonschema:"what to wait for: selector (exists), visible, hidden, enabled: a CSS selector; textContains, textGone: text of the page; urlIncludes: part of the address; load, networkIdle: no value; expression: JavaScript that becomes true"`
	Value string `json:"value,omitzero" maxLength:"20000" brief:"selector, text, address part or JavaScript; none for load, networkIdle" jsonschema:"the selector, text, part of the address or expression"`
}

func (w WaitCondition) String() string {
	if w.Value == "" {
		return w.By
	}
	return w.By + ": " + w.Value
}

// WaitIn is the input of chrome_wait.
type WaitIn struct {
	Condition  WaitCondition   `json:"condition,omitzero" brief:"" jsonschema:"what to wait for"`
	AnyOf      []WaitCondition `json:"anyOf,omitempty" minItems:"1" maxItems:"10" brief:"one is enough" jsonschema:"several conditions of which one is enough"`
	TimeoutMs  int             `json:"timeoutMs,omitzero" min:"1" max:"120000" brief:"default 10000" jsonschema:"how long to wait, in milliseconds; 10000 when absent"`
	IntervalMs int             `json:"intervalMs,omitzero" min:"1" max:"10000" brief:"-" jsonschema:"how often to look, in milliseconds; 250 when absent"`
	op.TabInput
}

// EffectOf says that only an expression may change the page.
func (in WaitIn) EffectOf() op.Effect {
	for _, c := range in.conditions() {
		if c.By == "expression" {
			return op.MayMutate
		}
	}
	return op.ReadOnly
}

func (in WaitIn) conditions() []WaitCondition {
	if len(in.AnyOf) > 0 {
		return in.AnyOf
	}
	return []WaitCondition{in.Condition}
}

// WaitOut is the result of chrome_wait. A deadline is an observation, not an
// error: Satisfied is false then.
type WaitOut struct {
	Satisfied   bool            `json:"satisfied"`
	ElapsedMs   int64           `json:"elapsedMs"`
	Met         *WaitCondition  `json:"met,omitempty" jsonschema:"which of several conditions came true"`
	Observation WaitObservation `json:"observation"`
	Reason      string          `json:"reason,omitempty" jsonschema:"why the page could not be looked at in the end, or why its network is not idle though no request is known"`
	asked       []WaitCondition
	read        bool // the page was looked at, be it before
}

// WaitObservation is how the page stood at the end.
type WaitObservation struct {
	URL            string `json:"url"`
	Title          string `json:"title"`
	ReadyState     string `json:"readyState" enum:"loading|interactive|complete"`
	BodyTextLength int    `json:"bodyTextLength"`
	MatchCount     *int   `json:"matchCount,omitempty" jsonschema:"how many elements the selector matches"`
	InFlight       *int   `json:"requestsInFlight,omitempty" jsonschema:"requests that have not ended, as far as they are known"`
}

// Text is contract §1.11's form.
func (o WaitOut) Text() string {
	var b strings.Builder
	state := "not satisfied"
	if o.Satisfied {
		state = "satisfied"
	}
	fmt.Fprintf(&b, "Wait condition %s\n", state)
	for _, c := range o.asked {
		fmt.Fprintf(&b, "%s\n", c)
	}
	if o.Met != nil {
		fmt.Fprintf(&b, "met: %s\n", *o.Met)
	}
	title := o.Observation.Title
	if title == "" {
		title = "(untitled)"
	}
	body := fmt.Sprintf("%d characters", o.Observation.BodyTextLength)
	if !o.read {
		title, body = "(not read)", "not read"
	}
	fmt.Fprintf(&b, "elapsed: %dms\nurl: %s\ntitle: %s\nreadyState: %s\nbody text: %s",
		o.ElapsedMs, o.Observation.URL, title, o.Observation.ReadyState, body)
	if o.Observation.MatchCount != nil {
		fmt.Fprintf(&b, "\nselector matches: %d", *o.Observation.MatchCount)
	}
	if o.Observation.InFlight != nil {
		fmt.Fprintf(&b, "\nrequests in flight: %d", *o.Observation.InFlight)
	}
	if o.Reason != "" {
		fmt.Fprintf(&b, "\nreason: %s", o.Reason)
	}
	return b.String()
}

var opWait = op.Define(op.Spec{
	Name: "page.wait", Tool: "chrome_wait", Profile: "page", Title: "Wait",
	Summary: "Wait until the page shows something, leaves an address, loads or falls quiet.",
	Brief:   "Wait until a condition holds.",
	Doc: "Looks until the condition, or one of `anyOf`, holds, or the time is up: then `satisfied` is false and the observation says how the page stands; " +
		"of a page that is too busy to answer, how it stood before, with the `reason`. " +
		"It looks into frames and shadow roots, follows navigations, and changes nothing unless an `expression` does.\n\n" +
		"`networkIdle` holds when the document has been idle once, or has loaded where an event source keeps it from that, and no request of the page or its frames was in flight for 500 ms after the wait began. " +
		"Web sockets, event sources and requests of workers do not count. Requests and event sources that began before the wait are known only where the tab's network is captured, " +
		"which the first list of its requests starts: ask for one before the action whose requests are to be waited for, or wait for what they change in the page.",
	Effect: op.ReadOnly, Deadline: op.WaitDeadline, Tab: op.PageTab, PassesBy: true,
	OneOf: [][]string{{"condition", "anyOf"}},
	Examples: []op.Example{
		{Title: "Wait for a text", Input: json.RawMessage(`{"condition":{"by":"textContains","value":"Here now"}}`), Page: "wait/appears.html"},
		{Title: "Wait for a result or an error", Input: json.RawMessage(`{"anyOf":[{"by":"visible","value":".late"},{"by":"visible","value":".error"}],"timeoutMs":5000}`), Page: "wait/appears.html"},
	},
	Errors: []op.Code{op.ActionTargetNotFound, op.EvaluationFailed, op.DialogOpen, op.InvalidInput},
}, wait)

// Check refuses a condition with too much or too little.
func (in WaitIn) Check() error {
	for _, cond := range in.conditions() {
		needs := cond.By != "load" && cond.By != "networkIdle"
		if needs && strings.TrimSpace(cond.Value) == "" {
			return op.Invalidf("chrome_wait: condition %q needs a %q", cond.By, "value")
		}
		if !needs && cond.Value != "" {
			return op.Invalidf("chrome_wait: condition %q takes no %q", cond.By, "value")
		}
	}
	return nil
}

func wait(ctx context.Context, c *Call, in WaitIn) (WaitOut, error) {
	conds := in.conditions()
	timeout, interval := 10*time.Second, 250*time.Millisecond
	if in.TimeoutMs > 0 {
		timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	}
	if in.IntervalMs > 0 {
		interval = time.Duration(in.IntervalMs) * time.Millisecond
	}
	start := time.Now()
	w := &waiter{t: c.tab, c: c, conds: conds, deadline: start.Add(timeout)}
	// Something in the tab is a reason to look at once; the first looks come
	// quickly, since most pages need little time.
	wake := make(chan struct{}, 1)
	stop := c.tab.watch(func(op.Event) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer stop()
	if slices.ContainsFunc(conds, func(c WaitCondition) bool { return c.By == "networkIdle" }) {
		w.net = c.tab.watchIdle()
		defer w.net.stop()
	}
	step := min(20*time.Millisecond, interval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		met, err := w.look(ctx)
		if err != nil {
			return WaitOut{}, err
		}
		out := WaitOut{Satisfied: met != nil, ElapsedMs: time.Since(start).Milliseconds(), Observation: w.obs, asked: conds, read: w.read}
		if met != nil && len(in.AnyOf) > 0 {
			out.Met = met
		}
		left := time.Until(w.deadline)
		if met != nil || left <= 0 {
			switch {
			case met != nil:
			case w.busy:
				out.Reason = "the page did not answer in time: its scripts keep it busy, or it is stopped in a debugger"
			case w.net != nil:
				out.Reason = w.net.reason()
			}
			return out, nil
		}
		next := min(step, left)
		if w.again > 0 {
			next = min(next, w.again)
		}
		timer.Reset(next)
		step = min(step*2, interval)
		select {
		case <-timer.C:
		case <-wake:
			// Events come in bursts: one look for all of them.
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return WaitOut{}, context.Cause(ctx)
		}
	}
}

// lookGrace is what a look has at least, also when the wait's time is up;
// firstGrace is the same until the page was read once, so that a short wait on
// a busy machine has something to tell.
const (
	lookGrace  = time.Second
	firstGrace = 1800 * time.Millisecond
)

// frameLook bounds the look into one frame; it must not hold up the rest.
const frameLook = time.Second

// waiter is a wait under way.
type waiter struct {
	t        *Tab
	c        *Call
	conds    []WaitCondition
	deadline time.Time
	net      *idleWatch // where a condition asks for it
	walked   time.Time

	// What the last look found. A page that is busy leaves the observation as
	// it was.
	obs   WaitObservation
	read  bool // the page was read, be it by an earlier look
	busy  bool // the page did not answer in time
	again time.Duration
}

// look checks the conditions once and returns the first that holds. A page
// that navigates while it is looked at just does not hold yet, and so does one
// that is busy until the wait's time is up: that is no error.
func (w *waiter) look(ctx context.Context) (*WaitCondition, error) {
	t := w.t
	grace := lookGrace
	if !w.read {
		grace = firstGrace
	}
	until := time.Now().Add(grace)
	if until.Before(w.deadline) {
		until = w.deadline
	}
	lctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	lctx, end := context.WithCancelCause(lctx)
	defer end(nil)
	// A dialog stops the page's scripts, so nothing would answer any more.
	stop := t.watch(func(op.Event) {
		if d := t.openDialog(); d != nil {
			end(dialogError(t, d))
		}
	})
	defer stop()
	if d := t.openDialog(); d != nil {
		return nil, dialogError(t, d)
	}
	w.busy, w.again = false, 0
	met, err := w.check(lctx)
	if w.net != nil {
		_, n, _ := w.net.idle()
		w.obs.InFlight = &n
	}
	switch {
	case err == nil || isCode(err, op.DocumentChanged):
		return met, nil
	case t.openDialog() != nil:
		return nil, dialogError(t, t.openDialog())
	case lctx.Err() != nil && ctx.Err() == nil:
		w.busy = true
		return w.withoutPage(), nil
	}
	return nil, err
}

// check looks at the page and then at each condition.
func (w *waiter) check(ctx context.Context) (*WaitCondition, error) {
	t := w.t
	if w.net != nil {
		if err := w.net.listen(ctx); err != nil {
			return nil, err
		}
	}
	var texts []string
	for _, cond := range w.conds {
		if cond.By == "textContains" || cond.By == "textGone" {
			texts = append(texts, cond.Value)
		}
	}
	// Closed shadow roots are met by a walk, which is not for every look.
	if len(texts) > 0 && time.Since(w.walked) > 500*time.Millisecond {
		t.meetAllClosed(ctx)
		w.walked = time.Now()
	}
	obs, shown, err := t.lookAtPage(ctx, texts)
	if err != nil {
		return nil, err
	}
	w.obs, w.read = obs, w.read || shown != nil
	text := 0
	for i := range w.conds {
		cond := &w.conds[i]
		ok := false
		switch cond.By {
		case "textContains", "textGone":
			ok = shown != nil && shown[text] == (cond.By == "textContains")
			text++
		case "load":
			ok = obs.ReadyState == "complete"
		case "expression":
			ok, err = t.truthy(ctx, w.c, cond.Value, w.deadline)
		case "urlIncludes", "networkIdle":
			ok = w.holdsOutside(cond)
		default:
			var n int
			ok, n, err = t.lookFor(ctx, cond)
			if err == nil && (i == 0 || ok) {
				w.obs.MatchCount = &n
			}
		}
		if err != nil {
			return nil, err
		}
		if ok {
			return cond, nil
		}
	}
	return nil, nil
}

// holdsOutside checks a condition that needs no answer of the page.
func (w *waiter) holdsOutside(cond *WaitCondition) (ok bool) {
	switch cond.By {
	case "urlIncludes":
		ok = strings.Contains(w.obs.URL, cond.Value)
	case "networkIdle":
		ok, _, w.again = w.net.idle()
	}
	return ok
}

// withoutPage is what holds of a page that does not answer.
func (w *waiter) withoutPage() *WaitCondition {
	if main, err := w.t.mainFrame(); err == nil {
		w.obs.URL = main.url
	}
	if !w.read {
		w.obs.ReadyState = "loading"
		if w.t.lifecycle(parsedEvent) {
			w.obs.ReadyState = "interactive"
		}
		if w.t.lifecycle("load") {
			w.obs.ReadyState = "complete"
		}
	}
	for i := range w.conds {
		if w.holdsOutside(&w.conds[i]) {
			return &w.conds[i]
		}
	}
	return nil
}

// lookAtPage reads the main document's state and which of the texts any frame
// shows; shown is nil when the page could not be read.
func (t *Tab) lookAtPage(ctx context.Context, texts []string) (obs WaitObservation, shown []bool, err error) {
	if texts == nil {
		texts = []string{}
	}
	main, err := t.mainFrame()
	if err != nil {
		return obs, nil, err
	}
	type page struct {
		Title      string `json:"title"`
		ReadyState string `json:"readyState"`
		Length     int    `json:"length"`
		Found      []bool `json:"found"`
	}
	var p page
	obs.URL, obs.ReadyState = main.url, "loading"
	if err := t.run(ctx, main, "wait_page", &p, texts); err != nil {
		if isCode(err, op.DocumentChanged) {
			return obs, nil, nil
		}
		return obs, nil, err
	}
	obs.Title, obs.ReadyState, obs.BodyTextLength = p.Title, p.ReadyState, p.Length
	if now, ok := t.frameByID(main.id); ok {
		obs.URL = now.url
	}
	if len(texts) == 0 {
		return obs, p.Found, nil
	}
	var mu sync.Mutex
	t.inFrames(ctx, t.allFrames(ctx), func(ctx context.Context, f frameRef) error {
		if f.id == main.id {
			return nil
		}
		var sub page
		if err := t.run(ctx, f, "wait_page", &sub, texts); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range p.Found {
			p.Found[i] = p.Found[i] || sub.Found[i]
		}
		return nil
	})
	return obs, p.Found, nil
}

// inFrames looks into the frames, several at a time. One that does not answer
// is left out.
func (t *Tab) inFrames(ctx context.Context, frames []frameRef, look func(context.Context, frameRef) error) {
	lane := make(chan struct{}, lanes)
	var wg sync.WaitGroup
	for _, f := range frames {
		wg.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			ctx, cancel := context.WithTimeout(ctx, frameLook)
			defer cancel()
			if err := look(ctx, f); err != nil {
				t.log.Debug("looking into a frame", "error", err)
			}
		})
	}
	wg.Wait()
}

// meetAllClosed has every frame's isolated world learn its closed shadow
// roots.
func (t *Tab) meetAllClosed(ctx context.Context) {
	frames := t.allFrames(ctx)
	if len(frames) == 0 {
		return
	}
	done, err := t.lookTurn(ctx)
	if err != nil {
		return
	}
	defer done()
	var heard sync.WaitGroup
	defer heard.Wait()
	hctx, cancel := context.WithTimeout(ctx, frameLook)
	defer cancel()
	ears := t.hear(hctx, &heard, frames...)
	t.inFrames(ctx, frames, func(ctx context.Context, f frameRef) error {
		_, err := t.look1(ctx, f, mainWalkMs, false, ears)
		return err
	})
}

// lookFor counts the matches of a selector and says whether they are as the
// condition asks.
func (t *Tab) lookFor(ctx context.Context, cond *WaitCondition) (bool, int, error) {
	m, err := t.match(ctx, cond.Value)
	if err != nil {
		return false, 0, err
	}
	n := m.found.Total
	switch cond.By {
	case "visible":
		return m.found.Visible > 0, n, nil
	case "hidden":
		return m.found.Visible == 0, n, nil
	case "enabled":
		return m.found.Enabled > 0, n, nil
	}
	return n > 0, n, nil
}

// lifecycle reports whether the main document has reached the milestone.
func (t *Tab) lifecycle(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames[t.main]
	return f != nil && f.reached[name]
}

// truthy evaluates an expression in the page, once.
func (t *Tab) truthy(ctx context.Context, c *Call, expression string, deadline time.Time) (bool, error) {
	left := time.Until(deadline)
	if left < 50*time.Millisecond {
		left = 50 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	yes := true
	c.begin()
	res, err := call(ctx, t.conn, runtime.Evaluate, runtime.EvaluateParams{Expression: strings.Replace(script("wait_expression"), "EXPRESSION", expression, 1),
		AwaitPromise: &yes, ReturnByValue: &yes, UserGesture: &yes, Timeout: runtime.TimeDelta(left.Milliseconds())})
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return false, nil
		}
		return false, err
	}
	if exc := res.ExceptionDetails; exc != nil {
		text := exceptionText(exc)
		if strings.HasPrefix(text, "SyntaxError") {
			c.noEffect()
			return false, op.Reject(op.EvaluationFailed, "the wait expression does not parse: %s; nothing was run on tab %d", text, t.conn.Key().TabID).
				WithHint("give one JavaScript expression").WithDetail("exception", text)
		}
		return false, op.Unknown(op.EvaluationFailed, "the wait expression threw on tab %d: %s; what it did before that stands", t.conn.Key().TabID, text).
			WithHint("mend the expression").WithDetail("exception", text)
	}
	return res.Result != nil && string(res.Result.Value) == "true", nil
}
