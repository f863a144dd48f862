package driver

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

// The characters of a text make up the text, and what a person sees as one
// stays together.
func TestCharacters(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"ab c", "a|b| |c"}, {"e\u0301x", "e\u0301|x"}, {"👩‍👩‍👧‍👦a", "👩‍👩‍👧‍👦|a"}, {"🇦🇹🇩🇪", "🇦🇹|🇩🇪"}, {"👍🏽!", "👍🏽|!"}, {"1️⃣2", "1️⃣|2"},
		{"a\nb\r\tc", "a|\n|b|\r|\t|c"}, {"한국", "한|국"}, {"\u1112\u1161\u11ab\u1100", "\u1112\u1161\u11ab|\u1100"}, {"\n\u0301", "\n|\u0301"}, {"", ""},
	} {
		assert.Equal(t, strings.Join(slices.Collect(characters(tt.text)), "|"), tt.want)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		parts := slices.Collect(characters(text))
		assert.Equal(t, strings.Join(parts, ""), text)
		assert.Assert(t, !slices.Contains(parts, ""))
	})
}

// However the wheel is turned, the whole distance is turned, and never back.
func TestWheelShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.IntRange(1, 40).Draw(t, "steps")
		list := wheelShares(steps, newPace(rapid.Bool().Draw(t, "human"), 1))
		assert.Equal(t, len(list), steps)
		assert.Equal(t, list[steps-1], 1.0)
		assert.Assert(t, slices.IsSorted(list))
	})
}

// A swipe ends where it was asked to, and stays on its way.
func TestSwipePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(0, 2000)
		from, to := point{f.Draw(t, "x"), f.Draw(t, "y")}, point{f.Draw(t, "x2"), f.Draw(t, "y2")}
		steps := rapid.IntRange(1, 40).Draw(t, "steps")
		list := swipePath(from, to, steps, newPace(rapid.Bool().Draw(t, "human"), 1))
		assert.Equal(t, len(list), steps)
		last := list[steps-1]
		assert.Assert(t, math.Hypot(last.x-to.x, last.y-to.y) < 1e-6)
		for _, s := range list {
			assert.Assert(t, s.x >= min(from.x, to.x)-1e-6 && s.x <= max(from.x, to.x)+1e-6)
		}
	})
}

func TestToward(t *testing.T) {
	assert.Equal(t, toward(point{0, 0}, point{30, 40}, 5), point{3, 4})
	assert.Equal(t, toward(point{1, 1}, point{2, 1}, 6), point{2, 1})
	assert.Equal(t, toward(point{1, 1}, point{1, 1}, 6), point{1, 1})
}
