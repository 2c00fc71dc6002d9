//go:build unix

package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that is cut while it is mapped gives an error that names it, as often as it is read.
func TestGuarded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, 4*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Map(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error { bytes.Clone(data); return nil }
	if err := Guarded(read); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Guarded(read); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v", err)
		}
	}
	if err := unmap(); err != nil || mappedAt(addressOf(data)) != "" {
		t.Errorf("it is known still, error %v", err)
	}
}

// What is no fault of a mapped file goes on.
func TestGuardedPanic(t *testing.T) {
	for name, read := range map[string]func() error{
		"other panic": func() error { panic("other") },
		"nil":         func() error { var p *int; *p = 1; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the panic is swallowed")
				}
			}()
			_ = Guarded(read)
		})
	}
}

// To look at a pipe does not wait for who writes to it.
func TestMapPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := Map(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("error %v", err)
	}
}
