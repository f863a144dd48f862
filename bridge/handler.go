package bridge

import (
	"context"
	"encoding/json"
	"time"

	"pi-chrome/driver/op"
)

// Handler executes operations. cmd injects the driver as one, so that this
// package needs to know neither a page nor an operation by name. All methods
// are called from many goroutines at once.
type Handler interface {
	// Describe returns the descriptor of an operation by its wire name
	// ("page.click") or its tool name ("chrome_click"). The descriptor's Name
	// is the wire name.
	Describe(operation string) (op.Descriptor, bool)
	// EffectOf returns the class of one call.
	EffectOf(operation string, input json.RawMessage) op.Effect
	// Validate checks the input of one call; it returns an *op.Error of kind
	// invalid, also for an operation that Describe does not know.
	Validate(operation string, input json.RawMessage) error
	// Run executes one call. ctx ends when the caller cancels, when the
	// command's deadline passes or when the owner stops. An error is an
	// *op.Error whose kind tells whether there may have been an effect; any
	// other error counts as rejected for a read-only call and as
	// outcome-unknown for one that may mutate.
	Run(ctx context.Context, call *Call) (op.Result, error)
	// Forget drops what the handler keeps for a tab that is gone.
	Forget(key op.TabKey)
}

// Call is one admitted command as the handler sees it.
type Call struct {
	ID        string          // the command's id, chosen by the caller
	Operation string          // the wire name, such as "page.click"
	Input     json.RawMessage // validated; never empty
	Session   op.Session
	Tab       *Tab            // the resolved tab, attached for an op.PageTab operation; nil for op.NoTab
	Browser   *SessionBrowser // the session's view of its profile; for chrome_status its profile may be absent
	// Progress tells the caller how far a long call is. It never blocks.
	Progress func(done, total int, note string)
	Owner    OwnerInfo
	Trace    string // absolute path of the file that the handler adds the tab's frames to; "" for none
}

// OwnerInfo says who the owner of the port is. It holds no secret.
type OwnerInfo struct {
	Version     string    `json:"version"`
	Build       time.Time `json:"build,omitzero"`
	Operations  string    `json:"operations"`  // fingerprint of the operation list
	Fingerprint string    `json:"fingerprint"` // of the relay contract
	BridgeEpoch string    `json:"bridgeEpoch"`
	Port        int       `json:"port"`
	StateDir    string    `json:"stateDir"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"startedAt"`
}
