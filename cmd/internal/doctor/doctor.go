// Package doctor looks at everything that must be right before a command can
// reach a page, and says how to mend what is not. It changes nothing and
// starts nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

// Level says how a check came out.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Note    Level = "note"    // nothing works worse for it now
	Problem Level = "problem" // commands fail until it is mended
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"`
}

// Options say what to look at. All fields but Session are required.
type Options struct {
	Port     int
	StateDir string
	Session  string
	// Dial connects to a running owner of any release; it starts none.
	Dial func(ctx context.Context) (*client.Client, error)
}

// Examine makes every check. One that needs an owner is left out when there
// is none.
func Examine(ctx context.Context, o Options) []Check {
	checks := []Check{browser(), extension(o), state(o), credential(o)}
	c, check := reach(ctx, o)
	checks = append(checks, check)
	if c == nil {
		return checks
	}
	defer c.Close()
	checks = append(checks, release(c))
	facts, err := owner.Facts(ctx, c)
	if err != nil {
		return append(checks, Check{"owner's state", Problem, err.Error(), mendOf(err)})
	}
	return append(checks, judge(facts, o.Session, time.Now())...)
}

// judge looks at what the owner knows.
func judge(f bridge.DoctorFacts, key string, now time.Time) []Check {
	checks := append(writes(f), profiles(f)...)
	checks = append(checks, canceled(f, key)...)
	checks = append(checks, attaches(f, now)...)
	checks = append(checks, strangers(f)...)
	checks = append(checks, session(f, key))
	return append(checks, lost(f)...)
}

// Healthy reports whether no check found a problem.
func Healthy(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.Level == Problem })
}

func browser() Check {
	path, err := direct.Find()
	if err != nil {
		return Check{"browser for sandbox and demo", Note, err.Error(), "install Chromium, or set PI_CHROME_BROWSER to the path of one; your own browser needs neither"}
	}
	return Check{"browser for sandbox and demo", OK, path, ""}
}

func extension(o Options) Check {
	const name = "extension folder"
	info, err := install.Default(o.StateDir).Info()
	switch {
	case err != nil:
		return Check{name, Problem, err.Error(), "pi-chrome extension install"}
	case !info.Installed:
		return Check{name, Note, info.Dir + " holds no extension", "pi-chrome onboard installs it and pairs a browser"}
	case !info.Equal:
		return Check{name, Problem, fmt.Sprintf("%s holds version %s, of which %d files differ from this program's", info.Dir, info.Version, len(info.Differs)),
			"pi-chrome extension install, then reload it in chrome://extensions if it does not do so by itself"}
	case info.Port != o.Port:
		return Check{name, Problem, fmt.Sprintf("%s is for port %d, not %d", info.Dir, info.Port, o.Port),
			fmt.Sprintf("pi-chrome extension install --port %d, or use --port %d", o.Port, info.Port)}
	case info.PairingToken:
		return Check{name, Note, info.Dir + " holds a pairing token: a pairing is going on or was cut short", "pi-chrome onboard replaces it"}
	}
	return Check{name, OK, fmt.Sprintf("%s, version %s, port %d", info.Dir, info.Version, info.Port), ""}
}

func state(o Options) Check {
	if _, err := os.Stat(o.StateDir); errors.Is(err, fs.ErrNotExist) {
		return Check{"state folder", Note, o.StateDir + " is not there yet", "any command that needs an owner makes it"}
	}
	// It is there, so this makes nothing.
	if _, err := bridge.PrepareStateDir(o.StateDir); err != nil {
		return Check{"state folder", Problem, err.Error(), mendOf(err)}
	}
	return Check{"state folder", OK, o.StateDir, ""}
}

func credential(o Options) Check {
	_, err := bridge.LoadCredential(o.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Check{"owner credential", Note, "none yet: no owner has run with this state folder", "any command that needs an owner starts one"}
	case err != nil:
		return Check{"owner credential", Problem, err.Error(), mendOf(err)}
	}
	return Check{"owner credential", OK, "readable, and private to you", ""}
}

// reach connects to the owner and tells a stranger from nobody.
func reach(ctx context.Context, o Options) (*client.Client, Check) {
	const name = "owner"
	c, err := o.Dial(ctx)
	if err == nil {
		i := c.Owner()
		return c, Check{name, OK, fmt.Sprintf("version %s on port %d, process %d", i.Version, o.Port, i.PID), ""}
	}
	if !listening(ctx, o.Port) {
		if e := bridge.StartFailure(o.StateDir, time.Time{}); e != nil {
			return nil, Check{name, Problem, "none runs, and the last one that was to start could not: " + e.Message, e.Hint}
		}
		return nil, Check{name, Note, fmt.Sprintf("none runs on port %d, so the browsers were not checked", o.Port), "any command starts one, such as pi-chrome call chrome_status; then ask the doctor again"}
	}
	return nil, Check{name, Problem, err.Error(), mendOf(err)}
}

func listening(ctx context.Context, port int) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close() // it was only to see whether somebody answers
	return true
}

func release(c *client.Client) Check {
	const name = "owner's release"
	mine, err := owner.Fingerprint()
	if err != nil {
		return Check{name, Problem, err.Error(), ""}
	}
	i := c.Owner()
	if i.Operations == mine {
		return Check{name, OK, "the same operations as this program", ""}
	}
	if i.Build.After(owner.Build()) {
		return Check{name, Problem, fmt.Sprintf("version %s is newer than this program (%s)", i.Version, owner.Version), "use the newer pi-chrome, or end the owner with pi-chrome stop"}
	}
	return Check{name, Note, fmt.Sprintf("version %s is older than this program (%s)", i.Version, owner.Version), "the next command replaces it"}
}

func profiles(f bridge.DoctorFacts) []Check {
	if len(f.Profiles) == 0 {
		found := "no browser is paired"
		if len(f.Refusals) > 0 {
			r := f.Refusals[0]
			found += fmt.Sprintf("; the last attempt, at %s, was refused: %s", clock(r.At), r.Message)
		}
		return []Check{{"paired browsers", Problem, found, "pi-chrome onboard"}}
	}
	var checks []Check
	for _, p := range f.Profiles {
		name := fmt.Sprintf("browser %q", p.Label)
		switch {
		case p.Live:
			checks = append(checks, Check{name, OK, fmt.Sprintf("connected: %s %s, extension %s", p.Browser.Family, p.Browser.Version, p.DisplayVersion), ""})
		case p.Refused != nil && !p.Compatible:
			checks = append(checks, Check{name, Problem, "its extension is of another release: " + p.Refused.Message, "pi-chrome extension install, then reload the extension in chrome://extensions"})
		case p.Refused != nil:
			checks = append(checks, Check{name, Problem, "its extension was refused: " + p.Refused.Message, refusalMend(p.Refused.Code)})
		default:
			level := Problem
			if slices.ContainsFunc(f.Profiles, func(o bridge.ProfileStatus) bool { return o.Live }) {
				level = Note
			}
			checks = append(checks, Check{name, level, "paired, but not connected", "open that browser and look whether the pi-chrome extension is on; its popup says why it is not connected. The port in the extension's folder must be this owner's"})
		}
	}
	return checks
}

// maxStrangers bounds how many refused attempts are told.
const maxStrangers = 3

// strangers tells who else was refused: pages, other extensions, and profiles
// that are not paired.
func strangers(f bridge.DoctorFacts) []Check {
	var checks []Check
	for _, r := range f.Refusals {
		known := slices.ContainsFunc(f.Profiles, func(p bridge.ProfileStatus) bool { return p.ID == r.ConnectorID && r.ConnectorID != "" })
		if known || len(f.Profiles) == 0 || len(checks) == maxStrangers {
			continue
		}
		who := "somebody"
		if r.Label != "" {
			who = fmt.Sprintf("the profile %q", r.Label)
		}
		checks = append(checks, Check{"refused", Note, fmt.Sprintf("%s on %s at %s: %s", who, r.Path, clock(r.At), r.Message), ""})
	}
	return checks
}

func refusalMend(code wire.RefusalCode) string {
	switch code {
	case wire.RefuseDuplicate:
		return "the profile is a copy of another one that is live: its popup offers a new identity, then pi-chrome onboard"
	case wire.RefuseUnknown, wire.RefuseProof:
		return "pair it again: pi-chrome onboard --another"
	}
	return "its popup says more; reload the extension in chrome://extensions"
}

func session(f bridge.DoctorFacts, key string) Check {
	name := "session " + key
	for _, s := range f.Sessions {
		if s.Key != key {
			continue
		}
		if s.Authorization == bridge.Locked {
			return Check{name, Problem, "locked: it may not use the browser", "pi-chrome authorize --session " + key}
		}
		tabs := fmt.Sprintf("%d tabs", len(s.Targets))
		if len(s.Targets) == 1 {
			tabs = "1 tab"
		}
		return Check{name, OK, fmt.Sprintf("authorized (%s), %s", s.Authorization, tabs), ""}
	}
	return Check{name, OK, "not used yet", ""}
}

func mendOf(err error) string {
	if e, ok := errors.AsType[*op.Error](err); ok {
		return e.Hint
	}
	return ""
}
