package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// chromeOfStage is a browser in a conversation: Chrome with some tabs, and the
// extension's worker.
type chromeOfStage struct {
	stage *stage
	name  string
	p     *fakeProfile

	mu     sync.Mutex
	w      *fakeWorker   // of the latest socket
	letGo  chan struct{} // served of the socket that we let go of ourselves
	urls   map[int]string
	nextID int
	starts int
	calls  map[string]string // hold, lose or fail, by call
	held   map[string][]func()
}

func newChromeOfStage(s *stage, name string, paired bool) *chromeOfStage {
	c := &chromeOfStage{stage: s, name: name, p: newProfile(s.t, s.rig.srv.relay), nextID: 2, starts: 1, urls: map[int]string{1: "https://shop.test/", 2: "https://mail.test/"},
		calls: map[string]string{}, held: map[string][]func(){}}
	c.p.label, c.p.answer = name, c.answer
	if paired {
		b, _, err := s.rig.srv.store.Binding(s.t.Context(), c.p.id)
		assert.NilError(s.t, err)
		b.Label = name
		assert.NilError(s.t, s.rig.srv.store.SaveBinding(s.t.Context(), b))
	} else {
		assert.NilError(s.t, s.rig.srv.store.RemoveBinding(s.t.Context(), c.p.id))
		c.p.secret = ""
	}
	return c
}

// say does what a line of the script says of the browser.
func (c *chromeOfStage) say(words []string) {
	verb, rest := words[0], words[1:]
	id := func(i int) int {
		n, err := strconv.Atoi(rest[i])
		assert.NilError(c.stage.t, err)
		return n
	}
	switch verb {
	case "connect":
		c.connect(wire.ScopeConnector, c.p.secret, options(c.stage.t, rest, "epoch", "proof", "late", "fingerprint", "version", "replay"))
	case "pair":
		c.connect(wire.ScopePairing, c.stage.token, options(c.stage.t, rest, "proof", "late"))
	case "drop", "die":
		c.mu.Lock()
		w := c.w
		c.letGo = w.served
		c.mu.Unlock()
		if verb == "drop" {
			w.drop()
			return
		}
		w.kill()
		c.mu.Lock()
		c.w = nil
		c.mu.Unlock()
	case "silent":
		c.w.mu.Lock()
		c.w.pongs = false
		c.w.mu.Unlock()
	case "restart": // the browser itself: what was attached is not any more, and every page has another target
		c.starts++
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.epoch = fmt.Sprint("browser-", c.starts)
		clear(c.p.attached)
		for tab := range c.p.tabs {
			c.p.tabs[tab] = fmt.Sprintf("target-%d-%d", c.starts, tab)
		}
	case "open":
		tab := c.add(rest[0])
		c.event("tabs.onCreated", c.tab(tab))
	case "close":
		c.remove(id(0))
	case "discard": // N as M
		c.p.mu.Lock()
		delete(c.p.tabs, id(0))
		c.p.tabs[id(2)] = fmt.Sprintf("target-discarded-%d", id(2))
		c.p.mu.Unlock()
		c.mu.Lock()
		c.urls[id(2)] = c.urls[id(0)]
		delete(c.urls, id(0))
		c.mu.Unlock()
		c.event("tabs.onReplaced", id(2), id(0))
	case "detach": // N REASON; the banner's Cancel detaches every tab
		c.p.mu.Lock()
		if rest[1] == "canceled_by_user" {
			clear(c.p.attached)
		}
		delete(c.p.attached, id(0))
		c.p.mu.Unlock()
		c.event("debugger.onDetach", debuggee{TabID: id(0)}, rest[1])
	case "foreign": // another extension debugs the tab, or has stopped
		c.p.mu.Lock()
		c.p.foreign[id(0)] = !slices.Contains(rest, "off")
		c.p.mu.Unlock()
	case "hold", "lose", "fail":
		c.mu.Lock()
		c.calls[rest[0]] = verb
		c.mu.Unlock()
	case "answer": // what was held, and all that comes
		c.mu.Lock()
		held := c.held[rest[0]]
		delete(c.held, rest[0])
		delete(c.calls, rest[0])
		c.mu.Unlock()
		for _, release := range held {
			release()
		}
	default:
		c.stage.t.Fatalf("a browser does not %q", verb)
	}
}

// cut ends the socket as the end of the owner does, and returns the number of
// the connection, 0 for none.
func (c *chromeOfStage) cut() int {
	c.mu.Lock()
	w := c.w
	c.mu.Unlock()
	if w == nil || w.ready == nil {
		return 0
	}
	w.mu.Lock()
	w.online = false
	w.mu.Unlock()
	w.sock.CloseNow()
	return w.ready.Generation
}

func (c *chromeOfStage) event(name string, args ...any) {
	c.mu.Lock()
	w := c.w
	c.mu.Unlock()
	if w != nil {
		w.event(name, args...)
	}
}

// connect opens a socket; what becomes of it is heard.
func (c *chromeOfStage) connect(scope wire.Scope, key string, o map[string]string) {
	c.mu.Lock()
	w := c.w
	if w == nil || o["epoch"] != "" {
		w = c.p.worker()
	}
	if o["epoch"] == "" && scope == wire.ScopeConnector {
		c.w = w
	}
	c.mu.Unlock()
	w.heard = c.hear
	var hello wire.Hello
	w.tamper = func(h *wire.Hello) {
		if o["epoch"] != "" {
			h.BrowserEpoch = o["epoch"]
		}
		if o["fingerprint"] != "" {
			h.Fingerprint = strings.Repeat("0", 64)
		}
		if o["version"] != "" {
			h.Version++
		}
		if c.stage.recorded.hello != nil && o["replay"] != "" {
			*h = *c.stage.recorded.hello
		}
		hello = *h
	}
	w.proof = func(proof string) string {
		if o["late"] != "" {
			c.stage.pass(o["late"])
		}
		switch {
		case o["proof"] == "wrong":
			return strings.Repeat("0", 64)
		case o["replay"] != "":
			return c.stage.recorded.proof
		}
		c.stage.recorded.hello, c.stage.recorded.proof = &hello, proof
		return proof
	}
	c.stage.talk(func() {
		w.openScope(scope, key)
		if w.ready == nil {
			return
		}
		w.mu.Lock()
		served, generation := w.served, w.ready.Generation
		w.mu.Unlock()
		<-served
		c.mu.Lock()
		mine := c.letGo == served
		c.mu.Unlock()
		if !mine {
			c.stage.hearLast(c.name, "lost %d", generation)
		}
	})
}

// hear notes how a handshake ends, and the frames that the script watches.
func (c *chromeOfStage) hear(frame any) {
	switch f := frame.(type) {
	case *wire.Ready:
		c.stage.hear(c.name, "ready %d", f.Generation)
	case *wire.Refused:
		c.stage.hear(c.name, "refused %s", f.Code)
	case *wire.Paired:
		c.stage.hear(c.name, "paired")
	case *wire.Ping:
		if c.stage.watch["ping"] {
			c.stage.hear(c.name, "ping")
		}
	case *wire.CallFrame:
		if name := callName(f); c.stage.watch[name] {
			c.stage.hear(c.name, "%s%s", name, c.about(f))
		}
	}
}

// about is the tab of a call.
func (c *chromeOfStage) about(f *wire.CallFrame) string {
	var d debuggee
	var n int
	var ns []int
	if len(f.Args) == 0 {
		return ""
	}
	switch {
	case json.Unmarshal(f.Args[0], &n) == nil:
		return fmt.Sprintf(" tab=%d", n)
	case json.Unmarshal(f.Args[0], &ns) == nil:
		return fmt.Sprintf(" tab=%s", strings.Trim(fmt.Sprint(ns), "[]"))
	case json.Unmarshal(f.Args[0], &d) == nil && d.TabID != 0:
		return fmt.Sprintf(" tab=%d", d.TabID)
	}
	return ""
}

func (c *chromeOfStage) answer(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
	name := call
	if call == "debugger.sendCommand" {
		name = strings.Trim(string(args[1]), `"`)
	}
	c.mu.Lock()
	what := c.calls[name]
	if what == "hold" {
		ch := make(chan struct{})
		c.held[name] = append(c.held[name], func() { close(ch) })
		c.mu.Unlock()
		<-ch
		c.mu.Lock()
	}
	c.mu.Unlock()
	if what == "fail" {
		return nil, fmt.Errorf("Chrome does not want to %s.", name)
	}
	v, err := c.chrome(w, call, args)
	if what == "lose" {
		return nil, errNoAnswer
	}
	return v, err
}

// chrome does what Chrome does.
func (c *chromeOfStage) chrome(w *fakeWorker, call string, args []json.RawMessage) (any, error) {
	var ids []int
	var id int
	if len(args) > 0 && json.Unmarshal(args[0], &id) == nil {
		ids = []int{id}
	} else if len(args) > 0 {
		_ = json.Unmarshal(args[0], &ids) // of the calls that take a list
	}
	for _, id := range ids {
		c.p.mu.Lock()
		_, there := c.p.tabs[id]
		c.p.mu.Unlock()
		if !there && strings.HasPrefix(call, "tabs.") {
			return nil, fmt.Errorf("No tab with id: %d.", id)
		}
	}
	switch call {
	case "tabs.query":
		c.p.mu.Lock()
		all := slices.Sorted(maps.Keys(c.p.tabs))
		c.p.mu.Unlock()
		tabs := []any{}
		for _, id := range all {
			tabs = append(tabs, c.tab(id))
		}
		return tabs, nil
	case "tabs.get":
		return c.tab(id), nil
	case "tabs.create":
		var in struct {
			URL string `json:"url"`
		}
		_ = json.Unmarshal(args[0], &in)
		tab := c.tab(c.add(in.URL))
		w.event("tabs.onCreated", tab)
		return tab, nil
	case "tabs.remove":
		for _, id := range ids {
			c.remove(id)
		}
		return nil, nil
	case "tabs.group":
		return 100, nil
	case "tabGroups.query":
		return []any{}, nil
	case "tabGroups.get", "tabGroups.update":
		return map[string]any{"id": 100}, nil
	case "windows.getAll":
		return []Window{{ID: 1, Type: "normal"}}, nil
	case "debugger.sendCommand":
		v, err := w.standard(call, args)
		if err == nil && strings.Trim(string(args[1]), `"`) == "Page.navigate" {
			var d debuggee
			var in struct {
				URL string `json:"url"`
			}
			_, _ = json.Unmarshal(args[0], &d), json.Unmarshal(args[2], &in)
			c.mu.Lock()
			c.urls[d.TabID] = in.URL
			c.mu.Unlock()
			w.cdpEvent(d.TabID, "Page.frameNavigated", map[string]any{"frame": map[string]string{"url": in.URL}})
		}
		return v, err
	}
	return w.standard(call, args)
}

// add makes a tab.
func (c *chromeOfStage) add(url string) int {
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.urls[id] = url
	c.mu.Unlock()
	c.p.mu.Lock()
	c.p.tabs[id] = fmt.Sprint("target-", id)
	c.p.mu.Unlock()
	return id
}

func (c *chromeOfStage) tab(id int) chromeTab {
	c.mu.Lock()
	defer c.mu.Unlock()
	none := -1
	return chromeTab{ID: id, WindowID: 1, URL: c.urls[id], Title: fmt.Sprint("tab ", id), Status: "complete", GroupID: &none}
}

// remove closes a tab as Chrome does: its debugger goes first.
func (c *chromeOfStage) remove(id int) {
	c.p.mu.Lock()
	attached := c.p.attached[id]
	delete(c.p.attached, id)
	delete(c.p.tabs, id)
	c.p.mu.Unlock()
	if attached {
		c.event("debugger.onDetach", debuggee{TabID: id}, "target_closed")
	}
	c.event("tabs.onRemoved", id, struct{}{})
}
