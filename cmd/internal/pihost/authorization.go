package pihost

import (
	"context"
	"encoding/json"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// entry is what stands on a branch of Pi's session.
type entry struct {
	Version    int       `json:"version"` // 1
	Mode       string    `json:"mode"`    // locked, until, indefinite
	Until      time.Time `json:"until,omitzero"`
	Background bool      `json:"background"` // nothing takes the focus
}

const entryVersion = 1

func lockedEntry(background bool) *entry {
	return &entry{Version: entryVersion, Mode: string(bridge.Locked), Background: background}
}

// readEntry returns the entry, or nil when it cannot be one of ours.
func readEntry(raw json.RawMessage) *entry {
	var e entry
	if json.Unmarshal(raw, &e) != nil || e.Version != entryVersion {
		return nil
	}
	switch bridge.AuthorizationMode(e.Mode) {
	case bridge.Locked, bridge.AuthorizedIndefinite:
		return &e
	case bridge.AuthorizedUntil:
		if !e.Until.IsZero() {
			return &e
		}
	}
	return nil
}

// authorization is how the session stands, as the package is told.
type authorization struct {
	Mode  string    `json:"mode"`
	Until time.Time `json:"until,omitzero"`
}

type restored struct {
	Authorization authorization `json:"authorization"`
	Background    bool          `json:"background"`
	Append        *entry        `json:"append,omitempty"` // to be written to the branch
}

// restore decides what a session may do that starts, or whose branch has
// changed. The stricter of branch and owner holds, and both are made to say so.
func (h *host) restore(ctx context.Context, params json.RawMessage) (any, error) {
	var in struct {
		Branch    json.RawMessage `json:"branch"` // the newest entry, or null
		Elsewhere bool            `json:"elsewhere"`
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, op.Invalidf("restore cannot be read: %s", err)
	}
	e := readEntry(in.Branch)
	background := e == nil || e.Background
	h.mu.Lock()
	h.front, h.watching = !background, false
	session := h.session
	h.mu.Unlock()
	locked := restored{Authorization: authorization{Mode: string(bridge.Locked)}, Background: background}
	if e == nil || bridge.AuthorizationMode(e.Mode) == bridge.Locked {
		if e == nil {
			locked.Append = lockedEntry(background)
		}
		if in.Elsewhere {
			// The session may be authorized on another branch.
			return locked, h.lockOwner(ctx, session)
		}
		return locked, nil
	}
	auth, err := h.o.Backend.Authorization(ctx, session, true)
	if err != nil || auth.Mode == bridge.Locked {
		// An owner that cannot be asked is no reason to trust the branch; the
		// branch keeps its word, so that a later start may find both agreed.
		if err == nil {
			locked.Append = lockedEntry(background)
		}
		return locked, nil
	}
	out := restored{Authorization: authorization{Mode: string(auth.Mode), Until: auth.Until}, Background: background}
	if bridge.AuthorizationMode(e.Mode) == bridge.AuthorizedUntil {
		if !e.Until.After(time.Now()) {
			locked.Append = lockedEntry(background)
			return locked, h.lockOwner(ctx, session)
		}
		if auth.Mode != bridge.AuthorizedUntil || e.Until.Before(auth.Until) {
			out.Authorization = authorization{Mode: e.Mode, Until: e.Until}
		}
	}
	h.mu.Lock()
	h.watching = true
	h.mu.Unlock()
	return out, nil
}

// lockOwner locks the session at the owner, if that says otherwise. Asking
// starts no owner.
func (h *host) lockOwner(ctx context.Context, s Session) error {
	auth, err := h.o.Backend.Authorization(ctx, s, false)
	if err != nil || auth.Mode == bridge.Locked {
		return nil // without an owner nothing can be done, and it starts with what it has stored
	}
	return h.o.Backend.Revoke(ctx, s)
}

// watch tells the package when the session was locked by another: the popup,
// a shell, or its deadline.
func (h *host) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		watching, session := h.watching, h.session
		h.mu.Unlock()
		if !watching {
			continue
		}
		actx, cancel := context.WithTimeout(ctx, watchTimeout)
		auth, err := h.o.Backend.Authorization(actx, session, false)
		cancel()
		if err != nil || auth.Mode != bridge.Locked {
			continue
		}
		h.mu.Lock()
		still := h.watching
		h.watching = false
		h.mu.Unlock()
		if still {
			h.write(answer{Event: "authorization", Mode: string(bridge.Locked)})
		}
	}
}
