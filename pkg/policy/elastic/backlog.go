package elastic

import (
	"github.com/switchyard/switchyard/pkg/policy/world"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// backlogFresh is for how many seconds a replica's word counts of how many requests wait there:
// as long as some do it tells four times a second.
const backlogFresh = 2

// told is how many requests wait in an attention replica, and when it said so.
type told struct{ waiting, when float64 }

// backlog is how many requests wait in all attention replicas.
type backlog struct {
	of    map[string]told
	world *world.World // of no layers: it knows what waits, now and of late
}

func newBacklog() (b backlog, err error) {
	b.of = map[string]told{}
	b.world, err = world.New()
	return b, err
}

// take takes in what a replica says; one that says nothing of it changes nothing.
func (b *backlog) take(now float64, s *pb.LoadSample) {
	if s.Waiting != nil {
		b.of[s.Host] = told{float64(s.GetWaiting()), now}
		b.sum(now)
	}
}

// sum adds up what all say who have been heard of late.
func (b *backlog) sum(now float64) {
	n := 0.0
	for host, t := range b.of {
		if now-t.when > backlogFresh {
			delete(b.of, host)
		} else {
			n += t.waiting
		}
	}
	// Neither can be refused: the clock is finite and at least 0, and so is the sum.
	_, _ = b.world.Observe(world.Clock(now)), b.world.Observe(world.Backlog(n))
}

// now is how many wait, and in which part of the time one has of late (world.World).
func (b *backlog) now() (waiting, queued float64) { return b.world.Waiting, b.world.Queued }

// Here says which attention replicas and gates are here: what others say counts no more. Without
// any gates they are not known.
func (c *Core) Here(now float64, attention, gates map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attention, c.gates = attention, gates
	for host := range c.backlog.of {
		if !attention[host] {
			delete(c.backlog.of, host)
		}
	}
	c.backlog.sum(c.at(now))
}

// Backlog is how many requests wait for their first step, and in which part of the time one has
// of late (world.World).
func (c *Core) Backlog() (waiting, queued float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backlog.now()
}
