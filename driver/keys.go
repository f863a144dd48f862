package driver

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pi-chrome/driver/op"
)

// keyDef is one key of a US keyboard.
type keyDef struct {
	key      string // KeyboardEvent.key without Shift
	shifted  string // with Shift; "" for the same
	code     string // KeyboardEvent.code
	vk       int64  // Windows virtual key code
	text     string // what it types without Shift; "" for nothing
	location int64  // 1 left, 2 right, 3 numeric pad
}

// Bits of the modifiers in Input.dispatchKeyEvent and dispatchMouseEvent.
const (
	modAlt     int64 = 1
	modControl int64 = 2
	modMeta    int64 = 4
	modShift   int64 = 8
)

// modifierKeys are the modifiers in the order in which they are pressed.
var modifierKeys = []struct {
	bit  int64
	name string
}{{modControl, "Control"}, {modAlt, "Alt"}, {modShift, "Shift"}, {modMeta, "Meta"}}

// namedKeys are the keys with a name, by their name in lower case.
var namedKeys = map[string]keyDef{}

// charKeys are the keys that type a character, by that character, shifted
// ones too.
var charKeys = map[string]keyDef{}

// keyAliases are other names for named keys, in lower case.
var keyAliases = map[string]string{
	"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "bksp": "backspace", "back": "backspace",
	"up": "arrowup", "down": "arrowdown", "left": "arrowleft", "right": "arrowright",
	"pgup": "pageup", "pgdn": "pagedown", "pgdown": "pagedown", "page_up": "pageup", "page_down": "pagedown",
	"ctrl": "control", "ctl": "control", "cmd": "meta", "command": "meta", "win": "meta", "windows": "meta", "super": "meta", "os": "meta",
	"option": "alt", "opt": "alt", "spacebar": "space", "capslk": "capslock", "prtsc": "printscreen", "menu": "contextmenu", "apps": "contextmenu",
	"break": "pause", "scrlk": "scrolllock", "numlk": "numlock",
	"numpad*": "numpadmultiply", "numpad+": "numpadadd", "numpad-": "numpadsubtract", "numpad.": "numpaddecimal", "numpad/": "numpaddivide",
	"plus": "+", "minus": "-", "comma": ",", "period": ".", "dot": ".", "slash": "/", "backslash": "\\", "semicolon": ";", "quote": "'",
	"equal": "=", "backquote": "`", "bracketleft": "[", "bracketright": "]",
	"shiftleft": "shift", "controlleft": "control", "altleft": "alt", "metaleft": "meta",
}

func init() {
	for c := 'a'; c <= 'z'; c++ {
		up := strings.ToUpper(string(c))
		d := keyDef{key: string(c), shifted: up, code: "Key" + up, vk: int64(c - 'a' + 'A'), text: string(c)}
		charKeys[string(c)], charKeys[up] = d, d
	}
	for i, shifted := range []string{")", "!", "@", "#", "$", "%", "^", "&", "*", "("} {
		c := string(rune('0' + i))
		d := keyDef{key: c, shifted: shifted, code: "Digit" + c, vk: int64('0' + i), text: c}
		charKeys[c], charKeys[shifted] = d, d
	}
	for _, p := range []struct {
		key, shifted, code string
		vk                 int64
	}{
		{";", ":", "Semicolon", 186}, {"=", "+", "Equal", 187}, {",", "<", "Comma", 188}, {"-", "_", "Minus", 189},
		{".", ">", "Period", 190}, {"/", "?", "Slash", 191}, {"`", "~", "Backquote", 192}, {"[", "{", "BracketLeft", 219},
		{"\\", "|", "Backslash", 220}, {"]", "}", "BracketRight", 221}, {"'", "\"", "Quote", 222},
	} {
		d := keyDef{key: p.key, shifted: p.shifted, code: p.code, vk: p.vk, text: p.key}
		charKeys[p.key], charKeys[p.shifted] = d, d
	}
	space := keyDef{key: " ", code: "Space", vk: 32, text: " "}
	charKeys[" "], namedKeys["space"] = space, space
	name := func(d keyDef) { namedKeys[strings.ToLower(d.key)] = d }
	name(keyDef{key: "Enter", code: "Enter", vk: 13, text: "\r"})
	for _, k := range []struct {
		key string
		vk  int64
	}{
		{"Backspace", 8}, {"Tab", 9}, {"Pause", 19}, {"CapsLock", 20}, {"Escape", 27}, {"PageUp", 33}, {"PageDown", 34}, {"End", 35}, {"Home", 36},
		{"ArrowLeft", 37}, {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}, {"PrintScreen", 44}, {"Insert", 45}, {"Delete", 46},
		{"Help", 47}, {"ContextMenu", 93}, {"NumLock", 144}, {"ScrollLock", 145},
	} {
		name(keyDef{key: k.key, code: k.key, vk: k.vk})
	}
	for i := int64(1); i <= 24; i++ {
		f := fmt.Sprintf("F%d", i)
		name(keyDef{key: f, code: f, vk: 111 + i})
	}
	for _, m := range []struct {
		key string
		vk  int64
	}{{"Shift", 16}, {"Control", 17}, {"Alt", 18}, {"Meta", 91}} {
		name(keyDef{key: m.key, code: m.key + "Left", vk: m.vk, location: 1})
		right := m.vk
		if m.key == "Meta" {
			right = 92
		}
		namedKeys[strings.ToLower(m.key)+"right"] = keyDef{key: m.key, code: m.key + "Right", vk: right, location: 2}
	}
	for i := range int64(10) {
		c := string(rune('0' + i))
		namedKeys["numpad"+c] = keyDef{key: c, code: "Numpad" + c, vk: 96 + i, text: c, location: 3}
	}
	for _, k := range []struct {
		name, key string
		vk        int64
	}{{"Multiply", "*", 106}, {"Add", "+", 107}, {"Subtract", "-", 109}, {"Decimal", ".", 110}, {"Divide", "/", 111}} {
		namedKeys["numpad"+strings.ToLower(k.name)] = keyDef{key: k.key, code: "Numpad" + k.name, vk: k.vk, text: k.key, location: 3}
	}
	namedKeys["numpadenter"] = keyDef{key: "Enter", code: "NumpadEnter", vk: 13, text: "\r", location: 3}
}

// chord is a key with the modifiers that are held while it is pressed.
type chord struct {
	def       keyDef
	modifiers int64
	// literal is text that no key of the table types: it is inserted.
	literal string
}

// name is how the chord is told: "Control+Shift+K".
func (c chord) name() string {
	var parts []string
	for _, m := range modifierKeys {
		if c.modifiers&m.bit != 0 {
			parts = append(parts, m.name)
		}
	}
	key := c.def.key
	switch {
	case c.literal != "":
		key = c.literal
	case c.def.code == "Space":
		key = "Space"
	case c.def.location == 3:
		key = c.def.code
	case c.modifiers&modShift != 0 && c.def.shifted != "":
		key = c.def.shifted
	case c.modifiers != 0 && len(key) == 1:
		key = strings.ToUpper(key)
	}
	return strings.Join(append(parts, key), "+")
}

// parseChord reads a key or a chord such as "Control+Shift+K". Names are taken
// in any case and with their common short forms. held are modifiers given
// beside it.
func parseChord(text string, held int64) (chord, error) {
	c := chord{modifiers: held}
	rest := text
	if strings.TrimSpace(rest) != "" {
		rest = strings.TrimSpace(rest)
	}
	for {
		// The first "+" that has something before it separates; one at the
		// start or a last one after another is the key itself.
		i := strings.IndexByte(rest, '+')
		if i <= 0 || i == len(rest)-1 {
			break
		}
		bit := modifierBit(rest[:i])
		if bit == 0 {
			if _, err := lookupKey(rest, text); err == nil {
				break // a name with a plus in it, such as "numpad+"
			}
			if _, err := lookupKey(rest[:i], text); err == nil {
				return chord{}, op.Invalidf("chrome_press: field %q is %q: %q is not a modifier; a chord is modifiers and one key, such as Control+Shift+K", "key", cut(text, 60), rest[:i])
			}
			return chord{}, unknownKey(rest[:i], text)
		}
		c.modifiers |= bit
		rest = rest[i+1:]
	}
	if strings.HasSuffix(rest, "+") && len(rest) > 1 && modifierBit(strings.TrimSuffix(rest, "+")) != 0 {
		return chord{}, op.Invalidf("chrome_press: field %q is %q, which ends with a modifier and no key", "key", cut(text, 60)).
			WithHint("name the key after the last plus; the plus key itself is written Plus")
	}
	found, err := lookupKey(rest, text)
	if err != nil {
		return chord{}, err
	}
	c.def, c.literal = found.def, found.literal
	if c.literal != "" && c.modifiers&^modShift != 0 {
		return chord{}, op.Invalidf("chrome_press: field %q is %q: no key of a US keyboard types %q, so it cannot be pressed with modifiers", "key", cut(text, 60), c.literal)
	}
	// A character that needs Shift is typed with it; a letter in a chord is
	// the key, whichever case it is written in.
	if found.modifiers != 0 && (c.modifiers&^modShift == 0 || !isLetter(c.def.key)) {
		c.modifiers |= found.modifiers
	}
	if bit := modifierBit(c.def.key); bit != 0 && c.literal == "" {
		c.modifiers &^= bit
	}
	return c, nil
}

func isLetter(key string) bool { return len(key) == 1 && key[0] >= 'a' && key[0] <= 'z' }

func modifierBit(name string) int64 {
	name = strings.ToLower(strings.TrimSpace(name))
	if alias, ok := keyAliases[name]; ok {
		name = alias
	}
	for _, m := range modifierKeys {
		if strings.ToLower(m.name) == name {
			return m.bit
		}
	}
	return 0
}

// lookupKey finds one key. whole is the input it came from, for the error.
func lookupKey(name, whole string) (chord, error) {
	if d, ok := charKeys[name]; ok {
		c := chord{def: d}
		if name == d.shifted && name != d.key {
			c.modifiers = modShift
		}
		return c, nil
	}
	lower := strings.ToLower(strings.TrimSpace(name))
	if alias, ok := keyAliases[lower]; ok {
		lower = alias
	}
	if d, ok := namedKeys[lower]; ok {
		return chord{def: d}, nil
	}
	if d, ok := charKeys[lower]; ok && lower != "" {
		c := chord{def: d}
		if lower == d.shifted && lower != d.key {
			c.modifiers = modShift
		}
		return c, nil
	}
	// Codes such as KeyA and Digit1 are names too.
	for _, d := range charKeys {
		if strings.ToLower(d.code) == lower {
			return chord{def: d}, nil
		}
	}
	if oneCharacter(name) {
		return chord{literal: name}, nil
	}
	return chord{}, unknownKey(name, whole)
}

// oneCharacter reports whether s is one character as a person sees it that is
// beyond ASCII.
func oneCharacter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError || r < 0x80 || len(s) > 64 && n < len(s) {
		return false
	}
	return characterEnd(s) == len(s)
}

// characters are the characters of a text as a person sees them: a letter with
// the marks after it, or an emoji put together from several.
func characters(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := characterEnd(text)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// characterEnd is where the first character of s ends. It is as much of
// Unicode's rules as input needs: marks, variation selectors, skin tones, tags,
// joiners, flags and Hangul.
func characterEnd(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	if first == '\r' || first == '\n' || first == '\t' {
		return n
	}
	joined, last := false, first
	flag := isFlag(first) // the second half of a flag may follow
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case r == 0x200d:
			joined = true
		case unicode.Is(unicode.Mn, r), unicode.Is(unicode.Me, r), unicode.Is(unicode.Mc, r), r >= 0x1f3fb && r <= 0x1f3ff, r >= 0xe0020 && r <= 0xe007f:
		case joined && r >= 0x80:
			joined = false
		case flag && isFlag(r):
			flag = false
		case hangul(last, r):
		default:
			return n
		}
		last = r
		n += size
	}
	return n
}

func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// hangul reports whether the two are letters of one Korean syllable.
func hangul(a, b rune) bool {
	lead := func(r rune) bool { return r >= 0x1100 && r <= 0x115f }
	vowel := func(r rune) bool { return r >= 0x1160 && r <= 0x11a7 }
	tail := func(r rune) bool { return r >= 0x11a8 && r <= 0x11ff }
	return lead(a) && (lead(b) || vowel(b)) || vowel(a) && (vowel(b) || tail(b)) || tail(a) && tail(b)
}

// unknownKey names the keys that come near.
func unknownKey(name, whole string) *op.Error {
	near := nearKeys(name, 6)
	e := op.Invalidf("chrome_press: field %q is %q: there is no key %q; near it are %s", "key", cut(whole, 60), cut(name, 40), strings.Join(near, ", "))
	e.Code = op.KeyUnknown
	return e.WithHint("use a character, a name such as Enter, PageDown, F5 or Numpad1, or a chord such as Control+Shift+K; text goes in with chrome_fill").
		WithDetail("key", cut(name, 100)).WithDetail("near", near)
}

// nearKeys are the names of keys that differ least from name.
func nearKeys(name string, n int) []string {
	lower := strings.ToLower(name)
	type scored struct {
		name  string
		score int
	}
	var all []scored
	seen := map[string]bool{}
	for key, d := range namedKeys {
		shown := d.key
		switch {
		case d.location > 1:
			shown = d.code
		case d.key == " ":
			shown = "Space"
		}
		score := editDistance(lower, key)
		if strings.HasPrefix(key, lower) || strings.Contains(key, lower) && len(lower) > 2 {
			score = 0
		}
		if !seen[shown] {
			seen[shown] = true
			all = append(all, scored{shown, score})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		if a.score != b.score {
			return a.score - b.score
		}
		return strings.Compare(a.name, b.name)
	})
	var names []string
	for _, s := range all[:min(n, len(all))] {
		names = append(names, s.name)
	}
	return names
}

// editDistance counts the letters to change between two short words.
func editDistance(a, b string) int {
	if len(a) > 40 {
		a = a[:40]
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// editCommands are Chrome's editing commands for a chord, which it does not
// derive from key events that arrive over the protocol on every platform.
func editCommands(c chord, mac bool) []string {
	mods := c.modifiers
	if mac {
		if mods == modMeta || mods == modMeta|modShift {
			if cmd := macMeta[c.def.code]; cmd != "" {
				return []string{withSelection(cmd, mods)}
			}
		}
		if mods == modAlt || mods == modAlt|modShift {
			if cmd := macAlt[c.def.code]; cmd != "" {
				return []string{withSelection(cmd, mods)}
			}
		}
		if mods == 0 || mods == modShift {
			if cmd := macPlain[c.def.code]; cmd != "" {
				return []string{withSelection(cmd, mods)}
			}
		}
		mods = swapMeta(mods)
	}
	switch {
	case mods == modControl:
		if cmd := controlCommands[c.def.code]; cmd != "" {
			return []string{cmd}
		}
	case mods == modControl|modShift && c.def.code == "KeyZ":
		return []string{"redo"}
	case mods == modControl|modShift && c.def.code == "KeyV":
		return []string{"pasteAndMatchStyle"}
	}
	return nil
}

func swapMeta(mods int64) int64 {
	if mods&modMeta != 0 {
		return mods&^modMeta | modControl
	}
	return mods &^ modControl
}

func withSelection(cmd string, mods int64) string {
	if mods&modShift != 0 && strings.HasPrefix(cmd, "move") {
		return cmd + "AndModifySelection"
	}
	return cmd
}

var controlCommands = map[string]string{"KeyA": "selectAll", "KeyC": "copy", "KeyX": "cut", "KeyV": "paste", "KeyZ": "undo", "KeyY": "redo"}

var (
	macPlain = map[string]string{"ArrowLeft": "moveLeft", "ArrowRight": "moveRight", "ArrowUp": "moveUp", "ArrowDown": "moveDown",
		"Home": "scrollToBeginningOfDocument", "End": "scrollToEndOfDocument", "PageUp": "scrollPageUp", "PageDown": "scrollPageDown",
		"Backspace": "deleteBackward", "Delete": "deleteForward"}
	macAlt = map[string]string{"ArrowLeft": "moveWordLeft", "ArrowRight": "moveWordRight", "ArrowUp": "moveParagraphBackward", "ArrowDown": "moveParagraphForward",
		"Backspace": "deleteWordBackward", "Delete": "deleteWordForward"}
	macMeta = map[string]string{"ArrowLeft": "moveToLeftEndOfLine", "ArrowRight": "moveToRightEndOfLine", "ArrowUp": "moveToBeginningOfDocument", "ArrowDown": "moveToEndOfDocument",
		"Backspace": "deleteToBeginningOfLine"}
)
