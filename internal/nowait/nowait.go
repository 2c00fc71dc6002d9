// Package nowait has sockets whose system calls Go's scheduler is not told of. These never block, so
// there is nothing to arrange meanwhile; but each one that is told wakes the runtime's monitor out of
// its sleep, which then looks around every 20 µs for a while. Where messages are small and come one by
// one, that takes as much of the processors as the messages do.
package nowait

import "net"

// Conn reads and writes c, which the caller must not use any more. What is no TCP connection, or of a
// system where this is not done, is returned as it is.
func Conn(c net.Conn) net.Conn {
	if tcp, is := c.(*net.TCPConn); is {
		return of(tcp)
	}
	return c
}
