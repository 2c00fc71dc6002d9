package sps

import (
	"fmt"
	"math"
)

// Vector is what a prompt is compared by: the sum of its tokens' embeddings, each of length 1,
// brought to length 1. Embeddings are (tokens, width).
func Vector(embeddings []float32, width int) ([]float32, error) {
	if width < 1 || len(embeddings) == 0 || len(embeddings)%width != 0 {
		return nil, fmt.Errorf("%w: it has %d values of embeddings of width %d; it must have one token or more", ErrPrompt, len(embeddings), width)
	}
	sum := make([]float64, width)
	for at := 0; at < len(embeddings); at += width {
		token := embeddings[at : at+width]
		norm := length(token)
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return nil, fmt.Errorf("%w: the embedding of token %d has a value that is no finite number", ErrPrompt, at/width)
		}
		for i, v := range token {
			if norm > 0 { // a token without a direction says nothing
				sum[i] += float64(v) / norm
			}
		}
	}
	out := make([]float32, width)
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	if norm == 0 {
		return nil, fmt.Errorf("%w: the embeddings of its tokens cancel each other", ErrPrompt)
	}
	for i, v := range sum {
		out[i] = float32(v / math.Sqrt(norm))
	}
	return out, nil
}

// product is the inner product, in four sums that do not wait for each other: predictions need no
// order of sums.
func product(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Divergence is the Jensen–Shannon divergence of two activations, in bits, in the mean of
// layers: 0 for equal ones, and 1 where no layer has an expert in common.
func Divergence(a, b []float32, experts int) (mean float64) {
	layers := float64(len(a) / experts)
	for i, x := range a {
		p, q := float64(x), float64(b[i])
		mean += (bits(p, (p+q)/2) + bits(q, (p+q)/2)) / 2 / layers
	}
	return max(0, mean)
}

func bits(p, of float64) float64 {
	if p <= 0 {
		return 0
	}
	return p * math.Log2(p/of)
}
