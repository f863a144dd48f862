package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pi-chrome/cmd/internal/demo"
	"pi-chrome/driver/op"
)

// demoView shows the demo on stdout, and keeps what it showed. It prints
// nothing with --json.
type demoView struct {
	a       *app
	full    bool
	color   bool
	dir     string // of pictures and trace
	started time.Time
	shown   []demo.Line
}

// How much of a snapshot is shown.
const (
	shownLines = 6
	shownWidth = 120
)

// put prints one line, and keeps it.
func (v *demoView) put(at time.Duration, style demo.Style, text, right string) {
	// The folder is only where it happened to be.
	v.shown = append(v.shown, demo.Line{At: at, Style: style, Right: right, Text: strings.ReplaceAll(text, v.dir+string(filepath.Separator), "")})
	if v.a.globals.json {
		return
	}
	switch style {
	case demo.Title:
		text = v.style("1", text)
	case demo.Done:
		text = fmt.Sprintf("%s %-58s %s", v.style("32", "✓"), text, v.style("2", fmt.Sprintf("%9s", right)))
	case demo.Total:
		text = v.style("1;32", text)
	default:
		text = v.style("2", text)
	}
	fmt.Fprintln(v.a.env.Stdout, text)
}

func (v *demoView) line(right, format string, args ...any) {
	at := time.Since(v.started)
	if right == "" {
		v.put(at, demo.Title, fmt.Sprintf(format, args...), "")
		v.put(at, demo.Body, "", "")
		return
	}
	v.put(at, demo.Done, fmt.Sprintf(format, args...), right)
}

func (v *demoView) style(code, text string) string {
	if !v.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (v *demoView) step(s demo.Step) {
	v.line(fmt.Sprintf("%d ms", s.ElapsedMs), "%s", s.Name)
	if s.Result != "" {
		v.body(s.Result)
	}
	switch {
	case s.Snapshot == "":
	case v.full || s.Page == "":
		v.excerpt(strings.Split(strings.TrimSpace(s.Snapshot), "\n"), "lines")
	default:
		v.body(s.Page)
		v.excerpt(s.New, "that are new")
	}
}

// excerpt shows the first lines and counts the others.
func (v *demoView) excerpt(lines []string, what string) {
	hidden := 0
	if !v.full && len(lines) > shownLines {
		hidden = len(lines) - shownLines
		lines = lines[:shownLines]
	}
	for _, line := range lines {
		v.body(line)
	}
	if hidden > 0 {
		v.body(fmt.Sprintf("… %d more %s", hidden, what))
	}
}

// body prints a line of the step that was printed last.
func (v *demoView) body(line string) {
	if r := []rune(line); len(r) > shownWidth {
		line = string(r[:shownWidth-1]) + "…"
	}
	v.put(v.shown[len(v.shown)-1].At, demo.Body, "  │ "+line, "")
}

func (v *demoView) end(r demo.Report) {
	at := time.Since(v.started)
	v.put(at, demo.Body, "", "")
	v.put(at, demo.Total, fmt.Sprintf("order %s verified in %.1f s", r.Order, r.Elapsed.Seconds()), "")
	for _, p := range r.Pictures {
		v.put(at, demo.Body, "  picture  "+p, "")
	}
	v.put(at, demo.Body, "  trace    "+r.Trace, "")
}

// draw writes the run into a file, as a picture that moves.
func (v *demoView) draw(file string, r demo.Report) error {
	failed := func(err error) error {
		return op.Reject(op.ScreenshotFailure, "the run was not drawn into %s: %s; the order was placed all the same", file, err).
			WithHint("give another file with --svg")
	}
	page, err := os.ReadFile(r.Pictures[0])
	if err != nil {
		return failed(err)
	}
	taken := v.shown[len(v.shown)-1].At
	for _, line := range v.shown {
		if line.Style == demo.Done && line.Text == demo.PictureStep {
			taken = line.At
		}
	}
	drawn, err := demo.Draw(v.shown, page, taken)
	if err != nil {
		return failed(err)
	}
	if err := os.WriteFile(file, drawn, 0o644); err != nil {
		return failed(err)
	}
	return nil
}
