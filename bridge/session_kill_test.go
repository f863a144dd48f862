package bridge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// killer stands between an owner and its browser. At one call it keeps the
// disk as it is, and from then on lets nothing pass: what a kill at that moment
// leaves.
type killer struct {
	call  string
	after bool // the call is made, its answer is lost

	mu    sync.Mutex
	file  string // state.db
	disk  []byte
	death chan struct{} // closed when the owner counts as killed
}

func (k *killer) pass(ctx context.Context, call string, fn func() error) error {
	k.mu.Lock()
	dead, now := k.disk != nil, k.disk == nil && call == k.call
	k.mu.Unlock()
	if !dead && !now {
		return fn()
	}
	if now {
		if k.after {
			if err := fn(); err != nil {
				return err
			}
		}
		b, err := os.ReadFile(k.file)
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.disk = b
		k.mu.Unlock()
		close(k.death)
	}
	<-ctx.Done()
	return fmt.Errorf("killed: %w", op.ErrReplyLost)
}

type killedProfiles struct {
	profiles
	k *killer
}

func (p killedProfiles) wait(ctx context.Context, id string) (profile, error) {
	in, err := p.profiles.wait(ctx, id)
	if err != nil {
		return nil, err
	}
	return killedProfile{in, p.k}, nil
}

type killedProfile struct {
	profile
	k *killer
}

func (p killedProfile) CreateTab(ctx context.Context, o CreateTab) (tab op.Tab, err error) {
	err = p.k.pass(ctx, "create", func() error { tab, err = p.profile.CreateTab(ctx, o); return err })
	return tab, err
}

func (p killedProfile) Tab(ctx context.Context, id int) (t *Tab, err error) {
	err = p.k.pass(ctx, "read", func() error { t, err = p.profile.Tab(ctx, id); return err })
	return t, err
}

type killedTabs struct {
	tabPort
	k *killer
}

func (t killedTabs) leave(ctx context.Context, tab *Tab) error {
	return t.k.pass(ctx, "leave", func() error { return t.tabPort.leave(ctx, tab) })
}

// TestAllocationSurvivesAKillInChromium kills the owner around each effect of
// making a tab, in a real browser; TestAllocationSurvivesACrashAtEachStep has
// the steps in between. The next owner finds the tab again
// or makes it anew: there is one, it is the session's, and nothing is behind
// its Back button.
func TestAllocationSurvivesAKillInChromium(t *testing.T) {
	dir := t.TempDir()
	h := &fakeHandler{run: evaluator}
	o := Options{StateDir: dir, ExtensionID: extension.ID, Handler: h}
	s, err := Listen(o)
	assert.NilError(t, err)
	o.Port = s.Port()
	served := make(chan error, 1)
	serve := func(s *Server) { go func() { served <- s.Serve(context.Background()) }() }
	serve(s)
	launchChromium(t, s)
	stop := func() {
		assert.NilError(t, s.Close())
		assert.NilError(t, <-served)
	}
	start := func(k *killer) frames {
		t.Helper()
		s, err = Listen(o)
		assert.NilError(t, err)
		if k != nil {
			s.profiles, s.tabs = killedProfiles{s.profiles, k}, killedTabs{s.tabs, k}
		}
		serve(s)
		conn := connect(t, fmt.Sprintf("127.0.0.1:%d", s.Port()))
		assert.NilError(t, introduce(conn, s.secret))
		return conn
	}
	n := 0
	send := func(conn frames, operation, input string) wire.Command {
		t.Helper()
		n++
		c := cmd(fmt.Sprint("kill-", n), operation, input)
		assert.NilError(t, writeFrame(conn, c))
		return c
	}
	for _, k := range []*killer{
		{call: "create"}, {call: "create", after: true}, {call: "read"}, {call: "leave", after: true},
	} {
		t.Run(fmt.Sprintf("%s after=%v", k.call, k.after), func(t *testing.T) {
			k.death, k.file = make(chan struct{}), filepath.Join(dir, databaseFile)
			stop()
			conn := start(k)
			early := make(chan *wire.Result, 1)
			c := send(conn, "page.click", `{"expression":"1"}`)
			go func(conn frames, id string) {
				if r, err := readResult(t.Context(), conn, id); err == nil {
					early <- r
				}
			}(conn, c.ID)
			select {
			case <-k.death:
			case r := <-early:
				t.Fatalf("the step was not reached: %+v", r.Error)
			}
			stop()
			assert.NilError(t, os.WriteFile(k.file, k.disk, 0o600))
			conn = start(nil)
			c = send(conn, "page.click", `{"expression":"[location.href, history.length, document.visibilityState].join()"}`)
			r := resultOf(t, conn, c.ID)
			wantOK(t, r)
			assert.Equal(t, string(r.Value), `"about:blank,1,hidden"`)
			recs := s.sessionRecords("default", "")
			assert.Equal(t, len(recs), 1)
			assert.Assert(t, recs[0].State == targetOwned && recs[0].Prepared)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			p, err := s.profiles.wait(ctx, recs[0].ConnectorID)
			assert.NilError(t, err)
			tabs, err := p.Tabs(ctx)
			assert.NilError(t, err)
			made := 0
			for _, tab := range tabs {
				if strings.HasPrefix(tab.URL, "chrome-extension:") || tab.URL == "about:blank" {
					made++
				}
			}
			assert.Equal(t, made, 1, "%v", tabs)
			_, oerr := s.cleanup(ctx, "default", false)
			assert.Assert(t, oerr == nil, "%v", oerr)
		})
	}
	stop()
}

// resultOf reads until the answer to a command.
func resultOf(t *testing.T, conn frames, id string) *wire.Result {
	t.Helper()
	r, err := readResult(t.Context(), conn, id)
	assert.NilError(t, err)
	return r
}

func readResult(ctx context.Context, conn frames, id string) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		raw, err := conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		v, err := wire.DecodeForClient(raw)
		if err != nil {
			return nil, err
		}
		if r, ok := v.(*wire.Result); ok && r.ID == id {
			return r, nil
		}
	}
}
