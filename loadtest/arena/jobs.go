package arena

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/loadtest/sim"
)

// job is one run: what is varied, and where its line goes.
type job struct {
	part     string
	routing  string
	value    float64 // of what is varied in this part
	constant string  // that is
	settings sim.Settings
	policy   sim.Policy
	work     *sim.Workload
}

// runAll runs jobs, as many at once as there are threads, and gives their lines in
// the order of the jobs. The first error ends the others.
func (s Settings) runAll(ctx context.Context, jobs []job) ([]Line, error) {
	lines := make([]Line, len(jobs))
	if len(jobs) == 0 {
		return lines, ctx.Err()
	}
	err := s.inParallel(ctx, len(jobs), jobs[0].settings.Model.Name, func(ctx context.Context, i int) (err error) {
		lines[i], err = s.run(ctx, jobs[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// inParallel does n things, as many at once as there are threads. The first error ends the
// others.
func (s Settings) inParallel(ctx context.Context, n int, of string, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, done atomic.Int64
	var wait sync.WaitGroup
	for range max(1, s.Threads) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					stop(err)
					return
				}
				s.Progress("%s: %d of %d runs done", of, done.Add(1), n)
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

func (s Settings) run(ctx context.Context, j job) (Line, error) {
	r, err := s.BackEnd.Run(ctx, j.work, j.settings, j.policy)
	if err != nil {
		return Line{}, fmt.Errorf("%s, %s routing: %w", j.settings.Model.Name, j.routing, err)
	}
	return lineOf(j, r, s.BackEnd.Device()), nil
}
