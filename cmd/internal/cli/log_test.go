package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
)

// idleHandler is of an owner that is sent no command.
type idleHandler struct{ bridge.Handler }

// logOwner runs an owner on the state folder of env and speaks to it.
func logOwner(t *testing.T, env Environment) *client.Client {
	t.Helper()
	return ownerWith(t, env, idleHandler{})
}

// ownerWith is logOwner with a handler that may be sent commands.
func ownerWith(t *testing.T, env Environment, h bridge.Handler) *client.Client {
	t.Helper()
	port, err := strconv.Atoi(env.Getenv("PI_CHROME_PORT"))
	assert.NilError(t, err)
	dir := env.Getenv("PI_CHROME_STATE_DIR")
	s, err := bridge.Listen(bridge.Options{Port: port, StateDir: dir, ExtensionID: strings.Repeat("a", 32), Handler: h, Version: "1.2.3"})
	assert.NilError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		assert.Check(t, s.Close())
		assert.Check(t, <-served)
	})
	c, err := client.Dial(t.Context(), client.Options{Port: port, StateDir: dir, Name: "test"})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, c.Close()) })
	return c
}

// lineWriter hands out whole lines as they are written.
type lineWriter struct {
	rest  []byte
	lines chan string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		w.lines <- string(line)
		w.rest = bytes.Clone(rest)
	}
}

// TestLogFollow: what is there is shown at once, what comes is shown as it
// comes and once, and an interrupt is a good end.
func TestLogFollow(t *testing.T) {
	for _, form := range []string{"text", "json"} {
		t.Run(form, func(t *testing.T) {
			env, _, errs := testEnv(t, nil)
			c := logOwner(t, env)
			assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "one"}, nil))
			w := &lineWriter{lines: make(chan string, 100)}
			env.Stdout = w
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			args := []string{"log", "--follow"}
			if form == "json" {
				args = append(args, "--json")
			}
			code := make(chan int, 1)
			go func() { code <- Run(ctx, env, args) }()
			next := func(want string) {
				t.Helper()
				select {
				case line := <-w.lines:
					assert.Assert(t, strings.Contains(line, want), line)
					assert.Equal(t, json.Valid([]byte(line)), form == "json", line)
				case <-time.After(20 * time.Second):
					t.Fatalf("%s was not shown", want)
				}
			}
			next("owner-started")
			next("one")
			assert.NilError(t, c.Request(t.Context(), "cleanup", bridge.CleanupParams{Session: "two"}, nil))
			next("two")
			assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: "three"}, nil))
			next("three")
			cancel()
			assert.Equal(t, <-code, exitDone, errs.String())
			assert.Equal(t, len(w.lines), 0)
		})
	}
}

// TestLogFollowOneSession: others are not shown, nor counted.
func TestLogFollowOneSession(t *testing.T) {
	env, _, _ := testEnv(t, nil)
	c := logOwner(t, env)
	w := &lineWriter{lines: make(chan string, 100)}
	env.Stdout = w
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, session := range []string{"one", "two", "one", "two"} {
		assert.NilError(t, c.Request(t.Context(), "cleanup", bridge.CleanupParams{Session: session}, nil))
	}
	code := make(chan int, 1)
	go func() { code <- Run(ctx, env, []string{"log", "--follow", "--session", "two", "--lines", "1"}) }()
	assert.Assert(t, strings.Contains(<-w.lines, "request cleanup  session=two"))
	for _, session := range []string{"one", "two"} {
		assert.NilError(t, c.Request(t.Context(), "revoke", bridge.SessionParams{Session: session}, nil))
	}
	line := <-w.lines
	assert.Assert(t, strings.Contains(line, "authorize  session=two  locked"), line)
	cancel()
	assert.Equal(t, <-code, exitDone)
}

// TestLogExport: every entry as it lies in the log, with its hashes, whole or
// of one session.
func TestLogExport(t *testing.T) {
	env, out, _ := testEnv(t, nil)
	c := logOwner(t, env)
	for _, session := range []string{"one", "two", "one"} {
		assert.NilError(t, c.Request(t.Context(), "cleanup", bridge.CleanupParams{Session: session}, nil))
	}
	var want []bridge.AuditEntry
	assert.NilError(t, bridge.ReadAudit(env.Getenv("PI_CHROME_STATE_DIR"), func(e bridge.AuditEntry, _ []byte) bool {
		want = append(want, e)
		return true
	}))
	assert.Equal(t, len(want), 4)
	read := func(args ...string) (got []bridge.AuditEntry) {
		t.Helper()
		out.Reset()
		assert.Equal(t, Run(t.Context(), env, args), exitDone)
		for line := range bytes.Lines(out.Bytes()) {
			var e bridge.AuditEntry
			assert.NilError(t, json.Unmarshal(line, &e))
			got = append(got, e)
		}
		return got
	}
	assert.DeepEqual(t, read("log", "export"), want)
	assert.DeepEqual(t, read("log", "export", "--session", "one"), []bridge.AuditEntry{want[1], want[3]})

	out.Reset()
	assert.Equal(t, Run(t.Context(), env, []string{"log", "verify"}), exitDone)
	assert.Assert(t, strings.HasPrefix(out.String(), "whole: 4 entries, from 1 to 4"), out.String())
}

// TestLogLine: where a command was stands with its tab, and only where it is known.
func TestLogLine(t *testing.T) {
	e := bridge.AuditEntry{Event: "command", Operation: "page.click", Session: "one", TabID: 7, Origin: "https://shop.test", Outcome: "ok", ElapsedMs: 3}
	assert.Assert(t, strings.HasSuffix(logLine(e), "page.click  session=one  tab=7  https://shop.test  ok  3ms"), logLine(e))
	e.Origin = ""
	assert.Assert(t, strings.HasSuffix(logLine(e), "tab=7  ok  3ms"), logLine(e))
	assert.Assert(t, strings.HasSuffix(watchEvent{Event: "end", TabID: 7, Origin: "https://shop.test"}.line(), "tab=7  https://shop.test"))
}

// TestLogOfOneSessionTellsACut: what is missing may have been of that session.
func TestLogOfOneSessionTellsACut(t *testing.T) {
	env, out, _ := testEnv(t, nil)
	dir := env.Getenv("PI_CHROME_STATE_DIR")
	assert.NilError(t, os.MkdirAll(dir, 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "audit.head"), []byte(`{"seq":9,"hash":"gone"}`), 0o600))
	logOwner(t, env)
	assert.Equal(t, Run(t.Context(), env, []string{"log", "--session", "one"}), exitDone)
	assert.Assert(t, strings.Contains(out.String(), "entries 1 to 9 are missing"), out.String())
	out.Reset()
	assert.Equal(t, Run(t.Context(), env, []string{"log", "verify"}), exitRejected)
	assert.Assert(t, strings.HasPrefix(out.String(), "NOT WHOLE: entries 1 to 9 are missing"), out.String())
}
