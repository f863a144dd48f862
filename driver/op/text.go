package op

import (
	"bytes"
	"unicode/utf8"
)

// CleanJSON returns the JSON text without halves of surrogate pairs and
// without bytes that are not UTF-8, each replaced by U+FFFD: JavaScript
// strings may hold them, and strict decoders then refuse the whole message.
// Transports clean what comes from a browser. It changes b in place where it
// can.
func CleanJSON(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 || i+n+1 >= len(b) {
			break
		}
		i += n
		switch unit, ok := escapedUnit(b[i:]); {
		case !ok:
			i += 2 // another escape, such as \\ or \n
		case unit < 0xD800 || unit > 0xDFFF:
			i += 6
		default:
			if low, ok := escapedUnit(b[min(i+6, len(b)):]); unit < 0xDC00 && ok && low >= 0xDC00 && low <= 0xDFFF {
				i += 12
				continue
			}
			copy(b[i+2:], "fffd")
			i += 6
		}
	}
	return b
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (int, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n := 0
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int(c-'a'+10)
		case c >= 'A' && c <= 'F':
			n = n<<4 | int(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
