package cli

import (
	"fmt"
	"strings"
)

// A bar is one line of the narrowest terminal that is in use, so that it does
// not break and can be taken back.
const (
	barCells = 24
	barNote  = 40 // characters
)

// progress shows how far a long command is: a bar on one line of the terminal,
// or without a total only what it is at. Without a terminal it shows nothing.
func (a *app) progress(done, total int, note string) {
	if a.tell != nil {
		a.tell(done, total, note)
		return
	}
	if !a.env.StderrTerminal || a.globals.json {
		return
	}
	fmt.Fprint(a.env.Stderr, "\r\x1b[K"+bar(done, total, note))
	a.barShown = true
	if total > 0 && done >= total {
		a.clearBar()
	}
}

// clearBar takes the bar back, if one is shown: what is printed next begins its
// line.
func (a *app) clearBar() {
	if a.barShown {
		fmt.Fprint(a.env.Stderr, "\r\x1b[K")
		a.barShown = false
	}
}

// bar is such as "[======>                 ]  2/7 tile 2 of 7".
func bar(done, total int, note string) string {
	if r := []rune(note); len(r) > barNote {
		note = string(r[:barNote-1]) + "…"
	}
	if total <= 0 {
		return note
	}
	done = min(max(done, 0), total)
	full := barCells * done / total
	cells := strings.Repeat("=", full)
	if full < barCells {
		cells += ">" + strings.Repeat(" ", barCells-full-1)
	}
	count := fmt.Sprint(total)
	return fmt.Sprintf("[%s] %*d/%s %s", cells, len(count), done, count, note)
}
