package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What killed processes have left beside a folder goes when the next one writes it; what a live one holds, and all that is
// of another name, stays.
func TestLeft(t *testing.T) {
	if !holds {
		t.Skip("no locks here")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for _, name := range []string{".out-17", ".out-0", ".out-", ".out-new", ".out-1x", ".other-17", "out-17"} {
		if err := WriteSide(filepath.Join(dir, name), "a/b", []byte("c")); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteSide(dir, ".out-3", nil); err != nil {
		t.Fatal(err)
	}
	stay := []string{".other-17", ".out-", ".out-1x", ".out-3", ".out-new", "out-17"}
	left := func() (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			names = append(names, one.Name())
		}
		return names
	}
	failed := errors.New("failed")
	err := InPlace(out, func(first string) error {
		if got := left(); len(got) != len(stay)+1 {
			t.Errorf("%v is left", got)
		}
		err := InPlace(out, func(second string) error {
			if got := left(); len(got) != len(stay)+2 || !slices.Contains(got, filepath.Base(first)) || first == second {
				t.Errorf("%v, of %s and %s", got, first, second)
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Error(err)
		}
		return nil
	})
	if got := left(); err != nil || !slices.Equal(got, append(slices.Clone(stay), "out")) && !slices.Equal(got, slices.Sorted(slices.Values(append(slices.Clone(stay), "out")))) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}

// A folder that another process has locked or removed before its maker could lock it is made again.
func TestMakePartial(t *testing.T) {
	dir := t.TempDir()
	partial, release, err := makePartial(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if holds {
		if _, err := hold(partial); !errors.Is(err, errHeld) {
			t.Errorf("it is held by two: %v", err)
		}
	}
	release()
	again, err := hold(partial)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if err := os.Remove(partial); err != nil {
		t.Fatal(err)
	}
	if _, err := hold(partial); holds && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is gone is held: %v", err)
	}
}
