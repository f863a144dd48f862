package bridge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestRefusedAttachIsRemembered: until an attach works, or the tab is closed.
func TestRefusedAttachIsRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		message, url string
		cause        AttachCause
		hint         string
	}{
		"policy":          {"Host access is blocked by policy.", "https://a.test/", CausePolicy, "runtime_blocked_hosts"},
		"restricted":      {"Cannot attach to this target.", "https://a.test/", CauseRestricted, "chrome://policy"},
		"file":            {"Cannot attach to this target.", "file:///a", CauseFileAccess, "Allow access to file URLs"},
		"a page of its":   {"Cannot attach to this target.", "chrome://settings/", "", "Chrome's own pages"},
		"other extension": {"Cannot access a chrome-extension:// URL of different extension", "https://a.test/", CauseOtherExtension, "overlay"},
	} {
		t.Run(name, func(t *testing.T) {
			conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
				w := p.worker().open()
				tab, err := p.connector().Tab(t.Context(), 1)
				assert.NilError(t, err)
				refuse := true
				p.play(func(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
					switch {
					case call == "tabs.get":
						return map[string]any{"id": 1, "url": c.url, "status": "complete"}, nil
					case call == "debugger.attach" && refuse:
						return nil, errors.New(c.message)
					}
					return w.standard(call, args)
				})
				for range 2 {
					err = tab.Attach(t.Context())
					e, ok := errors.AsType[*op.Error](err)
					assert.Assert(t, ok && strings.Contains(e.Hint, c.hint), "%v", err)
				}
				list := p.connector().AttachRefusals()
				if c.cause == "" {
					assert.Equal(t, len(list), 0)
					return
				}
				assert.Equal(t, len(list), 1) // of one tab, the latest
				assert.Equal(t, list[0].Cause, c.cause)
				assert.Assert(t, list[0].TabID == 1 && list[0].ConnectorID == p.connector().ID() && list[0].Label == p.connector().Label() && list[0].At.Equal(time.Now()))
				refuse = false
				assert.NilError(t, tab.Attach(t.Context()))
				assert.Equal(t, len(p.connector().AttachRefusals()), 0)
				refuse = true
				assert.NilError(t, tab.Detach(t.Context()))
				assert.Assert(t, tab.Attach(t.Context()) != nil)
				assert.Equal(t, len(p.connector().AttachRefusals()), 1)
				w.event("tabs.onRemoved", 1, map[string]any{})
				time.Sleep(time.Second)
				assert.Equal(t, len(p.connector().AttachRefusals()), 0)
			})
		})
	}
}

// TestAnotherDebuggerIsRemembered: where Chrome says "already attached", and
// it is not ours.
func TestAnotherDebuggerIsRemembered(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.worker().open()
		p.mu.Lock()
		p.foreign[1] = true
		p.mu.Unlock()
		tab, err := p.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		assert.ErrorIs(t, tab.Attach(t.Context()), &op.Error{Code: op.DebuggerBusy})
		list := p.connector().AttachRefusals()
		assert.Equal(t, len(list), 1)
		assert.Equal(t, list[0].Cause, CauseOtherDebugger)
		assert.Equal(t, p.relay.meter.attaches.value("debugger-busy", ""), uint64(1))
	})
}

// TestDoctorHearsOfLostTabs: with the time at which it was seen.
func TestDoctorHearsOfLostTabs(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		time.Sleep(time.Minute)
		r.browser.restart()
		r.srv.reconcile(t.Context(), r.browser, ResetBrowser)
		lostAt := time.Now()
		time.Sleep(time.Minute)
		var f DoctorFacts
		assert.NilError(t, p.ask("doctor", nil, &f))
		tab := f.Sessions[0].Targets[0]
		assert.Equal(t, tab.State, "stale")
		assert.Equal(t, tab.Reason, staleEpoch)
		assert.Assert(t, tab.LostAt.Equal(lostAt), "%s %s", tab.LostAt, lostAt)
	})
}
