//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package natsserver

import (
	"errors"
	"os"
	"syscall"
)

// openLock locks the file itself: the lock is the kernel's, so that a crash
// leaves none behind.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, err
}

// release leaves the file there, empty: removing it would let a second process
// lock a file that a third one cannot see.
func (l *storeLock) release() {
	_ = l.file.Truncate(0) // only for looking at
	_ = l.file.Close()     // fails when it is closed already
}
