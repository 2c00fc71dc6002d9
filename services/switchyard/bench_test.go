package main

import (
	"bytes"
	"context"
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

// interrupting is a signal in the middle of a command: after its first result.
type interrupting struct {
	told   bytes.Buffer
	signal context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	w.signal()
	return w.told.Write(p)
}

// A bench that a signal ends says that, and not what became of its services.
func TestBenchInterrupted(t *testing.T) {
	ctx, signal := context.WithCancel(t.Context())
	out, says := &interrupting{signal: signal}, &bytes.Buffer{}
	args := []string{"bench", "--synthetic", "tiny", "--batch", "1,1", "--rounds", "1", "--seconds", "0.001"}
	code := runUntil(ctx, args, stdio{in: strings.NewReader(""), out: out, err: says})
	if code != exitInterrupted || says.String() != "switchyard: interrupted\n" || strings.Count(out.told.String(), "batch 1") != 1 {
		t.Errorf("code %d, %q, %q", code, says.String(), out.told.String())
	}
}
