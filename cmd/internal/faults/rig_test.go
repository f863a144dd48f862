package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// rig is an owner in a process of its own, which is started again whenever it
// ends, and browsers that are paired with it, each over a proxy.
type rig struct {
	dir, stateDir string
	control       string
	port          int
	site          *site
	profiles      []*browserProfile
	programs      *proxy // between programs and the owner

	mu     sync.Mutex
	owner  *ownerProcess
	starts int
	ending bool
	wg     sync.WaitGroup
}

type ownerProcess struct {
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{}
}

// browserProfile is one profile and the browser that has it open.
type browserProfile struct {
	name   string // the mark in its User-Agent
	id     string // of its connector
	dir    string
	folder install.Folder
	proxy  *proxy

	mu      sync.Mutex
	browser *direct.Browser
}

// newRig starts everything and waits until a command would be taken.
func newRig(t testing.TB, browsers int) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-") // short: it holds a socket
	assert.NilError(t, err)
	r := &rig{dir: dir, stateDir: filepath.Join(dir, "state"), control: filepath.Join(dir, "c"), site: newSite(t)}
	t.Cleanup(func() { r.close(t) })
	r.port, err = owner.FreePort()
	assert.NilError(t, err)
	r.programs = newProxy(t, r.port)
	assert.NilError(t, r.startOwner())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := r.dial(t, r.port)
	defer c.Close()
	for i := range browsers {
		name := string(rune('A' + i))
		p := &browserProfile{name: name, dir: filepath.Join(dir, "profile-"+name),
			folder: install.Folder{Dir: filepath.Join(dir, "extension-"+name)}, proxy: newProxy(t, r.port)}
		r.profiles = append(r.profiles, p)
		_, err := p.folder.Write(p.proxy.port)
		assert.NilError(t, err)
		pairing, err := owner.StartPairing(ctx, c, bridge.PairingOptions{})
		assert.NilError(t, err)
		assert.NilError(t, p.folder.SetToken(p.proxy.port, pairing.Token))
		assert.NilError(t, p.start(ctx))
		st, err := owner.WaitPairing(ctx, c)
		assert.NilError(t, err)
		assert.Equal(t, st.State, bridge.PairingDone)
		assert.NilError(t, p.folder.ClearToken())
		facts, err := owner.Facts(ctx, c)
		assert.NilError(t, err)
		for _, known := range facts.Profiles {
			if !r.knows(known.ID) {
				p.id = known.ID
			}
		}
		assert.Assert(t, p.id != "")
	}
	r.live(t, c)
	return r
}

func (r *rig) knows(id string) bool {
	for _, p := range r.profiles {
		if p.id == id {
			return true
		}
	}
	return false
}

// live waits until every profile is connected.
func (r *rig) live(t testing.TB, c *client.Client) {
	t.Helper()
	until(t, 40*time.Second, "not every profile is live", func() bool {
		facts, err := owner.Facts(t.Context(), c)
		if err != nil {
			return false
		}
		n := 0
		for _, p := range facts.Profiles {
			if p.Live {
				n++
			}
		}
		return n == len(r.profiles)
	})
}

// until looks again and again, for what no event tells a test.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("%s after %s", what, limit)
		}
		<-tick.C
	}
}

// startOwner starts an owner and whoever starts the next when it has ended.
func (r *rig) startOwner() error {
	exe, err := owner.Executable()
	if err != nil {
		return err
	}
	if _, err := bridge.PrepareStateDir(r.stateDir); err != nil {
		return err
	}
	log, err := bridge.OpenLog(r.stateDir)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"pi-chrome"}, owner.ServeArgs(r.port, r.stateDir)...)
	cmd.Env = append(os.Environ(), controlEnv+"="+r.control)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, r.stateDir
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return in.Close()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &ownerProcess{cmd: cmd, in: in, done: make(chan struct{})}
	r.owner = p
	r.starts++
	r.wg.Go(func() {
		_ = cmd.Wait() // its log says why it ended
		close(p.done)
		if err := r.startOwner(); err != nil {
			fmt.Fprintln(os.Stderr, "starting the next owner:", err)
		}
	})
	return nil
}

// running is the owner that runs, or has just ended, and how many there were.
func (r *rig) running() (*ownerProcess, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owner, r.starts
}

// killOwner ends the owner at once; another is started.
func (r *rig) killOwner() {
	p, _ := r.running()
	kill(p.cmd.Process.Pid)
	<-p.done
}

// arm has the owner end itself at the point that the next command reaches.
func (r *rig) arm(at point) error {
	_, err := order("POST", r.control, "/arm?point="+string(at))
	return err
}

// figures asks the owner what it holds.
func (r *rig) figures(t testing.TB) figures {
	t.Helper()
	raw, err := order("GET", r.control, "/figures")
	assert.NilError(t, err)
	var f figures
	assert.NilError(t, json.Unmarshal(raw, &f))
	return f
}

// dial connects to the owner, or the next one, and waits for it.
func (r *rig) dial(t testing.TB, port int) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Options{
		Port: port, StateDir: r.stateDir, Name: "faults", Version: owner.Version, Build: owner.Build(), EffectOf: owner.EffectOf,
		Start: func(context.Context) error { return nil }, ReadyTimeout: 15 * time.Second,
	})
	assert.NilError(t, err)
	return c
}

func (r *rig) close(t testing.TB) {
	r.mu.Lock()
	r.ending = true
	p := r.owner
	r.mu.Unlock()
	for _, b := range r.profiles {
		assert.Check(t, b.stop())
	}
	if p != nil {
		_ = p.in.Close()
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			t.Error("the owner did not end")
			kill(p.cmd.Process.Pid)
		}
	}
	r.wg.Wait()
	log, err := os.ReadFile(bridge.LogPath(r.stateDir))
	assert.Check(t, err)
	for _, word := range []string{"DATA RACE", "panic", "fatal error"} {
		assert.Check(t, !strings.Contains(string(log), word), "the owner's log says %q", word)
	}
	if t.Failed() {
		t.Logf("the owner's log ends:\n%s", log[max(0, len(log)-1500):])
		if keep := os.Getenv("PI_CHROME_FAULTS_KEEP"); keep != "" {
			assert.Check(t, os.WriteFile(keep, log, 0o600))
		}
	}
	assert.Check(t, os.RemoveAll(r.dir))
}

// start opens the profile.
func (p *browserProfile) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := direct.Launch(ctx, &direct.Options{ExtensionDir: p.folder.Dir, UserDataDir: p.dir,
		Args: []string{"--user-agent=Mozilla/5.0 faults-" + p.name, "--hide-crash-restore-bubble"}})
	if err != nil {
		return err
	}
	p.browser = b
	return nil
}

func (p *browserProfile) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.browser == nil {
		return nil
	}
	return p.browser.Close()
}

// crash kills the browser with all its processes and opens the profile again.
func (p *browserProfile) crash(ctx context.Context) error {
	p.mu.Lock()
	killGroup(p.browser.PID())
	<-p.browser.Done()
	err := p.browser.Close()
	p.mu.Unlock()
	return errors.Join(err, p.start(ctx))
}

// stopWorker ends the extension's worker as Chrome does with an idle one. There
// may be none.
func (p *browserProfile) stopWorker(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.browser.StopWorker(ctx, "chrome-extension://"+extension.ID)
	if errors.Is(err, direct.ErrNoWorker) {
		return nil
	}
	return err
}

// pages lists the tabs of the browser by their target ids, as the browser
// itself sees them.
func (p *browserProfile) pages(ctx context.Context) (map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.browser.Targets(ctx)
	if err != nil {
		return nil, err
	}
	urls := map[string]string{}
	for _, t := range all {
		if t.Type == "page" {
			urls[string(t.TargetID)] = t.URL
		}
	}
	return urls, nil
}

// told is what a caller concludes from an error: done, or its kind and code.
func told(err error) (kind op.Kind, code op.Code) {
	if err == nil {
		return "done", ""
	}
	e := op.AsError(err)
	return e.Kind, e.Code
}
