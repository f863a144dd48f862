package op

import (
	"fmt"
	"path"
	"strings"
)

// CheckPortablePath refuses a path that is not relative to the workspace and
// the same on every system: absolute paths, drives, backslashes, empty, dot
// and parent segments and NUL (contract §1.2).
func CheckPortablePath(p string) error {
	switch {
	case strings.TrimSpace(p) == "":
		return fmt.Errorf("the path is empty")
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("the path %q contains NUL", p)
	case strings.Contains(p, `\`):
		return fmt.Errorf("the path %q contains a backslash; separate its parts with /", p)
	case path.IsAbs(p):
		return fmt.Errorf("the path %q is absolute; give one relative to the workspace", p)
	case len(p) > 2 && p[1] == ':' && p[2] == '/':
		return fmt.Errorf("the path %q names a drive; give one relative to the workspace", p)
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(p, "/"), "/") {
		switch part {
		case "":
			return fmt.Errorf("the path %q has an empty part", p)
		case ".", "..":
			return fmt.Errorf("the path %q has the part %q; give one inside the workspace", p, part)
		}
	}
	return nil
}
