//go:build !linux

package cpu

import "unsafe"

func preferHuge(unsafe.Pointer, int) {}

func populate(unsafe.Pointer, int) {}
