package bridge

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
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

// A browser that is closed ends its windows first; a worker that is stopped
// while a window closes somewhere has the time of its next start.
func TestAClosedBrowserIsTold(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		c := p.connector()
		remove := func(windowClosing bool) {
			w.event("tabs.onRemoved", 1, map[string]any{"windowId": 1, "isWindowClosing": windowClosing})
			synctest.Wait()
		}
		lose := func() {
			w.sock.CloseNow()
			synctest.Wait()
		}
		remove(false)
		lose()
		assert.Assert(t, !c.browserClosed() && !c.lostAt().IsZero(), "one tab was closed")

		w = p.worker().open()
		remove(true)
		assert.Assert(t, !c.browserClosed(), "it is connected")
		time.Sleep(closedAfter)
		lose()
		assert.Assert(t, !c.browserClosed() && !c.lostAt().IsZero(), "one window was closed long ago")

		w = p.worker().open()
		remove(true)
		time.Sleep(closedAfter - time.Second)
		lose()
		assert.Assert(t, c.browserClosed() && c.lostAt().IsZero())
		p.worker().open()
		assert.Assert(t, !c.browserClosed(), "it is back")
	})
}

// Who has just lost a worker that may sleep waits for as long as it may.
func TestPatienceWithASleepingWorker(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
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

		r.browser.mu.Lock()
		r.browser.closed = true
		r.browser.mu.Unlock()
		f := wantError(t, p.do(cmd("3", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
		assert.Assert(t, strings.Contains(f.Message, "was closed; the command was not started"), f.Message)
		assert.Assert(t, strings.Contains(f.Hint, "Open that browser again"), f.Hint)
	})
}

// A command to a profile whose extension was refused says so, and what mends
// it: an extension of another release is not a browser that is closed.
func TestARefusedExtensionIsNamed(t *testing.T) {
	for code, hint := range map[wire.RefusalCode]string{
		wire.RefuseFingerprint: "pi-chrome upgrade-extension",
		wire.RefuseVersion:     "pi-chrome upgrade-extension",
		wire.RefuseUnknown:     "pi-chrome onboard --another",
		wire.RefuseMalformed:   "its popup says why",
	} {
		t.Run(string(code), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				p := r.dial()
				defer p.close()
				time.Sleep(time.Minute)
				r.browser.mu.Lock()
				r.browser.lost = time.Now() // as of a worker that may sleep
				r.browser.mu.Unlock()
				r.profiles.setLive(r.browser, false)
				start := time.Now()
				p.send(cmd("1", "page.click", `{}`))
				time.Sleep(awaitReady + time.Second)
				r.browser.mu.Lock()
				r.browser.refused = &RefusalRecord{At: time.Now(), Code: code, Message: "It is of another build."}
				r.browser.mu.Unlock()
				wantError(t, p.wait("1", 1), op.Unavailable, op.ConnectorOffline)
				assert.Equal(t, time.Since(start), awaitWorker, "it was refused while the command waited")
				start = time.Now()
				f := wantError(t, p.do(cmd("2", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
				assert.Equal(t, time.Since(start), awaitReady, "who was refused is awake")
				assert.Assert(t, strings.Contains(f.Message, "its extension was refused: It is of another build. The command was not started"), f.Message)
				assert.Assert(t, strings.Contains(f.Hint, hint), f.Hint)
				assert.Equal(t, f.Details["refused"], string(code))
			})
		})
	}
}

// What was refused before the latest connection is history.
func TestRefusalOfAProfile(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		c := p.connector()
		time.Sleep(time.Second)
		w.drop()
		synctest.Wait()
		assert.Assert(t, c.refusal() == nil)
		refused := func() {
			w := p.worker()
			w.tamper = func(h *wire.Hello) { h.Fingerprint = strings.Repeat("0", 64) }
			w.open()
			assert.Assert(t, w.refusal != nil)
			<-w.served
		}
		refused()
		assert.Equal(t, c.refusal().Code, wire.RefuseFingerprint)
		w = p.worker().open()
		assert.Assert(t, c.refusal() == nil, "it is connected")
		time.Sleep(time.Second)
		w.drop()
		synctest.Wait()
		assert.Assert(t, c.refusal() == nil, "it has been connected since")
		time.Sleep(time.Second)
		refused()
		assert.Equal(t, c.refusal().Code, wire.RefuseFingerprint)
	})
}
