package faults

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

var (
	seedFlag     = flag.Uint64("faults.seed", 1, "first seed of the campaign")
	runsFlag     = flag.Int("faults.runs", 1, "how many seeds")
	commandsFlag = flag.Int("faults.commands", 240, "commands of one run")
	reportFlag   = flag.String("faults.report", "", "file that gets a row for each run that kept every promise")
)

// Shape of a campaign.
const (
	sessions   = 8
	perPage    = 40               // buttons of one page
	slowest    = 90 * time.Second // a command without an answer by then has none
	ownerSlack = 6 << 20          // bytes of heap that an owner may hold more than at its start
)

// sent is one command of a campaign and what its caller was told.
type sent struct {
	id      string
	session int
	command wire.Command
	effect  bool // the server counts what it does
	read    bool // it has no effect, so that it is never outcome-unknown

	again  bool // it is sent twice
	beside bool // both at once, by two programs

	kind    op.Kind
	code    op.Code
	err     error
	message string
	value   json.RawMessage
	took    time.Duration
	later   string // what the owner said when it was asked afterwards
}

// campaign is one run.
type campaign struct {
	t    testing.TB
	rig  *rig
	seed uint64
	each int // commands of one session

	issued atomic.Int64
	idle   atomic.Bool // the sessions are through
	mu     sync.Mutex
	all    []*sent
	faults map[string]int
}

// TestFaultCampaign breaks whatever can break while commands run, and holds every
// answer against what the server counted.
//
// Invariants 2, 4 and 5 of the design.
func TestFaultCampaign(t *testing.T) {
	for i := range *runsFlag {
		seed := *seedFlag + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			began := time.Now()
			c := &campaign{t: t, rig: newRig(t, 2), seed: seed, each: *commandsFlag / sessions, faults: map[string]int{}}
			ready := time.Since(began)
			c.run()
			c.report(ready, time.Since(began))
		})
	}
}

func (c *campaign) run() {
	t := c.t
	before := c.rig.figures(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var breaking sync.WaitGroup
	breaking.Go(func() { c.breakThings(ctx) })
	var working sync.WaitGroup
	for i := range sessions {
		working.Go(func() { c.work(i) })
	}
	working.Wait()
	c.idle.Store(true)
	breaking.Wait()
	c.settle(before)
	c.judge()
}

// key is the session's name, its pages' mark and the beginning of its ids.
func (c *campaign) key(session int) string { return fmt.Sprintf("f%d-s%d", c.seed, session) }

// worker is one session at work.
type worker struct {
	c       *campaign
	number  int
	key     string
	profile *browserProfile
	rng     *rand.Rand
	client  *client.Client
	other   *client.Client // of another program of the same session
	n       int            // of the next command
	from    int            // first button of its page; -1: no page
	extra   []int          // tabs to close
	claimed []int          // tabs to give back
}

// work sends the commands of one session.
func (c *campaign) work(number int) {
	w := &worker{c: c, number: number, key: c.key(number), profile: c.rig.profiles[number%len(c.rig.profiles)],
		rng: rand.New(rand.NewPCG(c.seed, uint64(number))), from: -1}
	for _, cl := range []**client.Client{&w.client, &w.other} {
		var err error
		*cl, err = client.Dial(c.t.Context(), client.Options{Port: c.rig.programs.port, StateDir: c.rig.stateDir, Name: w.key,
			Version: owner.Version, Build: owner.Build(), EffectOf: owner.EffectOf, Start: func(context.Context) error { return nil }, ReadyTimeout: 15 * time.Second})
		if !assert.Check(c.t, err) {
			return
		}
		defer (*cl).Close()
	}
	for w.n < c.each {
		w.step()
	}
}

// step sends the next command and learns from its answer.
func (w *worker) step() {
	if len(w.extra) > 0 {
		id := w.extra[0]
		w.extra = w.extra[1:]
		w.send("tab.close", map[string]any{"target": byID(id)}, false, false)
		return
	}
	if len(w.claimed) > 0 {
		id := w.claimed[0]
		w.claimed = w.claimed[1:]
		w.send("tab.release", map[string]any{"target": byID(id)}, false, false)
		return
	}
	if w.from < 0 || w.n >= w.from+perPage {
		n := w.n
		if s := w.send("page.navigate", map[string]any{"url": w.c.rig.site.act(w.next(), w.key, n)}, true, false); s.kind == "done" {
			w.from = n
		}
		return
	}
	button := fmt.Sprintf("#b-%d", w.n)
	switch dice := w.rng.IntN(100); {
	case dice < 8:
		w.send("input.click", map[string]any{"selector": button}, true, false)
	case dice < 12:
		w.send("input.key", map[string]any{"selector": button, "key": "Enter"}, true, false)
	case dice < 18:
		w.send("input.fill", map[string]any{"selector": "#field", "text": w.next()}, true, false)
	case dice < 22 && w.n+2 <= w.c.each:
		w.pair()
	case dice < 25 && w.n+5 <= w.c.each:
		w.visit()
	case dice < 85:
		w.send("page.evaluate", map[string]any{"expression": fmt.Sprintf("tell(%q)", w.next())}, true, false)
	case dice < 95:
		read := []string{"page.read", "page.snapshot", "tab.list"}[w.rng.IntN(3)]
		w.send(read, map[string]any{}, false, true)
	default:
		s := w.send("tab.new", map[string]any{"url": w.c.rig.site.act(w.next(), w.key, 0)}, true, false)
		var tab op.Tab
		if s.kind == "done" && assert.Check(w.c.t, json.Unmarshal(s.value, &tab)) {
			w.extra = append(w.extra, tab.ID)
		}
	}
}

// next is the id of the next command.
func (w *worker) next() string { return fmt.Sprintf("%s-%d", w.key, w.n) }

// make is the next command.
func (w *worker) make(operation string, input map[string]any, effect, read bool) *sent {
	raw, err := json.Marshal(input)
	assert.Check(w.c.t, err)
	s := &sent{id: w.next(), session: w.number, effect: effect, read: read, command: wire.Command{
		ID: w.next(), Operation: operation, Session: wire.Session{Key: w.key}, Browser: w.profile.id, Input: raw}}
	if dice := w.rng.IntN(20); dice < 2 && !read {
		s.again, s.beside = true, dice == 0
	}
	w.n++
	return s
}

// send sends the next command, now and then twice, and notes what its callers
// were told.
func (w *worker) send(operation string, input map[string]any, effect, read bool) *sent {
	s := w.make(operation, input, effect, read)
	w.ask(s)
	w.learn(s)
	return s
}

// ask sends the command and waits for its answer. One that is sent again is so
// after its answer, or at the same time by another program.
func (w *worker) ask(s *sent) {
	ctx, cancel := context.WithTimeout(w.c.t.Context(), slowest)
	defer cancel()
	type answer struct {
		value json.RawMessage
		err   error
	}
	other := make(chan answer, 1)
	if s.beside {
		go func() {
			out, err := w.other.Command(ctx, s.command, nil)
			other <- answer{out.Result.Value, err}
		}()
	}
	began := time.Now()
	out, err := w.client.Command(ctx, s.command, nil)
	s.took = time.Since(began)
	s.kind, s.code = told(err)
	s.value, s.err = out.Result.Value, err
	if err != nil {
		s.message = err.Error()
	}
	if ctx.Err() != nil {
		w.c.t.Errorf("%s (%s) has no answer after %s", s.id, s.command.Operation, slowest)
	}
	var again answer
	switch {
	case s.beside:
		again = <-other
	case s.again && (s.kind == "done" || s.kind == op.OutcomeUnknown):
		out, err := w.client.Command(ctx, s.command, nil)
		again = answer{out.Result.Value, err}
	default:
		return
	}
	kind, code := told(again.err)
	switch {
	case s.beside && (kind == op.Unavailable || s.kind == op.Unavailable):
		// One of the two came to nothing and could be sent again; the other is that.
		if kind == "done" || kind == op.OutcomeUnknown {
			s.kind, s.code, s.value, s.err = kind, code, again.value, again.err
			if again.err != nil {
				s.message = again.err.Error()
			}
		}
	case contradicts(kind, s.kind), kind == "done" && s.kind == "done" && string(again.value) != string(s.value):
		w.c.t.Errorf("%s (%s) was told %s %s and, sent again, %s %s\n%s\n%s", s.id, s.command.Operation, s.kind, s.code, kind, code, s.value, again.value)
	}
}

// learn notes a command that was answered.
func (w *worker) learn(s *sent) {
	w.c.mu.Lock()
	w.c.all = append(w.c.all, s)
	w.c.mu.Unlock()
	w.c.issued.Add(1)
	if s.kind != "done" {
		w.from = -1 // what the page shows is not known
		w.extra = nil
	}
	switch {
	case s.code == op.AmbiguousOwnedTarget:
		w.tidy(s.err)
	case s.kind == op.Unavailable:
		time.Sleep(50 * time.Millisecond) // as anybody would before the next try
	}
}

// pair sends two commands without waiting for the first one's answer.
func (w *worker) pair() {
	var both []*sent
	for range 2 {
		both = append(both, w.make("page.evaluate", map[string]any{"expression": fmt.Sprintf("tell(%q)", w.next())}, true, false))
	}
	var asked sync.WaitGroup
	for _, s := range both {
		asked.Go(func() { w.ask(s) })
	}
	asked.Wait()
	for _, s := range both {
		w.learn(s)
	}
}

// visit uses the tab of the profile's user, for which the sessions contend:
// claims it, shows a page there, acts on it, and gives it back while something
// waits for it.
func (w *worker) visit() {
	var tabs []op.Tab
	listed := w.send("tab.list", map[string]any{}, false, true)
	if listed.kind != "done" || !assert.Check(w.c.t, json.Unmarshal(listed.value, &tabs)) {
		return
	}
	i := slices.IndexFunc(tabs, func(tab op.Tab) bool {
		return !tab.Owned && (tab.URL == "about:blank" || strings.Contains(tab.URL, usersTab))
	})
	if i < 0 {
		return
	}
	target := byID(tabs[i].ID)
	if w.send("tab.claim", map[string]any{"target": target}, false, false).kind != "done" {
		return
	}
	if w.send("page.navigate", map[string]any{"target": target, "url": w.c.rig.site.act(w.next(), w.key, w.n) + usersTab}, true, false).kind != "done" {
		return
	}
	// When it comes after the other, the tab may show another session's page.
	act := w.make("page.evaluate", map[string]any{"target": target, "expression": fmt.Sprintf("page === %q && tell(%q)", w.key, w.next())}, false, false)
	give := w.make("tab.release", map[string]any{"target": target}, false, false)
	var asked sync.WaitGroup
	for _, s := range []*sent{act, give} {
		asked.Go(func() { w.ask(s) })
	}
	asked.Wait()
	w.learn(act)
	w.learn(give)
	w.from = -1
}

func byID(id int) map[string]any { return map[string]any{"by": "id", "value": id} }

// usersTab marks the pages that sessions show in the tab of a profile's user.
const usersTab = "&user=1"

// tidy has the session close all its tabs but one, and give back what it has
// claimed: something was interrupted and left more.
func (w *worker) tidy(err error) {
	var details struct {
		OwnedTargets []bridge.OwnedTarget `json:"ownedTargets"`
	}
	assert.Check(w.c.t, json.Unmarshal(op.AsError(err).MarshalDetails(), &details))
	kept := false
	for _, t := range details.OwnedTargets {
		switch {
		case t.TabID == nil:
		case t.Claimed:
			w.claimed = append(w.claimed, *t.TabID)
		case kept:
			w.extra = append(w.extra, *t.TabID)
		default:
			kept = true
		}
	}
}

// contradicts says whether two answers about one command cannot both be true.
// Unknown goes with everything.
func contradicts(a, b op.Kind) bool {
	if a == op.OutcomeUnknown || b == op.OutcomeUnknown {
		return false
	}
	return (a == "done") != (b == "done")
}

// The faults by name.
const (
	workerStopped = "worker stopped"
	socketCut     = "extension's socket cut in a frame"
	socketStalled = "extension's socket stalled"
	programsCut   = "programs' sockets cut in a frame"
	ownerKilled   = "owner killed"
	ownerBefore   = "owner killed between journal and effect"
	ownerAfter    = "owner killed between effect and journal"
	ownerTold     = "owner killed between journal and reply"
	browserKilled = "browser killed"
	diskRefuses   = "disk refuses writes"
)

// fault is one way to break something.
type fault struct {
	name   string
	weight int
	do     func(ctx context.Context, rng *rand.Rand, p *browserProfile) error
}

func (c *campaign) menu() []fault {
	r := c.rig
	all := []fault{
		{workerStopped, 18, func(ctx context.Context, _ *rand.Rand, p *browserProfile) error {
			return p.stopWorker(ctx)
		}},
		{socketCut, 18, func(_ context.Context, rng *rand.Rand, p *browserProfile) error {
			at := 1 + rng.IntN(40)
			p.proxy.on(func(c chunk) bool { return c.n >= at })
			return nil
		}},
		{socketStalled, 10, func(_ context.Context, rng *rand.Rand, p *browserProfile) error {
			p.proxy.hold(time.Duration(100+rng.IntN(1200)) * time.Millisecond)
			return nil
		}},
		{programsCut, 12, func(_ context.Context, rng *rand.Rand, _ *browserProfile) error {
			at := 1 + rng.IntN(20)
			r.programs.on(func(c chunk) bool { return c.n >= at })
			return nil
		}},
		{ownerKilled, 8, func(context.Context, *rand.Rand, *browserProfile) error {
			r.killOwner()
			return nil
		}},
		{ownerBefore, 8, func(context.Context, *rand.Rand, *browserProfile) error {
			return c.killAt(func() error { return r.arm(beforeEffect) })
		}},
		{ownerAfter, 8, func(context.Context, *rand.Rand, *browserProfile) error {
			return c.killAt(func() error { return r.arm(afterEffect) })
		}},
		{ownerTold, 8, func(_ context.Context, rng *rand.Rand, _ *browserProfile) error {
			at := 1 + rng.IntN(6)
			return c.killAt(func() error {
				p, _ := r.running()
				seen := 0
				r.programs.on(func(ch chunk) bool {
					if ch.owner {
						seen++
					}
					if seen < at {
						return false
					}
					kill(p.cmd.Process.Pid)
					return true
				})
				return nil
			})
		}},
		{browserKilled, 6, func(ctx context.Context, _ *rand.Rand, p *browserProfile) error { return p.crash(ctx) }},
	}
	if diskFaults {
		all = append(all, fault{diskRefuses, 8, func(_ context.Context, rng *rand.Rand, _ *browserProfile) error {
			p, _ := r.running()
			if err := failWrites(p.cmd.Process.Pid, true); err != nil {
				return nil // it was just killed
			}
			time.Sleep(time.Duration(50+rng.IntN(250)) * time.Millisecond)
			_ = failWrites(p.cmd.Process.Pid, false) // it may have been killed meanwhile
			return nil
		}})
	}
	return all
}

// killAt arms a kill and waits until it has happened. Commands go on coming,
// so that it does; at the end of the campaign there are none.
func (c *campaign) killAt(arm func() error) error {
	p, _ := c.rig.running()
	for began := time.Now(); ; {
		err := arm()
		if err == nil {
			break
		}
		if time.Since(began) > 10*time.Second {
			return err
		}
		// It was just started: it does not take orders yet.
		time.Sleep(10 * time.Millisecond)
		p, _ = c.rig.running()
	}
	for {
		select {
		case <-p.done:
			return nil
		case <-time.After(50 * time.Millisecond):
			if c.idle.Load() {
				c.rig.killOwner()
				return nil
			}
		}
	}
}

// breakThings breaks one thing after the other while the commands run: which,
// where and after how many commands is the seed's.
func (c *campaign) breakThings(ctx context.Context) {
	rng := rand.New(rand.NewPCG(c.seed, 1<<32))
	menu := c.menu()
	total := 0
	for _, f := range menu {
		total += f.weight
	}
	for next := int64(sessions + 2); ; next += int64(8 + rng.IntN(24)) {
		for c.issued.Load() < next {
			if c.idle.Load() {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		pick := rng.IntN(total)
		i := 0
		for pick >= menu[i].weight {
			pick -= menu[i].weight
			i++
		}
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		c.faults[menu[i].name]++
		if err := menu[i].do(ctx, rng, c.rig.profiles[rng.IntN(len(c.rig.profiles))]); err != nil {
			c.t.Errorf("%s: %v", menu[i].name, err)
			return
		}
	}
}

// settle waits until everything is back, asks again about every command, has
// the sessions clean up, and looks at what is left.
func (c *campaign) settle(before figures) {
	t := c.t
	ctx := t.Context()
	for _, p := range c.rig.profiles {
		p.proxy.on(nil)
	}
	c.rig.programs.on(nil)
	// A last new owner: what it holds is what it took over and what comes now.
	cl := c.rig.dial(t, c.rig.port)
	defer func() { assert.Check(t, cl.Close()) }()
	c.rig.live(t, cl)

	for _, s := range c.all {
		known, err := owner.Outcome(ctx, cl, s.id)
		if !assert.Check(t, err, "asking for %s", s.id) {
			return
		}
		s.later = laterKind(t, known)
	}
	// The tabs that the owner knows are the tabs that there are.
	owned := map[string]bool{}
	facts, err := owner.Facts(ctx, cl)
	assert.NilError(t, err)
	for _, s := range facts.Sessions {
		for _, target := range s.Targets {
			if target.TabID != nil && target.State == "owned" {
				owned[fmt.Sprint(s.ConnectorID, " ", *target.TabID)] = true
			}
		}
	}
	shown := map[string]string{}
	for i, p := range c.rig.profiles {
		var tabs []op.Tab
		out, err := cl.Command(ctx, wire.Command{Operation: "tab.list", Session: wire.Session{Key: fmt.Sprintf("look-%d", i)}, Browser: p.id, Input: json.RawMessage(`{}`)}, nil)
		assert.NilError(t, err)
		assert.NilError(t, json.Unmarshal(out.Result.Value, &tabs))
		for _, tab := range tabs {
			shown[fmt.Sprint(p.id, " ", tab.ID)] = tab.URL
		}
	}
	for tab := range owned {
		if _, ok := shown[tab]; !ok {
			t.Errorf("the owner has a record of tab %s, which is not there", tab)
		}
	}
	// One tab of each profile is its user's, whatever a session that was
	// interrupted while it had it has left there.
	free := map[string][]string{}
	for tab, url := range shown {
		if !owned[tab] {
			id, _, _ := strings.Cut(tab, " ")
			free[id] = append(free[id], fmt.Sprintf("%s (%s)", tab, url))
		}
	}
	for id, tabs := range free {
		if len(tabs) > 1 {
			t.Errorf("profile %s has more than its user's tab that is nobody's: %v", id, slices.Sorted(slices.Values(tabs)))
		}
	}
	for i := range sessions {
		_, err := owner.Cleanup(ctx, cl, c.key(i))
		assert.NilError(t, err)
	}
	for _, p := range c.rig.profiles {
		pages, err := p.pages(ctx)
		assert.NilError(t, err)
		if len(pages) != 1 {
			t.Errorf("browser %s is left with the tabs %v", p.name, slices.Sorted(maps.Values(pages)))
		}
	}
	after := c.rig.figures(t)
	t.Logf("owner: heap %.1f MB at its start, %.1f MB now; goroutines %d and %d", mb(before.HeapBytes), mb(after.HeapBytes), before.Goroutines, after.Goroutines)
	if after.HeapBytes > before.HeapBytes+ownerSlack {
		t.Errorf("the owner holds %.1f MB, %.1f MB at its start", mb(after.HeapBytes), mb(before.HeapBytes))
	}
	if after.Goroutines > before.Goroutines+8 {
		stacks, _ := order("GET", c.rig.control, "/goroutines")
		t.Errorf("the owner has %d goroutines, %d at its start\n%s", after.Goroutines, before.Goroutines, stacks)
	}
}

func mb(n uint64) float64 { return float64(n) / (1 << 20) }

// laterKind is what the owner says of a command that is over.
func laterKind(t testing.TB, known bridge.CommandOutcome) string {
	if known.State != "done" {
		return known.State
	}
	var r wire.Result
	assert.Check(t, json.Unmarshal(known.Result, &r))
	if r.OK {
		return "done"
	}
	if r.Error == nil {
		t.Errorf("the outcome of %s is neither done nor an error: %s", known.ID, known.Result)
		return "nothing"
	}
	return r.Error.Kind
}

// judge holds what every command was told against what the server counted.
func (c *campaign) judge() {
	t := c.t
	for _, s := range c.all {
		hits := c.rig.site.of(s.id)
		fail := func(format string, args ...any) {
			t.Errorf("%s (%s, told %s %s, later %s, %d effects): %s\n%s", s.id, s.command.Operation, s.kind, s.code, s.later, len(hits), fmt.Sprintf(format, args...), s.message)
		}
		if len(hits) > 1 {
			fail("it had its effect more than once")
		}
		for _, h := range hits {
			want := hit{c.key(s.session), c.rig.profiles[s.session%len(c.rig.profiles)].name}
			if h != want {
				fail("the effect was made by %+v, not by %+v", h, want)
			}
		}
		switch s.kind {
		case "done":
			if s.effect && len(hits) == 0 {
				fail("it was done and had no effect")
			}
		case op.OutcomeUnknown:
			if s.read {
				fail("a read is never unknown")
			}
		case op.Rejected, op.Unavailable, op.Invalid:
			if len(hits) > 0 {
				fail("it was known to have no effect")
			}
		default:
			fail("%q is no kind", s.kind)
		}
		if s.kind != "done" && s.message == "" {
			fail("it does not say why")
		}
		switch op.Kind(s.later) {
		case "done":
			if s.kind != "done" && s.kind != op.OutcomeUnknown || s.effect && len(hits) == 0 {
				fail("that cannot be")
			}
		case "unknown": // never begun, or forgotten
			if !s.read && s.kind == "done" && len(c.all) < 900 {
				fail("the journal does not know it")
			}
			if s.kind == op.OutcomeUnknown && len(hits) > 0 && len(c.all) < 900 {
				fail("the journal does not know it")
			}
		case op.Rejected, op.Invalid, op.Unavailable:
			if s.kind == "done" || len(hits) > 0 {
				fail("that cannot be")
			}
		case op.OutcomeUnknown:
		default:
			fail("%q is no answer", s.later)
		}
	}
	assert.Equal(t, len(c.all), c.each*sessions)
}

// columns are the faults of the report's table, each with what it counts.
var columns = []struct {
	title string
	names []string
}{
	{"worker", []string{workerStopped}},
	{"socket", []string{socketCut, socketStalled, programsCut}},
	{"browser", []string{browserKilled}},
	{"owner", []string{ownerKilled, ownerBefore, ownerAfter, ownerTold}},
	{"disk", []string{diskRefuses}},
}

// report logs the run, and adds a row to the table in the file that the flag
// names. A run that broke a promise has failed by then.
func (c *campaign) report(ready, took time.Duration) {
	kinds, codes, effects, slow := map[string]int{}, map[string]int{}, 0, time.Duration(0)
	for _, s := range c.all {
		kinds[string(s.kind)]++
		if s.code != "" {
			codes[string(s.kind)+"/"+string(s.code)]++
		}
		effects += len(c.rig.site.of(s.id))
		slow = max(slow, s.took)
	}
	_, owners := c.rig.running()
	c.t.Logf("ready after %.1f s; %d owners; slowest answer %.1f s\nfaults: %s\ntold: %s\ncodes: %s\n%d effects, %.1f s",
		ready.Seconds(), owners, slow.Seconds(), words(c.faults), words(kinds), words(codes), effects, took.Seconds())
	if *reportFlag == "" || c.t.Failed() {
		return
	}
	line := fmt.Sprintf("| %d | %d |", c.seed, len(c.all))
	for _, column := range columns {
		n := 0
		for _, name := range column.names {
			n += c.faults[name]
		}
		line += fmt.Sprintf(" %d |", n)
	}
	line += fmt.Sprintf(" %d | %d | %d | %d | %d | %.1f | %.0f |\n",
		kinds["done"], kinds["outcome-unknown"], kinds["rejected"]+kinds["invalid"], kinds["unavailable"], effects, slow.Seconds(), took.Seconds())
	f, err := os.OpenFile(*reportFlag, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	assert.NilError(c.t, err)
	_, err = f.WriteString(line)
	assert.NilError(c.t, errors.Join(err, f.Close()))
}

// words tells counts, sorted by name.
func words(counts map[string]int) string {
	var b []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		b = append(b, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(b, ", ")
}
