package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// A worker that was killed while no tab is debugged sleeps for up to half a
// minute; with one it comes back within seconds.
func TestWhichWorkerMaySleep(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		c := p.connector()
		assert.Assert(t, c.lostAt().IsZero(), "it is connected")
		lose := func() time.Time {
			w.sock.CloseNow()
			synctest.Wait()
			return time.Now()
		}
		lose()
		assert.Assert(t, c.lostAt().Equal(time.Now()), "%s", c.lostAt())

		w = p.worker().open()
		assert.Assert(t, c.lostAt().IsZero())
		tab := p.attachedTab(1)
		lose()
		assert.Assert(t, c.lostAt().IsZero(), "a tab is debugged")

		w = p.worker().open()
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, tab.Detach(t.Context()))
		time.Sleep(quickAfter - time.Second)
		lose()
		assert.Assert(t, c.lostAt().IsZero(), "one was debugged until now")

		w = p.worker().open()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		at := lose()
		assert.Assert(t, c.lostAt().Equal(at), "%s", c.lostAt())
	})
}

// Who has just lost a worker that may sleep waits for as long as it may.
func TestPatienceWithASleepingWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		p := r.dial()
		defer p.close()
		time.Sleep(time.Minute) // not a young owner
		r.browser.mu.Lock()
		r.browser.lost = time.Now()
		r.browser.mu.Unlock()
		r.profiles.setLive(r.browser, false)
		p.send(cmd("1", "page.click", `{}`))
		time.Sleep(30 * time.Second)
		assert.Assert(t, !p.answered("1"))
		r.profiles.setLive(r.browser, true)
		wantOK(t, p.wait("1", 1))

		r.profiles.setLive(r.browser, false)
		start := time.Now()
		wantError(t, p.do(cmd("2", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
		assert.Equal(t, time.Since(start), awaitReady)
	})
}
