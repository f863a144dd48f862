package driver

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestBadInputNeedsNoTab: what is wrong with an input alone is told before
// anything is opened, by the same words wherever it is looked at.
func TestBadInputNeedsNoTab(t *testing.T) {
	long := strings.Repeat("😀", maxFill/2+1)
	for _, c := range []struct{ tool, input, want string }{
		{"chrome_navigate", `{"url":"example.org"}`, "has no scheme"},
		{"chrome_navigate", `{"url":"//example.org"}`, "has no scheme"},
		{"chrome_navigate", `{"url":"https://[::1"}`, "not a URL"},
		{"chrome_navigate", `{"url":"JavaScript:1"}`, "chrome_evaluate"},
		{"chrome_tab_new", `{"url":"example.org"}`, "chrome_tab_new"},
		{"chrome_screenshot", `{"quality":70}`, "only for the format jpeg"},
		{"chrome_screenshot", `{"fullPage":true,"capture":{"kind":"viewport"}}`, "one of capture and fullPage"},
		{"chrome_find", `{"query":"  "}`, "is required"},
		{"chrome_click", `{"find":{}}`, "needs one of"},
		{"chrome_fill", `{"text":"` + long + `","ref":"el-1"}`, "UTF-16 units"},
		{"chrome_type", `{"text":"` + strings.Repeat("😀", maxTyped/2+1) + `"}`, "chrome_fill"},
		{"chrome_type", `{"text":"x","into":{"by":"uid","value":"x"}}`, "a ref such as el-3"},
		{"chrome_press", `{"key":"Hom"}`, "Home"},
		{"chrome_press", `{"key":"Control+é"}`, "cannot be pressed"},
		{"chrome_hover", `{"at":{"by":"coordinate","x":1}}`, "needs x and y"},
		{"chrome_drag", `{"from":{"by":"uid","value":"el-1"},"to":{"by":"find"}}`, `"to"`},
		{"chrome_tap", `{"at":{"by":"uid","value":"el-1"},"steps":4}`, "goes with to"},
		{"chrome_tap", `{"at":{"by":"uid","value":"el-1"},"to":{"by":"selector"}}`, "to.value"},
		{"chrome_scroll", `{"to":"top","deltaY":3}`, "not both"},
		{"chrome_wait", `{"condition":{"by":"urlIncludes"}}`, "needs a"},
		{"chrome_wait", `{"condition":{"by":"load","value":"x"}}`, "takes no"},
		{"chrome_history", `{"action":"back","bypassCache":true}`, "only with reload"},
		{"chrome_dialog", `{"action":"policy"}`, "needs dialogs"},
		{"chrome_dialog", `{"action":"accept","beforeunload":"accept"}`, "only with the action policy"},
		{"chrome_ask", `{"message":" "}`, "is blank"},
	} {
		o, ok := New(nil).Operation(c.tool)
		assert.Assert(t, ok, c.tool)
		err := o.Validate(json.RawMessage(c.input))
		e, ok := err.(*op.Error)
		assert.Assert(t, ok && e.Kind == op.Invalid, "%s %.80s: %v", c.tool, c.input, err)
		assert.Assert(t, strings.Contains(e.Message+e.Hint, c.want) && e.Hint != "", "%s %.80s: %s (%s)", c.tool, c.input, e.Message, e.Hint)
	}
}
