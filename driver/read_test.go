package driver

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

func readPage(s *drivertest.Scenario, input string) (ReadOut, string) {
	s.T.Helper()
	var out ReadOut
	res := s.Value("page.read", input, &out)
	return out, res.Text
}

func TestReadOutlineGolden(t *testing.T) {
	s := drivertest.Start(t, directLane(t), "read--outline-outline")
	s.Goto("read/outline.html")
	s.Golden("page.read", s.Call("page.read", `{"view":"outline"}`).Text)
}

// What does not fit is counted, and following the refs gives each paragraph
// once, in order.
func TestReadOn(t *testing.T) {
	s := start(t, "read/long.html")
	for _, chars := range []int{900, 3000, 12000} {
		out, text := readPage(s, fmt.Sprintf(`{"maxChars":%d}`, chars))
		total := out.Coverage.TotalBlocks
		var all []string
		for steps := 0; ; steps++ {
			assert.Assert(t, steps < 1000)
			assert.Assert(t, runes(text) <= chars, "%d of %d characters", runes(text), chars)
			for _, b := range out.Blocks {
				assert.Assert(t, b.UID != "", b.Text)
				all = append(all, b.Text)
			}
			if len(out.Frontiers) == 0 {
				assert.Assert(t, !out.Coverage.Truncated)
				break
			}
			f := out.Frontiers[0]
			assert.Equal(t, f.Omitted, total-len(all))
			assert.Assert(t, strings.Contains(text, fmt.Sprintf("more: @%s omitted=%d [expand with chrome_read]", f.ID, f.Omitted)), text)
			out, text = readPage(s, fmt.Sprintf(`{"ref":"@%s","maxChars":%d}`, f.ID, chars))
		}
		assert.Equal(t, len(all), total)
		n := 0
		for _, line := range all {
			if strings.Contains(line, fmt.Sprintf("aragraph %d", n+1)) {
				n++
			}
		}
		assert.Equal(t, n, 300)
	}
}

// Content that has changed is not continued wrongly.
func TestReadGoesStale(t *testing.T) {
	s := start(t, "read/long.html")
	out, _ := readPage(s, `{"maxChars":500}`)
	ref := out.Frontiers[0].ID
	s.Eval(`[...document.querySelectorAll("p")].at(-1).textContent = "Something else"`)
	e := s.Fail("page.read", map[string]any{"ref": ref}, op.Rejected, op.StaleContentRef)
	assert.Equal(t, e.Details["ref"], ref)
	s.Fail("page.read", map[string]any{"ref": "frontier-999"}, op.Rejected, op.StaleContentRef)
	s.Fail("page.read", map[string]any{"ref": "el-999"}, op.Rejected, op.StaleContentRef)
	s.Fail("page.snapshot", map[string]any{"ref": ref}, op.Rejected, op.StaleObservationRef)
}

func TestReadQuery(t *testing.T) {
	s := start(t, "read/long.html")
	out, text := readPage(s, `{"query":"PARAGRAPH 299"}`)
	assert.Equal(t, len(out.Blocks), 1, text)
	assert.Equal(t, out.Coverage.TotalBlocks, 1)
}

func TestReadWithin(t *testing.T) {
	s := start(t, "read/table.html")
	out, _ := readPage(s, `{}`)
	var row BlockOut
	for _, b := range out.Blocks {
		if b.Kind == kindRow && strings.Contains(b.Text, "Grace") {
			row = b
		}
	}
	assert.Equal(t, row.Links[0].Text, "Grace")
	part, _ := readPage(s, fmt.Sprintf(`{"ref":"@%s"}`, row.UID))
	assert.Equal(t, len(part.Blocks), 1)
	assert.Equal(t, part.Blocks[0].Text, row.Text)
}

// A text that is longer than a block is read in pieces, none cut short.
func TestReadLongText(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = "<p>" + Array.from({length: 4000}, (_, i) => "word" + i).join(" ") + "</p>"; 1`)
	out, text := readPage(s, `{}`)
	var all []string
	for {
		for _, b := range out.Blocks {
			all = append(all, b.Text)
		}
		if len(out.Frontiers) == 0 {
			break
		}
		assert.Assert(t, runes(text) <= 12000)
		out, text = readPage(s, fmt.Sprintf(`{"ref":%q}`, out.Frontiers[0].ID))
	}
	words := strings.Fields(strings.Join(all, " "))
	assert.Equal(t, len(words), 4000)
	assert.Equal(t, words[3999], "word3999")
}
