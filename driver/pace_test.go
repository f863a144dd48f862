package driver

import (
	"math"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

// Whatever the seed: pauses and paths stay within their bounds, the path ends
// exactly at its goal, goes on no farther than an overshoot, and the same seed
// gives the same path.
func TestHumanPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		coord := rapid.Float64Range(0, 3000)
		from := point{coord.Draw(t, "x0"), coord.Draw(t, "y0")}
		to := point{coord.Draw(t, "x1"), coord.Draw(t, "y1")}
		size := rapid.Float64Range(1, 500).Draw(t, "size")
		p := newPace(true, seed)
		path := p.path(from, to, size)
		assert.Equal(t, path[len(path)-1], to)
		assert.Assert(t, len(path) <= int(maxTravel/frameStep)+1)
		dist := math.Hypot(to.x-from.x, to.y-from.y)
		for _, at := range path {
			assert.Assert(t, at.x >= 0 && at.y >= 0)
			assert.Assert(t, math.Hypot(at.x-from.x, at.y-from.y) <= dist+260, "%v", at)
		}
		in := func(d, low, high time.Duration) { assert.Assert(t, d >= low && d <= high, d) }
		in(p.hold(), minHold, maxHold)
		in(p.dwell(), minDwell, maxDwell)
		in(p.between(), 60*time.Millisecond, 200*time.Millisecond)
		hold, gap := p.key(rapid.Rune().Draw(t, "rune"))
		in(hold, minKeyHold, maxKeyHold)
		in(gap, minKey, maxKey)
		u, v := p.spread()
		assert.Assert(t, u >= 0.3 && u <= 0.7 && v >= 0.3 && v <= 0.7)
		assert.Assert(t, slices.Equal(newPace(true, seed).path(from, to, size), path))
	})
}

func TestFastPace(t *testing.T) {
	p := newPace(false, 1)
	assert.Assert(t, slices.Equal(p.path(point{0, 0}, point{500, 500}, 20), []point{{500, 500}}))
	hold, gap := p.key('a')
	assert.Equal(t, p.hold()+p.dwell()+p.between()+hold+gap, time.Duration(0))
}
