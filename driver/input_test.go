package driver

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

// A map and its inverse undo each other, and composition is what it says.
func TestAffine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(-4, 4)
		draw := func() affine {
			return affine{f.Draw(t, "a"), f.Draw(t, "b"), f.Draw(t, "c"), f.Draw(t, "d"), 100 * f.Draw(t, "e"), 100 * f.Draw(t, "f")}
		}
		m, n := draw(), draw()
		p := point{100 * f.Draw(t, "x"), 100 * f.Draw(t, "y")}
		near := func(a, b point) { assert.Assert(t, math.Hypot(a.x-b.x, a.y-b.y) < 1e-3, "%v %v", a, b) }
		near(m.after(n).apply(p), m.apply(n.apply(p)))
		if math.Abs(m.a*m.d-m.b*m.c) > 1e-3 {
			back, ok := m.inverse()
			assert.Assert(t, ok)
			near(back.apply(m.apply(p)), p)
		}
	})
	_, ok := affine{a: 1, b: 2, c: 2, d: 4}.inverse()
	assert.Assert(t, !ok)
}

// Whatever changed, the account for a reader stays within its bound.
func TestReceiptTextIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := rapid.StringN(0, 600, -1)
		r := Receipt{ObservedChanges: []string{"url", "page"}, URLChanged: true, URLAfter: long.Draw(t, "url"), TitleChanged: true, Title: long.Draw(t, "title"),
			FocusChanged: true, Focus: long.Draw(t, "focus"), Dialog: &Dialog{Type: "alert", Message: long.Draw(t, "dialog")}, Busy: true}
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			r.Changes = append(r.Changes, StateChange{What: "value", Of: long.Draw(t, "of"), Before: long.Draw(t, "before"), After: long.Draw(t, "after")})
			r.Appeared = append(r.Appeared, Thing{Ref: "el-1", Role: "button", Name: long.Draw(t, "appeared")})
		}
		text := r.text("click")
		assert.Assert(t, utf8.RuneCountInString(text) <= maxReceipt, "%d", utf8.RuneCountInString(text))
		assert.Assert(t, strings.HasPrefix(text, "click completed: url, page"))
	})
}

func TestSameDocument(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"http://a/b", "http://a/b#c", true}, {"http://a/b#x", "http://a/b#", true}, {"http://a/b", "http://a/b", false}, {"http://a/b#x", "http://a/c#x", false},
	} {
		assert.Equal(t, sameDocument(tt.from, tt.to), tt.want, "%v", tt)
	}
}
