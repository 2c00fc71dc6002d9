package gateway

import (
	"context"
	"runtime"
	"time"
)

// A gateway computes little and waits a lot: of many processors each looks for work that another one
// has, and wakes others to, which takes more of them than the work does. So a process that is a gateway
// alone uses one of those that it may use, and more while it needs them.

const (
	// lookAt is how often it looks whether it needs another number of them.
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

// runCrew has this process use as many processors as it needs, up to what it may, until ctx ends.
func runCrew(ctx context.Context) {
	before, known := processorTime()
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
			spent, _ := processorTime()
			if n := c.next((spent - before).Seconds() / max(lookAt/2, now.Sub(at)).Seconds()); n != runtime.GOMAXPROCS(0) {
				runtime.GOMAXPROCS(n)
			}
			at, before = now, spent
		}
	}
}
