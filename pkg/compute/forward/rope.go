package forward

import (
	"cmp"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// rope is a rotary embedding. A nil one turns nothing.
type rope struct {
	dim   int     // of a head, from its first element on
	pairs bool    // elements 2i and 2i+1 turn together, rather than i and i+dim/2
	short *angles // of sequences as long as the model was first trained for
	long  *angles // of longer ones; most often the same
}

func newRope(s model.RopeSpec, positions int) (*rope, error) {
	if s.Kind == model.NoRope {
		return nil, nil
	}
	freqs, err := frequencies(&s)
	if err != nil {
		return nil, err
	}
	if s.Cast {
		cpu.RoundBF16(freqs)
	}
	r := &rope{dim: s.Dim, pairs: s.Kind == model.Interleaved}
	r.short = newAngles(freqs, cmp.Or(s.Scaling.Attention, 1), positions)
	r.long = r.short
	if s.Scaling.Kind == model.LongRope {
		r.long = newAngles(divided(plain(&s), s.Scaling.LongFactors), cmp.Or(s.Scaling.LongAttention, 1), positions)
	}
	return r, nil
}

// frequencies returns the angles of one position, (dim/2), with the scaling's stretch.
func frequencies(s *model.RopeSpec) ([]float32, error) {
	switch s.Scaling.Kind {
	case model.NoScaling:
		return plain(s), nil
	case model.Yarn:
		return yarn(s), nil
	case model.Llama3:
		return llama3(s), nil
	case model.LongRope:
		return divided(plain(s), s.Scaling.ShortFactors), nil
	}
	return nil, fmt.Errorf("rope scaling of kind %d is not computed", s.Scaling.Kind)
}

// plain returns the frequencies without any stretch, rounded to float32 as transformers
// has them.
//
// Source: Su et al., "RoFormer" (arXiv:2104.09864), section 3.2.2.
func plain(s *model.RopeSpec) []float32 {
	inv := make([]float32, s.Dim/2)
	for i := range inv {
		inv[i] = float32(1 / math.Pow(s.Theta, float64(2*i)/float64(s.Dim)))
	}
	return inv
}

func divided(inv []float32, by []float64) []float32 {
	for i := range inv {
		inv[i] /= float32(by[i])
	}
	return inv
}

// llama3 leaves wavelengths that fit the original context often as they are, divides
// the frequencies of those that fit it seldom, and goes over smoothly in between.
//
// Source: transformers, modeling_rope_utils.py.
func llama3(s *model.RopeSpec) []float32 {
	k, inv := &s.Scaling, plain(s)
	for i, f := range inv {
		turns := float64(k.Original) * float64(f) / (2 * math.Pi) // within the original context
		switch {
		case turns < k.LowFactor:
			inv[i] = f / float32(k.Factor)
		case turns <= k.HighFactor && k.HighFactor > k.LowFactor:
			smooth := (turns - k.LowFactor) / (k.HighFactor - k.LowFactor)
			inv[i] = float32((1-smooth)*float64(f)/k.Factor + smooth*float64(f))
		}
	}
	return inv
}

// turn rotates a row's heads (count, C).
func (r *rope) turn(heads []float32, count, c int, row *Row) {
	if r == nil {
		return
	}
	cos, sin := r.at(row)
	for h := range count {
		if head := heads[h*c:][:r.dim]; r.pairs {
			cpu.RoPEPairs(head, cos, sin)
		} else {
			cpu.RoPE(head, cos, sin)
		}
	}
}

func (r *rope) at(row *Row) (cos, sin []float32) {
	if row.Long {
		return r.long.at(row.Position)
	}
	return r.short.at(row.Position)
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
