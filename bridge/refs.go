package bridge

import (
	"time"

	"pi-chrome/driver/op"
)

// RefLister is a [Handler] that remembers what it has shown of a tab.
type RefLister interface {
	// Refs returns at most max elements with refs, those shown latest first.
	// It asks no page and does not block.
	Refs(key op.TabKey, max int) []op.Ref
}

// RefsParams are of the request "refs". TabID 0 is the session's only tab.
type RefsParams struct {
	Session string `json:"session"`
	TabID   int    `json:"tabId,omitempty"`
}

const maxRefs = 200

// refs lists what snapshots of a tab of the session have shown, for a shell
// that completes a line. It asks the browser nothing and counts as no use of
// the session. Where no tab is meant, or the session is locked, there is none.
func (s *Server) refs(in RefsParams) []op.Ref {
	none := []op.Ref{}
	lister, ok := s.opts.Handler.(RefLister)
	if !ok {
		return none
	}
	key := in.Session
	if key == "" {
		key = "default"
	}
	records := s.sessionRecords(key, "")
	s.mu.Lock()
	mode := s.modeLocked(key, time.Now())
	var tabs []op.TabKey
	for _, r := range records {
		if r.State != targetOwned || in.TabID != 0 && in.TabID != r.TabID {
			continue
		}
		// A tab that the handler was never given has shown nothing.
		tabs = append(tabs, s.seen[tabRef{r.ConnectorID, r.TabID}])
	}
	s.mu.Unlock()
	if mode == Locked || len(tabs) != 1 {
		return none
	}
	if list := lister.Refs(tabs[0], maxRefs); list != nil {
		return list
	}
	return none
}
