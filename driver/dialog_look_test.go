package driver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestDialogWhileLooking: a dialog that opens while a page is looked at ends
// the call at once. It used to wait for the page until its time was over.
func TestDialogWhileLooking(t *testing.T) {
	for operation, input := range map[string]string{
		"page.snapshot": `{}`,
		"page.read":     `{}`,
		"page.find":     `{"query":"Count"}`,
		"page.inspect":  `{"element":{"by":"selector","value":"#count"}}`,
		"input.click":   `{"selector":"#count"}`,
		"input.fill":    `{"selector":"#count","text":"x"}`,
		"input.scroll":  `{"within":{"by":"selector","value":"#count"},"deltaY":10}`,
	} {
		t.Run(operation, func(t *testing.T) {
			s := start(t, "counter/click.html")
			eval(s, "1") // its tab is prepared
			opened := make(chan struct{})
			defer s.Conn.Listen(func(ev op.Event) {
				if ev.Method == page.JavascriptDialogOpening.Method {
					close(opened)
				}
			})()
			recorded(s).BeforeNth("Runtime.evaluate", 1, func() {
				assert.Check(t, s.Conn.Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "void setTimeout(() => alert('Meanwhile'))"}, nil))
				<-opened
			})
			began := time.Now()
			_, err := directLane(t).Run(t.Context(), s.Conn, operation, json.RawMessage(input))
			e := op.AsError(err)
			assert.Equal(t, e.Code, op.DialogOpen, "%v", err)
			assert.Equal(t, e.Kind, op.Rejected, e.Message)
			assert.Assert(t, strings.Contains(e.Message, "Meanwhile"), e.Message)
			assert.Assert(t, time.Since(began) < 10*time.Second)
			s.Call("page.dialog", `{"action":"accept"}`)
			assert.Equal(t, eval(s, "document.querySelector('#count') !== null"), "true")
		})
	}
}
