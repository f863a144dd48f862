//go:build !windows

package faults

import "syscall"

// kill ends a process at once, as nothing can prepare for.
func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// killGroup ends a browser with its children.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
