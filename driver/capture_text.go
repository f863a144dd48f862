package driver

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"pi-chrome/driver/op"
)

// listRoom is left in a text form for what stands beside its list.
const listRoom = 2500

// listText is the text form of a list: valid JSON, one item a line, at most
// op.MaxText characters. The newest items stand in it; tail is told how many
// did not fit, and returns the other fields as a struct.
func listText(name string, items []json.RawMessage, tail func(omitted int) any) string {
	room := op.MaxText - listRoom
	first := len(items)
	for first > 0 {
		n := utf8.RuneCount(items[first-1]) + 6
		if n > room {
			break
		}
		room -= n
		first--
	}
	var b strings.Builder
	b.WriteString("{\n  \"" + name + "\": [")
	for i, item := range items[first:] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(item)
	}
	if first < len(items) {
		b.WriteString("\n  ")
	}
	b.WriteString("]")
	rest := indented(tail(first))
	if rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}"); strings.TrimSpace(rest) != "" {
		b.WriteString("," + strings.TrimRight(rest, "\n "))
	}
	b.WriteString("\n}")
	return b.String()
}

// indented is JSON for a reader.
func indented(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimRight(b.String(), "\n")
}
