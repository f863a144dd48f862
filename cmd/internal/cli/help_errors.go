package cli

import (
	"slices"
	"strings"

	"pi-chrome/cmd/internal/guide"
	"pi-chrome/docs"
)

// errorsTopic is the word after help that prints the whole document.
const errorsTopic = "errors"

// helpOfCode is what the help says about the code of an error; false when
// there is none of that name.
func helpOfCode(name string) (output, bool) {
	if name == errorsTopic {
		return output{value: map[string]any{"errors": guide.Troubles()}, text: docs.Troubleshooting}, true
	}
	list := guide.Troubles()
	i := slices.IndexFunc(list, func(t guide.Trouble) bool { return t.Code == strings.ToLower(name) })
	if i < 0 {
		return output{}, false
	}
	return output{value: list[i], text: list[i].Code + "\n\n" + wrap(list[i].Text, 100) + "\n"}, true
}
