package mapfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// Write puts a snapshot of a store at path, in place of what is there.
func Write(path string, s *expertmap.Store) error { return whole(path, s.Save) }

// WriteSaved is Write for what a store's Save has written.
func WriteSaved(path string, snapshot []byte) error {
	return whole(path, func(w io.Writer) error {
		_, err := w.Write(snapshot)
		return err
	})
}

func whole(path string, write func(io.Writer) error) error {
	if err := wholefile.Write(path, write); err != nil {
		return fmt.Errorf("writing expert maps %s: %w", path, err)
	}
	return nil
}

// Read reads the snapshot at path.
func Read(path string) (_ *expertmap.Store, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading expert maps: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	s, err := expertmap.Load(file)
	if err != nil {
		return nil, fmt.Errorf("reading expert maps %s: %w", path, err)
	}
	return s, nil
}

// Is reports whether a file begins as a snapshot does.
func Is(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it is only read
	begin := make([]byte, len(expertmap.Magic))
	_, err = io.ReadFull(file, begin)
	return err == nil && string(begin) == expertmap.Magic
}

// Whole returns the name that a file has once it is whole.
func Whole(path string) string { return strings.TrimSuffix(path, wholefile.Partial) }

// Forget rewrites the snapshot at path without a tenant's maps, and returns how many they
// were. What an interrupted write left beside it goes too, whosever it is.
func Forget(path, tenant string) (n int, err error) {
	left := os.Remove(path + wholefile.Partial)
	if left != nil && !errors.Is(left, fs.ErrNotExist) {
		return 0, fmt.Errorf("removing what was left of a write: %w", left)
	}
	s, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) && left == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n = s.Forget(tenant); n == 0 {
		return 0, nil
	}
	return n, Write(path, s)
}
