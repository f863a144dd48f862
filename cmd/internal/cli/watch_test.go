package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// slowHandler has one operation, which works until it is let go.
type slowHandler struct{ release chan struct{} }

func (slowHandler) Describe(name string) (op.Descriptor, bool) {
	return op.Descriptor{Name: name, Tool: "chrome_slow", Effect: op.ReadOnly, Tab: op.NoTab, Deadline: op.DefaultDeadline}, name == "system.slow"
}

func (slowHandler) EffectOf(string, json.RawMessage) op.Effect { return op.ReadOnly }
func (slowHandler) Validate(string, json.RawMessage) error     { return nil }
func (slowHandler) Forget(op.TabKey)                           {}

func (h slowHandler) Run(ctx context.Context, _ *bridge.Call) (op.Result, error) {
	select {
	case <-h.release:
		return op.NewResult("done")
	case <-ctx.Done():
		return op.Result{}, ctx.Err()
	}
}

// TestWatch: a command that works is told when it begins and when it ends, what
// was before is not told, an interrupt is a good end.
func TestWatch(t *testing.T) {
	env, _, errs := testEnv(t, nil)
	slow := slowHandler{release: make(chan struct{})}
	c := ownerWith(t, env, slow)
	assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "before"}, nil))
	w := &lineWriter{lines: make(chan string, 10_000)}
	env.Stdout = w
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- Run(ctx, env, []string{"watch", "--json"}) }()
	next := func() (e watchEvent) {
		t.Helper()
		select {
		case line := <-w.lines:
			assert.NilError(t, json.Unmarshal([]byte(line), &e), line)
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was told")
		}
		return e
	}
	// It watches when it tells something of now.
	var first watchEvent
	for first.Event == "" {
		assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "now"}, nil))
		select {
		case line := <-w.lines:
			assert.NilError(t, json.Unmarshal([]byte(line), &first), line)
		case <-time.After(20 * time.Millisecond):
		}
	}
	assert.Equal(t, first.Session, "now", "what was before is not told")
	of := func(event string) watchEvent {
		t.Helper()
		for {
			e := next()
			if e.Session == "now" {
				continue
			}
			assert.Equal(t, e.Event, event, "%+v", e)
			assert.Assert(t, e.ID == "slow-1" && e.Operation == "system.slow" && e.Session == "one" && !e.At.IsZero(), "%+v", e)
			assert.DeepEqual(t, e.Client, []string{"test"})
			return e
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Command(t.Context(), wire.Command{ID: "slow-1", Operation: "system.slow", Session: wire.Session{Key: "one"}, Input: json.RawMessage(`{}`)}, nil)
		done <- err
	}()
	assert.Equal(t, of("begin").State, "executing")
	close(slow.release)
	assert.NilError(t, <-done)
	end := of("end")
	assert.Assert(t, end.Outcome == "ok" && end.ElapsedMs != nil, "%+v", end)
	assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "last"}, nil))
	assert.Equal(t, next().Session, "last")
	cancel()
	assert.Equal(t, <-code, exitDone, errs.String())
}

// TestWatchLines: what a terminal shows of an event.
func TestWatchLines(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.Local)
	ms := int64(12)
	for _, c := range []struct {
		e    watchEvent
		want string
	}{
		{watchEvent{Event: "begin", At: at, Operation: "page.click", Session: "one", Client: []string{"pi", "mcp"}, State: "queued"},
			"03:04:05.006  begin  page.click        session=one  by pi, mcp  queued"},
		{watchEvent{Event: "end", At: at, Operation: "page.click", Session: "one", TabID: 7, Client: []string{"pi"}, Outcome: "rejected/tab-gone", ElapsedMs: &ms},
			"03:04:05.006  end    page.click        session=one  tab=7  by pi  rejected/tab-gone  12ms"},
	} {
		assert.Equal(t, c.e.line(), c.want)
	}
}

// TestWatchEnds: without an owner it says so and starts none; --timeout is a
// good end; an
// owner that ends is followed to its last entry; it takes no argument and no file.
func TestWatchEnds(t *testing.T) {
	env, _, errs := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"watch"}), exitUnavailable, errs.String())
	env, out, errs := testEnv(t, nil)
	logOwner(t, env)
	assert.Equal(t, Run(t.Context(), env, []string{"watch", "--timeout", "20ms", "--session", "one"}), exitDone, errs.String())
	assert.Equal(t, out.String(), "")

	env, _, errs = testEnv(t, nil)
	c := logOwner(t, env)
	w := &lineWriter{lines: make(chan string, 10_000)}
	env.Stdout = w
	code := make(chan int, 1)
	go func() { code <- Run(t.Context(), env, []string{"watch"}) }()
	for len(w.lines) == 0 { // until it watches
		assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "now"}, nil))
	}
	assert.NilError(t, c.Request(t.Context(), "shutdown", nil, nil))
	assert.Equal(t, <-code, exitUnavailable)
	assert.Assert(t, strings.Contains(errs.String(), "no owner runs on port"), errs.String())
	last := ""
	for len(w.lines) > 0 {
		last = <-w.lines
	}
	assert.Assert(t, strings.Contains(last, "request  shutdown"), last)

	for _, args := range []string{"watch now", "watch -o file"} {
		env, _, _ := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, strings.Fields(args)), exitUsage, args)
	}
}
