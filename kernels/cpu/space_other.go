//go:build !linux

package cpu

import "unsafe"

// preferHuge does nothing where systems choose alone.
func preferHuge(unsafe.Pointer, int) {}

func populate(unsafe.Pointer, int) {}
