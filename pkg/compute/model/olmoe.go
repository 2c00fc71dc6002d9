package model

// olmoe: norms over all queries and over all keys, which may be clipped.
//
// Source: transformers, models/olmoe/{configuration,modeling}_olmoe.py.
var olmoe = &family{
	modelType:     "olmoe",
	architectures: []string{"OlmoeForCausalLM"},
	gguf:          "olmoe",
	defaults:      map[string]string{"max_position_embeddings": "4096"},
	read: func(c *config, s *Spec) {
		layer := LayerSpec{
			Norm:   c.rmsNorm(1e-5),
			Mixer:  c.groupedQuery(s),
			MoE:    true,
			Router: RouterSpec{Kind: SoftmaxTopK, Normalise: c.boolOr("norm_topk_prob", false)},
			Expert: FFNSpec{Width: c.size("intermediate_size", maxWidth)},
		}
		layer.Mixer.QKNorm = QKNormWhole
		layer.Mixer.Rope = c.rope(layer.Mixer.HeadDim, 1e4)
		layer.Mixer.QKVBias = c.boolOr("attention_bias", false)
		layer.Mixer.OBias = layer.Mixer.QKVBias
		layer.Mixer.Clip = c.limit("clip_qkv")
		s.Experts = c.experts()
		s.fill(layer)
	},
}
