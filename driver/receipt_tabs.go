package driver

import (
	"context"
	"slices"
	"strconv"
	"time"

	"pi-chrome/driver/op"
)

// Bounds of what a receipt tells of new tabs.
const (
	maxNewTabs = 5
	// openLimit is how long a tab that the page asked for may take to come.
	// One that Chrome blocks never does, and nothing says so.
	openLimit = time.Second
)

// NewTab is a tab or window that the page asked for.
type NewTab struct {
	TabID   int    `json:"tabId,omitempty" jsonschema:"its id, for chrome_tab_claim; absent where the browser does not tell"`
	URL     string `json:"url" jsonschema:"where it goes first"`
	Missing bool   `json:"missing,omitempty" jsonschema:"it has not come, as a pop-up that Chrome blocks"`
	Closed  bool   `json:"closed,omitempty" jsonschema:"it closed again"`
}

func (n NewTab) String() string {
	url := cut(n.URL, 200)
	switch {
	case n.Missing:
		return url + " was asked for and did not come; Chrome blocks pop-ups beyond one a press"
	case n.Closed:
		return url + ", closed again"
	case n.TabID != 0:
		return strconv.Itoa(n.TabID) + ", " + url + " (chrome_tab_claim takes it)"
	}
	return url
}

// askedLocked notes that the page asked for a new tab.
func (w *witness) askedLocked(url string) {
	if url == "" {
		url = "about:blank"
	}
	if len(w.asked) < maxNewTabs && !slices.Contains(w.asked, url) {
		w.asked, w.askedAt = append(w.asked, url), time.Now()
	}
}

// newTabsLocked are the tabs that came of what the page asked for, and whether
// one of them is still on its way. Chrome tells the asking before it decides.
func (w *witness) newTabsLocked() (news []NewTab, onTheWay bool) {
	if len(w.asked) == 0 {
		return nil, false
	}
	teller, ok := w.t.conn.(TabTeller)
	var opened []op.OpenedTab
	inDoubt := !ok
	if ok {
		opened, inDoubt = teller.OpenedTabs(w.since, w.asked)
		opened = firstN(opened, maxNewTabs)
	}
	asked := slices.DeleteFunc(slices.Clone(w.asked), func(url string) bool {
		return slices.ContainsFunc(opened, func(t op.OpenedTab) bool { return t.URL == url })
	})
	for _, t := range opened {
		url := t.URL
		if len(asked) > 0 && !slices.Contains(w.asked, url) {
			// It begins elsewhere: Chrome may show it blank at first.
			url, asked = asked[0], asked[1:]
		}
		news = append(news, NewTab{TabID: t.TabID, URL: cut(url, 300), Closed: t.Closed})
	}
	late := time.Since(w.askedAt) >= openLimit
	for _, url := range asked {
		news = append(news, NewTab{URL: cut(url, 300), Missing: late && !inDoubt})
		onTheWay = onTheWay || ok && !late
	}
	return firstN(news, maxNewTabs), onTheWay
}

// putBehind shows again what the user saw before the page opened a tab in front
// of it, where the session works in the background, and says so.
func (w *witness) putBehind(ctx context.Context) string {
	teller, ok := w.t.conn.(TabTeller)
	if !ok || w.front {
		return ""
	}
	w.mu.Lock()
	var opened []op.OpenedTab
	if len(w.asked) > 0 {
		opened, _ = teller.OpenedTabs(w.since, w.asked)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackBound)
	defer cancel()
	did := ""
	for _, t := range slices.Backward(opened) {
		put, err := teller.PutBehind(ctx, t)
		if err != nil {
			return "Chrome shows the new tab, and the one before could not be shown again: " + err.Error()
		}
		if put {
			did = "Chrome showed the new tab; the one before is shown again"
		}
	}
	return did
}
