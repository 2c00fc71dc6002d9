package model

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
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

// layerNorm reads a layer norm's eps.
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
// newer configs have it, from rope_parameters, and the scaling of either spelling.
func (c *config) rope(dim int, theta float64) RopeSpec {
	r := RopeSpec{Kind: HalfSplit, Dim: dim, Theta: c.floatOr("rope_theta", theta)}
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		var raw map[string]json.RawMessage
		if !c.get(key, &raw) {
			continue
		}
		rope := &config{file: c.file + ": " + key, raw: raw, used: map[string]bool{}}
		r.Theta = rope.floatOr("rope_theta", r.Theta)
		r.Scaling = rope.scaling(c.sizeOr("max_position_embeddings", 1, maxPositions))
		for _, name := range slices.Sorted(maps.Keys(raw)) {
			if !rope.used[name] && !neutral(name, raw[name]) {
				rope.refuse(name, shorten(raw[name]), "is not supported")
			}
		}
		if c.err == nil {
			c.err = rope.err
		}
	}
	return r
}

// scaling reads the object of rope_scaling; positions is the model's limit.
func (c *config) scaling(positions int) RopeScaling {
	switch kind := c.stringOr("rope_type", c.stringOr("type", "default")); kind {
	case "default":
	case "yarn":
		return c.yarn(positions)
	default:
		c.refuse("rope_type", kind, "is not supported")
	}
	return RopeScaling{}
}

// yarn reads what stretches frequencies, cosines and sines, and scores.
//
// Source: transformers, modeling_rope_utils.py; the scores' part is of
// models/deepseek_v3/modeling_deepseek_v3.py.
func (c *config) yarn(positions int) RopeScaling {
	s := RopeScaling{
		Kind:     Yarn,
		Factor:   c.floatOr("factor", 0),
		Original: c.sizeOr("original_max_position_embeddings", positions, maxPositions),
		BetaFast: c.floatOr("beta_fast", 32),
		BetaSlow: c.floatOr("beta_slow", 1),
		Truncate: c.boolOr("truncate", true),
	}
	grow := func(by float64) float64 { return 0.1*by*math.Log(max(s.Factor, 1)) + 1 }
	scale, all := c.zeroOrMore("mscale"), c.zeroOrMore("mscale_all_dim")
	s.Attention = grow(1)
	if scale > 0 && all > 0 {
		s.Attention = grow(scale) / grow(all)
	}
	s.Attention = c.floatOr("attention_factor", s.Attention)
	if all > 0 {
		s.Scores = grow(all) * grow(all)
	}
	return s
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
