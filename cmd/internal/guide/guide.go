// Package guide is the text that tells an agent how to work with the tools.
// Every surface that has a place for such a text gives this one.
package guide

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

//go:embed guide.md
var text string

// Text is the guide, with a last line that says of which release it is. What it
// says of tools that there are not is left out.
func Text() (string, error) {
	version, err := Version()
	if err != nil {
		return "", err
	}
	list, err := owner.Descriptors()
	if err != nil {
		return "", err
	}
	body := Only(text, func(tool string) bool {
		return slices.ContainsFunc(list, func(d op.Descriptor) bool { return d.Tool == tool })
	})
	return strings.TrimRight(body, "\n") + "\n\n(" + version + ")", nil
}

var (
	named    = regexp.MustCompile(`chrome_[a-z_]*[a-z]`)
	sentence = regexp.MustCompile(`\. +[A-Z\x60]`)
	marker   = regexp.MustCompile(`^(\d+\. |- )?([A-Z][a-z]+: )?`)
)

// Only is a text without the sentences that name a tool which has says there
// is not. A line of which nothing is left goes too.
func Only(text string, has func(tool string) bool) string {
	missing := func(s string) bool {
		return slices.ContainsFunc(named.FindAllString(s, -1), func(tool string) bool { return !has(tool) })
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !missing(line) {
			lines = append(lines, line)
			continue
		}
		head := marker.FindString(line)
		var kept []string
		for _, s := range sentences(line[len(head):]) {
			if !missing(s) {
				kept = append(kept, s)
			}
		}
		if len(kept) > 0 {
			lines = append(lines, head+strings.Join(kept, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// sentences are the sentences of a line, without the spaces between them.
func sentences(line string) []string {
	var out []string
	from := 0
	for _, m := range sentence.FindAllStringIndex(line, -1) {
		out = append(out, line[from:m[0]+1])
		from = m[1] - 1
	}
	return append(out, line[from:])
}

// Version names what the guide is true of: the program, the wire protocol and
// the list of operations, by its fingerprint.
func Version() (string, error) {
	operations, err := owner.Fingerprint()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("pi-chrome %s, protocol %d, operations %s", owner.Version, wire.Version, operations[:12]), nil
}

// Skill is the guide as a file SKILL.md, which agents find by its head.
func Skill() (string, error) {
	body, err := Text()
	if err != nil {
		return "", err
	}
	return "---\nname: pi-chrome\ndescription: See and use pages in the user's own Chrome: open, read, click, fill, wait and picture, in tabs of your own, with truthful outcomes.\n---\n\n# pi-chrome\n\n" + body + "\n", nil
}
