//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package natsserver

import (
	"errors"
	"io/fs"
	"os"
)

// openLock makes the file, and fails where there is one: this system has no
// lock that we know. After a crash the file stays and is to be removed by hand.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errHeld
	}
	return file, err
}

// release may be called twice, and then finds the file closed.
func (l *storeLock) release() {
	if l.file.Close() == nil {
		_ = os.Remove(l.file.Name()) // its holder is gone: the error has no reader
	}
}
