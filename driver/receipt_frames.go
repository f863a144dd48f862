package driver

import (
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// frameTick is how often frames on their way are looked at: one that changes
// its process sends nothing when it has come.
const frameTick = 20 * time.Millisecond

// FrameNews is a document that came to a frame of the page, or is to come.
type FrameNews struct {
	URL     string `json:"url"`
	Pending bool   `json:"pending,omitempty" jsonschema:"it is still on its way"`
}

// startFrames takes the documents of the tab's frames as those that were there
// before the input.
func (w *witness) startFrames() {
	had := w.t.hadFrames()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.had, w.leaving = had, map[cdp.FrameID]string{}
}

// frameLocked follows the navigations of the frames within the page.
func (w *witness) frameLocked(ev op.Event) {
	leave := func(id cdp.FrameID, url string) {
		if _, ok := w.had[id]; ok && id != w.main.id && w.leaving != nil {
			w.leaving[id] = url
		}
	}
	switch ev.Method {
	case page.FrameRequestedNavigation.Method:
		if e, ok := decode[page.EventFrameRequestedNavigation](ev); ok && e.Disposition == page.ClientNavigationDispositionCurrentTab {
			leave(e.FrameID, e.URL)
		}
	case page.FrameStartedNavigating.Method:
		e, ok := decode[page.EventFrameStartedNavigating](ev)
		if !ok {
			return
		}
		switch e.NavigationType {
		case page.FrameStartedNavigatingNavigationTypeSameDocument, page.FrameStartedNavigatingNavigationTypeHistorySameDocument:
			delete(w.leaving, e.FrameID)
		default:
			leave(e.FrameID, e.URL)
		}
	case page.FrameStoppedLoading.Method: // it has come, or became a download
		// From a session that did not run the frame so far it has come to
		// another process, which has not told its document yet.
		if e, ok := decode[page.EventFrameStoppedLoading](ev); ok && w.t.runsFrame(e.FrameID, ev.SessionID) {
			delete(w.leaving, e.FrameID)
		}
	case page.NavigatedWithinDocument.Method:
		if e, ok := decode[page.EventNavigatedWithinDocument](ev); ok {
			delete(w.leaving, e.FrameID)
		}
	}
}

// frameNewsLocked are the frames within the page whose document is another one
// now, or is about to be, and whether one of them is still on its way. Those
// that the input made are a part of the page that they stand in.
func (w *witness) frameNewsLocked() (news []FrameNews, onTheWay bool) {
	if w.leaving == nil || w.committed != "" {
		return nil, false
	}
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	order := func(id cdp.FrameID) int {
		if f := w.t.frames[id]; f != nil {
			return f.order
		}
		return len(w.had)
	}
	ids := make([]cdp.FrameID, 0, len(w.had))
	for id := range w.had {
		if id != w.main.id {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b cdp.FrameID) int { return order(a) - order(b) })
	for _, id := range ids {
		now, url := w.t.frames[id], w.leaving[id]
		switch {
		case now != nil && now.loader != w.had[id]:
			news = append(news, FrameNews{URL: cut(now.url, 300)})
			onTheWay = onTheWay || now.parsed != now.loader && now.loaded != now.loader
		case url != "":
			news = append(news, FrameNews{URL: cut(url, 300), Pending: true})
			onTheWay = true
		}
	}
	return news, onTheWay
}

// framesMoved reports whether a frame within the page has another document
// now.
func (w *witness) framesMoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	news, _ := w.frameNewsLocked()
	return slices.ContainsFunc(news, func(n FrameNews) bool { return !n.Pending })
}
