package attention

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/notify"
	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pullPause is how often a replica looks whether it may pull, when it may not.
const pullPause = 20 * time.Millisecond

// pullAtOnce bounds what is pulled at once to wait.
const pullAtOnce = 64

// takeWork pulls sequences while there is room for them, until ctx ends.
func (s *Service) takeWork(ctx context.Context) {
	for {
		n := s.wanted(ctx)
		if n == 0 {
			return // stopped
		}
		deliveries, err := s.queue.Pull(ctx, n)
		if err != nil {
			return // stopped
		}
		s.waiting.expect(len(deliveries))
		unreadable := 0
		for _, d := range deliveries {
			if !s.receive(ctx, d) {
				unreadable++
			}
		}
		for unreadable > 0 && ctx.Err() == nil {
			unreadable = s.takeBehind(ctx)
		}
	}
}

// behindAtOnce is how many messages are pulled at once while most of them are no sequences.
const behindAtOnce = 512

// takeBehind pulls what lies behind messages that were no sequences, in larger steps: those
// who can have such stored can do so faster than they are pulled one by one, and requests
// stand behind them. It returns how many more were none, if they were most of it.
func (s *Service) takeBehind(ctx context.Context) (unreadable int) {
	n := min(s.waiting.room(), behindAtOnce)
	if n <= pullAtOnce {
		return 0
	}
	deliveries, err := s.queue.PullNow(ctx, n)
	if err != nil {
		return 0
	}
	s.waiting.expect(len(deliveries))
	for _, d := range deliveries {
		if !s.receive(ctx, d) {
			unreadable++
		}
	}
	if 2*unreadable < len(deliveries) {
		return 0
	}
	return unreadable
}

// wanted is how many sequences to pull, once that is more than none; 0 when ctx ended.
func (s *Service) wanted(ctx context.Context) int {
	tick := time.NewTicker(pullPause)
	defer tick.Stop()
	for {
		if n := s.pullable(); n > 0 {
			return n
		}
		select {
		case <-tick.C:
		case <-s.waiting.emptied:
		case <-ctx.Done():
			return 0
		}
	}
}

// pullable is what this replica can begin, or, when nobody can begin more, what
// may wait here: what one replica holds, its siblings cannot serve. A replica whose
// device throttles leaves to siblings what they can begin.
func (s *Service) pullable() int {
	free, elsewhere := s.places(), 0
	if free == 0 || s.throttles() {
		elsewhere, _ = s.siblingsPlaces()
	}
	switch {
	case elsewhere > 0:
		return 0
	case free > 0:
		return company(s.company.Load()).share(free, s.engine.occupied())
	}
	return min(s.waiting.room(), pullAtOnce)
}

// places is how many sequences more this replica can begin at once: none while
// some wait for their turn, or for pages.
func (s *Service) places() int {
	if s.waiting.size() > 0 || s.engine.inLine.Load() > 0 {
		return 0
	}
	return s.slots.unused()
}

// siblingsPlaces is how many sequences other replicas can begin at once, and how
// many pages each of these has at least.
func (s *Service) siblingsPlaces() (n int, pages float64) {
	return members.PlacesElsewhere(s.view.Snapshot(), s.id)
}

// turns lets sequences begin in fair order, as places get free, until ctx ends.
// So few of them wait for pages at a time that who is small can pass who is large,
// and no more: in that line the order is not fair.
func (s *Service) turns(ctx context.Context) {
	for s.slots.wait(ctx) && s.engine.awaitLine(ctx, kvcache.MaxPassed) {
		a := s.waiting.next(ctx)
		if a == nil {
			break
		}
		s.slots.take()
		s.engine.entering.Add(1)
		s.tasks.Go(func() { s.admit(ctx, a) })
	}
	s.handBack()
}

// handBack leaves to others what waits.
func (s *Service) handBack() {
	for a := s.waiting.take(); a != nil; a = s.waiting.take() {
		s.giveBack(a)
	}
}

// rebalance gives what waits here to siblings that have places, until ctx ends.
func (s *Service) rebalance(ctx context.Context) {
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n, pages := s.siblingsPlaces()
			for _, a := range s.waiting.surplus(n, func(a *arrival) bool { return float64(s.kv.Need(edge.Positions(a.msg))) <= pages }) {
				s.giveBack(a)
			}
		}
	}
}

func (s *Service) giveBack(a *arrival) {
	if err := a.hold.Nak(0); err != nil {
		s.d.Logger.Debug("giving a sequence back", "request", a.msg.RequestId, "error", err)
	}
}

// cancelWaiting ends a request that waits here.
func (s *Service) cancelWaiting(request string) {
	a := s.waiting.leave(request)
	if a == nil {
		return
	}
	s.tasks.Go(func() {
		err := s.log.End(s.ctx, request, a.msg.Accept, &pb.Terminal{FinishReason: "cancelled"})
		if err := a.hold.End(s.unadmitted(s.ctx, err)); err != nil {
			s.d.Logger.Debug("settling a sequence", "error", err)
		}
	})
}

// awaitLine waits until at most so many sequences are about to wait for pages;
// false when ctx ended before.
func (e *engine) awaitLine(ctx context.Context, most int64) bool {
	for e.inLine.Load()+e.entering.Load() > most {
		select {
		case <-e.moved:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// entered says that a sequence that had its turn is with the scheduler, or is not to be.
func (e *engine) entered() {
	e.entering.Add(-1)
	e.move()
}

// tellLine tells other goroutines how many sequences wait for pages, and how much of
// prompts is to be computed.
func (e *engine) tellLine() {
	e.unread.Store(e.toRead())
	e.stats.lined(e.line.Len() + len(e.aside))
	if n := int64(e.line.Len()); e.inLine.Swap(n) > n {
		e.move()
	}
}

func (e *engine) move() { notify.Send(e.moved) }
