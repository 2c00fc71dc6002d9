package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// softmaxTopK is softmax over all experts and the best k of them.
type softmaxTopK struct {
	normalise bool
	scale     float32 // 0 is 1
}

func (s *softmaxTopK) choose(out *Routes, logits []float32, experts, from, to int) {
	for i := from; i < to; i++ {
		probs := logits[i*experts : (i+1)*experts]
		cpu.Softmax(probs)
		at := i * out.K
		weights := out.Weight[at : at+out.K]
		cpu.TopK(out.Expert[at:at+out.K], weights, probs)
		finish(weights, s.normalise, s.scale)
	}
}

// leastSum keeps the weights of a row finite whose scores all vanish, as DeepSeek-V3
// does; to any other sum it adds nothing.
const leastSum = 1e-20

// topKSoftmax is the best k experts and softmax over these.
//
// Source: transformers, models/gpt_oss/modeling_gpt_oss.py.
type topKSoftmax struct{}

func (topKSoftmax) choose(out *Routes, logits []float32, experts, from, to int) {
	for i := from; i < to; i++ {
		weights := out.Weight[i*out.K : (i+1)*out.K]
		cpu.TopK(out.Expert[i*out.K:(i+1)*out.K], weights, logits[i*experts:(i+1)*experts])
		cpu.Softmax(weights)
	}
}

// finish divides a row's weights by their sum and scales them, where wanted.
func finish(w []float32, normalise bool, scale float32) {
	if normalise {
		sum := float32(leastSum)
		for _, v := range w {
			sum += v
		}
		for i := range w {
			w[i] /= sum
		}
	}
	if scale == 0 {
		return
	}
	for i := range w {
		w[i] *= scale
	}
}
