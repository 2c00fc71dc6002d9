package natsserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lockName is the file in a store's folder that its server holds a lock on.
const lockName = "switchyard.lock"

// ErrInUse refuses a folder that another server uses: two of them on the same
// files lose what both have acknowledged.
var ErrInUse = errors.New("the data directory is in use")

// errHeld is what tryLock returns for a lock that somebody else holds.
var errHeld = errors.New("held")

// storeLock is the right to use a store's folder. It ends with the process,
// however that ends.
type storeLock struct {
	file *os.File
}

// lockStore takes the folder's lock, and writes into the lock's file who holds it.
func lockStore(dir string) (*storeLock, error) {
	path := filepath.Join(dir, lockName)
	file, err := awaitLock(path)
	if errors.Is(err, errHeld) {
		return nil, fmt.Errorf("%w: %s belongs to %s; stop that one, or choose another folder", ErrInUse, dir, holder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data directory %s: %w", dir, err)
	}
	l := &storeLock{file: file}
	if err := l.sign(); err != nil {
		l.release()
		return nil, fmt.Errorf("writing who holds %s: %w", path, err)
	}
	return l, nil
}

// A process that was just killed holds its lock for as long as it takes the
// kernel to bury it.
const (
	lockWithin = time.Second
	lockPoll   = 10 * time.Millisecond
)

func awaitLock(path string) (file *os.File, err error) {
	for deadline := time.Now().Add(lockWithin); ; time.Sleep(lockPoll) {
		if file, err = openLock(path); !errors.Is(err, errHeld) || time.Now().After(deadline) {
			return file, err
		}
	}
}

// sign replaces what the last holder wrote.
func (l *storeLock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.file, "process %d on %s, since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	return err
}

// What holder waits for: whoever has just taken the lock signs it at once.
const (
	signWithin = 200 * time.Millisecond
	signPoll   = 5 * time.Millisecond
)

// maxHolder bounds what of a lock's file is shown.
const maxHolder = 200

// holder is what the lock's file says about who holds it.
func holder(path string) string {
	for deadline := time.Now().Add(signWithin); time.Now().Before(deadline); time.Sleep(signPoll) {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			return strings.TrimSpace(string(data[:min(len(data), maxHolder)]))
		}
	}
	return "a process that does not say who it is"
}
