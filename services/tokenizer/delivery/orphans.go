package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// orphansEvery is how often orphans are looked for, as long as there may be some.
const orphansEvery = 2 * time.Second

// orphans are requests that tokenizers of another version or model have not delivered to
// their ends, and none of them is here any more: they were stopped before attention had
// drained, as before an upgrade. Up to where they have delivered a shard is said by its lease.
// The replica that holds that shard here looks what is behind that, and ends each.
type orphans struct {
	*common
	kinds  *Kinds
	sender *Sender
}

// foreignLease is a lease of a shard of another kind.
type foreignLease struct {
	key   string
	shard int
	id    *pb.Identity
}

// parseLease reads the key of a shard's lease: "shard-SHARD-vVERSION-MODEL".
func parseLease(key string) (l foreignLease, ok bool) {
	l = foreignLease{key: key, id: &pb.Identity{}}
	_, err := fmt.Sscanf(key, "shard-%d-v%d-%x", &l.shard, &l.id.Version, &l.id.Model)
	return l, err == nil && key == leaseOf(l.shard, l.id) && l.shard >= 0 && l.shard < schemas.LogShards
}

// covers reports whether tokenizers with that lease have accepted under an identity.
func (l foreignLease) covers(id *pb.Identity) bool {
	return id.GetVersion() == l.id.Version && id.GetModel() == l.id.Model
}

// end ends a shard's orphans until ctx ends: once, and whenever replicas of other kinds
// have come or gone.
func (s *orphans) end(ctx context.Context, shard int) {
	var before string
	for again := true; pause.For(ctx, orphansEvery) == nil; {
		if !s.kinds.members.Synced() {
			continue
		}
		now := ids(s.kinds.members.OtherKinds())
		if !again && now == before {
			continue
		}
		before = now
		if err := s.sweep(ctx, shard); err != nil && ctx.Err() == nil {
			s.d.Logger.Warn("looking for requests that replicas of another kind have left; trying again", "shard", shard, "error", err)
			again = true
			continue
		}
		again = false
	}
}

func ids(all []*pb.Member) (list string) {
	for _, m := range all {
		list += m.Id + " "
	}
	return list
}

// sweep ends the orphans of all kinds in a shard.
func (s *orphans) sweep(ctx context.Context, shard int) error {
	leases, err := bus.AsBucket(s.d.Leases)
	if err != nil {
		return err
	}
	keys, err := leases.Names(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		l, ok := parseLease(key)
		if !ok || l.shard != shard || key == s.kinds.shardLease(shard) || s.kinds.Here(l.id) {
			continue
		}
		if err := s.sweepBehind(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// sweepBehind ends what lies behind a lease's position.
func (s *orphans) sweepBehind(ctx context.Context, l foreignLease) error {
	entry, err := s.d.Leases.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading lease %s: %w", l.key, err)
	}
	held := &pb.Lease{}
	if time.Since(entry.Created()) > s.d.Streams.Tokens().MaxAge || proto.Unmarshal(entry.Value(), held) != nil {
		return nil // all that was theirs is gone
	}
	loose, err := s.log.Loose(ctx, l.shard, bus.Place{Incarnation: held.Incarnation, Sequence: held.Position})
	if err != nil {
		return err
	}
	for _, request := range loose {
		if err := s.abandon(ctx, request, l); err != nil {
			return err
		}
	}
	return nil
}

// abandon ends a request if it is an orphan, and tells its producer.
func (s *orphans) abandon(ctx context.Context, request string, l foreignLease) error {
	gone := func(id *pb.Identity) bool { return l.covers(id) && !s.kinds.Here(id) }
	accept, end, err := s.log.Abandon(ctx, request, gone, abandoned)
	if accept == nil || err != nil {
		return err
	}
	s.d.Logger.Warn("a request is ended that replicas of another kind have not delivered to its end: none of them is here", "request", request, "error", end.GetError().GetMessage())
	a := newAnswer(request, accept, NoText{})
	s.sender.insist(ctx, a, a.push(&pb.Record{Kind: &pb.Record_Terminal{Terminal: end}}))
	return nil
}

func abandoned(e *tokenlog.KindError) *pb.Terminal {
	why := edge.Errorf(edge.ModelNotReady, "%v, and these went before they had delivered the answer; send it again under another id", e)
	return &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)}
}
