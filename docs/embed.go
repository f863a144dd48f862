// Package docs carries those documents that the program shows itself.
package docs

import _ "embed"

// Troubleshooting is troubleshooting.md: a heading "### code" for each code of
// an error, and a table of the refusals of the extension.
//
//go:embed troubleshooting.md
var Troubleshooting string
