package members

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// Interval is how often a member renews its key.
	Interval = 400 * time.Millisecond
	// QuietAfter is the silence from which on a member may hang: two renewals
	// and what a busy machine delays one.
	QuietAfter = 2*Interval + Interval/4
	// Hearing is how long it takes to hear everybody: a renewal of each.
	Hearing = Interval + Interval/4
	// TTL is how long a key may stay unchanged: more than three renewals.
	TTL = 1500 * time.Millisecond
	// BucketTTL is the bucket's own, which clears away the keys of the killed.
	BucketTTL = time.Minute
)

// Announce writes what member returns under its id every interval, and when
// asked, until ctx ends; then it says that it leaves, deletes the key and
// returns nil. An id is a subject token. Writes are not waited for: one that is lost is made up for by the next. kv is
// from bus.EnsureBucket. Who has no right to write the key, or to follow keys, is told at
// the start; who loses it later goes on, for somebody to give it back.
func Announce(ctx context.Context, kv jetstream.KeyValue, member func() *pb.Member, interval time.Duration, asked <-chan struct{}) error {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var stored atomic.Bool
	for begun := false; ; {
		m := member()
		// An error here means disconnected, which the connection reports.
		_ = b.Renew(ctx, m.GetId(), m, func(err error) {
			if err == nil {
				stored.Store(true)
			}
		})
		select {
		case <-tick.C:
			if denied := b.DeniedKeys(m.GetId(), ">"); denied != nil && !begun {
				return fmt.Errorf("announcing %s among the members: %w", m.GetId(), denied)
			}
			begun = stored.Load()
		case <-asked:
		case <-ctx.Done():
			leave(context.WithoutCancel(ctx), b, member())
			return nil
		}
	}
}

// leave is a farewell: an erased key alone could be anybody's deed. What gets
// lost makes the key age.
func leave(ctx context.Context, b *bus.Bucket, m *pb.Member) {
	m.Draining = true
	_ = b.Conn().Send(ctx, b.Conn().KeyTo(b.Bucket(), m.GetId()), m, nil)
	_ = b.Conn().EraseKey(ctx, b.Bucket(), m.GetId())
}
