package artifact

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestKeepSteps: the pictures of a list are kept as those of a call by itself,
// the list's text says where, and what goes wrong with one changes nothing of
// what was done.
func TestKeepSteps(t *testing.T) {
	dir := t.TempDir()
	in := json.RawMessage(`{"steps":[
		{"tool":"chrome_read"},
		{"tool":"screenshot","input":{"capture":{"kind":"viewport","path":"a.png"}}},
		{"tool":"page.screenshot","input":{"format":"jpeg","capture":{"kind":"full-page-tiles","directory":"page"}}},
		{"tool":"chrome_screenshot","input":{"format":"jpeg","capture":{"kind":"full-page-tiles","directory":"page"}}},
		{"tool":"chrome_screenshot"}]}`)
	assert.NilError(t, Check(doTool, in))
	three := tiles(t, threeTiles, []float64{0, 720, 1440}, "A", "B", "C")
	done := op.DoOut{Of: 5}
	for _, s := range []op.StepResult{
		{Tool: "chrome_read", OK: true, Text: "read", Value: json.RawMessage(`{"a":"<b>"}`)},
		{Tool: screenshotTool, OK: true, Text: "pictured", Value: image("png", "PNG")},
		{Tool: screenshotTool, OK: true, Text: "pictured", Value: three},
		{Tool: screenshotTool, OK: true, Text: "pictured", Value: three},
		{Tool: screenshotTool, OK: true, Text: "pictured", ValueBytes: 5 << 20},
	} {
		done.Add(s)
	}
	done.Steps[4].ValueBytes = 5 << 20 // as Add leaves a value that is too large
	r, err := op.NewResult(done)
	assert.NilError(t, err)
	kept, pictures, err := Keep(dir, doTool, in, r)
	assert.NilError(t, err)
	assert.DeepEqual(t, pictures, []Picture{{"image/png", []byte("PNG")}, {"image/jpeg", []byte("A")}, {"image/jpeg", []byte("B")}, {"image/jpeg", []byte("C")}})
	a, page := filepath.Join(dir, "a.png"), filepath.Join(dir, "page")
	want := []string{
		"Saved Chrome screenshot image to " + a,
		fmt.Sprintf("Saved 3 full-page screenshot tiles to %s. Manifest: %s", page, filepath.Join(page, "manifest.json")),
		"error: Screenshot tile-set destination already exists: " + page + "\nhint: nothing was written; choose another directory and take the screenshot again",
		"the pictures have 5242880 bytes, more than a list may return, and were not kept; chrome_screenshot by itself keeps them",
	}
	text := r.Text
	for i, line := range want {
		text += fmt.Sprintf("\n\nStep %d: %s", i+2, line)
	}
	assert.Equal(t, kept.Text, text)
	var got op.DoOut
	assert.NilError(t, json.Unmarshal(kept.Value, &got))
	assert.Equal(t, string(got.Steps[0].Value), `{"a":"<b>"}`)
	assert.Equal(t, got.Steps[0].Text, "read")
	for i, line := range want {
		assert.Equal(t, got.Steps[i+1].Text, line)
	}
	assert.Assert(t, strings.Contains(string(got.Steps[1].Value), a), "%s", got.Steps[1].Value)
	assert.Equal(t, len(got.Steps[3].Value), 0)
	assert.Assert(t, !strings.Contains(string(kept.Value), "base64"), "%s", kept.Value)

	// A list without pictures is the same bytes as before.
	done.Steps = done.Steps[:1]
	r, err = op.NewResult(done)
	assert.NilError(t, err)
	kept, pictures, err = Keep(dir, doTool, in, r)
	assert.NilError(t, err)
	assert.Equal(t, len(pictures), 0)
	assert.DeepEqual(t, kept, r)
}

// TestCheck: a place that no picture may have is refused before the call.
func TestCheck(t *testing.T) {
	bad := `{"format":"png","capture":{"kind":"viewport","path":"a.jpeg"}}`
	one := Check(screenshotTool, json.RawMessage(bad))
	assert.ErrorContains(t, one, "does not match requested png")
	list := op.AsError(Check(doTool, json.RawMessage(`{"steps":[{"tool":"chrome_read"},{"tool":"screenshot","input":`+bad+`}]}`)))
	assert.Equal(t, list.Message, "chrome_do: step 2: "+one.Error()+"; nothing was done")
	assert.Equal(t, list.Kind, op.Invalid)
	assert.Equal(t, list.Details["step"], 2)
	assert.NilError(t, Check("chrome_click", json.RawMessage(bad)))
	assert.NilError(t, Check(doTool, json.RawMessage(`[]`)), "the operation itself says what is wrong")
}

// TestBounded: what a result cannot hold is counted.
func TestBounded(t *testing.T) {
	pictures := func(n, size int) []Picture {
		return slices.Repeat([]Picture{{"image/png", make([]byte, size)}}, n)
	}
	shown, note := Bounded(pictures(3, 10), 12, 100)
	assert.Equal(t, len(shown), 3)
	assert.Equal(t, note, "")
	shown, note = Bounded(pictures(200, 10), 12, 1000)
	assert.Equal(t, len(shown), 12)
	assert.Equal(t, note, "\n\n[12 of 200 pictures are shown here; all are in the files]")
	shown, _ = Bounded(pictures(3, 50), 12, 100)
	assert.Equal(t, len(shown), 2)
}
