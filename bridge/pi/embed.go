// Package pi holds the Pi package: TypeScript that Pi loads as it is, which
// starts the program and registers the tools that it describes. It has no list
// of operations.
package pi

import (
	"embed"
	"io/fs"
)

// ProgramFile is the file beside the package that names the program to start:
// {"path": …}. It is written by the installation and is no part of the package.
const ProgramFile = "program.json"

// Protocol is the version of the lines between the package and the program.
const Protocol = 1

//go:embed *.ts package.json README.md LICENSE
var files embed.FS

// FS returns the files of the package, with package.json at its root.
func FS() fs.FS { return files }
