package bridge

import (
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"
)

// TestRunning: a command is listed from when it came until its outcome is
// told, with who waits for it.
func TestRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate("first", "second")
		r.handler.run = g.run
		p := r.dial()
		tab := r.browser.open("https://example.test/")
		list := func() (states []string) {
			var all []RunningCommand
			assert.NilError(t, p.ask("running", nil, &all))
			for _, c := range all {
				assert.Assert(t, c.Operation == "page.click" && len(c.Client) == 1 && c.Client[0] != "" && !c.At.IsZero(), "%+v", c)
				states = append(states, c.Session+" "+c.ID+" "+c.State)
			}
			return states
		}
		assert.Equal(t, len(list()), 0)
		p.send(cmd("first", "page.click", forTab(tab.ID)))
		synctest.Wait()
		p.send(cmd("second", "page.click", forTab(tab.ID)))
		synctest.Wait()
		assert.DeepEqual(t, list(), []string{"default first executing", "default second queued"})
		g.open("first")
		wantOK(t, p.wait("first", 1))
		synctest.Wait()
		assert.DeepEqual(t, list(), []string{"default second executing"})
		g.open("second")
		wantOK(t, p.wait("second", 1))
		assert.Equal(t, len(list()), 0)
		r.close()
	})
}
