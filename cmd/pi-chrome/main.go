// Command pi-chrome lets an agent see and act in pages of a real Chromium
// through its extension. `pi-chrome help` lists the commands.
package main

import (
	"os"

	"pi-chrome/cmd/internal/cli"
)

func main() { os.Exit(cli.Main()) }
