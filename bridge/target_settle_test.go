package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// lateRig has lost the answer to tabs.create of one command, which Chrome took:
// the returned function makes the tab that it is going to list.
func lateRig(t *testing.T) (r *rig, p *program, appear func() op.Tab) {
	r = newRig(t)
	p = r.dial()
	r.browser.fail = func(call string) (error, bool) {
		if call != "tabs.create" {
			return nil, false
		}
		return errLostForTest, false
	}
	wantError(t, p.do(cmd("1", "page.click", `{}`)), op.Rejected, op.AllocationPending)
	r.browser.fail = nil
	rec := recordsOf(r.srv)
	assert.Equal(t, len(rec), 1)
	return r, p, func() op.Tab { return r.browser.open(r.srv.bootstrapURL(rec[0].Nonce)) }
}

// TestATabThatIsListedLate loses the answer to tabs.create and lists the tab only
// later, over a new connection and in the next owner: its record waits for it.
func TestATabThatIsListedLate(t *testing.T) {
	late := func(name string, fn func(t *testing.T, r *rig, p *program, appear func() op.Tab)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, p, appear := lateRig(t)
				fn(t, r, p, appear)
				r.close()
				p.close()
			})
		})
	}
	late("a command waits for it", func(t *testing.T, r *rig, p *program, appear func() op.Tab) {
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		p.send(cmd("2", "page.click", `{}`))
		time.Sleep(2 * time.Second)
		appear()
		assert.Assert(t, p.wait("2", 1).OK)
		assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
	})
	late("cleanup waits for it", func(t *testing.T, r *rig, p *program, appear func() op.Tab) {
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		made := make(chan op.Tab, 1)
		time.AfterFunc(2*time.Second, func() { made <- appear() })
		done, err := r.srv.cleanup(t.Context(), "default", false)
		assert.Assert(t, err == nil, "%v", err)
		assert.DeepEqual(t, done.ClosedTabIDs, []int{(<-made).ID})
		assert.Equal(t, len(tabsOf(r.browser)), 0)
	})
	late("its event finds it", func(t *testing.T, r *rig, _ *program, appear func() op.Tab) {
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		tab := appear()
		r.srv.tabCreated(r.browser, r.browser.open("https://example.test/#x"))
		r.srv.tabCreated(r.browser, tab)
		rec := recordsOf(r.srv)
		assert.Equal(t, rec[0].State, targetOwned)
		assert.Equal(t, rec[0].TabID, tab.ID)
	})
	late("nobody asks", func(t *testing.T, r *rig, _ *program, appear func() op.Tab) {
		time.Sleep(settleGrace / 2)
		tab := appear()
		time.Sleep(settleGrace)
		synctest.Wait()
		rec := recordsOf(r.srv)
		assert.Equal(t, rec[0].State, targetOwned)
		assert.Equal(t, rec[0].TabID, tab.ID)
	})
	late("the next owner waits for it", func(t *testing.T, r *rig, p *program, appear func() op.Tab) {
		p.close()
		r.crash()
		r.start()
		r.srv.reconcile(t.Context(), r.browser, ResetFirst)
		time.Sleep(2 * time.Second)
		tab := appear()
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		rec := recordsOf(r.srv)
		assert.Equal(t, len(rec), 1)
		assert.Equal(t, rec[0].TabID, tab.ID)
	})
	late("it never comes", func(t *testing.T, r *rig, p *program, _ func() op.Tab) {
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		begin := time.Now()
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.Assert(t, time.Since(begin) < settleGrace+time.Second, "%s", time.Since(begin))
		assert.DeepEqual(t, tabsOf(r.browser), []string{"about:blank"})
		assert.Equal(t, len(recordsOf(r.srv)), 1)
	})
	late("it comes when its record has gone", func(t *testing.T, r *rig, p *program, appear func() op.Tab) {
		time.Sleep(2 * settleGrace)
		synctest.Wait()
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		r.browser.open("https://example.test/bootstrap.html#x")
		mine := r.browser.open(r.srv.bootstrapURL(""))
		r.srv.tabCreated(r.browser, mine)
		r.srv.tabCreated(r.browser, appear())
		wantOK(t, p.do(cmd("2", "page.click", `{}`))) // which makes another one
		assert.DeepEqual(t, tabsOf(r.browser), []string{"https://example.test/bootstrap.html#x", mine.URL, "about:blank"})
		appear() // its event was lost with the connection
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		assert.DeepEqual(t, tabsOf(r.browser), []string{"https://example.test/bootstrap.html#x", mine.URL, "about:blank"})
	})
	late("it never comes and nobody asks", func(t *testing.T, r *rig, _ *program, _ func() op.Tab) {
		time.Sleep(2 * settleGrace)
		synctest.Wait()
		assert.Equal(t, len(recordsOf(r.srv)), 0)
		assert.Equal(t, len(r.srv.making), 0)
	})
}

// TestATabThatIsBeingMade compares the tabs of a profile while Chrome is asked
// for one, as after a connection that was lost: the record stays, so that the
// next owner finds the tab.
func TestATabThatIsBeingMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		hold := make(chan struct{})
		r.browser.fail = func(call string) (error, bool) {
			if call == "tabs.create" {
				r.browser.mu.Unlock()
				<-hold
				r.browser.mu.Lock()
				return errLostForTest, true
			}
			return nil, false
		}
		p.send(cmd("1", "page.click", `{}`))
		synctest.Wait()
		time.Sleep(2 * settleGrace)
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		assert.Equal(t, len(recordsOf(r.srv)), 1)
		r.freeze()
		close(hold)
		wantError(t, p.wait("1", 1), op.Rejected, op.AllocationPending)
		p.close()
		r.crash()
		r.browser.fail = nil
		r.start()
		defer r.close()
		r.srv.reconcile(t.Context(), r.browser, ResetFirst)
		done, err := r.srv.cleanup(t.Context(), "default", false)
		assert.Assert(t, err == nil, "%v", err)
		assert.Equal(t, len(done.ClosedTabIDs), 1)
		assert.Equal(t, len(tabsOf(r.browser)), 0)
	})
}

// TestTwoComparisonsAtOnce has a comparison that began earlier end later: what the
// other one found, and a command did since, stays.
func TestTwoComparisonsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, p, appear := lateRig(t)
		defer r.close()
		defer p.close()
		appear()
		first := true
		r.browser.fail = func(call string) (error, bool) {
			if call == "debugger.getTargets" && first {
				first = false
				r.browser.mu.Unlock()
				wantOK(t, p.do(cmd("2", "page.click", `{}`)))
				r.browser.mu.Lock()
			}
			return nil, false
		}
		r.srv.reconcile(t.Context(), r.browser, ResetWorker)
		assert.Assert(t, !first)
		rec := recordsOf(r.srv)
		assert.Equal(t, len(rec), 1)
		assert.Assert(t, rec[0].State == targetOwned && rec[0].Prepared, "%+v", rec[0])
		wantOK(t, p.do(cmd("3", "page.click", `{}`)))
		assert.Equal(t, len(r.browser.left), 1, "the page was blanked under the session")
	})
}
