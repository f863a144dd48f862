package driver

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// peak runs fn and returns how much memory the process had at most while it
// ran, beyond what it had before: what the heap took from the system, which
// its free parts are in.
func peak(fn func()) uint64 {
	used := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	runtime.GC()
	runtime.GC()
	before, most := used(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, used())
			}
		}
	}()
	fn()
	close(stop)
	<-done
	return max(most, used(), before) - before
}

// A large page costs the driver little, while it is looked at and after.
func BenchmarkSnapshotMemory(b *testing.B) {
	for _, n := range []int{6000, 30_000, 100_000, 200_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := New(nil)
			b.Cleanup(d.Close)
			p := drivertest.Page(b)
			drivertest.Goto(b, p, drivertest.Server(b).URL(fmt.Sprintf("_/huge?n=%d", n)))
			look := func() {
				_, err := d.Run(b.Context(), "page.snapshot", &Call{ID: "x", Session: op.Session{Key: "x"}, Conn: p}, []byte(`{}`))
				assert.NilError(b, err)
			}
			look()
			var most uint64
			for b.Loop() {
				most = max(most, peak(look))
			}
			b.ReportMetric(float64(most)/(1<<20), "peak-MB")
		})
	}
}
