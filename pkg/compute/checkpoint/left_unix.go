//go:build unix

package checkpoint

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// holds says that hold tells which folders are in use.
const holds = true

// hold locks a folder until release or the end of the process. It fails with errHeld where another one has it, and with
// fs.ErrNotExist where that has removed it meanwhile.
func hold(dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	release = func() { _ = f.Close() } // with the lock
	switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errHeld
	case err == nil:
		err = same(f, dir)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// same reports fs.ErrNotExist where the name is not the open folder's any more.
func same(f *os.File, dir string) error {
	held, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(dir); err != nil || !os.SameFile(held, now) {
		return fs.ErrNotExist
	}
	return nil
}
