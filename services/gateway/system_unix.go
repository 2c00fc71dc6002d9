//go:build unix

package gateway

import "syscall"

// openFiles is how many files and connections this process may have open; 0: it is not known.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it has a sign elsewhere
}

// canTell says that a connection tells whether its other side is gone.
const canTell = true

// hasError reports whether a socket has an error.
func hasError(fd uintptr) bool {
	code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR) //nolint:gosec // it is a small number
	return err != nil || code != 0
}
