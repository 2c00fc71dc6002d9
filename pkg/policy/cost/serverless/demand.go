package serverless

import (
	"fmt"
	"math"
)

// Demand is what a request asks of a model, as it is expected or as it came.
type Demand struct {
	Prompt int // tokens: N^in
	Output int // tokens after the first: N^out
	Layers []Rows
}

// Rows are those of a layer's experts.
type Rows struct {
	Prefill []float64 // of each expert
	Decode  []float64 // of each expert, over all output tokens
	// Tokens are each output token's experts; nil where they are not known. Then a token's
	// choices count as drawn one by one in proportion to Decode.
	Tokens [][]int
}

// Expected is the demand of an activation (layers, experts), of which each layer sums to 1: a
// token has top-k rows in prefill and in decode.
func (m Model) Expected(activation []float32, prompt, output int) Demand {
	d := Demand{Prompt: prompt, Output: output, Layers: make([]Rows, m.Layers)}
	for l := range d.Layers {
		r := Rows{Prefill: make([]float64, m.Experts), Decode: make([]float64, m.Experts)}
		for e, share := range activation[l*m.Experts : (l+1)*m.Experts] {
			each := min(1, float64(m.TopK)*float64(share)) // rows of a token: one at most
			r.Prefill[e], r.Decode[e] = float64(prompt)*each, float64(output)*each
		}
		d.Layers[l] = r
	}
	return d
}

// slack is for sums that rounding has made too large.
const slack = 1 + 1e-3

// Check says what does not fit a model.
func (d *Demand) Check(m Model) error {
	if d.Prompt < 1 || d.Output < 0 || len(d.Layers) != m.Layers {
		return fmt.Errorf("a request of %d tokens, %d more and %d layers; there must be 1 token or more, and %d layers", d.Prompt, d.Output, len(d.Layers), m.Layers)
	}
	for l, r := range d.Layers {
		if len(r.Prefill) != m.Experts || len(r.Decode) != m.Experts || r.Tokens != nil && len(r.Tokens) != d.Output {
			return fmt.Errorf("layer %d has rows of %d and %d experts and choices of %d tokens; there are %d experts and %d tokens", l, len(r.Prefill), len(r.Decode), len(r.Tokens), m.Experts, d.Output)
		}
		for e := range m.Experts {
			if a, b := r.Prefill[e], r.Decode[e]; !(a >= 0 && a <= float64(d.Prompt)*slack && b >= 0 && b <= float64(d.Output)*slack) {
				return fmt.Errorf("expert %d of layer %d has %v and %v rows; a token gives an expert one, so that they are at most %d and %d", e, l, a, b, d.Prompt, d.Output)
			}
		}
	}
	return nil
}

// Away is how many output tokens have r of their experts among remote ones, for r from 0 to
// top-k.
func (r *Rows) Away(remote []bool, topK, output int) []float64 {
	away := make([]float64, topK+1)
	if r.Tokens != nil {
		for _, chosen := range r.Tokens {
			away[count(chosen, remote)]++
		}
		return away
	}
	some, all := 0.0, 0.0
	for e, n := range r.Decode {
		all += n
		if remote[e] {
			some += n
		}
	}
	p := 0.0
	if all > 0 {
		p = min(1, some/all)
	}
	for k := range away {
		away[k] = float64(output) * binomial(topK, k) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(topK-k))
	}
	return away
}

func count(chosen []int, remote []bool) (n int) {
	for _, e := range chosen {
		if remote[e] {
			n++
		}
	}
	return n
}

func binomial(n, k int) float64 {
	c := 1.0
	for i := range k {
		c *= float64(n-i) / float64(i+1)
	}
	return c
}
