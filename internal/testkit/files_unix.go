//go:build unix

package testkit

import (
	"os/signal"
	"sync"
	"syscall"
	"testing"
)

// BoundFiles has every write of this process fail beyond so many bytes of a file, until the test
// ends or the returned function is called.
func BoundFiles(t testing.TB, most uint64) (lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	lift = sync.OnceFunc(func() {
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) // it was so before
		signal.Reset(syscall.SIGXFSZ)
	})
	t.Cleanup(lift)
	return lift
}
