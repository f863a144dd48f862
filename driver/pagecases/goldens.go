package pagecases

import (
	"slices"
	"strings"

	"pi-chrome/driver/drivertest"
	"pi-chrome/fixtures"
)

// framed are the pages with frames among those of Goldens: how much of one is
// told depends on how fast it answers, so that they hold only where the tests
// can be patient.
var framed = []string{"snapshot/many-frames.html", "snapshot/text-places.html", "read/frames.html", "read/outline.html"}

// Goldens are the snapshots and reads of all fixtures of these topics as text.
// Without frames it leaves the pages out that have some.
func Goldens(frames bool) []drivertest.Case {
	var all []drivertest.Case
	for _, page := range fixtures.Names() {
		topic, _, _ := strings.Cut(page, "/")
		if topic != "snapshot" && topic != "read" || !frames && slices.Contains(framed, page) ||
			page == "snapshot/busy-frame.html" || page == "snapshot/busy.html" { // of tests of their own
			continue
		}
		operation := "page." + topic
		all = append(all, drivertest.Case{Name: strings.ReplaceAll(strings.TrimSuffix(page, ".html"), "/", "--"), Page: page,
			Do: func(s *drivertest.Scenario) { s.Golden(operation, s.Call(operation, `{}`).Text) }})
	}
	return all
}
