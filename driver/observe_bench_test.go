package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// bench runs an operation on a page again and again and reports the median.
func bench(b *testing.B, page, prepare, operation, input string) {
	d := New(nil)
	b.Cleanup(d.Close)
	p := drivertest.Page(b)
	drivertest.Goto(b, p, drivertest.Server(b).URL(page))
	if prepare != "" {
		drivertest.Eval(b, p, prepare)
	}
	run := func() op.Result {
		res, err := d.Run(context.Background(), operation, &Call{ID: "bench", Session: op.Session{Key: "bench"}, Conn: p}, json.RawMessage(input))
		assert.NilError(b, err)
		return res
	}
	var size int
	for range 3 {
		size = len(run().Value)
	}
	var times []time.Duration
	measure := func() {
		began := time.Now()
		run()
		times = append(times, time.Since(began))
	}
	for b.Loop() {
		measure()
	}
	// Every second look at a large page pays for the page's collector: a second
	// is not long enough for a median.
	for len(times) < 11 && times[0] < time.Second {
		measure()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*9/10].Microseconds())/1000, "p90-ms")
	b.ReportMetric(float64(size), "value-bytes")
}

// A snapshot of 80 actions, of a page that stands still and of one that has
// just changed. Nothing may grow faster than the page.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{600, 6000, 30_000, 100_000, 200_000} {
		page := fmt.Sprintf("_/huge?n=%d", n)
		b.Run(fmt.Sprint(n), func(b *testing.B) { bench(b, page, "", "page.snapshot", `{}`) })
		if n <= 30_000 {
			b.Run(fmt.Sprint(n, "-changed"), func(b *testing.B) {
				bench(b, page, `setInterval(() => { const li = document.querySelector("li"); li.append(li.firstChild); li.lastChild.textContent += "."; }, 5); 1`, "page.snapshot", `{}`)
			})
		}
	}
}

// What one getFullAXTree of the same page takes, for the ratio: both are asked
// in turn, so that what else the machine does tells on both. Each has a tab of
// its own: a page whose accessibility tree Chrome keeps is slower to walk, and
// who takes snapshots does not have it kept.
func BenchmarkSnapshotAgainstAXTree(b *testing.B) {
	for _, n := range []int{6000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := New(nil)
			b.Cleanup(d.Close)
			p, q := drivertest.Page(b), drivertest.Page(b)
			for _, tab := range []Conn{p, q} {
				drivertest.Goto(b, tab, drivertest.Server(b).URL(fmt.Sprintf("_/huge?n=%d", n)))
			}
			snapshot := func(of Conn) {
				_, err := d.Run(context.Background(), "page.snapshot", &Call{ID: "bench", Session: op.Session{Key: "bench"}, Conn: of}, json.RawMessage(`{}`))
				assert.NilError(b, err)
			}
			tree := func() {
				_, err := call(b.Context(), q, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
				assert.NilError(b, err)
			}
			snapshot(p)
			snapshot(q)
			tab, err := d.tab(q)
			assert.NilError(b, err)
			assert.NilError(b, tab.leaseFrames(b.Context())) // Chrome's tree waits for a frame
			_, err = call(b.Context(), q, accessibility.Enable, cdp.Empty{})
			assert.NilError(b, err)
			tree()
			var ours, chromes []time.Duration
			for b.Loop() {
				for range 5 { // one tree alone takes longer than a benchmark
					began := time.Now()
					snapshot(p)
					ours = append(ours, time.Since(began))
					began = time.Now()
					tree()
					chromes = append(chromes, time.Since(began))
				}
			}
			slices.Sort(ours)
			slices.Sort(chromes)
			mine, other := ours[len(ours)/2], chromes[len(chromes)/2]
			b.ReportMetric(float64(mine.Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(other.Microseconds())/1000, "axtree-p50-ms")
			b.ReportMetric(float64(other)/float64(mine), "x-faster")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	article := `document.body.innerHTML = Array.from({length: 100}, (_, i) => "<h2>Part " + i + "</h2><p>" + ` + "`${\"word \".repeat(100)}`" + ` + "</p>").join(""); 1`
	b.Run("article", func(b *testing.B) { bench(b, "snapshot/empty.html", article, "page.read", `{}`) })
	b.Run("6000", func(b *testing.B) { bench(b, "_/huge?n=6000", "", "page.read", `{}`) })
}

// What Go does with the columns of a page of 6,000 elements.
func BenchmarkClassify(b *testing.B) {
	d := New(nil)
	b.Cleanup(d.Close)
	p := drivertest.Page(b)
	drivertest.Goto(b, p, drivertest.Server(b).URL("_/huge?n=6000"))
	tab, err := d.tab(p)
	assert.NilError(b, err)
	assert.NilError(b, tab.ready(context.Background(), "page.snapshot"))
	f, err := tab.mainFrame()
	assert.NilError(b, err)
	told, done := tab.hearWalk(context.Background(), f)
	defer done()
	texts, _, err := tab.runNodes(context.Background(), f, "walk", map[string]any{"rows": maxRows, "ms": mainWalkMs, "text": maxText, "chars": maxTexts, "hosts": maxHosts, "tell": told.id, "told": maxTold})
	assert.NilError(b, err)
	var meta walkMeta
	assert.NilError(b, json.Unmarshal([]byte(texts[0]), &meta))
	lists, err := tab.walkParts(context.Background(), f, &meta, told)
	assert.NilError(b, err)
	b.ReportMetric(float64(len(strings.Join(lists, ""))), "walk-bytes")
	b.ReportAllocs()
	for b.Loop() {
		v := &view{sx: 1, sy: 1}
		assert.NilError(b, json.Unmarshal([]byte(texts[0]), &v.meta))
		v.rows, v.rel, err = decodeRows(&v.meta, lists[0], lists[1], lists[2], lists[3])
		assert.NilError(b, err)
		v.cx1, v.cy1 = float64(v.meta.VW), float64(v.meta.VH)
		sc := &scene{views: []*view{v}}
		sv := sc.survey()
		named(sv.actions)
		sc.blocks()
	}
}
