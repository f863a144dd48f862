package bridge

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// sleeper is a profile whose tabs may be discarded. A reload loads a page in
// 100 ms.
type sleeper struct {
	*fakeProfile
	w       *fakeWorker
	status  map[int]string // guarded by fakeProfile.mu; no entry: complete
	next    int            // the id that a tab gets by its reload; 0 for its own
	failing error          // of tabs.reload
	stuck   bool           // a reload loads nothing
}

func sleeping(t *testing.T, test func(t *testing.T, s *sleeper)) {
	t.Helper()
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		s := &sleeper{fakeProfile: p, status: map[int]string{}}
		s.w = p.worker().open()
		p.play(s.answer)
		test(t, s)
	})
}

func (s *sleeper) answer(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
	var id int
	switch call {
	case "tabs.get", "tabs.reload":
		if err := json.Unmarshal(args[0], &id); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tabs[id] == "" {
			return nil, &op.ProtocolError{Message: "No tab with id"}
		}
	default:
		return w.standard(call, args)
	}
	if call == "tabs.get" {
		status := s.status[id]
		if status == "" {
			status = "complete"
		}
		return map[string]any{"id": id, "status": status}, nil
	}
	if s.failing != nil {
		return nil, s.failing
	}
	if s.stuck {
		return nil, nil
	}
	if to := s.next; to != 0 {
		s.next = 0
		s.moveLocked(id, to)
		id = to
	}
	s.status[id] = "loading"
	time.AfterFunc(100*time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.status, id)
	})
	return nil, nil
}

// moveLocked gives a tab another id and target, as a discard does.
func (s *sleeper) moveLocked(from, to int) {
	s.tabs[to], s.status[to] = "target-new", s.status[from]
	delete(s.tabs, from)
	delete(s.status, from)
	delete(s.attached, from)
	s.w.event("tabs.onReplaced", to, from)
}

// unloads has Chrome tell that the page of a tab is not loaded any more.
func (s *sleeper) unloads(id int, discarded bool) {
	change := map[string]any{"status": unloaded}
	if discarded {
		change["discarded"] = true
	}
	s.w.event("tabs.onUpdated", id, change, map[string]any{"id": id, "status": unloaded, "discarded": discarded})
	synctest.Wait()
}

func (s *sleeper) discard(id int) { s.set(func() { s.status[id] = unloaded }) }

func (s *sleeper) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// TestADiscardedTabIsWokenOnUse: reading a tab does not load it, attaching its
// debugger does, once.
func TestADiscardedTabIsWokenOnUse(t *testing.T) {
	sleeping(t, func(t *testing.T, s *sleeper) {
		s.discard(1)
		tab, err := s.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		info, err := s.connector().TabInfo(t.Context(), 1)
		assert.NilError(t, err)
		assert.Equal(t, info.Status, unloaded)
		assert.Equal(t, s.count("tabs.reload"), 0)
		begin := time.Now()
		for range 2 {
			assert.NilError(t, tab.Attach(t.Context()))
			assert.NilError(t, evaluate(t.Context(), tab))
		}
		assert.Equal(t, s.count("tabs.reload"), 1)
		assert.Assert(t, time.Since(begin) >= 100*time.Millisecond, "attached before the page was there")
	})
}

// TestADiscardedTabThatChangesItsId loads a page whose tab got another id by the
// discard, and gets one more by the load.
func TestADiscardedTabThatChangesItsId(t *testing.T) {
	sleeping(t, func(t *testing.T, s *sleeper) {
		tab := s.attachedTab(1)
		s.discard(1)
		s.set(func() { s.moveLocked(1, 8); s.next = 9 })
		synctest.Wait()
		assert.Equal(t, tab.Key().TabID, 8)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, tab.Key().TabID, 9)
		assert.Equal(t, s.count("tabs.reload"), 1)
		assert.NilError(t, evaluate(t.Context(), tab))
	})
}

// TestADiscardedTabThatKeepsItsId has its debugger still; its page is loaded all
// the same.
func TestADiscardedTabThatKeepsItsId(t *testing.T) {
	sleeping(t, func(t *testing.T, s *sleeper) {
		tab := s.attachedTab(1)
		s.discard(1)
		s.unloads(1, true)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, s.count("tabs.reload"), 1)
		assert.NilError(t, evaluate(t.Context(), tab))
	})
}

// TestACrashedTabIsNotLoadedAgain: Chrome calls it unloaded, as one that it has
// discarded. Its debugger stays, and nothing is loaded that nobody asked for.
func TestACrashedTabIsNotLoadedAgain(t *testing.T) {
	sleeping(t, func(t *testing.T, s *sleeper) {
		tab := s.attachedTab(1)
		before := tab.Attachment()
		s.discard(1) // to chrome.tabs it looks the same
		s.unloads(1, false)
		assert.NilError(t, tab.Attach(t.Context()))
		assert.Equal(t, tab.Attachment(), before)
		assert.Equal(t, s.count("tabs.reload"), 0)
	})
}

// TestADiscardedTabThatDoesNotLoad is not attached, and says why.
func TestADiscardedTabThatDoesNotLoad(t *testing.T) {
	sleeping(t, func(t *testing.T, s *sleeper) {
		tab, err := s.connector().Tab(t.Context(), 1)
		assert.NilError(t, err)
		s.discard(1)
		s.set(func() { s.failing = &op.ProtocolError{Message: "no memory"} })
		err = tab.Attach(t.Context())
		assert.ErrorIs(t, err, &op.Error{Code: op.BrowserOperation})
		assert.ErrorContains(t, err, "the discarded tab 1 could not be loaded")
		s.set(func() { s.failing, s.stuck = nil, true })
		begin := time.Now()
		assert.ErrorIs(t, tab.Attach(t.Context()), &op.Error{Code: op.DeadlineExceeded})
		assert.Equal(t, time.Since(begin), wakeTime)
		assert.Equal(t, s.count("debugger.attach"), 0)
		s.set(func() { s.stuck = false }) // a command that comes later tries anew
		assert.NilError(t, tab.Attach(t.Context()))
	})
}
