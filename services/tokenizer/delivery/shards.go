package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/schemas"
)

// Shards are the parts of the token log that this replica delivers: those whose leases
// it holds.
type Shards struct {
	*common
	owner    *owner
	kinds    *Kinds
	orphans  *orphans
	members  Members
	presence *deployment.Presence
	held     shardSet
}

func newShards(c *common, o *owner, kinds *Kinds, p *deployment.Presence) *Shards {
	return &Shards{common: c, owner: o, kinds: kinds, orphans: &orphans{common: c, kinds: kinds, sender: o.sender}, presence: p}
}

// Count is how many are held.
func (s *Shards) Count() int { return s.held.count() }

// Owns says whether the shard of a request is held.
func (s *Shards) Owns(request string) bool { return s.held.has(request) }

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
			s.held.set(shard, true)
			defer s.held.set(shard, false)
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
func (s *Shards) serveShard(ctx context.Context, shard int, held *lease.Held) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.yieldWhenUnfair(ctx, shard, cancel)
	if held.Inherited() {
		s.presence.Add("shard_takeovers_total", 1)
	}
	sh := &ownedShard{s: s.owner, shard: shard, held: held, requests: map[string]*served{}}
	defer sh.letGo()
	var ending sync.WaitGroup
	defer ending.Wait()
	defer cancel(nil) // before the wait
	ending.Go(func() { s.orphans.end(ctx, shard) })
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
