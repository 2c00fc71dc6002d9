package model

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// rope reads a rotary embedding of a head's dim elements: the base from rope_theta
// or, as newer configs have it, from rope_parameters, and the scaling of either
// spelling. Where rope_parameters has an object for each type of layer, giveRopes
// gives the layers theirs.
func (c *config) rope(dim int, theta float64) RopeSpec {
	r := RopeSpec{Kind: HalfSplit, Dim: c.partial(dim, dim), Theta: c.floatOr("rope_theta", theta)}
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		var raw map[string]json.RawMessage
		if !c.get(key, &raw) {
			continue
		}
		if byType := layered(raw); byType != nil {
			c.readTypes(key, dim, r, byType)
			continue
		}
		c.settings(key, dim, raw, &r)
		if c.ropes != nil && r.Scaling.Kind != NoScaling {
			c.refuse(key, shorten(c.raw[key]), "is not supported beside rope_parameters for each type of layer")
		}
	}
	return r
}

// partial returns how many of a head's dim elements turn; or stands for an absent factor.
func (c *config) partial(dim, or int) int {
	var given json.RawMessage
	if !c.get("partial_rotary_factor", &given) {
		return or
	}
	factor := c.floatOr("partial_rotary_factor", 1)
	if factor > 1 {
		c.fail("partial_rotary_factor %v is more than 1", factor)
		return dim
	}
	return int(float64(dim) * factor)
}

// layered returns what settings hold for each type of layer; nil if they are not so.
func layered(raw map[string]json.RawMessage) map[string]map[string]json.RawMessage {
	byType := map[string]map[string]json.RawMessage{}
	for name, value := range raw {
		var one map[string]json.RawMessage
		if json.Unmarshal(value, &one) != nil || one == nil {
			return nil
		}
		byType[name] = one
	}
	if len(byType) == 0 {
		return nil
	}
	return byType
}

// readTypes keeps the settings of each type of layer.
func (c *config) readTypes(key string, dim int, base RopeSpec, byType map[string]map[string]json.RawMessage) {
	c.ropes = map[string]RopeSpec{}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		r := base
		c.settings(key+"."+name, dim, byType[name], &r)
		c.ropes[name] = r
	}
}

// giveRopes gives the layers with a rotary embedding the settings of their type,
// where there are such.
func (c *config) giveRopes(s *Spec) {
	for i := range s.Layer {
		m := &s.Layer[i].Mixer
		if len(c.ropes) == 0 || m.Rope.Kind == NoRope {
			continue
		}
		r, ok := c.ropes[m.layerType()]
		if !ok {
			c.fail("rope_parameters has nothing for layers of type %s", m.layerType())
			return
		}
		r.Kind = m.Rope.Kind
		m.Rope = r
	}
}

// settings reads one object of rope settings into r, of a head's dim elements. What
// it does not say stays.
func (c *config) settings(where string, dim int, raw map[string]json.RawMessage, r *RopeSpec) {
	rope := &config{file: c.file + ": " + where, raw: raw, used: map[string]bool{}}
	r.Theta = rope.floatOr("rope_theta", r.Theta)
	r.Dim = rope.partial(dim, r.Dim)
	positions := c.sizeOr("max_position_embeddings", 1, maxPositions)
	original := c.sizeOr("original_max_position_embeddings", positions, maxPositions)
	r.Scaling = rope.oneScaling(r.Scaling, rope.scaling(positions, original, r.Dim))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !rope.used[name] && !neutral(name, raw[name]) {
			rope.refuse(name, shorten(raw[name]), "is not supported")
		}
	}
	c.err, c.refused = cmp.Or(c.err, rope.err), cmp.Or(c.refused, rope.refused)
}

// oneScaling returns the scaling that is one, of an earlier object and of this. They may
// say the same, but not another kind each.
func (c *config) oneScaling(earlier, here RopeScaling) RopeScaling {
	switch {
	case here.Kind == NoScaling:
		return earlier
	case earlier.Kind != NoScaling && earlier.Kind != here.Kind:
		c.refuse("rope_type", c.ropeType(), "differs from that of rope_parameters")
	}
	return here
}

// ropeType returns the kind of scaling by its newer name or its older.
func (c *config) ropeType() string {
	return c.stringOr("rope_type", c.stringOr("type", "default"))
}

// scaling reads how frequencies are stretched; positions is the model's limit, and
// original what it was before if the settings do not say so.
func (c *config) scaling(positions, original, dim int) RopeScaling {
	switch kind := c.ropeType(); kind {
	case "default":
	case "yarn":
		return c.yarn(original)
	case "llama3":
		return c.llama3(original)
	case "longrope", "su":
		return c.longRope(positions, original, dim)
	default:
		c.refuse("rope_type", kind, "is not supported")
	}
	return RopeScaling{}
}

func (c *config) llama3(original int) RopeScaling {
	s := RopeScaling{
		Kind:       Llama3,
		Factor:     c.floatOr("factor", 0),
		Original:   c.sizeOr("original_max_position_embeddings", original, maxPositions),
		LowFactor:  c.floatOr("low_freq_factor", 0),
		HighFactor: c.floatOr("high_freq_factor", 0),
	}
	if s.HighFactor < s.LowFactor {
		c.fail("high_freq_factor %v is below low_freq_factor %v", s.HighFactor, s.LowFactor)
	}
	return s
}

// longRope reads a divisor for each frequency, and what scales cosines and sines:
// for short sequences and for those longer than original.
//
// Source: Ding et al., "LongRoPE" (arXiv:2402.13753); transformers,
// modeling_rope_utils.py, and models/phimoe/modeling_phimoe.py for the mscales.
func (c *config) longRope(positions, original, dim int) RopeScaling {
	s := RopeScaling{Kind: LongRope, Original: c.sizeOr("original_max_position_embeddings", original, maxPositions)}
	factor := c.floatOr("factor", float64(positions)/float64(s.Original))
	s.Attention = 1
	if factor > 1 {
		s.Attention = math.Sqrt(1 + math.Log(factor)/math.Log(float64(s.Original)))
	}
	s.Attention = c.floatOr("attention_factor", s.Attention)
	s.LongAttention = c.floatOr("long_mscale", s.Attention)
	s.Attention = c.floatOr("short_mscale", s.Attention)
	s.ShortFactors, s.LongFactors = c.divisors("short_factor", dim/2), c.divisors("long_factor", dim/2)
	return s
}

// divisors reads n positive finite numbers.
func (c *config) divisors(key string, n int) []float64 {
	var list []float64
	c.get(key, &list)
	if len(list) != n {
		c.fail("%s has %d entries, but there are %d frequencies", key, len(list), n)
	}
	for _, x := range list {
		if !(x > 0) || math.IsInf(x, 0) {
			c.fail("%s holds %v, which is not a positive number", key, x)
		}
	}
	return list
}

// yarn reads what stretches frequencies, cosines and sines, and scores.
//
// Source: transformers, modeling_rope_utils.py; the scores' part is of
// models/deepseek_v3/modeling_deepseek_v3.py.
func (c *config) yarn(original int) RopeScaling {
	s := RopeScaling{
		Kind:     Yarn,
		Factor:   c.floatOr("factor", 0),
		Original: c.sizeOr("original_max_position_embeddings", original, maxPositions),
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
