package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// The consumers that replicas share.
const (
	PromptGroup   = "tokenizer"
	sequenceGroup = "attention"
)

const (
	// depthAge is how long a look at the queues for metrics lasts.
	depthAge = time.Second
	// depthWithin bounds such a look: the reader of metrics waits for it.
	depthWithin = 500 * time.Millisecond
)

// depths is how many messages wait in the durable queues, as metrics show it.
type depths struct {
	queues []queue

	mu     sync.Mutex
	looked time.Time
	seen   map[string]float64
}

// queueDepths asks for the queues' depths, at most once in depthAge. What the
// server does not tell is not in them.
func (p *Probe) queueDepths(ctx context.Context) map[string]float64 {
	d := &p.depths
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.looked) < depthAge {
		return d.seen
	}
	ctx, cancel := context.WithTimeout(ctx, depthWithin)
	defer cancel()
	d.seen = waitingIn(ctx, d.queues, func(ctx context.Context, stream, group string) (queued, error) {
		return pending(ctx, p.d.Conn.JetStream(), stream, group)
	})
	if _, known := d.seen["sequence"]; known { // of its messages, requests count
		d.seen["sequence"] = float64(p.Sequences.Waiting(ctx, time.Now()))
	}
	d.looked = time.Now()
	return d.seen
}

// queue is a durable queue, and the consumer that takes of it.
type queue struct{ kind, stream, group string }

func queuesOf(s schemas.Streams) []queue {
	return []queue{
		{"prompt", s.Prompts().Name, PromptGroup},
		{"sequence", s.Sequences().Name, sequenceGroup},
	}
}

// waitingIn asks for all queues at once, so that one without an answer does not
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
func pending(ctx context.Context, js jetstream.JetStream, stream, group string) (queued, error) {
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
