package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/loadtest/train/networks"
)

// all trains the units that are not done yet, as many at once as there are threads.
func (t *trainer) all(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	every := t.units()
	units := slices.DeleteFunc(slices.Clone(every), t.kept.has)
	var next, done atomic.Int64
	done.Store(int64(len(every) - len(units)))
	var group sync.WaitGroup
	for range max(1, t.Threads) {
		group.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(units) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := t.do(ctx, units[i]); err != nil {
					stop(err)
					return
				}
				t.Progress("%d of %d predictors are trained…", done.Add(1), len(every))
			}
		})
	}
	group.Wait()
	return t.ended(ctx)
}

// ended is why training ended early, if it did.
func (t *trainer) ended(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, networks.ErrStopped) {
		err = context.Canceled
	}
	if err != nil {
		return fmt.Errorf("training ended early; what is done is kept in %s, and the same command goes on with it: %w", t.kept.path, err)
	}
	return nil
}

// do trains and measures a unit.
func (t *trainer) do(ctx context.Context, u unit) error {
	s := t.Training
	s.Seed += uint64(u.distance)<<32 + uint64(u.target)
	s.Stop = func() bool { return ctx.Err() != nil }
	r, err := t.train(u, s)
	if err != nil {
		return fmt.Errorf("layer %d from %d layers before it: %w", u.target, u.distance, err)
	}
	return t.kept.add(u, r)
}
