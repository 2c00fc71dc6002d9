package model

import "slices"

// qwen2MoE: biased q, k and v, a shared expert behind a sigmoid gate, dense
// layers mixed in by decoder_sparse_step and mlp_only_layers.
//
// Source: transformers, models/qwen2_moe/{configuration,modeling}_qwen2_moe.py.
var qwen2MoE = &family{
	modelType:    "qwen2_moe",
	architecture: "Qwen2MoeForCausalLM",
	read: func(c *config, s *Spec) {
		s.NormEps = float32(c.floatOr("rms_norm_eps", 1e-6))
		s.RopeTheta = c.ropeTheta(1e4)
		s.QKVBias = c.boolOr("qkv_bias", true)
		s.Experts = c.size("num_experts", maxExperts)
		s.ExpertWidth = c.size("moe_intermediate_size", maxWidth)
		s.SharedWidth = c.size("shared_expert_intermediate_size", maxWidth)
		s.NormTopK = c.boolOr("norm_topk_prob", false)
		refuseQwenWindow(c, s)
		qwenLayers(c, s)
	},
	names: map[Role]string{
		Router:       "model.layers.{l}.mlp.gate.weight",
		SharedGate:   "model.layers.{l}.mlp.shared_expert.gate_proj.weight",
		SharedUp:     "model.layers.{l}.mlp.shared_expert.up_proj.weight",
		SharedDown:   "model.layers.{l}.mlp.shared_expert.down_proj.weight",
		SharedRouter: "model.layers.{l}.mlp.shared_expert_gate.weight",
		ExpertGate:   "model.layers.{l}.mlp.experts.{e}.gate_proj.weight",
		ExpertUp:     "model.layers.{l}.mlp.experts.{e}.up_proj.weight",
		ExpertDown:   "model.layers.{l}.mlp.experts.{e}.down_proj.weight",
	},
}

// qwenLayers decides which layers are dense: layer i has experts if i+1 is a
// multiple of decoder_sparse_step and mlp_only_layers does not name it.
func qwenLayers(c *config, s *Spec) {
	step := c.sizeOr("decoder_sparse_step", 1, maxLayers)
	dense := c.ints("mlp_only_layers")
	c.ignore("intermediate_size") // unless a layer is dense
	for i := range s.Layer {
		if step > 0 && (i+1)%step == 0 && !slices.Contains(dense, i) {
			s.Layer[i] = LayerSpec{MoE: true}
			continue
		}
		s.Layer[i] = LayerSpec{DenseWidth: c.size("intermediate_size", maxWidth)}
	}
}

// refuseQwenWindow refuses windows that would be felt: transformers' releases
// disagree on which layers max_window_layers gives one (the first, the last, or
// every other), and no published checkpoint uses them.
func refuseQwenWindow(c *config, s *Spec) {
	c.ignore("max_window_layers")
	window := c.sizeOr("sliding_window", 0, maxPositions)
	if c.boolOr("use_sliding_window", false) && window > 0 && window < s.MaxPositions {
		c.refuse("use_sliding_window", "true", "is not supported for qwen2_moe, because releases disagree on which layers it affects; set it to false if the model was trained without")
	}
}
