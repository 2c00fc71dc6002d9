package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders that are being written have a lock as long as their process lives. Those without one are what a killed process
// has left.

// makePartial makes a folder beside out, and holds it until release.
func makePartial(out string) (partial string, release func(), err error) {
	for {
		if partial, err = os.MkdirTemp(filepath.Dir(filepath.Clean(out)), "."+filepath.Base(out)+"-*"); err != nil {
			return "", nil, err
		}
		release, err = hold(partial)
		switch {
		case err == nil:
			return partial, release, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errHeld): // another process took it for one that was left
			continue
		}
		return "", nil, errors.Join(err, os.RemoveAll(partial))
	}
}

// errHeld is of a folder that another process holds.
var errHeld = errors.New("another process holds the folder")

// removeLeft removes folders beside out that makePartial has made and nobody holds. What cannot be removed stays: it takes
// room alone.
func removeLeft(out string) {
	above := filepath.Dir(filepath.Clean(out))
	beside, err := os.ReadDir(above)
	if err != nil || !holds {
		return
	}
	for _, entry := range beside {
		number, ok := strings.CutPrefix(entry.Name(), "."+filepath.Base(out)+"-")
		if !ok || !entry.IsDir() || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		path := filepath.Join(above, entry.Name())
		if release, err := hold(path); err == nil {
			_ = os.RemoveAll(path)
			release()
		}
	}
}
