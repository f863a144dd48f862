package op

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Which tabs came of what a page asked for, with a browser that tells the
// opener and with one that does not.
func TestOpenedTabs(t *testing.T) {
	press := time.Now()
	const site, other = "https://example.org/a", "https://example.org/b"
	for name, c := range map[string]struct {
		asked   []string
		tabs    []OpenedTab
		found   []int
		inDoubt bool
	}{
		"nothing came":               {asked: []string{site}},
		"of before":                  {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, URL: site, At: press.Add(-time.Second)}}},
		"its own":                    {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, Opener: 1, At: press}}, found: []int{2}},
		"another's":                  {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, Opener: 7, At: press}, {TabID: 3, Opener: 7, URL: site, At: press}}},
		"by its address":             {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, URL: site, At: press}, {TabID: 3, URL: "chrome://newtab/", At: press}}, found: []int{2}},
		"address not known yet":      {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, At: press}}, inDoubt: true},
		"two at its address":         {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, URL: site, At: press}, {TabID: 3, URL: site, At: press}}, inDoubt: true},
		"one blank":                  {asked: []string{blank}, tabs: []OpenedTab{{TabID: 2, At: press}}, found: []int{2}},
		"one blank and one with one": {asked: []string{site, blank}, tabs: []OpenedTab{{TabID: 2, At: press}, {TabID: 3, URL: site, At: press}}, found: []int{3, 2}},
		"closed before it went on":   {asked: []string{site}, tabs: []OpenedTab{{TabID: 2, At: press, Closed: true}}, found: []int{2}},
		"two blank of which one is":  {asked: []string{blank}, tabs: []OpenedTab{{TabID: 2, At: press}, {TabID: 3, At: press}}, inDoubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			var o OpenedTabs
			for _, tab := range c.tabs {
				o.Add(tab)
			}
			found, inDoubt := o.From(1, press, c.asked)
			var ids []int
			for _, f := range found {
				ids = append(ids, f.TabID)
			}
			assert.DeepEqual(t, ids, c.found)
			assert.Equal(t, inDoubt, c.inDoubt)
		})
	}

	// One that a script sends elsewhere is still the one that was asked for.
	var o OpenedTabs
	o.Add(OpenedTab{TabID: 2, At: press})
	o.Goes(2, other)
	o.Goes(2, site) // where it goes first counts
	o.Close(2)
	found, inDoubt := o.From(1, press, []string{blank})
	assert.Assert(t, len(found) == 1 && !inDoubt)
	assert.Equal(t, found[0].URL, other)
	assert.Assert(t, found[0].Closed)

	for i := range 3 * maxOpenedTabs {
		o.Add(OpenedTab{TabID: i, URL: fmt.Sprint(i), At: press})
	}
	assert.Equal(t, len(o.list), maxOpenedTabs)
	o.Add(OpenedTab{TabID: 2, At: press.Add(openedKept + time.Second)})
	assert.Equal(t, len(o.list), 1) // the others are too old
}
