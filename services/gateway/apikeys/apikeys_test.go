package apikeys

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

var zero = strings.Repeat("0", 64)

func TestParse(t *testing.T) {
	for text, want := range map[string]Key{
		zero:                        {Flow: schemas.DefaultFlow(), Right: Ask},
		zero + " acme high # a # b": {Flow: schemas.Flow{Tenant: "acme", Class: "high"}, Right: Ask, Note: "a # b"},
		zero + " acme models=a,b right=read expires=2027-01-31T00:00:00Z": {Flow: schemas.Flow{Tenant: "acme", Class: "normal"}, Right: Read, Models: []string{"a", "b"}, Expires: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)},
	} {
		got, err := Parse([]byte("# keys\n\n" + text + "\n"))
		if err != nil || len(got) != 1 || got[0].line() != want.line() {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := parse(got[0].line()); err != nil || again.line() != want.line() {
			t.Errorf("%q: written and read again %+v, %v", text, again, err)
		}
	}
	for text, says := range map[string]string{
		"x": "line 1: it does not begin", zero[1:]: "line 1: it does not begin", zero + " a b c": "line 1: \"c\" is neither", "\n" + zero + " acme urgent": "line 2: class",
		zero + " right=all": "none of ask, read, operator", zero + " models=": "no name of a model", zero + " models=a.b": "no name of a model", zero + " expires=tomorrow": "expires is", zero + " colour=red": "none of right",
		zero + " a\n" + zero + " b": "line 2: its key stands in line 1", zero + " a/b": "line 1:",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// A file that is edited keeps what is for people, its rights to be read, and its name's link.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "real"), filepath.Join(dir, "keys")
	if err := os.WriteFile(target, []byte("# ours\n"+zero+" acme # shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(target, 0o640); err != nil { // past the umask
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	edit := func(change func(*File) error) {
		t.Helper()
		if err := Edit(path, change); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(f *File) error { _, err := f.Rotate("0000", "new", now.Add(time.Hour), now); return err })
	edit(func(f *File) error {
		return f.Add(Key{Hash: HashOf("third"), Flow: schemas.DefaultFlow(), Right: Ask})
	})
	got, err := os.ReadFile(target)
	want := "# ours\n" + zero + " acme normal expires=2026-01-01T01:00:00Z # shop\n" + Key{Hash: HashOf("new"), Flow: schemas.Flow{Tenant: "acme", Class: "normal"}, Right: Ask, Note: "shop"}.line() + "\n" +
		Key{Hash: HashOf("third"), Flow: schemas.DefaultFlow(), Right: Ask}.line() + "\n"
	if err != nil || string(got) != want || bytes.Contains(got, []byte("third")) {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	edit(func(f *File) error { _, err := f.Revoke("0000"); return err })
	for _, id := range []string{"0000", "", "000"} {
		if err := Edit(path, func(f *File) error { _, err := f.Revoke(id); return err }); err == nil || !strings.Contains(err.Error(), "no key has the id") {
			t.Errorf("%q: %v", id, err)
		}
	}
	info, err := os.Stat(path)
	link, wrong := os.Readlink(path)
	if err != nil || wrong != nil || info.Mode().Perm() != 0o640 || link != target {
		t.Errorf("%v, %v, %v %s", info.Mode(), err, wrong, link)
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("%v", all)
	}
}

// Of several who edit a file at once none undoes another one's change.
func TestEditAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var all sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 8 {
		all.Go(func() {
			err := Edit(path, func(f *File) error {
				return f.Add(Key{Hash: HashOf(NewSecret()), Flow: schemas.DefaultFlow(), Right: Ask})
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else if !strings.Contains(err.Error(), ".lock") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := Open(path)
	if err != nil || done == 0 || len(f.Keys()) != done {
		t.Errorf("%d of %d changes, %v", len(f.Keys()), done, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(zero + " acme high right=read models=a,b expires=2027-01-31T00:00:00Z # note")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, k := range keys {
			if again, err := parse(k.line()); err != nil || again.line() != k.line() {
				t.Errorf("%q: %v", k.line(), err)
			}
		}
	})
}
