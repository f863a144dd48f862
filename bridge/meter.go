package bridge

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pi-chrome/bridge/wire"
)

// maxSeries bounds the label sets of one counter or histogram. What comes
// beyond is counted under "other", so that no input makes the list grow.
const maxSeries = 512

// meter counts what the owner does, for [Server.serveMetrics]. Everything in it
// may be called from many goroutines; nothing in it waits for I/O.
type meter struct {
	commands counters   // operation, outcome
	failures counters   // kind, code
	took     histograms // operation
	waited   histograms // "": from a command's entry to its start

	refusals counters // path, code: of handshakes
	resets   counters // reason, ""
	attaches counters // outcome, ""

	journal       histograms // "": one durable write
	journalErrors atomic.Uint64
	auditLines    atomic.Uint64
	auditErrors   atomic.Uint64

	tabLoop, readLoop, hookLoop loopMeter
}

// loopMeter measures how busy the goroutines of one kind are.
type loopMeter struct {
	running atomic.Int64 // goroutines
	busy    atomic.Int64 // nanoseconds of all of them together
	turns   atomic.Uint64
}

// turn notes one turn of work that began at start, and returns the time now.
func (l *loopMeter) turn(start time.Time) time.Time {
	now := time.Now()
	l.busy.Add(int64(now.Sub(start)))
	l.turns.Add(1)
	return now
}

// enter counts a goroutine until leave is called.
func (l *loopMeter) enter() (leave func()) {
	l.running.Add(1)
	return func() { l.running.Add(-1) }
}

type seriesKey [2]string

// counters are numbers that only rise, by two labels.
type counters struct {
	mu sync.Mutex
	by map[seriesKey]uint64
}

func (c *counters) add(a, b string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[seriesKey]uint64{}
	}
	k := seriesKey{a, b}
	if _, known := c.by[k]; !known && len(c.by) >= maxSeries {
		k = seriesKey{"other", "other"}
	}
	c.by[k]++
}

func (c *counters) value(a, b string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[seriesKey{a, b}]
}

type countedSeries struct {
	key seriesKey
	n   uint64
}

// all are the series, sorted by their labels.
func (c *counters) all() []countedSeries {
	c.mu.Lock()
	list := make([]countedSeries, 0, len(c.by))
	for k, n := range c.by {
		list = append(list, countedSeries{k, n})
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(x, y countedSeries) int { return slices.Compare(x.key[:], y.key[:]) })
	return list
}

// secondBuckets are the upper bounds of every histogram, in seconds.
var secondBuckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// histogram counts durations: each in one bucket, the last for what is longer
// than every bound.
type histogram struct {
	label   string
	buckets [len(secondBuckets) + 1]uint64
	sum     time.Duration
}

// histograms are durations by one label.
type histograms struct {
	mu sync.Mutex
	by map[string]*histogram
}

func (h *histograms) observe(label string, d time.Duration) {
	i, _ := slices.BinarySearchFunc(secondBuckets[:], d.Seconds(), cmp.Compare)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string]*histogram{}
	}
	if h.by[label] == nil {
		if len(h.by) >= maxSeries {
			label = "other"
		}
		if h.by[label] == nil {
			h.by[label] = &histogram{label: label}
		}
	}
	h.by[label].buckets[i]++
	h.by[label].sum += d
}

func (h *histograms) all() []histogram {
	h.mu.Lock()
	list := make([]histogram, 0, len(h.by))
	for _, one := range h.by {
		list = append(list, *one)
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(x, y histogram) int { return cmp.Compare(x.label, y.label) })
	return list
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// command counts one command that is over.
func (m *meter) command(operation string, r wire.Result) {
	outcome := "ok"
	if r.Error != nil {
		outcome = r.Error.Kind
		m.failures.add(r.Error.Kind, r.Error.Code)
	}
	m.commands.add(operation, outcome)
}
