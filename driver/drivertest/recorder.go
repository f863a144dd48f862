package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"

	"pi-chrome/driver/op"
)

// Recorder is a Conn that logs every call and can make one fail.
type Recorder struct {
	Conn

	mu    sync.Mutex
	calls []Recorded
	rules []rule
}

// Recorded is one call, in the order in which calls were made.
type Recorded struct {
	Session string // "" for the tab itself
	Method  string
	Params  string // as JSON
	Took    time.Duration
	Err     error
}

type rule struct {
	method string
	n      int
	err    error
	hook   func()
}

// Record returns a recorder around c. When the test fails, its log is printed.
func Record(t testing.TB, c Conn) *Recorder {
	r := &Recorder{Conn: c}
	t.Cleanup(func() {
		if t.Failed() {
			for _, call := range r.Calls() {
				t.Logf("%8s %s %s %.100s %v", call.Took.Round(10*time.Microsecond), call.Session, call.Method, call.Params, call.Err)
			}
		}
	})
	return r
}

// FailNth makes the n-th call of the method from now on fail, counted from 1;
// with method "" the n-th call of any. A call with an error that is
// op.ErrNotDelivered is not sent; with any other it is sent and its reply
// replaced, as when a reply is lost.
func (r *Recorder) FailNth(method string, n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, rule{method: method, n: n, err: err})
}

// BeforeNth calls the hook before the n-th call of the method from now on.
func (r *Recorder) BeforeNth(method string, n int, hook func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, rule{method: method, n: n, hook: hook})
}

// Reset forgets log and rules.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.rules = nil, nil
}

// Calls returns the log.
func (r *Recorder) Calls() []Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Recorded(nil), r.calls...)
}

// Count returns how many calls of the method were made.
func (r *Recorder) Count(method string) int {
	n := 0
	for _, c := range r.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

// Call implements cdp.Session.
func (r *Recorder) Call(ctx context.Context, method string, params, result any) error {
	return r.call(ctx, "", r.Conn, method, params, result)
}

// Child implements driver.Conn.
func (r *Recorder) Child(sessionID string) cdp.Session {
	return &recordedChild{r, sessionID, r.Conn.Child(sessionID)}
}

type recordedChild struct {
	r  *Recorder
	id string
	s  cdp.Session
}

func (c *recordedChild) Call(ctx context.Context, method string, params, result any) error {
	return c.r.call(ctx, c.id, c.s, method, params, result)
}

func (c *recordedChild) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return c.s.Subscribe(method)
}

// Info implements driver.Conn. A rule must name it, as the method "Info"; it is
// not logged, and a rule's error comes in place of the answer, whatever it is.
func (r *Recorder) Info(ctx context.Context) (op.Tab, error) {
	r.mu.Lock()
	hooks, fail := r.ruledLocked("Info")
	r.mu.Unlock()
	for _, h := range hooks {
		h()
	}
	if fail != nil {
		return op.Tab{}, fail
	}
	return r.Conn.Info(ctx)
}

// OpenedTabs implements driver.TabTeller where the Conn below does.
func (r *Recorder) OpenedTabs(since time.Time, asked []string) (found []op.OpenedTab, inDoubt bool) {
	teller, ok := r.Conn.(interface {
		OpenedTabs(time.Time, []string) ([]op.OpenedTab, bool)
	})
	if !ok {
		return nil, true
	}
	return teller.OpenedTabs(since, asked)
}

// PutBehind implements driver.TabTeller: direct tabs stay where they are.
func (r *Recorder) PutBehind(context.Context, op.OpenedTab) (bool, error) { return false, nil }

// ruledLocked is what the rules say of the next call of the method.
func (r *Recorder) ruledLocked(method string) (hooks []func(), fail error) {
	for k := range r.rules {
		rule := &r.rules[k]
		if rule.n > 0 && (rule.method == "" && method != "Info" || rule.method == method) {
			if rule.n--; rule.n == 0 {
				if rule.hook != nil {
					hooks = append(hooks, rule.hook)
				} else {
					fail = rule.err
				}
			}
		}
	}
	return hooks, fail
}

func (r *Recorder) call(ctx context.Context, session string, s cdp.Session, method string, params, result any) error {
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		raw = []byte(err.Error())
	}
	r.mu.Lock()
	i := len(r.calls)
	r.calls = append(r.calls, Recorded{Session: session, Method: method, Params: string(raw), Err: errors.New("no reply yet")})
	hooks, fail := r.ruledLocked(method)
	r.mu.Unlock()
	for _, h := range hooks {
		h()
	}
	start := time.Now()
	if fail == nil || !errors.Is(fail, op.ErrNotDelivered) {
		err = s.Call(ctx, method, params, result)
	}
	if fail != nil {
		err = fmt.Errorf("%s: %w", method, fail)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < len(r.calls) { // Reset may have come between
		r.calls[i].Took, r.calls[i].Err = time.Since(start), err
	}
	return err
}
