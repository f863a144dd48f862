// Package guide is the text that tells an agent how to work with the tools.
// Every surface that has a place for such a text gives this one.
package guide

import (
	_ "embed"
	"fmt"
	"strings"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
)

//go:embed guide.md
var text string

// Text is the guide, with a last line that says of which release it is.
func Text() (string, error) {
	version, err := Version()
	if err != nil {
		return "", err
	}
	return strings.TrimRight(text, "\n") + "\n\n(" + version + ")", nil
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
