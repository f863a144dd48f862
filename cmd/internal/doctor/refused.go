package doctor

import (
	"fmt"
	"slices"

	"pi-chrome/bridge"
)

// writes tells what the owner cannot write: without either, it does nothing
// that may have an effect.
func writes(f bridge.DoctorFacts) []Check {
	var checks []Check
	if f.Audit != "" {
		checks = append(checks, Check{"audit log", Problem, "takes no entry, so nothing that may have an effect is done: " + f.Audit,
			"make " + f.Owner.StateDir + " and its audit*.log files yours, and see that their disk has space; the owner then goes on by itself. What only reads works meanwhile"})
	}
	if f.Journal != "" {
		checks = append(checks, Check{"state file", Problem, "takes no write, so nothing that may have an effect is done: " + f.Journal,
			"see that the disk of " + f.Owner.StateDir + " has space and can be written; the owner then goes on by itself. If state.db itself is named as damaged: pi-chrome stop, then restore a copy of it, or move it away to start afresh"})
	}
	return checks
}

// canceled tells the profiles whose debugger the user has taken away. A session
// that has not worked there yet is authorized for all that, and so is told
// nothing by its own check.
func canceled(f bridge.DoctorFacts, key string) []Check {
	var checks []Check
	for _, p := range f.Profiles {
		if !p.Canceled {
			continue
		}
		level := Problem
		if !p.Live && slices.ContainsFunc(f.Profiles, func(o bridge.ProfileStatus) bool { return o.Live }) {
			level = Note // as that it is not connected
		}
		checks = append(checks, Check{fmt.Sprintf("debugger of %q", p.Label), level,
			"the user pressed Cancel on Chrome's debugger banner there, so nothing is attached in that browser", allowing(f, p, key)})
	}
	return checks
}

// allowing is what lets the debugger of a profile attach again: authorizing a
// session that works there, or one that works nowhere yet while the profile is
// connected.
func allowing(f bridge.DoctorFacts, p bridge.ProfileStatus, key string) string {
	const command = "if that was not meant to last: pi-chrome authorize --session "
	home := func(s bridge.SessionStatus) string {
		if s.Web != nil {
			return s.Web.ConnectorID
		}
		return s.ConnectorID
	}
	at, there := "", ""
	for _, s := range f.Sessions {
		if s.Key == key {
			at = home(s)
		}
		if there == "" && home(s) == p.ID {
			there = s.Key
		}
	}
	switch {
	case at == p.ID || at == "" && p.Live:
		return command + key
	case there != "":
		return command + there
	case p.Live:
		return command + "NAME, with a name that is new"
	}
	return "open that browser; then, " + command + "NAME, with a name that is new"
}
