package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func (in WaitIn) hasText() bool {
	return slices.ContainsFunc(in.conditions(), func(c WaitCondition) bool { return strings.HasPrefix(c.By, "text") })
}

// WaitOut is the result of chrome_wait. A deadline is an observation, not an
// error: Satisfied is false then.
type WaitOut struct {
	Satisfied   bool            `json:"satisfied"`
	ElapsedMs   int64           `json:"elapsedMs"`
	Met         *WaitCondition  `json:"met,omitempty" jsonschema:"which of several conditions came true"`
	Observation WaitObservation `json:"observation"`
	asked       []WaitCondition
}

// WaitObservation is how the page stood at the end.
type WaitObservation struct {
	URL            string `json:"url"`
	Title          string `json:"title"`
	ReadyState     string `json:"readyState" enum:"loading|interactive|complete"`
	BodyTextLength int    `json:"bodyTextLength"`
	MatchCount     *int   `json:"matchCount,omitempty" jsonschema:"how many elements the selector matches"`
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
	fmt.Fprintf(&b, "elapsed: %dms\nurl: %s\ntitle: %s\nreadyState: %s\nbody text: %d characters",
		o.ElapsedMs, o.Observation.URL, title, o.Observation.ReadyState, o.Observation.BodyTextLength)
	if o.Observation.MatchCount != nil {
		fmt.Fprintf(&b, "\nselector matches: %d", *o.Observation.MatchCount)
	}
	return b.String()
}

var opWait = op.Define(op.Spec{
	Name: "page.wait", Tool: "chrome_wait", Profile: "page", Title: "Wait",
	Summary: "Wait until the page shows something, leaves an address, loads or falls quiet.",
	Brief:   "Wait until a condition holds.",
	Doc: "Looks until the condition, or one of `anyOf`, holds, or the time is up: then `satisfied` is false and the observation says how the page stands. " +
		"It looks into frames and shadow roots, follows navigations, and changes nothing unless an `expression` does.",
	Effect: op.ReadOnly, Deadline: op.WaitDeadline, Tab: op.PageTab, PassesBy: true,
	OneOf: [][]string{{"condition", "anyOf"}},
	Examples: []op.Example{
		{Title: "Wait for a text", Input: json.RawMessage(`{"condition":{"by":"textContains","value":"Here now"}}`), Page: "wait/appears.html"},
		{Title: "Wait for a result or an error", Input: json.RawMessage(`{"anyOf":[{"by":"visible","value":".late"},{"by":"visible","value":".error"}],"timeoutMs":5000}`), Page: "wait/appears.html"},
	},
	Errors: []op.Code{op.ActionTargetNotFound, op.EvaluationFailed, op.DialogOpen, op.InvalidInput},
}, wait)

func wait(ctx context.Context, c *Call, in WaitIn) (WaitOut, error) {
	conds := in.conditions()
	for _, cond := range conds {
		needs := cond.By != "load" && cond.By != "networkIdle"
		if needs && strings.TrimSpace(cond.Value) == "" {
			return WaitOut{}, op.Invalidf("chrome_wait: condition %q needs a %q", cond.By, "value")
		}
		if !needs && cond.Value != "" {
			return WaitOut{}, op.Invalidf("chrome_wait: condition %q takes no %q", cond.By, "value")
		}
	}
	timeout, interval := 10*time.Second, 250*time.Millisecond
	if in.TimeoutMs > 0 {
		timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	}
	if in.IntervalMs > 0 {
		interval = time.Duration(in.IntervalMs) * time.Millisecond
	}
	start := time.Now()
	deadline := start.Add(timeout)
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
	step := min(20*time.Millisecond, interval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var walked time.Time
	for {
		// Closed shadow roots are met by a walk, which is not for every look.
		if in.hasText() && time.Since(walked) > 500*time.Millisecond {
			c.tab.meetAllClosed(ctx)
			walked = time.Now()
		}
		met, obs, err := c.tab.look(ctx, c, conds, deadline)
		if err != nil {
			return WaitOut{}, err
		}
		out := WaitOut{Satisfied: met != nil, ElapsedMs: time.Since(start).Milliseconds(), Observation: obs, asked: conds}
		if met != nil && len(in.AnyOf) > 0 {
			out.Met = met
		}
		left := time.Until(deadline)
		if met != nil || left <= 0 {
			return out, nil
		}
		timer.Reset(min(step, left))
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

// look checks the conditions once and returns the first that holds. A page
// that navigates while it is looked at just does not hold yet.
func (t *Tab) look(ctx context.Context, c *Call, conds []WaitCondition, deadline time.Time) (*WaitCondition, WaitObservation, error) {
	if d := t.openDialog(); d != nil {
		return nil, WaitObservation{}, dialogError(t, d)
	}
	var texts []string
	for _, cond := range conds {
		if cond.By == "textContains" || cond.By == "textGone" {
			texts = append(texts, cond.Value)
		}
	}
	obs, shown, err := t.lookAtPage(ctx, texts)
	if err != nil {
		return nil, obs, err
	}
	text := 0
	for i := range conds {
		cond := &conds[i]
		ok := false
		switch cond.By {
		case "textContains", "textGone":
			ok = shown != nil && shown[text] == (cond.By == "textContains")
			text++
		case "urlIncludes":
			ok = strings.Contains(obs.URL, cond.Value)
		case "load":
			ok = obs.ReadyState == "complete"
		case "networkIdle":
			ok = t.lifecycle("networkIdle")
		case "expression":
			ok, err = t.truthy(ctx, c, cond.Value, deadline)
		default:
			var n int
			ok, n, err = t.lookFor(ctx, cond)
			if i == 0 || ok {
				obs.MatchCount = &n
			}
		}
		if err != nil {
			if isCode(err, op.DocumentChanged) {
				return nil, obs, nil
			}
			return nil, obs, err
		}
		if ok {
			return cond, obs, nil
		}
	}
	return nil, obs, nil
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
	for _, f := range t.allFrames(ctx) {
		if f.id == main.id {
			continue
		}
		var sub page
		fctx, cancel := context.WithTimeout(ctx, time.Second)
		err := t.run(fctx, f, "wait_page", &sub, texts)
		cancel()
		if err != nil {
			// A frame that does not answer shows nothing; it must not hold
			// up the rest.
			t.log.Debug("looking into a frame", "error", err)
			continue
		}
		for i := range p.Found {
			p.Found[i] = p.Found[i] || sub.Found[i]
		}
	}
	return obs, p.Found, nil
}

// meetAllClosed has every frame's isolated world learn its closed shadow
// roots. A frame that does not answer is left out.
func (t *Tab) meetAllClosed(ctx context.Context) {
	for _, f := range t.allFrames(ctx) {
		fctx, cancel := context.WithTimeout(ctx, time.Second)
		if err := t.meetClosed(fctx, f); err != nil {
			t.log.Debug("walking a frame", "error", err)
		}
		cancel()
	}
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
