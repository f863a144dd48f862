package pihost_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/pihost"
	"pi-chrome/driver/op"
)

// backend is an owner as the tests want it.
type backend struct {
	mu       sync.Mutex
	auth     bridge.Authorization
	stopped  bool // no owner runs
	revoked  int
	started  int
	commands [][]string
	release  chan struct{} // a call waits for it, or for its cancellation
}

func (b *backend) Tools() ([]op.Descriptor, error) {
	return []op.Descriptor{{Tool: "chrome_look", Profile: "core", Summary: "Look."}, {Tool: "chrome_tab_list", Profile: "tabs", Summary: "List."}}, nil
}

func (b *backend) Call(ctx context.Context, c pihost.Call) (pihost.Answer, error) {
	switch c.Tool {
	case "chrome_look":
		c.Progress(1, 2, "tiles")
		return pihost.Answer{Text: fmt.Sprintf("seen by %s, focus %v", c.Session.Key, c.Foreground), Value: json.RawMessage(`{"a":"<b>"}`)}, nil
	case "chrome_hang":
		select {
		case <-b.release:
			return pihost.Answer{Text: "late"}, nil
		case <-ctx.Done():
			return pihost.Answer{}, op.Reject(op.Canceled, "canceled")
		}
	}
	return pihost.Answer{}, op.Reject(op.StaleActionRef, "ref el-1 is stale; nothing was done").WithHint("take a snapshot").WithDetail("ref", "el-1")
}

func (b *backend) Command(_ context.Context, _ pihost.Session, _ string, args []string) (string, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands = append(b.commands, args)
	switch args[0] {
	case "authorize":
		b.auth = bridge.Authorization{Mode: bridge.AuthorizedIndefinite}
		if len(args) == 2 {
			b.auth = bridge.Authorization{Mode: bridge.AuthorizedUntil, Until: time.Now().Add(30 * time.Minute)}
		}
	case "doctor":
		return "something is wrong", 3
	}
	return "ran " + strings.Join(args, " "), 0
}

func (b *backend) Authorization(_ context.Context, _ pihost.Session, start bool) (bridge.Authorization, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped && !start {
		return bridge.Authorization{}, errors.New("no owner runs")
	}
	if b.stopped {
		b.started++
		b.stopped = false
	}
	return b.auth, nil
}

func (b *backend) Revoke(context.Context, pihost.Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked++
	b.auth = bridge.Authorization{Mode: bridge.Locked}
	return nil
}

// line is an answer as the package reads it.
type line struct {
	ID       int
	Result   map[string]any
	Error    map[string]any
	Progress map[string]any
	Event    string
	Mode     string
}

// pipe is the package's side of a host.
type pipe struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
	n    int
}

func serve(t *testing.T, b *backend) *pipe {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &pipe{t: t, in: inW, out: bufio.NewReader(outR), done: make(chan error, 1)}
	go func() {
		p.done <- pihost.Serve(t.Context(), pihost.Options{In: inR, Out: outW, Version: "1.2.3", Backend: b})
		outW.Close()
	}()
	opened := p.ask("open", map[string]any{"protocol": pihost.Protocol, "session": map[string]any{"key": "session:s1", "title": "Pi"}, "cwd": "/w"})
	assert.Assert(t, opened.Error == nil, "%v", opened.Error)
	return p
}

func (p *pipe) close() {
	p.in.Close()
	_, err := io.Copy(io.Discard, p.out)
	assert.NilError(p.t, err)
	assert.NilError(p.t, <-p.done)
}

func (p *pipe) send(method string, params any) int {
	p.n++
	raw, err := json.Marshal(map[string]any{"id": p.n, "method": method, "params": params})
	assert.NilError(p.t, err)
	_, err = p.in.Write(append(raw, '\n'))
	assert.NilError(p.t, err)
	return p.n
}

func (p *pipe) read() line {
	raw, err := p.out.ReadBytes('\n')
	assert.NilError(p.t, err)
	var l line
	assert.NilError(p.t, json.Unmarshal(raw, &l))
	return l
}

func (p *pipe) ask(method string, params any) line {
	id := p.send(method, params)
	l := p.read()
	assert.Equal(p.t, l.ID, id)
	return l
}

func TestOpenDescribesTheTools(t *testing.T) {
	p := serve(t, &backend{})
	defer p.close()
	l := p.ask("open", map[string]any{"protocol": pihost.Protocol, "session": map[string]any{"key": "session:s1"}})
	tools := l.Result["tools"].([]any)
	assert.Equal(t, len(tools), 2)
	assert.Equal(t, tools[1].(map[string]any)["label"], "Tab List")
	enable := l.Result["enable"].(map[string]any)
	assert.Equal(t, enable["description"], "Make a profile of further Chrome tools available at once. tabs: chrome_tab_list.")

	l = p.ask("open", map[string]any{"protocol": 99, "session": map[string]any{"key": "session:s1"}})
	assert.Equal(t, l.Error["code"], "version-mismatch")
	l = p.ask("open", map[string]any{"protocol": pihost.Protocol, "session": map[string]any{"key": "default"}})
	assert.Equal(t, l.Error["code"], "invalid-input")
}

func TestCall(t *testing.T) {
	p := serve(t, &backend{release: make(chan struct{})})
	defer p.close()
	id := p.send("call", map[string]any{"tool": "chrome_look", "input": map[string]any{}})
	l := p.read()
	assert.Equal(t, l.ID, id)
	assert.DeepEqual(t, l.Progress, map[string]any{"done": 1.0, "total": 2.0, "note": "tiles"})
	l = p.read()
	assert.Equal(t, l.Result["text"], "seen by session:s1, focus false")
	assert.DeepEqual(t, l.Result["value"], map[string]any{"a": "<b>"})

	l = p.ask("call", map[string]any{"tool": "chrome_other"})
	assert.Equal(t, l.Error["code"], "stale-action-ref")
	assert.Equal(t, l.Error["text"], "error: ref el-1 is stale; nothing was done\nhint: take a snapshot")
	assert.DeepEqual(t, l.Error["details"], map[string]any{"ref": "el-1"})

	id = p.send("call", map[string]any{"tool": "chrome_hang"})
	_, err := fmt.Fprintf(p.in, "{\"id\":%d,\"method\":\"cancel\"}\n", id)
	assert.NilError(t, err)
	l = p.read()
	assert.Equal(t, l.ID, id)
	assert.Equal(t, l.Error["code"], "canceled")

	l = p.ask("nothing", nil)
	assert.Equal(t, l.Error["code"], "invalid-input")
}

// A host whose Pi has gone ends with it, and cancels what runs.
func TestEndOfInputEndsCalls(t *testing.T) {
	p := serve(t, &backend{release: make(chan struct{})})
	p.send("call", map[string]any{"tool": "chrome_hang"})
	p.close()
}

func TestNotThePackage(t *testing.T) {
	err := pihost.Serve(t.Context(), pihost.Options{In: strings.NewReader("hello\n"), Out: io.Discard, Backend: &backend{}})
	assert.ErrorContains(t, err, "no request of the Pi package")
}

func TestRestore(t *testing.T) {
	soon, past := time.Now().Add(10*time.Minute), time.Now().Add(-time.Minute)
	later := soon.Add(time.Hour)
	indefinite := bridge.Authorization{Mode: bridge.AuthorizedIndefinite}
	locked := bridge.Authorization{Mode: bridge.Locked}
	until := func(at time.Time) bridge.Authorization {
		return bridge.Authorization{Mode: bridge.AuthorizedUntil, Until: at}
	}
	entry := func(mode string, at time.Time) map[string]any {
		e := map[string]any{"version": 1, "mode": mode, "background": true}
		if !at.IsZero() {
			e["until"] = at
		}
		return e
	}
	for name, c := range map[string]struct {
		branch    any
		elsewhere bool
		owner     bridge.Authorization
		stopped   bool

		mode    bridge.AuthorizationMode
		until   time.Time
		append  bool
		revoked int
		started int
	}{
		"a new session is locked and asks nobody":          {owner: indefinite, mode: bridge.Locked, append: true},
		"a branch without an entry locks the session":      {elsewhere: true, owner: indefinite, mode: bridge.Locked, append: true, revoked: 1},
		"a malformed entry locks the session":              {branch: map[string]any{"mode": "indefinite"}, elsewhere: true, owner: indefinite, mode: bridge.Locked, append: true, revoked: 1},
		"an entry of an unknown mode":                      {branch: entry("forever", time.Time{}), elsewhere: true, owner: indefinite, mode: bridge.Locked, append: true, revoked: 1},
		"until without a time":                             {branch: entry("until", time.Time{}), elsewhere: true, owner: indefinite, mode: bridge.Locked, append: true, revoked: 1},
		"a locked branch locks an authorized owner":        {branch: entry("locked", time.Time{}), elsewhere: true, owner: indefinite, mode: bridge.Locked, revoked: 1},
		"a locked branch starts no owner":                  {branch: entry("locked", time.Time{}), elsewhere: true, owner: indefinite, stopped: true, mode: bridge.Locked},
		"a locked owner wins":                              {branch: entry("indefinite", time.Time{}), elsewhere: true, owner: locked, mode: bridge.Locked, append: true},
		"both agree":                                       {branch: entry("indefinite", time.Time{}), elsewhere: true, owner: indefinite, mode: bridge.AuthorizedIndefinite},
		"an owner is started to ask for an authorized one": {branch: entry("indefinite", time.Time{}), elsewhere: true, owner: indefinite, stopped: true, mode: bridge.AuthorizedIndefinite, started: 1},
		"the branch ends sooner":                           {branch: entry("until", soon), elsewhere: true, owner: until(later), mode: bridge.AuthorizedUntil, until: soon},
		"the owner ends sooner":                            {branch: entry("until", later), elsewhere: true, owner: until(soon), mode: bridge.AuthorizedUntil, until: soon},
		"the branch has a deadline, the owner none":        {branch: entry("until", soon), elsewhere: true, owner: indefinite, mode: bridge.AuthorizedUntil, until: soon},
		"the owner has a deadline, the branch none":        {branch: entry("indefinite", time.Time{}), elsewhere: true, owner: until(soon), mode: bridge.AuthorizedUntil, until: soon},
		"the deadline of the branch has passed":            {branch: entry("until", past), elsewhere: true, owner: indefinite, mode: bridge.Locked, append: true, revoked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := &backend{auth: c.owner, stopped: c.stopped}
			p := serve(t, b)
			defer p.close()
			l := p.ask("restore", map[string]any{"branch": c.branch, "elsewhere": c.elsewhere})
			assert.Assert(t, l.Error == nil, "%v", l.Error)
			auth := l.Result["authorization"].(map[string]any)
			assert.Equal(t, auth["mode"], string(c.mode))
			if !c.until.IsZero() {
				at, err := time.Parse(time.RFC3339Nano, auth["until"].(string))
				assert.NilError(t, err)
				assert.Assert(t, at.Equal(c.until), "%s is not %s", at, c.until)
			}
			added, ok := l.Result["append"].(map[string]any)
			assert.Equal(t, ok, c.append)
			if ok {
				assert.Equal(t, added["mode"], "locked")
			}
			assert.Equal(t, b.revoked, c.revoked)
			assert.Equal(t, b.started, c.started)
		})
	}
}

func TestChrome(t *testing.T) {
	b := &backend{auth: bridge.Authorization{Mode: bridge.Locked}}
	p := serve(t, b)
	defer p.close()
	chrome := func(args string) map[string]any {
		l := p.ask("chrome", map[string]any{"args": args})
		assert.Assert(t, l.Error == nil, "%v", l.Error)
		return l.Result
	}
	assert.Equal(t, chrome("")["text"], "ran status")
	assert.Equal(t, chrome("profiles")["text"], "ran targets")
	assert.Equal(t, chrome("outcome 17")["text"], "ran outcome 17")
	assert.DeepEqual(t, chrome("doctor"), map[string]any{"text": "something is wrong", "level": "error"})

	r := chrome("authorize 30m")
	assert.Equal(t, r["append"].(map[string]any)["mode"], "until")
	assert.Equal(t, r["append"].(map[string]any)["background"], true)

	r = chrome("background off")
	assert.Equal(t, r["append"].(map[string]any)["mode"], "until", "the authorization stays")
	assert.Equal(t, r["append"].(map[string]any)["background"], false)
	p.send("call", map[string]any{"tool": "chrome_look"})
	p.read()
	assert.Equal(t, p.read().Result["text"], "seen by session:s1, focus true")

	r = chrome("revoke")
	assert.DeepEqual(t, r["append"], map[string]any{"version": 1.0, "mode": "locked", "background": false})
	assert.Equal(t, b.revoked, 1)

	ran := len(b.commands)
	r = chrome("forget Work")
	assert.Assert(t, strings.Contains(r["confirm"].(map[string]any)["message"].(string), "gone for good"))
	assert.Equal(t, len(b.commands), ran, "nothing runs before it is confirmed")
	l := p.ask("chrome", map[string]any{"args": "forget Work", "confirmed": true})
	assert.Equal(t, l.Result["text"], "ran forget --yes Work")

	for _, bad := range []string{"dance", "background", "background maybe", "authorize 1 2"} {
		assert.Equal(t, p.ask("chrome", map[string]any{"args": bad}).Error["code"], "invalid-input", bad)
	}
}

// A lock from outside reaches Pi by itself, once.
func TestLockedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		p := serve(t, b)
		assert.Assert(t, p.ask("chrome", map[string]any{"args": "authorize"}).Error == nil)
		b.mu.Lock()
		b.auth = bridge.Authorization{Mode: bridge.Locked}
		b.mu.Unlock()
		l := p.read()
		assert.Equal(t, l.Event, "authorization")
		assert.Equal(t, l.Mode, "locked")
		time.Sleep(time.Minute) // another event would block the host, which close waits for
		p.close()
	})
}
