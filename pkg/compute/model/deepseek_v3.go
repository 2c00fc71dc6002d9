package model

// deepseekV3, and DeepSeek-R1: as DeepSeek-V2, with sigmoid scores, a bias of the
// scores for choosing, and groups by the sum of their best two.
//
// Source: transformers, models/deepseek_v3/{configuration,modeling}_deepseek_v3.py.
var deepseekV3 = &family{
	modelType:     "deepseek_v3",
	architectures: []string{"DeepseekV3ForCausalLM"},
	read:          readDeepseekV3,
	tensors:       deepseekV3Tensors,
}

// kimiK2 is DeepSeek-V3 under its own name.
var kimiK2 = &family{
	modelType:     "kimi_k2",
	architectures: []string{"DeepseekV3ForCausalLM"},
	read:          readDeepseekV3,
	tensors:       deepseekV3Tensors,
}

var deepseekV3Tensors = withTensors(deepseekTensors, map[Role]TensorRef{
	RouterCorrection: {Name: "model.layers.{l}.mlp.gate.e_score_correction_bias"},
})

func readDeepseekV3(c *config, s *Spec) {
	layer := deepseekLayer(c, s)
	layer.Mixer = c.latentAttention()
	layer.Router = deepseekV3Router(c)
	layer.Shared.Width = deepseekShared(c, layer.Expert.Width, 1)
	s.fill(layer)
	deepseekDense(c, s, 3)
	s.NextLayers = c.countOr("num_nextn_predict_layers", 0, maxLayers)
}

func deepseekV3Router(c *config) RouterSpec {
	if score := c.stringOr("scoring_func", "sigmoid"); score != "sigmoid" {
		c.refuse("scoring_func", score, "is not supported: only sigmoid is")
	}
	if method := c.stringOr("topk_method", "noaux_tc"); method != "noaux_tc" {
		c.refuse("topk_method", method, "is not supported: only noaux_tc is")
	}
	return RouterSpec{
		Kind:       SigmoidTopK,
		Normalise:  c.boolOr("norm_topk_prob", true),
		Scale:      float32(c.floatOr("routed_scaling_factor", 2.5)),
		Groups:     c.countOr("n_group", 8, maxExperts),
		TopGroups:  c.countOr("topk_group", 4, maxExperts),
		GroupPairs: true,
		Correction: true,
	}
}
