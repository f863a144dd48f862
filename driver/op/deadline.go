package op

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// DeadlineKind selects how long a command may execute (contract §1.5).
type DeadlineKind string

// The kinds of deadlines.
const (
	DefaultDeadline    DeadlineKind = "default"    // 30 s
	NavigateDeadline   DeadlineKind = "navigate"   // timeoutMs (15 s) + 2 s, + 30 s with a nested snapshot
	WaitDeadline       DeadlineKind = "wait"       // timeoutMs (10 s) + intervalMs (250 ms) + 2 s
	ScreenshotDeadline DeadlineKind = "screenshot" // 30 s; full-page tiles 120 s
	TextInputDeadline  DeadlineKind = "text-input" // 30 s + 180 ms a character, at most 120 s
	AskDeadline        DeadlineKind = "ask"        // timeoutMs (120 s) + 10 s
	StepsDeadline      DeadlineKind = "steps"      // the sum of the steps' own, at most 300 s
)

// ResultDeliveryGrace is added to the execution budget before a caller gives
// a command up.
const ResultDeliveryGrace = 5 * time.Second

// Budget returns how long a command with this input may execute.
func (k DeadlineKind) Budget(input json.RawMessage) time.Duration {
	var in struct {
		TimeoutMs  *int            `json:"timeoutMs"`
		IntervalMs *int            `json:"intervalMs"`
		Snapshot   json.RawMessage `json:"snapshot"`
		Text       string          `json:"text"`
		FullPage   bool            `json:"fullPage"`
		Capture    struct {
			Kind string `json:"kind"`
		} `json:"capture"`
	}
	// Input that does not decode is refused by validation; its budget does
	// not matter.
	_ = json.Unmarshal(input, &in)
	ms := func(p *int, def int) time.Duration {
		if p == nil {
			return time.Duration(def) * time.Millisecond
		}
		return time.Duration(*p) * time.Millisecond
	}
	switch k {
	case NavigateDeadline:
		d := ms(in.TimeoutMs, 15_000) + 2*time.Second
		if len(in.Snapshot) > 0 && string(in.Snapshot) != "null" {
			d += 30 * time.Second
		}
		return d
	case WaitDeadline:
		return ms(in.TimeoutMs, 10_000) + ms(in.IntervalMs, 250) + 2*time.Second
	case ScreenshotDeadline:
		if in.FullPage || in.Capture.Kind == "full-page-tiles" {
			return 120 * time.Second
		}
		return 30 * time.Second
	case TextInputDeadline:
		d := 30*time.Second + 180*time.Millisecond*time.Duration(utf8.RuneCountInString(in.Text))
		return min(d, 120*time.Second)
	case AskDeadline:
		return ms(in.TimeoutMs, 120_000) + 10*time.Second
	case StepsDeadline:
		return MaxDo // DoBudget knows the steps
	}
	return 30 * time.Second
}
