package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"pgregory.net/rapid"
)

const goldenDir = "../../fixtures/wire"

// goldenFile returns a path that golden takes as it is.
func goldenFile(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(goldenDir, name))
	assert.NilError(t, err)
	return path
}

func pretty(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	assert.NilError(t, enc.Encode(v))
	return buf.String()
}

var (
	ones   = strings.Repeat("11", 32)
	twos   = strings.Repeat("22", 32)
	threes = strings.Repeat("33", 32)
	fours  = strings.Repeat("44", 32)
)

const (
	vectorKey   = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	vectorToken = "0123456789ABCDEF0123456789ABCDEF"
	pinnedID    = "ncikkhgopjmpkkcbgndgmolkfkiehlnm"
)

type vector struct {
	Name    string   `json:"name"`
	Key     string   `json:"key"`
	Message []string `json:"message"`
	HMAC    string   `json:"hmac"`
}

// TestVectors checks the six proofs against values that an independent
// implementation computed, and keeps them where the extension's tests find
// them.
func TestVectors(t *testing.T) {
	id := Identity{ConnectorID: "11111111-2222-4333-8444-555555555555", ExtensionID: pinnedID, DisplayVersion: "0.1.6", Fingerprint: fours}
	server := func(s Scope, key string) string {
		p, err := ServerProof(s, key, id, ones, twos, threes, fours)
		assert.NilError(t, err)
		return p
	}
	request := func(s Scope, key, method, path, body string) string {
		p, err := RequestProof(s, key, id, twos, threes, fours, method, path, []byte(body))
		assert.NilError(t, err)
		return p
	}
	for _, c := range []struct{ name, got, want string }{
		{"owner server proof", server(ScopeOwner, vectorKey), "065ea40a9d5e6ad8e344c358f898dbd9b4766f79e99b4e9a6a96abd9cccae933"},
		{"owner request proof", request(ScopeOwner, vectorKey, "POST", "/command", "{}"), "420d23f5a35920300555c2dd62ab9ebe6467c93b4e78abc043ac053f899e71e7"},
		{"connector server proof", server(ScopeConnector, vectorKey), "42cfaa50e10603571897aa9ee5f801c2267a1ea77247eb7c449eafdf90c4f368"},
		{"connector request proof", request(ScopeConnector, vectorKey, "GET", "/next", ""), "9cdec821bee13a1b46090eb162089cbd62c1398fa87e8ec8034bf43c1d6a6408"},
		{"pairing server proof", server(ScopePairing, vectorToken), "022e6d7b5595b5c8a5910bb3d8c6d05c2d4df7cb337ff82a92750fb85aba3c37"},
		{"pairing request proof", request(ScopePairing, vectorToken, "POST", "/pairing/confirm", "{}"), "554accbed615caafeb9172b9f509f43a713434fe0b578e9e28d688afecda746b"},
	} {
		assert.Check(t, EqualProof(c.got, c.want), "%s: %s", c.name, c.got)
	}

	// What a socket signs, and the derived secret, for the other side to check.
	empty := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	identity := []string{id.ConnectorID, id.ExtensionID, id.DisplayVersion, id.Fingerprint, ""}
	var all []vector
	add := func(name, key string, parts ...[]string) {
		m := slices.Concat(parts...)
		h, err := mac(key, m)
		assert.NilError(t, err)
		all = append(all, vector{name, key, m, h})
	}
	for _, s := range []struct {
		scope    Scope
		key      string
		identity []string
	}{{ScopeOwner, vectorKey, nil}, {ScopeConnector, vectorKey, identity}, {ScopePairing, vectorToken, identity}, {ScopePopup, vectorKey, identity}} {
		d := s.scope.domain()
		add(string(s.scope)+" server proof", s.key, []string{d + "/server-proof/v1", "2"}, s.identity, []string{ones, twos, threes, fours})
		add(string(s.scope)+" socket proof", s.key, []string{d + "/request-proof/v1", "2"}, s.identity, []string{twos, threes, fours, "GET", s.scope.Path(), empty})
		proof, err := SocketProof(s.scope, s.key, id, twos, threes, fours)
		assert.NilError(t, err)
		assert.Equal(t, proof, all[len(all)-1].HMAC)
		assert.Equal(t, server(s.scope, s.key), all[len(all)-2].HMAC)
	}
	add("pairing secret", vectorToken, []string{"pi-chrome/pairing/secret/v1", "2", id.ConnectorID, ones, twos, threes})
	secret, err := PairingSecret(vectorToken, id.ConnectorID, ones, twos, threes)
	assert.NilError(t, err)
	assert.Equal(t, secret, all[len(all)-1].HMAC)
	golden.Assert(t, pretty(t, all), goldenFile(t, "vectors.json"))
}

func TestProofNeedsHexSecret(t *testing.T) {
	for _, key := range []string{"", "xyz", "abc"} {
		_, err := ServerProof(ScopeOwner, key, Identity{}, ones, twos, threes, fours)
		assert.ErrorContains(t, err, "not hex")
		if key != "" {
			assert.Check(t, !strings.Contains(err.Error(), key), "the secret is shown")
		}
	}
}

// TestFingerprint keeps the fingerprint and compares the contract with the
// extension's.
func TestFingerprint(t *testing.T) {
	js, err := os.ReadFile("../../extension/contract.js")
	assert.NilError(t, err)
	m := regexp.MustCompile(`(?s)export const CONTRACT = (\{.*?\n\});`).FindSubmatch(js)
	assert.Assert(t, m != nil, "extension/contract.js has no CONTRACT")
	var theirs any
	assert.NilError(t, json.Unmarshal(m[1], &theirs))
	want, err := Canonical(Contract)
	assert.NilError(t, err)
	got, err := Canonical(theirs)
	assert.NilError(t, err)
	assert.Equal(t, string(got), string(want))
	assert.Check(t, IsHex256(Fingerprint()))
	golden.Assert(t, pretty(t, map[string]any{"canonical": string(want), "fingerprint": Fingerprint()}), goldenFile(t, "fingerprint.json"))
}

func TestContractIsSorted(t *testing.T) {
	for _, l := range [][]string{Contract.Calls, Contract.Events, Contract.Frames} {
		assert.Check(t, slices.IsSorted(l), "%v", l)
		assert.Check(t, len(slices.Compact(slices.Clone(l))) == len(l))
	}
	assert.Check(t, slices.IsSorted(RefusalCodes), "%v", RefusalCodes)
}

func TestCanonical(t *testing.T) {
	b, err := Canonical(map[string]any{"b": []any{1, "x<&>\u2028\n", nil, true}, "a": map[string]any{"z": 1.5, "é": "\x01"}})
	assert.NilError(t, err)
	assert.Equal(t, string(b), `{"a":{"z":1.5,"é":"\u0001"},"b":[1,"x<&>`+"\u2028"+`\n",null,true]}`)
}

func TestCanonicalStringsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.String()).Draw(t, "parts")
		var back []string
		assert.NilError(t, json.Unmarshal(CanonicalStrings(parts), &back))
		assert.Equal(t, len(back), len(parts))
		for i := range parts {
			assert.Equal(t, back[i], strings.ToValidUTF8(parts[i], "\ufffd"))
		}
	})
}

func TestNonces(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var n Nonces
	a := n.Issue(now)
	assert.Check(t, IsHex256(a))
	assert.NilError(t, n.Consume(a, now.Add(NonceTTL)))
	assert.ErrorIs(t, n.Consume(a, now), ErrNonceUsed)
	assert.ErrorIs(t, n.Consume(ones, now), ErrNonceUsed)

	b := n.Issue(now)
	assert.ErrorIs(t, n.Consume(b, now.Add(NonceTTL+1)), ErrNonceExpired)
	assert.ErrorIs(t, n.Consume(b, now), ErrNonceUsed)

	first := n.Issue(now)
	var last string
	for range MaxPendingNonces {
		last = n.Issue(now)
	}
	assert.Equal(t, n.Len(), MaxPendingNonces)
	assert.ErrorIs(t, n.Consume(first, now), ErrNonceUsed) // evicted
	assert.NilError(t, n.Consume(last, now))
	n.Issue(now.Add(time.Hour))
	assert.Equal(t, n.Len(), 1)
}

// TestNoncesModel: a nonce is good at most once, at most for its lifetime, and
// no more than 128 wait.
func TestNoncesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n Nonces
		now := time.Unix(1_700_000_000, 0)
		type given struct {
			nonce string
			at    time.Time
			used  bool
		}
		var all []*given
		t.Repeat(map[string]func(*rapid.T){
			"issue": func(t *rapid.T) { all = append(all, &given{nonce: n.Issue(now), at: now}) },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"use": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("none yet")
				}
				g := rapid.SampledFrom(all).Draw(t, "nonce")
				err := n.Consume(g.nonce, now)
				if err == nil {
					assert.Check(t, !g.used && now.Sub(g.at) <= NonceTTL)
				}
				g.used = true
			},
			"": func(t *rapid.T) { assert.Check(t, n.Len() <= MaxPendingNonces) },
		})
	})
}

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	assert.Check(t, regexp.MustCompile(`^[0-9A-F]{32}$`).MatchString(a))
	assert.Check(t, a != b)
	assert.Check(t, IsHex256(NewSecret()))
}

func TestEqualProof(t *testing.T) {
	assert.Check(t, EqualProof("ab", "ab"))
	assert.Check(t, !EqualProof("ab", "aB"))
	assert.Check(t, !EqualProof("ab", "abc"))
	assert.Check(t, !EqualProof("", "ab"))
}
