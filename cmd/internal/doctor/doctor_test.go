package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/driver/op"
)

// noHandler is of an owner that runs no operation.
type noHandler struct{ bridge.Handler }

// at is when the facts of these tests happened.
var at = time.Date(2026, 11, 30, 14, 3, 5, 0, time.Local)

// factsOf reads facts as they come from the owner.
func factsOf(t *testing.T, text string) bridge.DoctorFacts {
	t.Helper()
	var f bridge.DoctorFacts
	dec := json.NewDecoder(strings.NewReader(strings.ReplaceAll(text, "AT", at.Format(time.RFC3339))))
	dec.DisallowUnknownFields()
	assert.NilError(t, dec.Decode(&f))
	return f
}

const (
	live    = `{"id":"c1","label":"Work","live":true,"displayVersion":"0.1.0","browser":{"family":"Chrome","version":"156"},"compatible":true}`
	other   = `{"id":"c2","label":"Home","live":true,"displayVersion":"0.1.0","browser":{"family":"Chrome","version":"156"},"compatible":true}`
	offline = `{"id":"c1","label":"Work","live":false,"compatible":true}`

	canceledLive = `{"id":"c1","label":"Work","live":true,"canceled":true,"compatible":true}`
)

// examineAt looks at a state folder and a port.
func examineAt(t *testing.T, dir string, port int) []Check {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Examine(ctx, Options{Port: port, StateDir: dir, Session: "default", Dial: func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, client.Options{Port: port, StateDir: dir, Name: "test"})
	}})
}

// freePort is one on which nobody listens.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// stranger listens on a port and speaks another protocol.
func stranger(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, ln.Close()) })
	go func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n"))
			_ = conn.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

// TestEveryBrokenStateIsNamed: each state has a check that names it, in words
// that a person understands, with its mend.
func TestEveryBrokenStateIsNamed(t *testing.T) {
	facts := func(text string) func(*testing.T) []Check {
		return func(t *testing.T) []Check { return judge(factsOf(t, text), "default", at.Add(time.Minute)) }
	}
	attach := func(cause bridge.AttachCause) func(*testing.T) []Check {
		return facts(`{"profiles":[` + live + `],"attaches":[{"at":"AT","connectorId":"c1","label":"Work","tabId":7,"cause":"` + string(cause) + `","message":"m"}]}`)
	}
	for name, c := range map[string]struct {
		checks func(*testing.T) []Check
		level  Level
		check  string // its name
		found  string
		mend   string
	}{
		"no extension": {func(t *testing.T) []Check { return examineAt(t, t.TempDir(), freePort(t)) },
			Note, "extension folder", "holds no extension", "pi-chrome onboard"},
		"old extension": {facts(`{"profiles":[{"id":"c1","label":"Work","compatible":false,"refused":{"at":"AT","path":"/connector","code":"fingerprint-mismatch","message":"Another contract.","connectorId":"c1"}}]}`),
			Problem, `browser "Work"`, "of another release: Another contract.", "pi-chrome extension install, then reload"},
		"unpaired": {facts(`{"refusals":[{"at":"AT","path":"/connector","code":"unknown-connector","message":"Not paired."}]}`),
			Problem, "paired browsers", "no browser is paired; the last attempt, at 14:03:05, was refused: Not paired.", "pi-chrome onboard"},
		"offline": {facts(`{"profiles":[` + offline + `]}`),
			Problem, `browser "Work"`, "paired, but not connected", "open that browser"},
		"another extension's debugger": {attach(bridge.CauseOtherDebugger),
			Problem, `tab 7 of "Work"`, "another extension's debugger held it, and this browser lets only one in, at 14:03:05", "turn that extension off"},
		"another extension's overlay": {attach(bridge.CauseOtherExtension),
			Problem, `tab 7 of "Work"`, "a part of another extension", "close that extension's overlay"},
		"managed-browser policy": {attach(bridge.CausePolicy),
			Problem, `tab 7 of "Work"`, "a policy of this managed browser", "runtime_blocked_hosts"},
		"policy in Chrome's general words": {attach(bridge.CauseRestricted),
			Problem, `tab 7 of "Work"`, "a policy of a managed browser, or a warning", "chrome://policy"},
		"files": {attach(bridge.CauseFileAccess),
			Problem, `tab 7 of "Work"`, "may not see files", "Allow access to file URLs"},
		"stale targets": {facts(`{"profiles":[` + live + `],"sessions":[{"key":"mcp:a","authorization":"locked","targets":[{"state":"stale","tabId":12,"reason":"epoch-changed","lostAt":"AT"}]}]}`),
			Note, "session mcp:a", "lost its tab 12: the browser or the extension was started again, seen at 14:03:05", "pi-chrome cleanup --session mcp:a"},
		"a doubled new tab": {facts(`{"profiles":[` + live + `],"sessions":[{"key":"default","authorization":"indefinite","targets":[{"state":"allocating","tabId":null,"reason":"duplicate-nonce"}]}]}`),
			Problem, "session default", "several tabs carry the mark", "close the blank pi-chrome tabs"},
		"port stranger": {func(t *testing.T) []Check {
			dir := t.TempDir()
			s, err := bridge.Listen(bridge.Options{StateDir: dir, ExtensionID: strings.Repeat("a", 32), Handler: noHandler{}}) // makes the credential
			assert.NilError(t, err)
			assert.NilError(t, s.Close())
			return examineAt(t, dir, stranger(t))
		}, Problem, "owner", "is taken by something that is not the owner", "end that program, or choose another port with --port"},
		"unreadable state": {func(t *testing.T) []Check {
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "state.db"), []byte(strings.Repeat("no database ", 2000)), 0o600))
			_, err := bridge.Listen(bridge.Options{StateDir: dir, ExtensionID: strings.Repeat("a", 32), Handler: noHandler{}})
			assert.Assert(t, errors.Is(err, &op.Error{Code: op.StateUnreadable}), "%v", err)
			return examineAt(t, dir, freePort(t))
		}, Problem, "owner", "the last one that was to start could not", "Move the file away to start afresh"},
		"a state folder that is a file": {func(t *testing.T) []Check {
			path := filepath.Join(t.TempDir(), "state")
			assert.NilError(t, os.WriteFile(path, nil, 0o600))
			return examineAt(t, path, freePort(t))
		}, Problem, "state folder", "not a directory", "choose another with --state-dir"},
		"a credential that others can read": {func(t *testing.T) []Check {
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "owner-credential.json"), []byte(`{}`), 0o644))
			return examineAt(t, dir, freePort(t))
		}, Problem, "owner credential", "owner-credential.json", "chmod 600"},
		"an audit log that takes nothing": {facts(`{"owner":{"stateDir":"/s"},"profiles":[` + live + `],"audit":"open /s/audit.log: is a directory"}`),
			Problem, "audit log", "nothing that may have an effect is done: open /s/audit.log: is a directory", "make /s and its audit*.log files yours"},
		"a state file that takes nothing": {facts(`{"owner":{"stateDir":"/s"},"profiles":[` + live + `],"journal":"no space left on device"}`),
			Problem, "state file", "nothing that may have an effect is done: no space left on device", "the disk of /s has space"},
		"a canceled debugger, for a session that has not worked yet": {facts(`{"profiles":[` + canceledLive + `]}`),
			Problem, `debugger of "Work"`, "pressed Cancel", "pi-chrome authorize --session default"},
		"a canceled debugger, with a session of that browser": {facts(`{"profiles":[` + canceledLive + `,` + other + `],"sessions":[{"key":"default","authorization":"indefinite","connectorId":"c2","targets":[]},{"key":"mcp:a","authorization":"locked","connectorId":"c1","targets":[]}]}`),
			Problem, `debugger of "Work"`, "pressed Cancel", "pi-chrome authorize --session mcp:a"},
		"a canceled debugger, without one": {facts(`{"profiles":[` + canceledLive + `,` + other + `],"sessions":[{"key":"default","authorization":"indefinite","connectorId":"c2","targets":[]}]}`),
			Problem, `debugger of "Work"`, "pressed Cancel", "pi-chrome authorize --session NAME, with a name that is new"},
		"a canceled debugger of a browser that is away": {facts(`{"profiles":[` + strings.Replace(canceledLive, `"live":true`, `"live":false`, 1) + `,` + other + `]}`),
			Note, `debugger of "Work"`, "pressed Cancel", "open that browser; then"},
		"locked session": {facts(`{"profiles":[` + live + `],"sessions":[{"key":"default","authorization":"locked","targets":[]}]}`),
			Problem, "session default", "locked: it may not use the browser", "pi-chrome authorize --session default"},
	} {
		t.Run(name, func(t *testing.T) {
			checks := c.checks(t)
			for _, got := range checks {
				if got.Name == c.check && strings.Contains(got.Found, c.found) {
					assert.Equal(t, got.Level, c.level)
					assert.Assert(t, got.Mend != "" && strings.Contains(got.Mend, c.mend), "%s", got.Mend)
					assert.Equal(t, Healthy(checks) && c.level == Problem, false)
					return
				}
			}
			t.Fatalf("not named among %+v", checks)
		})
	}
}

// TestWhatIsWellIsNoProblem: a live profile and an authorized session.
func TestWhatIsWellIsNoProblem(t *testing.T) {
	checks := judge(factsOf(t, `{"profiles":[`+live+`],"sessions":[{"key":"default","authorization":"indefinite","targets":[{"state":"owned","tabId":3}]}]}`), "default", at)
	assert.Assert(t, Healthy(checks))
	for _, c := range checks {
		assert.Equal(t, c.Level, OK, "%+v", c)
	}
}

// TestOldRefusalsAreHistory: what nobody tried again for long is told, and no
// problem; many tabs with one cause are one line.
func TestOldRefusalsAreHistory(t *testing.T) {
	one := `{"at":"AT","connectorId":"c1","label":"Work","tabId":7,"cause":"policy","message":"m"}`
	f := factsOf(t, `{"attaches":[`+strings.Join([]string{one, one, one}, ",")+`]}`)
	checks := attaches(f, at.Add(lately+time.Second))
	assert.Equal(t, len(checks), 1)
	assert.Equal(t, checks[0].Level, Note)
	assert.Assert(t, strings.HasSuffix(checks[0].Found, "so did 2 more of its tabs"), checks[0].Found)
	assert.Equal(t, attaches(f, at.Add(lately))[0].Level, Problem)
}

// TestLostTabsAreBounded: a browser that was started again loses many at once.
func TestLostTabsAreBounded(t *testing.T) {
	tab := `{"state":"stale","tabId":12,"reason":"tab-missing"}`
	f := factsOf(t, `{"sessions":[{"key":"a","targets":[`+strings.Repeat(tab+",", maxTold+2)+tab+`]}]}`)
	checks := lost(f)
	assert.Equal(t, len(checks), maxTold+1)
	assert.Equal(t, checks[maxTold].Found, "3 more lost tabs")
}
