package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrExists refuses a folder that has something in it already.
var ErrExists = errors.New("it is not empty, and credentials are not overwritten")

// Init makes a folder with everything in it, or nothing. One that is there must be empty.
func Init(path string, s Settings) (f Folder, err error) {
	if err := s.check(); err != nil {
		return f, err
	}
	if f.path, err = filepath.Abs(path); err != nil {
		return f, err
	}
	entries, err := os.ReadDir(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = f.create(s)
	case err == nil && len(entries) == 0:
		err = f.fill(s)
	case err == nil:
		err = ErrExists
	}
	if err != nil {
		return f, fmt.Errorf("making %s: %w", path, err)
	}
	return f, nil
}

// create makes a folder that is not there: beside its place, where it goes when it is whole.
func (f Folder) create(s Settings) error {
	if _, err := os.Lstat(f.path); err == nil {
		return errors.New("it is a link to what is not there: make that folder, or remove the link")
	}
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(f.path), ".auth-*")
	if err != nil {
		return err
	}
	if err = f.makeIn(temp, s); err == nil {
		err = os.Rename(temp, f.path)
	}
	if errors.Is(err, fs.ErrExist) { // somebody has just made it
		err = ErrExists
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

func (f Folder) makeIn(temp string, s Settings) error {
	return (&maker{Folder: Folder{temp}, Settings: s, final: f}).make()
}

// fillingName is a folder in the one that is being filled. Who makes it fills.
const fillingName = ".auth-new"

// fill makes everything in an empty folder, which stays: others may have given it its
// owner and its mode, and a mount point or what a link leads to cannot be replaced.
func (f Folder) fill(s Settings) error {
	temp := f.in(fillingName)
	if err := os.Mkdir(temp, dirMode); errors.Is(err, fs.ErrExist) {
		return ErrExists
	} else if err != nil {
		return err
	}
	err := f.alone()
	if err == nil {
		err = f.makeIn(temp, s)
	}
	if err == nil {
		err = f.take(temp)
	}
	return errors.Join(err, os.RemoveAll(temp))
}

// alone finds who has filled the folder since it was found empty.
func (f Folder) alone() error {
	entries, err := os.ReadDir(f.path)
	if err == nil && len(entries) > 1 {
		err = ErrExists
	}
	return err
}

// take moves all out of another folder into this one, or nothing. The stores come last,
// by which Open knows a folder.
func (f Folder) take(from string) error {
	entries, err := os.ReadDir(from) // sorted
	for i, entry := range entries {
		if err = os.Rename(filepath.Join(from, entry.Name()), f.in(entry.Name())); err == nil {
			continue
		}
		for _, taken := range entries[:i] {
			err = errors.Join(err, os.RemoveAll(f.in(taken.Name())))
		}
		break
	}
	return err
}
