package goldens

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

const (
	// committed is where the repository has the checkpoints without weights.
	committed = "pkg/compute/model/testdata/golden"
	// made is where whole ones are written, for as long as the committed ones are the same.
	made = ".cache/golden"

	recipeFile  = "weights.json.gz"
	weightsFile = "model.safetensors"
)

// Names returns all checkpoints with golden outputs.
func Names() []string {
	all, err := filepath.Glob(filepath.Join(root(), committed, "*/golden.json"))
	if err != nil || len(all) == 0 {
		panic(fmt.Sprintf("goldens: no checkpoints below %s: %v", root(), err))
	}
	for i, f := range all {
		all[i] = filepath.Base(filepath.Dir(f))
	}
	return all
}

var (
	mu    sync.Mutex
	known = map[string]string{}
)

// Dir returns the folder of a whole checkpoint, which nobody may write to. It is for tests
// alone: it panics if it cannot make the folder.
func Dir(name string) string {
	mu.Lock()
	defer mu.Unlock()
	if dir, ok := known[name]; ok {
		return dir
	}
	dir, err := Make(filepath.Join(root(), committed, name), filepath.Join(root(), made))
	if err != nil {
		panic(fmt.Sprintf("goldens: making checkpoint %s: %v", name, err))
	}
	known[name] = dir
	return dir
}

// root is the repository's, found from the folder in which a test starts, its package's:
// so a binary of tests also runs in another copy of the repository.
var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, committed)); err == nil && info.IsDir() {
			return dir
		}
	}
	return "."
})

// Make writes the whole checkpoint of a folder below to, if it is not there yet, and
// returns its folder. Several processes may do so at once.
func Make(from, to string) (dir string, err error) {
	sum, err := sumOf(from)
	if err != nil {
		return "", err
	}
	parent := filepath.Join(to, sum)
	dir = filepath.Join(parent, filepath.Base(from))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(parent, "unfinished-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(unfinished)) }()
	whole := filepath.Join(unfinished, "whole")
	if err := write(whole, from); err != nil {
		return "", err
	}
	if err := os.Rename(whole, dir); err != nil {
		if _, gone := os.Stat(dir); gone != nil { // no other process was first
			return "", err
		}
	}
	return dir, nil
}

// write copies a folder, and draws its weights.
func write(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	packed, err := os.ReadFile(filepath.Join(to, recipeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", recipeFile, err)
	}
	recipe, err := io.ReadAll(plain)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", recipeFile, err)
	}
	tensors, err := draw(recipe)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(to, weightsFile), file.Bytes(), 0o644), os.Remove(filepath.Join(to, recipeFile)))
}

// sumOf tells apart folders with other contents.
func sumOf(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		h.Write(fmt.Appendf(nil, "%q %x\n", e.Name(), sum))
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
