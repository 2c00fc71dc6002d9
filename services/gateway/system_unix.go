//go:build unix

package gateway

import (
	"syscall"
	"time"
)

// openFiles is how many files and connections this process may have open; 0: it is not known.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it has a sign elsewhere
}

// processorTime is what this process has had of processors.
func processorTime() (spent time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
