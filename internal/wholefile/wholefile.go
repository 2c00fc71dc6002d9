// Package wholefile writes files that have their name only when they are whole, and reads bounded ones.
//
// Until then a file stands beside its name as FILE.partial, so that a process or machine that ends
// meanwhile leaves what was there before. Files are readable by their owner alone.
package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Partial is what is behind the name of a file that is not whole yet.
const Partial = ".partial"

// Write lets write fill a file that then stands at path, in place of what is there.
func Write(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path+Partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder has a folder's entries on the disk, so that a rename outlives the machine's end.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
