package cuda

import "github.com/switchyard/switchyard/kernels/cuda"

// release gives back what a lane has of the driver: a stream, what waits for it, and pinned
// memory. Of a GPU that is lost only the waiting ends. What was never made is nil.
func release(driver cuda.Driver, stream cuda.Stream, done *waiter, lost bool, pinned ...[]byte) {
	if done != nil {
		done.close(lost)
	}
	if lost {
		return
	}
	for _, b := range pinned {
		if b != nil {
			_ = driver.Unpin(b) // the driver has said before what is wrong with it
		}
	}
	if stream != nil {
		_ = stream.Close() // the same
	}
}

// unmake closes what its maker could not make whole: that is the maker's to do, who then
// returns nil. An error that is the end of the GPU is noted before, so that a lost one is
// asked for nothing more.
func unmake(half interface{ close(lost bool) }, h *health, err error) {
	if h.judge(err) != nil {
		half.close(h.Err() != nil)
	}
}

// closeDriver ends a driver and its arena, if there is one yet. A lost GPU is asked for nothing:
// all of it goes with the process.
func closeDriver(driver cuda.Driver, arena *cuda.Arena, lost bool) {
	if lost {
		return
	}
	if arena != nil {
		_ = arena.Close() // what is wrong with the driver has been said by a call that counts
	}
	_ = driver.Close() // the same
}
