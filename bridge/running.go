package bridge

import (
	"slices"
	"strings"
	"time"
)

// RunningCommand is a command that has not told its outcome yet.
type RunningCommand struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	Operation string    `json:"operation"`
	Client    []string  `json:"client"` // names of the programs that wait for it
	State     string    `json:"state"`  // queued or executing
	At        time.Time `json:"at"`     // when it came
}

// running lists the commands that this owner has in hand, in the order in
// which they came. It asks no browser.
func (s *Server) running() []RunningCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]RunningCommand, 0, len(s.commands))
	for _, c := range s.commands {
		r := RunningCommand{ID: c.id, Session: c.session.Key, Operation: c.desc.Name, Client: []string{}, State: "executing", At: c.entered.UTC()}
		if c.state == stateQueued {
			r.State = "queued"
		}
		for w := range c.watchers {
			r.Client = append(r.Client, w.name)
		}
		slices.Sort(r.Client)
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b RunningCommand) int {
		if d := a.At.Compare(b.At); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}
