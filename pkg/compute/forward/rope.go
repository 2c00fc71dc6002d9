package forward

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// rope is the tables of a rotary embedding. A nil one turns nothing.
type rope struct {
	dim      int       // of a head, from its first element on
	cos, sin []float32 // (positions, dim/2)
}

// newRope fills the tables. Frequencies and angles are rounded to float32 as
// transformers computes them.
func newRope(s model.RopeSpec, positions int) (*rope, error) {
	if s.Kind == model.NoRope {
		return nil, nil
	}
	if s.Kind != model.HalfSplit {
		return nil, fmt.Errorf("rotary embedding of kind %d is not computed", s.Kind)
	}
	freqs, err := frequencies(&s)
	if err != nil {
		return nil, err
	}
	half := s.Dim / 2
	r := &rope{dim: s.Dim, cos: make([]float32, positions*half), sin: make([]float32, positions*half)}
	for i, inv := range freqs {
		for pos := range positions {
			angle := float64(float32(pos) * inv)
			r.cos[pos*half+i], r.sin[pos*half+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	return r, nil
}

// frequencies are the angles of one position, (dim/2), with the scaling's stretch.
func frequencies(s *model.RopeSpec) ([]float32, error) {
	if s.Scaling.Kind != model.NoScaling {
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
		cpu.RoPE(heads[h*c:][:r.dim], cos, sin)
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
