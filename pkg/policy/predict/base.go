package predict

import (
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// base is what all predictors have.
type base struct {
	method   string
	distance int
	gates    Gates
	scratch  *sync.Pool // of *scratch
}

// scratch is what counting a batch's choices needs.
type scratch struct {
	scores []float32 // (R, E)
	ids    []int32   // (k)
	vals   []float32 // (k)
}

func newBase(method string, g Gates, distance int) base {
	return base{method, distance, g, &sync.Pool{New: func() any { return &scratch{} }}}
}

// Method is the predictor's name.
func (b *base) Method() string { return b.method }

// Distance is how many layers ahead it predicts.
func (b *base) Distance() int { return b.distance }

// Target is the layer that is predicted from inputs of layer.
func (b *base) Target(layer int) (int, bool) { return b.gates.target(layer, b.distance) }

// checkTargets refuses weights for layers that nothing is predicted for.
func (b *base) checkTargets(targets []int) error {
	for _, t := range targets {
		if _, ok := b.Target(t - b.distance); !ok {
			return fmt.Errorf("there are weights to predict layer %d from %d layers before it; one of the two has no gate", t, b.distance)
		}
	}
	return nil
}

// count fills load with how often each expert is among a row's k highest.
func (b *base) count(r Ranker, layer int, x []float32, rows int, load []float64) bool {
	s, ok := b.scratch.Get().(*scratch)
	if !ok {
		s = &scratch{}
	}
	defer b.scratch.Put(s)
	g := b.gates
	s.resize(rows*g.Experts, g.TopK)
	if !r.Scores(layer, x, rows, s.scores) {
		return false
	}
	clear(load[:g.Experts])
	for i := range rows {
		cpu.TopK(s.ids, s.vals, s.scores[i*g.Experts:(i+1)*g.Experts])
		for _, e := range s.ids {
			load[e]++
		}
	}
	return true
}

func (s *scratch) resize(scores, k int) {
	s.scores = reuse.Slice(s.scores, scores)
	s.ids, s.vals = reuse.Slice(s.ids, k), reuse.Slice(s.vals, k)
}
