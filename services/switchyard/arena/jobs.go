package arena

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/sim"
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
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lines := make([]Line, len(jobs))
	var next, done atomic.Int64
	var wait sync.WaitGroup
	for range max(1, s.Threads) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				line, err := s.run(ctx, jobs[i])
				if err != nil {
					stop(err)
					return
				}
				lines[i] = line
				s.Progress("%s: %d of %d runs done", jobs[i].settings.Model.Name, done.Add(1), len(jobs))
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return lines, ctx.Err()
}

func (s Settings) run(ctx context.Context, j job) (Line, error) {
	r, err := s.BackEnd.Run(ctx, j.work, j.settings, j.policy)
	if err != nil {
		return Line{}, fmt.Errorf("%s, %s routing: %w", j.settings.Model.Name, j.routing, err)
	}
	return lineOf(j, r, s.BackEnd.Device()), nil
}
