package pool

// pause has the processor wait n times for some tens of nanoseconds, so that a thread that looks leaves its
// core's other thread more.
func pause(n int)
