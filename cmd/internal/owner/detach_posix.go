//go:build unix

package owner

import (
	"os/exec"
	"syscall"
)

// detach gives the command a session of its own: no signal of the caller's
// terminal reaches it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
