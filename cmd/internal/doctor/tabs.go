package doctor

import (
	"fmt"
	"time"

	"pi-chrome/bridge"
)

const (
	// lately is how long a refused attach counts as a problem. The owner
	// forgets it when an attach works; one that nobody tried again is history.
	lately = 10 * time.Minute
	// maxTold bounds how many tabs of one kind are told.
	maxTold = 5
)

// attaches tells the tabs whose debugger Chrome did not attach. Each browser
// and cause is told once, with its tabs.
func attaches(f bridge.DoctorFacts, now time.Time) []Check {
	type kind struct {
		connector string
		cause     bridge.AttachCause
	}
	at := map[kind]int{}
	tabs := map[kind]int{}
	var checks []Check
	for _, r := range f.Attaches {
		k := kind{r.ConnectorID, r.Cause}
		tabs[k]++
		if _, told := at[k]; told {
			continue
		}
		level := Problem
		if now.Sub(r.At) > lately {
			level = Note
		}
		found, mend := explain(r)
		at[k] = len(checks)
		checks = append(checks, Check{fmt.Sprintf("tab %d of %q", r.TabID, r.Label), level, found + ", at " + clock(r.At), mend})
	}
	for k, i := range at {
		if n := tabs[k] - 1; n > 0 {
			checks[i].Found += fmt.Sprintf("; so did %d more of its tabs", n)
		}
	}
	return checks
}

// explain says what a refused attach means, and what mends it.
func explain(r bridge.AttachRefusal) (found, mend string) {
	switch r.Cause {
	case bridge.CauseOtherDebugger:
		return "another extension's debugger held it, and this browser lets only one in",
			"turn that extension off in chrome://extensions, or end its debugging, or use another tab; Chrome's own DevTools are no problem"
	case bridge.CauseOtherExtension:
		return "it showed a part of another extension, which Chrome lets nobody else debug",
			"close that extension's overlay in the tab, such as a password manager's, or turn the extension off for the site"
	case bridge.CausePolicy:
		return "a policy of this managed browser forbade to debug it",
			"look at chrome://policy, and ask the administrator to take the site out of runtime_blocked_hosts (ExtensionSettings) or to allow DeveloperToolsAvailability; other sites may work"
	case bridge.CauseRestricted:
		return "Chrome let nobody debug this ordinary web page: a policy of a managed browser, or a warning in the page's place",
			"look at the tab: a warning, as for a bad certificate, must go first. Otherwise look at chrome://policy for ExtensionSettings with runtime_blocked_hosts, and ask the administrator"
	case bridge.CauseFileAccess:
		return "it showed a file, and the extension may not see files",
			"switch on \"Allow access to file URLs\" for pi-chrome in chrome://extensions"
	}
	return "Chrome did not let us debug it: " + r.Message, ""
}

// lost tells the tabs that sessions have lost: what stands at their ids now is
// the user's, and is neither used nor closed.
func lost(f bridge.DoctorFacts) []Check {
	var checks []Check
	more := 0
	for _, s := range f.Sessions {
		for _, t := range s.Targets {
			c := Check{"session " + s.Key, Note, "", "its next command says so once and gets a new tab; pi-chrome cleanup --session " + s.Key + " clears the record now"}
			switch {
			case t.State == "stale" && t.TabID != nil:
				c.Found = fmt.Sprintf("lost its tab %d: %s", *t.TabID, staleBecause(t.Reason))
				if !t.LostAt.IsZero() {
					c.Found += ", seen at " + clock(t.LostAt)
				}
			case t.Reason == "duplicate-nonce":
				c.Level, c.Found = Problem, "several tabs carry the mark of one new tab, so none of them is used"
				c.Mend = "close the blank pi-chrome tabs, or clear the record with pi-chrome cleanup --session " + s.Key
			default:
				continue
			}
			if len(checks) == maxTold {
				more++
				continue
			}
			checks = append(checks, c)
		}
	}
	if more > 0 {
		checks = append(checks, Check{"sessions", Note, fmt.Sprintf("%d more lost tabs", more), "pi-chrome sessions lists them; pi-chrome cleanup-all ends all sessions"})
	}
	return checks
}

func staleBecause(reason string) string {
	switch reason {
	case "epoch-changed":
		return "the browser or the extension was started again"
	case "tab-missing":
		return "it is not there any more"
	case "tab-outside-regular-profile":
		return "it is not in a regular window any more"
	}
	return reason
}

func clock(at time.Time) string { return at.Local().Format("15:04:05") }
