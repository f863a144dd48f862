package bridge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

// heldCommands runs clicks and snapshots until each is let go by its id or
// ends, and notes which began. Tabs are taken and given as ever.
type heldCommands struct {
	mu    sync.Mutex
	began []string
	let   map[string]chan struct{}
}

func (h *heldCommands) hold(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.let == nil {
		h.let = map[string]chan struct{}{}
	}
	if h.let[id] == nil {
		h.let[id] = make(chan struct{})
	}
	return h.let[id]
}

func (h *heldCommands) run(ctx context.Context, call *Call) (op.Result, error) {
	if call.Operation != "page.click" && call.Operation != "page.snapshot" {
		return runClaims(ctx, call)
	}
	h.mu.Lock()
	h.began = append(h.began, call.ID)
	h.mu.Unlock()
	select {
	case <-h.hold(call.ID):
		return op.NewResult("done")
	case <-ctx.Done():
		return op.Result{}, context.Cause(ctx)
	}
}

func (h *heldCommands) begun() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(slices.Sorted(slices.Values(h.began)))
}

// withHeldTab has the session a own a tab, in which its click a0 runs and a1
// waits.
func withHeldTab(t *testing.T, fn func(t *testing.T, r *rig, p *program, h *heldCommands, tab int)) {
	t.Helper()
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		var h heldCommands
		r.handler.run = h.run
		tab := r.browser.open("https://mine.test/")
		wantOK(t, p.do(by("a", cmd("claim", "tab.claim", forTab(tab.ID)))))
		p.send(by("a", cmd("a0", "page.click", `{}`)))
		p.send(by("a", cmd("a1", "page.click", `{}`)))
		synctest.Wait()
		fn(t, r, p, &h, tab.ID)
	})
}

// TestATabThatCameToAnother has one session act on a tab of the user while
// another claims it: what waits behind the claim never begins, what only looks
// is ended, and the tab's new holder is named.
func TestATabThatCameToAnother(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		var h heldCommands
		r.handler.run = h.run
		tab := r.browser.open("https://mine.test/")
		p.send(by("a", cmd("a0", "page.click", forTab(tab.ID))))
		p.send(by("a", cmd("look", "page.snapshot", forTab(tab.ID))))
		synctest.Wait()
		p.send(by("b", cmd("claim", "tab.claim", forTab(tab.ID))))
		p.send(by("a", cmd("a1", "page.click", forTab(tab.ID))))
		synctest.Wait()
		close(h.hold("a0"))
		wantOK(t, p.wait("a0", 1))
		wantOK(t, p.wait("claim", 1))
		for _, id := range []string{"look", "a1"} {
			f := wantError(t, p.wait(id, 1), op.Rejected, op.TabHeld)
			assert.Equal(t, f.Details["holder"], "b", id)
		}
		assert.Equal(t, h.begun(), "[a0 look]")
	})
}

// TestACommandBehindARelease was resolved to the session's tab, and its turn
// comes when the tab has been given back.
func TestACommandBehindARelease(t *testing.T) {
	withHeldTab(t, func(t *testing.T, r *rig, p *program, h *heldCommands, tab int) {
		own, _ := r.srv.holder(r.browser.id, tab, "a")
		_, err := r.srv.release(t.Context(), r.browser, *own, "released")
		assert.Assert(t, err == nil, err)
		close(h.hold("a0"))
		wantOK(t, p.wait("a0", 1))
		f := wantError(t, p.wait("a1", 1), op.Rejected, op.AutomationOwnershipLost)
		assert.Equal(t, f.Details["reason"], "released")
		assert.Equal(t, h.begun(), "[a0]")
	})
}

// TestCleanupEndsWhatRuns: the end of a session ends its commands, too.
func TestCleanupEndsWhatRuns(t *testing.T) {
	withHeldTab(t, func(t *testing.T, r *rig, p *program, h *heldCommands, tab int) {
		done, err := r.srv.cleanup(t.Context(), "a", false)
		assert.Assert(t, err == nil, err)
		assert.DeepEqual(t, done.ReleasedTabIDs, []int{tab})
		f := wantError(t, p.wait("a0", 1), op.OutcomeUnknown, op.AutomationOwnershipLost)
		assert.Equal(t, f.Details["reason"], "cleanup")
		wantError(t, p.wait("a1", 1), op.Rejected, op.AutomationOwnershipLost)
		assert.Equal(t, h.begun(), "[a0]")
	})
}

// TestNobodyActsOnAnothersTab has three sessions act on, claim and give back
// the same tabs at random, and ends sessions meanwhile, and holds: when a
// command begins on a tab, and when it is done, no other session owns the tab,
// or a claim of it is under way, which ends the command before it is answered.
// Nothing is left behind.
func TestNobodyActsOnAnothersTab(t *testing.T) {
	properties(t, func(rt *rapid.T, r *rig) {
		tabs := []op.Tab{r.browser.open("https://a.test/"), r.browser.open("https://b.test/")}
		tabOf := map[string]int{}
		var mu sync.Mutex
		check := func(ctx context.Context, when string, call *Call) {
			mu.Lock()
			id := tabOf[call.ID]
			mu.Unlock()
			r.srv.mu.Lock()
			o := r.srv.ownedLocked(r.browser.id, id)
			r.srv.mu.Unlock()
			if o == nil || o.Session == call.Session.Key {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				rt.Errorf("%s of session %s %s on tab %d of session %s", call.Operation, call.Session.Key, when, id, o.Session)
			}
		}
		r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
			if call.Operation != "page.click" && call.Operation != "page.snapshot" {
				return runClaims(ctx, call)
			}
			check(ctx, "begins", call)
			select {
			case <-time.After(time.Duration(len(call.Input)%5) * time.Second):
				check(ctx, "is done", call)
				return op.NewResult("done")
			case <-ctx.Done():
				return op.Result{}, context.Cause(ctx)
			}
		}
		p := r.dial()
		var ids []string
		for i, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"page.click", "page.click", "page.snapshot", "tab.claim", "tab.release", "cleanup", "pause"}), 1, 40).Draw(rt, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "session")
			switch step {
			case "pause":
				time.Sleep(time.Duration(rapid.IntRange(1, 4).Draw(rt, "seconds")) * time.Second)
			case "cleanup":
				r.srv.cleanup(context.Background(), key, rapid.Bool().Draw(rt, "keep"))
			default:
				tab, id := rapid.SampledFrom(tabs).Draw(rt, "tab").ID, fmt.Sprintf("%03d", i)
				mu.Lock()
				tabOf[id] = tab
				mu.Unlock()
				ids = append(ids, id)
				p.send(by(key, cmd(id, step, fmt.Sprintf(`{"target":{"by":"id","value":%d},"pad":%q}`, tab, "xxxxx"[:i%5]))))
			}
		}
		for _, id := range ids {
			p.wait(id, 1)
		}
		synctest.Wait()
		r.srv.mu.Lock()
		left := len(r.srv.commands) + r.srv.boxes[r.browser.id].sizeForTest() + len(r.srv.ending)
		r.srv.mu.Unlock()
		assert.Equal(rt, left, 0)
		for _, tab := range tabs {
			r.browser.mu.Lock()
			there := slices.ContainsFunc(r.browser.tabs, func(o op.Tab) bool { return o.ID == tab.ID })
			r.browser.mu.Unlock()
			assert.Assert(rt, there, "a tab of the user was closed")
		}
		p.close()
		r.close()
	})
}
