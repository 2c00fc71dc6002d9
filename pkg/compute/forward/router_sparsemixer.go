package forward

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// sparseMixer chooses one expert after the other: the best that is left, with its
// share in a softmax over those that are nearly as good. The distance to the best
// is relative to the larger of its logit and the other's magnitude; those farther
// than threshold do not count.
//
// Source: Liu et al., "GRIN: GRadient-INformed MoE" (arXiv:2409.12136), section 2,
// as at inference in transformers, models/phimoe/modeling_phimoe.py.
type sparseMixer struct{ threshold float32 }

func (m *sparseMixer) choose(out *Routes, logits []float32, experts, from, to int) {
	near := make([]float32, experts)
	for i := from; i < to; i++ {
		row := logits[i*experts : (i+1)*experts]
		for slot := range out.K {
			at := i*out.K + slot
			cpu.TopK(out.Expert[at:at+1], out.Weight[at:at+1], row)
			best := out.Expert[at]
			m.nearTo(near, row, row[best])
			cpu.Softmax(near)
			out.Weight[at] = near[best]
			row[best] = float32(math.Inf(-1))
		}
	}
}

// nearTo fills near with the logits that are near to the best, and -Inf for others.
func (m *sparseMixer) nearTo(near, logits []float32, best float32) {
	for e, v := range logits {
		near[e] = v
		scale := max(float32(math.Abs(float64(v))), best)
		if (best-v)/scale > m.threshold {
			near[e] = float32(math.Inf(-1))
		}
	}
}
