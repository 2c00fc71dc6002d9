package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A write that fails leaves what was there, and nothing beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	for _, s := range []string{"one", "two"} {
		if err := Write(path, text(s)); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	if err := Write(path, func(w io.Writer) error { return errors.Join(text("three")(w), broken) }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	got, err := os.ReadFile(path)
	if info, _ := os.Stat(path); err != nil || string(got) != "two" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v", got, err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%v", all)
	}
	if err := Write(filepath.Join(dir, "none", "a"), text("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
