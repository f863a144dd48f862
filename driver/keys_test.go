package driver

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/op"
)

func TestParseChord(t *testing.T) {
	for _, tt := range []struct {
		in   string
		held int64
		name string
		code string
		vk   int64
	}{
		{"a", 0, "a", "KeyA", 65},
		{"A", 0, "Shift+A", "KeyA", 65},
		{"7", 0, "7", "Digit7", 55},
		{".", 0, ".", "Period", 190},
		{"-", 0, "-", "Minus", 189},
		{"+", 0, "Shift++", "Equal", 187},
		{"Plus", 0, "Shift++", "Equal", 187},
		{"?", 0, "Shift+?", "Slash", 191},
		{" ", 0, "Space", "Space", 32},
		{"space", 0, "Space", "Space", 32},
		{"enter", 0, "Enter", "Enter", 13},
		{"RETURN", 0, "Enter", "Enter", 13},
		{"esc", 0, "Escape", "Escape", 27},
		{"PgDn", 0, "PageDown", "PageDown", 34},
		{"home", 0, "Home", "Home", 36},
		{"Insert", 0, "Insert", "Insert", 45},
		{"del", 0, "Delete", "Delete", 46},
		{"up", 0, "ArrowUp", "ArrowUp", 38},
		{"f1", 0, "F1", "F1", 112},
		{"F24", 0, "F24", "F24", 135},
		{"numpad7", 0, "Numpad7", "Numpad7", 103},
		{"numpad+", 0, "NumpadAdd", "NumpadAdd", 107},
		{"NumpadEnter", 0, "NumpadEnter", "NumpadEnter", 13},
		{"KeyK", 0, "k", "KeyK", 75},
		{"Control+Shift+K", 0, "Control+Shift+K", "KeyK", 75},
		{"ctrl+shift+k", 0, "Control+Shift+K", "KeyK", 75},
		{"Control+K", 0, "Control+K", "KeyK", 75},
		{"cmd+a", 0, "Meta+A", "KeyA", 65},
		{"Ctrl++", 0, "Control+Shift++", "Equal", 187},
		{"Alt+Numpad+", 0, "Alt+NumpadAdd", "NumpadAdd", 107},
		{"Shift+Tab", 0, "Shift+Tab", "Tab", 9},
		{"k", modControl | modShift, "Control+Shift+K", "KeyK", 75},
		{"Shift", 0, "Shift", "ShiftLeft", 16},
		{"ControlRight", 0, "Control", "ControlRight", 17},
		{"é", 0, "é", "", 0},
		{"👩‍👩‍👧", 0, "👩‍👩‍👧", "", 0},
		{"é", 0, "é", "", 0},
	} {
		t.Run(tt.in, func(t *testing.T) {
			c, err := parseChord(tt.in, tt.held)
			assert.NilError(t, err)
			assert.Equal(t, c.name(), tt.name)
			if c.literal == "" {
				assert.Equal(t, c.def.code, tt.code)
				assert.Equal(t, c.def.vk, tt.vk)
			}
		})
	}
}

func TestParseChordRefuses(t *testing.T) {
	for _, tt := range []struct {
		in   string
		code op.Code
		near string
	}{
		{"Hom", op.KeyUnknown, "Home"},
		{"pagedwn", op.KeyUnknown, "PageDown"},
		{"F25", op.KeyUnknown, "F2"},
		{"hello", op.KeyUnknown, ""},
		{"Control+", op.InvalidInput, ""},
		{"Control+Foo", op.KeyUnknown, ""},
		{"a+b", op.InvalidInput, ""},
		{"Control+é", op.InvalidInput, ""},
		{"éé", op.KeyUnknown, ""},
	} {
		t.Run(tt.in, func(t *testing.T) {
			_, err := parseChord(tt.in, 0)
			e, ok := errors.AsType[*op.Error](err)
			assert.Assert(t, ok, "%v", err)
			assert.Equal(t, e.Kind, op.Invalid)
			assert.Equal(t, e.Code, tt.code)
			assert.Assert(t, strings.Contains(e.Message, tt.near), e.Message)
		})
	}
}

// Every key of the table has a key code and a code, and types what it says.
func TestKeyTable(t *testing.T) {
	check := func(name string, d keyDef) {
		assert.Assert(t, d.vk > 0 && d.vk < 256, name)
		assert.Assert(t, d.code != "" && d.key != "", name)
		c, err := parseChord(name, 0)
		assert.NilError(t, err, name)
		assert.Equal(t, c.def.code, d.code, name)
		down, up := keyEvents(c, c.def, c.modifiers)
		assert.Equal(t, up.WindowsVirtualKeyCode, d.vk, name)
		if d.text != "" {
			assert.Assert(t, down.Text != "", name)
		}
	}
	for name, d := range charKeys {
		check(name, d)
	}
	for name, d := range namedKeys {
		check(name, d)
	}
	assert.Equal(t, len(namedKeys), 70)
	for alias, name := range keyAliases {
		_, named := namedKeys[name]
		_, char := charKeys[name]
		assert.Assert(t, named || char, alias)
	}
}

func TestEditCommands(t *testing.T) {
	for _, tt := range []struct {
		chord string
		mac   bool
		want  string
	}{
		{"Control+A", false, "selectAll"}, {"Control+V", false, "paste"}, {"Control+Shift+Z", false, "redo"}, {"Control+K", false, ""}, {"a", false, ""},
		{"Meta+A", true, "selectAll"}, {"Meta+Shift+Z", true, "redo"}, {"Control+A", true, ""}, {"Alt+Backspace", true, "deleteWordBackward"},
		{"Shift+ArrowLeft", true, "moveLeftAndModifySelection"}, {"Meta+ArrowDown", true, "moveToEndOfDocument"},
	} {
		c, err := parseChord(tt.chord, 0)
		assert.NilError(t, err)
		assert.Equal(t, strings.Join(editCommands(c, tt.mac), ","), tt.want, "%s mac=%v", tt.chord, tt.mac)
	}
}

// What a chord is called can be given again and is the same chord.
func TestChordNameRoundTrip(t *testing.T) {
	var names []string
	for name := range namedKeys {
		names = append(names, name)
	}
	for name := range charKeys {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "key")
		mods := rapid.Int64Range(0, 15).Draw(t, "modifiers")
		c, err := parseChord(name, mods)
		assert.NilError(t, err)
		again, err := parseChord(c.name(), 0)
		assert.NilError(t, err, c.name())
		assert.Equal(t, again.name(), c.name())
		if c.def.location != 2 { // the right-hand keys are told by key, not by side
			assert.Equal(t, again.def.code, c.def.code, c.name())
		}
	})
}

func FuzzParseChord(f *testing.F) {
	for _, s := range []string{"a", "Control+Shift+K", "++", "+", "Ctrl+", "numpad+", "é", "", "\xff", "+++a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseChord(s, 0)
		if err != nil {
			e, ok := errors.AsType[*op.Error](err)
			assert.Assert(t, ok && e.Kind == op.Invalid && len(e.Message) < 1000, "%v", err)
			return
		}
		assert.Assert(t, c.literal != "" || c.def.vk != 0)
	})
}
