package op

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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

// Ref is an element that a snapshot has shown with what it takes.
type Ref struct {
	Ref   string   `json:"ref"` // el-3
	Role  string   `json:"role"`
	Name  string   `json:"name,omitempty"`
	Verbs []string `json:"verbs"` // click, fill, press, upload
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

// TabDetails is what a caller says of a tab that it means; what is left out is
// not compared.
type TabDetails struct {
	URL      string `json:"url,omitzero" minLength:"1" jsonschema:"the whole address that it shows"`
	Title    string `json:"title,omitzero" minLength:"1" jsonschema:"its whole title"`
	WindowID *int   `json:"windowId,omitempty" min:"0" jsonschema:"the window that it is in"`
	GroupID  *int   `json:"groupId,omitempty" min:"-1" jsonschema:"the tab group that it is in; -1 for none"`
	Active   *bool  `json:"active,omitempty" jsonschema:"whether it is the shown tab of its window"`
	Pinned   *bool  `json:"pinned,omitempty" jsonschema:"whether it is pinned"`
}

// Difference is one detail that is not as a caller said.
type Difference struct {
	Field  string `json:"field"`
	Wanted any    `json:"wanted"`
	Found  any    `json:"found"`
}

// Differences are the given details that are not true of the tab.
func (d TabDetails) Differences(t Tab) []Difference {
	var all []Difference
	add := func(field string, wanted, found any) {
		if wanted != found {
			all = append(all, Difference{field, wanted, found})
		}
	}
	if d.URL != "" {
		add("url", d.URL, t.URL)
	}
	if d.Title != "" {
		add("title", d.Title, t.Title)
	}
	if d.WindowID != nil {
		add("windowId", *d.WindowID, t.WindowID)
	}
	if d.GroupID != nil {
		add("groupId", *d.GroupID, t.GroupID)
	}
	if d.Active != nil {
		add("active", *d.Active, t.Active)
	}
	if d.Pinned != nil {
		add("pinned", *d.Pinned, t.Pinned)
	}
	return all
}

// DifferenceText is the differences as a sentence's end: "url is …, not …".
func DifferenceText(all []Difference) string {
	parts := make([]string, len(all))
	for i, d := range all {
		parts[i] = fmt.Sprintf("%s is %#v, not %#v", d.Field, d.Found, d.Wanted)
	}
	return strings.Join(parts, "; its ")
}

// ReleasedTab is a tab that a session leaves to the user.
type ReleasedTab struct {
	Tab
	Kept bool `json:"kept,omitempty"` // the session goes on using it, and its end leaves it
}

// Profile is one paired browser profile.
type Profile struct {
	ID             string `json:"id"`
	Label          string `json:"label"`
	Connected      bool   `json:"connected"`
	Browser        string `json:"browser,omitempty"`
	BrowserVersion string `json:"browserVersion,omitempty"`
	OwnedTabs      int    `json:"ownedTabs"`         // of all sessions
	SessionTabs    int    `json:"sessionTabs"`       // of the asking session
	Current        bool   `json:"current,omitempty"` // the asking session works in it
}
