package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/doctor"
)

func doctorCommand() *command {
	return &command{
		name: "doctor", group: groupSetup, summary: "Look at everything that must be right, and say how to mend what is not.",
		doc: "It changes nothing and starts nothing. The exit code is 5 when it found a problem.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("doctor", args); err != nil {
					return output{}, err
				}
				ctx, cancel := a.bounded(ctx, 10*time.Second)
				defer cancel()
				checks := doctor.Examine(ctx, doctor.Options{Port: a.globals.portNumber, StateDir: a.globals.stateDir, Session: a.globals.session, Dial: a.dialRunning})
				out := output{value: map[string]any{"healthy": doctor.Healthy(checks), "checks": checks}, text: doctorText(checks)}
				if !doctor.Healthy(checks) {
					out.code = exitUnavailable
				}
				return out, nil
			}
		},
	}
}

func doctorText(checks []doctor.Check) string {
	var b strings.Builder
	problems, open := 0, false
	for _, c := range checks {
		open = open || c.Level == doctor.Note && c.Mend != ""
		mark := map[doctor.Level]string{doctor.OK: "ok", doctor.Note: "note", doctor.Problem: "PROBLEM"}[c.Level]
		fmt.Fprintf(&b, "%-8s %s: %s\n", mark, c.Name, c.Found)
		if c.Mend != "" {
			fmt.Fprintf(&b, "         mend: %s\n", c.Mend)
		}
		if c.Level == doctor.Problem {
			problems++
		}
	}
	switch {
	case problems == 0 && open:
		b.WriteString("no problem found; the notes say what is not set up or not running yet\n")
	case problems == 0:
		b.WriteString("no problem found\n")
	case problems == 1:
		b.WriteString("1 problem\n")
	default:
		fmt.Fprintf(&b, "%d problems\n", problems)
	}
	return b.String()
}
