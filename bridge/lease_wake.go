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

// wakeUp loads a page that Chrome has discarded to save memory, without showing
// it: its debugger can be attached, but every command ends it, or waits for
// ever. The tab may get another id by that. A tab that cannot be read is left
// to the attach, which tells why.
func (t *Tab) wakeUp(ctx context.Context) error {
	from := t.Key().TabID
	ctx, cancel := context.WithTimeoutCause(ctx, wakeTime, endsWith(context.DeadlineExceeded,
		op.Reject(op.DeadlineExceeded, "the page of tab %d, which Chrome had discarded, did not load in %s", from, wakeTime)))
	defer cancel()
	failed := func(err error) error {
		return noEffect(ctx, err, "the discarded tab %d could not be loaded", from)
	}
	tick := time.NewTicker(wakeLook)
	defer tick.Stop()
	for asked := 0; ; {
		id := t.Key().TabID
		tab, err := ask[chromeTab](ctx, t.conn, "tabs.get", id)
		switch {
		case err != nil && id != t.Key().TabID: // it has just got the other id
		case err != nil && asked != 0:
			return failed(err)
		case err != nil, tab.Status == "complete", tab.Status != unloaded && asked == 0:
			return nil
		case tab.Status == unloaded && asked != id:
			asked = id
			if err := t.conn.ReloadTab(ctx, id, false); err != nil && id == t.Key().TabID {
				return failed(err)
			}
			t.conn.relay.log.Debug("woke a discarded tab", "tab", id)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	}
}
