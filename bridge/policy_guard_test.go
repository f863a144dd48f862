package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// guardRig is an owner as far as guards need one, with a tab.
type guardRig struct {
	t      *testing.T
	srv    *Server
	tab    *Tab
	worker *fakeWorker

	ends    []func()
	mu      sync.Mutex
	answers []string
	n       int
}

func withGuard(t *testing.T, test func(t *testing.T, g *guardRig)) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		g := &guardRig{t: t, worker: p.worker().open()}
		g.tab = p.attachedTab(1)
		g.srv = &Server{sessions: map[string]*session{}, records: map[string]*targetRecord{}, guards: map[*Tab]*guard{}, tabs: relayTabs{}, done: make(chan struct{}), log: slog.New(slog.DiscardHandler), ctx: t.Context()}
		p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
			if call == "debugger.sendCommand" {
				var method string
				if err := json.Unmarshal(args[1], &method); err != nil {
					return nil, err
				}
				g.mu.Lock()
				g.answers = append(g.answers, method)
				g.mu.Unlock()
			}
			return w.standard(call, args)
		})
		defer func() {
			for _, end := range g.ends {
				end()
			}
			close(g.srv.done)
			g.srv.wg.Wait()
		}()
		test(t, g)
	})
}

func (g *guardRig) session(key, deny string) {
	var p *Policy
	if deny != "" {
		p = &Policy{Version: 1, Origins: OriginRules{Deny: []string{deny}}}
	}
	g.srv.sessions[key] = &session{record: sessionRecord{Key: key, Policy: p}}
}

// begin has a command of the session work in the tab.
func (g *guardRig) begin(key string) (blocked func() string, end func()) {
	g.t.Helper()
	c := &command{session: op.Session{Key: key}, desc: op.Descriptor{Tab: op.PageTab}, target: resolvedTab{tab: g.tab}, settled: make(chan struct{})}
	blocked, err := g.srv.guarded(g.t.Context(), c)
	assert.NilError(g.t, err)
	end = sync.OnceFunc(func() { close(c.settled) })
	g.ends = append(g.ends, end)
	return blocked, end
}

// asks has the main frame request the address, and returns what became of it.
func (g *guardRig) asks(address string) string {
	g.t.Helper()
	g.n++
	g.worker.cdpEvent(1, "Fetch.requestPaused", map[string]any{"requestId": fmt.Sprint(g.n), "frameId": g.tab.Key().TargetID, "request": map[string]string{"url": address}})
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers[len(g.answers)-1]
}

const (
	failed = "Fetch.failRequest"
	passed = "Fetch.continueRequest"
)

// TestEveryPolicyInATabCounts: of two sessions in one tab of the user, neither
// is led to where its policy does not allow by a command of the other.
func TestEveryPolicyInATabCounts(t *testing.T) {
	withGuard(t, func(t *testing.T, g *guardRig) {
		g.session("a", "https://a.test")
		g.session("b", "https://b.test")
		g.session("free", "")
		ofA, endA := g.begin("a")
		ofB, endB := g.begin("b")
		assert.Equal(t, g.asks("https://a.test/"), failed)
		assert.Equal(t, ofA(), "https://a.test/")
		assert.Equal(t, ofB(), "https://a.test/") // its command was held up by it
		assert.Equal(t, ofA(), "")
		assert.Equal(t, g.asks("https://b.test/"), failed)
		assert.Equal(t, g.asks("https://c.test/"), passed)

		// A's counts a moment longer than its command, and not beyond.
		endA()
		assert.Equal(t, g.asks("https://a.test/"), failed)
		time.Sleep(guardLinger)
		synctest.Wait()
		assert.Equal(t, g.asks("https://a.test/"), passed)
		assert.Equal(t, g.asks("https://b.test/"), failed)
		endB()
		time.Sleep(guardLinger)
		synctest.Wait()
		assert.Equal(t, g.asks("https://b.test/"), passed)

		// A session without a policy is told what held it up.
		_, endA = g.begin("a")
		ofFree, endFree := g.begin("free")
		assert.Equal(t, g.asks("https://a.test/"), failed)
		assert.Equal(t, ofFree(), "https://a.test/")
		endA()
		endFree()
		time.Sleep(guardLinger)
		synctest.Wait()
		assert.Equal(t, len(g.srv.guards[g.tab].uses), 0)
		g.mu.Lock()
		defer g.mu.Unlock()
		assert.Equal(t, len(slices.DeleteFunc(slices.Clone(g.answers), func(m string) bool { return m != "Fetch.enable" })), 1)
	})
}

// TestTheOwnersPolicyStays: a tab of a session is kept to its policy between its
// commands too, until it is the user's again.
func TestTheOwnersPolicyStays(t *testing.T) {
	withGuard(t, func(t *testing.T, g *guardRig) {
		g.session("a", "https://a.test")
		g.srv.records["n"] = &targetRecord{Nonce: "n", Session: "a", ConnectorID: g.tab.conn.ID(), State: targetOwned, TabID: 1}
		_, end := g.begin("a")
		end()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, g.asks("https://a.test/"), failed)
		g.srv.mu.Lock()
		delete(g.srv.records, "n")
		g.srv.mu.Unlock()
		assert.Equal(t, g.asks("https://a.test/"), passed)
	})
}

// TestGuardUsesAreBounded: the commands of one session count once they have
// ended, and no more than so many at all.
func TestGuardUsesAreBounded(t *testing.T) {
	withGuard(t, func(t *testing.T, g *guardRig) {
		g.session("a", "https://a.test")
		for range 3 * maxGuardUses {
			_, end := g.begin("a")
			end()
			synctest.Wait()
		}
		assert.Equal(t, len(g.srv.guards[g.tab].uses), 1)
		for range maxGuardUses {
			g.begin("a")
		}
		_, err := g.srv.guarded(t.Context(), &command{session: op.Session{Key: "a"}, desc: op.Descriptor{Tab: op.PageTab}, target: resolvedTab{tab: g.tab}})
		assert.ErrorContains(t, err, "send it again")
	})
}

// TestAnotherSessionsPolicyIsNamed: whose it is, is told where a command is
// held up by it.
func TestAnotherSessionsPolicyIsNamed(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		own := recordsOf(r.srv)[0].TabID
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			r.browser.mu.Lock()
			r.browser.blocked = map[int]string{own: "https://bad.test/?token=s3cret"}
			r.browser.mu.Unlock()
			return op.Result{}, op.Reject(op.NavigationFailed, "aborted")
		}
		for i, policy := range []string{`null`, `{"version":1,"origins":{"deny":["https://other.test"]}}`} {
			p.setPolicy(t, policy)
			f := wantError(t, p.do(cmd(fmt.Sprint("n", i), "page.navigate", `{"url":"https://good.test/"}`)), op.OutcomeUnknown, op.OriginDenied)
			assert.Check(t, f.Message != "" && f.Details["origin"] == "https://bad.test", "%s", f.Message)
			assert.ErrorContains(t, fmt.Errorf("%s %s", f.Message, f.Hint), "another session")
		}
	})
}
