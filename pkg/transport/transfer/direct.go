package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// direct is one message each way. A dispatch that no message takes goes by one object.
type direct struct{ *Link }

func (t direct) Scatter(ctx context.Context, to Address, d *pb.Dispatch) error {
	err := t.message(ctx, to.Subject, d)
	var large *bus.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	t.Observer.FellBack(plan.Direct, plan.Indirect, "payload")
	return indirect(t).Scatter(ctx, to, d)
}

func (t direct) Serve(ctx context.Context, to string, d *pb.Dispatch, _ bool, compute Compute) error {
	return compute(ctx, d, 0, func(p *pb.Partial) error {
		d.Key.Aggregator, d.Key.RowSums = "", false // the partial's subject and places say it
		return t.answer(ctx, to, p)
	})
}

func (t direct) Gather(_ context.Context, p *pb.Partial) (*pb.Partial, error) { return p, nil }

func (l *Link) message(ctx context.Context, to string, d *pb.Dispatch) error {
	began, bytes := time.Now(), len(d.Tensor.GetData())
	err := l.Sender.Send(ctx, to, d)
	if err == nil {
		l.Observer.Moved(plan.Direct, Scatter, bytes, time.Since(began))
	}
	return err
}

// routingBytes is for a partial row's own row and slot.
const routingBytes = 16

// answer sends a partial with its rows, in as many messages as it takes.
func (l *Link) answer(ctx context.Context, to string, p *pb.Partial) error {
	began := time.Now()
	limit := wire.RowsPerMessage(l.Payload()-len(p.Awaits), l.RowBytes+routingBytes)
	for _, part := range cut(p, limit) {
		if err := l.Sender.Send(ctx, to, part); err != nil {
			return fmt.Errorf("publishing a partial: %w", err)
		}
	}
	l.Observer.Moved(plan.Direct, Store, len(p.Tensor.Data), time.Since(began))
	return nil
}

// cut makes several partials of one that is over the payload limit; the first
// carries the times.
func cut(p *pb.Partial, maxRows int) []*pb.Partial {
	n := len(p.Place)
	if n <= maxRows {
		return []*pb.Partial{p}
	}
	stride := len(p.Tensor.Data) / n
	var out []*pb.Partial
	for from := 0; from < n; from += maxRows {
		to := min(from+maxRows, n)
		out = append(out, &pb.Partial{
			Key: p.Key, Place: p.Place[from:to], Awaits: p.Awaits, Decision: p.Decision, Parcel: p.Parcel, ByteSeconds: p.ByteSeconds[min(from, len(p.ByteSeconds)):min(to, len(p.ByteSeconds))],
			Tensor: &pb.Tensor{
				Dtype: p.Tensor.Dtype, Rows: uint32(to - from), Cols: p.Tensor.Cols,
				Data: p.Tensor.Data[from*stride : to*stride],
			},
		})
	}
	out[0].Gate, out[0].Function, out[0].Fates = p.Gate, p.Function, p.Fates
	return out
}
