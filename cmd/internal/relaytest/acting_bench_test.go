package relaytest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/direct"
)

// lastEvent has the page note when it took in the last input event, in
// milliseconds since 1970.
const lastEvent = `["mouseup", "keyup", "input"].forEach((type) => addEventListener(type, (e) => { globalThis.lastInput = performance.timeOrigin + e.timeStamp }, true))`

// acted runs the input again and again, and reports the receipt and the last
// input event as a program sees them.
func (s *Session) acted(b *testing.B, operation string, input map[string]any) {
	s.Do("page.evaluate", map[string]any{"expression": lastEvent})
	var events []time.Duration
	timed(b, func() {
		began := time.Now()
		_, err := s.as(input["foreground"] == true, operation, without(input, "foreground"))
		assert.NilError(b, err)
		b.StopTimer()
		at, err := strconv.ParseFloat(string(s.Do("page.evaluate", map[string]any{"expression": "globalThis.lastInput"}).Value), 64)
		assert.NilError(b, err)
		events = append(events, time.Duration((at-float64(began.UnixMicro())/1000)*float64(time.Millisecond)))
		b.StartTimer()
	})
	b.ReportMetric(p50(events), "last-event-p50-ms")
}

func without(input map[string]any, field string) map[string]any {
	out := map[string]any{}
	for k, v := range input {
		if k != field {
			out[k] = v
		}
	}
	return out
}

// BenchmarkActing is what an agent waits for when it acts, over the whole path:
// clicks on pages of several sizes, hidden and shown, by a ref whose element
// stands where its snapshot saw it and by a selector, fills, and evaluations.
func BenchmarkActing(b *testing.B) {
	l := Start(b, false)
	s := l.Session(b)
	for _, n := range []int{600, 6000, 30000} {
		for _, shown := range []bool{false, true} {
			for _, by := range []string{"ref", "selector"} {
				b.Run(fmt.Sprintf("click-%d/%s/%s", n, map[bool]string{false: "hidden", true: "shown"}[shown], by), func(b *testing.B) {
					s.t = b
					s.Open(fmt.Sprintf("%s/_/huge?n=%d", l.URL, n))
					s.Do("page.evaluate", map[string]any{"expression": `document.body.insertAdjacentHTML("afterbegin", "<button id=here>Press here</button>")`})
					input := map[string]any{"selector": "#here", "foreground": shown}
					if by == "ref" {
						input = map[string]any{"ref": s.Ref("Press here"), "foreground": shown}
					}
					s.acted(b, "input.click", input)
				})
			}
		}
	}
	for _, n := range []int{20, 20000} {
		b.Run(fmt.Sprintf("fill-%d", n), func(b *testing.B) {
			s.t = b
			s.Open(l.URL + "/input/long-fill.html")
			s.acted(b, "input.fill", map[string]any{"selector": "#area", "text": strings.Repeat("0123456789", n/10)})
		})
	}
	b.Run("evaluate", func(b *testing.B) {
		s.t = b
		timed(b, func() { s.Do("page.evaluate", map[string]any{"expression": "1+1"}) })
	})
	s.t = b
}

// BenchmarkNavigate goes to a page on this machine, in turn with chromedp's own
// Navigate in a browser of its own, and reports the ratio.
func BenchmarkNavigate(b *testing.B) {
	binary, err := direct.Find()
	assert.NilError(b, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(b.Context(), options...)
	defer cancel()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	l := Start(b, false)
	s := l.Session(b)
	url := func(i int) string { return fmt.Sprintf("%s/navigate/plain.html?n=%d", l.URL, i) }
	assert.NilError(b, chromedp.Do(ctx, chromedp.Navigate(url(0))))
	s.Open(url(0))
	var ours, theirs []time.Duration
	for i := 1; b.Loop(); i++ {
		began := time.Now()
		s.Do("page.navigate", map[string]any{"url": url(i)})
		ours = append(ours, time.Since(began))
		began = time.Now()
		assert.NilError(b, chromedp.Do(ctx, chromedp.Navigate(url(i))))
		theirs = append(theirs, time.Since(began))
	}
	a, c := p50(ours), p50(theirs)
	b.ReportMetric(a, "p50-ms")
	b.ReportMetric(c, "chromedp-p50-ms")
	b.ReportMetric(a/c, "ratio")
}
