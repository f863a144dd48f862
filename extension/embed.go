// Package extension holds the companion extension: the files that a browser
// loads, as they stand beside this file. They are plain JavaScript modules
// without a build step, and every byte of this folder that is not a test or a
// tool's setting ships.
package extension

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
)

// ID is the id of the extension. It follows from the key in the manifest, so
// it is the same on every machine.
const ID = "ifcpakcjbfefmnphbpkiejoojocimldi"

// BridgeFile is the name of the file that tells the worker where to connect. It
// is written into the unpacked folder and is never part of the package.
const BridgeFile = "bridge.json"

//go:embed manifest.json bootstrap.html popup.html popup.css icons/*.png
//go:embed badge.js calls.js contract.js facts.js identity.js kept.js package_folder.js
//go:embed popup.js popup_link.js popup_text.js popup_view.js popup_work.js pulse.js relay.js requests.js service_worker.js wire.js
var files embed.FS

// FS returns the files of the extension, with manifest.json at its root.
func FS() fs.FS { return files }

// Files returns the paths of all files in [FS], sorted, with slashes.
func Files() []string {
	var names []string
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("listing the embedded extension: %v", err)) // it is part of the binary
	}
	slices.Sort(names)
	return names
}

// Version returns the version in the manifest, which is for people: what both
// sides must agree on is the fingerprint of the contract.
func Version() string {
	var manifest struct {
		Version string `json:"version"`
	}
	b, err := files.ReadFile("manifest.json")
	if err == nil {
		err = json.Unmarshal(b, &manifest)
	}
	if err != nil {
		panic(fmt.Sprintf("reading the embedded manifest: %v", err))
	}
	return manifest.Version
}
