package bridge

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func TestCredential(t *testing.T) {
	dir := t.TempDir()
	_, err := LoadCredential(dir)
	assert.Assert(t, errors.Is(err, ErrNoCredential), "%v", err)
	assert.Assert(t, errors.Is(err, &op.Error{Code: op.CredentialUnreadable}))
	// Several owners that start at once agree on one.
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			c, err := ensureCredential(dir)
			assert.Check(t, err)
			got[i] = c
		})
	}
	wg.Wait()
	for _, c := range got {
		assert.Equal(t, c, got[0])
		assert.Assert(t, hex256.MatchString(c))
	}
	path := filepath.Join(dir, credentialFile)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	}
	files, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(files), 1) // no leftover of those that lost

	bad := func(why string) {
		t.Helper()
		_, err := ensureCredential(dir)
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, "%v", err)
		assert.Equal(t, e.Code, op.CredentialUnreadable)
		assert.Assert(t, strings.Contains(e.Message, why), e.Message)
		assert.Assert(t, e.Hint != "")
		assert.Assert(t, !strings.Contains(e.Message, got[0]))
	}
	if runtime.GOOS != "windows" {
		for _, mode := range []os.FileMode{0o644, 0o660, 0o602, 0o604} {
			assert.NilError(t, os.Chmod(path, mode))
			bad("others may use it")
		}
		assert.NilError(t, os.Chmod(path, 0o600))
		if os.Geteuid() == 0 {
			assert.NilError(t, os.Chown(path, 4242, -1))
			bad("belongs to user 4242")
			assert.NilError(t, os.Chown(path, 0, -1))
		}
	}
	for _, text := range []string{"", "{", `{"version":2,"credential":"` + got[0] + `"}`, `{"version":1,"credential":"short"}`, `{"version":1}`} {
		assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
		bad("not a credential of version 1")
	}
	assert.NilError(t, os.Remove(path))
	assert.NilError(t, os.Mkdir(path, 0o700))
	bad("not a regular file")
}

func TestStateDir(t *testing.T) {
	if runtime.GOOS == "linux" {
		t.Setenv("XDG_STATE_HOME", "/somewhere/state")
		dir, err := DefaultStateDir()
		assert.NilError(t, err)
		assert.Equal(t, dir, "/somewhere/state/pi-chrome")
		t.Setenv("XDG_STATE_HOME", "relative/is/ignored")
		t.Setenv("HOME", "/home/somebody")
		dir, err = DefaultStateDir()
		assert.NilError(t, err)
		assert.Equal(t, dir, "/home/somebody/.local/state/pi-chrome")
	}
	base := t.TempDir()
	dir, err := PrepareStateDir(filepath.Join(base, "a", "b"))
	assert.NilError(t, err)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(dir)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), os.FileMode(0o700))
	}
	file := filepath.Join(base, "file")
	assert.NilError(t, os.WriteFile(file, nil, 0o600))
	_, err = PrepareStateDir(file)
	assert.Assert(t, errors.Is(err, &op.Error{Code: op.StateUnreadable}), "%v", err)
	_, err = PrepareStateDir(filepath.Join(file, "below"))
	assert.Assert(t, errors.Is(err, &op.Error{Code: op.StateUnreadable}), "%v", err)
}

func TestStartFailureIsTold(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, databaseFile), []byte(strings.Repeat("junk", 5000)), 0o600))
	before := time.Now()
	assert.Assert(t, StartFailure(dir, before) == nil)
	_, err := Listen(Options{StateDir: dir, ExtensionID: pinnedExtension, Handler: &fakeHandler{}})
	assert.Assert(t, errors.Is(err, &op.Error{Code: op.StateUnreadable}), "%v", err)
	told := StartFailure(dir, before)
	assert.Assert(t, told != nil)
	assert.Equal(t, told.Code, op.StateUnreadable)
	assert.Assert(t, StartFailure(dir, time.Now().Add(time.Hour)) == nil)
	assert.NilError(t, os.Remove(filepath.Join(dir, databaseFile)))
	s, err := Listen(Options{StateDir: dir, ExtensionID: pinnedExtension, Handler: &fakeHandler{}})
	assert.NilError(t, err)
	assert.Assert(t, StartFailure(dir, before) == nil)
	o, err := ReadOwnerFile(dir)
	assert.NilError(t, err)
	assert.Equal(t, o.Port, s.Port())
	assert.NilError(t, s.Close())
	_, err = ReadOwnerFile(dir)
	assert.Assert(t, errors.Is(err, os.ErrNotExist))
}

func TestOpenLogKeepsOneOlder(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(LogPath(dir), make([]byte, maxLog+1), 0o600))
	f, err := OpenLog(dir)
	assert.NilError(t, err)
	assert.NilError(t, f.Close())
	info, err := os.Stat(LogPath(dir))
	assert.NilError(t, err)
	assert.Equal(t, info.Size(), int64(0))
	_, err = os.Stat(LogPath(dir) + ".1")
	assert.NilError(t, err)
}
