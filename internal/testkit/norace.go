//go:build !race

package testkit

// Race says that the race detector is on, under which computing takes ten times as
// long: tests of much computing in one goroutine then take a part of it.
const Race = false
