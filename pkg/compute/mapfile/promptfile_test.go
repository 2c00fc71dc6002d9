package mapfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
)

func TestWriteReadPrompts(t *testing.T) {
	s, err := sps.New(sps.Paper(1, 2, 2), []sps.Prompt{{Vector: []float32{1, 0}, Activation: []float32{0.25, 0.75}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prompts")
	for range 2 { // the second replaces the first
		if err := WritePrompts(path, s); err != nil {
			t.Fatal(err)
		}
	}
	back, err := ReadPrompts(path)
	if err != nil || back.Digest() != s.Digest() {
		t.Fatalf("it comes back otherwise: %v", err)
	}
	if err := os.Truncate(path, 40); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrompts(path); !errors.Is(err, sps.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := ReadPrompts(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := WritePrompts(filepath.Join(path, "x"), s); err == nil {
		t.Error("it was written into a file")
	}
}
