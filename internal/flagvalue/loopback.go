package flagvalue

import "net"

// IsLoopback says whether a host, by name or address, is reached without a network.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
