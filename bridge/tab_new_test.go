package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestANewTabIsNeverToldAsUndone: a command that has opened a tab, or may have,
// is not told as one that may be sent again.
func TestANewTabIsNeverToldAsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		code op.Code
		set  func(b *fakeBrowser)
	}{
		"the answer is lost": {op.AllocationPending, func(b *fakeBrowser) {
			b.fail = func(call string) (error, bool) { return map[string]error{"tabs.create": errLostForTest}[call], true }
		}},
		"it stays on its first page": {op.BrowserOperation, func(b *fakeBrowser) {
			b.fail = func(call string) (error, bool) {
				return map[string]error{"leave": errors.New("it does not go")}[call], false
			}
		}},
		"the worker ends before the attach": {op.BrowserOperation, func(b *fakeBrowser) {
			b.attach = func(int) error { return op.ErrNotDelivered }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withProgram(t, func(t *testing.T, r *rig, p *program) {
				c.set(r.browser)
				f := wantError(t, p.do(cmd("1", "tab.new", `{}`)), op.OutcomeUnknown, c.code)
				assert.Assert(t, name == "the answer is lost" || f.Details["tabId"] != nil, "%+v", f)
				assert.Assert(t, !strings.Contains(f.Message, "Nothing was done"), f.Message)
				assert.Equal(t, len(tabsOf(r.browser)), 1)
				r.browser.fail, r.browser.attach = nil, nil
				wantOK(t, p.do(cmd("2", "page.click", `{}`)))
				assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
			})
		})
	}
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.fail = func(call string) (error, bool) {
			return map[string]error{"tabs.create": errors.New("no")}[call], false
		}
		wantError(t, p.do(cmd("1", "tab.new", `{}`)), op.Rejected, op.BrowserOperation)
	})
}

// TestStopEndsAnAllocation: no tab comes after the user has stopped everything.
func TestStopEndsAnAllocation(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		r.browser.fail = func(call string) (error, bool) {
			if call == "windows.getAll" {
				assert.Check(t, r.srv.stopAll(r.browser.id) == nil)
			}
			return nil, false
		}
		wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.SessionLocked)
		synctest.Wait()
		assert.Equal(t, len(tabsOf(r.browser)), 0)
		r.browser.mu.Lock()
		defer r.browser.mu.Unlock()
		assert.Assert(t, slices.Contains(r.browser.calls, "windows.getAll") && !slices.Contains(r.browser.calls, "tabs.create"), "%v", r.browser.calls)
	})
}

// TestAPolicyHoldsTheFocusOfWhatWaits: a command that waited when the policy
// came does not take the focus either.
func TestAPolicyHoldsTheFocusOfWhatWaits(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("new", "tab.new", `{}`)))
		over := make(chan struct{})
		r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
			if call.Operation == "page.click" {
				<-over
				return op.NewResult("clicked")
			}
			return runTabs(ctx, call)
		}
		p.send(cmd("1", "page.click", `{}`))
		synctest.Wait()
		p.send(inForeground(cmd("2", "tab.activate", `{}`)))
		synctest.Wait()
		p.setPolicy(t, `{"version":1,"background":true}`)
		close(over)
		wantOK(t, p.wait("1", 1))
		wantError(t, p.wait("2", 1), op.Rejected, op.BackgroundMode)
		assert.Equal(t, len(r.browser.activated), 0)
	})
}
