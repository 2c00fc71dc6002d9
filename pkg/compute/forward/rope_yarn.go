package forward

import (
	"math"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// yarn returns the frequencies (dim/2) of a rotary embedding that is stretched for
// long contexts: those that turn often within the original context stay, those
// that turn seldom are divided by the factor, and a ramp leads from one to the
// other. Every step is rounded to float32 as transformers computes it.
//
// Source: Peng et al., "YaRN: Efficient Context Window Extension of Large
// Language Models" (arXiv:2309.00071), section 3.2; transformers,
// modeling_rope_utils.py.
func yarn(s *model.RopeSpec) []float32 {
	low, high := yarnRange(s)
	inv := make([]float32, s.Dim/2)
	for i := range inv {
		period := float32(math.Pow(s.Theta, float64(2*i)/float64(s.Dim)))
		stretched, own := 1/(float32(s.Scaling.Factor)*period), 1/period
		keep := 1 - min(max((float32(i)-low)/(high-low), 0), 1)
		inv[i] = float32(stretched*(1-keep)) + float32(own*keep)
	}
	return inv
}

// yarnRange returns where the ramp begins and ends, in frequencies.
func yarnRange(s *model.RopeSpec) (low, high float32) {
	at := func(turns float64) float64 { // the frequency that turns so often
		return float64(s.Dim) * math.Log(float64(s.Scaling.Original)/(turns*2*math.Pi)) / (2 * math.Log(s.Theta))
	}
	from, to := at(s.Scaling.BetaFast), at(s.Scaling.BetaSlow)
	if s.Scaling.Truncate {
		from, to = math.Floor(from), math.Ceil(to)
	}
	from, to = max(from, 0), min(to, float64(s.Dim-1))
	if from == to {
		to += 0.001 // a step rather than a division by zero
	}
	return float32(from), float32(to)
}
