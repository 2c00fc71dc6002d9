//go:build unix

package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// No file of a folder is waited for, and none is read whatever its size.
func TestOpenOddFiles(t *testing.T) {
	for name, file := range map[string]string{
		"config": "config.json", "generation": "generation_config.json", "weights": singleFile, "index": indexFile,
	} {
		for kind, place := range map[string]func(path string) error{
			"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
			"huge": func(path string) error {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return err
				}
				return os.Truncate(path, maxConfig+1)
			},
		} {
			if kind == "huge" && file == singleFile {
				continue // it is mapped
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				dir := copyGolden(t, "mixtral", nil)
				if file == indexFile {
					if err := os.Remove(filepath.Join(dir, singleFile)); err != nil {
						t.Fatal(err)
					}
				}
				path := filepath.Join(dir, file)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := place(path); err != nil {
					t.Skip(err)
				}
				if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "regular file") {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}
