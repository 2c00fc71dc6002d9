package engine

import (
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// chooser says which of the sequences step next, and with how many rows.
type chooser struct {
	policy batching.Policy
	pace   batching.Pace
	// batches chooses in the policy's place, and askWithin is after what time it is to be
	// asked again at the latest, if not 0; nil: the policy chooses.
	batches   deployment.Batches
	askWithin time.Duration

	items []batching.Item
	ready []*Sequence // the same
	takes []batching.Take
}

// collect finds those that may step, and the first doubtful one before them, which has its
// trial next if none has.
func (c *chooser) collect(order []*Sequence, onTrial *Sequence) (doubtful *Sequence) {
	c.items, c.ready = c.items[:0], c.ready[:0]
	for _, s := range order {
		switch {
		case !s.mayStep() || s.table.Positions() < s.extent():
		case s.doubtful:
			if onTrial == nil && doubtful == nil && len(c.ready) == 0 {
				doubtful = s
			}
		default:
			c.items, c.ready = append(c.items, s.item()), append(c.ready, s)
		}
	}
	return doubtful
}

// only has one sequence be all that may step.
func (c *chooser) only(s *Sequence) {
	c.items, c.ready = append(c.items[:0], s.item()), append(c.ready[:0], s)
}

// item is the sequence as the policy sees it.
func (s *Sequence) item() batching.Item {
	it := batching.Item{Alone: s.suspect || s.doubtful, Request: s.seq.RequestId, Position: s.done}
	switch n := s.unread(); {
	case n > 0:
		it.Prefill, it.Scored, it.Whole = n, s.withLogits(), true
	case !s.decoding():
		it.Prefill, it.Scored = s.pending(), s.withLogits()
	}
	return it
}

// choose makes a microbatch of those that were collected of the owned; nil: none is to step now.
func (c *chooser) choose(own *owned) *microbatch {
	if c.batches != nil {
		c.takes, c.askWithin = c.batches(c.items, c.takes)
	} else {
		c.takes = c.policy.Next(c.items, own.decoding(), &c.pace, c.takes)
	}
	if len(c.takes) == 0 {
		return nil
	}
	return newMicrobatch(c.ready, c.takes)
}

// observe takes in what a microbatch took. price is of rows of answers.
func (c *chooser) observe(mb *microbatch, price *batching.Price) {
	if mb.prompts == 0 {
		c.pace.Alone()
		if !mb.probes() {
			price.Observe(mb.rows, mb.seconds())
		}
		return
	}
	c.pace.Observe(mb.rows, max(0, mb.layers-mb.stalls).Seconds(), mb.wanted, mb.heads.Seconds())
	if n := mb.answers(); n > 0 {
		c.pace.Beside(mb.prompts, mb.seconds(), price.Step(n))
	}
}

// crew are the workers.
type crew struct {
	idle []*worker
	busy map[*microbatch]*worker
}

func newCrew(workers []*worker) crew {
	return crew{idle: slices.Clone(workers), busy: map[*microbatch]*worker{}}
}

// give gives a microbatch to an idle worker; there is one.
func (c *crew) give(mb *microbatch) *worker {
	w := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	c.busy[mb] = w
	mb.with(&w.watched)
	return w
}

// back says that a microbatch is back.
func (c *crew) back(mb *microbatch) {
	c.idle = append(c.idle, c.busy[mb])
	delete(c.busy, mb)
	mb.with(nil)
}

// with says who computes the sequences of a microbatch; nil: nobody does.
func (mb *microbatch) with(w *renewal.Worker) {
	for i := range mb.parts {
		mb.parts[i].s.delivery.With(w)
	}
}
