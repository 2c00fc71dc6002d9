package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A folder that is being written has a mark: a file that says so, and that its writer holds locked. Where a mark can be
// locked, its writer was killed, and the folder is removed. The mark gets its text once it is locked: where files cannot be
// locked no mark says anything, and nothing is removed. It names the host, since locks may be of one host alone (NFS).

const (
	markName = ".switchyard-is-writing-this-folder"
	markText = "switchyard writes this folder, and removes it with all in it if it was killed at that. Host: "
	// maxMark is more than the bytes of a mark.
	maxMark = 1 << 10
)

// lock locks an open file until it is closed. It fails, at once, where another process has the lock, or where there are none.
var lock = flock

// makePartial makes a folder beside out, and marks it until release, if it can.
func makePartial(out string) (partial string, release func(), err error) {
	partial, err = os.MkdirTemp(filepath.Dir(filepath.Clean(out)), partialPrefix(out)+"*")
	if err != nil {
		return "", nil, err
	}
	return partial, setMark(partial), nil
}

// partialPrefix is how the names of makePartial's folders begin.
func partialPrefix(out string) string { return "." + filepath.Base(out) + "-partial-" }

// setMark marks a folder as one that this process writes, until release. Without locks it leaves the folder as it is.
func setMark(dir string) (release func()) {
	f, err := os.OpenFile(filepath.Join(dir, markName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return func() {}
	}
	text, err := wholeMark()
	if err = errors.Join(err, lock(f)); err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		_ = errors.Join(f.Close(), os.Remove(f.Name())) // an empty mark says nothing
		return func() {}
	}
	return func() { _ = f.Close() } // with the lock
}

func unmark(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func wholeMark() (string, error) {
	host, err := os.Hostname()
	return markText + host + "\n", err
}

// removeLeft removes the folders beside out that makePartial has made on this host for a process that was killed. What
// cannot be removed stays: it takes room alone.
func removeLeft(out string) {
	above := filepath.Dir(filepath.Clean(out))
	beside, err := os.ReadDir(above)
	if err != nil {
		return
	}
	for _, entry := range beside {
		number, ok := strings.CutPrefix(entry.Name(), partialPrefix(out))
		if ok && entry.IsDir() && number != "" && strings.Trim(number, "0123456789") == "" {
			removeDead(filepath.Join(above, entry.Name()))
		}
	}
}

// removeDead removes a folder whose mark is whole, and locked by nobody.
func removeDead(dir string) {
	path := filepath.Join(dir, markName)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() { // to open a pipe may wait
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if lock(f) == nil && isMark(f, path) {
		_ = os.RemoveAll(dir)
	}
}

// isMark reports whether an open file is a mark of this host, and has the name still.
func isMark(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(held, now) {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMark))
	want, unknown := wholeMark()
	return errors.Join(err, unknown) == nil && string(text) == want
}
