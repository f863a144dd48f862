package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// Every call of snapshot and read fails once, in each way a call can. A pure
// read is never outcome-unknown, and the next one works.
func TestObservationFailNth(t *testing.T) {
	for _, c := range []struct{ page, operation string }{
		{"snapshot/shadow-nested.html", "page.snapshot"}, {"frames/cross-origin.html", "page.snapshot"}, {"read/frames.html", "page.read"},
		{"snapshot/custom-elements.html", "page.snapshot"},
	} {
		t.Run(c.page+" "+c.operation, func(t *testing.T) {
			s := start(t, c.page)
			s.Call(c.operation, `{}`)
			recorded(s).Reset()
			want := s.Call(c.operation, `{}`)
			n := len(recorded(s).Calls())
			assert.Assert(t, n >= 3, "%d calls", n)
			for i := 1; i <= n; i++ {
				for _, cause := range []error{op.ErrNotDelivered, op.ErrReplyLost, &op.ProtocolError{Method: "any", Message: "made to fail"},
					&op.ProtocolError{Method: "any", Message: "Cannot find context with specified id"}, &op.ProtocolError{Method: "any", Message: "Could not find object with given id"}} {
					what := fmt.Sprintf("call %d of %d: %v", i, n, cause)
					recorded(s).Reset()
					recorded(s).FailNth("", i, cause)
					res, err := s.Run(c.operation, `{}`)
					recorded(s).Reset()
					if err != nil {
						e, ok := errors.AsType[*op.Error](err)
						assert.Assert(t, ok, "%s: %v", what, err)
						assert.Equal(t, e.Kind, op.Rejected, "%s: %s", what, e.Message)
						assert.Assert(t, e.Hint != "", what)
					} else {
						assert.Assert(t, res.Text != "", what)
					}
					again := s.Call(c.operation, `{}`)
					assert.Equal(t, neutral(again.Text), neutral(want.Text), what)
				}
			}
		})
	}
}

// neutral leaves out the numbers of frontiers, which count up.
func neutral(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "@frontier-") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// A page that goes away under a snapshot is looked at once more, and the
// snapshot is of one document.
func TestNavigationMeanwhile(t *testing.T) {
	s := start(t, "snapshot/labels.html")
	look(s, `{}`)
	for n := 1; n <= 2; n++ {
		s.Goto("snapshot/labels.html")
		look(s, `{}`)
		gone := false
		recorded(s).Reset()
		recorded(s).BeforeNth("Runtime.callFunctionOn", n, func() {
			if !gone {
				gone = true
				drivertest.Goto(t, recorded(s), s.Site.URL("snapshot/states.html"))
			}
		})
		out, text := look(s, `{}`)
		recorded(s).Reset()
		assert.Assert(t, gone)
		assert.Equal(t, out.Title, "States", text)
		for _, a := range out.Actions {
			assert.Assert(t, a.Name != "Label for", text)
		}
	}
}
