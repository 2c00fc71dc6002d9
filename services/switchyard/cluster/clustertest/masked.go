package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mask is the token that copies by Masked fill.
const Mask = 7

// Masked is a copy of a checkpoint whose config names a mask.
func Masked(t testing.TB, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "{", fmt.Sprintf(`{"mask_token_id": %d,`, Mask), 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
