package demo

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"image"
	_ "image/png" // the size of the picture
	"slices"
	"strings"
	"time"
)

// Style says how a line of the demo looks.
type Style int

// The styles.
const (
	Title Style = iota // bold
	Done               // a step that has ended, with its time on the right
	Body               // what a step saw
	Total              // the last line
)

// Line is one line that the demo has printed.
type Line struct {
	At    time.Duration // since the start
	Style Style
	Text  string
	Right string // of a step: its time
}

// Measures of the drawing, in CSS pixels.
const (
	drawnWidth  = 1000
	drawnRows   = 27 // of the window; earlier lines scroll away
	rowHeight   = 19
	charWidth   = 7.8 // of 13 px monospace
	marginLeft  = 18
	marginTop   = 50  // under the bar of the window
	cardWidth   = 370 // of the picture of the page
	cardBar     = 26
	rightColumn = 74 // where a step's time ends, in characters
)

// longestPause is what a viewer waits at most for the next line. The times that
// stand in the lines are those of the run.
const longestPause = 1500 * time.Millisecond

// Draw draws a run as an SVG document: the lines in a window of a terminal,
// each as it came, and over them the picture of the page, a PNG, from the time
// when it was taken. Long pauses are shortened. Where nothing moves, because the
// viewer asks for that or cannot, it shows the end of the run.
func Draw(lines []Line, page []byte, taken time.Duration) ([]byte, error) {
	if len(lines) == 0 {
		return nil, errors.New("drawing the demo: nothing was printed")
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("drawing the demo: reading the picture of the page: %w", err)
	}
	lines, taken = shortened(lines, taken)
	d := &drawing{last: max(lines[len(lines)-1].At, taken, time.Millisecond)}
	height := marginTop + drawnRows*rowHeight + 16
	fmt.Fprintf(&d.body, `<rect width="%d" height="%d" rx="10" fill="#16181d"/><rect width="%d" height="34" rx="10" fill="#262a33"/>`, drawnWidth, height, drawnWidth)
	for i, color := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&d.body, `<circle cx="%d" cy="17" r="6" fill="%s"/>`, 22+20*i, color)
	}
	fmt.Fprintf(&d.body, `<text x="%d" y="22" class="n" text-anchor="middle">pi-chrome demo</text>`, drawnWidth/2)
	fmt.Fprintf(&d.body, `<clipPath id="w"><rect y="38" width="%d" height="%d"/></clipPath><g clip-path="url(#w)"><g class="s">`, drawnWidth, height-44)
	d.lines(lines)
	d.body.WriteString(`</g></g>`)
	d.card(page, size, height, taken)

	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		drawnWidth, height, drawnWidth, height, "A run of pi-chrome demo: it searches a shop, buys a lamp and pictures the hidden tab.")
	fmt.Fprintf(&out, `<style>text{font:13px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#d7dae0;white-space:pre}.n{fill:#9aa1ad}.g{fill:#4cc38a}.t{font-weight:bold}.d{fill:#9aa1ad}%s`+
		`@media (prefers-reduced-motion:reduce){*{animation:none!important}}</style>`+"\n", d.style.String())
	out.Write(d.body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

// shortened is the run without its long pauses. The picture was taken when one
// of the lines was printed.
func shortened(lines []Line, taken time.Duration) ([]Line, time.Duration) {
	out, cut, shown := slices.Clone(lines), time.Duration(0), taken
	for i := range out {
		if i > 0 {
			cut += max(0, lines[i].At-lines[i-1].At-longestPause)
		}
		out[i].At -= cut
		if lines[i].At <= taken {
			shown = taken - cut
		}
	}
	return out, shown
}

// drawing is one SVG that is being made.
type drawing struct {
	last    time.Duration // the end of the run
	style   strings.Builder
	body    bytes.Buffer
	moments int
}

// from is the class of what appears at a moment of the run.
func (d *drawing) from(at time.Duration) string {
	class := fmt.Sprintf("m%d", d.moments)
	d.moments++
	percent := d.percent(at)
	fmt.Fprintf(&d.style, `.%[1]s{animation:%[1]s %[2]s}@keyframes %[1]s{0%%,%[3]s{opacity:0}%[4]s,to{opacity:1}}`, class, d.length(), percent, d.percent(at+80*time.Millisecond))
	return class
}

func (d *drawing) length() string { return fmt.Sprintf("%.2fs linear", d.last.Seconds()) }

func (d *drawing) percent(at time.Duration) string {
	return fmt.Sprintf("%.2f%%", min(100, 100*at.Seconds()/d.last.Seconds()))
}

// lines draws all lines, those of a moment together, and scrolls them.
func (d *drawing) lines(lines []Line) {
	fmt.Fprintf(&d.style, `.s{transform:translateY(%dpx);animation:s %s}@keyframes s{0%%{transform:none}`, scrolled(len(lines)), d.length())
	before := 0
	for i := range lines {
		if i+1 < len(lines) && lines[i+1].At == lines[i].At {
			continue
		}
		if to := scrolled(i + 1); to != before {
			fmt.Fprintf(&d.style, `%s{transform:translateY(%dpx)}%s{transform:translateY(%dpx)}`, d.percent(lines[i].At), before, d.percent(lines[i].At+80*time.Millisecond), to)
			before = to
		}
	}
	d.style.WriteString(`}`)
	for i, line := range lines {
		if i == 0 || line.At != lines[i-1].At {
			if i > 0 {
				d.body.WriteString(`</g>`)
			}
			fmt.Fprintf(&d.body, `<g class="%s">`, d.from(line.At))
		}
		d.line(line, marginTop+rowHeight*i+14)
	}
	d.body.WriteString("</g>")
}

// scrolled is how far n lines are moved, in pixels, so that the last shows.
func scrolled(n int) int { return -rowHeight * max(0, n-drawnRows) }

func (d *drawing) line(line Line, y int) {
	text := func(x float64, class, anchor, s string) {
		if anchor != "" {
			anchor = ` text-anchor="` + anchor + `"`
		}
		fmt.Fprintf(&d.body, `<text x="%.1f" y="%d" class="%s"%s>%s</text>`, x, y, class, anchor, html.EscapeString(s))
	}
	switch line.Style {
	case Title:
		text(marginLeft, "t", "", line.Text)
	case Done:
		text(marginLeft, "g", "", "✓")
		text(marginLeft+2*charWidth, "", "", line.Text)
		text(marginLeft+rightColumn*charWidth, "d", "end", line.Right)
	case Total:
		text(marginLeft, "g t", "", line.Text)
	default:
		text(marginLeft, "d", "", line.Text)
	}
}

// card draws the picture of the page as a window over the terminal.
func (d *drawing) card(page []byte, size image.Config, height int, taken time.Duration) {
	picture := cardWidth * size.Height / max(1, size.Width)
	x, y := drawnWidth-cardWidth-18, (height-picture-cardBar)/2
	fmt.Fprintf(&d.body, `<g class="%s"><rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="#000" opacity=".45"/>`, d.from(taken), x-3, y-1, cardWidth+6, picture+cardBar+8)
	fmt.Fprintf(&d.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#e3e6eb"/>`, x, y, cardWidth, picture+cardBar)
	fmt.Fprintf(&d.body, `<text x="%d" y="%d" style="fill:#333;font-size:12px">the hidden tab, as its picture shows it</text>`, x+12, y+17)
	fmt.Fprintf(&d.body, `<image x="%d" y="%d" width="%d" height="%d" href="data:image/png;base64,%s"/></g>`, x, y+cardBar, cardWidth, picture, base64.StdEncoding.EncodeToString(page))
}
