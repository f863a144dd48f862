package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Bounds of the scanner.
const (
	maxDepth  = 10_000 // of nesting; a deep DOM tree nests about three levels for each element
	maxFields = 64     // of a frame; the largest has 14
	maxItems  = 64     // of the arguments of a call or an event; the longest have three
)

var errTruncated = errors.New("the JSON text ends too early")

// scanner takes a frame apart in one pass, at the speed of bytes.IndexByte
// inside strings. encoding/json would walk a screenshot twice, byte by byte.
// What it accepts is valid JSON (FuzzScan).
type scanner struct {
	b []byte
	i int
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", s.i, fmt.Sprintf(format, args...))
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next returns the next byte that is not space, without taking it; 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.i >= len(s.b) {
		return 0
	}
	return s.b[s.i]
}

func (s *scanner) expect(c byte) error {
	got := s.next()
	if s.i >= len(s.b) {
		return errTruncated
	}
	if got != c {
		return s.errorf("%q was expected, not %q", c, got)
	}
	s.i++
	return nil
}

func (s *scanner) end() error {
	if s.space(); s.i < len(s.b) {
		return s.errorf("there is more after the JSON value")
	}
	return nil
}

// eachMember calls fn for every member of the object that is all of b. The
// value is a part of b. Keys are exact and must not repeat.
func eachMember(b []byte, fn func(key string, value json.RawMessage) error) error {
	s := &scanner{b: b}
	if s.next() != '{' {
		return errors.New("it is not a JSON object")
	}
	s.i++
	if s.next() == '}' {
		s.i++
		return s.end()
	}
	var buf [16]string
	seen := buf[:0]
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		if slices.Contains(seen, key) {
			return fmt.Errorf("the field %q is given twice", clip(key))
		}
		if seen = append(seen, key); len(seen) > maxFields {
			return fmt.Errorf("it has more than %d fields", maxFields)
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := fn(key, value); err != nil {
			return err
		}
		if s.next() == '}' {
			s.i++
			return s.end()
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// elements splits the array that is all of b.
func elements(b []byte) ([]json.RawMessage, error) {
	s := &scanner{b: b}
	if s.next() != '[' {
		return nil, errors.New("it is not an array")
	}
	s.i++
	all := make([]json.RawMessage, 0, 4)
	if s.next() == ']' {
		s.i++
		return all, s.end()
	}
	for {
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		if all = append(all, value); len(all) > maxItems {
			return nil, fmt.Errorf("it has more than %d items", maxItems)
		}
		if s.next() == ']' {
			s.i++
			return all, s.end()
		}
		if err := s.expect(','); err != nil {
			return nil, err
		}
	}
}

func (s *scanner) key() (string, error) {
	s.space()
	start := s.i
	if err := s.skipString(); err != nil {
		return "", err
	}
	raw := s.b[start:s.i]
	if !utf8.Valid(raw) {
		return "", s.errorf("a field name that is not UTF-8")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return "", s.errorf("a key that is no string")
	}
	return key, nil
}

func (s *scanner) value() (json.RawMessage, error) {
	s.space()
	start := s.i
	if err := s.skip(); err != nil {
		return nil, err
	}
	return json.RawMessage(s.b[start:s.i:s.i]), nil
}

// skip moves over one value, however deep, without recursion.
func (s *scanner) skip() error {
	var open []byte // the brackets that are open, '{' or '['
	for {
		c := s.next()
		switch {
		case s.i >= len(s.b):
			return errTruncated
		case c == '{' || c == '[':
			if len(open) >= maxDepth {
				return fmt.Errorf("it nests deeper than %d", maxDepth)
			}
			s.i++
			closer := c + 2 // '}' and ']' are two above '{' and '['
			if s.next() == closer {
				s.i++
				break
			}
			open = append(open, c)
			if c == '{' {
				if err := s.memberKey(); err != nil {
					return err
				}
			}
			continue
		default:
			if err := s.scalar(c); err != nil {
				return err
			}
		}
		// A value has ended: go on with the container that it stands in.
		for {
			if len(open) == 0 {
				return nil
			}
			top := open[len(open)-1]
			if s.next() == top+2 {
				s.i++
				open = open[:len(open)-1]
				continue
			}
			if err := s.expect(','); err != nil {
				return err
			}
			if top == '{' {
				if err := s.memberKey(); err != nil {
					return err
				}
			}
			break
		}
	}
}

func (s *scanner) memberKey() error {
	s.space()
	if err := s.skipString(); err != nil {
		return err
	}
	return s.expect(':')
}

func (s *scanner) scalar(c byte) error {
	switch {
	case c == '"':
		return s.skipString()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.errorf("%q begins no JSON value", c)
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return s.errorf("%s was expected", word)
	}
	s.i += len(word)
	return nil
}

func (s *scanner) number() error {
	digits := func() bool {
		start := s.i
		for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
			s.i++
		}
		return s.i > start
	}
	at := func(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }
	if at('-') {
		s.i++
	}
	if at('0') {
		s.i++
	} else if !digits() {
		return s.errorf("a number without digits")
	}
	if at('.') {
		s.i++
		if !digits() {
			return s.errorf("a number that ends with its point")
		}
	}
	if at('e') || at('E') {
		s.i++
		if at('+') || at('-') {
			s.i++
		}
		if !digits() {
			return s.errorf("a number without an exponent")
		}
	}
	return nil
}

func (s *scanner) skipString() error {
	if s.i >= len(s.b) {
		return errTruncated
	}
	if s.b[s.i] != '"' {
		return s.errorf("a string was expected")
	}
	s.i++
	for {
		// A string without escapes, such as a picture, ends at the next quote.
		q := bytes.IndexByte(s.b[s.i:], '"')
		if q < 0 {
			return errTruncated
		}
		part := s.b[s.i : s.i+q]
		esc := bytes.IndexByte(part, '\\')
		if esc >= 0 {
			part = part[:esc]
		}
		if c := control(part); c >= 0 {
			s.i += c
			return s.errorf("a control character in a string")
		}
		if esc < 0 {
			s.i += q + 1
			return nil
		}
		s.i += esc + 1
		if err := s.escape(); err != nil {
			return err
		}
		// Escapes come in crowds: go on byte by byte until a quote or a long
		// stretch without one.
		for plain := 0; plain < 64; plain++ {
			if s.i >= len(s.b) {
				return errTruncated
			}
			switch c := s.b[s.i]; {
			case c == '"':
				s.i++
				return nil
			case c == '\\':
				s.i++
				if err := s.escape(); err != nil {
					return err
				}
				plain = -1
			case c < 0x20:
				return s.errorf("a control character in a string")
			default:
				s.i++
			}
		}
	}
}

// escape moves over what follows a backslash.
func (s *scanner) escape() error {
	if s.i >= len(s.b) {
		return errTruncated
	}
	c := s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		if s.i+4 > len(s.b) {
			return errTruncated
		}
		for _, h := range s.b[s.i : s.i+4] {
			if !(h >= '0' && h <= '9' || h >= 'a' && h <= 'f' || h >= 'A' && h <= 'F') {
				return s.errorf("an escape that is not four hex digits")
			}
		}
		s.i += 4
		return nil
	}
	return s.errorf("an unknown escape %q", c)
}

// control returns the index of the first control character, or -1.
func control(b []byte) int {
	i := 0
	// Eight bytes at a time: a byte below 0x20 borrows in x-0x20… without its
	// own high bit set.
	for ; i+8 <= len(b); i += 8 {
		x := uint64(b[i]) | uint64(b[i+1])<<8 | uint64(b[i+2])<<16 | uint64(b[i+3])<<24 |
			uint64(b[i+4])<<32 | uint64(b[i+5])<<40 | uint64(b[i+6])<<48 | uint64(b[i+7])<<56
		if (x-0x2020202020202020)&^x&0x8080808080808080 != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 {
			return i
		}
	}
	return -1
}

const hexDigits = "0123456789abcdef"

// appendString appends s as JSON.stringify writes it: only what must be
// escaped is. Invalid UTF-8 becomes the replacement character.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// clip shortens what a stranger sent before it stands in a message.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return s[:60] + "…"
}
