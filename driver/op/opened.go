package op

import (
	"slices"
	"time"
)

// OpenedTab is a tab or window that a browser opened.
type OpenedTab struct {
	TabID  int
	Opener int    // the tab that it was opened from, 0 where the browser does not tell
	URL    string // where it goes, "" as long as that is not known
	At     time.Time
	Closed bool // again
	Before int  // the tab that its window showed until this one came up in front, 0 where it did not

	bare bool // it came without an address, as one does that a page opens
}

// blank is the address of a tab that a script sends somewhere later.
const blank = "about:blank"

// maxOpenedTabs bounds the tabs that are kept: a page may open them without end.
const maxOpenedTabs = 64

// OpenedTabs are the latest tabs that a browser opened, the oldest first. The
// zero value is ready to use. It is not safe for concurrent use.
type OpenedTabs struct{ list []OpenedTab }

// openedKept is how long a tab is kept: an address may be long.
const openedKept = time.Minute

// Add notes a tab.
func (o *OpenedTabs) Add(t OpenedTab) {
	if len(o.list) >= maxOpenedTabs {
		o.list = slices.Delete(o.list, 0, 1)
	}
	o.list = slices.DeleteFunc(o.list, func(old OpenedTab) bool { return t.At.Sub(old.At) > openedKept })
	t.bare = t.URL == "" || t.URL == blank
	o.list = append(o.list, t)
}

// Goes notes where a tab goes, if that was not known yet.
func (o *OpenedTabs) Goes(id int, url string) {
	for i := range o.list {
		if t := &o.list[i]; t.TabID == id && (t.URL == "" || t.URL == blank) {
			t.URL = url
		}
	}
}

// Close notes that a tab was closed.
func (o *OpenedTabs) Close(id int) {
	for i := range o.list {
		if o.list[i].TabID == id {
			o.list[i].Closed = true
		}
	}
}

// From returns the tabs that came since from the tab opener. Where the browser
// does not tell from which they came, these are the ones that alone go where it
// asked for, and the only other one that a page opened, where a blank one was
// asked for or it closed before it went anywhere. inDoubt says that there are
// more which may be its own. An address asked for is absolute, as Chrome tells
// it, and about:blank where a script says it later.
func (o *OpenedTabs) From(opener int, since time.Time, asked []string) (found []OpenedTab, inDoubt bool) {
	var others []OpenedTab
	at := map[string]int{} // how many came for an address: a second one may be another page's
	for _, t := range o.list {
		if t.Opener == 0 && !t.At.Before(since) {
			at[t.URL]++
		}
	}
	for _, t := range o.list {
		switch {
		case t.At.Before(since):
		case t.Opener == opener, t.Opener == 0 && slices.Contains(asked, t.URL) && at[t.URL] == 1:
			found = append(found, t)
		case t.Opener == 0 && (t.bare || slices.Contains(asked, t.URL)):
			others = append(others, t)
		}
	}
	if len(others) == 1 && (slices.Contains(asked, blank) || others[0].Closed) {
		return append(found, others...), false
	}
	return found, len(others) > 0
}
