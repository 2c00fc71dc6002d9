package planner

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/planstore"
)

// Lease is the duty of planning, which one candidate has at a time.
type Lease interface {
	// Hold calls fn while the lease is held, as lease.Hold does.
	Hold(ctx context.Context, fn func(ctx context.Context, by planstore.Writer) error) error
}

// leaseKey is the lease's name in its bucket.
const leaseKey = "planner"

// InBucket returns the lease of a model, for a candidate of a unique name.
func InBucket(kv jetstream.KeyValue, owner string, o lease.Options) Lease {
	return inBucket{kv, owner, o}
}

type inBucket struct {
	kv      jetstream.KeyValue
	owner   string
	options lease.Options
}

// Hold implements Lease.
func (l inBucket) Hold(ctx context.Context, fn func(context.Context, planstore.Writer) error) error {
	return lease.Hold(ctx, l.kv, leaseKey, l.owner, l.options, func(ctx context.Context, held *lease.Held) error {
		return fn(ctx, planstore.Writer{Epoch: held.Epoch(), Holds: held.Holds})
	})
}
