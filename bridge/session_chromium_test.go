package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// evaluator is a handler whose page operations evaluate the input's field
// "expression" in the tab.
func evaluator(ctx context.Context, call *Call) (op.Result, error) {
	var in struct {
		Expression string `json:"expression"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return op.Result{}, err
	}
	var res struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
	}
	params := map[string]any{"expression": in.Expression, "returnByValue": true}
	if err := call.Tab.Call(ctx, "Runtime.evaluate", params, &res); err != nil {
		return op.Result{}, err
	}
	return op.NewResult(res.Result.Value)
}

// launchChromium starts a browser with the extension, told where the owner
// is, and waits until its profile is paired with it.
func launchChromium(t *testing.T, s *Server) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "extension")
	assert.NilError(t, os.CopyFS(folder, os.DirFS("../extension")))
	st, err := s.relay.Pairing().Start(PairingOptions{Folder: true})
	assert.NilError(t, err)
	config, err := json.Marshal(map[string]any{"port": s.Port(), "pairingToken": st.Token})
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(folder, "bridge.json"), config, 0o600))
	args := []string{"--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir(), "--load-extension=" + folder, "data:text/html,mine"}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.Command(browserPath(t), args...)
	cmd.Stderr = io.Discard
	cmd.WaitDelay = 10 * time.Second // of every process that holds the pipe
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done, err := s.relay.Pairing().Wait(ctx)
	assert.NilError(t, err)
	assert.Equal(t, done.State, PairingDone)
	// The extension knows it too once it has come back: an owner that ends
	// before that leaves it unpaired.
	for {
		changed := s.profiles.changed()
		if s.profiles.anyLive() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the paired browser did not connect")
		}
	}
}

// TestOwnedTabsInChromium gives a session a tab in a real browser, kills the
// owner, and goes on in the same tab with the next one.
func TestOwnedTabsInChromium(t *testing.T) {
	dir := t.TempDir()
	h := &fakeHandler{run: evaluator}
	o := Options{StateDir: dir, ExtensionID: extension.ID, Handler: h}
	s, err := Listen(o)
	assert.NilError(t, err)
	o.Port = s.Port()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	launchChromium(t, s)
	n := 0
	run := func(conn frames, operation, input string) *wire.Result {
		t.Helper()
		n++
		c := cmd(fmt.Sprint(n), operation, input)
		assert.NilError(t, writeFrame(conn, c))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			raw, err := conn.Read(ctx)
			assert.NilError(t, err)
			v, err := wire.DecodeForClient(raw)
			assert.NilError(t, err)
			if r, ok := v.(*wire.Result); ok && r.ID == c.ID {
				return r
			}
		}
	}
	open := func(s *Server) frames {
		t.Helper()
		conn := connect(t, fmt.Sprintf("127.0.0.1:%d", s.Port()))
		assert.NilError(t, introduce(conn, s.secret))
		return conn
	}
	list := func(conn frames) []op.Tab {
		t.Helper()
		r := run(conn, "tab.list", `{}`)
		wantOK(t, r)
		var tabs []op.Tab
		assert.NilError(t, json.Unmarshal(r.Value, &tabs))
		return tabs
	}
	conn := open(s)
	r := run(conn, "page.click", `{"expression":"window.mark = 42; [location.href, history.length, document.visibilityState].join()"}`)
	wantOK(t, r)
	assert.Equal(t, string(r.Value), `"about:blank,1,hidden"`) // nothing behind the Back button, nobody's focus taken
	tabs := list(conn)
	assert.Equal(t, len(tabs), 2)
	var own, mine op.Tab
	for _, tab := range tabs {
		if tab.Owned {
			own = tab
		} else {
			mine = tab
		}
	}
	assert.Assert(t, mine.Active && !own.Active)
	assert.Equal(t, mine.URL, "data:text/html,mine")
	assert.Assert(t, own.Group != nil)
	assert.Equal(t, own.Group.Title, "pi-chrome")

	// The owner dies and comes back. The extension connects by itself; the
	// tab, its page and the session's right to it are the same.
	assert.NilError(t, s.Close())
	assert.NilError(t, <-served)
	s, err = Listen(o)
	assert.NilError(t, err)
	go func() { served <- s.Serve(context.Background()) }()
	defer func() {
		assert.NilError(t, s.Close())
		assert.NilError(t, <-served)
	}()
	conn = open(s)
	r = run(conn, "page.click", `{"expression":"window.mark"}`)
	wantOK(t, r)
	assert.Equal(t, string(r.Value), `42`)

	// A new tab, a user's tab by its address, and the end of both own ones.
	wantOK(t, run(conn, "tab.new", `{}`))
	wantError(t, run(conn, "page.snapshot", `{"expression":"1"}`), op.Rejected, op.AmbiguousOwnedTarget)
	r = run(conn, "page.snapshot", `{"expression":"location.href","target":{"by":"url","value":"html,mine"}}`)
	wantOK(t, r)
	assert.Equal(t, string(r.Value), `"data:text/html,mine"`)
	done, oerr := s.cleanup(t.Context(), "default", false)
	assert.Assert(t, oerr == nil, "%v", oerr)
	assert.Equal(t, len(done.ClosedTabIDs), 2)
	tabs = list(conn)
	assert.Equal(t, len(tabs), 1)
	assert.Equal(t, tabs[0].ID, mine.ID)
}
