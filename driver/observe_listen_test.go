package driver

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
)

// Chrome tells the page of the listeners in its frames too. The page used to
// look them up, after which a frame did not know its own elements.
func TestListenersOfOneProcess(t *testing.T) {
	patient(t)
	s := start(t, "regress/frames-listener-same-process.html")
	out, text := look(s, `{"mode":"interactive"}`)
	seen := map[string]int{}
	for _, a := range out.Actions {
		seen[a.Name]++
	}
	assert.Equal(t, len(out.Actions), 21, text)
	assert.Equal(t, seen["Outer"], 1, text)
	for i := range 20 {
		assert.Equal(t, seen[fmt.Sprint("Inner ", i)], 1, text)
	}
}
