//go:build windows

package faults

import (
	"os"
	"os/exec"
	"strconv"
)

// kill ends a process at once, as nothing can prepare for.
func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// killGroup ends a browser with its children.
func killGroup(pid int) { _ = exec.Command("taskkill", "/F", "/T", "/PID", strconv.Itoa(pid)).Run() }
