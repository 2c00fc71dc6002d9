//go:build unix

package safetensors

import (
	"bytes"
	"fmt"
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
	err = unmap()
	if file, _ := mappedAt(addressOf(data)); err != nil || file != nil {
		t.Errorf("it is known still, error %v", err)
	}
}

// Each byte of a mapping is found, and none beside it, also while another goroutine maps.
func TestMappedAt(t *testing.T) {
	dir, page := t.TempDir(), os.Getpagesize()
	var all [][]byte
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, make([]byte, (1+i%3)*page-i), 0o600); err != nil {
			t.Fatal(err)
		}
		data, unmap, err := Map(path)
		if err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 { // its place may be the next one's
			if err := unmap(); err != nil {
				t.Fatal(err)
			}
			all = append(all, nil)
			continue
		}
		t.Cleanup(func() { _ = unmap() })
		all = append(all, data)
	}
	mappings.change.Lock()
	defer mappings.change.Unlock()
	for i, data := range all {
		for _, at := range []int{0, len(data) / 2, len(data) - 1} {
			if data == nil {
				continue
			}
			file, got := mappedAt(addressOf(data) + uintptr(at))
			if file == nil || filepath.Base(file.Name()) != fmt.Sprint(i) || got != int64(at) {
				t.Errorf("byte %d of file %d is taken for byte %d of %v", at, i, got, file)
			}
		}
		if file, _ := mappedAt(addressOf(data) + uintptr(len(data))); data != nil && len(data)%page != 0 && file != nil { // the rest of its page
			t.Errorf("what is behind file %d is taken for %s", i, file.Name())
		}
	}
	if file, _ := mappedAt(0); file != nil {
		t.Errorf("nothing is taken for %s", file.Name())
	}
}

// Parts of a mapping are read into a buffer; what is in memory, and what the file does not have any more, stays where it is.
func TestNear(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	whole := make([]byte, 4*os.Getpagesize())
	for i := range whole {
		whole[i] = byte(i % 251)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Map(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}()
	buffer := make([]byte, len(whole))
	cold := func() {}
	if file, _ := mappedAt(addressOf(data)); canReadCached(file) { // it was written just now
		cold = func() { t.Error("what the page cache has is waited for") }
	}
	for _, view := range [][]byte{data, data[7:9000], data[len(data)-1:]} {
		clear(buffer)
		if got := Near(buffer, view, cold); &got[0] != &buffer[0] || !bytes.Equal(got, view) {
			t.Errorf("%d bytes differ, or are not in the buffer", len(view))
		}
	}
	for _, view := range [][]byte{whole[5:100], nil} {
		if got := Near(buffer, view, func() { t.Error("memory is waited for") }); len(got) != len(view) || len(got) > 0 && &got[0] != &view[0] {
			t.Errorf("%d bytes of memory are brought elsewhere", len(view))
		}
	}
	if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	beyond, waits := data[os.Getpagesize()-10:][:100], 0
	if got := Near(buffer, beyond, func() { waits++ }); &got[0] != &beyond[0] || waits != 1 {
		t.Errorf("what the file does not have is in the buffer, or is waited for %d times", waits)
	}
	if err := Guarded(func() error { bytes.Clone(Near(buffer, beyond, func() {})); return nil }); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
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
