package op

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// TabKey is the fence of one tab: a record of a tab is good only while all
// three match. TargetID survives cross-site navigation and changes with a
// discard; TabID may be reused by Chrome after a restart.
type TabKey struct {
	BrowserEpoch string `json:"browserEpoch"`
	TabID        int    `json:"tabId"`
	TargetID     string `json:"targetId"`
}

// Tab is a tab as every surface shows it (contract §1.4).
type Tab struct {
	ID          int    `json:"id"`
	WindowID    int    `json:"windowId"`
	Active      bool   `json:"active"`
	Highlighted bool   `json:"highlighted"`
	Title       string `json:"title"`
	URL         string `json:"url"`
	Status      string `json:"status,omitempty"` // unloaded, loading or complete
	Pinned      bool   `json:"pinned,omitempty"`
	Incognito   bool   `json:"incognito,omitempty"`
	GroupID     int    `json:"groupId"` // -1 when in no group
	Group       *Group `json:"group"`
	Owned       bool   `json:"owned,omitempty"` // by the asking session
}

// Group is a tab group.
type Group struct {
	ID        int    `json:"id"`
	Title     string `json:"title"`
	Color     string `json:"color"`
	Collapsed bool   `json:"collapsed"`
	WindowID  int    `json:"windowId"`
}

// Event is one item of a tab's ordered stream: a CDP event of the tab or of
// one of its child sessions, or the end of the debugger session.
type Event struct {
	SessionID string          // "" for the tab itself, else the child session
	Method    string          // "" when Detached is set
	Params    json.RawMessage // the event's payload
	Detached  string          // the reason, Chrome's own (target_closed, canceled_by_user, replaced_with_devtools) or the transport's (connection-lost, event-overflow, released, tab-closed)
}

// Target selects the tab of a call: by exactly one of id, url or title.
// The zero Target means the session's own tab.
type Target struct {
	By    string      `json:"by" enum:"id|url|title" brief:"" jsonschema:"how the tab is given: its id, or a part of its URL or title that only it has"`
	Value TargetValue `json:"value" brief:"" jsonschema:"the tab id, or the text to look for"`
}

// IsZero reports whether no target was given.
func (t Target) IsZero() bool { return t.By == "" && t.Value == "" }

func (t Target) String() string { return t.By + "=" + string(t.Value) }

// ID returns the tab id of a target by id.
func (t Target) ID() (int, error) {
	n, err := strconv.Atoi(string(t.Value))
	if err != nil || n < 0 {
		return 0, Invalidf("target.value %q is not a tab id: give the number that chrome_tab_list shows", string(t.Value))
	}
	return n, nil
}

// TargetValue is a tab id or a text; JSON numbers and strings are both taken.
type TargetValue string

// UnmarshalJSON takes a string or a whole number.
func (v *TargetValue) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*v = TargetValue(s)
		return nil
	}
	var n int
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("target.value must be a tab id or a text")
	}
	*v = TargetValue(strconv.Itoa(n))
	return nil
}

// MarshalJSON writes a whole number where the value is one.
func (v TargetValue) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(v)); err == nil && n >= 0 && strconv.Itoa(n) == string(v) {
		return json.Marshal(n)
	}
	return json.Marshal(string(v))
}

func targetValueSchema() *jsonschema.Schema {
	one := 1
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", MinLength: &one}, {Type: "integer", Minimum: new(float64)}}}
}

// TabInput is embedded in the input of every operation on a tab.
type TabInput struct {
	Target     Target `json:"target,omitzero" brief:"the tab, when not your only one" jsonschema:"the tab; without it the session's only tab, or a new one when it has none"`
	Background *bool  `json:"background,omitempty" brief:"" jsonschema:"true leaves the tab where it is, false shows it first, where the session may take the focus; default is the session's setting"`
}

// Session is who asks: an agent's session.
type Session struct {
	Key        string `json:"key"`             // such as "default" or "session:abc"
	Title      string `json:"title,omitempty"` // of its tab group, at most 80 characters
	Foreground bool   `json:"foreground,omitempty"`
	Pace       string `json:"pace,omitempty"` // fast (default) or human
}

// Image is a picture in a result.
type Image struct {
	Format string // png or jpeg
	Data   []byte
}
