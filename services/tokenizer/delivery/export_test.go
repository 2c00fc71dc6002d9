package delivery

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
)

// What tests of a whole replica look at.
const (
	CancelGrace          = cancelGrace
	InterestAsked        = interestAsked
	InterestHeld         = interestHeld
	InterestTaken        = interestTaken
	InterestHanded       = interestHanded
	SweepEvery           = sweepEvery
	MaxHanded            = maxHanded
	MaxTurn              = maxTurn
	MaxStreamsPerRequest = maxStreamsPerRequest
)

type Handed = handed

func (v *Delivery) Stopping() bool   { return v.common.ctx.Err() != nil }
func (v *Delivery) Announced() int64 { return v.Shards.owner.reserved.Announced() }

func (s *Shards) Sweep(ctx context.Context, shard int) error { return s.orphans.sweep(ctx, shard) }

func (k *Kinds) ShardLease(shard int) string { return k.shardLease(shard) }

func (s *Replays) Open() int {
	s.open.mu.Lock()
	defer s.open.mu.Unlock()
	return len(s.open.byID)
}

func (s *Replays) Newest() uint64 {
	s.open.mu.Lock()
	defer s.open.mu.Unlock()
	return s.open.last
}

// Hold has replays that are asked for wait.
func (s *Replays) Hold() (release func()) {
	s.open.mu.Lock()
	return s.open.mu.Unlock
}

// HeldWithin gives other replicas so long to say that a caller waits.
func (s *Replays) HeldWithin(d time.Duration) { s.heldWithin = d }

// Absent reports whether the server has said that a request's caller does not listen.
func (s *Replays) Absent(request string) bool {
	s.absent.mu.Lock()
	defer s.absent.mu.Unlock()
	return !s.absent.since[request].IsZero()
}

func (s *Replays) Asked(request string) bool { return s.open.asked(request) }

func (s *Replays) NoteDeserted(request string) bool {
	return s.deserted.note(request, time.Hour, func(context.Context) {})
}

// OwnedShard is one of a replica that does not run.
type OwnedShard struct{ sh *ownedShard }

func (v *Delivery) OwnedShard(ctx context.Context, log *tokenlog.Log, shard int) OwnedShard {
	v.common.log, v.common.ctx = log, ctx
	return OwnedShard{&ownedShard{s: v.Shards.owner, shard: shard, requests: map[string]*served{}}}
}

func (o OwnedShard) Take(ctx context.Context, request string, e tokenlog.Entry, unreadable error) bool {
	return o.sh.take(ctx, request, e, unreadable)
}

func (o OwnedShard) Follow(ctx context.Context, held *lease.Held) error {
	o.sh.held = held
	return o.sh.follow(ctx)
}

// Written are the bytes of the logs of those that it has, by request.
func (o OwnedShard) Written() map[string]int64 {
	all := map[string]int64{}
	for request, r := range o.sh.requests {
		all[request] = r.written
	}
	return all
}

// Reserved are the bytes that are not written yet.
func (o OwnedShard) Reserved() int64 {
	r := o.sh.s.reserved
	return r.Announced() - r.Written()
}

func (o OwnedShard) Wait() { o.sh.s.tasks.Wait() }
