package transfer

import (
	"context"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// indirect is one object each way, which a message names.
type indirect struct{ *Link }

func (t indirect) Scatter(ctx context.Context, to Address, d *pb.Dispatch) error {
	p := t.pack(to, d, &pb.Parcel{Mode: plan.Indirect})
	if err := t.store(ctx, p, 0); err != nil {
		return t.instead(ctx, to.Subject, d, plan.Indirect, err)
	}
	return t.Sender.Send(ctx, to.Subject, p.message())
}

func (t indirect) Serve(ctx context.Context, to string, d *pb.Dispatch, again bool, compute Compute) error {
	w, err := t.unpack(to, d, again)
	if err != nil {
		return err
	}
	in, err := w.fetch(ctx, 0)
	if err != nil {
		return err
	}
	if in.outputs != nil { // another host had got so far
		return w.send(ctx, in.outputs)
	}
	return compute(ctx, in.rows, in.waited, func(p *pb.Partial) error {
		out, err := w.outputs(0, p)
		if err != nil {
			return err
		}
		return w.deliver(ctx, out)
	})
}

func (t indirect) Gather(ctx context.Context, p *pb.Partial) (*pb.Partial, error) {
	return t.gather(ctx, p)
}
