package relaytest

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

//go:embed testdata/many_tabs.js
var manyTabsJS string

// listedTabs is how many tabs the browser of BenchmarkTabList has; every third
// of them was discarded.
const listedTabs = 300

// BenchmarkTabList lists a browser of 300 tabs, and asks Chrome for the same
// from within the extension's worker.
func BenchmarkTabList(b *testing.B) {
	l := Start(b, false)
	s := l.Session(b)
	w := &worker{browser: l.Browser}
	var made int
	assert.NilError(b, w.eval(b.Context(), fmt.Sprintf("(%s)(%d, %q)", manyTabsJS, listedTabs, l.URL+"/navigate/plain.html"), &made))
	assert.Equal(b, made, listedTabs/3)
	// In turn, so that both have the same machine.
	var listed, queried []time.Duration
	for b.Loop() {
		began := time.Now()
		assert.Equal(b, len(valueOf[[]op.Tab](b, s.Do("tab.list", map[string]any{}))), 200)
		listed = append(listed, time.Since(began))
		var ms float64
		assert.NilError(b, w.eval(b.Context(), "(from => chrome.tabs.query({}).then(() => performance.now() - from))(performance.now())", &ms))
		queried = append(queried, time.Duration(ms*float64(time.Millisecond)))
	}
	b.ReportMetric(p50(listed), "p50-ms")
	b.ReportMetric(p50(queried), "tabs.query-p50-ms")
	var asleep int
	assert.NilError(b, w.eval(b.Context(), `chrome.tabs.query({discarded: true}).then((all) => all.length)`, &asleep))
	assert.Equal(b, asleep, made, "listing woke a tab")
}
