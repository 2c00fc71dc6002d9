package delivery

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// deliveredBefore is up to where tokenizers of that version have delivered a shard: what
// lies behind it in logs of theirs is left to this version. 0: nothing was theirs, or it is
// not known before ctx ends. What they may have delivered twice does no harm.
func (c *common) deliveredBefore(ctx context.Context, shard int) uint64 {
	for {
		entry, err := c.d.Leases.Get(ctx, earlierLease(shard))
		if errors.Is(err, jetstream.ErrKeyNotFound) || ctx.Err() != nil {
			return 0
		}
		l := &pb.Lease{}
		if err == nil && proto.Unmarshal(entry.Value(), l) == nil {
			return l.Position
		}
		if err == nil || pause.For(ctx, deliverRetry) != nil {
			return 0
		}
	}
}
