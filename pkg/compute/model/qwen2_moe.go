package model

import "slices"

// qwen2MoE: biased q, k and v, a shared expert behind a sigmoid gate, dense
// layers mixed in by decoder_sparse_step and mlp_only_layers.
//
// Source: transformers, models/qwen2_moe/{configuration,modeling}_qwen2_moe.py.
var qwen2MoE = &family{
	modelType:     "qwen2_moe",
	architectures: []string{"Qwen2MoeForCausalLM"},
	gguf:          "qwen2moe",
	read: func(c *config, s *Spec) {
		layer := qwenLayer(c, s)
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 1e4)
		layer.Mixer.QKVBias = c.boolOr("qkv_bias", true)
		layer.Shared = SharedSpec{FFNSpec{Width: c.size("shared_expert_intermediate_size", maxWidth)}, true}
		s.fill(layer)
		qwenDense(c, s)
	},
	tensors: map[Role]TensorRef{
		SharedGate:   {Name: "model.layers.{l}.mlp.shared_expert.gate_proj.weight"},
		SharedUp:     {Name: "model.layers.{l}.mlp.shared_expert.up_proj.weight"},
		SharedDown:   {Name: "model.layers.{l}.mlp.shared_expert.down_proj.weight"},
		SharedRouter: {Name: "model.layers.{l}.mlp.shared_expert_gate.weight"},
	},
}

// qwenLayer returns what Qwen's MoE layers have in common.
func qwenLayer(c *config, s *Spec) LayerSpec {
	refuseQwenWindow(c, s)
	s.Experts = c.experts()
	return LayerSpec{
		Norm:   c.rmsNorm(1e-6),
		Mixer:  c.groupedQuery(s),
		MoE:    true,
		Router: RouterSpec{Kind: SoftmaxTopK, Normalise: c.boolOr("norm_topk_prob", false)},
		Expert: FFNSpec{Width: c.size("moe_intermediate_size", maxWidth)},
	}
}

// qwenDense makes layers dense: layer i keeps its experts if i+1 is a multiple of
// decoder_sparse_step and mlp_only_layers does not name it.
func qwenDense(c *config, s *Spec) {
	step := c.sizeOr("decoder_sparse_step", 1, maxLayers)
	dense := c.ints("mlp_only_layers")
	c.ignore("intermediate_size") // unless a layer is dense
	for i := range s.Layer {
		if step > 0 && (i+1)%step == 0 && !slices.Contains(dense, i) {
			continue
		}
		s.Layer[i].makeDense(FFNSpec{Width: c.size("intermediate_size", maxWidth)})
	}
}

// refuseQwenWindow refuses windows that would be felt: transformers' releases
// disagree on which layers max_window_layers gives one (the first, the last, or
// every other), and no published checkpoint uses them.
func refuseQwenWindow(c *config, s *Spec) {
	c.ignore("max_window_layers")
	window := c.countOr("sliding_window", 0, maxPositions)
	if c.boolOr("use_sliding_window", false) && window > 0 && window < s.MaxPositions {
		c.refuse("use_sliding_window", "true", "is not supported, because releases disagree on which layers it affects; set it to false if the model was trained without")
	}
}
