package pihost

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// subcommand is what /chrome takes.
type subcommand struct {
	Name    string `json:"name"`
	Usage   string `json:"usage"`
	Summary string `json:"summary"`
	// line is the command line of pi-chrome that it is; the given words are
	// added. Nil when the host does it itself.
	line []string
	// confirm is what the user is asked first, "" for nothing.
	confirm string
}

var subcommands = []subcommand{
	{Name: "status", Usage: "status", Summary: "how program, browser and session stand", line: []string{"status"}},
	{Name: "onboard", Usage: "onboard [--token]", Summary: "install the extension and pair a browser profile", line: []string{"onboard"}},
	{Name: "authorize", Usage: "authorize [N|Nm|indefinite]", Summary: "let this session use the browser, for N minutes or until revoked"},
	{Name: "revoke", Usage: "revoke", Summary: "lock this session and take its tools away"},
	{Name: "doctor", Usage: "doctor", Summary: "look at everything that must be right, and how to mend it", line: []string{"doctor"}},
	{Name: "cleanup", Usage: "cleanup", Summary: "close the tabs that this session owns", line: []string{"cleanup"}},
	{Name: "background", Usage: "background on|off", Summary: "on: nothing takes the focus; off: tools may show a tab"},
	{Name: "sessions", Usage: "sessions", Summary: "all sessions with their tabs", line: []string{"sessions"}},
	{Name: "profiles", Usage: "profiles", Summary: "the paired browser profiles", line: []string{"targets"}},
	{Name: "outcome", Usage: "outcome ID", Summary: "what became of a command", line: []string{"outcome"}},
	{Name: "unpair", Usage: "unpair [PROFILE]", Summary: "give a paired browser up, after closing its sessions' tabs", line: []string{"unpair"},
		confirm: "Its sessions are locked, the tabs they own are closed, and it must be paired again before it can be used."},
	{Name: "forget", Usage: "forget [PROFILE]", Summary: "clear a pairing whose browser is gone for good", line: []string{"forget", "--yes"},
		confirm: "Only for a browser that is gone for good: tabs that its sessions own are left open and must be closed by hand."},
	{Name: "help", Usage: "help", Summary: "list these"},
}

// reply is the answer to /chrome.
type reply struct {
	Text    string   `json:"text"`
	Level   string   `json:"level"` // info, warning, error
	Confirm *confirm `json:"confirm,omitempty"`
	Append  *entry   `json:"append,omitempty"` // to be written to the branch
}

type confirm struct {
	Title   string `json:"title"`
	Message string `json:"message"`
}

func level(code int) string {
	if code == 0 {
		return "info"
	}
	return "error"
}

func (h *host) chrome(ctx context.Context, params json.RawMessage) (any, error) {
	var in struct {
		Args      string `json:"args"`
		Confirmed bool   `json:"confirmed"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, op.Invalidf("/chrome cannot be read: %s", err)
	}
	words := strings.Fields(in.Args)
	if len(words) == 0 {
		words = []string{"status"}
	}
	name, words := words[0], words[1:]
	switch name {
	case "help":
		return reply{Text: help(), Level: "info"}, nil
	case "authorize":
		return h.authorize(ctx, words)
	case "revoke":
		return h.revoke(ctx)
	case "background":
		return h.background(ctx, words)
	}
	for _, s := range subcommands {
		if s.Name != name {
			continue
		}
		if s.confirm != "" && !in.Confirmed {
			return reply{Confirm: &confirm{Title: "/chrome " + s.Usage, Message: s.confirm}}, nil
		}
		text, code := h.o.Backend.Command(ctx, h.sessionNow(), h.dirNow(), append(append([]string{}, s.line...), words...))
		return reply{Text: text, Level: level(code)}, nil
	}
	var names []string
	for _, s := range subcommands {
		names = append(names, s.Name)
	}
	return nil, op.Invalidf("/chrome %q is unknown; allowed: %s", name, strings.Join(names, ", "))
}

func help() string {
	var b strings.Builder
	for _, s := range subcommands {
		fmt.Fprintf(&b, "/chrome %-28s %s\n", s.Usage, s.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

// authorize lets the session use the browser. Its entry carries the owner's
// deadline, so that a later start holds to the same one.
func (h *host) authorize(ctx context.Context, words []string) (any, error) {
	if len(words) > 1 {
		return nil, op.Invalidf("/chrome authorize takes one of N, Nm and indefinite, but got %q too", words[1])
	}
	session := h.sessionNow()
	text, code := h.o.Backend.Command(ctx, session, h.dirNow(), append([]string{"authorize"}, words...))
	if code != 0 {
		return reply{Text: text, Level: level(code)}, nil
	}
	auth, err := h.o.Backend.Authorization(ctx, session, false)
	if err != nil {
		return nil, err
	}
	if auth.Mode == bridge.Locked {
		return reply{Text: "the session was locked again at the same moment", Level: "warning"}, nil
	}
	h.mu.Lock()
	h.watching = true
	background := !h.front
	h.mu.Unlock()
	text = "This session may use the browser"
	if auth.Mode == bridge.AuthorizedUntil {
		text += " until " + auth.Until.Local().Format("15:04")
	}
	return reply{Text: text + ".", Level: "info", Append: &entry{Version: entryVersion, Mode: string(auth.Mode), Until: auth.Until, Background: background}}, nil
}

// revoke locks the session. The entry is written even when the owner cannot be
// reached: without it the tools are gone all the same.
func (h *host) revoke(ctx context.Context) (any, error) {
	h.mu.Lock()
	h.watching = false
	background, session := !h.front, h.session
	h.mu.Unlock()
	r := reply{Text: "Chrome is locked for this session.", Level: "info", Append: lockedEntry(background)}
	if err := h.lockOwner(ctx, session); err != nil {
		r.Text, r.Level = "Chrome is locked in Pi, but the owner could not be told: "+op.AsError(err).Text(), "warning"
	}
	return r, nil
}

// background sets whether calls of the session may take the focus. The choice
// is kept with the authorization on the branch.
func (h *host) background(ctx context.Context, words []string) (any, error) {
	if len(words) != 1 || words[0] != "on" && words[0] != "off" {
		return nil, op.Invalidf("/chrome background takes on or off, but got %q", strings.Join(words, " "))
	}
	h.mu.Lock()
	h.front = words[0] == "off"
	front, session := h.front, h.session
	h.mu.Unlock()
	keep := lockedEntry(!front)
	if auth, err := h.o.Backend.Authorization(ctx, session, false); err == nil {
		keep.Mode, keep.Until = string(auth.Mode), auth.Until
	}
	r := reply{Append: keep, Text: "Background is on: nothing takes the focus.", Level: "info"}
	if front {
		r.Text = "Background is off: chrome_tab_activate may show a tab and take the focus."
	}
	return r, nil
}
