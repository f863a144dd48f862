package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// LeaseRecord is what is durable of one debugger lease: that this profile's
// extension may have its debugger attached to a tab. An attachment outlives the
// worker and the owner, so the next owner must know of it. The record without
// a target is of the last Cancel on the debugger banner: when it was, and
// whether nobody has allowed the debugger since.
type LeaseRecord struct {
	ConnectorID  string    `json:"connectorId"`
	BrowserEpoch string    `json:"browserEpoch,omitempty"`
	TabID        int       `json:"tabId,omitempty"`
	TargetID     string    `json:"targetId,omitempty"`
	Failures     []string  `json:"failures,omitempty"` // of a lease in quarantine
	Canceled     bool      `json:"canceled,omitempty"`
	CanceledAt   time.Time `json:"canceledAt,omitzero"` // by the browser's clock
}

// LeaseStore keeps which tabs may be attached. Its methods are called from many
// goroutines.
type LeaseStore interface {
	// Leases returns all records, in no order.
	Leases(ctx context.Context) ([]LeaseRecord, error)
	// SaveLease adds or replaces the record of a connector and a target; it is
	// durable when it returns.
	SaveLease(ctx context.Context, r LeaseRecord) error
	// RemoveLease forgets one; one that is unknown is no error.
	RemoveLease(ctx context.Context, connectorID, targetID string) error
}

// keepLease stores what is known of the tab's lease now. A disk that fails
// keeps nobody from reading a page: the next owner then finds out by asking
// Chrome, at the first command of that tab.
func (t *Tab) keepLease() {
	store := t.conn.relay.opts.Leases
	if store == nil {
		return
	}
	t.storing.Lock()
	defer t.storing.Unlock()
	// Both locks are never held at once here: elsewhere a tab's is taken while
	// its connector's is held.
	t.conn.mu.Lock()
	closed, connectorID := t.conn.closed != nil, t.conn.binding.ConnectorID
	t.conn.mu.Unlock()
	if closed {
		return // the tabs stay as they are, and so do the records
	}
	t.mu.Lock()
	var now LeaseRecord
	if t.lease.MayBeAttached() {
		now = LeaseRecord{ConnectorID: connectorID, BrowserEpoch: t.key.BrowserEpoch, TabID: t.key.TabID, TargetID: t.key.TargetID,
			Failures: t.lease.Failures}
	}
	t.mu.Unlock()
	old := t.stored
	if now.TargetID == old.TargetID && slices.Equal(now.Failures, old.Failures) {
		return
	}
	ctx := t.conn.relay.ctx
	var err error
	if old.TargetID != "" && old.TargetID != now.TargetID {
		err = store.RemoveLease(ctx, old.ConnectorID, old.TargetID)
	}
	if err == nil && now.TargetID != "" {
		err = store.SaveLease(ctx, now)
	}
	if err != nil {
		t.conn.relay.log.Warn("storing a debugger lease", "tab", now.TabID, "error", err)
		return
	}
	t.stored = now
}

// keepCanceled stores when the user pressed Cancel, and whether that stands.
func (c *Connector) keepCanceled() {
	store := c.relay.opts.Leases
	if store == nil {
		return
	}
	c.mu.Lock()
	r := LeaseRecord{ConnectorID: c.binding.ConnectorID, Canceled: c.canceled, CanceledAt: c.canceledAt}
	c.mu.Unlock()
	if err := store.SaveLease(c.relay.ctx, r); err != nil {
		c.relay.log.Warn("storing that the user canceled the debugger", "canceled", r.Canceled, "error", err)
	}
}

// restoreLeases gives the connectors what an owner before has left.
func (r *Relay) restoreLeases() error {
	if r.opts.Leases == nil {
		return nil
	}
	all, err := r.opts.Leases.Leases(r.ctx)
	if err != nil {
		return err
	}
	for _, rec := range all {
		c, ok := r.Connector(rec.ConnectorID)
		if !ok {
			continue // it was unpaired
		}
		c.mu.Lock()
		if rec.TargetID == "" {
			c.canceled, c.canceledAt = rec.Canceled, rec.CanceledAt
		} else {
			c.restored = append(c.restored, rec)
		}
		c.mu.Unlock()
	}
	return nil
}

// addTabLocked makes a tab known.
func (c *Connector) addTabLocked(id int, target string) *Tab {
	t := newTab(c, op.TabKey{BrowserEpoch: c.browserEpoch, TabID: id, TargetID: target})
	if c.canceled {
		t.lease, _ = t.lease.Apply(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseCanceled}, time.Now())
	}
	c.tabs[id] = t
	c.relay.wg.Go(t.run)
	return t
}

// applyAttached takes in what Chrome says of attachments in a reset, when no
// attach is under way: what is attached to nobody is not attached to us, and a
// tab that an owner before left attached is known again.
func (c *Connector) applyAttached(raw json.RawMessage) {
	targets, err := decodeTargets(raw)
	if err != nil {
		return // applyTargets has said so
	}
	c.mu.Lock()
	restored := c.restored
	c.restored = nil
	var free []*Tab
	var over []LeaseRecord
	for _, d := range targets {
		t := c.tabs[d.TabID]
		i := slices.IndexFunc(restored, func(r LeaseRecord) bool {
			return r.BrowserEpoch == c.browserEpoch && r.TabID == d.TabID && r.TargetID == d.ID
		})
		if i >= 0 && t == nil && d.Attached && c.closed == nil {
			t = c.addTabLocked(d.TabID, d.ID)
			if !c.canceled {
				t.lease = cdpmodel.RestoredLease(c.relay.time.lease, restored[i].Failures, time.Now())
			}
			t.stored = restored[i]
			restored = slices.Delete(restored, i, i+1)
		}
		if t != nil && !d.Attached {
			free = append(free, t)
		}
	}
	over = restored
	c.mu.Unlock()
	for _, t := range free {
		t.step(cdpmodel.LeaseEvent{Kind: cdpmodel.LeaseReleased})
	}
	if len(over) > 0 {
		c.hooks.push(func() {
			for _, r := range over {
				if err := c.relay.opts.Leases.RemoveLease(c.relay.ctx, r.ConnectorID, r.TargetID); err != nil {
					c.relay.log.Warn("forgetting a debugger lease", "tab", r.TabID, "error", err)
				}
			}
		})
	}
}

// LeaseInfo is what status shows of a tab's debugger.
type LeaseInfo struct {
	TabID    int       `json:"tabId"`
	State    string    `json:"state"`            // held, left, lost, busy, revoked, quarantined, attaching
	Reason   string    `json:"reason,omitempty"` // of the last detach by Chrome
	UsedAt   time.Time `json:"usedAt,omitzero"`
	Pins     []string  `json:"pins,omitempty"`     // what keeps it from being given back
	Failures []string  `json:"failures,omitempty"` // what led into quarantine
}

func (t *Tab) leaseInfo() LeaseInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lease
	return LeaseInfo{TabID: t.key.TabID, State: string(l.State), Reason: l.Reason, UsedAt: l.UsedAt, Pins: l.Pins, Failures: l.Failures}
}
