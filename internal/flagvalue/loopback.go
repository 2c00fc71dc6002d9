package flagvalue

import (
	"net"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, by name or address, is reached without a network.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// HostOf returns the name or address in an HTTP request's Host, in small letters.
func HostOf(authority string) string {
	host := authority
	if h, _, err := net.SplitHostPort(authority); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// IsOwnName reports whether an HTTP request's Host is an address, this machine's own name, or not
// given. Any other name may be a page's, which was made to lead here (DNS rebinding): then
// browsers take what is here for the page's own.
func IsOwnName(authority string) bool {
	name := HostOf(authority)
	_, err := netip.ParseAddr(name)
	return err == nil || name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
