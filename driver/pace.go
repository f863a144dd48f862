package driver

import (
	"math"
	"math/rand/v2"
	"time"
)

// pace is how quickly input is given: fast has as few events as are still
// complete, human has the paths and pauses of a hand. All of its values come
// from one seeded generator and lie within bounds.
type pace struct {
	human bool
	rng   *rand.Rand
}

func newPace(human bool, seed uint64) *pace {
	return &pace{human: human, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
}

// Bounds of the human pace.
const (
	frameStep   = 16 * time.Millisecond
	minTravel   = 120 * time.Millisecond
	maxTravel   = 900 * time.Millisecond
	minHold     = 45 * time.Millisecond
	maxHold     = 160 * time.Millisecond
	minDwell    = 60 * time.Millisecond
	maxDwell    = 260 * time.Millisecond
	minKey      = 25 * time.Millisecond // from key to key
	maxKey      = 170 * time.Millisecond
	minKeyHold  = 20 * time.Millisecond
	maxKeyHold  = 110 * time.Millisecond
	humanTyping = 400 // characters that are typed one by one; more is pasted
)

// point is a place in the viewport of the main frame, in CSS pixels.
type point struct{ x, y float64 }

// normal is a random value around mean, within the bounds.
func (p *pace) normal(mean, spread, low, high time.Duration) time.Duration {
	d := time.Duration(float64(mean) + p.rng.NormFloat64()*float64(spread))
	return min(max(d, low), high)
}

// hold is how long a button stays pressed; 0 when fast.
func (p *pace) hold() time.Duration {
	if !p.human {
		return 0
	}
	return p.normal(85*time.Millisecond, 20*time.Millisecond, minHold, maxHold)
}

// dwell is the pause between arriving and pressing; 0 when fast.
func (p *pace) dwell() time.Duration {
	if !p.human {
		return 0
	}
	return p.normal(120*time.Millisecond, 45*time.Millisecond, minDwell, maxDwell)
}

// between is the pause between two clicks of a double click; 0 when fast.
func (p *pace) between() time.Duration {
	if !p.human {
		return 0
	}
	return p.normal(110*time.Millisecond, 25*time.Millisecond, 60*time.Millisecond, 200*time.Millisecond)
}

// key is how long a key is held, and the pause after it before the next.
func (p *pace) key(after rune) (hold, gap time.Duration) {
	if !p.human {
		return 0, 0
	}
	hold = p.normal(65*time.Millisecond, 15*time.Millisecond, minKeyHold, maxKeyHold)
	mean := 75 * time.Millisecond
	switch after {
	case ' ', '.', ',', '\n', '!', '?', ';', ':':
		mean = 110 * time.Millisecond
	}
	return hold, p.normal(mean, 28*time.Millisecond, minKey, maxKey)
}

// spread is where in the middle of a box the hand lands, each in 0.3 to 0.7.
func (p *pace) spread() (u, v float64) {
	at := func() float64 { return min(max(0.5+p.rng.NormFloat64()*0.08, 0.3), 0.7) }
	return at(), at()
}

// path is the way of the pointer to its goal, one point a frame, the goal
// last. Fast is the goal alone. A human's is a slightly bent line with the
// speed of a hand: slow, fast, slow, and now and then a small overshoot.
func (p *pace) path(from, to point, size float64) []point {
	if !p.human {
		return []point{to}
	}
	dx, dy := to.x-from.x, to.y-from.y
	dist := math.Hypot(dx, dy)
	if dist < 1 {
		return []point{to}
	}
	// Fitts: the time grows with distance over size.
	travel := time.Duration((0.09 + 0.085*math.Log2(dist/max(size, 8)+1)) * float64(time.Second))
	travel = p.normal(travel, travel/8, minTravel, maxTravel)
	steps := int(travel / frameStep)
	bend := p.rng.NormFloat64() * min(dist*0.08, 40)
	nx, ny := -dy/dist, dx/dist
	over := 0.0
	if dist > 200 && p.rng.Float64() < 0.25 {
		over = min(2+p.rng.Float64()*6, size/2)
	}
	points := make([]point, 0, steps+1)
	for i := 1; i < steps; i++ {
		s := float64(i) / float64(steps)
		e := s * s * s * (s*(s*6-15) + 10) // minimum jerk
		arc := 4 * e * (1 - e) * bend
		along := e * (dist + over)
		jitter := p.rng.NormFloat64() * 0.4
		points = append(points, point{
			x: max(from.x+dx/dist*along+nx*(arc+jitter), 0),
			y: max(from.y+dy/dist*along+ny*(arc+jitter), 0)})
	}
	return append(points, to)
}
