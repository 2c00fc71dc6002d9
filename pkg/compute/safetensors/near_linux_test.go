package safetensors

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// canReadCached tells whether the file's system says what the page cache has, by a read of its first byte.
func canReadCached(file *os.File) bool {
	n, err := unix.Preadv2(int(file.Fd()), [][]byte{make([]byte, 1)}, 0, unix.RWF_NOWAIT)
	return err == nil && n == 1
}

// A file that is closed is not read, and neither is what it does not have.
func TestReadCached(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "weights"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("weights"); err != nil {
		t.Fatal(err)
	}
	can, buffer := canReadCached(file), make([]byte, 7)
	if got := readCached(file, buffer, 0); got != can || got && string(buffer) != "weights" {
		t.Errorf("%v, %q", got, buffer)
	}
	if readCached(file, buffer, 1) {
		t.Error("it has more than the file")
	}
	if err := file.Close(); err != nil || readCached(file, buffer, 0) {
		t.Errorf("a closed file is read, %v", err)
	}
}
