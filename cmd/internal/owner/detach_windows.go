package owner

import (
	"os/exec"
	"syscall"
)

// detachedProcess is DETACHED_PROCESS: no console at all.
const detachedProcess = 0x00000008

// detach takes the command off the caller's console.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess, HideWindow: true}
}
