package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The consumers that replicas share.
const (
	promptGroup   = "tokenizer"
	sequenceGroup = "attention"
)

const (
	// depthAge is how long a look at the queues for metrics lasts.
	depthAge = time.Second
	// depthWithin bounds such a look: whoever reads metrics waits for it.
	depthWithin = 500 * time.Millisecond
)

// depths is how many messages wait in the durable queues, as metrics show it.
type depths struct {
	mu     sync.Mutex
	looked time.Time
	seen   map[string]float64
}

// queueDepths asks for the queues' depths, at most once in depthAge. What the
// server does not tell is not in them.
func (s *Service) queueDepths() map[string]float64 {
	d := &s.depths
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.looked) < depthAge {
		return d.seen
	}
	ctx, cancel := context.WithTimeout(s.ctx, depthWithin)
	defer cancel()
	d.seen = waitingIn(ctx, s.queues(), s.pending)
	if _, known := d.seen["sequence"]; known { // of its messages, requests count
		d.seen["sequence"] = float64(s.waiting(ctx, time.Now()))
	}
	d.looked = time.Now()
	return d.seen
}

// queue is a durable queue, and the consumer that takes of it.
type queue struct{ kind, stream, group string }

func (s *Service) queues() []queue {
	return []queue{
		{"prompt", s.d.Streams.Prompts().Name, promptGroup},
		{"sequence", s.d.Streams.Sequences().Name, sequenceGroup},
	}
}

// waitingIn asks for all queues at once, so that one that nobody answers for does not
// take the others' time. What is not told is not in it.
func waitingIn(ctx context.Context, queues []queue, look func(ctx context.Context, stream, group string) (queued, error)) map[string]float64 {
	found, failed := make([]queued, len(queues)), make([]error, len(queues))
	var looks sync.WaitGroup
	for i, q := range queues {
		looks.Go(func() { found[i], failed[i] = look(ctx, q.stream, q.group) })
	}
	looks.Wait()
	seen := map[string]float64{}
	for i, q := range queues {
		if failed[i] == nil {
			seen[q.kind] = float64(found[i].pending)
		}
	}
	return seen
}

// queued is what a look at a queue finds.
type queued struct {
	pending int    // messages that no replica was given yet, whatever they are
	given   uint64 // the newest message that one was given
	held    int    // sequences that wait in attention replicas
}

// last is the newest message of the stream at that moment.
func (q queued) last() uint64 { return q.given + uint64(q.pending) }

// pending asks how many messages of a stream no replica of a group has taken yet.
func (s *Service) pending(ctx context.Context, stream, group string) (queued, error) {
	js := s.d.Conn.JetStream()
	c, err := js.Consumer(ctx, stream, group)
	if err == nil {
		info := c.CachedInfo()
		return queued{pending: int(info.NumPending), given: info.Delivered.Stream}, nil
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	all, err := js.Stream(ctx, stream) // the group was never here: all of them wait
	if err != nil {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	state := all.CachedInfo().State
	return queued{pending: int(state.Msgs), given: state.LastSeq - state.Msgs}, nil
}
