// Package install writes the embedded extension into a folder that a browser
// can load unpacked, and the bridge.json beside it that tells the extension
// where its owner listens.
package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// The files of a folder that are not the extension's own.
const (
	bridgeFile = extension.BridgeFile // read by the worker before each connect
	listFile   = "installed.json"     // what was written, so that exactly that can be removed
)

// Folder is an unpacked extension. Its methods may be called while a browser
// has it loaded: each file changes at once or not at all.
type Folder struct {
	Dir string
	// Progress is told of each file that Write has looked at; nil for nothing.
	Progress func(done, total int, name string)
}

// Default is the folder that belongs to a state folder. Two owners need two.
func Default(stateDir string) Folder { return Folder{Dir: filepath.Join(stateDir, "extension")} }

// Report says what Write did.
type Report struct {
	Dir       string `json:"dir"`
	Version   string `json:"version"`
	Port      int    `json:"port"`
	Written   int    `json:"written"`   // files that were new or different
	Unchanged int    `json:"unchanged"` // files that were right already
	Removed   int    `json:"removed"`   // files of an older release
}

// Info says what stands in the folder.
type Info struct {
	Dir          string   `json:"dir"`
	Installed    bool     `json:"installed"`
	Equal        bool     `json:"equal"`             // every file is the one of this program
	Version      string   `json:"version,omitempty"` // of the folder's manifest
	Port         int      `json:"port,omitempty"`    // of bridge.json
	PairingToken bool     `json:"pairingToken"`      // a pairing is going on, or one was cut short
	Differs      []string `json:"differs,omitempty"`
}

type manifest struct {
	Version string `json:"version"`
	Key     string `json:"key"`
}

type bridgeJSON struct {
	Port         int    `json:"port"`
	PairingToken string `json:"pairingToken,omitempty"`
}

// files returns the embedded files by slash-separated name.
func files() (map[string][]byte, error) {
	out := map[string][]byte{}
	err := fs.WalkDir(extension.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(extension.FS(), name)
		out[name] = data
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the embedded extension: %w", err)
	}
	return out, nil
}

func embeddedManifest() (manifest, error) {
	data, err := fs.ReadFile(extension.FS(), "manifest.json")
	if err != nil {
		return manifest{}, fmt.Errorf("reading the embedded manifest: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return manifest{}, fmt.Errorf("decoding the embedded manifest: %w", err)
	}
	return m, nil
}

// Write makes the folder hold exactly the embedded extension and bridge.json
// with the port. Files that pi-chrome did not write stay; a folder with other
// content and without our extension is refused.
func (f Folder) Write(port int) (Report, error) {
	r := Report{Dir: f.Dir, Version: extension.Version(), Port: port}
	want, err := files()
	if err != nil {
		return r, err
	}
	if err := f.refuseForeign(); err != nil {
		return r, err
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return r, fmt.Errorf("making the extension's folder: %w", err)
	}
	before := f.list()
	for i, name := range sortedKeys(want) {
		changed, err := Replace(filepath.Join(f.Dir, filepath.FromSlash(name)), want[name], 0o644)
		if err != nil {
			return r, fmt.Errorf("writing the extension: %w", err)
		}
		if changed {
			r.Written++
		} else {
			r.Unchanged++
		}
		if f.Progress != nil {
			f.Progress(i+1, len(want), name)
		}
	}
	for _, name := range before {
		if _, keep := want[name]; keep || !fs.ValidPath(name) {
			continue
		}
		err := os.Remove(filepath.Join(f.Dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("removing a file of an older release: %w", err)
		}
		if err == nil {
			r.Removed++
		}
	}
	list, err := json.MarshalIndent(sortedKeys(want), "", "  ")
	if err != nil {
		return r, fmt.Errorf("encoding the list of files: %w", err)
	}
	if _, err := Replace(filepath.Join(f.Dir, listFile), append(list, '\n'), 0o644); err != nil {
		return r, fmt.Errorf("writing the list of files: %w", err)
	}
	// A token of a pairing that is going on stays.
	b := f.bridge()
	b.Port = port
	return r, f.writeBridge(b)
}

// refuseForeign protects a folder that holds something else.
func (f Folder) refuseForeign() error {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return op.Invalidf("the extension cannot be installed into %s: %s", f.Dir, err).WithHint("give another folder")
	}
	ours, err := embeddedManifest()
	if err != nil {
		return err
	}
	if m, ok := f.manifest(); ok && m.Key == ours.Key {
		return nil
	}
	if len(f.list()) > 0 {
		return nil // an installation that was cut short
	}
	return op.Invalidf("the extension cannot be installed into %s: it holds other files", f.Dir).
		WithDetail("dir", f.Dir).WithHint("give an empty or new folder: pi-chrome extension install DIR")
}

func (f Folder) manifest() (manifest, bool) {
	data, err := os.ReadFile(filepath.Join(f.Dir, "manifest.json"))
	if err != nil {
		return manifest{}, false
	}
	var m manifest
	return m, json.Unmarshal(data, &m) == nil
}

// list is what an earlier Write wrote.
func (f Folder) list() []string {
	data, err := os.ReadFile(filepath.Join(f.Dir, listFile))
	if err != nil {
		return nil
	}
	var names []string
	if json.Unmarshal(data, &names) != nil {
		return nil
	}
	return names
}

func (f Folder) bridge() bridgeJSON {
	var b bridgeJSON
	data, err := os.ReadFile(filepath.Join(f.Dir, bridgeFile))
	if err == nil {
		// A damaged file is written anew.
		_ = json.Unmarshal(data, &b)
	}
	return b
}

func (f Folder) writeBridge(b bridgeJSON) error {
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", bridgeFile, err)
	}
	if _, err := Replace(filepath.Join(f.Dir, bridgeFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", bridgeFile, err)
	}
	return nil
}

// SetToken puts a one-time pairing token into bridge.json.
func (f Folder) SetToken(port int, token string) error {
	return f.writeBridge(bridgeJSON{Port: port, PairingToken: token})
}

// ClearToken takes the pairing token out of bridge.json.
func (f Folder) ClearToken() error {
	b := f.bridge()
	if b.PairingToken == "" {
		return nil
	}
	b.PairingToken = ""
	return f.writeBridge(b)
}

// Info compares the folder with the embedded extension.
func (f Folder) Info() (Info, error) {
	info := Info{Dir: f.Dir}
	want, err := files()
	if err != nil {
		return info, err
	}
	ours, err := embeddedManifest()
	if err != nil {
		return info, err
	}
	m, ok := f.manifest()
	if !ok || m.Key != ours.Key {
		return info, nil
	}
	info.Installed, info.Version = true, m.Version
	b := f.bridge()
	info.Port, info.PairingToken = b.Port, b.PairingToken != ""
	for _, name := range sortedKeys(want) {
		have, err := os.ReadFile(filepath.Join(f.Dir, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(have, want[name]) {
			info.Differs = append(info.Differs, name)
		}
	}
	info.Equal = len(info.Differs) == 0
	return info, nil
}

// Replace gives the file at path the content and the mode, whole or not at all,
// and reports whether that changed the content. Missing folders are made, for
// their owner alone. Errors are those of the file system.
func Replace(path string, data []byte, mode fs.FileMode) (bool, error) {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return false, os.Chmod(path, mode)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return false, err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(tmp.Name()))
	}
	return true, nil
}

func sortedKeys(m map[string][]byte) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
