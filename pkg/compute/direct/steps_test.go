package direct

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
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

// A runner's step is one of its pool until it is done, has failed or has panicked.
func TestSteps(t *testing.T) {
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, breaks := range map[string]func() error{
		"done": nil, "failed": func() error { return errors.New("no") }, "panicked": func() error { panic("no") },
	} {
		p := pool.New(1)
		r, err := New(m, p, Settings{Wire: tensor.BF16, MaxPositions: 64, KVBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		layers := &stepping{MoE: r.step.MoE, pool: p, breaks: breaks}
		r.step.MoE = layers
		s, err := r.Add([]uint32{1, 2, 3}, 2, greedy)
		if err != nil {
			t.Fatal(err)
		}
		if whole := isWhole(func() error { return r.Step(t.Context(), []*Sequence{s}) }); whole != (breaks == nil) {
			t.Errorf("%s: the step is whole: %v", name, whole)
		}
		for _, n := range layers.seen {
			if n != 1 {
				t.Errorf("%s: %d steps in a layer", name, n)
			}
		}
		if len(layers.seen) == 0 || p.Steps() != 0 {
			t.Errorf("%s: %d layers, %d steps are left", name, len(layers.seen), p.Steps())
		}
		s.Close()
	}
}

// isWhole reports whether a step neither failed nor panicked.
func isWhole(step func() error) (whole bool) {
	defer func() {
		if recover() != nil {
			whole = false
		}
	}()
	return step() == nil
}
