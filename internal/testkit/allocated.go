package testkit

import "runtime"

// Allocated returns how many bytes do takes of memory, also those that it lets go of. Where races are
// looked for, pools keep little, and it returns 0.
func Allocated(do func()) int64 {
	if Race {
		do()
		return 0
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // no process takes so much
}
