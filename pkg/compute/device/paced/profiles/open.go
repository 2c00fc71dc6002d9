package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed *.yaml
var embedded embed.FS

// Names are the profiles in this binary.
func Names() (names []string) {
	files, _ := embedded.ReadDir(".") // it is there
	for _, f := range files {
		names = append(names, nameOf(f.Name()))
	}
	return names
}

// Open is the profile of this name or, if there is none, in this file.
func Open(nameOrFile string) (*Profile, error) {
	file := nameOrFile + ".yaml"
	if data, err := embedded.ReadFile(file); err == nil {
		return Read(file, data)
	}
	data, err := read(nameOrFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no profile and no file %q; the profiles are %s", nameOrFile, strings.Join(Names(), ", "))
	case err != nil:
		return nil, fmt.Errorf("reading a profile: %w", err)
	}
	return Read(nameOrFile, data)
}

// read reads no more of a file than Read accepts, and one byte.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	return io.ReadAll(io.LimitReader(f, mostFile+1))
}

func nameOf(file string) string {
	base := path.Base(filepath.ToSlash(file))
	return strings.TrimSuffix(base, path.Ext(base))
}
