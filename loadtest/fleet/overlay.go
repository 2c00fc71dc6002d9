package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// overlay writes what `go build -overlay` wants, so that programs are built with these
// texts in place of the files at these paths, which need not exist.
func overlay(t *testing.T, texts map[string]string) (path string, err error) {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// changed is an overlay in which one file is changed by a function, and another one is new.
func changed(t *testing.T, file string, by func(source string) (string, error), added, text string) (path string, err error) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	with, err := by(string(source))
	if err != nil {
		return "", err
	}
	return overlay(t, map[string]string{file: with, added: text})
}

func insert(source, behind, line string) (string, error) {
	if n := strings.Count(source, behind); n != 1 {
		return "", fmt.Errorf("the source has %d places as expected, not 1:\n%s", n, behind)
	}
	return strings.Replace(source, behind, behind+line, 1), nil
}
