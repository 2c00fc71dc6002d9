package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// A bench closes its model: none of the files stays mapped.
func TestBenchClosesModel(t *testing.T) {
	mapped := func() string {
		maps, err := os.ReadFile("/proc/self/maps")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system does not say what is mapped")
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(maps)
	}
	mapped()
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.CopyFS(dir, os.DirFS(modeltest.GoldenDir("mixtral"))); err != nil {
		t.Fatal(err)
	}
	got := invoke("", "bench", "--model", dir, "--rows", "4", "--seconds", "0.01")
	if got.code != exitDone || !strings.Contains(got.out, " 4 rows ") {
		t.Fatalf("got %+v", got)
	}
	if strings.Contains(mapped(), dir) {
		t.Errorf("files of %s are mapped still", dir)
	}
}
