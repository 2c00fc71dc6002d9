package modeltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Tiny is a synthetic model: 2 MoE layers, 4 experts, 2 of them a token.
func Tiny(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Golden is one of the committed checkpoints, for what Tiny has not: shared and
// dense experts, biases, a sliding window, other activations.
func Golden(t testing.TB, name string) *model.Model {
	t.Helper()
	return Open(t, GoldenDir(name))
}

// GoldenNames are all committed checkpoints with golden outputs.
func GoldenNames(t testing.TB) (names []string) {
	t.Helper()
	all, err := filepath.Glob(GoldenDir("*/golden.json"))
	if err != nil || len(all) == 0 {
		t.Fatal("no golden checkpoints: ", err)
	}
	for _, f := range all {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

// GoldenDir is the folder of a committed checkpoint.
func GoldenDir(name string) string {
	return filepath.Join(golden, name)
}

// golden is the folder of all of them, found from the one in which a test starts, its
// package's: so a binary of tests also runs in another copy of the repository.
var golden = func() string {
	const below = "pkg/compute/model/testdata/golden"
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if found := filepath.Join(dir, below); isDir(found) {
			return found
		}
	}
	return below
}()

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// Open opens the model of a folder until the test ends.
func Open(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // a mapping
	return m
}
