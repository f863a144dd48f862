package cdpmodel

import (
	"fmt"

	"github.com/chromedp/cdproto/cdp"
)

// Generation numbers the navigations of one tab. It rises by one with each
// navigation that is asked for, before anything is sent to Chrome.
type Generation uint64

// Milestone is what a navigation waits for.
type Milestone string

// The milestones. Commit is the moment the new document replaces the old one.
const (
	Commit Milestone = "commit"
	Load   Milestone = "load"
)

// NavOutcome says how a navigation ended.
type NavOutcome string

// The outcomes. Pending is the zero outcome: it has not ended.
const (
	NavPending      NavOutcome = ""
	NavReached      NavOutcome = "reached"       // the milestone of exactly this frame and loader
	NavSameDocument NavOutcome = "same-document" // a fragment or history change: no new document
	NavFailed       NavOutcome = "failed"        // Chrome refused or the network did; ErrorText says why
	NavDownload     NavOutcome = "download"      // the answer became a download
	NavInterrupted  NavOutcome = "interrupted"   // another navigation took the frame over
	NavDetached     NavOutcome = "detached"      // the debugger session or the frame ended
)

// NavEventKind is the kind of a NavEvent.
type NavEventKind string

// The events a navigation consumes.
const (
	NavReplied      NavEventKind = "replied"       // the answer to Page.navigate
	NavLifecycle    NavEventKind = "lifecycle"     // Page.lifecycleEvent
	NavCommitted    NavEventKind = "committed"     // Page.frameNavigated
	NavWithin       NavEventKind = "within"        // Page.navigatedWithinDocument
	NavDownloadSeen NavEventKind = "download-seen" // Page.downloadWillBegin
	NavGone         NavEventKind = "gone"          // the debugger detached, or the frame was removed
)

// NavEvent is one thing that happened in the tab.
type NavEvent struct {
	Kind      NavEventKind
	Frame     cdp.FrameID
	Loader    cdp.LoaderID
	Name      string // of a lifecycle event: init, commit, DOMContentLoaded, load, …
	URL       string
	ErrorText string // of a reply
	Download  bool   // of a reply
	Reason    string // of a detach
}

// maxEarly bounds the events kept before Chrome has said which loader is
// ours.
const maxEarly = 256

// Navigation is one navigation of one frame. It is a value: Apply returns the
// next one. Events of other frames and of older loaders never complete it.
type Navigation struct {
	Generation Generation
	Frame      cdp.FrameID
	Until      Milestone

	Loader    cdp.LoaderID // "" until Chrome has replied, and after that for a same-document navigation
	Replied   bool
	Committed bool
	Outcome   NavOutcome
	ErrorText string
	URL       string // last URL the frame was seen at

	before cdp.LoaderID
	early  []NavEvent
}

// NewNavigation reserves the next generation for a navigation of the frame,
// which shows the document of the loader before.
func NewNavigation(last Generation, frame cdp.FrameID, before cdp.LoaderID, until Milestone) Navigation {
	return Navigation{Generation: last + 1, Frame: frame, Until: until, before: before}
}

// SameDocument reports whether Chrome has said that the document stays, be its
// new address told or not.
func (n Navigation) SameDocument() bool { return n.Replied && n.Loader == "" && !n.failed() }

func (n Navigation) failed() bool { return n.Outcome == NavFailed || n.Outcome == NavDownload }

// Done reports whether the navigation has ended.
func (n Navigation) Done() bool { return n.Outcome != NavPending }

// Apply takes in one event and returns the navigation after it. A navigation
// that has ended does not change any more.
func (n Navigation) Apply(ev NavEvent) Navigation {
	if n.Done() {
		return n
	}
	switch ev.Kind {
	case NavReplied:
		return n.reply(ev)
	case NavGone:
		if ev.Frame != "" && ev.Frame != n.Frame {
			return n
		}
		n.Outcome, n.ErrorText = NavDetached, ev.Reason
		return n
	}
	if ev.Frame != n.Frame {
		return n
	}
	if !n.Replied {
		// The events of our document may come before the reply that names
		// its loader.
		if len(n.early) < maxEarly {
			n.early = append(n.early[:len(n.early):len(n.early)], ev)
		}
		return n
	}
	return n.take(ev)
}

func (n Navigation) reply(ev NavEvent) Navigation {
	if n.Replied {
		return n
	}
	n.Replied = true
	switch {
	case ev.Download:
		n.Outcome = NavDownload
		return n
	case ev.ErrorText != "":
		n.Outcome, n.ErrorText = NavFailed, ev.ErrorText
		return n
	}
	// Without a loader the document stays: its new address is told next.
	n.Loader = ev.Loader
	early := n.early
	n.early = nil
	for _, e := range early {
		if n.Done() {
			break
		}
		n = n.take(e)
	}
	return n
}

// take takes in an event of our frame, once the loader is known.
func (n Navigation) take(ev NavEvent) Navigation {
	switch ev.Kind {
	case NavDownloadSeen:
		if !n.Committed {
			n.Outcome = NavDownload
		}
	case NavCommitted:
		if ev.Loader == n.Loader && n.Loader != "" {
			n.Committed, n.URL = true, ev.URL
			return n.reached(Commit)
		}
		return n.other(ev)
	case NavLifecycle:
		if ev.Loader != n.Loader || n.Loader == "" {
			return n.other(ev)
		}
		// init and commit come before Page.frameNavigated, when the frame is
		// not yet told to show the document: they complete nothing.
		switch ev.Name {
		case "DOMContentLoaded":
			n.Committed = true
			return n.reached(Commit)
		case "load":
			n.Committed = true
			return n.reached(Load)
		}
	case NavWithin:
		n.URL = ev.URL
		if n.Loader == "" {
			n.Outcome = NavSameDocument
		}
	}
	return n
}

func (n Navigation) reached(m Milestone) Navigation {
	if n.Until == m || m == Load {
		n.Outcome = NavReached
	}
	return n
}

// other takes in an event of another document in our frame. Those of the
// document before ours are old news; any other has taken the frame over, a
// redirect by script after our commit included.
func (n Navigation) other(ev NavEvent) Navigation {
	if n.Loader == "" || ev.Loader == "" || ev.Loader == n.before {
		return n
	}
	if ev.Kind == NavCommitted || ev.Name == "init" || ev.Name == "commit" {
		n.Outcome = NavInterrupted
		n.ErrorText = fmt.Sprintf("another navigation to %s took its place", ev.URL)
		n.URL = ev.URL
	}
	return n
}
