package sandbox

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the signals of the console from the child: the sandbox ends
// it when everything else has ended.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
