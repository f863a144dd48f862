package driver

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// parsedEvent is the lifecycle event of a document that was parsed.
const parsedEvent = "DOMContentLoaded"

// documentState is what a page says of its document.
type documentState struct {
	Title      string `json:"title"`
	ReadyState string `json:"readyState"`
}

// info reads the tab as the browser shows it, with address, title and status
// as the page itself has them. The browser's own lag behind a commit, so the
// page is asked; but a page that is being parsed answers when that is over, and
// then the browser has the title too: the end of the parsing is as good as an
// answer, and comes earlier.
func (t *Tab) info(ctx context.Context) (op.Tab, error) {
	f, err := t.mainFrame()
	if err != nil || t.openDialog() != nil {
		tab, ierr := t.conn.Info(ctx)
		if err == nil {
			tab.URL = f.url
		}
		return tab, ierr
	}
	parsed, unwatch := t.whenParsed(f)
	defer unwatch()
	asking, end := context.WithTimeout(ctx, time.Second)
	answer := make(chan *documentState, 1)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer end()
	ask := sync.OnceFunc(func() {
		asked.Go(func() {
			var doc documentState
			if err := t.run(asking, f, "wait_page", &doc, []string{}); err != nil {
				// The tab is there; its page is only too busy to say more.
				t.log.Debug("reading the document", "error", err)
				answer <- nil
				return
			}
			answer <- &doc
		})
	})
	select {
	case <-parsed:
	default:
		ask()
		select {
		case <-parsed:
		case doc := <-answer:
			answer <- doc
		}
	}
	tab, err := t.conn.Info(ctx)
	if err != nil {
		return tab, err
	}
	now, loaded := t.shown(f)
	tab.URL = now
	select {
	case <-parsed:
		if titled(tab) {
			tab.Status = "loading"
			if loaded {
				tab.Status = "complete"
			}
			return tab, nil
		}
		ask()
	default:
	}
	doc := <-answer
	if doc == nil {
		return tab, nil
	}
	tab.Title, tab.Status = doc.Title, "loading"
	if doc.ReadyState == "complete" {
		tab.Status = "complete"
	}
	return tab, nil
}

// whenParsed returns a channel that is closed once the frame's document has
// been parsed.
func (t *Tab) whenParsed(f frameRef) (parsed <-chan struct{}, stop func()) {
	done := make(chan struct{})
	var once sync.Once
	stop = t.watch(func(ev op.Event) {
		if ev.Method != page.LifecycleEvent.Method {
			return
		}
		if e, ok := decode[page.EventLifecycleEvent](ev); ok && e.Name == parsedEvent && e.FrameID == f.id && e.LoaderID == f.loader {
			once.Do(func() { close(done) })
		}
	})
	t.mu.Lock()
	cur := t.frames[f.id]
	already := cur != nil && cur.parsed != "" && cur.parsed == f.loader
	t.mu.Unlock()
	if already {
		once.Do(func() { close(done) })
	}
	return done, stop
}

// shown is the address of the frame's document now, and whether it was loaded.
func (t *Tab) shown(f frameRef) (address string, loaded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cur := t.frames[f.id]
	if cur == nil || cur.loader != f.loader {
		return f.url, false
	}
	return cur.url, cur.loaded == f.loader
}

// titled reports whether the title is the page's: where a page has none, the
// browser shows a form of its address.
func titled(tab op.Tab) bool {
	address := tab.URL
	if plain, err := url.PathUnescape(address); err == nil {
		address += "\n" + plain
	}
	return tab.Title != "" && !strings.Contains(address, tab.Title) && !strings.Contains(address, "xn--")
}
