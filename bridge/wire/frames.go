package wire

import "encoding/json"

// Types of frames, the value of their field "type". Calls, replies and events
// have none: they are told apart by "call", "id" and "event".
const (
	TypeHello     = "hello"
	TypeChallenge = "challenge"
	TypeProve     = "prove"
	TypeReady     = "ready"
	TypeRefused   = "refused"
	TypeOffered   = "offered"
	TypePaired    = "paired"
	TypeGap       = "gap"
	TypePing      = "ping"
	TypePong      = "pong"
	TypeAck       = "ack"
	TypeCommand   = "command"
	TypeCancel    = "cancel"
	TypeRequest   = "request"
	TypeProgress  = "progress"
	TypeResult    = "result"
	TypeAsk       = "ask"
	TypeAnswer    = "answer"
)

// RefusalCode says why a handshake ended.
type RefusalCode string

// The codes of refusals.
const (
	RefuseVersion     RefusalCode = "version-mismatch"     // another wire version
	RefuseFingerprint RefusalCode = "fingerprint-mismatch" // another contract: the extension must be updated and reloaded
	RefuseUnknown     RefusalCode = "unknown-connector"    // not paired with this owner
	RefuseProof       RefusalCode = "bad-proof"            // the proof does not match the secret
	RefuseNonceOld    RefusalCode = "nonce-expired"        // older than the nonce lifetime
	RefuseNonceUsed   RefusalCode = "nonce-reused"         // or unknown: dropped because too many were waiting
	RefuseDuplicate   RefusalCode = "duplicate-connector"  // the same connector is live in another browser
	RefuseNoPairing   RefusalCode = "pairing-inactive"     // nobody asked for a pairing
	RefuseTokenOld    RefusalCode = "pairing-expired"
	RefuseTokenUsed   RefusalCode = "pairing-used"
	RefuseAmbiguous   RefusalCode = "pairing-ambiguous" // several profiles offered themselves
	RefuseMalformed   RefusalCode = "malformed"
	RefuseCrowded     RefusalCode = "too-many-connections"
	RefuseShutDown    RefusalCode = "shutting-down"
)

// RefusalCodes lists every code, sorted.
var RefusalCodes = []RefusalCode{
	RefuseProof, RefuseDuplicate, RefuseFingerprint, RefuseMalformed, RefuseNonceOld, RefuseNonceUsed,
	RefuseAmbiguous, RefuseTokenOld, RefuseNoPairing, RefuseTokenUsed, RefuseShutDown, RefuseCrowded,
	RefuseUnknown, RefuseVersion,
}

// Hello is the first frame of the extension on /connector and /pairing.
type Hello struct {
	Type           string       `json:"type"` // "hello"
	Version        int          `json:"version"`
	Fingerprint    string       `json:"fingerprint"`    // of the contract, hex
	ConnectorID    string       `json:"connectorId"`    // UUID, random for each profile
	ExtensionID    string       `json:"extensionId"`    // 32 letters a to p
	DisplayVersion string       `json:"displayVersion"` // of the manifest, at most 64 characters
	Label          string       `json:"label"`          // of the profile, at most 80 characters
	Browser        Browser      `json:"browser"`
	BrowserEpoch   string       `json:"browserEpoch"`         // random for each start of the browser
	CanceledAt     int64        `json:"canceledAt,omitempty"` // ms since 1970: the last Cancel on the debugger banner since that start; 0 for none
	WorkerID       string       `json:"workerId"`             // random for each start of the worker
	Resume         Resume       `json:"resume"`
	Capabilities   Capabilities `json:"capabilities"`
	ClientNonce    string       `json:"clientNonce"` // 32 bytes, hex
}

// Browser says which browser a connector runs in.
type Browser struct {
	Family  string `json:"family"`  // such as "chromium"
	Version string `json:"version"` // such as "156.0.8078.73"
}

// Resume says what the worker still has of the owner that it spoke to last.
type Resume struct {
	BridgeEpoch string `json:"bridgeEpoch"` // "" for none
	LastCall    uint64 `json:"lastCall"`    // highest call id received
	FirstSeq    uint64 `json:"firstSeq"`    // of the kept frames, 0 for none
	LastSeq     uint64 `json:"lastSeq"`     // highest seq given out, 0 for none
}

// Capabilities is what the extension is allowed to do in its profile.
type Capabilities struct {
	FlatSessions bool `json:"flatSessions"` // debugger.sendCommand takes a sessionId
	FileAccess   bool `json:"fileAccess"`   // "Allow access to file URLs"
	Incognito    bool `json:"incognito"`
}

// Challenge is the answer to a hello: the owner's proof and a nonce for the
// other side's.
type Challenge struct {
	Type              string `json:"type"` // "challenge"
	BridgeEpoch       string `json:"bridgeEpoch"`
	RequestNonce      string `json:"requestNonce"`
	ServerFingerprint string `json:"serverFingerprint"`
	Proof             string `json:"proof"`
}

// Prove is the client's proof.
type Prove struct {
	Type  string `json:"type"` // "prove"
	Proof string `json:"proof"`
}

// Ready ends the handshake of /connector.
type Ready struct {
	Type         string `json:"type"` // "ready"
	ConnectionID string `json:"connectionId"`
	Generation   int    `json:"generation"` // rises with each socket of the connector
	Ack          uint64 `json:"ack"`        // highest seq processed from this worker, 0 for a new one
}

// Refused ends a handshake that failed. The socket is closed after it.
type Refused struct {
	Type    string      `json:"type"` // "refused"
	Code    RefusalCode `json:"code"`
	Message string      `json:"message"` // what is wrong and what to do, for the popup
}

// Offered tells the worker that its pairing offer is being considered.
type Offered struct {
	Type string `json:"type"` // "offered"
}

// Paired tells the worker that the owner has stored the binding.
type Paired struct {
	Type        string `json:"type"` // "paired"
	ConnectorID string `json:"connectorId"`
	Label       string `json:"label"`
}

// CallFrame is one call of the allow-list, owner to extension.
type CallFrame struct {
	ID   uint64            `json:"id"` // rises by one for the life of the owner
	Call string            `json:"call"`
	Args []json.RawMessage `json:"args"`
}

// ReplyFrame is the answer to one call: Result or Error is set.
type ReplyFrame struct {
	Seq    uint64          `json:"seq"`
	ID     uint64          `json:"id"`
	Result json.RawMessage `json:"result,omitempty"` // null for a call without a result
	Error  *CallError      `json:"error,omitempty"`
}

// CallError is what the browser, or the worker itself, said about a call.
type CallError struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"` // "not-allowed" for the worker's own refusal
}

// NotAllowed is the code of a call that the worker refused to make.
const NotAllowed = "not-allowed"

// EventFrame is one event of the browser, its arguments as Chrome gave them.
type EventFrame struct {
	Seq   uint64            `json:"seq"`
	Event string            `json:"event"`
	Args  []json.RawMessage `json:"args"`
}

// Gap says that the worker had to drop the frames From to To.
type Gap struct {
	Type string `json:"type"` // "gap"
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Ping keeps the worker alive; it carries an acknowledgement too.
type Ping struct {
	Type string `json:"type"` // "ping"
	Ack  uint64 `json:"ack"`
}

// Pong answers a ping.
type Pong struct {
	Type string `json:"type"` // "pong"
}

// Ack says up to which seq the owner has processed the worker's frames.
type Ack struct {
	Type string `json:"type"` // "ack"
	Ack  uint64 `json:"ack"`
}
