package pool

// pause has the processor wait for some tens of nanoseconds, so that a thread that looks leaves its
// core's other thread more.
func pause()
