//go:build unix

package safetensors

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps path read-only, and keeps it open for Near. The returned function unmaps and closes it. Who reads what is cut meanwhile needs Guarded.
func mapFile(path string) ([]byte, func() error, error) {
	info, err := os.Stat(path) // to open a pipe would wait for who writes
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := mapOpen(file)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return data, note(file, data, func() error { return unix.Munmap(data) }), nil
}

func mapOpen(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 || info.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s has %d bytes, which cannot be mapped", file.Name(), info.Size())
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", file.Name(), err)
	}
	return data, nil
}

// Drop lets go of the pages of a read-only file's mapping: they no longer count as this
// process's memory, and are read from the file again if they are used.
func Drop(mapped []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mapped)))) & (page - 1)
	if n := (len(mapped) - skip) &^ (page - 1); n > 0 {
		_ = unix.Madvise(mapped[skip:][:n], unix.MADV_DONTNEED) // it only saves memory
	}
}

// Fetch has the system read what it lacks of a part of a file's mapping, all of it at once, and does not wait: who
// touches one page after the other waits for a small read at each.
func Fetch(mapped []byte) {
	if len(mapped) == 0 {
		return
	}
	before := int(uintptr(unsafe.Pointer(unsafe.SliceData(mapped)))) & (os.Getpagesize() - 1)
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mapped)), -before)), len(mapped)+before) // mappings begin with a page
	_ = unix.Madvise(pages, unix.MADV_WILLNEED)                                                                       // it only saves time
}

// allocate returns zeroed memory outside of Go's heap, and what gives it back.
func allocate(size int) ([]byte, func() error, error) {
	data, err := unix.Mmap(-1, 0, max(1, size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("allocating %d bytes: %w", size, err)
	}
	return data[:size], func() error { return unix.Munmap(data) }, nil
}
