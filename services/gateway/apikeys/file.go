package apikeys

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/wholefile"
)

// File is a file of keys, with the lines that are for people as they stand.
type File struct{ lines []line }

type line struct {
	text string
	key  *Key // nil: it has none
}

func parseFile(data []byte) (*File, error) {
	f, number := &File{}, map[Hash]int{}
	text := strings.TrimSuffix(string(data), "\n")
	if text == "" {
		return f, nil
	}
	for i, t := range strings.Split(text, "\n") {
		k, err := parse(t)
		if err == nil && k != nil && number[k.Hash] > 0 {
			err = fmt.Errorf("its key stands in line %d already", number[k.Hash])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if k != nil {
			number[k.Hash] = i + 1
		}
		f.lines = append(f.lines, line{t, k})
	}
	return f, nil
}

// Keys returns the file's keys, in its order.
func (f *File) Keys() (all []Key) {
	for _, l := range f.lines {
		if l.key != nil {
			all = append(all, *l.key)
		}
	}
	return all
}

// Add adds a key.
func (f *File) Add(k Key) error {
	if err := k.Check(); err != nil {
		return err
	}
	f.lines = append(f.lines, line{k.line(), &k})
	return nil
}

// leastID is how many digits of an ID name a key.
const leastID = 4

func (f *File) index(id string) (at int, err error) {
	at = -1
	for i, l := range f.lines {
		if l.key == nil || len(id) < leastID || !strings.HasPrefix(fmt.Sprintf("%x", l.key.Hash), strings.ToLower(id)) {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("several keys begin with %q: give more digits", id)
		}
		at = i
	}
	if at < 0 {
		return 0, fmt.Errorf("no key has the id %.80q; keys list shows those that there are", id)
	}
	return at, nil
}

// Revoke takes a key out.
func (f *File) Revoke(id string) (Key, error) {
	i, err := f.index(id)
	if err != nil {
		return Key{}, err
	}
	k := *f.lines[i].key
	f.lines = slices.Delete(f.lines, i, i+1)
	return k, nil
}

// Rotate puts a new secret in the place of a key's, which is good until a time, if that is to come.
func (f *File) Rotate(id, secret string, until time.Time, now time.Time) (Key, error) {
	i, err := f.index(id)
	if err != nil {
		return Key{}, err
	}
	old := *f.lines[i].key
	k := old
	k.Hash = HashOf(secret)
	f.lines[i] = line{k.line(), &k}
	if old.Expires.IsZero() || until.Before(old.Expires) {
		old.Expires = until
	}
	if old.Expires.After(now) {
		f.lines = slices.Insert(f.lines, i, line{old.line(), &old})
	}
	return k, nil
}

// bytes returns the file's content. It is never empty, as a file is that somebody begins to write.
func (f *File) bytes() []byte {
	var b bytes.Buffer
	if len(f.lines) == 0 {
		b.WriteString("# no keys\n")
	}
	for _, l := range f.lines {
		b.WriteString(l.text + "\n")
	}
	return b.Bytes()
}

// Open reads a file.
func Open(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the API keys: %w", err)
	}
	f, err := parseFile(data)
	if err != nil {
		return nil, fmt.Errorf("reading the API keys %s: %w", path, err)
	}
	return f, nil
}

// Edit changes a file, which may not be there yet, as a whole: nobody reads half of it, and of two
// who edit it one is refused.
func Edit(path string, change func(*File) error) error {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at // a link stays one
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s.lock is there: another command changes the keys; if none does, remove that file", path)
	}
	if err != nil {
		return fmt.Errorf("changing the API keys: %w", err)
	}
	defer func() { _ = errors.Join(lock.Close(), os.Remove(lock.Name())) }() // who comes next is told
	f, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = &File{}, nil
	}
	if err == nil {
		err = change(f)
	}
	if err != nil {
		return err
	}
	return f.write(path)
}

// write puts the content in the file's place, for those who could read it before.
func (f *File) write(path string) error {
	before, missing := os.Stat(path)
	err := wholefile.Write(path, func(w io.Writer) error {
		_, err := w.Write(f.bytes())
		return err
	})
	if err == nil && missing == nil {
		err = os.Chmod(path, before.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("writing the API keys: %w", err)
	}
	return nil
}
