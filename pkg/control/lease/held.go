package lease

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// run calls fn and renews the lease meanwhile. again says that Hold shall wait
// for the lease anew.
func (h *Held) run(ctx context.Context, fn func(context.Context, *Held) error) (again bool, err error) {
	tenure, cancel := context.WithCancelCause(ctx)
	h.cancel = cancel
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		h.renewUntilDone(tenure)
	}()
	err = fn(tenure, h)
	lost := errors.Is(context.Cause(tenure), ErrLost)
	cancel(nil)
	<-renewing
	if !lost {
		h.giveBack(ctx)
	}
	return lost && ctx.Err() == nil, err
}

// giveUpAfter is when a holder without renewals stops: earlier than a
// candidate begins, so that its work has ended by then.
func (h *Held) giveUpAfter() time.Duration { return h.TTL * 4 / 5 }

func (h *Held) renewUntilDone(ctx context.Context) {
	wait := h.TTL / 3
	for {
		if pause.For(ctx, wait) != nil {
			return
		}
		err := h.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = h.TTL / 3
		case errors.Is(err, ErrLost) || time.Since(h.renewed) >= h.giveUpAfter():
			h.cancel(ErrLost)
			return
		default:
			wait = h.TTL / 15 // no answer: there is still time
		}
	}
}

// renew writes the lease again. An attempt must not outlast the lease.
func (h *Held) renew(ctx context.Context) error {
	within := min(h.TTL/3, h.giveUpAfter()-time.Since(h.renewed))
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	before := time.Now()
	revision, err := h.write(ctx, h.current(), h.revision)
	if bus.IsWrongSequence(err) {
		revision, err = h.recognise(ctx)
	}
	if err == nil {
		h.revision, h.renewed = revision, before
	}
	return err
}

// recognise looks whether the newer revision is our own: its acknowledgement
// was lost then. A server that has not seen a newer one, because it is behind the
// others or cut off from them, knows nothing: the lease is not renewed by that.
func (h *Held) recognise(ctx context.Context) (uint64, error) {
	now, revision, err := h.read(ctx)
	if err != nil {
		return 0, err
	}
	if revision <= h.revision && revision != 0 {
		return 0, errBehind
	}
	if now.GetOwner() != h.owner || now.GetEpoch() != h.Epoch() {
		return 0, ErrLost
	}
	return revision, nil
}

func (h *Held) current() *pb.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := proto.CloneOf(h.lease)
	l.Listens = h.listens()
	return l
}

// giveBack writes the lease without an owner. When that fails, candidates wait
// for TTL, so it is not tried again.
func (h *Held) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL)
	defer cancel()
	free := h.current()
	free.Owner = ""
	_, err := h.write(ctx, free, h.revision)
	if !bus.IsWrongSequence(err) {
		return
	}
	if revision, err := h.recognise(ctx); err == nil {
		_, _ = h.write(ctx, free, revision) // as above
	}
}
