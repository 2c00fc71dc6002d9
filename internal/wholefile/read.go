package wholefile

import (
	"fmt"
	"io/fs"
)

// Read returns the content of a regular file of at most so many bytes. It opens nothing else: a
// pipe would wait for who writes.
func Read(in fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(in, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", name, most)
	}
	return fs.ReadFile(in, name)
}
