package driver

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// With both given, containingText chooses the content: its frontier goes on
// with that.
func TestFrontierOfTextAndQuery(t *testing.T) {
	s := start(t, "_/huge?n=1000")
	out, text := look(s, `{"containingText":"order","query":"7","maxTextChars":1500}`)
	assert.Assert(t, out.TextTruncated, text)
	var content []FrontierOut
	for _, f := range out.Frontiers {
		if f.Projection == "content" {
			content = append(content, f)
		}
	}
	assert.Equal(t, len(content), 1, text)
	assert.Assert(t, content[0].Omitted > 100, text)
	_, rest := readPage(s, fmt.Sprintf(`{"ref":%q}`, content[0].ID))
	assert.Assert(t, strings.Contains(strings.ToLower(rest), "order"), rest)
}

// Short texts that fit a query and are more than a snapshot lists are one
// frontier away, too.
func TestContentBeyondSnippets(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = Array.from({length: 60}, (_, i) => "<p>lamp " + i + "</p>").join(""); 1`)
	out, text := look(s, `{"containingText":"lamp"}`)
	assert.Equal(t, len(out.Snippets), 40, text)
	assert.Assert(t, out.TextTruncated, text)
	assert.Equal(t, len(out.Frontiers), 1, text)
	assert.Equal(t, out.Frontiers[0].Omitted, 60, text)
}

// What lies beyond the texts that are compared is not called unchanged, nor
// removed.
func TestChangesBeyondTheTexts(t *testing.T) {
	patient(t)
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = Array.from({length: 16100}, (_, i) => "<b>t" + i + "</b> ").join(""); 1`)
	look(s, `{}`)
	out, text := look(s, `{"mode":"changes"}`)
	assert.Assert(t, strings.Contains(text, "\n- nothing\n- only the first 16000 texts were compared"), text)
	assert.Equal(t, out.Diff.ComparedTexts, 16000)
	s.Eval(`document.body.append("Added at the end"); 1`)
	_, text = look(s, `{"mode":"changes"}`)
	assert.Assert(t, strings.Contains(text, "\n- text changed beyond what was compared, or was removed or moved\n- only the first 16000 texts were compared"), text)
	s.Eval(`document.body.prepend("Added at the top"); 1`)
	_, text = look(s, `{"mode":"changes"}`)
	assert.Assert(t, strings.Contains(text, `- text "Added at the top"`) && strings.Contains(text, "texts were compared"), text)
}

// Every list that is bounded says how much it leaves out.
func TestCountsOfWhatIsLeftOut(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = Array.from({length: 90}, (_, i) => "<section aria-label='Part " + i + "'><h2>Heading " + i + "</h2><form aria-label='Form " + i + "'><input aria-label='Field " + i + "'><button>Send it " + i + "</button></form></section>").join(""); 1`)
	hinted := func(out SnapshotOut, want string) {
		t.Helper()
		assert.Assert(t, strings.Contains(strings.Join(out.Summary.Hints, "\n"), want), "%v", out.Summary.Hints)
	}

	out, text := look(s, `{"mode":"pageMap","maxTextChars":30000}`)
	headings, landmarks := 0, 0
	for _, e := range out.PageMap {
		if e.Role == "heading" {
			headings++
		} else {
			landmarks++
		}
	}
	want := fmt.Sprintf("%d more landmarks, %d more headings", 2*90-landmarks, 90-headings) // a form is a landmark, too
	assert.Equal(t, headings, maxHeadings)
	assert.Assert(t, strings.Contains(text, "\n- … "+want), text)
	hinted(out, want)
	out, _ = look(s, `{"mode":"full","maxTextChars":30000}`)
	hinted(out, "more headings")

	out, text = look(s, `{"mode":"forms"}`)
	want = fmt.Sprintf("%d more forms", 90-len(out.Forms))
	assert.Assert(t, strings.Contains(text, "\n- … "+want), text)
	hinted(out, want)
	assert.Assert(t, runes(text) <= 8000)

	out, text = look(s, `{"mode":"interactive","query":"send"}`)
	assert.Equal(t, len(out.Matches), maxMatches)
	assert.Assert(t, strings.Contains(text, "\n- … 74 more matches"), text)
	hinted(out, "74 more matches")
	out, text = look(s, `{"mode":"interactive","query":"send","maxTextChars":4000}`)
	want = fmt.Sprintf("%d more matches", 90-len(out.Matches))
	assert.Assert(t, strings.Contains(text, "\n- … "+want), text)
	assert.Assert(t, runes(text) <= 4000)

	out, text = look(s, `{"mode":"interactive"}`)
	want = fmt.Sprintf("%d more contexts", 90-len(out.Contexts))
	assert.Assert(t, strings.Contains(text, "\n- … "+want), text)
}

// A comparison that has no room for all its lines counts what it left out.
func TestChangesCountWhatHasNoRoom(t *testing.T) {
	s := start(t, "snapshot/empty.html")
	s.Eval(`document.body.innerHTML = Array.from({length: 8}, (_, i) => "<button>Old button with a long name, number " + i + "</button>").join(""); 1`)
	look(s, `{}`)
	s.Eval(`document.title = "T".repeat(150); document.body.innerHTML = Array.from({length: 9}, (_, i) => "<button>New button with a long name, number " + i + "</button>").join(""); 1`)
	out, text := look(s, `{"mode":"changes","maxTextChars":900}`)
	assert.Assert(t, runes(text) <= 900)
	for _, c := range []struct {
		n    int
		what string
	}{{out.Diff.AddedCount, "added"}, {out.Diff.RemovedCount, "removed"}} {
		left := c.n - strings.Count(text, "\n- "+c.what+" ")
		assert.Assert(t, left > 0 && strings.Contains(text, fmt.Sprintf("\n- … %d more %s\n", left, c.what)), "%d: %s", left, text)
	}
	left := out.Diff.TextCount - strings.Count(text, "\n- text ")
	assert.Assert(t, strings.Contains(text, fmt.Sprintf("\n- … %d more new texts\n", left)), text)
}
