package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pi-chrome/bridge/client"
	"pi-chrome/driver/op"
)

// resultFile is the file of --output while it is written. It appears under its
// name when it is whole, and a file of that name stays as it is until then.
type resultFile struct {
	name string
	temp *os.File      // in the same folder; nil for what is no regular file
	held *bytes.Buffer // then: a device or a pipe, written at the end
}

// createResult makes the file before the command runs, so that a place that
// cannot be written to costs nothing.
func createResult(name string) (*resultFile, error) {
	bad := func(why any) error {
		return op.Invalidf("the result cannot be written to %s: %v; nothing was done", name, why).WithDetail("field", "output").WithHint("give another file with --output")
	}
	// A link stays one: what it leads to is written.
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, bad("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return &resultFile{name: name, held: &bytes.Buffer{}}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, bad(err)
	}
	mode := fs.FileMode(0o666) // less what the user's mask takes away
	if info != nil {
		mode = 0o600 // until it has the old one's
	}
	temp, err := os.OpenFile(filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+client.NewID()[:8]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bad("there is no folder " + filepath.Dir(name))
	}
	if err != nil {
		return nil, bad(err)
	}
	f := &resultFile{name: name, temp: temp}
	if info != nil {
		// Who may read the old file may read the new one, and nobody else.
		if err := temp.Chmod(info.Mode().Perm()); err != nil {
			f.discard()
			return nil, bad(err)
		}
	}
	return f, nil
}

func (f *resultFile) Write(b []byte) (int, error) {
	if f.temp == nil {
		return f.held.Write(b)
	}
	return f.temp.Write(b)
}

// publish gives the file its name.
func (f *resultFile) publish() error {
	if f.temp == nil {
		to, err := os.OpenFile(f.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = to.Write(f.held.Bytes())
		return errors.Join(err, to.Close())
	}
	err := errors.Join(f.temp.Sync(), f.temp.Close())
	if err == nil {
		err = os.Rename(f.temp.Name(), f.name)
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	return nil
}

// discard leaves everything as it was.
func (f *resultFile) discard() {
	if f.temp != nil {
		_ = f.temp.Close() // what was written goes with it
		_ = f.remove()     // an error of the command is told, not this
	}
}

func (f *resultFile) remove() error {
	if err := os.Remove(f.temp.Name()); err != nil {
		return fmt.Errorf("removing what was written so far: %w", err)
	}
	return nil
}
