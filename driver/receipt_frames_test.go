package driver

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// A document that comes to a frame in another process is told, although that
// process says that it has loaded before it has said what.
func TestFrameToldBeforeItsDocument(t *testing.T) {
	t.Parallel()
	s := start(t, "frames/target.html")
	s.Call("page.snapshot", `{}`)
	rec := recorded(s)
	loaded := make(chan struct{}, 1)
	stop := rec.Listen(func(ev op.Event) {
		if ev.Method == page.FrameStoppedLoading.Method && ev.SessionID != "" {
			loaded <- struct{}{}
		}
	})
	defer stop()
	rec.BeforeNth("Page.getFrameTree", 1, func() { <-loaded })
	res := s.Call("input.click", `{"selector":"#cross"}`)
	assert.Assert(t, strings.Contains(res.Text, "\nframe: "), res.Text)
	assert.Assert(t, strings.Contains(res.Text, "/frames/controls.html"), res.Text)
}
