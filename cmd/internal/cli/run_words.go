package cli

import (
	"fmt"
	"strings"
)

// piece is a part of a word of a script: text as it stands, or the name of a
// variable.
type piece struct {
	text string
	name string // "" for text
}

// word is one word of a line of a script.
type word struct {
	pieces []piece
	bare   bool // nothing of it was quoted: it may be the sign of a clause
}

// variable finds the value of a variable; the error says what is wrong with it.
type variable func(name string) (string, error)

// fill returns the word with the values of its variables. wrap, when not nil,
// is applied to each value.
func (w word) fill(value variable, wrap func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range w.pieces {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v, err := value(p.name)
		if err != nil {
			return "", err
		}
		if wrap != nil {
			v = wrap(v)
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// literal is the text of a word without variables.
func (w word) literal() (string, bool) {
	text := ""
	for _, p := range w.pieces {
		if p.name != "" {
			return "", false
		}
		text += p.text
	}
	return text, true
}

// names are the variables of the word.
func (w word) names() []string {
	var out []string
	for _, p := range w.pieces {
		if p.name != "" {
			out = append(out, p.name)
		}
	}
	return out
}

// splitWords splits a line as a shell does: blanks part words, '…' is text as
// it stands, "…" is text with variables, \ takes the next character as it is,
// and a word that begins with # ends the line. Nothing else is special: no
// globs, no substitutions, no pipes.
func splitWords(line string) ([]word, error) {
	var words []word
	s := wordScanner{rest: line}
	for {
		s.rest = strings.TrimLeft(s.rest, " \t")
		if s.rest == "" || s.rest[0] == '#' {
			return words, nil
		}
		w, err := s.word()
		if err != nil {
			return nil, err
		}
		words = append(words, w)
	}
}

// wordScanner takes words off the front of a line.
type wordScanner struct {
	rest string
	out  word
	text strings.Builder
}

func (s *wordScanner) word() (word, error) {
	s.out = word{bare: true}
	for s.rest != "" && s.rest[0] != ' ' && s.rest[0] != '\t' {
		var err error
		switch c := s.rest[0]; c {
		case '\'':
			err = s.single()
		case '"':
			err = s.double()
		case '\\':
			if len(s.rest) == 1 {
				return word{}, fmt.Errorf(`the line ends with \; a command stands on one line`)
			}
			s.out.bare = false
			s.text.WriteByte(s.rest[1])
			s.rest = s.rest[2:]
		case '$':
			err = s.dollar()
		default:
			s.text.WriteByte(c)
			s.rest = s.rest[1:]
		}
		if err != nil {
			return word{}, err
		}
	}
	s.flush()
	return s.out, nil
}

func (s *wordScanner) flush() {
	if s.text.Len() > 0 {
		s.out.pieces = append(s.out.pieces, piece{text: s.text.String()})
		s.text.Reset()
	}
}

func (s *wordScanner) single() error {
	text, rest, ok := strings.Cut(s.rest[1:], "'")
	if !ok {
		return fmt.Errorf("a ' is not closed on this line")
	}
	s.out.bare = false
	s.text.WriteString(text)
	s.rest = rest
	return nil
}

func (s *wordScanner) double() error {
	s.out.bare = false
	for s.rest = s.rest[1:]; s.rest != ""; {
		switch c := s.rest[0]; {
		case c == '"':
			s.rest = s.rest[1:]
			return nil
		case c == '\\' && len(s.rest) > 1 && strings.IndexByte("\"\\$", s.rest[1]) >= 0:
			s.text.WriteByte(s.rest[1])
			s.rest = s.rest[2:]
		case c == '$':
			if err := s.dollar(); err != nil {
				return err
			}
		default:
			s.text.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return fmt.Errorf(`a " is not closed on this line`)
}

// dollar takes $name or ${name}; a $ before anything else is text.
func (s *wordScanner) dollar() error {
	name, rest, err := variableAt(s.rest)
	if err != nil {
		return err
	}
	if name == "" {
		s.text.WriteByte('$')
		s.rest = s.rest[1:]
		return nil
	}
	s.flush()
	s.out.pieces = append(s.out.pieces, piece{name: name})
	s.out.bare = false
	s.rest = rest
	return nil
}

// variableAt reads the variable at the $ that text begins with; "" when it is
// none.
func variableAt(text string) (name, rest string, err error) {
	after := text[1:]
	if strings.HasPrefix(after, "{") {
		name, rest, ok := strings.Cut(after[1:], "}")
		if !ok || !isName(name) {
			return "", "", fmt.Errorf("${ is not the beginning of a variable such as ${name}; write \\$, or in JSON $$, for the sign itself")
		}
		return name, rest, nil
	}
	n := 0
	for n < len(after) && nameByte(after[n], n) {
		n++
	}
	return after[:n], after[n:], nil
}

// splitText splits the text of a JSON line into text and variables; $$ stands
// for the sign itself.
func splitText(text string) (word, error) {
	var w word
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			w.pieces = append(w.pieces, piece{text: plain.String()})
			plain.Reset()
		}
	}
	for text != "" {
		if text[0] != '$' {
			plain.WriteByte(text[0])
			text = text[1:]
			continue
		}
		if strings.HasPrefix(text, "$$") {
			plain.WriteByte('$')
			text = text[2:]
			continue
		}
		name, rest, err := variableAt(text)
		if err != nil {
			return word{}, err
		}
		if name == "" {
			plain.WriteByte('$')
			text = text[1:]
			continue
		}
		flush()
		w.pieces = append(w.pieces, piece{name: name})
		text = rest
	}
	flush()
	return w, nil
}

// isName reports whether a variable may have this name: letters, digits and _,
// not a digit first, at most 64.
func isName(name string) bool {
	for i := range len(name) {
		if !nameByte(name[i], i) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func nameByte(c byte, at int) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || at > 0 && c >= '0' && c <= '9'
}
