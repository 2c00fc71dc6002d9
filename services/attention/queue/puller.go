package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
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

// company says with whom a replica shares the stream of sequences.
type company int32

const (
	alone company = iota
	// shared: all siblings take sequences.
	shared
	// awaited: a sibling is here that takes none yet, as when all have started again.
	awaited
)

// companyOf is a replica's among the members.
func companyOf(all []*pb.Member, self string) (c company) {
	for _, m := range members.OfService(all, "attention") {
		switch {
		case m.Id == self || m.Draining:
		case !m.Ready:
			return awaited
		default:
			c = shared
		}
	}
	return c
}

// pullShared is how many sequences are pulled at once while there are siblings: as many
// as are claimed at a time.
const pullShared = kvcache.MaxPassed + 1

// share is how many of so many free places to fill at once. Who comes first would have
// all that waits in the stream, as when all replicas were gone, and compute its prompts
// alone. busy says that the replica's workers have enough to do until its sibling comes.
func (c company) share(free int, busy bool) int {
	switch {
	case c == alone:
		return free
	case c == awaited && busy:
		return 0
	}
	return min(free, pullShared)
}

// places are how many sequences can begin, here and on siblings.
type places struct {
	slots   *slots
	waiting *waiting
	line    *engine.Line
	members Members
	replica string
}

// free is how many sequences more this replica can begin at once: none while
// some wait for their turn, or for pages.
func (p *places) free() int {
	if p.waiting.size() > 0 || p.line.Waits() {
		return 0
	}
	return len(p.slots.tokens)
}

// elsewhere is how many sequences other replicas can begin at once, and how
// many pages each of these has at least.
func (p *places) elsewhere() (n int, pages float64) {
	return members.PlacesElsewhere(p.members.Snapshot(), p.replica)
}

// slots counts how many more sequences a replica takes.
type slots struct {
	tokens chan struct{}
}

func newSlots(n int) *slots {
	s := &slots{tokens: make(chan struct{}, n)}
	for range n {
		s.tokens <- struct{}{}
	}
	return s
}

// wait returns when a slot is free; false when ctx ended before.
func (s *slots) wait(ctx context.Context) bool {
	select {
	case t := <-s.tokens:
		s.tokens <- t
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) take()    { <-s.tokens }
func (s *slots) release() { s.tokens <- struct{}{} }
