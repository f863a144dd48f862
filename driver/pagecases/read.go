package pagecases

import (
	"fmt"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
)

var readCases = []drivertest.Case{
	{Name: "read--whole", Page: "read/whole.html", Do: readWhole},
}

type readOut struct {
	Blocks []struct {
		Kind, UID, Text string
		Continued       bool
	}
	Frontiers []struct{ ID string }
	Frames    []struct{ Reason string }
}

// readAll reads the ref and what its frontiers lead to, as lines.
func readAll(s *drivertest.Scenario, ref string) (lines []string, last readOut) {
	s.T.Helper()
	for in := ref; in != ""; {
		last = readOut{}
		s.Value("page.read", map[string]any{"ref": in, "maxChars": 24000}, &last)
		for _, b := range last.Blocks {
			lines = append(lines, strings.Split(b.Text, "\n")...)
		}
		if in = ""; len(last.Frontiers) > 0 {
			in = last.Frontiers[0].ID
		}
	}
	return lines, last
}

// What the reading of a page cuts is given to who asks for its element.
func readWhole(s *drivertest.Scenario) {
	t := s.T
	var page readOut
	s.Value("page.read", `{"maxChars":24000}`, &page)
	refs := map[string]string{}
	for _, b := range page.Blocks {
		name, _, _ := strings.Cut(b.Text, ":")
		if b.Kind == "code" {
			name = "Log"
		}
		refs[name] = b.UID
		assert.Assert(t, !strings.Contains(b.Text, "hidden 1"), b.Text)
	}
	assert.Equal(t, len(page.Frames), 1) // characters that were left out
	note, _ := readAll(s, refs["Note"])
	assert.Equal(t, len(note), 501)
	for i, line := range note[1:] {
		assert.Equal(t, line, fmt.Sprintf("Line %d", i+1))
	}
	path, _ := readAll(s, refs["Path"])
	assert.Equal(t, strings.Count(strings.Join(path, ""), "part"), 500)
	colours, _ := readAll(s, refs["Colour"])
	assert.Equal(t, len(colours), 302)
	assert.Equal(t, colours[0], "Colour: Colour 251 (301 options)")
	assert.Equal(t, colours[251], "[x] Colour 251")
	assert.Equal(t, colours[300], "[ ] Colour 300")
	assert.Equal(t, colours[301], "[ ] Ultramarine (Rare) (disabled)")
	for _, name := range []string{"Password", "Recovery code"} {
		lines, _ := readAll(s, refs[name])
		assert.Equal(t, len(lines), 1)
		assert.Assert(t, strings.Contains(lines[0], "characters, not shown"), lines[0])
	}
	log, last := readAll(s, refs["Log"])
	assert.Equal(t, log[len(log)-1], "Entry 600")
	assert.Equal(t, len(last.Frames), 0)
}
