//go:build !windows

package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate refuses a secret file that is another user's or that others
// may read or write.
func checkPrivate(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("others may use it (mode %04o, wanted 0600)", m)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, not to you (%d)", st.Uid, os.Geteuid())
	}
	return nil
}
