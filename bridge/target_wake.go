package bridge

import (
	"context"
	"time"

	"pi-chrome/driver/op"
)

// wakeTime bounds how long a discarded tab may take to load; wakeLook is
// between two looks at it.
const (
	wakeTime = 15 * time.Second
	wakeLook = 25 * time.Millisecond
)

// unloaded is the status of a tab whose page Chrome has thrown away.
const unloaded = "unloaded"

// wake loads the page of a discarded tab, without showing it: a debugger on a
// tab without a page waits for ever. A tab that somebody has woken is left as it
// is.
func (s *Server) wake(ctx context.Context, p profile, t resolvedTab) *op.Error {
	s.mu.Lock()
	r := s.records[t.nonce]
	asleep := t.asleep || r != nil && r.Asleep
	s.mu.Unlock()
	if !asleep {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wakeTime, endsWith(context.DeadlineExceeded,
		op.Reject(op.DeadlineExceeded, "the page of tab %d, which Chrome had discarded, did not load in %s", t.id, wakeTime)))
	defer cancel()
	tab, err := p.TabInfo(ctx, t.id)
	if err == nil && tab.Status == unloaded {
		if err = p.ReloadTab(ctx, t.id, false); err == nil {
			tab, err = awake(ctx, p, t.id)
		}
	}
	if err != nil {
		return noEffect(ctx, err, "the discarded tab %d could not be loaded", t.id)
	}
	s.mu.Lock()
	if r = s.records[t.nonce]; r != nil {
		next := *r
		next.Asleep = false
		s.records[t.nonce] = &next // the next write of the record makes it durable
	}
	s.mu.Unlock()
	s.log.Debug("woke a discarded tab", "tab", t.id, "status", tab.Status)
	return nil
}

func awake(ctx context.Context, p profile, id int) (op.Tab, error) {
	tick := time.NewTicker(wakeLook)
	defer tick.Stop()
	for {
		tab, err := p.TabInfo(ctx, id)
		if err != nil || tab.Status == "complete" {
			return tab, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return tab, ctx.Err()
		}
	}
}
