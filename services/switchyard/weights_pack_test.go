package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

// A folder is packed, read so, and unpacked to the same file.
func TestWeightsPack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("qwen2_moe-mixed"))); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "model.safetensors")
	before, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	hash := func() string { return invoke("", "inspect", "--json", dir).Out }
	was := hash()
	steps := []struct {
		name   string
		args   []string
		code   int
		want   string
		remove string
	}{
		{"pack", []string{"pack", plain}, 0, "model.safetensors.packed: ", plain},
		{"pack what is not there", []string{"pack", plain}, 2, "no such file", ""},
		{"pack an empty folder", []string{"pack", t.TempDir()}, 2, "no file whose name ends with .safetensors", ""},
		{"pack another file", []string{"pack", filepath.Join(dir, "config.json")}, 2, "does not end with", ""},
		{"unpack", []string{"unpack", dir}, 0, "model.safetensors: ", ""},
		{"unpack again", []string{"unpack", dir}, 2, "is there already", ""},
	}
	for _, s := range steps {
		got := invoke("", append([]string{"weights"}, s.args...)...)
		if got.Code != s.code || !strings.Contains(got.Out+got.Err, s.want) {
			t.Errorf("%s: %+v", s.name, got)
		}
		if s.remove != "" {
			if err := os.Remove(s.remove); err != nil {
				t.Fatal(err)
			}
			if now := hash(); now != was {
				t.Errorf("packed it is %s, before %s", now, was)
			}
		}
	}
	if after, err := os.ReadFile(plain); err != nil || string(after) != string(before) {
		t.Errorf("another file came back: %v", err)
	}
}
