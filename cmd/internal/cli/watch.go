package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/owner"
)

// watchLook is between two looks at what the owner has in hand.
const watchLook = 100 * time.Millisecond

func watchCommand() *command {
	return &command{
		name: "watch", group: groupOwner, summary: "Follow the commands of sessions live: as they begin and as they end.", stream: always,
		doc: "It shows from now on who runs what, in which session and tab, what came of it and how long it took, until an interrupt, or for as long as --timeout says; " +
			"both are a good end. --session shows one session only. It never starts an owner, and ends when that does. " +
			"A command that is over within a tenth of a second may be told by its end alone. With --json each event is an object on a line of its own; " +
			"typed text is in none, only its length. pi-chrome log shows what was before.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			given := a.globals.session != ""
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("watch", args); err != nil {
					return output{}, err
				}
				w := &watcher{a: a, begun: map[string]bool{}}
				if given || set.Changed("session") {
					w.only = a.globals.session
				}
				return w.watch(ctx)
			}
		},
	}
}

// watchEvent is one line of --json.
type watchEvent struct {
	Event     string         `json:"event"` // begin, end, and what else the log tells: authorize, request, …
	At        time.Time      `json:"at"`
	ID        string         `json:"id,omitempty"`
	Session   string         `json:"session,omitempty"`
	Operation string         `json:"operation,omitempty"`
	Client    []string       `json:"client,omitempty"`
	State     string         `json:"state,omitempty"` // of begin: queued or executing
	Connector string         `json:"connector,omitempty"`
	TabID     int            `json:"tabId,omitempty"`
	Origin    string         `json:"origin,omitempty"` // of end
	Input     map[string]any `json:"input,omitempty"`
	Outcome   string         `json:"outcome,omitempty"`
	ElapsedMs *int64         `json:"elapsedMs,omitempty"` // of end
	Note      string         `json:"note,omitempty"`
}

// watcher follows what the owner has in hand, and its log.
type watcher struct {
	a     *app
	only  string          // session; "" for all
	begun map[string]bool // commands that were told and run still
	last  int64           // entry of the log that was read
	stamp bridge.AuditStamp
}

func (w *watcher) watch(ctx context.Context) (output, error) {
	c, err := w.a.dialRunning(ctx)
	if err != nil {
		return output{}, w.a.notRunning(err)
	}
	defer c.Close()
	end := ctx
	if t := w.a.globals.timeout; t > 0 {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	// What the log holds by now was before.
	w.stamp = bridge.StampAudit(w.a.globals.stateDir)
	if err := w.a.readLog("", 0, func(e bridge.AuditEntry) error { w.last = e.Seq; return nil }); err != nil {
		return output{}, err
	}
	w.a.note("watching; an interrupt ends it")
	tick := time.NewTicker(watchLook)
	defer tick.Stop()
	for {
		if err := w.look(end, c); err != nil && end.Err() == nil {
			return output{}, err
		}
		select {
		case <-end.Done():
			return output{done: true}, nil
		case <-tick.C:
		}
	}
}

// look tells what has begun, and then what has ended: in that order a command
// never seems to end first.
func (w *watcher) look(ctx context.Context, c *client.Client) error {
	running, err := owner.Running(ctx, c)
	if err != nil {
		if ctx.Err() == nil && w.tellLog() == nil { // what it did last
			return w.a.notRunning(err)
		}
		return err
	}
	still := map[string]bool{}
	for _, r := range running {
		if w.only != "" && r.Session != w.only {
			continue
		}
		still[r.ID] = true
		if w.begun[r.ID] {
			continue
		}
		if err := w.tell(watchEvent{Event: "begin", At: r.At, ID: r.ID, Session: r.Session, Operation: r.Operation, Client: r.Client, State: r.State}); err != nil {
			return err
		}
	}
	w.begun = still
	return w.tellLog()
}

// tellLog tells what has come to the log.
func (w *watcher) tellLog() error {
	stamp := bridge.StampAudit(w.a.globals.stateDir)
	if stamp == w.stamp {
		return nil
	}
	w.stamp = stamp
	return w.a.readLog("", w.last, func(e bridge.AuditEntry) error {
		if e.Seq <= w.last {
			return nil
		}
		w.last = e.Seq
		if w.only != "" && e.Session != w.only {
			return nil
		}
		ev := watchEvent{Event: e.Event, At: e.At, ID: e.ID, Session: e.Session, Operation: e.Operation, Client: e.Client, Connector: e.Connector,
			TabID: e.TabID, Origin: e.Origin, Input: e.Input, Outcome: e.Outcome, Note: e.Note}
		if e.Event == "command" {
			ev.Event, ev.ElapsedMs = "end", &e.ElapsedMs
		}
		return w.tell(ev)
	})
}

func (w *watcher) tell(e watchEvent) error {
	if w.a.globals.json {
		return writeJSON(w.a.env.Stdout, e)
	}
	_, err := fmt.Fprintln(w.a.env.Stdout, e.line())
	return err
}

// line is one event for a terminal.
func (e watchEvent) line() string {
	parts := []string{e.At.Local().Format("15:04:05.000"), fmt.Sprintf("%-5s", e.Event)}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if e.Operation != "" {
		add(fmt.Sprintf("%-16s", e.Operation))
	}
	if e.Session != "" {
		add("session=" + e.Session)
	}
	if e.TabID != 0 {
		add("tab=" + strconv.Itoa(e.TabID))
	}
	add(e.Origin)
	if len(e.Client) > 0 {
		add("by " + strings.Join(e.Client, ", "))
	}
	if e.State == "queued" {
		add(e.State)
	}
	add(e.Outcome)
	if e.ElapsedMs != nil {
		add(strconv.FormatInt(*e.ElapsedMs, 10) + "ms")
	}
	add(e.Note)
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}
