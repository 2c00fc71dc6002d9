package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// shardSet counts the shards of the token log that this replica serves.
type shardSet struct {
	mu   sync.Mutex
	held map[int]bool
}

func (h *shardSet) set(shard int, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[int]bool{}
	}
	if held {
		h.held[shard] = true
	} else {
		delete(h.held, shard)
	}
}

// count is how many are held.
func (h *shardSet) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// has says whether a request's shard is held.
func (h *shardSet) has(request string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[schemas.ShardOf(request)]
}

// spare takes a shard out if more than share are held. It decides for one
// shard after the other, or all would be given up at once.
func (h *shardSet) spare(shard, share int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held[shard] || len(h.held) <= share {
		return false
	}
	delete(h.held, shard)
	return true
}

// serveShards contends for every shard of the token log until ctx ends.
func (s *Service) serveShards(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for shard := range schemas.LogShards {
		running.Go(func() { s.contend(ctx, shard) })
	}
}

// yieldPause leaves a shard that was given up to others, who take it in
// milliseconds. It is short: the sibling that it was given up for may hang, and
// then nobody else delivers.
const yieldPause = 300 * time.Millisecond

// shardLease is the key of a shard's lease. Tokenizers of another version or model follow
// the same shards under leases of their own: nobody can deliver what is of another kind.
func (s *Service) shardLease(shard int) string {
	return leaseOf(shard, s.identity())
}

// leaseOf is that of the tokenizers that accept under an identity.
func leaseOf(shard int, id *pb.Identity) string {
	if id.GetVersion() == schemas.EarlierVersion {
		return earlierLease(shard)
	}
	return fmt.Sprintf("shard-%d-v%d-%016x", shard, id.GetVersion(), id.GetModel())
}

func (s *Service) contend(ctx context.Context, shard int) {
	for ctx.Err() == nil {
		err := lease.Hold(ctx, s.d.Leases, s.shardLease(shard), s.id, s.presence.Lease(), func(ctx context.Context, held *lease.Held) error {
			s.shards.set(shard, true)
			defer s.shards.set(shard, false)
			return s.serveShard(ctx, shard, held)
		})
		wait := 100 * time.Millisecond
		if errors.Is(err, errYield) {
			wait = yieldPause
		} else if err != nil && ctx.Err() == nil {
			s.d.Logger.Warn("serving a shard; trying again", "shard", shard, "error", err)
		}
		_ = pause.For(ctx, wait) // the loop sees the end of ctx
	}
}

// errYield says that a shard was given up for the sake of balance.
var errYield = errors.New("this replica has more than its share of shards")

// fairEvery is how often a replica looks whether it has more than its share.
const fairEvery = time.Second

// serveShard makes chunks of a shard's records while the lease is held.
func (s *Service) serveShard(ctx context.Context, shard int, held *lease.Held) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.yieldWhenUnfair(ctx, shard, cancel)
	if held.Inherited() {
		s.presence.Add("shard_takeovers_total", 1)
	}
	sh := &ownedShard{s: s, shard: shard, held: held, requests: map[string]*served{}}
	defer sh.letGo()
	var strays sync.WaitGroup
	defer strays.Wait()
	defer cancel(nil) // before the wait
	strays.Go(func() { s.endStrays(ctx, shard) })
	err := sh.follow(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errYield) {
		return cause
	}
	return err
}

// yieldWhenUnfair gives a shard up when siblings should have it.
func (s *Service) yieldWhenUnfair(ctx context.Context, shard int, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(fairEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.shards.spare(shard, s.share()) {
				giveUp(errYield)
			}
		}
	}
}

// share is how many shards this replica should have, to leave siblings theirs.
func (s *Service) share() int {
	siblings := 0
	for _, m := range members.OfService(s.view.Snapshot(), "tokenizer") {
		if !m.Draining {
			siblings++
		}
	}
	siblings = max(1, siblings)
	return (schemas.LogShards + siblings - 1) / siblings
}

// deliverRetry is the pause while the server is away.
const deliverRetry = 50 * time.Millisecond

// deliver sends a chunk; while the server is away it waits for it, or until
// ctx ends.
func (sh *ownedShard) deliver(ctx context.Context, a *answer, c *pb.Chunk) bool {
	return sh.s.insist(ctx, a, c)
}

// insist is deliver for who owns no shard.
func (s *Service) insist(ctx context.Context, a *answer, c *pb.Chunk) bool {
	if a.cut {
		return true
	}
	spanned, span := s.chunkSpan(ctx, a.accept, c)
	defer span.End()
	for {
		err := s.deliver(spanned, destinationOf(a.accept), c)
		if err == nil {
			return true
		}
		if a.cut = errors.Is(err, errCut); a.cut || !bus.Transient(err) {
			s.d.Logger.Warn("delivering a chunk", "request", a.request, "error", err)
			return true // nor would the next owner have more success
		}
		if pause.For(ctx, deliverRetry) != nil {
			return false
		}
	}
}

func (s *Service) chunkSpan(ctx context.Context, accept *pb.Accept, c *pb.Chunk) (context.Context, trace.Span) {
	if s.tracer == nil || accept.Traceparent == "" {
		return ctx, trace.SpanFromContext(context.Background())
	}
	ctx = telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {accept.Traceparent}})
	return s.tracer.Child(ctx, telemetry.SpanChunk, trace.WithAttributes(telemetry.AttrRequest.String(c.RequestId)))
}
