package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// namesIn are the names in a folder, sorted.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		names = append(names, one.Name())
	}
	return names
}

// mustLock skips a test where a file cannot be locked.
func mustLock(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := lock(f); err != nil {
		t.Skip(err)
	}
}

// put writes files by their paths in dir.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := WriteSide(dir, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// theMark is what marks of this host say.
func theMark(t *testing.T) string {
	t.Helper()
	mark, err := wholeMark()
	if err != nil {
		t.Skip(err)
	}
	return mark
}

// What killed processes of this host have left beside a folder goes when the next one writes it. What a live one holds, what
// has no mark or that of another host, links, and all that is of another name, stay.
func TestLeft(t *testing.T) {
	mustLock(t)
	dir, elsewhere, mark := t.TempDir(), t.TempDir(), theMark(t)
	out := filepath.Join(dir, "out")
	put(t, dir, map[string]string{
		".out-partial-17/a/b": "c", ".out-partial-17/" + markName: mark, ".out-partial-0/" + markName: mark,
		".out-2024/notes.txt": "mine", ".out-2025/" + markName: mark, ".out-partial-2/notes.txt": "mine",
		".out-partial-3": "", ".out-partial-4/" + markName: "", ".out-partial-5/" + markName: mark + "2", ".out-partial-6/" + markName + "/a": mark,
		".out-partial-/" + markName: mark, ".out-partial-1x/" + markName: mark, ".other-partial-17/" + markName: mark, "out-partial-17/" + markName: mark,
		".out-partial-8/notes.txt": "mine",
	})
	put(t, elsewhere, map[string]string{markName: mark, "notes.txt": "mine"})
	for to, name := range map[string]string{elsewhere: ".out-partial-7", filepath.Join(elsewhere, markName): ".out-partial-8/" + markName} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	stay := slices.DeleteFunc(namesIn(t, dir), func(name string) bool { return name == ".out-partial-17" || name == ".out-partial-0" })
	failed := errors.New("failed")
	err := InPlace(out, func(first string) error {
		if got := namesIn(t, dir); len(got) != len(stay)+1 {
			t.Errorf("%v is left", got)
		}
		err := InPlace(out, func(second string) error {
			if got := namesIn(t, dir); len(got) != len(stay)+2 || !slices.Contains(got, filepath.Base(first)) || first == second {
				t.Errorf("%v, of %s and %s", got, first, second)
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Error(err)
		}
		return nil
	})
	if got := namesIn(t, dir); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(append(slices.Clone(stay), "out")))) {
		t.Errorf("%v, want %v and out, %v", got, stay, err)
	}
	if got := namesIn(t, elsewhere); len(got) != 2 {
		t.Errorf("%v is left of what a link is to", got)
	}
	if got := namesIn(t, out); len(got) > 0 {
		t.Errorf("%v is in the folder", got)
	}
}

// Where files cannot be locked, a folder is written all the same, without a mark, and nothing is removed.
func TestNoLocks(t *testing.T) {
	was := lock
	defer func() { lock = was }()
	lock = func(*os.File) error { return errors.New("no locks available") }
	dir := t.TempDir()
	put(t, dir, map[string]string{".out-partial-17/" + markName: theMark(t)})
	err := InPlace(filepath.Join(dir, "out"), func(partial string) error {
		if got := namesIn(t, partial); len(got) > 0 {
			t.Errorf("%v is in the folder", got)
		}
		return nil
	})
	if got := namesIn(t, dir); err != nil || !slices.Equal(got, []string{".out-partial-17", "out"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// A mark that is not written yet, or taken away at the end, is nobody's to remove: a folder has it as long as its writer's lock.
func TestSetMark(t *testing.T) {
	mustLock(t)
	was := lock
	defer func() { lock = was }()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	lock = func(f *os.File) error { // another process looks before the mark is locked
		lock = was
		removeLeft(out)
		return was(f)
	}
	partial, release, err := makePartial(out)
	if err != nil {
		t.Fatal(err)
	}
	removeLeft(out)
	if got := namesIn(t, partial); !slices.Equal(got, []string{markName}) {
		t.Fatalf("%v is in the folder", got)
	}
	release()
	if removeLeft(out); len(namesIn(t, dir)) > 0 {
		t.Error("a folder that nobody holds stays")
	}
}
