package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// TestDraw: every line is there as it was printed, at its time and at its
// place; the picture is in the document; nothing is fetched; the end is what
// shows without motion.
func TestDraw(t *testing.T) {
	lines := []Line{{0, Title, "pi-chrome demo", ""}, {time.Second, Done, `search for "lamp"`, "12 ms"}}
	for i := range 40 {
		// A pause of nine seconds, of which one and a half are left.
		lines = append(lines, Line{10 * time.Second, Body, fmt.Sprintf("  │ - @el-%d link <%d & more>", i, i), ""})
	}
	lines = append(lines, Line{11500 * time.Millisecond, Total, "order A-1 verified", ""})
	var page bytes.Buffer
	assert.NilError(t, png.Encode(&page, image.NewGray(image.Rect(0, 0, 200, 100))))
	out, err := Draw(lines, page.Bytes(), 10*time.Second)
	assert.NilError(t, err)

	var texts []string
	in, pictures := "", 0
	for dec := xml.NewDecoder(bytes.NewReader(out)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NilError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
			for _, a := range token.Attr {
				if a.Name.Local != "href" {
					continue
				}
				assert.Assert(t, strings.HasPrefix(a.Value, "data:image/png;base64,"), a.Value)
				pictures++
			}
		case xml.CharData:
			if in == "text" {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			in = ""
		}
	}
	assert.Equal(t, pictures, 1)
	all := strings.Join(texts, "\n")
	for _, line := range lines {
		assert.Assert(t, strings.Contains(all, line.Text), line.Text)
	}
	assert.Assert(t, strings.Contains(all, "12 ms"))
	assert.Assert(t, !regexp.MustCompile(`(href|src|url)\s*[=(]\s*["']?https?:`).Match(out), "something is fetched")

	// 43 lines in 27 rows: what stands without motion is moved by 16 rows, and
	// the last line is the last row.
	style := string(out[bytes.Index(out, []byte("<style>")):bytes.Index(out, []byte("</style>"))])
	assert.Assert(t, strings.Contains(style, ".s{transform:translateY(-304px);"), style)
	assert.Assert(t, strings.Contains(string(out), fmt.Sprintf(`y="%d" class="g t">order A-1`, marginTop+42*rowHeight+14)), "the last line is elsewhere")
	for _, at := range []string{"0%,0.00%{opacity:0}", "0%,25.00%{opacity:0}", "0%,62.50%{opacity:0}", "0%,100.00%{opacity:0}"} {
		assert.Assert(t, strings.Contains(style, at), "%s is not in %s", at, style)
	}
	assert.Assert(t, strings.Contains(style, "prefers-reduced-motion"))

	_, err = Draw(nil, page.Bytes(), 0)
	assert.ErrorContains(t, err, "nothing was printed")
	_, err = Draw(lines, []byte("no picture"), 0)
	assert.ErrorContains(t, err, "reading the picture")
}
