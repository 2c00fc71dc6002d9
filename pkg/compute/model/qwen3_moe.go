package model

// qwen3MoE: norms of queries and keys head by head, no shared expert, dense
// layers mixed in as in qwen2_moe.
//
// Source: transformers, models/qwen3_moe/{configuration,modeling}_qwen3_moe.py.
var qwen3MoE = &family{
	modelType:     "qwen3_moe",
	architectures: []string{"Qwen3MoeForCausalLM"},
	gguf:          "qwen3moe",
	read: func(c *config, s *Spec) {
		layer := qwenLayer(c, s)
		layer.Mixer.QKNorm = QKNormHead
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 1e4)
		layer.Mixer.QKVBias = c.boolOr("attention_bias", false)
		layer.Mixer.OBias = layer.Mixer.QKVBias
		s.fill(layer)
		qwenDense(c, s)
	},
}
