package safetensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// readCached fills a buffer from a place in a file, if the page cache has all of it. A Close beside it waits until it has read,
// so that the descriptor is no other file's meanwhile.
func readCached(file *os.File, buffer []byte, at int64) bool {
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	n, read := 0, error(nil)
	err = conn.Control(func(fd uintptr) { n, read = unix.Preadv2(int(fd), [][]byte{buffer}, at, unix.RWF_NOWAIT) })
	return err == nil && read == nil && n == len(buffer)
}
