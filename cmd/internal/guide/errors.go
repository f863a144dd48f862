package guide

import (
	"regexp"
	"slices"
	"strings"

	"pi-chrome/docs"
)

// Trouble is what the document of troubleshooting says about one code.
type Trouble struct {
	Code string `json:"code"`
	Text string `json:"text"` // plain lines: what it means, whether it had an effect, what to do
}

var (
	troubleHead = regexp.MustCompile(`(?m)^### ([a-z-]+)\n`)
	refusalRow  = regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\| (.+?) \\| (.+?) \\|$")
	aLink       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	aPart       = regexp.MustCompile(`\s*\*\*(\w+):\*\*\s*`)
)

// Troubles are all codes that the document has, sorted. One that is both an
// error and a refusal of the extension stands once, with both texts.
func Troubles() []Trouble {
	texts := map[string]string{}
	heads := troubleHead.FindAllStringSubmatchIndex(docs.Troubleshooting, -1)
	for _, h := range heads {
		body, _, _ := strings.Cut(docs.Troubleshooting[h[1]:], "\n#")
		texts[docs.Troubleshooting[h[2]:h[3]]] = plain(body)
	}
	_, refusals, _ := strings.Cut(docs.Troubleshooting, "\n## When the extension is refused\n")
	for _, row := range refusalRow.FindAllStringSubmatch(refusals, -1) {
		for code := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			text := plain("The extension is refused: " + row[2] + ". **Do:** " + row[3] + ".")
			if texts[code] != "" {
				text = texts[code] + "\n\n" + text
			}
			texts[code] = text
		}
	}
	list := make([]Trouble, 0, len(texts))
	for code, text := range texts {
		list = append(list, Trouble{code, text})
	}
	slices.SortFunc(list, func(a, b Trouble) int { return strings.Compare(a.Code, b.Code) })
	return list
}

// plain is a paragraph of the document for a terminal: its parts on lines of
// their own, links as their words.
func plain(paragraph string) string {
	text := strings.Join(strings.Fields(paragraph), " ")
	text = aLink.ReplaceAllString(text, "$1")
	return strings.ReplaceAll(aPart.ReplaceAllString(text, "\n$1: "), "`", "")
}
