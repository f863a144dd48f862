package faults

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/extension"
)

// secretsKept looks for every secret of the rig in everything that the owner
// and the program wrote and said, in a run with pairings, refusals, attacks,
// commands and a trace.
//
// Invariant 9 of the design.
func secretsKept(t *testing.T, r *rig) {
	credential, err := bridge.LoadCredential(r.stateDir)
	assert.NilError(t, err)
	secrets := map[string]string{"the owner credential": credential}
	for _, p := range r.profiles {
		secrets["the secret of profile "+p.name] = p.secret(t)
	}
	c := r.dial(t, r.port)
	defer c.Close()
	pairing, err := owner.StartPairing(t.Context(), c, bridge.PairingOptions{})
	assert.NilError(t, err)
	secrets["the pairing token"] = pairing.Token
	const password = "correct-horse-battery"
	secrets["a password of a page"] = password

	exe, err := owner.Executable()
	assert.NilError(t, err)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	said := map[string]string{}
	for _, line := range []string{
		"navigate " + r.site.act("", "secrets", 0) + " --browser " + r.profiles[0].id,
		"evaluate document.getElementById('field').type='password' --browser " + r.profiles[0].id,
		"fill " + password + " --selector #field" + " --trace " + trace + " --browser " + r.profiles[0].id,
		"snapshot --browser " + r.profiles[0].id, "status", "status --json", "sessions --json", "doctor", "doctor --json", "tab-list --json --browser " + r.profiles[1].id,
		"click --selector #nothing --json --browser " + r.profiles[0].id, "version --json",
	} {
		args := strings.Fields(line)
		cmd := exec.Command(exe)
		cmd.Args = append([]string{"pi-chrome"}, args...)
		cmd.Env = append(os.Environ(), "PI_CHROME_STATE_DIR="+r.stateDir, "PI_CHROME_PORT="+strconv.Itoa(r.port))
		out, _ := cmd.CombinedOutput() // some of them fail, which is what is wanted
		said[line] = string(out)
	}
	assert.Assert(t, strings.Contains(said["status --json"], `"pi-chrome/status"`), said["status --json"])
	raw, err := os.ReadFile(trace)
	assert.NilError(t, err, "%v", said)
	assert.Assert(t, bytes.Contains(raw, []byte("Input.")), "the trace is empty")
	said["the trace"] = string(raw)
	for _, method := range []string{"owner", "status", "sessions", "doctor", "pairing.status"} {
		var answer json.RawMessage
		assert.NilError(t, c.Request(t.Context(), method, nil, &answer))
		said["the request "+method] = string(answer)
	}
	assert.NilError(t, owner.CancelPairing(t.Context(), c))

	// Of what is written, only the credential's own file and state.db hold
	// secrets; both are for the user alone.
	assert.NilError(t, filepath.WalkDir(r.stateDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		assert.NilError(t, err)
		if d.IsDir() {
			assert.Equal(t, info.Mode().Perm(), fs.FileMode(0o700), path)
			return nil
		}
		assert.Equal(t, info.Mode().Perm()&0o077, fs.FileMode(0), "%s is open to others", path)
		name := filepath.Base(path)
		if name != "owner-credential.json" && name != "state.db" {
			b, err := os.ReadFile(path)
			assert.NilError(t, err)
			said[path] = string(b)
		}
		return nil
	}))
	log := said[bridge.LogPath(r.stateDir)]
	assert.Assert(t, strings.Contains(log, "refused") && strings.Contains(log, "connected"), "the log tells nothing")
	for where, text := range said {
		for what, secret := range secrets {
			assert.Assert(t, secret != "")
			if what == "the pairing token" && strings.HasPrefix(where, "the request pairing") {
				continue // who may start a pairing may see it
			}
			if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
				t.Errorf("%s stands in %s", what, where)
			}
		}
	}
}

// secret is what the profile's extension has stored.
func (p *browserProfile) secret(t testing.TB) string {
	t.Helper()
	info, err := p.browser.Worker(t.Context(), "chrome-extension://"+extension.ID)
	assert.NilError(t, err)
	page, err := p.browser.AttachPage(t.Context(), info.TargetID)
	assert.NilError(t, err)
	yes := true
	res, err := cdp.Call(t.Context(), page, runtime.Evaluate, runtime.EvaluateParams{AwaitPromise: &yes, ReturnByValue: &yes,
		Expression: `chrome.storage.local.get("piChromeConnectorIdentity").then((all) => all.piChromeConnectorIdentity.secret)`})
	assert.NilError(t, err)
	var secret string
	assert.NilError(t, jsonv2.Unmarshal(res.Result.Value, &secret))
	return secret
}
