package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// puller pulls sequences while there is room for them.
type puller struct {
	places
	queue     *bus.Queue
	reception *reception
	company   atomic.Int32 // a company
	throttles func() bool  // of the device
}

// pullPause is how often a replica looks whether it may pull, when it may not.
const pullPause = 20 * time.Millisecond

// pullAtOnce bounds what is pulled at once to wait.
const pullAtOnce = 64

// run pulls sequences while there is room for them, until ctx ends.
func (p *puller) run(ctx context.Context) {
	for {
		n := p.wanted(ctx)
		if n == 0 {
			return // stopped
		}
		deliveries, err := p.queue.Pull(ctx, n)
		if err != nil {
			return // stopped
		}
		p.waiting.expect(len(deliveries))
		unreadable := 0
		for _, d := range deliveries {
			if !p.reception.receive(ctx, d) {
				unreadable++
			}
		}
		for unreadable > 0 && ctx.Err() == nil {
			unreadable = p.takeBehind(ctx)
		}
	}
}

// behindAtOnce is how many messages are pulled at once while most of them are no sequences.
const behindAtOnce = 512

// takeBehind pulls what lies behind messages that were no sequences, in larger steps: those
// who can have such stored can do so faster than they are pulled one by one, and requests
// stand behind them. It returns how many more were none, if they were most of it.
func (p *puller) takeBehind(ctx context.Context) (unreadable int) {
	n := min(p.waiting.room(), behindAtOnce)
	if n <= pullAtOnce {
		return 0
	}
	deliveries, err := p.queue.PullNow(ctx, n)
	if err != nil {
		return 0
	}
	p.waiting.expect(len(deliveries))
	for _, d := range deliveries {
		if !p.reception.receive(ctx, d) {
			unreadable++
		}
	}
	if 2*unreadable < len(deliveries) {
		return 0
	}
	return unreadable
}

// wanted is how many sequences to pull, once that is more than none; 0 when ctx ended.
func (p *puller) wanted(ctx context.Context) int {
	tick := time.NewTicker(pullPause)
	defer tick.Stop()
	for {
		if n := p.pullable(); n > 0 {
			return n
		}
		select {
		case <-tick.C:
		case <-p.waiting.emptied:
		case <-ctx.Done():
			return 0
		}
	}
}

// pullable is what this replica can begin, or, when nobody can begin more, what
// may wait here: what one replica holds, its siblings cannot serve. A replica whose
// device throttles leaves to siblings what they can begin.
func (p *puller) pullable() int {
	free, elsewhere := p.free(), 0
	if free == 0 || p.throttles() {
		elsewhere, _ = p.elsewhere()
	}
	switch {
	case elsewhere > 0:
		return 0
	case free > 0:
		return company(p.company.Load()).share(free, p.line.Occupied())
	}
	return min(p.waiting.room(), pullAtOnce)
}
