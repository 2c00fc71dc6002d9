package testkit

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// Free addresses have ports from firstFree to below endFree. Linux, macOS and Windows
// give connections and listeners at port 0 higher ones, so none of those takes a free
// port before the process that it was found for listens on it.
const (
	firstFree = 10_000
	endFree   = 32_768
)

// nextFree counts from a place of its own in each process, so that two processes that
// look at one time seldom find the same port.
var nextFree atomic.Uint32

func init() { nextFree.Store(rand.Uint32N(endFree - firstFree)) }

// FreeAddr returns an address of this machine that nobody listens on, and that FreeAddr has
// not returned in this process.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range endFree - firstFree {
		port := firstFree + nextFree.Add(1)%(endFree-firstFree)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // all that matters is its address
		return addr
	}
	t.Fatalf("each port of 127.0.0.1 from %d to %d is in use", firstFree, endFree-1)
	return ""
}

// FreePort returns the port of a FreeAddr.
func FreePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
