package bridge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// properties checks fn on random draws, each with an owner of its own in virtual
// time.
func properties(t *testing.T, fn func(rt *rapid.T, r *rig)) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		assert.NilError(t, os.Mkdir(dir, 0o700))
		rapid.SyncTest(rt, func(rt *rapid.T) {
			r := newRigIn(rt, dir)
			r.srv.store.db.NoSync = true
			fn(rt, r)
		})
	})
}

// TestMailboxProperties sends random commands of several sessions to several
// tabs, cancels some, and holds: two commands that may mutate never meet on
// one tab; those that run on a tab run in the order in which one session sent
// them; every command runs at most once and has exactly one answer; what was
// rejected while it waited never ran; and nothing is left behind.
func TestMailboxProperties(t *testing.T) {
	properties(t, func(rt *rapid.T, r *rig) {
		tabs := []op.Tab{r.browser.open("https://a.test/"), r.browser.open("https://b.test/"), r.browser.open("https://c.test/")}
		var mu sync.Mutex
		busy := map[*Tab]string{}
		ran := map[string]int{}
		order := map[*Tab][]string{}
		r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
			mu.Lock()
			ran[call.ID]++
			if call.Operation == "page.click" {
				if other := busy[call.Tab]; other != "" {
					rt.Errorf("%s runs beside %s", call.ID, other)
				}
				busy[call.Tab] = call.ID
				order[call.Tab] = append(order[call.Tab], call.ID)
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if call.Operation == "page.click" {
					busy[call.Tab] = ""
				}
			}()
			select {
			case <-time.After(time.Duration(len(call.Input)%7) * time.Second):
				return op.NewResult(call.ID)
			case <-ctx.Done():
				return op.Result{}, context.Cause(ctx)
			}
		}
		programs := []*program{r.dial(), r.dial(), r.dial()}
		sent := map[string]int{} // program of each id
		var ids []string
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(rt, "steps")
		for i, step := range steps {
			who := rapid.IntRange(0, len(programs)-1).Draw(rt, "program")
			switch {
			case step == 0 && len(ids) > 0:
				id := rapid.SampledFrom(ids).Draw(rt, "canceled")
				programs[sent[id]].send(wire.Cancel{Type: wire.TypeCancel, ID: id})
			case step == 1:
				time.Sleep(time.Duration(rapid.IntRange(1, 5).Draw(rt, "pause")) * time.Second)
			default:
				operation := "page.click"
				if step > 7 {
					operation = "page.snapshot"
				}
				tab := rapid.SampledFrom(tabs).Draw(rt, "tab")
				id := fmt.Sprintf("%03d", i)
				c := cmd(id, operation, fmt.Sprintf(`{"target":{"by":"id","value":%d},"pad":%q}`, tab.ID, "xxxxxxx"[:step%7]))
				c.Session.Key = fmt.Sprint("s", who)
				programs[who].send(c)
				sent[id] = who
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			res := programs[sent[id]].wait(id, 1)
			mu.Lock()
			n := ran[id]
			mu.Unlock()
			if n > 1 {
				rt.Fatalf("%s ran %d times", id, n)
			}
			if res.OK && n != 1 || !res.OK && res.Error.Kind == string(op.OutcomeUnknown) && n != 1 {
				rt.Fatalf("%s was answered %+v and ran %d times", id, res, n)
			}
		}
		synctest.Wait()
		for _, done := range order {
			for who := range programs {
				mine := slices.DeleteFunc(slices.Clone(done), func(id string) bool { return sent[id] != who })
				if !slices.IsSorted(mine) {
					rt.Fatalf("session s%d ran %v", who, mine)
				}
			}
		}
		for _, id := range ids {
			p := programs[sent[id]]
			p.mu.Lock()
			if n := len(p.results[id]); n != 1 {
				rt.Fatalf("%s has %d answers", id, n)
			}
			p.mu.Unlock()
		}
		r.srv.mu.Lock()
		left := len(r.srv.commands) + r.srv.boxes[r.browser.id].sizeForTest()
		r.srv.mu.Unlock()
		assert.Equal(rt, left, 0)
		for _, p := range programs {
			p.close()
		}
		r.close()
	})
}

func (b *mailbox) sizeForTest() int {
	if b == nil {
		return 0
	}
	return b.admitted + len(b.lanes)
}

// TestOwnershipProperties opens and closes tabs, restarts the browser and the
// owner at random, and holds: a session never uses a tab that it does not
// own, no session exceeds its limit, nobody closes a tab of the user, and no
// tab that was made is left without a record.
func TestOwnershipProperties(t *testing.T) {
	properties(t, func(rt *rapid.T, r *rig) {
		mine := r.browser.open("https://mine.test/")
		p := r.dial()
		sent := 0
		do := func(session, operation string) *wire.Result {
			sent++
			c := cmd(fmt.Sprintf("%03d", sent), operation, `{}`)
			c.Session.Key = session
			return p.do(c)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			session := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "session")
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0, 1:
				do(session, "tab.new")
			case 2:
				do(session, "page.click")
			case 3:
				do(session, "tab.close")
			case 4: // the user closes a tab
				r.browser.mu.Lock()
				id := r.browser.tabs[len(r.browser.tabs)-1].ID
				if id != mine.ID {
					r.browser.tabs = r.browser.tabs[:len(r.browser.tabs)-1]
				}
				r.browser.mu.Unlock()
				if id != mine.ID && rapid.Bool().Draw(rt, "heard") {
					r.srv.tabRemoved(r.browser.id, id)
				}
			case 5: // the extension or the browser starts again
				if rapid.Bool().Draw(rt, "browser") {
					r.browser.restart()
					r.browser.mu.Lock()
					r.browser.tabs = r.browser.tabs[:1] // without its session
					r.browser.mu.Unlock()
				} else {
					r.browser.mu.Lock()
					r.browser.epoch += "'"
					r.browser.mu.Unlock()
				}
				r.srv.reconcile(context.Background(), r.browser, ResetBrowser)
			case 6:
				p.close()
				r.crash()
				r.start()
				r.srv.store.db.NoSync = true
				r.srv.reconcile(context.Background(), r.browser, ResetFirst)
				p = r.dial()
			}
			owner := map[int]string{}
			for _, key := range []string{"a", "b"} {
				owned := 0
				for _, rec := range r.srv.sessionRecords(key, "") {
					if rec.State != targetOwned {
						continue
					}
					owned++
					if owner[rec.TabID] != "" || rec.TabID == mine.ID {
						rt.Fatalf("tab %d is owned by %s and %q", rec.TabID, key, owner[rec.TabID])
					}
					owner[rec.TabID] = key
				}
				if owned > maxTabsPerSession {
					rt.Fatalf("session %s owns %d tabs", key, owned)
				}
			}
			r.browser.mu.Lock()
			if r.browser.indexLocked(mine.ID) < 0 {
				rt.Fatal("the user's tab was closed")
			}
			for _, tab := range r.browser.tabs {
				if tab.ID != mine.ID && owner[tab.ID] == "" {
					rt.Fatalf("tab %d has no record", tab.ID)
				}
			}
			r.browser.mu.Unlock()
		}
		p.close()
		r.close()
	})
}
