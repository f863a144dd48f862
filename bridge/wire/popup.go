package wire

import (
	"slices"
	"time"
)

// PopupBytes bounds a frame of the popup after its handshake.
const PopupBytes = 4 << 10

// What a popup may ask.
const (
	PopupStatus = "status" // the projection, and nothing else
	PopupStop   = "stop"   // lock every session of the owner at once
	PopupTake   = "take"   // take a tab of a session over
	PopupGive   = "give"   // hand it back
)

// PopupAsk is what the popup asks on /popup after ready. Each has one
// [PopupAnswer] with its id.
type PopupAsk struct {
	Type  string `json:"type"` // "ask"
	ID    uint64 `json:"id"`   // the popup's own, from 1
	Do    string `json:"do"`
	TabID int    `json:"tabId,omitempty"` // of take and give
}

// PopupAnswer tells how things stand after what was asked, or why that was
// not done.
type PopupAnswer struct {
	Type   string      `json:"type"` // "answer"
	ID     uint64      `json:"id"`
	Status *Projection `json:"status,omitempty"`
	Error  *Failure    `json:"error,omitempty"`
}

// DecodePopupAsk reads a frame of the popup. The error is a
// [*MalformedError].
func DecodePopupAsk(b []byte) (*PopupAsk, error) {
	a, err := strict[PopupAsk](b, TypeAsk)
	if err != nil {
		return nil, err
	}
	tab := a.Do == PopupTake || a.Do == PopupGive
	switch {
	case a.ID == 0 || a.ID > maxSafe:
		return nil, malformed(TypeAsk, "id is no whole number from 1 to %d", uint64(maxSafe))
	case !slices.Contains([]string{PopupStatus, PopupStop, PopupTake, PopupGive}, a.Do):
		return nil, malformed(TypeAsk, "do is %q; allowed: status, stop, take, give", clip(a.Do))
	case tab != (a.TabID != 0) || a.TabID < 0:
		return nil, malformed(TypeAsk, "tabId goes with take and give")
	}
	return a, nil
}

// Kind and version of a [Projection].
const (
	ProjectionKind    = "pi-chrome/status-projection"
	ProjectionVersion = 3
)

// Projection is the status of the owner as one browser profile may see it: all
// that the popup knows. It holds no secret and no tab of another profile.
type Projection struct {
	Kind    string `json:"kind"`    // ProjectionKind
	Version int    `json:"version"` // ProjectionVersion
	// State is ready, waiting-for-extension (the extension's worker is not
	// connected), offline (the owner is ending, or there is none) or error.
	State     string              `json:"state"`
	Bridge    string              `json:"bridge"` // running, stopped, error
	Connector *ProjectedConnector `json:"connector,omitempty"`
	// ExtensionDirectory is the folder that pi-chrome installs the extension
	// in.
	ExtensionDirectory string `json:"extensionDirectory"`
	ErrorMessage       string `json:"errorMessage,omitempty"` // of the state error
	// StoppedAt is when the user stopped everything; zero once a session was
	// authorized again.
	StoppedAt time.Time `json:"stoppedAt,omitzero"`
	// DebuggerCanceled says that the user pressed Cancel on Chrome's banner.
	DebuggerCanceled bool               `json:"debuggerCanceled,omitempty"`
	Sessions         []ProjectedSession `json:"sessions"` // of this profile, the one used last first
	MoreSessions     int                `json:"moreSessions,omitempty"`
	// Elsewhere counts the sessions of other profiles that may act.
	Elsewhere int                `json:"elsewhere,omitempty"`
	Receipts  []ProjectedReceipt `json:"receipts"` // of this profile, the latest first
}

// ProjectedConnector is the profile of a [Projection].
type ProjectedConnector struct {
	ID         string    `json:"id"`
	Label      string    `json:"label"`
	Connected  bool      `json:"connected"`
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
}

// ProjectedSession is a session of the profile.
type ProjectedSession struct {
	Key           string         `json:"key"`
	Title         string         `json:"title,omitempty"`
	Authorization string         `json:"authorization"` // locked, until, indefinite
	ExpiresAt     time.Time      `json:"expiresAt,omitzero"`
	Queued        int            `json:"queued"`
	Executing     int            `json:"executing"`
	LastUsedAt    time.Time      `json:"lastUsedAt,omitzero"`
	Tabs          []ProjectedTab `json:"tabs"`
}

// ProjectedTab is a tab of a session.
type ProjectedTab struct {
	ID      int    `json:"id"` // -1 while it is made
	State   string `json:"state"`
	Holder  string `json:"holder"` // session or user
	Title   string `json:"title,omitempty"`
	URL     string `json:"url,omitempty"`
	Claimed bool   `json:"claimed,omitempty"` // it was the user's before
}

// ProjectedReceipt is one command that is over. It holds nothing that was
// typed and nothing that was read.
type ProjectedReceipt struct {
	At        time.Time `json:"at"`
	Session   string    `json:"session"`
	Operation string    `json:"operation"` // "page.click"
	Title     string    `json:"title"`     // "Click"
	TabID     int       `json:"tabId,omitempty"`
	Outcome   string    `json:"outcome"` // done, or the kind of its error
	Code      string    `json:"code,omitempty"`
	Message   string    `json:"message,omitempty"` // of its error
	ElapsedMs int64     `json:"elapsedMs"`
}
