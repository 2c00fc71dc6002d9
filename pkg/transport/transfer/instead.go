package transfer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// restFor is how long nothing is stored after a store did not answer: each try would hold rows up
// for as long as an acknowledgement is waited for.
const restFor = 5 * time.Second

// rest is until when nothing is stored.
type rest struct{ until atomic.Int64 }

func (r *rest) now(now time.Time) bool { return now.UnixNano() < r.until.Load() }

func (r *rest) begin(now time.Time) { r.until.Store(now.Add(restFor).UnixNano()) }

func (l *Link) put(ctx context.Context, name string, data []byte, sum Sum) error {
	if l.rest.now(time.Now()) {
		return ErrNoStore
	}
	err := l.Objects.Put(ctx, name, data, sum)
	if err != nil && !errors.Is(err, ErrFull) && ctx.Err() == nil {
		l.rest.begin(time.Now())
	}
	return err
}

func why(err error) string {
	if errors.Is(err, ErrFull) {
		return "full"
	}
	return "unavailable"
}

// instead sends a dispatch in messages that was to be stored: in one, or where none takes it, in
// several of some rows each.
func (l *Link) instead(ctx context.Context, to string, d *pb.Dispatch, from pb.TransferMode, cause error) error {
	l.Observer.FellBack(from, plan.Direct, why(cause))
	var large *bus.TooLargeError
	err := l.message(ctx, to, d)
	if !errors.As(err, &large) {
		return err
	}
	each := wire.RowsPerMessage(l.Payload()-len(d.Awaits)-len(d.Fates.GetCodes()), l.RowBytes+entryBytes*l.Shape.TopK)
	for k, m := range l.minibatches(d, each) {
		part := m.of(d)
		if k == 0 {
			part.Gate, part.Fates = d.Gate, d.Fates
		}
		if err := l.message(ctx, to, part); err != nil {
			return err
		}
	}
	return nil
}

// entryBytes are those of an entry of a dispatch: place, expert and weight.
const entryBytes = 16
