package driver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// A cross-origin frame whose process crashes is not read any more; the page
// and its other frames are.
func TestCrashedFrameLeavesTheRest(t *testing.T) {
	s := start(t, "frames/cross-origin.html")
	rec := recorded(s)
	s.Call("page.snapshot", `{"mode":"interactive"}`)
	child := ""
	stop := rec.Listen(func(ev op.Event) {
		if e, ok := decode[target.EventAttachedToTarget](ev); ok && ev.Method == target.AttachedToTarget.Method && child == "" && e.TargetInfo.Type == "iframe" {
			child = string(e.SessionID)
		}
	})
	// Asking again announces what there is.
	yes := true
	_, err := cdp.Call(t.Context(), rec, target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: false, Flatten: &yes})
	assert.NilError(t, err)
	_, err = cdp.Call(t.Context(), rec, target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true, Flatten: &yes})
	assert.NilError(t, err)
	stop()
	assert.Assert(t, child != "", "the page has no frame of another process")
	s.Call("page.snapshot", `{"mode":"interactive"}`)

	crashed := make(chan struct{})
	stop = rec.Listen(func(ev op.Event) {
		if ev.SessionID == child && ev.Method == inspector.TargetCrashed.Method {
			close(crashed)
		}
	})
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _ = cdp.Call(ctx, rec.Child(child), page.Crash, cdp.Empty{}) // nobody is left to answer
	select {
	case <-crashed:
	case <-time.After(5 * time.Second):
		t.Fatal("the frame did not crash")
	}
	s.Eval(`document.body.insertAdjacentHTML("afterbegin", "<button id=own>Own</button>")`)
	began := time.Now()
	res := s.Call("page.snapshot", `{"mode":"interactive"}`)
	assert.Assert(t, strings.Contains(res.Text, "Own"), res.Text)
	assert.Assert(t, strings.Contains(res.Text, "the frame's renderer crashed"), res.Text)
	assert.Assert(t, time.Since(began) < childBound, "it waited %s", time.Since(began))
	s.Call("input.click", `{"selector":"#own"}`)
	// The page loads the frame anew.
	s.Eval(`new Promise((loaded) => { const f = document.querySelector("iframe"); f.onload = () => loaded(); f.src += "?again"; })`)
	res = s.Call("page.snapshot", `{"mode":"interactive"}`)
	assert.Assert(t, !strings.Contains(res.Text, "crashed"), res.Text)
	assert.Assert(t, strings.Contains(res.Text, "Frame button"), res.Text)
	s.Call("page.history", `{"action":"reload","waitUntilLoad":true}`)
	s.Call("page.snapshot", `{"mode":"interactive"}`)
}
