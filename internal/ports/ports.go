// Package ports tells ports of TCP from other texts.
package ports

import (
	"errors"
	"strconv"
)

var errNone = errors.New("its port must be a number from 1 to 65535")

// Check says why an address cannot have a port.
func Check(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errNone
	}
	return nil
}
