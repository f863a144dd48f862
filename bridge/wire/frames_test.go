package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

func sampleHello() Hello {
	return Hello{
		Type: TypeHello, Version: Version, Fingerprint: Fingerprint(),
		ConnectorID: "11111111-2222-4333-8444-555555555555", ExtensionID: pinnedID, DisplayVersion: "0.1.0", Label: "Arbeit & <Ärger>",
		Browser: Browser{"chromium", "156.0.8078.73"}, BrowserEpoch: ones, CanceledAt: 1764649312345, WorkerID: strings.Repeat("ab", 16),
		Resume:       Resume{BridgeEpoch: twos, LastCall: 17, FirstSeq: 41, LastSeq: 44},
		Capabilities: Capabilities{FlatSessions: true, FileAccess: true}, ClientNonce: ones,
	}
}

// goldenFrames are what the owner sends. The extension's tests read the same
// files.
func goldenFrames() map[string]any {
	return map[string]any{
		"challenge": Challenge{TypeChallenge, twos, threes, fours, ones},
		"ready":     Ready{TypeReady, "c1", 3, 40},
		"ready-new": Ready{TypeReady, "c0", 1, 0},
		"refused":   Refused{TypeRefused, RefuseFingerprint, "The extension and pi-chrome are of different builds."},
		"offered":   Offered{TypeOffered},
		"paired":    Paired{TypePaired, "11111111-2222-4333-8444-555555555555", "Chrome 11111111"},
		"call": CallFrame{18, "debugger.sendCommand", []json.RawMessage{
			json.RawMessage(`{"tabId":7,"sessionId":"S"}`), json.RawMessage(`"Page.navigate"`), json.RawMessage(`{"url":"https://example.test/"}`)}},
		"call-empty": CallFrame{19, "debugger.getTargets", []json.RawMessage{}},
		"ping":       Ping{TypePing, 46},
		"ack":        Ack{TypeAck, 110},
	}
}

type goldenFrame struct {
	Name      string          `json:"name"`
	Direction string          `json:"direction"`
	Frame     json.RawMessage `json:"frame"`
}

func TestGoldenFrames(t *testing.T) {
	frames := goldenFrames()
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			raw, err := Encode(frame)
			assert.NilError(t, err)
			golden.Assert(t, pretty(t, goldenFrame{name, "bridge2ext", raw}), goldenFile(t, "bridge2ext-"+name+".json"))
			back, err := DecodeForExtension(raw)
			assert.NilError(t, err)
			assert.DeepEqual(t, reflect.ValueOf(back).Elem().Interface(), frame)
		})
	}
	files, err := filepath.Glob(filepath.Join(goldenDir, "bridge2ext-*.json"))
	assert.NilError(t, err)
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "bridge2ext-"), ".json")
		_, ok := frames[name]
		assert.Check(t, ok, "%s is the golden of no frame", f)
	}
}

// TestPopupAsks reads what a popup asks, as the extension's own tests write it,
// and refuses everything else.
func TestPopupAsks(t *testing.T) {
	for name, ask := range map[string]PopupAsk{
		"status": {TypeAsk, 1, PopupStatus, 0}, "stop": {TypeAsk, 2, PopupStop, 0}, "take": {TypeAsk, 3, PopupTake, 11}, "give": {TypeAsk, 4, PopupGive, 11},
	} {
		raw, err := Encode(ask)
		assert.NilError(t, err)
		golden.Assert(t, pretty(t, goldenFrame{name, "popup2bridge", raw}), goldenFile(t, "popup2bridge-"+name+".json"))
		back, err := DecodePopupAsk(raw)
		assert.NilError(t, err)
		assert.DeepEqual(t, *back, ask)
	}
	for _, wrong := range []string{
		``, `null`, `[]`, `{}`, `{"type":"ask","do":"stop"}`, `{"type":"ask","id":0,"do":"stop"}`, `{"type":"ask","id":1.5,"do":"stop"}`,
		`{"type":"ask","id":9007199254740992,"do":"stop"}`, `{"type":"ask","id":1,"do":"authorize"}`, `{"type":"ask","id":1,"do":"take"}`,
		`{"type":"ask","id":1,"do":"take","tabId":-1}`, `{"type":"ask","id":1,"do":"stop","tabId":7}`, `{"type":"ask","id":1,"do":"stop","session":"x"}`,
		`{"type":"ask","id":1,"id":1,"do":"stop"}`, `{"type":"request","id":"1","method":"shutdown"}`,
	} {
		_, err := DecodePopupAsk([]byte(wrong))
		_, ok := errors.AsType[*MalformedError](err)
		assert.Assert(t, ok, "%s: %v", wrong, err)
	}
}

// extensionFrames are what the extension sends; its own tests compare too.
func extensionFrames() map[string]any {
	return map[string]any{
		"hello":             sampleHello(),
		"prove":             Prove{TypeProve, ones},
		"reply":             ReplyFrame{45, 18, json.RawMessage(`{"frameId":"F","loaderId":"L"}`), nil},
		"reply-null":        ReplyFrame{46, 19, json.RawMessage(`null`), nil},
		"reply-error":       ReplyFrame{47, 20, nil, &CallError{Message: `{"code":-32000,"message":"Cannot navigate to invalid URL"}`}},
		"reply-not-allowed": ReplyFrame{48, 21, nil, &CallError{"tabs.duplicate is not a call of the contract", NotAllowed}},
		"event": EventFrame{49, "debugger.onEvent", []json.RawMessage{
			json.RawMessage(`{"tabId":7}`), json.RawMessage(`"Page.frameNavigated"`), json.RawMessage(`{"frame":{"id":"F"}}`)}},
		"event-detach": EventFrame{50, "debugger.onDetach", []json.RawMessage{json.RawMessage(`{"tabId":7}`), json.RawMessage(`"target_closed"`)}},
		"gap":          Gap{TypeGap, 41, 43},
		"pong":         Pong{TypePong},
	}
}

func decodeOfExtension(b []byte) (any, error) {
	kind, _, err := kindOf(b)
	switch {
	case err != nil:
		return nil, err
	case kind == TypeHello:
		return anyOf(DecodeHello(b))
	case kind == TypeProve:
		return anyOf(DecodeProve(b))
	}
	return DecodeExtension(b)
}

func TestGoldenFramesOfTheExtension(t *testing.T) {
	for name, frame := range extensionFrames() {
		t.Run(name, func(t *testing.T) {
			raw, err := Encode(frame)
			assert.NilError(t, err)
			golden.Assert(t, pretty(t, goldenFrame{name, "ext2bridge", raw}), goldenFile(t, "ext2bridge-"+name+".json"))
			back, err := decodeOfExtension(raw)
			assert.NilError(t, err)
			assert.DeepEqual(t, reflect.ValueOf(back).Elem().Interface(), frame)
		})
	}
	files, err := filepath.Glob(filepath.Join(goldenDir, "ext2bridge-*.json"))
	assert.NilError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		assert.NilError(t, err)
		var g goldenFrame
		assert.NilError(t, json.Unmarshal(b, &g))
		assert.Equal(t, g.Direction, "ext2bridge", f)
		_, err = decodeOfExtension(g.Frame)
		assert.NilError(t, err, f)
	}
}

func TestAppendedFramesEqualEncoded(t *testing.T) {
	call, err := Encode(goldenFrames()["call"])
	assert.NilError(t, err)
	assert.Equal(t, string(AppendCall(nil, 18, "debugger.sendCommand", []byte(`[{"tabId":7,"sessionId":"S"},"Page.navigate",{"url":"https://example.test/"}]`))), string(call))
	ping, err := Encode(Ping{TypePing, 46})
	assert.NilError(t, err)
	assert.Equal(t, string(AppendPing(nil, 46)), string(ping))
	ack, err := Encode(Ack{TypeAck, 110})
	assert.NilError(t, err)
	assert.Equal(t, string(AppendAck(nil, 110)), string(ack))
}

func TestDecodeHello(t *testing.T) {
	h := sampleHello()
	raw, err := Encode(h)
	assert.NilError(t, err)
	back, err := DecodeHello(raw)
	assert.NilError(t, err)
	assert.DeepEqual(t, *back, h)

	with := func(from, to string) string { return strings.Replace(string(raw), from, to, 1) }
	for name, c := range map[string]struct{ frame, want string }{
		"empty":           {"", "not a JSON object"},
		"array":           {"[]", "not a JSON object"},
		"another type":    {with(`"type":"hello"`, `"type":"prove"`), "a hello was expected"},
		"unknown field":   {with(`"version":1`, `"version":1,"Version":1`), `unknown field "Version"`},
		"twice":           {with(`"version":1`, `"version":1,"version":1`), "given twice"},
		"missing":         {with(`"workerId":"`+h.WorkerID+`",`, ``), "fields are missing"},
		"nested unknown":  {with(`"fileAccess":true`, `"fileAccess":true,"root":true`), "unknown field"},
		"number as text":  {with(`"version":1`, `"version":"1"`), "version"},
		"connector id":    {with(h.ConnectorID, "../../etc/passwd"), "connectorId"},
		"extension id":    {with(pinnedID, strings.Repeat("z", 32)), "extensionId"},
		"nonce":           {with(`"clientNonce":"11`, `"clientNonce":"`), "clientNonce"},
		"long label":      {with(h.Label, strings.Repeat("x", 81)), "label has 81 characters"},
		"blank label":     {with(h.Label, " "), "label is empty"},
		"control":         {with(h.Label, `a\u0007b`), "label has control characters"},
		"resume":          {with(`"firstSeq":41`, `"firstSeq":46`), "resume do not fit"},
		"negative":        {with(`"lastCall":17`, `"lastCall":-1`), "lastCall"},
		"huge":            {with(`"lastCall":17`, `"lastCall":9007199254740992`), "resume do not fit"},
		"trailing":        {string(raw) + "{}", "more after"},
		"cut":             {string(raw[:len(raw)-1]), "too early"},
		"resume epoch":    {with(twos, "xx"), "bridgeEpoch"},
		"no worker":       {with(h.WorkerID, ""), "workerId is empty"},
		"deep":            {with(`"version":1`, `"version":`+strings.Repeat("[", 20_000)), "nests deeper"},
		"key with escape": {with(`"version"`, `"\u0076ersion"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeHello([]byte(c.frame))
			if c.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
			_, ok := errors.AsType[*MalformedError](err)
			assert.Check(t, ok, "%T", err)
			assert.Check(t, len(err.Error()) < 400, "a long message: %s", err)
		})
	}
}

func TestPeekHelloOfAnotherVersion(t *testing.T) {
	h, err := PeekHello([]byte(`{"type":"hello","version":2,"fingerprint":"x","news":{"a":[1]}}`))
	assert.NilError(t, err)
	assert.DeepEqual(t, h, HelloHead{2, "x"})
	_, err = PeekHello([]byte(`{"type":"prove"}`))
	assert.ErrorContains(t, err, "a hello was expected")
}

func TestDecodeExtension(t *testing.T) {
	for frame, want := range map[string]any{
		`{"seq":45,"id":18,"result":null}`:                                         &ReplyFrame{45, 18, json.RawMessage("null"), nil},
		` { "seq" : 45 , "id" : 18 , "result" : { "a" : [ 1 , "}" ] } } `:          &ReplyFrame{45, 18, json.RawMessage(`{ "a" : [ 1 , "}" ] }`), nil},
		`{"seq":45,"id":18,"error":{"message":"no","code":"not-allowed"}}`:         &ReplyFrame{45, 18, nil, &CallError{"no", "not-allowed"}},
		`{"seq":46,"event":"debugger.onEvent","args":[{"tabId":7},"A.b",{"x":1}]}`: &EventFrame{46, "debugger.onEvent", []json.RawMessage{[]byte(`{"tabId":7}`), []byte(`"A.b"`), []byte(`{"x":1}`)}},
		`{"args":[],"event":"popup.request","seq":1}`:                              &EventFrame{1, "popup.request", []json.RawMessage{}},
		`{"type":"gap","from":41,"to":43}`:                                         &Gap{TypeGap, 41, 43},
		`{"type":"pong"}`:                                                          &Pong{TypePong},
	} {
		got, err := DecodeExtension([]byte(frame))
		assert.NilError(t, err, frame)
		assert.DeepEqual(t, got, want)
	}
	for frame, want := range map[string]string{
		`null`:               "not a JSON object",
		`{}`:                 "no seq",
		`{"seq":0,"id":1}`:   "no seq",
		`{"seq":1.5,"id":1}`: "seq is no whole number",
		`{"seq":-1,"id":1}`:  "seq is no whole number",
		`{"seq":1e3,"id":1}`: "seq is no whole number",
		`{"seq":"1","id":1}`: "seq is no whole number",
		`{"seq":1}`:          "neither id nor event",
		`{"seq":1,"id":1}`:   "a result or an error",
		`{"seq":1,"id":1,"result":1,"error":{"message":""}}`:                              "a result or an error",
		`{"seq":1,"id":1,"error":"x"}`:                                                    "error",
		`{"seq":1,"id":1,"error":{"message":"x","stack":""}}`:                             "unknown field",
		`{"seq":1,"id":1,"result":1,"args":[]}`:                                           "args",
		`{"seq":1,"id":1,"result":1,"x":1}`:                                               `unknown field "x"`,
		`{"seq":1,"event":"debugger.onEvent"}`:                                            "args",
		`{"seq":1,"event":"debugger.onEvent","args":{}}`:                                  "not an array",
		`{"seq":1,"event":"tabs.onMoved","args":[]}`:                                      "not in the contract",
		`{"seq":1,"id":2,"event":"debugger.onEvent","args":[]}`:                           "fields of a reply",
		`{"type":"hello"}`:                                                                "unknown type",
		`{"type":"gap","from":0,"to":3}`:                                                  "from 0 to 3",
		`{"type":"gap","from":3,"to":2}`:                                                  "from 3 to 2",
		`{"seq":1,"id":1,"result":{]}`:                                                    "expected",
		`{"seq":1,"id":1,"result":"a` + "\n" + `"}`:                                       "control character",
		`{"seq":1,"id":1,"result":"\x"}`:                                                  "unknown escape",
		`{"seq":1,"id":1,"result":01}`:                                                    "expected",
		`{"seq":1,"id":1,"result":nul}`:                                                   "null was expected",
		`{"seq":1,"id":1,"result":1`:                                                      "too early",
		`{"seq":1,"event":"debugger.onEvent","args":[1` + strings.Repeat(",1", 64) + `]}`: "more than 64 items",
	} {
		_, err := DecodeExtension([]byte(frame))
		assert.ErrorContains(t, err, want, "%s", frame)
	}
}

func TestDecodeFromClient(t *testing.T) {
	cmd := Command{Type: TypeCommand, ID: "c1", Operation: "page.click", Session: Session{Key: "default"}, Input: json.RawMessage(`{"ref":"el-1"}`), DeadlineMs: 5000}
	for _, v := range []any{cmd, Cancel{TypeCancel, "c1"}, Request{TypeRequest, "r1", "status", nil}} {
		raw, err := Encode(v)
		assert.NilError(t, err)
		back, err := DecodeFromClient(raw)
		assert.NilError(t, err)
		assert.DeepEqual(t, reflect.ValueOf(back).Elem().Interface(), v)
	}
	for frame, want := range map[string]string{
		`{"type":"command","id":"","operation":"x","session":{"key":"k"}}`:                  "id is empty",
		`{"type":"command","id":"1","operation":"","session":{"key":"k"}}`:                  "operation is empty",
		`{"type":"command","id":"1","operation":"x"}`:                                       "fields are missing",
		`{"type":"command","id":"1","operation":"x","session":{"key":"k","root":true}}`:     "unknown field",
		`{"type":"command","id":"1","operation":"x","session":{"key":"k"},"deadlineMs":-1}`: "deadlineMs",
		`{"type":"cancel"}`:                       "fields are missing",
		`{"type":"request","id":"1","method":""}`: "method is empty",
		`{"type":"result","id":"1"}`:              "unknown type",
	} {
		_, err := DecodeFromClient([]byte(frame))
		assert.ErrorContains(t, err, want, "%s", frame)
	}
}

func TestDecodeForClient(t *testing.T) {
	for _, v := range []any{
		Challenge{TypeChallenge, twos, threes, fours, ones},
		Refused{TypeRefused, RefuseProof, "no"},
		Progress{TypeProgress, "c1", 3, 12, "tile"},
		Result{Type: TypeResult, ID: "c1", OK: true, Value: json.RawMessage(`{"a":1}`), Text: "a", ElapsedMs: 4},
		Result{Type: TypeResult, ID: "c1", Error: &Failure{Kind: "rejected", Code: "tab-gone", Message: "m"}},
	} {
		raw, err := Encode(v)
		assert.NilError(t, err)
		back, err := DecodeForClient(raw)
		assert.NilError(t, err)
		assert.DeepEqual(t, reflect.ValueOf(back).Elem().Interface(), v)
	}
	_, err := DecodeForClient([]byte(`{"type":"result","id":"1","ok":true,"error":{"kind":"","code":"","message":""}}`))
	assert.ErrorContains(t, err, "exactly when")
	// A newer owner may say more of itself.
	back, err := DecodeForClient([]byte(`{"type":"ready","connectionId":"c","generation":1,"news":true}`))
	assert.NilError(t, err)
	assert.Equal(t, back.(*OwnerReady).ConnectionID, "c")
}

func TestDecodeOwnerHello(t *testing.T) {
	raw := fmt.Sprintf(`{"type":"hello","version":1,"fingerprint":%q,"operations":"o","client":"pi-chrome 0.1.0","clientNonce":%q,"news":1}`, fours, ones)
	h, err := DecodeOwnerHello([]byte(raw))
	assert.NilError(t, err)
	assert.Equal(t, h.Client, "pi-chrome 0.1.0")
	_, err = DecodeOwnerHello([]byte(strings.Replace(raw, ones, "1", 1)))
	assert.ErrorContains(t, err, "clientNonce")
	_, err = DecodeOwnerHello([]byte(strings.Replace(raw, "pi-chrome 0.1.0", "", 1)))
	assert.ErrorContains(t, err, "client is empty")
}

// fuzzSeeds are one frame of each kind and a few that are nearly right.
func fuzzSeeds(f *testing.F) {
	for _, v := range goldenFrames() {
		b, err := Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	hello, err := Encode(sampleHello())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hello)
	for _, s := range []string{
		`{"seq":45,"id":18,"result":{"a":["\"\\\u00e9",-1.5e+3,true,null]}}`, `{"type":"gap","from":1,"to":2}`,
		`{"seq":46,"event":"debugger.onEvent","args":[{"tabId":7},"A.b",{}]}`, `{"type":"command","id":"1","operation":"x","session":{"key":"k"}}`,
		`{"type":"result","id":"1","ok":true}`, `{"a":1}{"b":2}`, `{"type":"prove","proof":"` + ones + `"}`, "\x00", "{", `{"":`,
	} {
		f.Add([]byte(s))
	}
}

// FuzzScan: what the scanner accepts is valid JSON, and the members are those
// that encoding/json sees.
func FuzzScan(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		got := map[string]json.RawMessage{}
		err := eachMember(b, func(k string, v json.RawMessage) error {
			got[k] = v
			return nil
		})
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("accepted invalid JSON %q", b)
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if !bytes.Equal(bytes.TrimSpace(v), got[k]) {
				t.Fatalf("member %q is %q, not %q", k, got[k], v)
			}
		}
	})
}

func fuzzDecoder[T any](f *testing.F, decode func([]byte) (T, error)) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode(b)
		if err != nil {
			if _, ok := errors.AsType[*MalformedError](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		// What was accepted encodes to something that is accepted again.
		raw, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(raw); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	})
}

func FuzzDecodeHello(f *testing.F)        { fuzzDecoder(f, DecodeHello) }
func FuzzDecodeOwnerHello(f *testing.F)   { fuzzDecoder(f, DecodeOwnerHello) }
func FuzzDecodeProve(f *testing.F)        { fuzzDecoder(f, DecodeProve) }
func FuzzDecodeExtension(f *testing.F)    { fuzzDecoder(f, DecodeExtension) }
func FuzzDecodeForExtension(f *testing.F) { fuzzDecoder(f, DecodeForExtension) }
func FuzzDecodeFromClient(f *testing.F)   { fuzzDecoder(f, DecodeFromClient) }
func FuzzDecodePopupAsk(f *testing.F)     { fuzzDecoder(f, DecodePopupAsk) }
func FuzzDecodeForClient(f *testing.F)    { fuzzDecoder(f, DecodeForClient) }

func BenchmarkDecodeReply(b *testing.B) {
	for _, size := range []int{20, 1 << 20} {
		frame := fmt.Appendf(nil, `{"seq":1,"id":1,"result":{"data":"%s"}}`, strings.Repeat("QUJD", size/4))
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := DecodeExtension(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
