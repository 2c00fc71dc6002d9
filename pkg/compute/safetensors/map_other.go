//go:build !unix

package safetensors

import "os"

// mapFile reads the whole file where there is no mmap.
func mapFile(path string) ([]byte, func() error, error) {
	data, err := os.ReadFile(path)
	return data, func() error { return nil }, err
}

// Drop does nothing where there is no mmap.
func Drop([]byte) {}

// Fetch does nothing where there is no mmap.
func Fetch([]byte) {}

// allocate returns zeroed memory of Go's heap where there is no mmap.
func allocate(size int) ([]byte, func() error, error) {
	return make([]byte, size), func() error { return nil }, nil
}
