// Package ports tells ports of TCP from other texts.
package ports

import (
	"errors"
	"net"
	"strconv"
)

var (
	errNone    = errors.New("its port must be a number from 1 to 65535")
	errListen  = errors.New("its port must be a number from 0, which takes a free one, to 65535")
	errAddress = errors.New("it must be HOST:PORT, such as 127.0.0.1:4222")
)

// Check says why an address cannot have a port.
func Check(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errNone
	}
	return nil
}

// Listen takes an address apart that is to be listened on.
func Listen(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, errAddress
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, errListen
	}
	return host, int(n), nil
}
