package bridge

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

// TestOneSessionDoesNotFillAMailbox: what is beyond its share waits and is not
// refused; another session gets in at once; and the dialog that all of it may
// wait for can be answered.
func TestOneSessionDoesNotFillAMailbox(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("c0")
		r.handler.run = g.run
		p, q := r.dial(), r.dial()
		defer p.close()
		defer q.close()
		tab, other := r.browser.open("https://example.test/"), r.browser.open("https://other.test/")
		for i := range maxAdmitted {
			p.send(by("greedy", cmd(fmt.Sprint("c", i), "page.click", forTab(tab.ID))))
		}
		synctest.Wait()
		r.srv.mu.Lock()
		held := r.srv.boxes[r.browser.id].admitted
		r.srv.mu.Unlock()
		assert.Equal(t, held, mostShare-1)
		wantOK(t, q.do(by("modest", cmd("m1", "page.click", forTab(other.ID)))))
		wantOK(t, p.do(by("greedy", cmd("answer", "page.wait", forTab(tab.ID)))))
		// So can a wait that was in the queue before the queue stood still, but
		// none that comes after a command that changes the set of tabs.
		p.send(by("greedy", cmd("new", "tab.new", `{}`)))
		p.send(by("greedy", cmd("after", "page.wait", `{}`)))
		synctest.Wait()
		assert.Assert(t, !p.answered("after"))
		g.open("c0")
		for i := range maxAdmitted {
			wantOK(t, p.wait(fmt.Sprint("c", i), 1))
		}
		wantOK(t, p.wait("new", 1))
		wantOK(t, p.wait("after", 1))
		order := r.handler.order()
		assert.DeepEqual(t, order[:3], []string{"c0", "m1", "answer"})
	})
}

// TestACommandThatWaitsForAPlace ends at its deadline and when it is canceled,
// without effect.
func TestACommandThatWaitsForAPlace(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("c0")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		for i := range mostShare - 1 {
			p.send(cmd(fmt.Sprint("c", i), "page.click", forTab(tab.ID)))
		}
		short := cmd("short", "page.click", forTab(tab.ID))
		short.DeadlineMs = 2000
		p.send(short)
		synctest.Wait()
		start := time.Now()
		wantError(t, p.wait("short", 1), op.Unavailable, op.CommandTimeout)
		assert.Equal(t, time.Since(start), 2*time.Second)
		g.open("c0")
		for i := range mostShare - 1 {
			wantOK(t, p.wait(fmt.Sprint("c", i), 1))
		}
		wantOK(t, p.do(cmd("later", "page.click", forTab(tab.ID))))
		assert.Equal(t, len(r.handler.order()), mostShare)
	})
}

// TestSessionsTakeTurnsInALane: of a tab of the user's that several use.
func TestSessionsTakeTurnsInALane(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		g := newGate("a0")
		r.handler.run = g.run
		p := r.dial()
		defer p.close()
		tab := r.browser.open("https://example.test/")
		send := func(session string, n int) {
			for i := range n {
				p.send(by(session, cmd(fmt.Sprint(session, i), "page.click", forTab(tab.ID))))
				synctest.Wait()
			}
		}
		send("a", 6)
		send("b", 2)
		send("c", 1)
		g.open("a0")
		wantOK(t, p.wait("a5", 1))
		assert.DeepEqual(t, r.handler.order(), []string{"a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4", "a5"})
	})
}

// TestFairnessProperties has some sessions send without end, on tabs of their
// own and on a common one, and holds for one that sends a command at a time:
// it is never refused, it waits no longer than one turn of every session that
// uses its tab, and no session holds more than its share of the places.
func TestFairnessProperties(t *testing.T) {
	properties(t, fairness)
}

func fairness(rt *rapid.T, r *rig) {
	const took = time.Second
	r.srv.store.db.NoSync = true
	r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
		select {
		case <-time.After(took):
			return op.NewResult(call.ID)
		case <-ctx.Done():
			return op.Result{}, context.Cause(ctx)
		}
	}
	greedy := rapid.IntRange(1, 5).Draw(rt, "greedy sessions")
	common := r.browser.open("https://common.test/")
	var wg sync.WaitGroup
	modest := r.dial()
	programs := []*program{modest}
	var wrong []string // told at the end: the owner must be closed first
	for s := range greedy {
		mine := r.browser.open("https://mine.test/")
		burst := rapid.IntRange(5, 60).Draw(rt, "burst")
		every := rapid.IntRange(1, 4).Draw(rt, "one in so many is for the common tab")
		p := r.dial()
		programs = append(programs, p)
		for i := range burst {
			tab := mine
			if i%every == 0 {
				tab = common
			}
			p.send(by(fmt.Sprint("greedy ", s), cmd(fmt.Sprintf("g%d-%d", s, i), "page.click", forTab(tab.ID))))
		}
		wg.Go(func() {
			for i := range burst {
				p.wait(fmt.Sprintf("g%d-%d", s, i), 1) // it may have run into its deadline
			}
		})
	}
	for i := range rapid.IntRange(1, 8).Draw(rt, "commands") {
		time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "pause")) * time.Millisecond)
		tab := common
		if rapid.Bool().Draw(rt, "of its own") {
			tab = r.browser.open("https://modest.test/")
		}
		start := time.Now()
		res := modest.do(by("modest", cmd(fmt.Sprint("m", i), "page.click", forTab(tab.ID))))
		if !res.OK {
			wrong = append(wrong, fmt.Sprintf("the modest session was refused: %+v", res.Error))
		}
		// The one that runs, one turn of each, and its own.
		if waited := time.Since(start); waited > time.Duration(greedy+2)*took {
			wrong = append(wrong, fmt.Sprintf("the modest session waited %s beside %d others", waited, greedy))
		}
		r.srv.mu.Lock()
		box := r.srv.boxes[r.browser.id]
		for session, held := range box.held {
			if held > mostShare {
				wrong = append(wrong, fmt.Sprintf("%s holds %d places", session, held))
			}
		}
		r.srv.mu.Unlock()
	}
	wg.Wait()
	synctest.Wait()
	r.srv.mu.Lock()
	left := r.srv.boxes[r.browser.id].sizeForTest() + len(r.srv.boxes[r.browser.id].held)
	r.srv.mu.Unlock()
	for _, p := range programs {
		p.close()
	}
	r.close()
	assert.Equal(rt, left, 0)
	assert.Equal(rt, strings.Join(wrong, "\n"), "")
}
