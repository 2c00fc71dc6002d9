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

// Names returns the profiles in this binary.
func Names() []string { return namesIn(embedded, ".") }

func namesIn(fs embed.FS, folder string) (names []string) {
	files, _ := fs.ReadDir(folder) // it is there
	for _, f := range files {
		names = append(names, nameOf(f.Name()))
	}
	return names
}

// Open returns the profile of this name or, if there is none, in this file.
func Open(nameOrFile string) (*Profile, error) {
	file, data, err := find("profile", nameOrFile, embedded, "", Names())
	if err != nil {
		return nil, err
	}
	return Read(file, data)
}

// find returns what is in this binary's folder by this name or, if there is none, in this file.
func find(what, nameOrFile string, in embed.FS, folder string, names []string) (file string, data []byte, err error) {
	file = nameOrFile + ".yaml"
	if data, err := in.ReadFile(folder + file); err == nil {
		return file, data, nil
	}
	data, err = read(nameOrFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, fmt.Errorf("there is no %s and no file %q; the %ss are %s", what, nameOrFile, what, strings.Join(names, ", "))
	case err != nil:
		return "", nil, fmt.Errorf("reading a %s: %w", what, err)
	}
	return nameOrFile, data, nil
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
