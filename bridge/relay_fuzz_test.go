package bridge

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// FuzzWorkerFrames is a paired extension gone wrong: it answers every call with
// a value that was not asked for, tells an event with arguments of any kind,
// and then sends bytes of any kind. The owner may end the connection; it must
// not panic, each call must end within its bound, and the next worker of the
// profile must be served.
func FuzzWorkerFrames(f *testing.F) {
	answers := []string{
		`null`, `[]`, `{}`, `7`, `"x"`, `[{"id":"target-1","tabId":1,"type":"page","attached":true}]`, `[{"id":7,"tabId":"1"}]`, `[null]`,
		`{"id":-1}`, `[{"tabId":99999999999}]`, `{"result":{"value":2}}`,
	}
	events := []struct{ name, args string }{
		{"debugger.onEvent", `[{"tabId":1},"Page.frameNavigated",{}]`},
		{"debugger.onEvent", `[{"tabId":1,"sessionId":"S"},"Target.attachedToTarget",null]`},
		{"debugger.onEvent", `[{"tabId":1},"Target.detachedFromTarget",{"sessionId":7}]`},
		{"debugger.onEvent", `[null,null,null]`},
		{"debugger.onDetach", `[{"tabId":1},"target_closed"]`},
		{"debugger.onDetach", `[{"tabId":1},"canceled_by_user"]`},
		{"debugger.onDetach", `[{"targetId":"x"},7]`},
		{"tabs.onRemoved", `[1,{"isWindowClosing":true}]`},
		{"tabs.onRemoved", `["1"]`},
		{"tabs.onReplaced", `[2,1]`},
		{"tabs.onReplaced", `[1,1]`},
		{"tabs.onUpdated", `[1,{"url":"http://a/","discarded":true},{"id":1}]`},
		{"tabs.onCreated", `[{"id":1}]`},
		{"tabs.onActivated", `[]`},
	}
	for i, e := range events {
		f.Add(e.name, e.args, answers[i%len(answers)], `{"seq":45,"id":1,"result":null}`)
	}
	for i, a := range answers {
		f.Add("tabs.onUpdated", `[]`, a, []string{`{"type":"gap","from":1,"to":18446744073709551615}`, `{"type":"pong"}`, `{}`, "\x00"}[i%4])
	}
	f.Fuzz(func(t *testing.T, event, args, answer, raw string) {
		conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
			w := p.worker().open()
			tab := p.attachedTab(1)
			w.mu.Lock()
			sock := w.sock
			w.mu.Unlock()
			p.mu.Lock()
			p.answer = func(*fakeWorker, string, []json.RawMessage) (any, error) {
				if !json.Valid([]byte(answer)) {
					return nil, errNoAnswer
				}
				return json.RawMessage(answer), nil
			}
			p.mu.Unlock()
			began := time.Now()
			c := p.connector()
			ends := make(chan error)
			calls := []func(context.Context) error{
				func(ctx context.Context) error { return evaluate(ctx, tab) },
				func(ctx context.Context) error { _, err := c.Tabs(ctx); return err },
				func(ctx context.Context) error { _, err := c.Targets(ctx); return err },
				func(ctx context.Context) error { _, err := c.Tab(ctx, 2); return err },
			}
			for _, run := range calls {
				go func() { ends <- run(t.Context()) }()
			}
			synctest.Wait()
			var list []json.RawMessage
			if json.Unmarshal([]byte(args), &list) == nil {
				w.emit(func(seq uint64) any { return wire.EventFrame{Seq: seq, Event: event, Args: list} })
			}
			_ = sock.Write(t.Context(), []byte(raw))
			for range calls {
				<-ends
			}
			assert.Assert(t, time.Since(began) <= longBound, "%s", time.Since(began))

			// A worker that is as it should be, of the same browser.
			w.kill()
			p.mu.Lock()
			p.answer = nil
			p.attached = map[int]bool{}
			p.mu.Unlock()
			next := p.worker().open()
			assert.Assert(t, next.ready != nil, "%+v", next.refusal)
			tab, err := p.connector().Tab(t.Context(), 2)
			assert.NilError(t, err)
			if err := tab.Attach(t.Context()); err != nil {
				assert.ErrorIs(t, err, &op.Error{Code: op.DebuggerCanceled}) // which an event may have told
				return
			}
			assert.NilError(t, evaluate(t.Context(), tab))
		})
	})
}
