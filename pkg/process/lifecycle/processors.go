package lifecycle

import (
	"context"
	"runtime"
	"time"
)

const (
	// lookAt is how often Follow looks whether the process needs another number of processors.
	lookAt = 100 * time.Millisecond
	// busy and idle are shares of the processors in use at which it takes more or, that many looks
	// later, fewer.
	busy, idle, looksIdle = 0.7, 0.5, 50
)

// crew is how many processors are used.
type crew struct {
	now, most int
	quiet     int // looks in a row at which fewer would have done
}

// next is how many are used from now on, which used so many since the look before.
func (c *crew) next(used float64) int {
	switch {
	case used > busy*float64(c.now):
		c.now, c.quiet = min(2*c.now, c.most), 0
	case c.now == 1 || used > idle*float64((c.now+1)/2):
		c.quiet = 0
	default:
		if c.quiet++; c.quiet == looksIdle {
			c.now, c.quiet = (c.now+1)/2, 0
		}
	}
	return c.now
}

// FollowProcessors has a process that computes little and waits a lot use few processors. Of many,
// each that is idle looks for work that another one has, and those that send a message wake others to:
// that takes more of the machine than the messages do, and most where several processes share few
// processors.
//
// It uses one processor, and more while it needs them, up to what it may use (GOMAXPROCS). stop ends that,
// and gives it back what it had.
func FollowProcessors(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		follow(ctx)
	}()
	return func() { cancel(); <-ended }
}

func follow(ctx context.Context) {
	before, known := spent()
	if !known {
		return
	}
	c := crew{now: 1, most: runtime.GOMAXPROCS(0)}
	defer runtime.GOMAXPROCS(c.most)
	runtime.GOMAXPROCS(c.now)
	tick := time.NewTicker(lookAt)
	defer tick.Stop()
	for at := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			until, _ := spent()
			if n := c.next((until - before).Seconds() / max(lookAt/2, now.Sub(at)).Seconds()); n != runtime.GOMAXPROCS(0) {
				runtime.GOMAXPROCS(n)
			}
			at, before = now, until
		}
	}
}
