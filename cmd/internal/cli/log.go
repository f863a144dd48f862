package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// logLook is between two looks at a log that is followed.
const logLook = 250 * time.Millisecond

func logCommand() *command {
	return &command{
		name: "log", group: groupOwner, args: "[verify|export]", summary: "Show what sessions did, when, where, and what came of it.",
		doc: "It reads the audit log of the state folder, with or without an owner. Typed text is not in it, only its length; addresses stand without their query. " +
			"--session shows one session only. `log export` writes every entry as a JSON line. " +
			"`log verify` checks the chain of hashes: the exit code is 3 when an entry was changed, removed, added, moved or cut off. " +
			"The log is bounded: files of 8 MB, of which the latest eight are kept.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			follow := set.Bool("follow", false, "go on showing new entries until an interrupt")
			lines := set.Int("lines", 50, "show the latest `n` entries")
			given := a.globals.session != ""
			return func(ctx context.Context, args []string) (output, error) {
				only := ""
				if given || set.Changed("session") {
					only = a.globals.session
				}
				switch {
				case len(args) == 0:
					return a.showLog(ctx, only, *lines, *follow)
				case len(args) == 1 && args[0] == "verify":
					return a.verifyLog()
				case len(args) == 1 && args[0] == "export":
					return a.exportLog(only)
				}
				return output{}, usageError("log", "pi-chrome log takes verify or export, but got %q", strings.Join(args, " "))
			}
		},
	}
}

func (a *app) readLog(only string, after int64, fn func(bridge.AuditEntry) error) error {
	var failed error
	err := bridge.ReadAuditAfter(a.globals.stateDir, after, func(e bridge.AuditEntry, line []byte) bool {
		if line == nil && (only == "" || e.Session == only || e.Lost != nil) { // what is lost may be of any session
			failed = fn(e)
		}
		return failed == nil
	})
	if err != nil {
		return op.NotAvailable(op.StateUnreadable, "the audit log in %s cannot be read: %s", a.globals.stateDir, err).WithHint("Check --state-dir.")
	}
	return failed
}

func (a *app) showLog(ctx context.Context, only string, lines int, follow bool) (output, error) {
	if lines < 0 || lines > 100_000 {
		return output{}, usageError("log", "--lines is %d; allowed: 0 to 100000", lines)
	}
	entries := []bridge.AuditEntry{}
	last, stamp := int64(0), bridge.StampAudit(a.globals.stateDir) // before it is read, so that nothing is passed over
	collect := func(e bridge.AuditEntry) error {
		if e.Seq > last {
			entries, last = append(entries, e), e.Seq
		}
		return nil
	}
	if err := a.readLog(only, 0, collect); err != nil {
		return output{}, err
	}
	entries = entries[max(0, len(entries)-lines):]
	if !follow {
		var b strings.Builder
		for _, e := range entries {
			b.WriteString(logLine(e) + "\n")
		}
		if len(entries) == 0 {
			b.WriteString("no entry")
		}
		return output{value: entries, text: b.String()}, nil
	}
	tick := time.NewTicker(logLook)
	defer tick.Stop()
	for {
		for _, e := range entries {
			if err := a.printEntry(e); err != nil {
				return output{}, err
			}
		}
		entries = entries[:0]
		select {
		case <-ctx.Done():
			return output{done: true}, nil
		case <-tick.C:
		}
		now := bridge.StampAudit(a.globals.stateDir)
		if now == stamp {
			continue
		}
		stamp = now
		if err := a.readLog(only, last, collect); err != nil {
			return output{}, err
		}
	}
}

func (a *app) printEntry(e bridge.AuditEntry) error {
	if a.globals.json {
		return writeJSON(a.env.Stdout, e)
	}
	_, err := fmt.Fprintln(a.env.Stdout, logLine(e))
	return err
}

func (a *app) exportLog(only string) (output, error) {
	return output{done: true}, a.readLog(only, 0, func(e bridge.AuditEntry) error { return writeJSON(a.env.Stdout, e) })
}

func (a *app) verifyLog() (output, error) {
	r, err := bridge.VerifyAudit(a.globals.stateDir)
	if err != nil {
		return output{}, op.NotAvailable(op.StateUnreadable, "the audit log in %s cannot be read: %s", a.globals.stateDir, err).WithHint("Check --state-dir.")
	}
	if r.Problem != "" {
		return output{value: r, text: "NOT WHOLE: " + r.Problem, code: exitRejected}, nil
	}
	text := fmt.Sprintf("whole: %s, from %d to %d\nthe last has the hash %s", strconv.Itoa(r.Entries)+" entries", r.First, r.Head.Seq, r.Head.Hash)
	return output{value: r, text: text}, nil
}

// logLine is one entry on one line.
func logLine(e bridge.AuditEntry) string {
	parts := []string{e.At.Local().Format("2006-01-02 15:04:05.000"), e.Event}
	switch e.Event {
	case "command":
		parts[1] = e.Operation
	case "request":
		parts[1] = "request " + e.Operation
	}
	if e.Session != "" {
		parts = append(parts, "session="+e.Session)
	}
	if e.TabID != 0 {
		parts = append(parts, "tab="+strconv.Itoa(e.TabID))
	}
	if e.Origin != "" {
		parts = append(parts, e.Origin)
	}
	if e.Outcome != "" {
		parts = append(parts, e.Outcome)
	}
	if e.Event == "command" || e.Event == "request" {
		parts = append(parts, strconv.FormatInt(e.ElapsedMs, 10)+"ms")
	}
	if len(e.Input) > 0 {
		if raw, err := json.Marshal(e.Input); err == nil {
			parts = append(parts, string(raw))
		}
	}
	if e.Note != "" {
		parts = append(parts, e.Note)
	}
	return strings.Join(parts, "  ")
}
