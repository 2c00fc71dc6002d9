package model

import (
	"encoding/json"
	"math"
)

// Parts of layers that many families spell alike.

func (s *Spec) fill(layer LayerSpec) {
	for i := range s.Layer {
		s.Layer[i] = layer
	}
	s.FinalNorm = layer.Norm
}

func (l *LayerSpec) makeDense(f FFNSpec) {
	l.MoE, l.Dense = false, f
	l.Router, l.Expert, l.Shared = RouterSpec{}, FFNSpec{}, SharedSpec{}
}

func (c *config) rmsNorm(eps float64) NormSpec {
	return NormSpec{Kind: RMSNorm, Eps: float32(c.floatOr("rms_norm_eps", eps))}
}

func (c *config) layerNorm(key string, eps float64) NormSpec {
	return NormSpec{Kind: LayerNorm, Eps: float32(c.floatOr(key, eps))}
}

// gelu reads which form of GELU hidden_act names.
func (c *config) gelu(or string) Activation {
	switch act := c.stringOr("hidden_act", or); act {
	case "gelu", "gelu_python":
		return GELU
	case "gelu_new", "gelu_pytorch_tanh":
		return GELUTanh
	default:
		c.refuse(c.name("hidden_act"), act, "is not supported: only gelu, gelu_python, gelu_new and gelu_pytorch_tanh are")
		return GELU
	}
}

func (c *config) groupedQuery(s *Spec) MixerSpec {
	m := MixerSpec{Kind: GroupedQuery, Heads: max(1, c.size("num_attention_heads", maxHeads))}
	m.KVHeads = c.sizeOr("num_key_value_heads", m.Heads, maxHeads)
	m.HeadDim = c.sizeOr("head_dim", 0, maxHeadDim)
	if m.HeadDim == 0 {
		m.HeadDim = s.Hidden / m.Heads
		if s.Hidden%m.Heads != 0 {
			c.fail("hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim", s.Hidden, m.Heads)
		}
	}
	m.ValueDim = m.HeadDim
	m.Scale = float32(1 / math.Sqrt(float64(m.HeadDim)))
	return m
}

// experts reads how many there are by either of its usual names.
func (c *config) experts() int {
	n, other := c.sizeOr("num_experts", 0, maxExperts), c.sizeOr("num_local_experts", 0, maxExperts)
	switch {
	case n == 0 && other == 0:
		c.fail("num_experts is missing, but needed")
	case n > 0 && other > 0 && n != other:
		c.fail("num_experts %d and num_local_experts %d differ", n, other)
	}
	return max(n, other)
}

// window reads sliding_window; one that spans all positions is none.
func (c *config) window(s *Spec) int {
	window := c.sizeOr("sliding_window", 0, maxPositions)
	if window >= s.MaxPositions {
		return 0
	}
	return window
}

// limit reads a positive number; 0 stands for an absent one.
func (c *config) limit(key string) float32 {
	var present json.RawMessage
	if !c.get(key, &present) {
		return 0
	}
	return float32(c.floatOr(key, 0))
}
