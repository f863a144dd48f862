package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// stage is where a conversation plays: an owner, browsers, programs and a
// driver.
type stage struct {
	transcript
	t        *testing.T
	rig      *rig
	watch    map[string]bool
	browsers map[string]*chromeOfStage
	programs map[string]*program
	talks    sync.WaitGroup
	over     chan struct{} // closed at the end, so that nothing waits for a held answer
	token    string        // of the latest pairing
	recorded struct {      // of the latest handshake, for a thief
		hello *wire.Hello
		proof string
	}

	calls   sync.Mutex
	waiting map[string]chan error // commands that the driver holds, by id; nil ends one well
	deaf    map[string]bool       // of those: it does not hear that it was canceled
}

// newStage builds what the section "world" says: "browser NAME" and "browser
// NAME unpaired", one "browser Work" where there is none, and "watch CALL…" for
// the calls and frames of a browser that are of interest.
func newStage(t *testing.T, world string) *stage {
	s := &stage{t: t, watch: map[string]bool{}, browsers: map[string]*chromeOfStage{}, programs: map[string]*program{}, over: make(chan struct{}),
		waiting: map[string]chan error{}, deaf: map[string]bool{}}
	s.rig = &rig{t: t, dir: t.TempDir(), handler: &fakeHandler{run: s.drive}}
	var err error
	s.rig.secret, err = ensureCredential(s.rig.dir)
	assert.NilError(t, err)
	s.rig.start()
	for _, l := range strings.Split(world, "\n") {
		words := strings.Fields(l)
		switch {
		case len(words) == 0:
		case words[0] == "browser":
			s.browsers[words[1]] = newChromeOfStage(s, words[1], len(words) == 2)
			s.order = append(s.order, words[1])
		case words[0] == "watch":
			for _, w := range words[1:] {
				s.watch[w] = true
			}
		default:
			t.Fatalf("the world has no %q", l)
		}
	}
	if len(s.browsers) == 0 {
		s.browsers["Work"] = newChromeOfStage(s, "Work", true)
		s.order = append(s.order, "Work")
	}
	s.order = append(s.order, "driver")
	s.start = time.Now()
	return s
}

// play plays a script and returns the transcript.
func (s *stage) play(lines []line) string {
	var comments []line // stand before what they are about, whatever was heard until then
	for _, l := range lines {
		if !l.said {
			comments = append(comments, l)
			continue
		}
		assert.Assert(s.t, l.at >= time.Since(s.start), "the script goes back in time: %s %s", l.at, l.text)
		time.Sleep(l.at - time.Since(s.start))
		synctest.Wait()
		for _, c := range comments {
			s.say(c)
		}
		comments = nil
		s.say(l)
		s.do(l)
		synctest.Wait()
	}
	s.say(line{})
	s.lines = s.lines[:len(s.lines)-1]
	heard := s.String()
	s.end()
	return heard
}

// end lets everything go that still waits.
func (s *stage) end() {
	close(s.over)
	for _, c := range s.browsers {
		c.mu.Lock()
		held := slices.Collect(maps.Values(c.held))
		c.held = map[string][]func(){}
		c.mu.Unlock()
		for _, releases := range held {
			for _, release := range releases {
				release()
			}
		}
	}
	if s.rig.srv != nil {
		s.rig.close()
	}
	for _, p := range s.programs {
		p.close()
	}
	s.talks.Wait()
}

// talk runs a part of the conversation that may take a while.
func (s *stage) talk(fn func()) { s.talks.Go(fn) }

func (s *stage) pass(d string) {
	took, err := time.ParseDuration(d)
	assert.Check(s.t, err)
	time.Sleep(took)
}

// options reads KEY=VALUE words.
func options(t *testing.T, words []string, allowed ...string) map[string]string {
	t.Helper()
	o := map[string]string{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok || !slices.Contains(allowed, k) {
			t.Fatalf("%q is not one of %v", w, allowed)
		}
		o[k] = v
	}
	return o
}

func (s *stage) do(l line) {
	words := strings.Fields(l.text)
	switch browser := s.browsers[l.who]; {
	case browser != nil:
		browser.say(words)
	case l.who == "driver":
		s.direct(words)
	case l.who == "owner":
		s.owner(words[0])
	case l.who == "time":
	default:
		s.program(l.who, words)
	}
}

// owner ends and starts the owner.
func (s *stage) owner(what string) {
	switch what {
	case "kill":
		s.kill()
	case "start":
		if s.rig.srv != nil {
			s.rig.close() // waits for the end that has begun
		}
		s.rig.start()
		for _, c := range s.browsers {
			c.p.relay = s.rig.srv.relay
		}
	default:
		s.t.Fatalf("an owner does not %q", what)
	}
}

// kill ends the owner without a word. What the owner of this process still
// does then, no killed one would do: nobody hears it, and the disk is as it
// was before.
func (s *stage) kill() {
	s.rig.freeze()
	s.mute(true)
	var cut []string
	for _, name := range s.order {
		if p := s.programs[name]; p != nil {
			p.close()
			delete(s.programs, name)
			cut = append(cut, name+" gone")
		}
		if c := s.browsers[name]; c != nil {
			if n := c.cut(); n > 0 {
				cut = append(cut, fmt.Sprint(name, " lost ", n))
			}
		}
	}
	s.rig.crash()
	s.rig.srv = nil
	synctest.Wait()
	s.mute(false)
	for _, l := range cut {
		name, what, _ := strings.Cut(l, " ")
		s.hear(name, "%s", what)
	}
}

var verbs = map[string]string{"click": "page.click", "snapshot": "page.snapshot", "wait": "page.wait", "new": "tab.new", "close": "tab.close", "list": "tab.list", "status": "system.status"}

// program does what a line says of a program.
func (s *stage) program(name string, words []string) {
	if !slices.Contains(s.order, name) {
		s.order = append(s.order, name)
	}
	p := s.programs[name]
	switch verb := words[0]; verb {
	case "connect":
		secret := s.rig.secret
		if options(s.t, words[1:], "proof")["proof"] == "wrong" {
			secret = strings.Repeat("0", len(secret))
		}
		s.dial(name, secret)
	case "break":
		p.close()
		delete(s.programs, name)
	case "cancel":
		p.send(wire.Cancel{Type: wire.TypeCancel, ID: words[1]})
	case "ask":
		params := json.RawMessage(strings.Join(words[2:], " "))
		p.send(wire.Request{Type: wire.TypeRequest, ID: "ask " + words[1], Method: words[1], Params: params})
	default:
		operation := verbs[verb]
		if operation == "" || p == nil {
			s.t.Fatalf("%s does not %q, or is not connected", name, verb)
		}
		o := options(s.t, words[2:], "tab", "session", "browser", "deadline")
		c := cmd(words[1], operation, `{}`)
		if o["tab"] != "" {
			c.Input = json.RawMessage(fmt.Sprintf(`{"target":{"by":"id","value":%s}}`, o["tab"]))
		}
		if o["session"] != "" {
			c.Session.Key = o["session"]
		}
		c.Browser = o["browser"]
		if o["deadline"] != "" {
			d, err := time.ParseDuration(o["deadline"])
			assert.NilError(s.t, err)
			c.DeadlineMs = int(d.Milliseconds())
		}
		p.send(c)
	}
}

// dial connects a program and notes what it hears.
func (s *stage) dial(name, secret string) {
	if s.rig.srv == nil {
		s.hear(name, "nobody there")
		return
	}
	ours, theirs := newPipe()
	srv := s.rig.srv
	srv.wg.Go(func() { srv.serveClient(theirs, func() {}) })
	if err := introduce(ours, secret); err != nil {
		s.hear(name, "refused")
		ours.Close()
		return
	}
	s.hear(name, "ready")
	p := &program{rig: s.rig, conn: ours, results: map[string][]*wire.Result{}, wake: make(chan struct{}), gone: make(chan struct{})}
	p.heard = func(frame any) {
		if r, ok := frame.(*wire.Result); ok {
			s.hear(name, "%s", s.told(r))
		}
	}
	s.programs[name] = p
	go p.read()
	s.talk(func() {
		<-p.gone
		select {
		case <-s.over:
		default:
			s.hearLast(name, "gone")
		}
	})
}

// told is an answer in one line.
func (s *stage) told(r *wire.Result) string {
	method, isRequest := strings.CutPrefix(r.ID, "ask ")
	if !r.OK {
		kind := map[string]string{string(op.OutcomeUnknown): "unknown"}[r.Error.Kind]
		if kind == "" {
			kind = r.Error.Kind
		}
		return fmt.Sprintf("%s %s %s", kind, cmpOr(method, isRequest, r.ID), r.Error.Code)
	}
	if !isRequest {
		return "done " + r.ID
	}
	answer := "answered " + method
	var v struct {
		Mode       string         `json:"mode"`
		Generation int            `json:"generation"`
		State      string         `json:"state"`
		Token      string         `json:"token"`
		Offers     []PairingOffer `json:"offers"`
		Closed     []int          `json:"closedTabIds"`
		Stale      int            `json:"staleOwnershipsCleared"`
		Result     *wire.Result   `json:"result"`
		Profiles   []struct {
			Leases []LeaseInfo `json:"leases"`
		} `json:"profiles"`
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return answer
	}
	if v.Token != "" {
		s.token = v.Token
	}
	for _, part := range []string{v.Mode, v.State} {
		if part != "" {
			answer += " " + part
		}
	}
	if v.Generation > 0 {
		answer += fmt.Sprintf(" generation=%d", v.Generation)
	}
	for _, o := range v.Offers {
		answer += " " + o.Label
	}
	if v.Closed != nil {
		answer += fmt.Sprintf(" closed=%s", strings.Trim(fmt.Sprint(v.Closed), "[]"))
	}
	if v.Stale > 0 {
		answer += fmt.Sprintf(" stale=%d", v.Stale)
	}
	for _, p := range v.Profiles {
		for _, l := range p.Leases {
			answer += fmt.Sprintf(" tab=%d:%s", l.TabID, l.State)
		}
	}
	if v.Result != nil {
		answer += ": " + strings.TrimSuffix(strings.ReplaceAll(s.told(v.Result), " "+v.Result.ID, ""), " ")
	}
	return answer
}

func cmpOr(method string, isRequest bool, id string) string {
	if isRequest {
		return method
	}
	return id
}

// direct does what a line says of the driver: "hold ID" before the command
// comes, or "deaf ID" for one that does not hear a cancel, and then "finish ID"
// with "rejected CODE", "unknown CODE" or "error" for what does not go well, and
// "spoiled" for one that left something in the debugger session of its tab.
func (s *stage) direct(words []string) {
	s.calls.Lock()
	defer s.calls.Unlock()
	id := words[1]
	switch words[0] {
	case "hold", "deaf":
		s.waiting[id] = make(chan error, 1)
		s.deaf[id] = words[0] == "deaf"
	case "finish":
		var err error
		if len(words) > 2 {
			switch words[2] {
			case "rejected":
				err = op.Reject(op.Code(words[3]), "the driver refuses")
			case "unknown":
				err = op.Unknown(op.Code(words[3]), "the driver does not know")
			case "error":
				err = errors.New("a surprise")
			case "spoiled":
				err = errSpoiled
			default:
				s.t.Fatalf("a command does not finish %v", words[2:])
			}
		}
		assert.Assert(s.t, s.waiting[id] != nil, "the driver does not hold %s", id)
		s.waiting[id] <- err
	default:
		s.t.Fatalf("the driver does not %q", words[0])
	}
}

var errSpoiled = errors.New("a script could not be taken back")

// drive is the operation of a command on a page. One that may change the page
// makes one call of Chrome, as an input does.
func (s *stage) drive(ctx context.Context, call *Call) (op.Result, error) {
	s.hear("driver", "begins %s tab=%d", call.ID, call.Tab.Key().TabID)
	s.calls.Lock()
	wait, deaf := s.waiting[call.ID], s.deaf[call.ID]
	s.calls.Unlock()
	if wait != nil {
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case err := <-wait:
			if errors.Is(err, errSpoiled) {
				err = call.Tab.ResetSession(ctx, err)
			}
			if err != nil {
				return op.Result{}, err
			}
		case <-done:
			s.hear("driver", "canceled %s", call.ID)
			return op.Result{}, ctx.Err()
		case <-s.over:
			return op.Result{}, errors.New("the conversation is over")
		}
	}
	if call.Operation == "page.click" {
		if err := call.Tab.Call(ctx, "Input.dispatchMouseEvent", struct{}{}, nil); errors.Is(err, op.ErrNotDelivered) {
			return op.Result{}, op.NotAvailable(op.ConnectorOffline, "the click did not reach the browser")
		} else if err != nil {
			return op.Result{}, err
		}
	}
	return op.NewResult(call.ID)
}
