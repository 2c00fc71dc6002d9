// Package flagvalue reads what flags and settings say: addresses, ports, and counts of bytes.
package flagvalue

import (
	"errors"
	"net"
	"strconv"
)

var (
	errNone       = errors.New("its port must be a number from 1 to 65535")
	errListenPort = errors.New("its port must be a number from 0, which takes a free one, to 65535")
	errAddress    = errors.New("it must be HOST:PORT, such as 127.0.0.1:4222")
)

// CheckPort says why an address cannot have a port.
func CheckPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errNone
	}
	return nil
}

// ListenAddress takes an address apart that is to be listened on.
func ListenAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, errAddress
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, errListenPort
	}
	return host, int(n), nil
}
