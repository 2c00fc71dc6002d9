package testkit

import (
	"testing"
	"time"
	"unsafe"
)

// WallSet returns a moment as a host tells it whose wall clock was set by so many seconds
// since the process began: the monotonic clock has gone on.
func WallSet(t testing.TB, at time.Time, by time.Duration) time.Time {
	t.Helper()
	set := at
	// Of its first word, the lower 30 bits are nanoseconds, and those above are seconds.
	*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30
	if set.Sub(at) != 0 || set.Unix()-at.Unix() != int64(by/time.Second) {
		t.Fatalf("this Go keeps times in another way: %v became %v", at, set)
	}
	return set
}
