//go:build linux

package faults

import (
	"math"
	"os/signal"
	"syscall"
	"unsafe"
)

// diskFaults says whether this system can fail the owner's writes.
const diskFaults = true

// failWrites makes every write of the process to a file fail, as a full disk
// does, or lets them work again.
func failWrites(pid int, fail bool) error {
	limit := syscall.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}
	if fail {
		limit.Cur = 0
	}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// surviveFailedWrites makes a failed write an error: the system would end the
// process otherwise.
func surviveFailedWrites() { signal.Ignore(syscall.SIGXFSZ) }
