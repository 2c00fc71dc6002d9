//go:build !linux

package fleet

import (
	"errors"
	"testing"
)

// Disk is a file system of its own for what a server stores: it can be full.
type Disk struct{}

var errLinux = errors.New("this needs Linux")

// NewDisk fails here.
func NewDisk(*testing.T) (*Disk, error) { return nil, errLinux }

// Dir is where it is mounted.
func (*Disk) Dir() string { return "" }

// Fill leaves no room on it.
func (*Disk) Fill() error { return errLinux }

// Free gives it room again.
func (*Disk) Free() error { return errLinux }

// Starve lets a program have no more memory than it has, until Feed.
func (*Process) Starve() error { return errLinux }

// Feed ends Starve.
func (*Process) Feed() error { return errLinux }
