package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// topKSigmoid is the best k logits and the sigmoid of each.
//
// Source: transformers, models/llama4/modeling_llama4.py.
type topKSigmoid struct{}

func (topKSigmoid) choose(out *Routes, logits []float32, experts, from, to int) {
	for i := from; i < to; i++ {
		at := i * out.K
		weights := out.Weight[at : at+out.K]
		cpu.TopK(out.Expert[at:at+out.K], weights, logits[i*experts:(i+1)*experts])
		for j, logit := range weights {
			weights[j] = cpu.Sigmoid(logit)
		}
	}
}
