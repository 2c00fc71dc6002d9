package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// Shards are the parts of the token log that this replica delivers: those whose leases
// it holds.
type Shards struct {
	*common
	owner    *owner
	kinds    *Kinds
	orphans  *orphans
	members  *members.View
	presence *deployment.Presence
	held     shardSet
}

func newShards(c *common, o *owner, kinds *Kinds, p *deployment.Presence) *Shards {
	return &Shards{common: c, owner: o, kinds: kinds, orphans: &orphans{common: c, kinds: kinds, sender: o.sender}, presence: p}
}

// Count is how many are held.
func (s *Shards) Count() int { return s.held.count() }

// Owns reports whether the shard of a request is held.
func (s *Shards) Owns(request string) bool { return s.held.has(request) }

// shardSet counts the shards of the token log that this replica serves.
type shardSet struct {
	mu   sync.Mutex
	held map[int]*ownedShard // a shard that is given up has none
}

func (h *shardSet) set(shard int, held *ownedShard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[int]*ownedShard{}
	}
	if held != nil {
		h.held[shard] = held
	} else {
		delete(h.held, shard)
	}
}

// each calls fn for the shards that are held.
func (h *shardSet) each(fn func(*ownedShard)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sh := range h.held {
		fn(sh)
	}
}

func (h *shardSet) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// has reports whether a request's shard is held.
func (h *shardSet) has(request string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[schemas.ShardOf(request)] != nil
}

// spare takes a shard out if more than share are held. It decides for one
// shard after the other, or all would be given up at once.
func (h *shardSet) spare(shard, share int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[shard] == nil || len(h.held) <= share {
		return false
	}
	delete(h.held, shard)
	return true
}

// serve contends for every shard of the token log until ctx ends.
func (s *Shards) serve(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for shard := range schemas.LogShards {
		running.Go(func() { s.contend(ctx, shard) })
	}
}

// yieldPause leaves a shard that was given up to other replicas, which take it in
// milliseconds. It is short: the sibling that it was given up for may hang, and
// then no other replica delivers.
const yieldPause = 300 * time.Millisecond

func (s *Shards) contend(ctx context.Context, shard int) {
	for ctx.Err() == nil {
		err := lease.Hold(ctx, s.d.Leases, s.kinds.shardLease(shard), s.replica, s.presence.Lease(), func(ctx context.Context, held *lease.Held) error {
			sh := &ownedShard{s: s.owner, shard: shard, held: held, requests: map[string]*served{}}
			s.held.set(shard, sh)
			defer s.held.set(shard, nil)
			return s.serveShard(ctx, sh)
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
func (s *Shards) serveShard(ctx context.Context, sh *ownedShard) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.yieldWhenUnfair(ctx, sh.shard, cancel)
	if sh.held.Inherited() {
		s.presence.Add("shard_takeovers_total", 1)
	}
	defer sh.letGo()
	var ending sync.WaitGroup
	defer ending.Wait()
	defer cancel(nil) // before the wait
	ending.Go(func() { s.orphans.end(ctx, sh.shard) })
	err := sh.follow(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errYield) {
		return cause
	}
	return err
}

// yieldWhenUnfair gives a shard up when siblings should have it.
func (s *Shards) yieldWhenUnfair(ctx context.Context, shard int, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(fairEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.held.spare(shard, s.share()) {
				giveUp(errYield)
			}
		}
	}
}

// share is how many shards this replica should have, to leave siblings theirs.
func (s *Shards) share() int {
	siblings := 0
	for _, m := range members.OfService(s.members.Snapshot(), "tokenizer") {
		if !m.Draining {
			siblings++
		}
	}
	siblings = max(1, siblings)
	return (schemas.LogShards + siblings - 1) / siblings
}

// deliverRetry is the pause while the server is away.
const deliverRetry = 50 * time.Millisecond

// insist sends a chunk; while the server is away it waits for it, or until ctx ends.
func (s *Sender) insist(ctx context.Context, a *answer, c *pb.Chunk) bool {
	if a.cut {
		return true
	}
	span := s.chunkSpan(ctx, a.accept, c)
	defer span.End()
	for {
		err := s.Deliver(destinationOf(a.accept), c)
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

func (s *Sender) chunkSpan(ctx context.Context, accept *pb.Accept, c *pb.Chunk) trace.Span {
	if s.tracer == nil || accept.Traceparent == "" {
		return noop.Span{}
	}
	ctx = telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {accept.Traceparent}})
	_, span := s.tracer.Child(ctx, telemetry.SpanChunk, trace.WithAttributes(telemetry.AttrRequest.String(c.RequestId)))
	return span
}

// packJob is a log whose end was delivered, to become one record.
type packJob struct {
	request string
	packed  *pb.Packed // nil: it would be too large
	end     uint64
	tenant  string
	size    int64 // of the log as it is
}

// packing are the logs that wait to be packed. It costs the server the removal
// of a log's records, so one goroutine does it, behind the deliveries. A log
// that finds no room here stays as it is until it ages.
type packing struct {
	*common
	ledger *admission.Admission
	jobs   chan packJob
}

const (
	// packQueue bounds the packed logs that wait in memory.
	packQueue = 256
	// packWithin bounds one attempt; the server may be away.
	packWithin = 5 * time.Second
)

func newPacking(c *common, l *admission.Admission) *packing {
	return &packing{common: c, ledger: l, jobs: make(chan packJob, packQueue)}
}

func (p *packing) add(j packJob) {
	if j.packed == nil {
		return
	}
	select {
	case p.jobs <- j:
	default:
	}
}

// run packs logs until ctx ends.
func (p *packing) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			p.pack(ctx, j)
		}
	}
}

func (p *packing) pack(ctx context.Context, j packJob) {
	ctx, cancel := context.WithTimeout(ctx, packWithin)
	defer cancel()
	err := p.log.Pack(ctx, j.request, j.packed, j.end)
	switch {
	case err == nil:
		p.ledger.Kept(j.tenant, int64(proto.Size(j.packed))-j.size, time.Now())
	case !errors.Is(err, context.Canceled):
		p.d.Logger.Info("a log stays unpacked", "request", j.request, "error", err)
	}
}

// limit leaves room for several packed logs in what a full stream has for them.
func (p *packing) limit() int {
	bound := p.d.Streams.Tokens().MaxBytes
	return int(min(admission.MaxPacked, p.log.MaxRecord(), (bound-tokenlog.Writable(bound))/8))
}
