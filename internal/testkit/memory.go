package testkit

import (
	"runtime"
	"runtime/debug"
)

// Memory returns what this process has had of the system; it never shrinks. From then on there is
// as much garbage as Go has by default, whatever the environment says.
func Memory() uint64 {
	debug.SetGCPercent(100)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
