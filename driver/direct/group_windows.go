package direct

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives the command a group of its own, so that a Ctrl-C meant for us
// does not reach it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills the first process; the others end when their pipe to it
// breaks.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func groupAlive(int) bool { return false }

// terminateGroup does nothing: Windows has no such signal.
func terminateGroup(int) {}
