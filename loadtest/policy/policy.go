// Package policy makes one decision of the control loop from a state in JSON,
// as the contract with outsiders fixes it: a dry run that needs no server.
package policy

import (
	"errors"
	"fmt"
	"io"
)

// ErrState says that a state cannot be decided on: it is unreadable or wrong.
var ErrState = errors.New("unusable state")

// mostBytes bounds a state: 256 experts on 1,000 hosts take less than 1 MiB.
const mostBytes = 64 << 20

// read reads one JSON object.
func read(in io.Reader) (value, error) {
	data, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	if err != nil {
		return value{}, fmt.Errorf("reading the state: %w", err)
	}
	if len(data) > mostBytes {
		return value{}, fmt.Errorf("%w: it has more than %d bytes", ErrState, mostBytes)
	}
	v, err := parse(data)
	if err != nil {
		return value{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	return v, nil
}
