package safetensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// readCached fills a buffer from a place in a file, if the page cache has all of it.
func readCached(file *os.File, buffer []byte, at int64) bool {
	n, err := unix.Preadv2(int(file.Fd()), [][]byte{buffer}, at, unix.RWF_NOWAIT)
	return err == nil && n == len(buffer)
}
