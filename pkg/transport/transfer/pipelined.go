package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pipelined is an object for each minibatch: a host has one, computes the one before, and stores what
// became of the one before that, all at once.
type pipelined struct {
	*Link
	minibatch int
}

// Scatter implements Transfer. The host hears of its rows when the first minibatch is stored.
func (t pipelined) Scatter(ctx context.Context, to Address, d *pb.Dispatch) error {
	p := t.pack(to, d, &pb.Parcel{Mode: plan.Pipelined, Minibatch: uint32(t.minibatch)})
	if err := t.store(ctx, p, 0); err != nil {
		return t.instead(ctx, to.Subject, d, plan.Pipelined, err)
	}
	if err := t.Sender.Send(ctx, to.Subject, p.message()); err != nil {
		return err
	}
	for k := 1; k < len(p.all); k++ {
		if err := t.store(ctx, p, k); err != nil {
			return t.instead(ctx, to.Subject, p.from(k), plan.Pipelined, err)
		}
	}
	return nil
}

// Serve implements Transfer. Where a minibatch fails, those before it are sent all the same: who goes
// on with the rows need not compute them.
func (t pipelined) Serve(ctx context.Context, to string, d *pb.Dispatch, again bool, compute Compute) error {
	w, err := t.unpack(to, d, again)
	if err != nil {
		return err
	}
	fetching, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	fetched, computed := make(chan input, 1), make(chan *output, 1)
	beside.Go(func() {
		defer close(fetched)
		w.fetchAll(fetching, stop, fetched)
	})
	beside.Go(func() { w.deliverAll(ctx, stop, computed) })
	for began := time.Now(); ; began = time.Now() {
		in, more := <-fetched
		if !more {
			break
		}
		in.waited = time.Since(began) // what it was fetched beside computing is no wait
		if err := w.compute(fetching, in, compute, computed); err != nil {
			stop(err)
		}
	}
	close(computed)
	beside.Wait()
	err = context.Cause(fetching)
	stop(nil)
	return err
}

func (t pipelined) Gather(ctx context.Context, p *pb.Partial) (*pb.Partial, error) {
	return t.gather(ctx, p)
}

// fetchAll gets one minibatch after the other, one ahead of what is computed.
func (w *work) fetchAll(ctx context.Context, fail context.CancelCauseFunc, to chan<- input) {
	for k := range w.all {
		in, err := w.fetch(ctx, k)
		if err != nil {
			fail(err)
			return
		}
		select {
		case to <- in:
		case <-ctx.Done():
			return
		}
	}
}

// compute has one minibatch computed, and hands on what became of it.
func (w *work) compute(ctx context.Context, in input, compute Compute, to chan<- *output) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case in.outputs != nil:
		to <- in.outputs
		return nil
	}
	return compute(ctx, in.rows, in.waited, func(p *pb.Partial) error {
		out, err := w.outputs(in.at, p)
		if err == nil {
			to <- out
		}
		return err
	})
}

// deliverAll stores and sends what became of minibatches, until there are no more. After a failure it
// only takes them.
func (w *work) deliverAll(ctx context.Context, fail context.CancelCauseFunc, from <-chan *output) {
	failed := false
	for out := range from {
		if failed {
			continue
		}
		if err := w.deliver(ctx, out); err != nil {
			failed = true
			fail(err)
		}
	}
}
