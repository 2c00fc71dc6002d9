package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile bounds what is read of a tokenizer's file.
const maxFile = 1 << 30

// OpenPath reads a tokenizer from a folder, as Open does, or from one file,
// whatever its name; of two files that belong together, vocab.json and
// merges.txt, either will do. pattern is for rank files: the name of a known
// pattern or a regular expression; if it is empty, the number of ranks tells.
func OpenPath(path, pattern string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening a tokenizer: %w", err)
	}
	folder, name := path, ""
	if !info.IsDir() {
		folder, name = filepath.Dir(path), filepath.Base(path)
	} else if name, err = onlyModel(path); err != nil {
		return nil, err
	}
	files := folderFiles(folder)
	if kind, data, err := kindOf(folder, name); err != nil {
		return nil, err
	} else if kind != "" {
		files = renamed(files, kind, data)
	}
	t, err := open(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return t, nil
}

func folderFiles(folder string) Files {
	return func(name string) ([]byte, bool) {
		data, err := readFile(filepath.Join(folder, name))
		return data, err == nil
	}
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, which is too much for a tokenizer", path, info.Size())
	}
	return os.ReadFile(path)
}

// onlyModel finds the file of a folder without a tokenizer under a usual name;
// it is empty if there is one.
func onlyModel(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("opening a tokenizer: %w", err)
	}
	var found []string
	for _, e := range entries {
		for _, k := range kinds {
			if e.Name() == k.name {
				return "", nil
			}
		}
		if strings.HasSuffix(e.Name(), ".tiktoken") || strings.Contains(e.Name(), ".model.v") {
			found = append(found, e.Name())
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("opening %s: it has several tokenizers; name one of %q", folder, found)
	}
	return strings.Join(found, ""), nil
}

// kindOf returns the usual name of a file that may have another one, and what is in
// it; empty if the name is usual, or there is none.
func kindOf(folder, name string) (kind string, data []byte, err error) {
	if name == "" {
		return "", nil, nil
	}
	if data, err = readFile(filepath.Join(folder, name)); err != nil {
		return "", nil, fmt.Errorf("opening a tokenizer: %w", err)
	}
	head := strings.TrimLeft(string(data[:min(len(data), 64)]), " \r\n\t")
	switch {
	case name == "merges.txt", name == "vocab.json":
		return "vocab.json", nil, nil
	case strings.HasPrefix(head, "{"):
		return "tokenizer.json", data, nil
	case strings.HasSuffix(name, ".txt"):
		return "vocab.txt", data, nil
	}
	return "tokenizer.model", data, nil
}

// renamed gives files a tokenizer of one kind and hides those of others; data
// is nil if the folder's own file is meant.
func renamed(files Files, kind string, data []byte) Files {
	var hidden []string
	for _, k := range kinds {
		hidden = append(hidden, k.name)
	}
	return func(name string) ([]byte, bool) {
		switch {
		case name == kind && data != nil:
			return data, true
		case name != kind && slices.Contains(hidden, name):
			return nil, false
		}
		return files(name)
	}
}
