package credentials

import (
	"os"
	"path/filepath"
	"testing"
)

// What cannot be moved takes all back, but nothing that others have put there.
func TestTakeAllOrNothing(t *testing.T) {
	from, f := t.TempDir(), Folder{t.TempDir()}
	others := f.in("keys", "others")
	for _, path := range []string{filepath.Join(from, "creds"), filepath.Join(from, "keys"), filepath.Join(from, "stores"), others} {
		if err := os.MkdirAll(path, dirMode); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.take(from); err == nil {
		t.Error("a folder was replaced that is not empty")
	}
	entries, err := os.ReadDir(f.path)
	if err != nil || len(entries) != 1 {
		t.Errorf("it has %v, %v", entries, err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}
