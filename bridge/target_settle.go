package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"pi-chrome/driver/op"
)

// How long a tab that Chrome may have been asked for can be on its way: Chrome
// lists it a moment after it took the call, and tells its address a moment
// after that.
const (
	settleGrace = 5 * time.Second
	blankGrace  = time.Minute // while Chrome lists a tab without an address
	settleLook  = 100 * time.Millisecond
)

// making is how far a tab is whose record says that it is being made.
type making struct {
	underWay bool      // Chrome's answer is neither there nor lost
	since    time.Time // the answer was lost, or this owner saw the record first
}

// made ends what reserve began. A record that is still open then may have a tab
// that nobody has seen.
func (s *Server) made(p profile, nonce string) {
	s.mu.Lock()
	r := s.records[nonce]
	open := r != nil && r.State == targetAllocating
	if open {
		s.making[nonce] = making{since: time.Now()}
	} else {
		delete(s.making, nonce)
	}
	s.mu.Unlock()
	if open {
		s.lookLater(p)
	}
}

// mayAppear reports whether a tab that is not listed may still come. tabs are
// those that are listed.
func (s *Server) mayAppear(nonce string, tabs []op.Tab) bool {
	grace := settleGrace
	if slices.ContainsFunc(tabs, func(t op.Tab) bool { return t.URL == "" }) {
		grace = blankGrace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.making[nonce]
	if !known {
		m.since = time.Now()
		s.making[nonce] = m
	}
	return m.underWay || time.Since(m.since) < grace
}

// settleTabs looks for the session's tabs that are being made until each is found,
// or cannot come any more, or ctx ends.
func (s *Server) settleTabs(ctx context.Context, p profile, key string) *op.Error {
	tick := time.NewTicker(settleLook)
	defer tick.Stop()
	for {
		if err := s.recover(ctx, p, func(r targetRecord) bool { return r.Session == key }); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.sessionRecords(key, p.ID()), func(r targetRecord) bool { return r.State == targetAllocating }) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // its caller sees that the record is open
		}
	}
}

// lookLater looks once more for the tabs of a profile that are being made,
// without a command that waits for it: a session may never come back.
func (s *Server) lookLater(p profile) {
	s.mu.Lock()
	planned := s.looking[p.ID()]
	s.looking[p.ID()] = true
	s.mu.Unlock()
	if planned {
		return
	}
	s.wg.Go(func() {
		wait := time.NewTimer(settleGrace)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		delete(s.looking, p.ID())
		s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, hookTime)
		defer cancel()
		if err := s.recover(ctx, p, func(r targetRecord) bool { return r.State == targetAllocating }); err != nil {
			// After the next connection all is compared again.
			s.log.Debug("looking for a new tab", "connector", p.ID(), "err", err)
		}
	})
}

// sweep closes tabs among those that are listed that were made when nobody
// waited for them any more: each shows the extension's own bootstrap page, which
// no page and no user can open, with the mark of a record that has gone.
func (s *Server) sweep(ctx context.Context, p profile, tabs []op.Tab) {
	for _, t := range tabs {
		nonce, ours := strings.CutPrefix(t.URL, s.bootstrapURL(""))
		if !ours || nonce == "" {
			continue
		}
		s.mu.Lock()
		r := s.records[nonce]
		waited := r != nil && r.State != targetStale
		s.mu.Unlock()
		if waited {
			continue
		}
		if err := p.RemoveTabs(ctx, t.ID); err != nil {
			s.log.Warn("closing a tab that came too late", "connector", p.ID(), "tab", t.ID, "err", err)
			continue
		}
		s.log.Info("closed a tab that came too late", "connector", p.ID(), "tab", t.ID)
	}
}

// tabCreated takes up a new tab whose answer was lost, or closes it where its
// record has gone.
func (s *Server) tabCreated(p profile, tab op.Tab) {
	nonce, ours := strings.CutPrefix(tab.URL, s.bootstrapURL(""))
	if !ours {
		return
	}
	s.mu.Lock()
	r := s.records[nonce]
	waits := r != nil && r.ConnectorID == p.ID() && r.State == targetAllocating && !s.making[nonce].underWay
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, hookTime)
	defer cancel()
	if !waits {
		s.sweep(ctx, p, []op.Tab{tab})
		return
	}
	if err := s.recover(ctx, p, func(r targetRecord) bool { return r.Nonce == nonce }); err != nil {
		s.log.Debug("taking a new tab up", "tab", tab.ID, "err", err)
	}
}
