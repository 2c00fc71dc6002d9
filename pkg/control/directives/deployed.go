package directives

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// InBucket returns the controller's lease of a model, for a candidate of a unique name.
func InBucket(kv jetstream.KeyValue, owner string, o lease.Options) Lease {
	return inBucket{kv, owner, o}
}

type inBucket struct {
	kv      jetstream.KeyValue
	owner   string
	options lease.Options
}

// Hold implements Lease.
func (l inBucket) Hold(ctx context.Context, fn func(context.Context, Writer) error) error {
	return lease.Hold(ctx, l.kv, LeaseKey, l.owner, l.options, func(ctx context.Context, held *lease.Held) error {
		return fn(ctx, Writer{ID: l.owner, Epoch: held.Epoch(), Holds: held.Holds})
	})
}

// FollowLease tells of each renewal of the controller's lease until stop is called.
func FollowLease(leases jetstream.KeyValue, renewed func()) (stop func(), err error) {
	b, err := bus.AsBucket(leases)
	if err != nil {
		return nil, err
	}
	return b.Conn().FollowKeys(b.Bucket(), LeaseKey, func(_ string, value []byte, deleted bool) {
		l := &pb.Lease{}
		if !deleted && proto.Unmarshal(value, l) == nil && l.Owner != "" {
			renewed()
		}
	})
}
