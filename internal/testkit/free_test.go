package testkit

import (
	"net"
	"strconv"
	"testing"
)

// No connection and no listener at port 0 gets a port that FreeAddr returns, and a port
// in use is passed over.
func TestFreeAddr(t *testing.T) {
	first := FreePort(t)
	port, err := strconv.Atoi(first)
	if err != nil || port < firstFree || port >= endFree {
		t.Fatalf("port %s is not from %d to %d", first, firstFree, endFree-1)
	}
	taken := strconv.Itoa(firstFree + (port-firstFree+1)%(endFree-firstFree))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", taken))
	if err != nil {
		t.Skipf("port %s, next to the free one, is in use: %v", taken, err)
	}
	defer func() { _ = l.Close() }() // it has served
	if next := FreePort(t); next == first || next == taken {
		t.Errorf("after %s, with %s in use, got %s", first, taken, next)
	}
}
