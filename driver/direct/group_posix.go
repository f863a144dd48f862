//go:build unix

package direct

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, so that its end
// takes exactly what it started.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group. A group that is gone already is what is wanted.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func groupAlive(pid int) bool { return syscall.Kill(-pid, 0) == nil }

// terminateGroup asks the group to end.
func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
