package relaytest

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

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
	assert.NilError(b, w.eval(b.Context(), fmt.Sprintf(`(async () => {
		const ids = [];
		for (let n = 0; n < %d; n++) ids.push((await chrome.tabs.create({url: "%s/navigate/plain.html?" + n, active: false})).id);
		while ((await chrome.tabs.query({status: "loading"})).length) await new Promise((done) => setTimeout(done, 100));
		for (let n = 0; n < ids.length; n += 3) await chrome.tabs.discard(ids[n]);
		return (await chrome.tabs.query({discarded: true})).length;
	})()`, listedTabs, l.URL), &made))
	assert.Equal(b, made, listedTabs/3)
	// In turn, so that both have the same machine.
	var listed, queried []time.Duration
	for b.Loop() {
		began := time.Now()
		assert.Equal(b, len(valueOf[[]op.Tab](b, s.Do("tab.list", map[string]any{}))), 200)
		listed = append(listed, time.Since(began))
		var ms float64
		assert.NilError(b, w.eval(b.Context(), `(async () => { const from = performance.now(); await chrome.tabs.query({}); return performance.now() - from; })()`, &ms))
		queried = append(queried, time.Duration(ms*float64(time.Millisecond)))
	}
	b.ReportMetric(p50(listed), "p50-ms")
	b.ReportMetric(p50(queried), "tabs.query-p50-ms")
	var asleep int
	assert.NilError(b, w.eval(b.Context(), `chrome.tabs.query({discarded: true}).then((all) => all.length)`, &asleep))
	assert.Equal(b, asleep, made, "listing woke a tab")
}
