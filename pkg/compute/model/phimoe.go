package model

import "fmt"

// phiMoE is Phi-3.5-MoE: layer norms with biases, biases of the attention and the
// head, experts chosen one after the other, and a rotary embedding with other
// factors once a sequence is longer than the model was first trained for.
//
// Source: transformers, models/phimoe/{configuration,modeling}_phimoe.py.
var phiMoE = &family{
	modelType:     "phimoe",
	architectures: []string{"PhiMoEForCausalLM", "PhimoeForCausalLM"},
	gguf:          "phimoe",
	read: func(c *config, s *Spec) {
		c.ignore("original_max_position_embeddings") // unless rope_scaling is there
		layer := LayerSpec{
			Norm:   NormSpec{LayerNorm, float32(c.floatOr("rms_norm_eps", c.floatOr("layer_norm_eps", 1e-5)))},
			Mixer:  c.groupedQuery(s),
			MoE:    true,
			Router: RouterSpec{Kind: SparseMixer, Threshold: 2 * float32(c.floatOr("router_jitter_noise", 0.01))},
			Expert: FFNSpec{Width: c.size("intermediate_size", maxWidth)},
		}
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 1e6)
		layer.Mixer.Window = c.window(s)
		layer.Mixer.QKVBias = c.boolOr("attention_bias", false)
		layer.Mixer.OBias = layer.Mixer.QKVBias
		s.Experts = c.experts()
		s.Head.Bias = c.boolOr("lm_head_bias", false)
		s.fill(layer)
		if s.TopK != 2 {
			c.refuse("num_experts_per_tok", fmt.Sprint(s.TopK), "is not supported: this routing chooses 2")
		}
	},
	tensors: mixtral.tensors,
}
