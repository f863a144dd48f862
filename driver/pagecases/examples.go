package pagecases

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// before are calls that an example needs to stand by itself.
var before = map[string]func(s *drivertest.Scenario){
	"page.history": func(s *drivertest.Scenario) {
		s.Call("page.navigate", map[string]any{"url": s.Site.URL("navigate/links.html")})
	},
	"page.network-get": func(s *drivertest.Scenario) {
		s.Call("page.network-list", `{}`)
		s.Goto("network/bodies.html")
		for s.T.Context().Err() == nil {
			var out struct{ Requests []struct{ ID, Status any } }
			s.Value("page.network-list", `{}`, &out)
			if len(out.Requests) >= 3 {
				return
			}
		}
	},
}

// Examples runs every example of the operations as a test. browser says that
// the lane has tabs and a user; without them an operation that needs those is
// refused as unsupported.
func Examples(list []op.Descriptor, browser bool) []drivertest.Case {
	var cases []drivertest.Case
	for _, d := range list {
		for i, e := range d.Examples {
			page := e.Page
			if page == "" && d.Tab == op.PageTab && d.Name != "page.network-get" {
				page = "navigate/plain.html"
			}
			cases = append(cases, drivertest.Case{
				Name: fmt.Sprintf("example--%s-%d", strings.TrimPrefix(d.Tool, "chrome_"), i+1), Page: page,
				Do: func(s *drivertest.Scenario) { runExample(s, d, e, browser) },
			})
		}
	}
	return cases
}

func runExample(s *drivertest.Scenario, d op.Descriptor, e op.Example, browser bool) {
	if fn := before[d.Name]; fn != nil {
		fn(s)
	}
	input := withRefs(s, e.Input)
	switch {
	case !browser && d.Tab != op.PageTab && d.Name != op.DoName:
		s.Fail(d.Name, input, op.Rejected, op.Unsupported)
		return
	case d.Name == "tab.activate":
		// The sessions of tests work in the background.
		s.Fail(d.Name, input, op.Rejected, op.BackgroundMode)
		return
	}
	res := s.Call(d.Name, input)
	assert.Assert(s.T, strings.TrimSpace(res.Text) != "")
	assert.Assert(s.T, len([]rune(res.Text)) <= op.MaxText+100)
	if d.Name == "page.wait" {
		assert.Assert(s.T, strings.HasPrefix(res.Text, "Wait condition satisfied\n"), res.Text)
	}
	assert.NilError(s.T, d.CheckOutput(res.Value))
}

var refPlace = regexp.MustCompile(`\{\{ref:(.*?)\}\}`)

// withRefs puts the site's origin and refs of a snapshot in their places.
func withRefs(s *drivertest.Scenario, input json.RawMessage) string {
	text := strings.ReplaceAll(string(input), "{{base}}", s.Site.Origin)
	return refPlace.ReplaceAllStringFunc(text, func(place string) string {
		words := strings.ReplaceAll(refPlace.FindStringSubmatch(place)[1], `\"`, `"`)
		return strings.TrimPrefix(refOf(s, words), "@")
	})
}
