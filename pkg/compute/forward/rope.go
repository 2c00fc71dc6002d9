package forward

import (
	"cmp"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// rope is the tables of a rotary embedding. A nil one turns nothing.
type rope struct {
	dim      int       // of a head, from its first element on
	pairs    bool      // elements 2i and 2i+1 turn together, rather than i and i+dim/2
	cos, sin []float32 // (positions, dim/2)
}

// newRope fills the tables. Frequencies and angles are rounded to float32 as
// transformers computes them.
func newRope(s model.RopeSpec, positions int) (*rope, error) {
	if s.Kind == model.NoRope {
		return nil, nil
	}
	freqs, err := frequencies(&s)
	if err != nil {
		return nil, err
	}
	half := s.Dim / 2
	scale := float32(cmp.Or(s.Scaling.Attention, 1))
	r := &rope{dim: s.Dim, pairs: s.Kind == model.Interleaved, cos: make([]float32, positions*half), sin: make([]float32, positions*half)}
	for i, inv := range freqs {
		for pos := range positions {
			angle := float64(float32(pos) * inv)
			r.cos[pos*half+i], r.sin[pos*half+i] = float32(math.Cos(angle))*scale, float32(math.Sin(angle))*scale
		}
	}
	return r, nil
}

// frequencies are the angles of one position, (dim/2), with the scaling's stretch.
func frequencies(s *model.RopeSpec) ([]float32, error) {
	switch s.Scaling.Kind {
	case model.NoScaling:
	case model.Yarn:
		return yarn(s), nil
	default:
		return nil, fmt.Errorf("rope scaling of kind %d is not computed", s.Scaling.Kind)
	}
	inv := make([]float32, s.Dim/2)
	for i := range inv {
		inv[i] = float32(1 / math.Pow(s.Theta, float64(2*i)/float64(s.Dim)))
	}
	return inv, nil
}

// turn rotates a row's heads (count, C) for a position.
func (r *rope) turn(heads []float32, count, c, position int) {
	if r == nil {
		return
	}
	half := r.dim / 2
	at := position * half
	cos, sin := r.cos[at:at+half], r.sin[at:at+half]
	for h := range count {
		if head := heads[h*c:][:r.dim]; r.pairs {
			cpu.RoPEPairs(head, cos, sin)
		} else {
			cpu.RoPE(head, cos, sin)
		}
	}
}

// ropes makes each rotary embedding once, however many layers have it.
type ropes struct {
	positions int
	specs     []model.RopeSpec
	made      []*rope
}

func (t *ropes) of(s model.RopeSpec) (*rope, error) {
	for i := range t.specs {
		if t.specs[i].Equal(&s) {
			return t.made[i], nil
		}
	}
	r, err := newRope(s, t.positions)
	t.specs, t.made = append(t.specs, s), append(t.made, r)
	return r, err
}
