package model

import (
	"encoding/json"
	"math"
)

// Parts of layers that many families spell alike.

// fill gives every layer the same parts.
func (s *Spec) fill(layer LayerSpec) {
	for i := range s.Layer {
		s.Layer[i] = layer
	}
	s.FinalNorm = layer.Norm
}

// makeDense replaces a layer's experts.
func (l *LayerSpec) makeDense(f FFNSpec) {
	l.MoE, l.Dense = false, f
	l.Router, l.Expert, l.Shared = RouterSpec{}, FFNSpec{}, SharedSpec{}
}

// rmsNorm reads rms_norm_eps.
func (c *config) rmsNorm(eps float64) NormSpec {
	return NormSpec{Kind: RMSNorm, Eps: float32(c.floatOr("rms_norm_eps", eps))}
}

// groupedQuery reads the sizes of heads.
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

// rope reads a rotary embedding of dim elements: the base from rope_theta or, as
// newer configs have it, from rope_parameters; every kind of scaling is refused.
func (c *config) rope(dim int, theta float64) RopeSpec {
	theta = c.floatOr("rope_theta", theta)
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		var raw map[string]json.RawMessage
		if !c.get(key, &raw) {
			continue
		}
		rope := &config{file: c.file, raw: raw, used: map[string]bool{}}
		kind := rope.stringOr("rope_type", rope.stringOr("type", "default"))
		theta = rope.floatOr("rope_theta", theta)
		for name, value := range rope.raw {
			if !rope.used[name] && !neutral(name, value) {
				rope.fail("%s is not supported", name)
			}
		}
		if kind != "default" || rope.err != nil {
			c.refuse(key, shorten(c.raw[key]), "is not supported: only rope_type \"default\" with rope_theta is")
		}
	}
	return RopeSpec{Kind: HalfSplit, Dim: dim, Theta: theta}
}
