package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	for b.Loop() {
		began := time.Now()
		run()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*9/10].Microseconds())/1000, "p90-ms")
	b.ReportMetric(float64(size), "value-bytes")
}

func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{600, 6000, 30000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { bench(b, fmt.Sprintf("_/huge?n=%d", n), "", "page.snapshot", `{}`) })
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
	texts, _, err := tab.runNodes(context.Background(), f, "walk", map[string]any{"rows": maxRows, "ms": mainWalkMs, "text": maxText, "chars": maxTexts, "hosts": maxHosts})
	assert.NilError(b, err)
	b.ReportMetric(float64(len(strings.Join(texts, ""))), "walk-bytes")
	b.ReportAllocs()
	for b.Loop() {
		v := &view{sx: 1, sy: 1}
		assert.NilError(b, json.Unmarshal([]byte(texts[0]), &v.meta))
		v.rows, v.rel, err = decodeRows(&v.meta, texts[1], texts[2], texts[3], texts[4])
		assert.NilError(b, err)
		v.cx1, v.cy1 = float64(v.meta.VW), float64(v.meta.VH)
		sc := &scene{views: []*view{v}}
		sv := sc.survey()
		named(sv.actions)
		sc.blocks()
	}
}
