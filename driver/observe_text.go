package driver

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine collapses white space, and turns what would leave the line or turn
// the reading direction into a space.
func oneLine(s string) string {
	plain := true
	for _, r := range s {
		if r != ' ' && (unicode.IsSpace(r) || !unicode.IsPrint(r)) {
			plain = false
			break
		}
	}
	if plain && !strings.Contains(s, "  ") {
		return strings.Trim(s, " ")
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			space = true
			continue
		}
		if !unicode.IsPrint(r) && !joins(r) && !privateUse(r) {
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// joins tells the invisible characters that emoji and scripts need.
func joins(r rune) bool { return r == 0x200d || r == 0x200c || r >= 0xfe00 && r <= 0xfe0f }

func privateUse(r rune) bool {
	return r >= 0xe000 && r <= 0xf8ff || r >= 0xf0000 && r <= 0x10fffd
}

// quote is s as a JSON string.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string always encodes.
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// runes counts the characters of s.
func runes(s string) int { return utf8.RuneCountInString(s) }

// head returns at most max characters of s.
func head(s string, max int) string {
	if len(s) <= max {
		return s
	}
	n := 0
	for i := range s {
		if n == max {
			return s[:i]
		}
		n++
	}
	return s
}

// fnv is the FNV-1a hash of 64 bits, fed with strings that are kept apart.
type fnv uint64

func newFNV() fnv { return 14695981039346656037 }

func (h fnv) add(parts ...string) fnv {
	for _, s := range parts {
		for i := range len(s) {
			h = (h ^ fnv(s[i])) * 1099511628211
		}
		h *= 1099511628211 // the separator, a zero byte
	}
	return h
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	s := itoa(n) + " " + noun
	if n != 1 {
		s += "s"
	}
	return s
}

// itoa is strconv.Itoa under a shorter name.
func itoa(n int) string { return strconv.Itoa(n) }

// guard keeps a text of the page from looking like a line of ours.
func guard(s string) string {
	if s == "" {
		return s
	}
	switch s[0] {
	case '#', '-', '@', '|', '>', '\\', '`', '*', '+':
		return "\\" + s
	}
	for _, p := range []string{"more: ", "blocks: ", "focused: ", "modal: ", "frames: "} {
		if strings.HasPrefix(s, p) {
			return "\\" + s
		}
	}
	return s
}
