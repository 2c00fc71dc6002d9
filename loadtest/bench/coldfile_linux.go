package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// canDrop says that files can leave the page cache.
const canDrop = true

// newMemory is memory of pages of the usual size that nobody has written, and what gives it back.
func newMemory(bytes int) ([]byte, func() error, error) {
	all, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return all, func() error { return unix.Munmap(all) }, err
}

// dropFile has the page cache give up a file's pages, which nobody maps.
func dropFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := f.Sync(); err != nil { // pages that were not written stay
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
