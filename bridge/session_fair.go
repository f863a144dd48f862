package bridge

import (
	"slices"

	"pi-chrome/driver/op"
)

// A mailbox is fair between sessions. None takes more than its share of the
// places, so that one that sends without end keeps no other out: a command
// beyond it waits in its session's queue until a place is free for it. And in a
// lane, where several sessions use one tab of the user's, they take turns.

// Bounds of a share, however many sessions are at work in a mailbox. A session
// owns no more than five tabs, and each runs one command at a time.
const (
	leastShare = 2
	mostShare  = 16
)

// lane holds the commands of one tab that wait while another of them runs.
type lane struct {
	waiting []*command
	turn    int
	turns   map[string]int // by session: when it had its latest turn
}

func newLane(first *command) *lane {
	return &lane{turn: 1, turns: map[string]int{first.session.Key: 1}}
}

// nextLocked takes the next command: the oldest of the session whose latest
// turn is the longest ago. Those that were withdrawn are dropped.
func (l *lane) nextLocked() *command {
	l.waiting = slices.DeleteFunc(l.waiting, func(c *command) bool { return c.state != stateQueued })
	if len(l.waiting) == 0 {
		return nil
	}
	best := 0
	for i, c := range l.waiting {
		if l.turns[c.session.Key] < l.turns[l.waiting[best].session.Key] {
			best = i
		}
	}
	c := l.waiting[best]
	l.waiting = slices.Delete(l.waiting, best, best+1)
	l.turn++
	l.turns[c.session.Key] = l.turn
	return c
}

// placeWaiter is a command that waits for a place. ready is closed when it has
// it.
type placeWaiter struct {
	c     *command
	ready chan struct{}
}

// shareLocked is how many places a session may hold beside n others. It leaves
// room for one more session.
func (b *mailbox) shareLocked(n int) int {
	return min(max(leastShare, maxAdmitted/(n+2)), mostShare)
}

// othersLocked counts the sessions at work beside one.
func (b *mailbox) othersLocked(session string) int {
	n := len(b.held)
	if b.held[session] > 0 {
		n--
	}
	return n
}

// overLocked reports whether a command would have its session hold more than
// its share. The last place of a share is for what passes by, such as the
// answer to the dialog that all else waits for.
func (b *mailbox) overLocked(c *command) bool {
	key := c.session.Key
	share := b.shareLocked(b.othersLocked(key))
	if !c.desc.PassesBy {
		share--
	}
	return b.held[key] >= share
}

// greedyLocked reports whether some other session holds more than it might
// take now: it came when fewer were at work.
func (b *mailbox) greedyLocked(session string) bool {
	share := b.shareLocked(b.othersLocked(session))
	for other, held := range b.held {
		if other != session && held > share {
			return true
		}
	}
	return false
}

func (b *mailbox) enterLocked(c *command) {
	b.admitted++
	b.held[c.session.Key]++
	c.box = b
}

// leaveLocked gives a command's place back, and to those that wait.
func (b *mailbox) leaveLocked(c *command) {
	b.admitted--
	if b.held[c.session.Key]--; b.held[c.session.Key] == 0 {
		delete(b.held, c.session.Key)
	}
	b.grantLocked()
}

// grantLocked gives free places to commands that wait: first to the session
// that holds the fewest, and of several to the one that came first.
func (b *mailbox) grantLocked() {
	b.waiting = slices.DeleteFunc(b.waiting, func(w placeWaiter) bool { return w.c.state != stateQueued || w.c.ctx.Err() != nil })
	for b.admitted < maxAdmitted {
		best := -1
		for i, w := range b.waiting {
			if !b.overLocked(w.c) && (best < 0 || b.held[w.c.session.Key] < b.held[b.waiting[best].c.session.Key]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		w := b.waiting[best]
		b.waiting = slices.Delete(b.waiting, best, best+1)
		b.enterLocked(w.c)
		close(w.ready)
	}
}

// place admits a command to its connector's mailbox as soon as its session may
// have a place. Meanwhile what passes by overtakes it.
func (s *Server) place(c *command, connectorID string) *op.Error {
	ready, err := s.admit(c, connectorID)
	if ready == nil {
		return err
	}
	if !c.desc.PassesBy {
		s.letPass(c)
	}
	select {
	case <-ready:
	case <-c.finished: // it was withdrawn
	case <-c.ctx.Done():
		return causeOf(c.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enteringLocked(c, connectorID)
}

// enteringLocked says why a command may not enter any more.
func (s *Server) enteringLocked(c *command, connectorID string) *op.Error {
	if c.state != stateQueued {
		return stoppedError() // it was withdrawn; nobody is told twice
	}
	if s.leaving[connectorID] {
		return op.NotAvailable(op.ConnectorNotBound, "the browser %q is being unpaired; the command was not started", c.profile.Label()).
			WithHint("Name another browser with --browser, or pair one with pi-chrome onboard.")
	}
	return nil
}

// letPass lets the commands that pass by enter while one of their session waits
// for a place at the head of the queue.
func (s *Server) letPass(head *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessionLocked(head.session.Key)
	var rest []*command
	fixed := head.changesTabs()
	for _, c := range ses.queue {
		if c.desc.PassesBy && !fixed {
			s.overtake(c)
			continue
		}
		fixed = fixed || c.changesTabs()
		rest = append(rest, c)
	}
	ses.queue, ses.waits = rest, !fixed
}

// overtake lets a command enter past the queue of its session.
func (s *Server) overtake(c *command) {
	s.wg.Go(func() {
		if err := s.enter(c); err != nil {
			s.withdraw(c, err)
		}
	})
}

// changesTabs reports whether a command changes the session's set of tabs: what
// comes after it finds its tab when it is over.
func (c *command) changesTabs() bool {
	return c.effect != op.ReadOnly && c.desc.Tab != op.PageTab && !c.desc.PassesBy
}
