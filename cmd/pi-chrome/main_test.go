package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/direct"
	"pi-chrome/extension"
	"pi-chrome/fixtures"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pi-chrome": main})
}

// TestScripts runs the command line as a person would. All scripts share one
// sandbox; each has a session of its own, whose tabs are closed at its end.
//
//	SITE   the fixtures' server
//	OTHER  the same server under another site
//	MCP    testdata/mcp
//	NODE_MODULES, NODE24  clients of MCP, and a newer Node, of `make needs`
func TestScripts(t *testing.T) {
	site := fixtures.New()
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	exe, err := owner.Executable()
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{Executable: exe, Note: t.Logf})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, box.Close()) })

	mcpData, err := filepath.Abs("testdata/mcp")
	assert.NilError(t, err)
	build, err := filepath.Abs("../../.build")
	assert.NilError(t, err)

	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       golden.FlagUpdate(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			session := filepath.Base(env.WorkDir)
			for _, v := range box.Env() {
				name, value, _ := strings.Cut(v, "=")
				if name != "PATH" {
					env.Setenv(name, value)
				}
			}
			env.Setenv("PI_CHROME_SESSION", session)
			env.Values[browsersKey{}] = browsers{}
			env.Values[displayKey{}] = new(*direct.Display)
			env.Setenv("SITE", server.URL)
			env.Setenv("EXTENSION", extension.ID)
			env.Values[siteKey{}] = site
			env.Setenv("OTHER", strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
			env.Setenv("MCP", mcpData)
			env.Setenv("NODE_MODULES", filepath.Join(build, "mcp/node_modules"))
			env.Setenv("NODE24", filepath.Join(build, "pi-latest/node_modules/node/bin/node"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "home", "state"))
			for _, name := range []string{"PI_CHROME_BROWSER", "DISPLAY"} {
				env.Setenv(name, os.Getenv(name))
			}
			// An owner that the script started in the background ends with it,
			// also when the script fails.
			env.Defer(func() { assert.Check(t, stopOwner(filepath.Join(env.WorkDir, "state"))) })
			env.Defer(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				c, err := box.Dial(ctx)
				if err == nil {
					_, err = owner.Cleanup(ctx, c, session)
					_ = c.Close()
				}
				if err != nil {
					t.Errorf("closing the tabs of script %s: %v", session, err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"jsonfield": jsonField,
			"setfield":  setField,
			"ref":       setRef,
			"freeport":  freePort,
			"stranger":  stranger,
			"mode":      fileMode,
			"isgone":    isGone,

			"browser":    startBrowser,
			"display":    startDisplay,
			"endbrowser": endBrowser,
			"servesite":  serveSite,
			"popup":      popup,
			"usepopup":   usePopup,
			"waitmatch":  waitMatch,
		},
	})
}

// stopOwner ends the owner of a state folder, if there is one.
func stopOwner(stateDir string) error {
	o, err := bridge.ReadOwnerFile(stateDir)
	if err != nil {
		return nil // none is there
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Port: o.Port, StateDir: stateDir, Name: "test"})
	if err != nil {
		return nil // it has ended
	}
	return errors.Join(owner.Shutdown(ctx, c, "the script ends"), c.Close())
}

type siteKey struct{}

// serveSite serves the fixtures on a port of 127.0.0.1 until the script ends.
//
//	servesite PORT
func serveSite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: servesite PORT")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:"+args[0])
	ts.Check(err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: ts.Value(siteKey{}).(http.Handler)}}
	server.Start()
	ts.Defer(server.Close)
}

// jsonField compares a field of the one JSON object on stdout.
//
//	jsonfield error.code invalid-input
//	! jsonfield value.text
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: jsonfield PATH [VALUE]")
	}
	got, ok := field(ts, args[0])
	switch {
	case neg && len(args) == 1 && ok:
		ts.Fatalf("%s is %s, and should be absent", args[0], got)
	case neg && len(args) == 2 && got == args[1]:
		ts.Fatalf("%s is %s", args[0], got)
	case !neg && !ok:
		ts.Fatalf("there is no %s in %s", args[0], ts.ReadFile("stdout"))
	case !neg && len(args) == 2 && got != args[1]:
		ts.Fatalf("%s is %s, not %s", args[0], got, args[1])
	}
}

// setField puts a field of the one JSON object on stdout into a variable.
//
//	setfield NAME PATH
func setField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setfield NAME PATH")
	}
	got, ok := field(ts, args[1])
	if !ok {
		ts.Fatalf("there is no %s in %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], got)
}

func field(ts *testscript.TestScript, path string) (string, bool) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var v any
	if err := dec.Decode(&v); err != nil {
		ts.Fatalf("stdout is not JSON: %v", err)
	}
	if dec.More() {
		ts.Fatalf("stdout holds more than one JSON value")
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[name]
			if !ok {
				return "", false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return "", false
			}
			v = x[i]
		default:
			return "", false
		}
	}
	if s, ok := v.(string); ok {
		return s, true
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	ts.Check(enc.Encode(v))
	return strings.TrimSpace(b.String()), true
}

// setRef puts the ref of the line of stdout that matches into a variable.
//
//	ref BUTTON 'button "Save"'
func setRef(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ref NAME TEXT")
	}
	re := regexp.MustCompile(`@?((?:el|frontier)-[0-9]+)\b`)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if m := re.FindStringSubmatch(line); m != nil && strings.Contains(line, args[1]) {
			ts.Setenv(args[0], m[1])
			return
		}
	}
	ts.Fatalf("no line with a ref and %q in:\n%s", args[1], ts.ReadFile("stdout"))
}

// freePort sets PI_CHROME_PORT to a port that nobody has.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	port, err := owner.FreePort()
	ts.Check(err)
	ts.Setenv("PI_CHROME_PORT", strconv.Itoa(port))
}

// stranger has another program take a port, and sets PI_CHROME_PORT to it.
// With "silent" it takes connections and says nothing.
func stranger(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("PI_CHROME_PORT", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	ts.Defer(func() { _ = l.Close() })
	if len(args) > 0 && args[0] == "silent" {
		return // the kernel takes the connections
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "I am a printer.")
		}))
	}()
}

// fileMode checks the permissions of a file, as in: mode 0600 FILE
func fileMode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); (got == args[0]) == neg {
		ts.Fatalf("%s has the mode %s", args[1], got)
	}
}

// isGone waits until the process whose id stands in a file has ended.
func isGone(ts *testscript.TestScript, neg bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	deadline := time.Now().Add(10 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			ts.Fatalf("process %d still runs", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return p.Signal(syscall.Signal(0)) == nil
}
