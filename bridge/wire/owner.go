package wire

import (
	"encoding/json"
	"time"
)

// OwnerHello is the first frame of a program on /owner. Challenge, Prove,
// Ready and Refused follow as on /connector.
type OwnerHello struct {
	Type        string `json:"type"` // "hello"
	Version     int    `json:"version"`
	Fingerprint string `json:"fingerprint"` // of the contract
	Operations  string `json:"operations"`  // fingerprint of the operation list, hex
	Client      string `json:"client"`      // such as "pi-chrome 0.1.0"
	ClientNonce string `json:"clientNonce"`

	Build time.Time `json:"build,omitzero"` // of the program: who is newer
}

// OwnerReady ends the handshake of /owner and says who the owner is.
type OwnerReady struct {
	Type         string    `json:"type"` // "ready"
	ConnectionID string    `json:"connectionId"`
	Generation   int       `json:"generation"` // counts the owner's connections
	Version      string    `json:"version,omitempty"`
	Build        time.Time `json:"build,omitzero"`
	Operations   string    `json:"operations,omitempty"` // fingerprint of the operation list
	BridgeEpoch  string    `json:"bridgeEpoch,omitempty"`
	PID          int       `json:"pid,omitempty"`
	StateDir     string    `json:"stateDir,omitempty"`
}

// Command asks for one operation.
type Command struct {
	Type       string          `json:"type"` // "command"
	ID         string          `json:"id"`   // UUID, the caller's; a command with a known id is never run twice
	Operation  string          `json:"operation"`
	Session    Session         `json:"session"`
	Browser    string          `json:"browser,omitempty"` // id or label of a connector; "" for the only live one
	Input      json.RawMessage `json:"input,omitempty"`
	DeadlineMs int             `json:"deadlineMs,omitempty"` // shortens the operation's own budget; 0 for that
	Trace      string          `json:"trace,omitempty"`      // absolute path of a file to which the tab's frames are added; "" for none
}

// Session names the agent's session a command belongs to.
type Session struct {
	Key        string `json:"key"`
	Title      string `json:"title,omitempty"`
	Foreground bool   `json:"foreground,omitempty"`
	Pace       string `json:"pace,omitempty"` // fast or human
}

// Cancel withdraws a queued command or cancels an executing one.
type Cancel struct {
	Type string `json:"type"` // "cancel"
	ID   string `json:"id"`
}

// Request asks for what is not an operation, such as "status". Its answer is
// a [Result] with the same id.
type Request struct {
	Type   string          `json:"type"` // "request"
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Progress tells how far a long command is.
type Progress struct {
	Type  string `json:"type"` // "progress"
	ID    string `json:"id"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Note  string `json:"note,omitempty"`
}

// Result ends a command or a request. Failure is set when OK is not.
type Result struct {
	Type      string          `json:"type"` // "result"
	ID        string          `json:"id"`
	OK        bool            `json:"ok"`
	Value     json.RawMessage `json:"value,omitempty"`
	Text      string          `json:"text,omitempty"`
	ElapsedMs int64           `json:"elapsedMs,omitempty"`
	Error     *Failure        `json:"error,omitempty"`
}

// Failure is an op.Error on the wire.
type Failure struct {
	Kind    string         `json:"kind"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Details map[string]any `json:"details,omitempty"`
}

func (f *Failure) Error() string { return f.Message }
