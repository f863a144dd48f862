package sandbox

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when this process is killed.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
