package cdpmodel

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

func TestNavigation(t *testing.T) {
	const frame, old, ours, other = cdp.FrameID("F"), cdp.LoaderID("L0"), cdp.LoaderID("L1"), cdp.LoaderID("L2")
	life := func(l cdp.LoaderID, name string) NavEvent {
		return NavEvent{Kind: NavLifecycle, Frame: frame, Loader: l, Name: name}
	}
	committed := NavEvent{Kind: NavCommitted, Frame: frame, Loader: ours}
	reply := NavEvent{Kind: NavReplied, Loader: ours}
	for _, tt := range []struct {
		name   string
		until  Milestone
		events []NavEvent
		want   NavOutcome
	}{
		{"commit after the reply", Commit, []NavEvent{reply, committed}, NavReached},
		{"commit before the reply", Commit, []NavEvent{committed, reply}, NavReached},
		{"init is not yet a commit", Commit, []NavEvent{reply, life(ours, "init"), life(ours, "commit")}, NavPending},
		{"content loaded tells of a commit", Commit, []NavEvent{reply, life(ours, "DOMContentLoaded")}, NavReached},
		{"load is awaited past the commit", Load, []NavEvent{reply, life(ours, "init"), life(ours, "DOMContentLoaded")}, NavPending},
		{"load", Load, []NavEvent{reply, life(ours, "init"), life(ours, "load")}, NavReached},
		{"the old document's load is not ours", Load, []NavEvent{reply, life(old, "load")}, NavPending},
		{"the old document's init is not ours", Commit, []NavEvent{life(old, "init"), reply}, NavPending},
		{"another frame's load is not ours", Load, []NavEvent{reply, {Kind: NavLifecycle, Frame: "G", Loader: ours, Name: "load"}}, NavPending},
		{"another navigation took over", Load, []NavEvent{reply, life(ours, "init"), life(other, "init")}, NavInterrupted},
		{"same document, address told later", Load, []NavEvent{{Kind: NavReplied}, {Kind: NavWithin, Frame: frame, URL: "#a"}}, NavSameDocument},
		{"same document, address not told", Load, []NavEvent{{Kind: NavReplied}, life(other, "load")}, NavPending},
		{"same document", Load, []NavEvent{{Kind: NavWithin, Frame: frame, URL: "#a"}, {Kind: NavReplied}}, NavSameDocument},
		{"network error", Load, []NavEvent{{Kind: NavReplied, Loader: ours, ErrorText: "net::ERR_CONNECTION_REFUSED"}}, NavFailed},
		{"download in the reply", Commit, []NavEvent{{Kind: NavReplied, Loader: ours, Download: true}}, NavDownload},
		{"download seen before", Commit, []NavEvent{{Kind: NavDownloadSeen, Frame: frame}, reply}, NavDownload},
		{"download seen after", Commit, []NavEvent{reply, {Kind: NavDownloadSeen, Frame: frame}}, NavDownload},
		{"detached", Load, []NavEvent{reply, {Kind: NavGone, Reason: "target_closed"}}, NavDetached},
		{"another frame removed", Load, []NavEvent{reply, {Kind: NavGone, Frame: "G"}}, NavPending},
		{"a second reply changes nothing", Commit, []NavEvent{reply, {Kind: NavReplied, ErrorText: "late"}, committed}, NavReached},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := NewNavigation(6, frame, old, tt.until)
			assert.Equal(t, n.Generation, Generation(7))
			for _, ev := range tt.events {
				n = n.Apply(ev)
			}
			assert.Equal(t, n.Outcome, tt.want)
		})
	}
}

// TestNavigationProperties: events of other frames and of the document before
// never end a navigation; an ended one never changes; the order of the reply
// among the events of one frame does not change how it ends.
//
// Invariant 8 of the design.
func TestNavigationProperties(t *testing.T) {
	frames := []cdp.FrameID{"F", "G"}
	loaders := []cdp.LoaderID{"L0", "L1", ""}
	names := []string{"init", "commit", "DOMContentLoaded", "load", "networkIdle"}
	event := rapid.Custom(func(t *rapid.T) NavEvent {
		return NavEvent{
			Kind:   rapid.SampledFrom([]NavEventKind{NavLifecycle, NavCommitted, NavWithin}).Draw(t, "kind"),
			Frame:  rapid.SampledFrom(frames).Draw(t, "frame"),
			Loader: rapid.SampledFrom(loaders).Draw(t, "loader"),
			Name:   rapid.SampledFrom(names).Draw(t, "name"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(event, 0, 40).Draw(t, "events")
		until := rapid.SampledFrom([]Milestone{Commit, Load}).Draw(t, "until")
		at := rapid.IntRange(0, len(events)).Draw(t, "reply")
		early := NewNavigation(0, "F", "L0", until).Apply(NavEvent{Kind: NavReplied, Loader: "L1"})
		late := NewNavigation(0, "F", "L0", until)
		ours := false
		for i, ev := range events {
			if i == at {
				late = late.Apply(NavEvent{Kind: NavReplied, Loader: "L1"})
			}
			before := early
			early, late = early.Apply(ev), late.Apply(ev)
			if before.Done() && before.Outcome != early.Outcome {
				t.Fatalf("ended navigation changed from %s to %s", before.Outcome, early.Outcome)
			}
			if ev.Frame == "F" && ev.Loader == "L1" {
				ours = true
			}
		}
		if at == len(events) {
			late = late.Apply(NavEvent{Kind: NavReplied, Loader: "L1"})
		}
		if early.Outcome != late.Outcome {
			t.Fatalf("reply first: %s, reply at %d: %s", early.Outcome, at, late.Outcome)
		}
		if !ours && early.Done() {
			t.Fatalf("ended as %s without an event of its own document", early.Outcome)
		}
	})
}

func FuzzNavigation(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5})
	kinds := []NavEventKind{NavReplied, NavLifecycle, NavCommitted, NavWithin, NavDownloadSeen, NavGone}
	names := []string{"init", "load", "commit", "x"}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := NewNavigation(0, "F", "L0", Load)
		for _, b := range data {
			ended := n.Done()
			was := n.Outcome
			n = n.Apply(NavEvent{Kind: kinds[int(b)%len(kinds)], Frame: cdp.FrameID("FG"[b>>3&1:][:1]),
				Loader: cdp.LoaderID([]string{"L0", "L1", "L2", ""}[b>>4&3]), Name: names[b>>6&3], Download: b == 250, ErrorText: map[bool]string{true: "net::X"}[b == 249]})
			if ended && n.Outcome != was {
				t.Fatalf("ended navigation changed from %s to %s", was, n.Outcome)
			}
			if len(n.early) > maxEarly {
				t.Fatal("early events are not bounded")
			}
		}
	})
}
