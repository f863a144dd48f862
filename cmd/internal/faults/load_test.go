package faults

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

var (
	loadSessions = flag.Int("load.sessions", 4, "sessions at work at once")
	loadTabs     = flag.Int("load.tabs", 2, "tabs of each")
	loadTime     = flag.Duration("load.time", 2*time.Second, "how long they work")
	loadConnects = flag.Int("load.connects", 50, "programs that come and go")
	loadRestarts = flag.Int("load.restarts", 3, "times that a worker is stopped")
)

// tailFactor is how much longer than the median one command in a hundred may
// take.
const tailFactor = 10

// load has many sessions send trivial commands to all their tabs, then programs
// come and go, then workers start again and again; the owner holds no more
// afterwards than before.
func load(t *testing.T, r *rig) {
	workers := make([]*loader, *loadSessions)
	var opening sync.WaitGroup
	for i := range workers {
		w := &loader{t: t, key: fmt.Sprintf("load-%d", i), profile: r.profiles[i%len(r.profiles)], client: r.dial(t, r.port)}
		workers[i] = w
		opening.Go(func() { w.open(r) })
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	for _, w := range workers { // what the first command of each tab sets up stays
		w.round()
		w.times = nil
	}
	before := r.figures(t)
	var working sync.WaitGroup
	for _, w := range workers {
		working.Go(func() {
			for began := time.Now(); time.Since(began) < *loadTime; {
				w.round()
			}
		})
	}
	working.Wait()
	var times []time.Duration
	for _, w := range workers {
		times = append(times, w.times...)
	}
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	after := r.figures(t)
	t.Logf("%d sessions with %d tabs each, %s: %d commands, %.0f a second, p50 %s, p99 %s, slowest %s; owner: heap %.1f MB then %.1f MB, goroutines %d then %d",
		len(workers), *loadTabs, *loadTime, len(times), float64(len(times))/loadTime.Seconds(), p50.Round(100*time.Microsecond), p99.Round(100*time.Microsecond),
		times[len(times)-1].Round(time.Millisecond), mb(before.HeapBytes), mb(after.HeapBytes), before.Goroutines, after.Goroutines)
	if *loadTime > 30*time.Second { // a shorter run has too few commands for its tail to mean anything
		assert.Check(t, p99 <= tailFactor*p50, "p99 is %.1f times the p50", float64(p99)/float64(p50))
	}
	calm(t, "commands", before, after)

	before = r.figures(t)
	began := time.Now()
	for range *loadConnects {
		assert.NilError(t, r.dial(t, r.port).Close())
	}
	each := time.Since(began) / time.Duration(*loadConnects)
	until(t, 10*time.Second, "the owner still holds programs that have gone", func() bool {
		after = r.figures(t)
		return after.Goroutines <= before.Goroutines+2
	})
	calm(t, "programs", before, after)
	t.Logf("%d programs came and went, %s each; owner: heap %.1f MB then %.1f MB", *loadConnects, each.Round(10*time.Microsecond), mb(before.HeapBytes), mb(after.HeapBytes))

	var back []time.Duration
	for i := range *loadRestarts {
		w := workers[i%len(workers)]
		assert.NilError(t, w.profile.stopWorker(t.Context()))
		at := time.Now()
		w.run(w.tabs[0])
		back = append(back, time.Since(at))
		if t.Failed() {
			return
		}
	}
	slices.Sort(back)
	after = r.figures(t)
	calm(t, "workers", before, after)
	t.Logf("%d workers were stopped; the next command took %s at p50, %s at most; owner: heap %.1f MB", len(back), back[len(back)/2].Round(time.Millisecond),
		back[len(back)-1].Round(time.Millisecond), mb(after.HeapBytes))
	for _, w := range workers {
		_, err := owner.Cleanup(t.Context(), w.client, w.key)
		assert.NilError(t, err)
		assert.NilError(t, w.client.Close())
	}
}

// calm holds that the owner has not grown.
func calm(t *testing.T, what string, before, after figures) {
	t.Helper()
	assert.Check(t, after.HeapBytes <= before.HeapBytes+ownerSlack, "after the %s the heap is %.1f MB instead of %.1f MB", what, mb(after.HeapBytes), mb(before.HeapBytes))
	assert.Check(t, after.Goroutines <= before.Goroutines+8, "after the %s there are %d goroutines instead of %d", what, after.Goroutines, before.Goroutines)
}

// loader is one session of the load.
type loader struct {
	t       *testing.T
	key     string
	profile *browserProfile
	client  *client.Client
	tabs    []int
	times   []time.Duration
}

func (w *loader) open(r *rig) {
	for range *loadTabs {
		input, err := json.Marshal(map[string]any{"url": r.site.act("", w.key, 0)})
		assert.Check(w.t, err)
		out, err := w.client.Command(w.t.Context(), wire.Command{Operation: "tab.new", Session: wire.Session{Key: w.key}, Browser: w.profile.id, Input: input}, nil)
		var tab op.Tab
		if !assert.Check(w.t, err) || !assert.Check(w.t, json.Unmarshal(out.Result.Value, &tab)) {
			return
		}
		w.tabs = append(w.tabs, tab.ID)
	}
}

// round sends one trivial command to each tab.
func (w *loader) round() {
	for _, tab := range w.tabs {
		began := time.Now()
		w.run(tab)
		w.times = append(w.times, time.Since(began))
	}
}

func (w *loader) run(tab int) {
	input := fmt.Sprintf(`{"expression":"1+1","target":{"by":"id","value":%d}}`, tab)
	out, err := w.client.Command(w.t.Context(), wire.Command{Operation: "page.evaluate", Session: wire.Session{Key: w.key}, Browser: w.profile.id, Input: json.RawMessage(input)}, nil)
	assert.Check(w.t, err)
	assert.Check(w.t, err != nil || string(out.Result.Value) == "2", "%s", out.Result.Value)
}
