//go:build !linux

package faults

// diskFaults says whether this system can fail the owner's writes.
const diskFaults = false

func failWrites(int, bool) error { return nil }

func surviveFailedWrites() {}
