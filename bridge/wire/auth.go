package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
)

// Scope is a class of credentials: its own HMAC domain and its own path.
type Scope string

// The scopes.
const (
	ScopeOwner     Scope = "owner"
	ScopeConnector Scope = "connector"
	ScopePairing   Scope = "pairing"
	ScopePopup     Scope = "popup" // its key is the secret of the connector
)

// popupDomain is no part of the contract: which pages an extension has changes
// nothing for its worker.
const popupDomain = "pi-chrome/popup"

// Path is the path of the scope's socket.
func (s Scope) Path() string { return "/" + string(s) }

func (s Scope) domain() string {
	switch s {
	case ScopeOwner:
		return Contract.Domains.Owner
	case ScopeConnector:
		return Contract.Domains.Connector
	case ScopePopup:
		return popupDomain
	}
	return Contract.Domains.Pairing
}

// Identity is who a proof is about. It is empty for the scope owner.
type Identity struct {
	ConnectorID    string
	ExtensionID    string
	DisplayVersion string
	Fingerprint    string
	PairingID      string // "" on a socket
}

// Identity returns who the hello says it is.
func (h *Hello) Identity() Identity {
	return Identity{ConnectorID: h.ConnectorID, ExtensionID: h.ExtensionID, DisplayVersion: h.DisplayVersion, Fingerprint: h.Fingerprint}
}

func (s Scope) head(kind string, id Identity) []string {
	m := []string{s.domain() + "/" + kind + "/v1", Contract.Domains.AlgorithmVersion}
	if s == ScopeOwner {
		return m
	}
	return append(m, id.ConnectorID, id.ExtensionID, id.DisplayVersion, id.Fingerprint, id.PairingID)
}

// Proof is the result of one HMAC: 64 lower-case hex digits.
type Proof = string

// ServerProof proves to a client that the owner holds the secret. The secret
// is hex; an error means that it is not.
func ServerProof(s Scope, secret string, id Identity, clientNonce, bridgeEpoch, requestNonce, serverFingerprint string) (Proof, error) {
	return mac(secret, append(s.head("server-proof", id), clientNonce, bridgeEpoch, requestNonce, serverFingerprint))
}

// RequestProof proves to the owner that a client holds the secret. On a socket
// method is GET, path the scope's and body empty.
func RequestProof(s Scope, secret string, id Identity, bridgeEpoch, requestNonce, clientFingerprint, method, path string, body []byte) (Proof, error) {
	sum := sha256.Sum256(body)
	return mac(secret, append(s.head("request-proof", id), bridgeEpoch, requestNonce, clientFingerprint, method, path, hex.EncodeToString(sum[:])))
}

// SocketProof is the RequestProof of a socket.
func SocketProof(s Scope, secret string, id Identity, bridgeEpoch, requestNonce, clientFingerprint string) (Proof, error) {
	return RequestProof(s, secret, id, bridgeEpoch, requestNonce, clientFingerprint, "GET", s.Path(), nil)
}

// PairingSecret derives the secret of a connector from the one-time token.
// Both sides do, so that it never travels.
func PairingSecret(token, connectorID, clientNonce, bridgeEpoch, requestNonce string) (string, error) {
	return mac(token, []string{Contract.Domains.PairingSecret, Contract.Domains.AlgorithmVersion, connectorID, clientNonce, bridgeEpoch, requestNonce})
}

func mac(secret string, message []string) (string, error) {
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) == 0 {
		return "", errors.New("the secret is not hex") // never show it
	}
	h := hmac.New(sha256.New, key)
	h.Write(CanonicalStrings(message))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// CanonicalStrings is the message of a proof: the compact JSON of an array of
// strings, byte for byte what JSON.stringify writes for valid text.
func CanonicalStrings(parts []string) []byte {
	b := []byte{'['}
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, p)
	}
	return append(b, ']')
}

// EqualProof compares two proofs in constant time.
func EqualProof(a, b Proof) bool {
	return len(a) == len(b) && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// NewSecret returns 32 random bytes in hex: a nonce, an epoch, a credential.
func NewSecret() string { return randomHex(32) }

// NewToken returns a one-time pairing token: 16 random bytes as upper-case
// hex.
func NewToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return fmt.Sprintf("%X", b)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
