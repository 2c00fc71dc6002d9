package model

import (
	"maps"
	"math"
)

// deepseekV2: multi-head latent attention with rotary embedding of pairs, dense
// layers first, shared experts without a gate, and softmax scores, of the best
// groups where topk_method says so.
//
// Source: transformers, models/deepseek_v2/{configuration,modeling}_deepseek_v2.py;
// the published modeling_deepseek.py for moe_layer_freq.
var deepseekV2 = &family{
	modelType:     "deepseek_v2",
	architectures: []string{"DeepseekV2ForCausalLM"},
	read: func(c *config, s *Spec) {
		layer := deepseekLayer(c, s)
		layer.Mixer = c.latentAttention()
		layer.Router = deepseekV2Router(c)
		layer.Shared.Width = deepseekShared(c, layer.Expert.Width, 2)
		s.fill(layer)
		deepseekDense(c, s, 0)
	},
	tensors: deepseekTensors,
}

// deepseekTensors are the names in all of DeepSeek's checkpoints.
var deepseekTensors = map[Role]TensorRef{
	QDown:      {Name: "model.layers.{l}.self_attn.q_a_proj.weight"},
	QDownNorm:  {Name: "model.layers.{l}.self_attn.q_a_layernorm.weight"},
	QUp:        {Name: "model.layers.{l}.self_attn.q_b_proj.weight"},
	KVDown:     {Name: "model.layers.{l}.self_attn.kv_a_proj_with_mqa.weight"},
	KVDownNorm: {Name: "model.layers.{l}.self_attn.kv_a_layernorm.weight"},
	KVUp:       {Name: "model.layers.{l}.self_attn.kv_b_proj.weight"},
	SharedGate: {Name: "model.layers.{l}.mlp.shared_experts.gate_proj.weight"},
	SharedUp:   {Name: "model.layers.{l}.mlp.shared_experts.up_proj.weight"},
	SharedDown: {Name: "model.layers.{l}.mlp.shared_experts.down_proj.weight"},
}

// deepseekLayer returns what the families' layers with experts have in common.
func deepseekLayer(c *config, s *Spec) LayerSpec {
	c.ignore("seq_aux", "ep_size", "pretraining_tp", "head_dim", "qk_head_dim")
	s.Experts = c.size("n_routed_experts", maxExperts)
	return LayerSpec{
		Norm:   c.rmsNorm(1e-6),
		MoE:    true,
		Expert: FFNSpec{Width: c.size("moe_intermediate_size", maxWidth)},
	}
}

// latentAttention reads the sizes of multi-head latent attention. The norms of its
// latents take no eps from the config.
func (c *config) latentAttention() MixerSpec {
	m := MixerSpec{Kind: MLA, Heads: max(1, c.size("num_attention_heads", maxHeads)), ValueDim: c.sizeOr("v_head_dim", 128, maxHeadDim)}
	m.KVHeads = m.Heads
	if n := c.sizeOr("num_key_value_heads", m.Heads, maxHeads); n != m.Heads {
		c.fail("num_key_value_heads %d is not num_attention_heads %d, but every head has its own part of the latent", n, m.Heads)
	}
	m.Latent = LatentSpec{
		QRank:   c.countOr("q_lora_rank", 1536, maxHidden),
		KVRank:  c.sizeOr("kv_lora_rank", 512, maxHidden),
		NopeDim: c.sizeOr("qk_nope_head_dim", 128, maxHeadDim),
		RopeDim: c.sizeOr("qk_rope_head_dim", 64, maxHeadDim),
		Eps:     1e-6,
	}
	m.HeadDim = m.Latent.NopeDim + m.Latent.RopeDim
	m.Rope = c.rope(m.Latent.RopeDim, 1e4)
	if c.boolOr("rope_interleave", true) {
		m.Rope.Kind = Interleaved
	}
	scale := 1 / math.Sqrt(float64(m.HeadDim))
	if m.Rope.Scaling.Scores > 0 {
		scale *= m.Rope.Scaling.Scores
	}
	m.Scale = float32(scale)
	return m
}

// deepseekShared returns the width of n_shared_experts experts, which are one network.
func deepseekShared(c *config, width, or int) int {
	n := c.countOr("n_shared_experts", or, maxExperts)
	if n*width > maxWidth {
		c.fail("n_shared_experts = %d of moe_intermediate_size %d are wider than %d", n, width, maxWidth)
		return 0
	}
	return n * width
}

func deepseekV2Router(c *config) RouterSpec {
	if score := c.stringOr("scoring_func", "softmax"); score != "softmax" {
		c.refuse("scoring_func", score, "is not supported: only softmax is")
	}
	if c.boolOr("norm_topk_prob", false) {
		c.refuse("norm_topk_prob", "true", "is not supported: transformers and the published code compute different weights then")
	}
	r := RouterSpec{Kind: SoftmaxTopK, Scale: float32(c.floatOr("routed_scaling_factor", 1))}
	groups, top := c.countOr("n_group", 1, maxExperts), c.countOr("topk_group", 1, maxExperts)
	switch method := c.stringOr("topk_method", "greedy"); method {
	case "greedy":
	case "group_limited_greedy":
		r.Groups, r.TopGroups = groups, top
	default:
		c.refuse("topk_method", method, "is not supported: only greedy and group_limited_greedy are")
	}
	return r
}

// deepseekDense makes layers dense: the first ones, and those between multiples of
// moe_layer_freq.
func deepseekDense(c *config, s *Spec, first int) {
	first = c.countOr("first_k_dense_replace", first, maxLayers)
	every := c.sizeOr("moe_layer_freq", 1, maxLayers)
	c.ignore("intermediate_size") // unless a layer is dense
	for i := range s.Layer {
		if i < first || i%every != 0 {
			s.Layer[i].makeDense(FFNSpec{Width: c.size("intermediate_size", maxWidth)})
		}
	}
}

func withTensors(base, more map[Role]TensorRef) map[Role]TensorRef {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}
