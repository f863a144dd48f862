package bridge

import (
	"errors"
	"io/fs"
)

// checkPrivate takes any regular file: the folder below %LocalAppData% is
// private by its inherited access list, and mode bits mean nothing here.
func checkPrivate(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	return nil
}
