package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// stepping is a layer that looks how many steps of a pool are under way, and may break then.
type stepping struct {
	forward.MoE
	pool   *pool.Pool
	breaks func() error // nil: it does not
	seen   []int
}

func (s *stepping) Start(ctx context.Context, layer int, x []float32) (forward.Pending, error) {
	s.seen = append(s.seen, s.pool.Steps())
	if s.breaks != nil {
		if err := s.breaks(); err != nil {
			return nil, err
		}
	}
	return s.MoE.Start(ctx, layer, x)
}

// A worker's microbatch is a step of the pool until it is done, has failed or has panicked.
func TestMicrobatchIsStep(t *testing.T) {
	for name, breaks := range map[string]func() error{
		"done": nil, "failed": func() error { return errors.New("no") }, "panicked": func() error { panic("no") },
	} {
		b := realBench(t, 8)
		w := b.workers[0]
		w.choose.Pool = pool.New(1)
		layers := &stepping{MoE: w.step.MoE, pool: w.choose.Pool, breaks: breaks}
		w.step.MoE = layers
		ctx, cancel := context.WithCancel(t.Context())
		ended, finished := make(chan struct{}), make(chan *microbatch)
		go func() { w.run(ctx, finished); close(ended) }()
		b.add(b.ask("r", 3, 2, ""))
		b.start()
		w.in <- b.flying[0]
		mb := <-finished
		for _, n := range layers.seen {
			if n != 1 {
				t.Errorf("%s: %d steps in a layer", name, n)
			}
		}
		if (mb.err != nil) != (breaks != nil) || len(layers.seen) == 0 || w.choose.Pool.Steps() != 0 {
			t.Errorf("%s: %v, %d layers, %d steps are left", name, mb.err, len(layers.seen), w.choose.Pool.Steps())
		}
		cancel()
		<-ended
	}
}
