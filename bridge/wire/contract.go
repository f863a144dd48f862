package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Version is the version of the frames. Both sides must have the same.
const Version = 1

// Limits of the sockets. They are part of the contract.
const (
	FrameBytes     = 20 << 20 // one frame
	KeptFrames     = 1000     // of a worker without a socket
	KeptBytes      = 8 << 20
	NonceTTL       = 5 * time.Second
	PingInterval   = 20 * time.Second // Chrome ends a worker after 30 s without a data frame
	AckEveryFrames = 64
	AckEveryBytes  = 1 << 20
)

// Limits of the handshake, which are not part of the contract.
const (
	HandshakeBytes    = 64 << 10 // one frame before ready
	MaxLabel          = 80       // characters
	MaxDisplayVersion = 64
	MaxPendingNonces  = 128
)

// ContractValue is everything that the owner and the extension must agree on.
type ContractValue struct {
	Version int      `json:"version"`
	Domains Domains  `json:"domains"`
	Calls   []string `json:"calls"`  // sorted
	Events  []string `json:"events"` // sorted
	Frames  []string `json:"frames"` // sorted
	Limits  Limits   `json:"limits"`
}

// Domains are the first parts of the HMAC messages.
type Domains struct {
	Owner            string `json:"owner"`
	Connector        string `json:"connector"`
	Pairing          string `json:"pairing"`
	PairingSecret    string `json:"pairingSecret"`
	AlgorithmVersion string `json:"algorithmVersion"`
}

// Limits are the bounds that both sides keep.
type Limits struct {
	KeptFrames     int   `json:"keptFrames"`
	KeptBytes      int   `json:"keptBytes"`
	FrameBytes     int   `json:"frameBytes"`
	NonceTTLMs     int64 `json:"nonceTTLMs"`
	PingIntervalMs int64 `json:"pingIntervalMs"`
	AckEveryFrames int   `json:"ackEveryFrames"`
	AckEveryBytes  int   `json:"ackEveryBytes"`
}

// Contract is the contract of this version. CONTRACT in extension/contract.js
// is equal. Operations are not part of it, so a new operation needs no reload
// of the extension.
var Contract = ContractValue{
	Version: Version,
	Domains: Domains{
		Owner:            "pi-chrome/bridge-owner",
		Connector:        "pi-chrome/connector",
		Pairing:          "pi-chrome/pairing",
		PairingSecret:    "pi-chrome/pairing/secret/v1",
		AlgorithmVersion: "2",
	},
	Calls: []string{
		"action.setBadgeText", "action.setTitle",
		"debugger.attach", "debugger.detach", "debugger.getTargets", "debugger.sendCommand",
		"downloads.cancel", "downloads.download", "downloads.erase", "downloads.search",
		"runtime.getPlatformInfo", "runtime.reload",
		"storage.local.get", "storage.local.remove", "storage.local.set",
		"storage.session.get", "storage.session.remove", "storage.session.set",
		"tabGroups.get", "tabGroups.query", "tabGroups.update",
		"tabs.create", "tabs.get", "tabs.goBack", "tabs.goForward", "tabs.group", "tabs.move",
		"tabs.query", "tabs.reload", "tabs.remove", "tabs.ungroup", "tabs.update",
		"windows.get", "windows.getAll", "windows.update",
	},
	Events: []string{
		"debugger.onDetach", "debugger.onEvent",
		"downloads.onChanged", "downloads.onCreated",
		"popup.request", "runtime.onMessageExternal",
		"tabs.onActivated", "tabs.onCreated", "tabs.onRemoved", "tabs.onReplaced", "tabs.onUpdated",
	},
	Frames: []string{
		"ack", "call", "challenge", "event", "gap", "hello", "offered", "paired",
		"ping", "pong", "prove", "ready", "refused", "reply",
	},
	Limits: Limits{
		KeptFrames:     KeptFrames,
		KeptBytes:      KeptBytes,
		FrameBytes:     FrameBytes,
		NonceTTLMs:     NonceTTL.Milliseconds(),
		PingIntervalMs: PingInterval.Milliseconds(),
		AckEveryFrames: AckEveryFrames,
		AckEveryBytes:  AckEveryBytes,
	},
}

var contractFingerprint = func() string {
	f, err := FingerprintOf(Contract)
	if err != nil {
		panic(err) // the contract is a constant that encodes
	}
	return f
}()

// Fingerprint is the fingerprint of [Contract], 64 lower-case hex digits.
func Fingerprint() string { return contractFingerprint }

// FingerprintOf returns the SHA-256 of the canonical form of v, in hex.
func FingerprintOf(v any) (string, error) {
	b, err := Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Canonical returns v as JSON with the keys of objects sorted and without
// spaces: what JSON.stringify writes for an object with sorted keys. Numbers
// keep the digits that v encodes to.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding for the canonical form: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var generic any
	if err := dec.Decode(&generic); err != nil {
		return nil, fmt.Errorf("reading for the canonical form: %w", err)
	}
	return appendCanonical(nil, generic), nil
}

func appendCanonical(b []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		if x {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case json.Number:
		return append(b, x...)
	case string:
		return appendString(b, x)
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, e)
		}
		return append(b, ']')
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, k)
			b = append(b, ':')
			b = appendCanonical(b, x[k])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("a decoded JSON value of type %T", v))
}
