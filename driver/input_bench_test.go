package driver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
)

func benchInput(b *testing.B, page, operation string, input any) {
	s := drivertest.Start(b, directLane(b), "bench--input")
	s.Goto(page)
	benchOn(b, s, operation, input)
}

// benchOn runs the call on a hidden tab and reports, besides the whole, an
// upper bound of the time until the last input event was sent.
func benchOn(b *testing.B, s *drivertest.Scenario, operation string, input any) {
	raw, err := json.Marshal(input)
	assert.NilError(b, err)
	s.Call(operation, string(raw))
	var events, whole []time.Duration
	for b.Loop() {
		recorded(s).Reset()
		began := time.Now()
		s.Call(operation, string(raw))
		whole = append(whole, time.Since(began))
		b.StopTimer()
		sum := time.Duration(0)
		for _, c := range recorded(s).Calls() {
			if strings.Contains(c.Params, "mouseReleased") || strings.Contains(c.Params, "keyUp") || c.Method == "Input.insertText" {
				break
			}
			sum += c.Took // calls that run at the same time count twice
		}
		events = append(events, sum)
		b.StartTimer()
	}
	p50 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Microseconds()) / 1000
	}
	b.ReportMetric(p50(whole), "p50-ms")
	b.ReportMetric(p50(events), "last-event-p50-ms")
}

func BenchmarkClickHidden(b *testing.B) {
	benchInput(b, "input/click-log.html", "input.click", map[string]any{"selector": "#button"})
}

// BenchmarkClickRef clicks a button that stands where its snapshot saw it.
func BenchmarkClickRef(b *testing.B) {
	s := drivertest.Start(b, directLane(b), "bench--ref")
	s.Goto("input/click-log.html")
	benchOn(b, s, "input.click", map[string]any{"ref": refOf(s, `button "Click me"`)})
}

func BenchmarkClickPoint(b *testing.B) {
	benchInput(b, "input/click-log.html", "input.click", map[string]any{"x": 60, "y": 30})
}

func BenchmarkFill20(b *testing.B) {
	benchInput(b, "input/long-fill.html", "input.fill", map[string]any{"selector": "#area", "text": strings.Repeat("0123456789", 2)})
}

func BenchmarkFill20000(b *testing.B) {
	benchInput(b, "input/long-fill.html", "input.fill", map[string]any{"selector": "#area", "text": strings.Repeat("0123456789", 2000)})
}

func BenchmarkPress(b *testing.B) {
	benchInput(b, "input/keys.html", "input.key", map[string]any{"key": "a", "selector": "#field"})
}

// BenchmarkClickSize clicks a button that shows and hides another, on pages of
// several sizes: of the small ones the receipt names what appeared by ref.
func BenchmarkClickSize(b *testing.B) {
	for _, n := range []int{600, 3900, 30000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := drivertest.Start(b, directLane(b), "bench--size")
			s.Goto(fmt.Sprintf("_/huge?n=%d", n))
			s.Eval(`document.body.insertAdjacentHTML("afterbegin", '<button id="flip">Flip</button> <button id="flipped" hidden>Flipped</button>');
				flip.addEventListener("click", () => { flipped.hidden = !flipped.hidden; }); 1`)
			benchOn(b, s, "input.click", map[string]any{"ref": refOf(s, `button "Flip"`)})
		})
	}
}

func BenchmarkType20(b *testing.B) {
	benchInput(b, "input/long-fill.html", "input.type", map[string]any{"text": "the quick brown fox!", "into": map[string]any{"by": "selector", "value": "#area"}})
}

func BenchmarkScroll(b *testing.B) {
	benchInput(b, "input/scroll.html", "input.scroll", map[string]any{"deltaY": 1})
}

func BenchmarkSelect(b *testing.B) {
	benchInput(b, "input/choose.html", "input.select", map[string]any{"selector": "#one", "label": "Beta"})
}
