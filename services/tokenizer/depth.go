package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/members"
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
	if n, known := d.seen["sequence"]; known {
		d.seen["sequence"] = n + float64(members.WaitingIn(s.view.Snapshot()))
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
			seen[q.kind] = float64(found[i].waiting)
		}
	}
	return seen
}

// queued is what a look at a queue finds.
type queued struct {
	waiting int
	last    uint64 // the newest message of the stream at that moment
}

// pending asks how many messages of a stream no replica of a group has taken yet.
func (s *Service) pending(ctx context.Context, stream, group string) (queued, error) {
	js := s.d.Conn.JetStream()
	c, err := js.Consumer(ctx, stream, group)
	if err == nil {
		info := c.CachedInfo()
		return queued{int(info.NumPending), info.Delivered.Stream + info.NumPending}, nil
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	all, err := js.Stream(ctx, stream) // the group was never here: all of them wait
	if err != nil {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	state := all.CachedInfo().State
	return queued{int(state.Msgs), state.LastSeq}, nil
}
