// Package loopback tells addresses of this machine alone from others.
package loopback

import "net"

// Is says whether a host, by name or address, is reached without a network.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
