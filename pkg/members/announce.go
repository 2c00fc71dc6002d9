package members

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// Interval is how often a member renews its key.
	Interval = 400 * time.Millisecond
	// QuietAfter is the silence from which on a member may hang: two renewals
	// and what a busy machine delays one.
	QuietAfter = 2*Interval + Interval/4
	// TTL is how long a key may stay unchanged: more than three renewals.
	TTL = 1500 * time.Millisecond
	// BucketTTL is the bucket's own, which clears away the keys of the killed.
	BucketTTL = time.Minute
)

// Announce writes what member returns under its id every interval, until ctx
// ends; then it deletes the key and returns nil. An id is a subject token.
// Writes are not waited for: one that is lost is made up for by the next. kv is
// from bus.EnsureBucket.
func Announce(ctx context.Context, kv jetstream.KeyValue, member func() *pb.Member, interval time.Duration) error {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		m := member()
		// An error here means disconnected, which the connection reports.
		_ = b.Conn().Send(ctx, bus.KeySubject(b.Bucket(), m.GetId()), m, nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = b.Conn().EraseKey(context.WithoutCancel(ctx), b.Bucket(), m.GetId()) // else the key ages
			return nil
		}
	}
}
