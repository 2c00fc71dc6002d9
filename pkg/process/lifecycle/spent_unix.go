//go:build unix

package lifecycle

import (
	"syscall"
	"time"
)

// spent is what this process has had of processors.
func spent() (_ time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
