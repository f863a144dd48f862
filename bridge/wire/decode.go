package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A MalformedError is a frame that does not follow the protocol.
type MalformedError struct {
	Frame string // its type, or "frame" when that is not known
	Err   error
}

func (e *MalformedError) Error() string { return "malformed " + e.Frame + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *MalformedError) Unwrap() error { return e.Err }

func malformed(frame, format string, args ...any) error {
	return &MalformedError{Frame: frame, Err: fmt.Errorf(format, args...)}
}

// HelloHead is the part of a hello that every version of the protocol has. It
// is read first, so that another version is told as such and not as a
// malformed frame.
type HelloHead struct {
	Version     int
	Fingerprint string
}

// PeekHello reads the head of a hello of any version. The error is a
// [*MalformedError].
func PeekHello(b []byte) (HelloHead, error) {
	var h HelloHead
	var kind string
	err := eachMember(b, func(key string, value json.RawMessage) error {
		switch key {
		case "type":
			return json.Unmarshal(value, &kind)
		case "version":
			return json.Unmarshal(value, &h.Version)
		case "fingerprint":
			return json.Unmarshal(value, &h.Fingerprint)
		}
		return nil
	})
	switch {
	case err != nil:
		return HelloHead{}, &MalformedError{TypeHello, err}
	case kind != TypeHello:
		return HelloHead{}, malformed("frame", "a hello was expected, not %q", clip(kind))
	}
	return h, nil
}

// DecodeHello reads the hello of the extension. The error is a
// [*MalformedError].
func DecodeHello(b []byte) (*Hello, error) {
	h, err := strict[Hello](b, TypeHello)
	if err != nil {
		return nil, err
	}
	if err := h.check(); err != nil {
		return nil, &MalformedError{TypeHello, err}
	}
	return h, nil
}

var (
	hex256      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	uuid        = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	extensionID = regexp.MustCompile(`^[a-p]{32}$`)
)

// IsHex256 reports whether s is 32 bytes in lower-case hex, as nonces, epochs,
// secrets, fingerprints and proofs are.
func IsHex256(s string) bool { return hex256.MatchString(s) }

func (h *Hello) check() error {
	switch {
	case !uuid.MatchString(h.ConnectorID):
		return fmt.Errorf("connectorId %q is no lower-case UUID", clip(h.ConnectorID))
	case !extensionID.MatchString(h.ExtensionID):
		return fmt.Errorf("extensionId %q is not 32 letters a to p", clip(h.ExtensionID))
	case !hex256.MatchString(h.Fingerprint):
		return errors.New("fingerprint is not 64 hex digits")
	case !hex256.MatchString(h.ClientNonce):
		return errors.New("clientNonce is not 64 hex digits")
	case h.Resume.BridgeEpoch != "" && !hex256.MatchString(h.Resume.BridgeEpoch):
		return errors.New("resume.bridgeEpoch is not 64 hex digits")
	case h.Resume.FirstSeq > h.Resume.LastSeq+1 || h.Resume.LastSeq > maxSafe || h.Resume.LastCall > maxSafe:
		return errors.New("the numbers of resume do not fit together")
	case h.CanceledAt < 0 || h.CanceledAt > maxSafe:
		return errors.New("canceledAt is no time")
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"displayVersion", h.DisplayVersion, MaxDisplayVersion},
		{"label", h.Label, MaxLabel},
		{"browserEpoch", h.BrowserEpoch, 128},
		{"workerId", h.WorkerID, 128},
		{"browser.family", h.Browser.Family, 64},
		{"browser.version", h.Browser.Version, 64},
	} {
		if err := line(f.value, f.max); err != nil {
			return fmt.Errorf("%s %w", f.name, err)
		}
	}
	return nil
}

// line checks a short text of one line that is not blank.
func line(s string, max int) error {
	switch n := utf8.RuneCountInString(s); {
	case strings.TrimSpace(s) == "":
		return errors.New("is empty")
	case n > max:
		return fmt.Errorf("has %d characters; allowed are %d", n, max)
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return errors.New("has control characters")
	}
	return nil
}

// DecodeProve reads the client's proof.
func DecodeProve(b []byte) (*Prove, error) {
	p, err := strict[Prove](b, TypeProve)
	if err == nil && !hex256.MatchString(p.Proof) {
		err = malformed(TypeProve, "proof is not 64 hex digits")
	}
	return p, err
}

// DecodeOwnerHello reads the hello of a program. Fields that it does not know
// are passed over: the program may be of a newer version, which is told by the
// operations.
func DecodeOwnerHello(b []byte) (*OwnerHello, error) {
	h, err := lenient[OwnerHello](b, TypeHello)
	if err != nil {
		return nil, err
	}
	if !hex256.MatchString(h.ClientNonce) {
		return nil, malformed(TypeHello, "clientNonce is not 64 hex digits")
	}
	if !hex256.MatchString(h.Fingerprint) {
		return nil, malformed(TypeHello, "fingerprint is not 64 hex digits")
	}
	if err := line(h.Client, 120); err != nil {
		return nil, malformed(TypeHello, "client %w", err)
	}
	return h, nil
}

// DecodeExtension reads a frame of the extension after ready: *ReplyFrame,
// *EventFrame, *Gap or *Pong. Values are parts of b. The error is a
// [*MalformedError].
func DecodeExtension(b []byte) (any, error) {
	var f struct {
		kind, event         string
		seq, id, from, to   uint64
		result, args, fault json.RawMessage
	}
	var unknown string
	err := eachMember(b, func(key string, value json.RawMessage) (err error) {
		switch key {
		case "seq":
			f.seq, err = number(key, value)
		case "id":
			f.id, err = number(key, value)
		case "from":
			f.from, err = number(key, value)
		case "to":
			f.to, err = number(key, value)
		case "type":
			f.kind, err = text(key, value)
		case "event":
			f.event, err = text(key, value)
		case "result":
			f.result = value
		case "args":
			f.args = value
		case "error":
			f.fault = value
		default:
			unknown = key
		}
		return err
	})
	switch {
	case err != nil:
		return nil, &MalformedError{"frame", err}
	case unknown != "":
		return nil, malformed("frame", "unknown field %q", clip(unknown))
	case f.kind == TypePong:
		return &Pong{Type: TypePong}, nil
	case f.kind == TypeGap:
		if f.from == 0 || f.to < f.from {
			return nil, malformed(TypeGap, "from %d to %d", f.from, f.to)
		}
		return &Gap{TypeGap, f.from, f.to}, nil
	case f.kind != "":
		return nil, malformed("frame", "unknown type %q", clip(f.kind))
	case f.seq == 0:
		return nil, malformed("frame", "no seq")
	case f.event != "":
		if f.id != 0 || f.result != nil || f.fault != nil {
			return nil, malformed("event", "fields of a reply")
		}
		if !slices.Contains(Contract.Events, f.event) {
			return nil, malformed("event", "%q is not in the contract", clip(f.event))
		}
		args, err := elements(f.args)
		if err != nil {
			return nil, malformed("event", "args: %w", err)
		}
		return &EventFrame{f.seq, f.event, args}, nil
	case f.id == 0:
		return nil, malformed("frame", "neither id nor event")
	case f.args != nil:
		return nil, malformed("reply", "args")
	case (f.result == nil) == (f.fault == nil):
		return nil, malformed("reply", "it must have a result or an error")
	}
	r := &ReplyFrame{Seq: f.seq, ID: f.id, Result: f.result}
	if f.fault != nil {
		if r.Error, err = strictPart[CallError](f.fault); err != nil {
			return nil, malformed("reply", "error: %w", err)
		}
	}
	return r, nil
}

// DecodeForExtension reads a frame of the owner as the extension does:
// *Challenge, *Ready, *Refused, *Offered, *Paired, *CallFrame, *Ping or *Ack.
func DecodeForExtension(b []byte) (any, error) {
	kind, isCall, err := kindOf(b)
	if err != nil {
		return nil, err
	}
	if isCall {
		return decodeCall(b)
	}
	switch kind {
	case TypeChallenge:
		return decodeChallenge(b)
	case TypeReady:
		return anyOf(strict[Ready](b, kind))
	case TypeRefused:
		return anyOf(strict[Refused](b, kind))
	case TypeOffered:
		return anyOf(strict[Offered](b, kind))
	case TypePaired:
		return anyOf(strict[Paired](b, kind))
	case TypePing:
		return anyOf(strict[Ping](b, kind))
	case TypeAck:
		return anyOf(strict[Ack](b, kind))
	}
	return nil, malformed("frame", "unknown type %q", clip(kind))
}

// DecodeFromClient reads a frame of a program after ready: *Command, *Cancel
// or *Request.
func DecodeFromClient(b []byte) (any, error) {
	kind, _, err := kindOf(b)
	if err != nil {
		return nil, err
	}
	var id string
	var v any
	switch kind {
	case TypeCommand:
		c, err := strict[Command](b, kind)
		if err != nil {
			return nil, err
		}
		if err := line(c.Operation, 128); err != nil {
			return nil, malformed(kind, "operation %w", err)
		}
		if c.DeadlineMs < 0 || c.DeadlineMs > 3_600_000 {
			return nil, malformed(kind, "deadlineMs %d is not 0 to 3600000", c.DeadlineMs)
		}
		id, v = c.ID, c
	case TypeCancel:
		c, err := strict[Cancel](b, kind)
		if err != nil {
			return nil, err
		}
		id, v = c.ID, c
	case TypeRequest:
		r, err := strict[Request](b, kind)
		if err != nil {
			return nil, err
		}
		if err := line(r.Method, 128); err != nil {
			return nil, malformed(kind, "method %w", err)
		}
		id, v = r.ID, r
	default:
		return nil, malformed("frame", "unknown type %q", clip(kind))
	}
	if err := line(id, 128); err != nil {
		return nil, malformed(kind, "id %w", err)
	}
	return v, nil
}

// DecodeForClient reads a frame of the owner as a program does: *Challenge,
// *OwnerReady, *Refused, *Progress or *Result.
func DecodeForClient(b []byte) (any, error) {
	kind, _, err := kindOf(b)
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeChallenge:
		return decodeChallenge(b)
	case TypeReady:
		return anyOf(lenient[OwnerReady](b, kind))
	case TypeRefused:
		return anyOf(lenient[Refused](b, kind))
	case TypeProgress:
		return anyOf(strict[Progress](b, kind))
	case TypeResult:
		r, err := strict[Result](b, kind)
		if err != nil {
			return nil, err
		}
		if r.OK == (r.Error != nil) {
			return nil, malformed(kind, "it must have an error exactly when it is not ok")
		}
		return r, nil
	}
	return nil, malformed("frame", "unknown type %q", clip(kind))
}

func decodeChallenge(b []byte) (any, error) {
	c, err := strict[Challenge](b, TypeChallenge)
	if err != nil {
		return nil, err
	}
	for _, v := range []string{c.BridgeEpoch, c.RequestNonce, c.ServerFingerprint, c.Proof} {
		if !hex256.MatchString(v) {
			return nil, malformed(TypeChallenge, "a value that is not 64 hex digits")
		}
	}
	return c, nil
}

func decodeCall(b []byte) (any, error) {
	c := &CallFrame{}
	err := eachMember(b, func(key string, value json.RawMessage) (err error) {
		switch key {
		case "id":
			c.ID, err = number(key, value)
		case "call":
			c.Call, err = text(key, value)
		case "args":
			c.Args, err = elements(value)
		default:
			err = fmt.Errorf("unknown field %q", clip(key))
		}
		return err
	})
	switch {
	case err != nil:
		return nil, &MalformedError{"call", err}
	case c.ID == 0 || c.Args == nil:
		return nil, malformed("call", "id or args are missing")
	case !slices.Contains(Contract.Calls, c.Call):
		return nil, malformed("call", "%q is not in the contract", clip(c.Call))
	}
	return c, nil
}

func kindOf(b []byte) (kind string, isCall bool, err error) {
	err = eachMember(b, func(key string, value json.RawMessage) error {
		switch key {
		case "type":
			kind, err = text(key, value)
			return err
		case "call":
			isCall = true
		}
		return nil
	})
	if err != nil {
		return "", false, &MalformedError{"frame", err}
	}
	return kind, isCall && kind == "", nil
}

// anyOf keeps a nil pointer from becoming a non-nil interface.
func anyOf[T any](v *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// strict decodes a frame whose fields are exactly those of T: no other, none
// twice, none missing that has no omitempty.
func strict[T any](b []byte, kind string) (*T, error) { return decode[T](b, kind, true) }

// lenient passes over fields that T does not have.
func lenient[T any](b []byte, kind string) (*T, error) { return decode[T](b, kind, false) }

func decode[T any](b []byte, kind string, exact bool) (*T, error) {
	fields := fieldsOf(reflect.TypeFor[T]())
	missing := len(fields.required)
	got := ""
	err := eachMember(b, func(key string, value json.RawMessage) (err error) {
		required, known := fields.all[key]
		if !known && exact {
			return fmt.Errorf("unknown field %q", clip(key))
		}
		if required {
			missing--
		}
		if key == "type" {
			got, err = text(key, value)
		}
		return err
	})
	if err != nil {
		return nil, &MalformedError{kind, err}
	}
	if got != kind {
		return nil, malformed("frame", "a %s was expected, not %q", kind, clip(got))
	}
	if missing > 0 {
		return nil, malformed(kind, "fields are missing; it must have %s", strings.Join(fields.required, ", "))
	}
	v := new(T)
	dec := json.NewDecoder(bytes.NewReader(b))
	if exact {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		return nil, &MalformedError{kind, err}
	}
	return v, nil
}

func strictPart[T any](b []byte) (*T, error) {
	v := new(T)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return nil, err
	}
	return v, nil
}

type fieldSet struct {
	all      map[string]bool // name to whether it is required
	required []string
}

var fieldSets sync.Map // of reflect.Type to fieldSet

func fieldsOf(t reflect.Type) fieldSet {
	if s, ok := fieldSets.Load(t); ok {
		return s.(fieldSet)
	}
	s := fieldSet{all: map[string]bool{}}
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		required := !strings.Contains(opts, "omit")
		s.all[name] = required
		if required {
			s.required = append(s.required, name)
		}
	}
	fieldSets.Store(t, s)
	return s
}

// maxSafe is the highest whole number that JavaScript counts exactly.
const maxSafe = 1<<53 - 1

func number(key string, value json.RawMessage) (uint64, error) {
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || n > maxSafe {
		return 0, fmt.Errorf("%s is no whole number from 0 to %d", key, uint64(maxSafe))
	}
	return n, nil
}

func text(key string, value json.RawMessage) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", fmt.Errorf("%s is no string", key)
	}
	if bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return string(value[1 : len(value)-1]), nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", fmt.Errorf("%s is no string", key)
	}
	return s, nil
}
