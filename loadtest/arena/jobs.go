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
func inParallel(ctx context.Context, threads, n int, progress func(done int64), do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, done atomic.Int64
	var wait sync.WaitGroup
	for range max(1, threads) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					stop(err)
					return
				}
				progress(done.Add(1))
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

func (s Settings) inParallel(ctx context.Context, n int, of string, do func(ctx context.Context, i int) error) error {
	return inParallel(ctx, s.Threads, n, func(done int64) { s.Progress("%s: %d of %d runs done", of, done, n) }, do)
}

// eachLab makes the lab of every shape and seed, several at a time: seeds of a shape side by side, in
// the shapes' order. Progress is told as each is done.
func eachLab[L any](ctx context.Context, threads int, shapes []string, seeds int, first uint64, progress func(string, ...any), lab func(ctx context.Context, shape string, seed uint64) (L, error)) ([]L, error) {
	n := len(shapes) * seeds
	labs := make([]L, n)
	err := inParallel(ctx, threads, n, func(done int64) { progress("%d of %d shapes and seeds…", done, n) }, func(ctx context.Context, i int) (err error) {
		labs[i], err = lab(ctx, shapes[i/seeds], first+uint64(i%seeds))
		return err
	})
	return labs, err
}

func (s Settings) run(ctx context.Context, j job) (Line, error) {
	r, err := s.BackEnd.Run(ctx, j.work, j.settings, j.policy)
	if err != nil {
		return Line{}, fmt.Errorf("%s, %s routing: %w", j.settings.Model.Name, j.routing, err)
	}
	return lineOf(j, r, s.BackEnd.Device()), nil
}
